//! What is expected of a file's results: figures of the hardware (`--expect`), and gates (`--gate`) as runs have them.

use std::path::Path;
use std::str::FromStr;

use benchmarks::Gate;
use import::ImportedRecord;
use record::{About, Better, CaseLine, Expected, PlanErrors};
use terms::{Error, Status};

use crate::hardware;

/// A gate, as it is typed.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// A share of every expected figure.
    Share(f64),
    /// A bound on a metric, `busbw_gbs>=370`: which benchmarks have the metric is known with the file.
    Bound(String),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(share) = text.trim().strip_suffix('%') else { return Ok(Self::Bound(text.trim().to_owned())) };
        let share = share.trim().parse::<f64>().ok().filter(|share| *share > 0.0 && share.is_finite());
        share.map(|share| Self::Share(share / 100.0)).ok_or_else(|| "a share is above 0%, for example 90%".to_owned())
    }
}

/// All that is expected of the records of a file.
pub struct Gates<'g> {
    /// Figures that take the place of what is known of the GPUs that the file names.
    expected: Option<Vec<Expected>>,
    wanted: &'g [Wanted],
}

impl<'g> Gates<'g> {
    /// Figures (a plan, or a kind of hardware) and gates, as they are typed.
    ///
    /// # Errors
    /// When the figures cannot be read.
    pub fn new(expect: Option<&str>, wanted: &'g [Wanted]) -> Result<Self, PlanErrors> {
        Ok(Self { expected: expect.map(figures).transpose()?, wanted })
    }

    /// Whether nothing is expected beyond what is known of the GPUs.
    pub fn is_empty(&self) -> bool {
        self.expected.is_none() && self.wanted.is_empty()
    }

    /// Notes in the records of a file what is expected of them and which gates they miss. True where one is missed.
    ///
    /// # Errors
    /// When no case of the file could miss a gate: it would always hold.
    pub fn apply(&self, records: &mut [ImportedRecord]) -> Result<bool, Error> {
        if let Some(expected) = &self.expected {
            records.iter_mut().for_each(|record| record.file.plan.expected.clone_from(expected));
        }
        for wanted in self.wanted {
            let held: Vec<Result<bool, Error>> = records
                .iter_mut()
                .map(|record| match wanted {
                    Wanted::Share(share) => Ok(self::share(*share, record)),
                    Wanted::Bound(text) => bound(text, record),
                })
                .collect();
            if !held.iter().any(|held| matches!(held, Ok(true))) {
                return Err(held.into_iter().find_map(Result::err).unwrap_or_else(|| nothing_held(wanted, records)));
            }
        }
        if !self.wanted.is_empty() {
            records.iter_mut().for_each(wrong_results);
        }
        Ok(records.iter().any(|record| record.lines.iter().any(|line| !line.gates_missed.is_empty())))
    }
}

/// Expects of results what is known of the GPUs that their file names: of one host, whose links the figures are of. A file that
/// names no host, or several, may be of others.
pub fn expect_known(imported: &mut ImportedRecord) {
    let file = &mut imported.file;
    let is_one_host = file.hosts.is_empty() && !file.machine.host.is_empty();
    let model = file.imported.as_ref().and_then(|of| of.facts.get("device"));
    if let Some(model) = model.filter(|_| is_one_host) {
        file.plan.expected = hardware::expected_of(model);
    }
}

/// What its own program found wrong keeps no gate, however fast it was.
fn wrong_results(record: &mut ImportedRecord) {
    for line in record.lines.iter_mut().filter(|line| line.status == Status::Failed) {
        let why = line.reason.clone().unwrap_or_default();
        line.gates_missed.push(format!("a correct result: {why}"));
    }
}

fn nothing_held(wanted: &Wanted, records: &[ImportedRecord]) -> Error {
    let name = records.first().map_or("", |record| record.file.plan.experiment.as_str());
    match wanted {
        Wanted::Share(_) => Error::new(format!("no case of {name} has an expected figure"))
            .cause("the file names no GPU with known figures, or has no correct case for them")
            .hint("`--expect NAME` names the hardware (`rankmark list hardware`), `--gate busbw_gbs>=370` a bound"),
        Wanted::Bound(text) => Error::new(format!("no case of {name} has the metric of `{text}`"))
            .hint("failed cases and training logs do not have it; gate on a metric that the output lists"),
    }
}

/// Whether a figure is of a right case of the record; those below the share miss the gate.
fn share(share: f64, record: &mut ImportedRecord) -> bool {
    let (lines, figures) = (&mut record.lines, record.file.plan.expected.clone());
    let mut held = false;
    for figure in highest(&figures) {
        let Some(better) = better_of(&figure.benchmark, &figure.metric) else { continue };
        let Some((best, value)) = figure.best(lines, better).map(|(line, value)| (line.id.clone(), value)) else {
            continue;
        };
        held = true;
        let reached = match better {
            Better::Higher => value / figure.value,
            Better::Lower => figure.value / value,
        };
        if reached < share {
            let what = format!(
                "{:.0}% of {} {}: it is {value:.4}, {:.1}% ({})",
                share * 100.0,
                figure.value,
                figure.metric,
                reached * 100.0,
                figure.source
            );
            lines.iter_mut().filter(|line| line.id == best).for_each(|line| line.gates_missed.push(what.clone()));
        }
    }
    held
}

