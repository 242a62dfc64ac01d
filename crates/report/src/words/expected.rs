//! Expected figures of the hardware, and the share of them that the run reaches.

use record::{Basis, Better, CaseLine, Expected};
use terms::Named as _;

use crate::Run;
use crate::document::{Align, Block, Table, Words};
use crate::escape::one_line;
use crate::number::{NONE, bytes, count, percent, three_digits};
use crate::study::{Estimate, Measured, ranks};

/// Figures that have a sentence; more are in the table.
const SAID: usize = 4;

/// A figure, compared with the best of its cases.
struct ComparedFigure<'r> {
    figure: &'r Expected,
    better: Better,
    unit: &'r str,
    /// The case, and its value with the interval.
    reached: Option<(&'r CaseLine, Estimate)>,
}

impl<'r> ComparedFigure<'r> {
    fn new(run: &'r Run, figure: &'r Expected) -> Option<Self> {
        let declared = run.benchmarks.iter().find(|declared| declared.name == figure.benchmark)?;
        let metric = declared.metrics.iter().find(|metric| metric.name == figure.metric)?;
        let reached = figure.best(&run.cases, metric.better).map(|(case, value)| {
            let measured = Measured::from_case(case);
            let estimate = measured.and_then(|measured| measured.estimate(&metric.name, "", Some(declared)));
            (case, estimate.unwrap_or_else(|| Estimate::new(value, None)))
        });
        Some(Self { figure, better: metric.better, unit: &metric.unit, reached })
    }

    /// 1 where the run is as good as expected, more where it is better.
    fn share(&self) -> Option<f64> {
        let (_, value) = self.reached?;
        Some(match self.better {
            Better::Higher => value.mid / self.figure.value,
            Better::Lower => self.figure.value / value.mid,
        })
    }

    fn value(&self, value: f64) -> String {
        let number = three_digits(value);
        if self.unit.is_empty() { number } else { format!("{number} {}", self.unit) }
    }

    /// `all_reduce over 8 ranks, backend nccl`.
    fn subject(&self) -> String {
        let parameters = &self.figure.parameters;
        let op = parameters.get("op").and_then(serde_json::Value::as_str);
        let mut text = op.unwrap_or(&self.figure.benchmark).to_owned();
        if let Some(number) = parameters.get("ranks").and_then(serde_json::Value::as_u64) {
            text += &format!(" over {}", ranks(u32::try_from(number).unwrap_or(u32::MAX)));
        }
        for (name, value) in parameters.iter().filter(|(name, _)| !matches!(name.as_str(), "op" | "ranks")) {
            text += &match (name.as_str(), value.as_u64()) {
                ("bytes", Some(size)) => format!(", {}", bytes(size)),
                _ => format!(", {name} {}", view::plain(value)),
            };
        }
        text
    }

    /// The metric without the unit that its name ends with: `busbw` of `busbw_gbs`.
    fn metric(&self) -> &str {
        let unit: String = self.unit.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        let name = self.figure.metric.as_str();
        let bare = name.strip_suffix(&unit).and_then(|bare| bare.strip_suffix('_'));
        bare.filter(|bare| !unit.is_empty() && !bare.is_empty()).unwrap_or(name)
    }

    /// `all_reduce over 8 ranks at 1 GiB: busbw 394 GB/s (390 to 398), 82% of what this hardware gives (480 GB/s, ...).`
    /// `others` are the same by other algorithms; `known` is what the record says of the algorithm.
    fn sentence(&self, others: &[&Self], known: Option<&str>) -> Option<String> {
        let ((case, value), share) = (self.reached?, self.share()?);
        let size = case.bytes.filter(|_| !self.figure.parameters.contains_key("bytes"));
        let size = size.map_or(String::new(), |size| format!(" at {}", bytes(size)));
        let reached = format!("{}{}", self.value(value.mid), value.range(three_digits));
        let speed = if self.better == Better::Lower { " of the speed" } else { "" };
        let exceeds = if share > 1.0 { ", more than is expected" } else { "" };
        let verdict = format!("{}{speed} of what this hardware gives", percent(share));
        let simulated = if case.simulated { "; simulated, not measured" } else { "" };
        let known = known.map_or(String::new(), |known| format!("; {known}"));
        let figures: Vec<String> = others.iter().chain([&self]).map(|one| one.figure_with_source()).collect();
        Some(format!(
            "{}{size}: {} {reached}, {verdict} ({}){exceeds}{simulated}{known}.",
            self.subject(),
            self.metric(),
            figures.join("; "),
        ))
    }

