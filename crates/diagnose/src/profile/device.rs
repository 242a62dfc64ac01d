//! Why devices are idle, and which kernels take the time.

use serde::Serialize;
use std::collections::HashMap;
use trace::timeline::{Kind, NameId, Names};

use super::lanes::{CommonSteps, Lanes};
use super::series::Series;

/// Kernels that a list of those with the most time has.
pub const LISTED_KERNELS: usize = 20;
/// Kernels that are kept for comparisons with another analysis: more than jobs have.
const MOST_KERNELS: usize = 4096;

/// Idle time of devices by cause, in seconds per step, mean over the ranks with kernels. `host_bound + communication + input +
/// other` is the time of a step without a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Idle {
    /// Ranks with kernels.
    pub ranks: Vec<u32>,
    /// Seconds of a step; of the whole recording where no step is on all ranks.
    pub of_s: f64,
    /// Without a kernel and a copy.
    pub idle_s: Series,
    /// Idle while the step's thread works: launches come too slowly.
    pub host_bound_s: Series,
    /// Idle while communication runs or is waited for.
    pub communication_s: Series,
    /// Idle while the step's thread waits for data.
    pub input_s: Series,
    /// Idle for any other reason.
    pub other_s: Series,
}

/// One kernel by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopKernel {
    /// Name of the kernel.
    pub name: String,
    /// Launches in the steps, all ranks.
    pub count: u64,
    /// Seconds of the kernel in the steps, all ranks.
    pub total_s: f64,
    /// `total_s` over the time of all kernels.
    pub share: f64,
    /// Seconds of the kernel per step, mean over the ranks with kernels.
    pub per_step_s: Series,
}

/// Idle time by cause; None without kernels.
pub(super) fn idle(prepared: &CommonSteps) -> Option<Idle> {
    let with: Vec<&Lanes> = prepared.ranks.iter().filter(|lanes| lanes.has_device()).collect();
    if with.is_empty() || prepared.numbers.is_empty() {
        return None;
    }
    let mut sums: [Vec<f64>; 5] = std::array::from_fn(|_| vec![0.0; prepared.numbers.len()]);
    for lanes in &with {
        let kernels = lanes.per_step(&lanes.kernels);
        let communication = lanes.per_step(&lanes.blocked);
        let taken = lanes.kernels.or(&lanes.blocked);
        let input = lanes.per_step(&lanes.input.minus(&taken));
        let working = lanes.forward.or(&lanes.backward).or(&lanes.optimizer).or(&host_spans(lanes));
        let host = lanes.per_step(&working.minus(&taken.or(&lanes.input)));
        for (step, [begin, end]) in lanes.windows.iter().enumerate() {
            let idle = (end - begin) as f64 * 1e-9 - kernels[step];
            let other = (idle - communication[step] - input[step] - host[step]).max(0.0);
            let parts = [idle, host[step], communication[step], input[step], other];
            sums.iter_mut().zip(parts).for_each(|(sum, part)| sum[step] += part / with.len() as f64);
        }
    }
    let [idle_s, host_bound_s, communication_s, input_s, other_s] = sums.map(Series::new);
    let ranks = with.iter().map(|lanes| lanes.timeline.rank).collect();
    let of_ns: i64 = with.iter().flat_map(|lanes| &lanes.windows).map(|[begin, end]| end - begin).sum();
    let of_s = of_ns as f64 * 1e-9 / (with.len() * prepared.numbers.len()) as f64;
    Some(Idle { ranks, of_s, idle_s, host_bound_s, communication_s, input_s, other_s })
}

fn host_spans(lanes: &Lanes) -> super::intervals::Intervals {
    let spans = lanes.timeline.spans.iter().filter(|span| span.kind == Kind::Host);
    super::intervals::Intervals::union_of(spans.map(|span| [span.begin_ns, span.end_ns]).collect())
}

/// Kernels by total time, the longest first. A kernel counts in the step in which it begins.
pub(super) fn top_kernels(prepared: &CommonSteps, names: &Names) -> Vec<TopKernel> {
    let steps = prepared.numbers.len();
    let ranks = prepared.ranks.iter().filter(|lanes| lanes.has_device()).count().max(1) as f64;
    let mut found: HashMap<NameId, (u64, Vec<i64>)> = HashMap::new();
    for lanes in &prepared.ranks {
        for span in lanes.timeline.spans.iter().filter(|span| span.kind == Kind::Kernel) {
            let Some(step) = lanes.step_at(span.begin_ns).filter(|_| span.end_ns >= span.begin_ns) else { continue };
            let (count, times) = found.entry(span.name).or_insert_with(|| (0, vec![0; steps]));
            *count += 1;
            times[step] += span.duration_ns();
        }
    }
    let mut totals: Vec<(NameId, u64, i64, Vec<i64>)> =
        found.into_iter().map(|(name, (count, times))| (name, count, times.iter().sum(), times)).collect();
    let all: i64 = totals.iter().map(|(_, _, total, _)| total).sum();
    totals.sort_by_key(|(name, _, total, _)| (std::cmp::Reverse(*total), *name));
    totals.truncate(MOST_KERNELS);
    let kernel = |(name, count, total, times): (NameId, u64, i64, Vec<i64>)| TopKernel {
        name: names.get(name).to_owned(),
        count,
        total_s: total as f64 * 1e-9,
        share: if all > 0 { total as f64 / all as f64 } else { 0.0 },
        per_step_s: Series::new(times.into_iter().map(|time| time as f64 * 1e-9 / ranks).collect()),
    };
    totals.into_iter().map(kernel).collect()
}
