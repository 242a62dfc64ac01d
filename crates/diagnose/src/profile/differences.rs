//! What takes longer in one analysis than in another.

use serde::Serialize;

use super::Analysis;
use super::device::TopKernel;
use super::series::{Series, median_bounds};
use super::steps::RankSteps;

/// The level of all differences together; each is tested at its share (Bonferroni).
const FAMILY_LEVEL: f64 = 0.05;
/// Time stamps are whole nanoseconds: less is rounding.
const RESOLUTION_S: f64 = 1e-9;

/// What a difference is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceOf {
    /// The whole step.
    Step,
    /// A phase, mean over ranks.
    Phase,
    /// An operation on a communicator, mean over ranks.
    Collective,
    /// A kernel, mean over the ranks with kernels.
    Kernel,
}

impl DifferenceOf {
    /// Word for this kind of part.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Phase => "phase",
            Self::Collective => "communication",
            Self::Kernel => "kernel",
        }
    }
}

/// One quantity in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileDifference {
    /// What kind of thing.
    pub part: DifferenceOf,
    /// Name of the quantity: `backward`, `all_reduce on world: transfer`, a kernel.
    pub name: String,
    /// Median seconds per step in the first analysis; 0 where it has none.
    pub before_s: f64,
    /// Median seconds per step in the second; 0 where it has none.
    pub after_s: f64,
    /// `after - before`: above 0 is slower.
    pub change_s: f64,
    /// The 95% interval of the change: from the intervals of both medians by the square-and-add method (Zou and Donner,
    /// Statistics in Medicine 27, 2008). None where one of them has none.
    pub ci95: Option<[f64; 2]>,
    /// Whether the interval at the level corrected for all differences excludes 0.
    pub certain: bool,
    /// Whether the steps of both are enough for that interval. Without it, nothing says that the change is noise.
    pub is_judged: bool,
}

/// All differences, by seconds per step: what got slower comes first, and what got faster last.
pub fn differences(before: &Analysis, after: &Analysis) -> Vec<ProfileDifference> {
    let (old, new) = (quantities(before), quantities(after));
    let none = Series::default();
    let mut pairs: Vec<(DifferenceOf, String, &Series, &Series)> = Vec::new();
    for (part, name, series) in &new {
        let partner = old.iter().find(|(other, other_name, _)| other == part && other_name == name);
        pairs.push((*part, name.clone(), partner.map_or(&none, |(.., series)| series), series));
    }
    for (part, name, series) in &old {
        if !new.iter().any(|(other, other_name, _)| other == part && other_name == name) {
            pairs.push((*part, name.clone(), series, &none));
        }
    }
    // An operation that is listed in one alone may be among those that the other leaves out.
    if [before, after].iter().any(|analysis| analysis.collectives.operations_left_out > 0) {
        pairs.retain(|(part, _, old, new)| {
            *part != DifferenceOf::Collective || !(old.values.is_empty() || new.values.is_empty())
        });
    }
    let level = FAMILY_LEVEL / pairs.len().max(1) as f64;
    let mut found: Vec<ProfileDifference> =
        pairs.into_iter().map(|(part, name, old, new)| difference(part, name, old, new, level)).collect();
    found.retain(|difference| difference.before_s > 0.0 || difference.after_s > 0.0);
    found.sort_by(|a, b| b.change_s.total_cmp(&a.change_s));
    found
}

fn difference(part: DifferenceOf, name: String, old: &Series, new: &Series, level: f64) -> ProfileDifference {
    let (before_s, after_s) = (old.median.unwrap_or(0.0), new.median.unwrap_or(0.0));
    let middles = [before_s, after_s];
    let corrected = interval(middles, [bounds(old, level), bounds(new, level)]);
    ProfileDifference {
        part,
        name,
        before_s,
        after_s,
        change_s: after_s - before_s,
        ci95: interval(middles, [ci95(old), ci95(new)]),
        is_judged: corrected.is_some(),
        certain: corrected.is_some_and(|[low, high]| low > RESOLUTION_S || high < -RESOLUTION_S),
    }
}

/// What is absent takes no time, and that is exact.
fn ci95(series: &Series) -> Option<[f64; 2]> {
    if series.values.is_empty() { Some([0.0; 2]) } else { series.ci95 }
}

fn bounds(series: &Series, level: f64) -> Option<[f64; 2]> {
    if series.values.is_empty() { Some([0.0; 2]) } else { median_bounds(&series.values, level) }
}

/// `d - sqrt((b - b_low)^2 + (a_high - a)^2)` to `d + sqrt((b_high - b)^2 + (a - a_low)^2)`, d = b - a.
fn interval([old, new]: [f64; 2], [old_bounds, new_bounds]: [Option<[f64; 2]>; 2]) -> Option<[f64; 2]> {
    let ([old_low, old_high], [new_low, new_high]) = (old_bounds?, new_bounds?);
    let change = new - old;
    Some([change - (new - new_low).hypot(old_high - old), change + (new_high - new).hypot(old - old_low)])
}

type Quantity = (DifferenceOf, String, Series);
type PhaseOf = (&'static str, fn(&RankSteps) -> &Series);

fn quantities(analysis: &Analysis) -> Vec<Quantity> {
    let mut found = vec![(DifferenceOf::Step, "step".to_owned(), analysis.steps.step.clone())];
    let phases: [PhaseOf; 6] = [
        ("input", |rank| &rank.input),
        ("forward", |rank| &rank.forward),
        ("backward", |rank| &rank.backward),
        ("optimizer", |rank| &rank.optimizer),
        ("wait", |rank| &rank.wait),
        ("other", |rank| &rank.other),
    ];
    for (name, of) in phases {
        found.push((DifferenceOf::Phase, name.to_owned(), Series::mean_of(analysis.steps.ranks.iter().map(of))));
    }
    for totals in &analysis.collectives.operations {
        let name = format!("{} on {}", totals.operation, totals.group);
        match (&totals.transfer_s, &totals.wait_s) {
            (Some(transfer), Some(wait)) => {
                found.push((DifferenceOf::Collective, format!("{name}: transfer"), transfer.clone()));
                found.push((DifferenceOf::Collective, format!("{name}: waiting for ranks"), wait.clone()));
            }
            _ => found.push((DifferenceOf::Collective, name, totals.time_s.clone())),
        }
    }
    let kernel = |kernel: &TopKernel| (DifferenceOf::Kernel, kernel.name.clone(), kernel.per_step_s.clone());
    found.extend(analysis.kernels.iter().map(kernel));
    found
}