    /// `480 GB/s, measured, SOURCE`, behind its algorithm where it is a figure of one.
    fn figure_with_source(&self) -> String {
        let with = self.figure.with.as_ref().map_or(String::new(), |with| format!("{with}: "));
        format!("{with}{}, {}, {}", self.value(self.figure.value), self.figure.basis.name(), self.figure.source)
    }

    /// Whether another is about the same by another algorithm.
    fn is_by_another(&self, other: &Self) -> bool {
        self.figure.with != other.figure.with && self.figure.basis == other.figure.basis && self.is_like(other.figure)
    }

    /// Whether another figure is about the same.
    fn is_like(&self, other: &Expected) -> bool {
        let own = self.figure;
        (&own.benchmark, &own.metric, &own.parameters) == (&other.benchmark, &other.metric, &other.parameters)
    }
}

fn compared(run: &Run) -> Vec<ComparedFigure<'_>> {
    run.expected.iter().filter_map(|figure| ComparedFigure::new(run, figure)).collect()
}

/// A sentence for each figure that a case was measured for. Of a specification and a measurement of the same, the
/// measurement is said: it is what software reaches.
pub fn sentences(run: &Run) -> Vec<String> {
    let all = compared(run);
    let is_said = |one: &&ComparedFigure| {
        one.figure.basis == Basis::Measured
            || !run.expected.iter().any(|other| other.basis == Basis::Measured && one.is_like(other))
    };
    let mut said: Vec<String> = all.iter().filter(is_said).filter_map(|one| said_of(run, one, &all)).collect();
    let more = said.len().saturating_sub(SAID);
    said.truncate(SAID);
    if more > 0 {
        let more = count(more, "expected figure stands", "expected figures stand");
        said.push(format!("{more} in the table `Expected figures` of the report."));
    }
    said.iter().map(|sentence| one_line(sentence)).collect()
}

/// The sentence about a figure. Of the figures of several algorithms, the best one has it, and names the others.
fn said_of(run: &Run, one: &ComparedFigure<'_>, all: &[ComparedFigure<'_>]) -> Option<String> {
    let others: Vec<&ComparedFigure<'_>> = all.iter().filter(|other| one.is_by_another(other)).collect();
    let is_better = |other: &&ComparedFigure<'_>| match one.better {
        Better::Higher => other.figure.value > one.figure.value,
        Better::Lower => other.figure.value < one.figure.value,
    };
    if others.iter().any(is_better) {
        return None;
    }
    let known = run.imported.iter().find_map(|of| of.facts.get("NVLS")).filter(|_| !others.is_empty());
    one.sentence(&others, known.map(|state| format!("NVLS was {state}")).as_deref())
}

/// The table of all figures.
pub(crate) fn table(run: &Run) -> Vec<Block> {
    use Align::{Left, Right};
    let mut table = Table::new([
        ("figure", Left),
        ("expected", Right),
        ("basis", Left),
        ("source", Left),
        ("reached", Right),
        ("share", Right),
    ]);
    let all = compared(run);
    for one in &all {
        let value = |value: f64| format!("{} {}", three_digits(value), one.unit).trim_end().to_owned();
        let reached = one.reached.map(|(case, reached)| {
            let mark = if case.simulated { " (simulated)" } else { "" };
            format!("{}{}{mark}", value(reached.mid), reached.range(three_digits))
        });
        table.row([
            format!(
                "{}: {}{}",
                one.subject(),
                one.metric(),
                one.figure.with.as_ref().map_or(String::new(), |with| format!(" with {with}"))
            ),
            value(one.figure.value),
            one.figure.basis.name().to_owned(),
            one.figure.source.clone(),
            reached.unwrap_or_else(|| NONE.to_owned()),
            one.share().map_or_else(|| NONE.to_owned(), percent),
        ]);
    }
    if table.is_empty() {
        return Vec::new();
    }
    let mut note = "The correct case with the best median counts.".to_owned();
    if all.iter().any(|one| one.reached.is_none()) {
        note += &format!(" `{NONE}`: the run has no correct case for it.");
    }
    vec![Block::Table(table), Block::Paragraph(Words::prose(&note))]
}

/// The lowest share of an expected figure that a measured case reaches, and the sentence about it.
pub(crate) fn lowest(run: &Run) -> Option<(f64, String)> {
    let all = compared(run);
    // What a model computes says nothing of what this machine lacks.
    let measured = all.iter().filter(|one| one.reached.is_some_and(|(case, _)| !case.simulated));
    let shares = measured.filter_map(|one| Some((one.share()?, said_of(run, one, &all)?)));
    shares.min_by(|a, b| a.0.total_cmp(&b.0))
}
