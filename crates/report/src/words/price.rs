//! What a step and a million tokens cost, at the price that the user gives, and the energy of a step where the record has power.

use record::CaseLine;
use record::found::SENSORS;

use crate::Run;
use crate::document::{Align, Block, Table, Words};
use crate::number::{NONE, three_digits};
use crate::study::operations;

/// The metric of tokens that all ranks together train or serve in a second.
const TOKENS: &str = "tokens_per_s";
/// The metric of cases whose calls are steps of a job.
const STEP: &str = "step_s";
/// Tokens that a price is given for.
const MILLION: f64 = 1e6;

/// What is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaidFor {
    Gpu,
    Node,
}

/// Dollars for an hour of a GPU or of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    dollars: f64,
    unit: PaidFor,
}

impl std::str::FromStr for Price {
    type Err = String;

    /// `2.10/gpu-hour` or `16.80/node-hour`, with or without `$` before it.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write it as `2.10/gpu-hour` or `16.80/node-hour`";
        let (number, unit) = text.trim().trim_start_matches('$').split_once('/').ok_or(form)?;
        let unit = match unit.trim() {
            "gpu-hour" => PaidFor::Gpu,
            "node-hour" => PaidFor::Node,
            _ => return Err(form.to_owned()),
        };
        let dollars: f64 = number.trim().parse().map_err(|_| form)?;
        if !dollars.is_finite() || dollars < 0.0 {
            return Err(form.to_owned());
        }
        Ok(Self { dollars, unit })
    }
}

impl Price {
    /// Dollars for a second of all that a case used; None where it used nothing of the unit.
    fn of_second(self, case: &CaseLine) -> Option<f64> {
        let units = match self.unit {
            PaidFor::Gpu => (case.device != "cpu").then_some(case.ranks)?,
            PaidFor::Node => case.hosts.unwrap_or(1),
        };
        Some(self.dollars * f64::from(units) / 3600.0)
    }

    fn words(self) -> String {
        let unit = match self.unit {
            PaidFor::Gpu => "GPU",
            PaidFor::Node => "host",
        };
        format!("${} for an hour of a {unit}", three_digits(self.dollars))
    }
}

/// The section on the price; nothing where no price was given.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    let Some(price) = run.price else { return Vec::new() };
    let columns = [
        ("case", Align::Left),
        ("a step", Align::Right),
        ("1M tokens", Align::Right),
        ("energy of a step", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut constants = Vec::new();
    for operation in &operations(&run.cases, &run.benchmarks) {
        let before = table.rows().len();
        for configuration in &operation.configurations {
            let name = format!("{}, {}", operation.name, configuration.label);
            let points = configuration.points.iter().filter(|point| point.case.metrics.contains_key(STEP));
            points.filter_map(|point| row(&name, price, point.case)).for_each(|cells| table.row(cells));
        }
        if table.rows().len() > before && !operation.constants.is_empty() {
            constants.push(format!(" All of {}: {}.", operation.name, operation.constants));
        }
    }
    if table.is_empty() {
        let why = match price.unit {
            PaidFor::Gpu => {
                "No case measured a step on GPUs, so a price per GPU does not apply: use `--price DOLLARS/node-hour`."
            }
            PaidFor::Node => "No case measured a step.",
        };
        return vec![Block::Paragraph(why.into())];
    }
    let said = format!("At {}. Intervals come from the step time.{}", price.words(), constants.concat());
    let table = table.without_empty(NONE, &["1M tokens", "energy of a step"]);
    vec![Block::Paragraph(Words::prose(&said)), Block::Table(table)]
}

fn row(name: &str, price: Price, case: &CaseLine) -> Option<[String; 4]> {
    let (second, time) = (price.of_second(case)?, case.time_s.as_ref()?);
    let dollars = |seconds: f64| format!("${}", three_digits(seconds * second));
    let ranged = |factor: f64| match time.printed() {
        Some(([low, high], _)) => {
            format!("{} ({} to {})", dollars(time.median * factor), dollars(low * factor), dollars(high * factor))
        }
        None => dollars(time.median * factor),
    };
    // Tokens of a step: as many a second as the record has, over the time that they were computed from.
    let tokens = case.metric(TOKENS).map(|rate| rate * time.median).filter(|tokens| *tokens > 0.0);
    let of_tokens = tokens.map_or_else(|| NONE.to_owned(), |tokens| ranged(MILLION / tokens));
    // Sensors are those of one host, and of all its devices: where there are more than ranks, some are not the case's.
    let told = SENSORS.of(case).filter(|told| case.hosts.is_none() && told.devices.len() <= case.ranks as usize);
    let watts: Option<f64> = told.and_then(|sensors| {
        let devices: Option<Vec<f64>> = sensors.devices.iter().map(|device| device.power_w).collect();
        devices.filter(|devices| !devices.is_empty()).map(|devices| devices.iter().sum())
    });
    let energy = watts.map_or_else(|| NONE.to_owned(), |watts| format!("{} J", three_digits(watts * time.median)));
    Some([name.to_owned(), ranged(1.0), of_tokens, energy])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_dollars_for_an_hour() {
        let price = |text: &str| text.parse::<Price>();
        assert_eq!(price("2.10/gpu-hour"), Ok(Price { dollars: 2.1, unit: PaidFor::Gpu }));
        assert_eq!(price("$16/node-hour"), Ok(Price { dollars: 16.0, unit: PaidFor::Node }));
        for text in ["2.10", "2,10/gpu-hour", "-1/gpu-hour", "2/gpu", "NaN/gpu-hour", "/gpu-hour", ""] {
            assert!(price(text).is_err(), "{text}");
        }
    }
}
