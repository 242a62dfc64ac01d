//! Series of times, their medians and intervals, and the table of them.

use crate::seconds;

/// The times of one contestant, turn by turn.
pub(crate) struct Series {
    name: String,
    times: Vec<f64>,
}

/// A median and its 95% interval.
#[derive(Clone, Copy)]
struct Estimate {
    median: f64,
    low: f64,
    high: f64,
}

impl Estimate {
    /// The interval from order statistics: ranks n/2 -+ 0.98 sqrt(n) (the binomial distribution's normal limit).
    fn from_values(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let reach = 0.98 * (n as f64).sqrt();
        let at = |position: f64| sorted[(position.max(0.0) as usize).min(n - 1)];
        let middle = n as f64 / 2.0;
        Self { median: sorted[n / 2], low: at((middle - reach).floor()), high: at((middle + reach).ceil()) }
    }
}

impl Series {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), times: Vec::new() }
    }

    pub(crate) fn push(&mut self, time: f64) {
        self.times.push(time);
    }

    fn median(&self) -> f64 {
        Estimate::from_values(&self.times).median
    }
}

/// A line of the table.
pub(crate) struct Row {
    section: String,
    name: String,
    time: Estimate,
    against: Option<(String, f64, Estimate)>,
}

impl Row {
    /// A time alone.
    pub(crate) fn plain(section: &str, own: &Series) -> Self {
        Self {
            section: section.to_owned(),
            name: own.name.clone(),
            time: Estimate::from_values(&own.times),
            against: None,
        }
    }

    /// Time of the one over time of the other: how many of the others fit.
    pub(crate) fn ratio(section: &str, own: &Series, other: &Series) -> Self {
        let ratios: Vec<f64> = own.times.iter().zip(&other.times).map(|(own, other)| own / other).collect();
        let against = Some((other.name.clone(), other.median(), Estimate::from_values(&ratios)));
        Self { against, ..Self::plain(section, own) }
    }

    /// Speed as a share of the fastest limit's.
    pub(crate) fn limit(section: &str, own: &Series, limits: &[Series]) -> Self {
        let best = limits.iter().min_by(|a, b| a.median().total_cmp(&b.median())).expect("a limit");
        let ratios: Vec<f64> = own.times.iter().zip(&best.times).map(|(own, best)| best / own).collect();
        let against = Some((best.name.clone(), best.median(), Estimate::from_values(&ratios)));
        Self { against, ..Self::plain(section, own) }
    }
}

/// Prints rows under their sections.
pub(crate) fn print(rows: &[Row]) {
    let mut section = "";
    for row in rows {
        if row.section != section {
            section = &row.section;
            println!("\n{section}");
            println!("{:36} {:>10} {:>23}   ratio", "", "median", "95%");
        }
        let interval = format!("{} .. {}", seconds(row.time.low), seconds(row.time.high));
        print!("{:36} {:>10} {:>23}", row.name, seconds(row.time.median), interval);
        match &row.against {
            Some((name, time, ratio)) => {
                println!("   {:5.2} ({:.2} .. {:.2}) of {name} {}", ratio.median, ratio.low, ratio.high, seconds(*time))
            }
            None => println!(),
        }
    }
}