/// The figures of a plan, or of a kind of hardware.
fn figures(of: &str) -> Result<Vec<Expected>, PlanErrors> {
    let (name, text) = match (Path::new(of).exists(), hardware::named(of)) {
        (false, Ok(name)) => (name.to_owned(), hardware::text(name)),
        (true, _) => {
            let text =
                std::fs::read_to_string(of).map_err(|error| Error::new(format!("cannot read {of}")).cause(error))?;
            (of.to_owned(), text)
        }
        (false, Err(hint)) => {
            return Err(Error::new(format!("{of} is neither a file nor a kind of hardware")).hint(hint).into());
        }
    };
    let plan = record::plan::read(&text, &name, &benchmarks::abouts(), &[])?;
    match plan.expected.is_empty() {
        true => Err(Error::new(format!("{name} has no expected figures"))
            .hint("docs/how-to/expected.md shows how a plan lists them")
            .into()),
        false => Ok(plan.expected),
    }
}

/// The figures without those that another algorithm or basis exceeds: what the hardware gives is the best of them. Of a
/// specification and a measurement, the measurement is what software reaches.
fn highest(figures: &[Expected]) -> Vec<&Expected> {
    let is_like = |a: &Expected, b: &Expected| {
        (&a.benchmark, &a.metric, &a.parameters) == (&b.benchmark, &b.metric, &b.parameters)
    };
    let is_below = |figure: &Expected, other: &Expected| {
        let exceeds = match better_of(&figure.benchmark, &figure.metric) {
            Some(Better::Lower) => other.value < figure.value,
            _ => other.value > figure.value,
        };
        let is_softer = |figure: &Expected| figure.basis == record::Basis::Measured;
        is_like(figure, other)
            && match (is_softer(figure), is_softer(other)) {
                (false, true) => true,
                (true, false) => false,
                _ => exceeds,
            }
    };
    figures.iter().filter(|figure| !figures.iter().any(|other| is_below(figure, other))).collect()
}

fn about_of(benchmark: &str) -> Option<&'static About> {
    benchmarks::abouts().into_iter().find(|about| about.name == benchmark)
}

fn better_of(benchmark: &str, metric: &str) -> Option<Better> {
    about_of(benchmark)?.metrics.iter().find(|known| known.name == metric).map(|known| known.better)
}

/// A bound holds for an operation if a case of it keeps it: small messages reach no bandwidth. Whether a right case has its
/// metric.
///
/// # Errors
/// When no benchmark of the record has such a metric.
fn bound(text: &str, record: &mut ImportedRecord) -> Result<bool, Error> {
    let mut held = false;
    let mut unknown = None;
    let of = |line: &CaseLine| (line.benchmark.clone(), line.parameters.get("op").cloned(), line.ranks);
    let mut groups: Vec<_> = record.lines.iter().map(of).collect();
    groups.dedup();
    let mut done = Vec::new();
    for group in groups {
        if done.contains(&group) {
            continue;
        }
        let declared = about_of(&group.0).map(|about| Gate::parse(text, about));
        let gate = match declared {
            Some(Ok(gate)) => gate,
            Some(Err(error)) => {
                unknown = Some(error);
                continue;
            }
            None => continue,
        };
        let is_right =
            |line: &&mut CaseLine| of(line) == group && line.status == Status::Ok && line.wrong.unwrap_or(0) == 0;
        let mut lines: Vec<&mut CaseLine> = record.lines.iter_mut().filter(is_right).collect();
        let missed: Option<Vec<String>> = lines.iter().map(|line| gate.miss(line)).collect();
        held |= !lines.is_empty();
        // The last size is the largest in the files of all tools.
        if let (Some(missed), Some(last)) = (missed, lines.last_mut())
            && let Some(why) = missed.last()
        {
            last.gates_missed.push(format!("{text}: {why}, and no other case meets it"));
        }
        done.push(group);
    }
    match unknown.filter(|_| !held) {
        Some(error) => Err(Error::from(error)),
        None => Ok(held),
    }
}

/// What is said of a record at the end of an import.
pub struct ImportVerdict {
    /// Sentences on the expected figures.
    pub expected: Vec<String>,
    /// Gates that were missed.
    pub missed: Vec<String>,
}

/// What the figures of the hardware and the gates say of a record.
pub fn verdict(run: &report::Run) -> ImportVerdict {
    let missed = run.cases.iter().flat_map(|line| &line.gates_missed).map(|gate| view::one_line(gate)).collect();
    ImportVerdict { expected: report::expected(run), missed }
}
