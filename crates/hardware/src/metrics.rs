//! Metrics of a case from its trials.

use std::collections::{BTreeMap, HashMap};

use contract::Measured;
use contract::runtime::is_pytorch;
use measure::Trial;
use record::{CaseLine, Ceiling, CeilingKind, Demand, Profile, found};
use serde_json::{Map, Value, json};
use stats::{PairTimes, PairVerdict};
use terms::{Dtype, Named};

use super::declared::{
    CACHE, CEILING, GBS, GFLOPS, LOOP, MOVED_GBS, NODE_GBS, PAIR_GBS, PAIR_S, PAIR_TIMES, PAIR_US, PAIRS, RESULTS,
};
use super::fields::{Area, CUDA, Test};
use super::pairs_found::{Cells, ListedPairs, Pairs, SlowPair, SlowRank};
use super::resolve::Task;
use super::results::{OPERATIONS, RoundResults};
use super::tournament::rounds;
use super::{HardwareCase, compute, memory};

/// The metrics of a case.
pub(super) fn for_case(case: &HardwareCase, measured: &Measured<'_>) -> Map<String, Value> {
    let task = &case.task;
    let seconds = measured.times.median;
    let mut metrics = Map::new();
    // In units of 1e9 a second.
    let rate = match task.test.area() {
        Area::Memory => bandwidth(case, seconds, &mut metrics),
        Area::Compute => {
            let said = |details: &Map<String, Value>| details.get("operations").and_then(Value::as_f64);
            let said = measured.trials.last().and_then(|trial| trial.details.first()).and_then(said);
            let rate = compute::operations(task, said) * f64::from(task.ranks) / seconds / 1e9;
            GFLOPS.put(&mut metrics, rate);
            rate
        }
        Area::Storage => {
            let rate = task.bytes as f64 / seconds / 1e9;
            GBS.put(&mut metrics, rate);
            CACHE.put(&mut metrics, "cold".to_owned());
            rate
        }
        Area::Transfer => {
            // The time of a load says nothing of a bandwidth.
            let Some(copies) = Some(task.test.copies()).filter(|copies| *copies > 0) else { return metrics };
            let rate = f64::from(task.ranks) * (copies * task.bytes) as f64 / seconds / 1e9;
            GBS.put(&mut metrics, rate);
            rate
        }
        Area::Pairs => return pairs(case, measured.trials),
        Area::Nodes => return nodes(measured.trials),
        Area::Results => return results(measured.trials),
        Area::All => f64::NAN,
    };
    let details = measured.trials.last().and_then(|trial| trial.details.first());
    let name = details.and_then(|details| details.get("loop").or_else(|| details.get("multiplied")));
    LOOP.put(&mut metrics, name.cloned().unwrap_or_default());
    put_ceiling(&mut metrics, case, rate);
    metrics
}

/// What a profile keeps of the case, which reached so many 1e9 bytes or operations a second.
fn put_ceiling(metrics: &mut Map<String, Value>, HardwareCase { fields, task, .. }: &HardwareCase, rate: f64) {
    let area = task.test.area();
    let kind = match area {
        Area::Memory => CeilingKind::Memory,
        Area::Compute => CeilingKind::Compute,
        Area::Pairs if task.test != Test::Latency => CeilingKind::Link,
        Area::Storage => CeilingKind::Storage,
        Area::Transfer if task.test.copies() == 1 => CeilingKind::Transfer,
        Area::Transfer | Area::Pairs | Area::Nodes | Area::Results | Area::All => return,
    };
    if !rate.is_finite() {
        return;
    }
    let ceiling = Ceiling {
        kind,
        name: task.test.name().to_owned(),
        rate: rate * 1e9,
        threads: if area == Area::Pairs { 1 } else { task.ranks * task.threads as u32 },
        bytes: match area {
            Area::Compute => None,
            Area::Pairs => Some(task.bytes),
            _ => Some(task.bytes * u64::from(task.ranks)),
        },
        dtype: (area == Area::Compute).then(|| fields.arithmetic(task.dtype)),
        device: fields.is_on_gpus().then(|| CUDA.to_owned()),
        backend: fields.backend.clone().filter(|_| area == Area::Pairs),
    };
    CEILING.put(metrics, ceiling);
}

/// What a run measured of its machine: of each kind of ceiling the two fastest, because no product is its own ceiling.
pub(super) struct Ceilings<'a>(Vec<(&'a str, Ceiling)>);

