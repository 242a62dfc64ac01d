//! The constants of a machine, from what was measured there: what extends curves to sizes and rank counts that were not.

use record::{CaseLine, Constant, ConstantName, Slowdowns, TransferTime};
use serde_json::Value;
use terms::Collective;

use super::profile::MeasuredOperation;
use super::shapes::TINY;

/// The least spread of a constant: two machines of one kind differ by more than what one of them measures of itself.
const LEAST_SPREAD: f64 = 0.03;
/// The spread of what only few numbers tell.
const ROUGH: f64 = 0.3;
/// Products within this factor of the fastest rate, and of the most work, count as large.
const NEAR_FASTEST: f64 = 0.75;
/// Operations that move at least so much show the rate of memory, and not what they take in addition.
const MUCH: u64 = 1 << 20;
/// Operations that move less have nothing but what they take in addition.
const LITTLE: u64 = 128;
/// A time that was not seen at all: a nanosecond, which changes nothing.
const UNSEEN_S: f64 = 1e-9;
/// Standard deviation of a normal distribution over its median absolute deviation.
const NORMAL: f64 = 1.4826;

/// All constants that the results tell.
pub(super) fn constants(
    measured: &[MeasuredOperation],
    transfers: &[TransferTime],
    slowdowns: Option<&Slowdowns>,
    lines: &[&CaseLine],
) -> Vec<Constant> {
    // All ranks at once are how steps run.
    let most = measured.iter().map(|one| one.time.ranks).max().unwrap_or(1);
    let at_once: Vec<&MeasuredOperation> = measured.iter().filter(|one| one.time.ranks == most).collect();
    let rates = |one: &&&MeasuredOperation| one.shape.flops == 0.0 && one.shape.bytes >= MUCH;
    let rates: Vec<f64> = at_once.iter().filter(rates).map(|one| one.shape.bytes as f64 / one.time.seconds).collect();
    let memory = middle(ConstantName::MemoryRate, &rates);
    let mut found = of_products(&at_once, memory.as_ref().map(|constant| constant.value));
    found.extend(memory);
    let short: Vec<f64> = at_once.iter().filter(|one| one.shape.bytes < LITTLE).map(|one| one.time.seconds).collect();
    found.extend(middle(ConstantName::OperationTime, &short));
    found.extend(of_steps(lines));
    found.extend(of_links(transfers));
    found.extend(slowdowns.map(|both| constant(ConstantName::OverlapSlowdown, both.computation, ROUGH)));
    found
}

fn constant(name: ConstantName, value: f64, spread: f64) -> Constant {
    Constant { name, value, unit: name.unit().to_owned(), spread: spread.max(LEAST_SPREAD) }
}

/// The median, with the spread of the values around it; None without any.
fn middle(name: ConstantName, values: &[f64]) -> Option<Constant> {
    if values.is_empty() {
        return None;
    }
    let median = stats::median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value / median).ln().abs()).collect();
    let spread = if values.len() < 3 { ROUGH } else { NORMAL * stats::median(&deviations) };
    Some(constant(name, median, spread))
}

/// The rate of large products, what small ones take in addition to moving their matrices, and the rate of attention.
fn of_products(measured: &[&MeasuredOperation], memory: Option<f64>) -> Vec<Constant> {
    let of = |prefix: &'static str| {
        move |one: &&&MeasuredOperation| one.time.kernel.starts_with(prefix) && one.shape.flops > 0.0
    };
    let rate = |one: &MeasuredOperation| one.shape.flops / one.time.seconds;
    let products: Vec<&&MeasuredOperation> = measured.iter().filter(of("product")).collect();
    let Some(fastest) = products.iter().map(|one| rate(one)).reduce(f64::max) else { return Vec::new() };
    let near: Vec<f64> = products.iter().map(|one| rate(one)).filter(|rate| *rate >= NEAR_FASTEST * fastest).collect();
    let reached = stats::median(&near);
    let mut found: Vec<Constant> = middle(ConstantName::ProductRate, &near).into_iter().collect();
    let moving = |one: &MeasuredOperation| memory.map_or(0.0, |rate| one.shape.bytes as f64 / rate);
    let lost = |one: &&&MeasuredOperation| (one.time.seconds - moving(one)) * reached - one.shape.flops;
    let lost: Vec<f64> = products.iter().map(lost).filter(|flops| *flops > 0.0).collect();
    found.extend(middle(ConstantName::ProductRamp, &lost));
    let attention: Vec<f64> = measured.iter().filter(of("attention")).map(|one| rate(one) / reached).collect();
    found.extend(middle(ConstantName::AttentionShare, &attention));
    found
}

/// What steps take whatever they compute: from those of a model that computes next to nothing, in one micro-batch and in several.
fn of_steps(lines: &[&CaseLine]) -> Option<Constant> {
    let whole = |line: &CaseLine, name: &str| line.parameters.get(name).and_then(Value::as_u64);
    let step = |line: &&CaseLine| {
        let parts = whole(line, "micro_batches").unwrap_or(1);
        let seconds = line.time_s.as_ref()?.median;
        let is_own = line.benchmark == "training" && line.ranks == 1 && whole(line, "width") == Some(TINY as u64);
        (is_own && parts > 0).then_some((parts as f64, seconds))
    };
    let mut steps: Vec<(f64, f64)> = lines.iter().filter_map(step).collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((few, short), (many, long)) = (steps.first()?, steps.last()?);
    let each_s = (many > few).then(|| (long - short) / (many - few))?;
    Some(constant(ConstantName::StepTime, (short - few * each_s).max(UNSEEN_S), ROUGH))
}

/// Rate and latency within a node.
fn of_links(transfers: &[TransferTime]) -> Vec<Constant> {
    let is_one = |transfer: &&TransferTime| transfer.operation == Collective::SendRecv && transfer.groups == 1;
    let mut own: Vec<&TransferTime> = transfers.iter().filter(is_one).collect();
    own.sort_by_key(|transfer| (transfer.ranks, transfer.bytes));
    let (Some(smallest), Some(largest)) = (own.first(), own.last()) else { return Vec::new() };
    let rate = largest.bytes as f64 / largest.seconds;
    vec![constant(ConstantName::LinkLatency, smallest.seconds, ROUGH), constant(ConstantName::LinkRate, rate, ROUGH)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::profile::tests::line;
    use super::*;

    #[test]
    fn steps_of_one_and_of_many_micro_batches_tell_what_a_step_takes() {
        let step = |parts: u64| {
            let time = 20e-6 + parts as f64 * 12e-6;
            line("training", &json!({"width": TINY, "micro_batches": parts}), 1, &[time])
        };
        let lines = [step(16), step(1)];
        let found = of_steps(&lines.iter().collect::<Vec<_>>()).unwrap();
        assert!((found.value / 20e-6 - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(of_steps(&[&lines[0]]), None, "one step does not tell passes from steps");
        let wide = line("training", &json!({"width": 256, "micro_batches": 16}), 1, &[1.0]);
        assert_eq!(of_steps(&[&lines[1], &wide]), None, "a model that computes does not tell");
    }

    #[test]
    fn constants_that_nothing_tells_are_absent() {
        assert!(constants(&[], &[], None, &[]).is_empty());
    }
}