impl<'a> Ceilings<'a> {
    pub(super) fn from_lines(all: &[&'a CaseLine]) -> Self {
        let ceilings = |line: &&'a CaseLine| (line.id.as_str(), Profile::ceilings([*line]));
        let one = |(id, found): (&'a str, Vec<Ceiling>)| found.into_iter().map(move |ceiling| (id, ceiling));
        let mut found: Vec<(&str, Ceiling)> = all.iter().map(ceilings).flat_map(one).collect();
        found.sort_by(|(_, a), (_, b)| b.rate.total_cmp(&a.rate));
        let mut kept: HashMap<_, usize> = HashMap::new();
        found.retain(|(_, ceiling)| {
            // The rate of a product does not depend on its size.
            let bytes = ceiling.bytes.filter(|_| ceiling.kind != CeilingKind::Compute);
            let of = [&ceiling.device, &ceiling.dtype, &ceiling.backend].map(Option::clone);
            let kept = kept.entry((ceiling.kind, of, ceiling.threads, bytes)).or_default();
            *kept += 1;
            *kept <= 2
        });
        Self(found)
    }

    /// The ceilings that other cases measured.
    fn of_other_cases(&self, line: &CaseLine) -> Vec<Ceiling> {
        self.0.iter().filter(|(id, _)| *id != line.id).map(|(_, ceiling)| ceiling.clone()).collect()
    }
}

/// Where a product lies below the ceilings that the same run measured.
pub(super) fn roofline(line: &CaseLine, ceilings: &Ceilings<'_>) -> Map<String, Value> {
    let parameter = |name: &str| line.parameters.get(name);
    let (Some(side), Some(time)) = (parameter("size").and_then(Value::as_f64), &line.time_s) else { return Map::new() };
    let dtype = parameter("dtype").and_then(Value::as_str).unwrap_or("f32");
    let element = compute::matrices(Dtype::from_name(dtype).unwrap_or(Dtype::F32));
    let matrices = side * side * element as f64;
    let dtype = parameter("matmul").and_then(Value::as_str).filter(|way| *way != "auto").unwrap_or(dtype);
    let threads = parameter("threads").and_then(Value::as_u64).unwrap_or(1) as u32 * line.ranks;
    let copies = f64::from(line.ranks);
    let demand = Demand {
        threads,
        working_set: (matrices * copies) as u64,
        traffic: matrices * copies,
        flops: 2.0 * side.powi(3) * copies,
        device: parameter("device").and_then(Value::as_str).unwrap_or("cpu"),
        ..Demand::of_cpu(dtype)
    };
    let profile = Profile { ceilings: ceilings.of_other_cases(line), ..Profile::default() };
    let placed = profile.roof(&demand).map(|roof| roof.point(&demand, time.median));
    let mut metrics = Map::new();
    if let Some(point) = placed {
        found::ROOFLINE.put(&mut metrics, point);
    }
    metrics
}

/// Bytes that the loop names over time, and those that memory moves. Gives the first, in GB/s.
fn bandwidth(case: &HardwareCase, seconds: f64, metrics: &mut Map<String, Value>) -> f64 {
    let task = &case.task;
    let elements = memory::elements(task.test, task.bytes) as f64 * f64::from(task.ranks);
    let rate = |bytes: u64| bytes as f64 * elements / seconds / 1e9;
    let counted = rate(task.test.counted_bytes());
    GBS.put(metrics, counted);
    // What torch's loops and the caches of GPUs read before they write is not known.
    if !is_pytorch(&case.case) && !case.fields.is_on_gpus() {
        MOVED_GBS.put(metrics, rate(task.test.moved_bytes()));
    }
    counted
}

/// Seconds of a message between the ranks of each pair that the tournament has: the median over trials of what the lower rank's
/// clock says. Of copies, which each of the two reads, the slower direction counts. None where a pair has no time.
fn pair_times(task: &Task, trials: &[Trial]) -> Option<PairTimes> {
    let pairs = rounds(task.ranks).into_iter().flatten();
    let time = |[low, high]: [u32; 2]| {
        let there = of_pair(low, high, trials)?;
        if task.test == Test::PeerCopy { Some(there.max(of_pair(high, low, trials)?)) } else { Some(there) }
    };
    let times = pairs.map(|pair| Some((pair, time(pair)?)));
    let mut pairs: Vec<([u32; 2], f64)> = times.collect::<Option<_>>()?;
    pairs.sort_by_key(|(pair, _)| *pair);
    Some(PairTimes { members: task.ranks as usize, pairs })
}

/// The median over trials of what one rank measured with another.
fn of_pair(of: u32, with: u32, trials: &[Trial]) -> Option<f64> {
    let with = with.to_string();
    let time = |trial: &Trial| trial.details.get(of as usize)?.get("pairs")?.get(&with)?.as_f64();
    let times: Vec<f64> = trials.iter().filter_map(time).collect();
    (!times.is_empty()).then(|| stats::median(&times))
}

/// All pairs as a square; both ways differ where who reads counts.
fn square(task: &Task, times: &PairTimes, trials: &[Trial]) -> Option<Vec<Vec<f64>>> {
    let mut square = vec![vec![f64::NAN; times.members]; times.members];
    for ([low, high], time) in &times.pairs {
        let [there, back] = match task.test {
            Test::PeerCopy => [of_pair(*low, *high, trials)?, of_pair(*high, *low, trials)?],
            _ => [*time; 2],
        };
        let [low, high] = [*low, *high].map(|rank| rank as usize);
        (square[low][high], square[high][low]) = (there, back);
    }
    Some(square)
}

/// Rounds of each rank by the digest of their results, over all trials.
fn results(trials: &[Trial]) -> Map<String, Value> {
    let ranks = trials.iter().map(|trial| trial.details.len()).max().unwrap_or(0);
    let mut found = RoundResults { operations: OPERATIONS, how: Vec::new(), rounds: vec![BTreeMap::new(); ranks] };
    for (rank, own) in found.rounds.iter_mut().enumerate() {
        let details = || trials.iter().filter_map(|trial| trial.details.get(rank));
        let how = details().find_map(|details| details.get("how")?.as_str()).unwrap_or_default();
        found.how.push(how.to_owned());
        for (digest, rounds) in details().filter_map(|details| details.get("rounds")?.as_object()).flatten() {
            *own.entry(digest.clone()).or_default() += rounds.as_u64().unwrap_or(0);
        }
    }
    let mut metrics = Map::new();
    RESULTS.put(&mut metrics, found);
    metrics
}

/// Bandwidth between the nodes: medians over trials.
fn nodes(trials: &[Trial]) -> Map<String, Value> {
    let tables: Vec<Vec<Vec<f64>>> = trials
        .iter()
        .filter_map(|trial| serde_json::from_value(trial.details.first()?.get("node_gbs")?.clone()).ok())
        .collect();
    let Some(first) = tables.first() else { return Map::new() };
    let cell = |row: usize, column: usize| {
        let values: Vec<f64> = tables.iter().filter_map(|table| table.get(row)?.get(column).copied()).collect();
        stats::median(&values)
    };
    let row = |row: usize| (0..first.len()).map(|column| cell(row, column)).collect::<Vec<_>>();
    let all: Vec<Vec<f64>> = (0..first.len()).map(row).collect();
    let mut metrics = Map::new();
    NODE_GBS.put(&mut metrics, all);
    metrics
}

fn pairs(case: &HardwareCase, trials: &[Trial]) -> Map<String, Value> {
    let task = &case.task;
    let Some(times) = pair_times(task, trials) else { return Map::new() };
    let mut metrics = Map::new();
    if times.is_complete() {
        let Some(square) = square(task, &times, trials) else { return Map::new() };
        put_square(&mut metrics, task, &square);
    } else {
        PAIR_TIMES.put(&mut metrics, ListedPairs::from_times(&times));
    }
    let all: Vec<f64> = times.pairs.iter().map(|(_, time)| *time).collect();
    let median = stats::median(&all);
    let hosts = hosts(trials);
    let differ = hosts.iter().any(|host| Some(host) != hosts.first());
    let mut found = Pairs {
        median,
        slowest: all.iter().copied().fold(0.0, f64::max),
        ranks: task.ranks,
        at_once: trials.last().and_then(|trial| trial.details.first()?.get("at_once").cloned()).unwrap_or_default(),
        hosts: if differ { hosts } else { Vec::new() },
        measured: (!times.is_complete()).then_some(times.pairs.len()),
        ..Pairs::default()
    };
    judge(&mut found, &times);
    PAIRS.put(&mut metrics, found);
    if task.test != Test::Latency {
        let rate = task.bytes as f64 / median / 1e9;
        GBS.put(&mut metrics, rate);
        // What a library sends is not bounded by copies of another kind.
        if task.test != Test::PeerCopy {
            put_ceiling(&mut metrics, case, rate);
        }
    }
    metrics
}

/// The times of all pairs, and what follows from them.
fn put_square(metrics: &mut Map<String, Value>, task: &Task, times: &[Vec<f64>]) {
    let cells = |of: &dyn Fn(f64) -> f64| -> Cells {
        times.iter().map(|row| row.iter().map(|time| json!(of(*time))).collect()).collect()
    };
    PAIR_S.put(metrics, cells(&|time| time));
    if task.test == Test::Latency {
        PAIR_US.put(metrics, cells(&|time| time * 1e6));
    } else {
        PAIR_GBS.put(metrics, cells(&|time| task.bytes as f64 / time / 1e9));
    }
}

/// The host of each rank; empty where a rank does not tell.
fn hosts(trials: &[Trial]) -> Vec<String> {
    let ranks = trials.last().map_or(&[][..], |trial| &trial.details[..]);
    let host = |details: &Map<String, Value>| details.get("host").and_then(Value::as_str).map(str::to_owned);
    ranks.iter().map(host).collect::<Option<_>>().unwrap_or_default()
}

/// Where only a rank slower than this would be named, "none is slow" would say too much.
const MOST_UNSEEN: f64 = 2.0;

/// Names what is slow.
fn judge(found: &mut Pairs, times: &PairTimes) {
    let (ranks, pairs) = match verdict(times) {
        PairVerdict::CannotTell => {
            found.slow = "cannot tell".to_owned();
            return;
        }
        PairVerdict::Healthy { least } => {
            found.least_factor = Some(least);
            found.slow = if least > MOST_UNSEEN { "cannot tell" } else { "none" }.to_owned();
            return;
        }
        PairVerdict::Slow { ranks, pairs } => (ranks, pairs),
    };
    let on = |rank: usize| found.hosts.get(rank).map_or_else(String::new, |host| format!(" on {host}"));
    let words: Vec<String> = ranks
        .iter()
        .map(|(rank, _)| format!("rank {rank}{}", on(*rank)))
        .chain(pairs.iter().map(|([low, high], _)| format!("{low}-{high}")))
        .collect();
    found.slow = words.join(", ");
    found.slow_ranks = Some(ranks.into_iter().map(|(rank, factor)| SlowRank { rank, factor }).collect());
    found.slow_pairs = Some(pairs.into_iter().map(|(ranks, factor)| SlowPair { ranks, factor }).collect());
}

/// The chance that a healthy rank or pair of a tournament is named.
const LEVEL: f64 = 0.01;

/// Judges the times of pairs. Of all pairs, critical values are those of simulated ones; of a part, those of a fleet's links.
fn verdict(times: &PairTimes) -> PairVerdict {
    if let Some(square) = times.square() {
        return stats::slow_pairs(&square);
    }
    let Some(judged) = stats::links(times, &stats::blocks(times), LEVEL) else { return PairVerdict::CannotTell };
    let standings = judged.members.standings.iter().enumerate();
    let mut ranks: Vec<(usize, f64)> =
        standings.filter(|(_, one)| one.slow).map(|(rank, one)| (rank, one.deviation.exp())).collect();
    ranks.sort_by(|a, b| b.1.total_cmp(&a.1));
    if ranks.is_empty() && judged.slow.is_empty() {
        PairVerdict::Healthy { least: judged.members.smallest.exp() }
    } else {
        PairVerdict::Slow { ranks, pairs: judged.slow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial among so many ranks, in which rank 3 reads slowly from rank 0, and rank 0 fast from rank 3.
    fn one_way_slow(ranks: u32) -> Trial {
        let time = |of: u32, with: u32| if (of, with) == (3, 0) { 8e-3 } else { 1e-3 };
        let of_rank = |rank: u32| {
            let others = (0..ranks).filter(|other| *other != rank);
            let pairs: Map<String, Value> =
                others.map(|other| (other.to_string(), Value::from(time(rank, other)))).collect();
            Map::from_iter([("pairs".to_owned(), Value::Object(pairs))])
        };
        Trial { details: (0..ranks).map(of_rank).collect(), ..Trial::default() }
    }

    #[test]
    fn a_link_that_is_slow_in_one_direction_is_slow() {
        let task = |test| Task {
            test,
            ranks: 4,
            threads: 1,
            bytes: 1 << 20,
            dtype: Dtype::F32,
            size: 1,
            path: String::new(),
            seed: 1,
        };
        let trials = [one_way_slow(4)];
        let of = |test, pair: [u32; 2]| {
            let times = pair_times(&task(test), &trials).unwrap();
            times.pairs.iter().find(|(known, _)| *known == pair).map(|(_, time)| *time)
        };
        assert_eq!([of(Test::PeerCopy, [0, 3]), of(Test::PeerCopy, [0, 1])], [Some(8e-3), Some(1e-3)]);
        assert_eq!(of(Test::Latency, [0, 3]), Some(1e-3), "a message goes both ways: one clock is enough");
        let copies = task(Test::PeerCopy);
        let times = square(&copies, &pair_times(&copies, &trials).unwrap(), &trials).unwrap();
        assert_eq!([times[0][3], times[3][0]], [1e-3, 8e-3], "who reads (row) from whom (column)");
    }
}
