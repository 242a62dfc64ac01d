//! Communication call by call, of traces without steps: logs of single calls, and recordings that mark no step.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use trace::timeline::{Kind, ONE_OF_SEVERAL, Timeline, synchronises};

use super::listed;

/// One call of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedCall<'c> {
    /// The rank.
    pub rank: u32,
    /// The communicator.
    pub group: &'c str,
    /// The operation.
    pub operation: &'c str,
    /// Calls of several ranks with the same number are one collective. None: the order of the calls decides.
    pub sequence: Option<u64>,
    /// Size of the call in bytes, where known.
    pub bytes: Option<u64>,
    /// From entering it to its end.
    pub seconds: f64,
}

/// Calls of one operation and size on one communicator. Times are medians over calls, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallTotals {
    /// The operation.
    pub operation: String,
    /// The communicator.
    pub group: String,
    /// The size of a call, where known.
    pub bytes: Option<u64>,
    /// Ranks that were seen in it.
    pub ranks: u32,
    /// The most calls of a rank.
    pub calls: usize,
    /// Time of a call, the mean over ranks.
    pub time_s: f64,
    /// Moving bytes: the shortest duration over ranks. None where ranks do not wait for each other, or calls do not match.
    pub transfer_s: Option<f64>,
    /// How long the ranks that are not last wait, the mean over them. None as above.
    pub wait_s: Option<f64>,
    /// Calls of all ranks that belong together, in which one rank is last.
    pub judged: usize,
    /// The rank that is last most often, and in how many of these calls.
    pub last: Option<(u32, usize)>,
    /// Whether that is more often than chance makes one of equal ranks last.
    pub is_last_by_more_than_chance: bool,
    /// All time of all ranks in it.
    pub total_s: f64,
}

/// The chance that any of equal ranks is called last.
const LEVEL: f64 = 0.01;
/// Fewer calls show nothing.
const FEWEST: usize = 10;

/// Calls of a timeline.
pub(super) fn of_timeline(timeline: &Timeline) -> (Vec<CallTotals>, usize) {
    let names = &timeline.names;
    let of_rank = |rank: &trace::timeline::RankTimeline| -> Vec<TimedCall<'_>> {
        let spans = rank.spans.iter().filter(|span| span.kind == Kind::Collective && span.end_ns >= span.begin_ns);
        let calls = spans.filter_map(|span| Some((span, rank.call(span)?)));
        let timed = |(span, call): (&trace::timeline::Span, &trace::timeline::CollectiveCall)| TimedCall {
            rank: rank.rank,
            group: names.get(call.group),
            operation: names.get(call.operation),
            sequence: call.sequence,
            bytes: call.bytes,
            seconds: span.duration_ns() as f64 * 1e-9,
        };
        calls.map(timed).collect()
    };
    call_totals(timeline.ranks.iter().flat_map(of_rank))
}

/// Totals by operation, size and communicator, the one with the most time first, and how many with the least time are left out.
pub fn call_totals<'c>(calls: impl IntoIterator<Item = TimedCall<'c>>) -> (Vec<CallTotals>, usize) {
    let is_timed = |call: &TimedCall<'c>| call.seconds.is_finite() && call.seconds >= 0.0;
    let mut calls: Vec<TimedCall<'c>> = calls.into_iter().filter(is_timed).collect();
    let kind = |call: &TimedCall<'c>| (call.group, call.operation, call.bytes);
    // Stable: ranks and their calls stay in their order.
    calls.sort_by_key(kind);
    let mut kinds: Vec<&[TimedCall<'c>]> = calls.chunk_by(|a, b| kind(a) == kind(b)).collect();
    let total = |calls: &&[TimedCall<'c>]| calls.iter().map(|call| call.seconds).sum::<f64>();
    let left_out = listed::keep_most(&mut kinds, listed::MOST, total);
    let mut all: Vec<CallTotals> = kinds.into_iter().map(totals).collect();
    all.sort_by(|a, b| b.total_s.total_cmp(&a.total_s));
    (all, left_out)
}

fn totals(calls: &[TimedCall<'_>]) -> CallTotals {
    let mut by_rank: BTreeMap<u32, Vec<&TimedCall<'_>>> = BTreeMap::new();
    for call in calls {
        by_rank.entry(call.rank).or_default().push(call);
    }
    let most = by_rank.values().map(Vec::len).max().unwrap_or(0);
    let (one, seconds) = (calls[0], calls.iter().map(|call| call.seconds));
    let mut found = CallTotals {
        operation: one.operation.to_owned(),
        group: one.group.to_owned(),
        bytes: one.bytes,
        ranks: by_rank.len() as u32,
        calls: most,
        total_s: seconds.clone().sum(),
        ..CallTotals::default()
    };
    let tells_waits = synchronises(one.operation) && one.group != ONE_OF_SEVERAL;
    let matched = if tells_waits && by_rank.len() > 1 { matched(&by_rank) } else { Vec::new() };
    if matched.is_empty() {
        found.time_s = stats::median(&seconds.collect::<Vec<_>>());
        return found;
    }
    let of_all = |of: fn(&Vec<(u32, f64)>) -> f64| stats::median(&matched.iter().map(of).collect::<Vec<_>>());
    found.time_s = of_all(|members| members.iter().map(|(_, seconds)| seconds).sum::<f64>() / members.len() as f64);
    found.transfer_s = Some(of_all(|members| shortest(members)));
    found.wait_s = Some(of_all(|members| {
        let waited: f64 = members.iter().map(|(_, seconds)| seconds - shortest(members)).sum();
        waited / (members.len() - 1) as f64
    }));
    judge(&mut found, &matched);
    found
}

/// Ranks and seconds of the calls that all ranks have.
fn matched(by_rank: &BTreeMap<u32, Vec<&TimedCall<'_>>>) -> Vec<Vec<(u32, f64)>> {
    let is_numbered = by_rank.values().flatten().all(|call| call.sequence.is_some());
    let count = by_rank.values().next().map_or(0, Vec::len);
    // Without numbers, one call that is missing would shift all others.
    if !is_numbered && by_rank.values().any(|calls| calls.len() != count) {
        return Vec::new();
    }
    let mut instances: HashMap<u64, Vec<(u32, f64)>> = HashMap::new();
    for (rank, calls) in by_rank {
        for (place, call) in (0..).zip(calls) {
            instances
                .entry(call.sequence.filter(|_| is_numbered).unwrap_or(place))
                .or_default()
                .push((*rank, call.seconds));
        }
    }
    let is_whole = |members: &Vec<(u32, f64)>| {
        members.len() == by_rank.len() && members.windows(2).all(|pair| pair[0].0 != pair[1].0)
    };
    let mut whole: Vec<(u64, Vec<(u32, f64)>)> =
        instances.into_iter().filter(|(_, members)| is_whole(members)).collect();
    whole.sort_unstable_by_key(|(number, _)| *number);
    whole.into_iter().map(|(_, members)| members).collect()
}

fn shortest(members: &[(u32, f64)]) -> f64 {
    members.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min)
}

/// Who is last: all ranks leave together, so the last has the shortest duration. Of equal ranks each is last in an equal share of
/// the calls; Hoeffding's inequality bounds how far chance goes beyond that.
fn judge(found: &mut CallTotals, matched: &[Vec<(u32, f64)>]) {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for members in matched {
        let least = shortest(members);
        let mut last = members.iter().filter(|(_, seconds)| *seconds == least);
        if let (Some((rank, _)), None) = (last.next(), last.next()) {
            *counts.entry(*rank).or_default() += 1;
        }
    }
    found.judged = counts.values().sum();
    found.last = counts.into_iter().max_by_key(|(rank, count)| (*count, std::cmp::Reverse(*rank)));
    let (ranks, judged) = (f64::from(found.ranks), found.judged as f64);
    let by_chance = 1.0 / ranks + ((ranks / LEVEL).ln() / (2.0 * judged)).sqrt();
    found.is_last_by_more_than_chance =
        found.judged >= FEWEST && found.last.is_some_and(|(_, count)| count as f64 / judged > by_chance);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(rank: u32, sequence: Option<u64>, seconds: f64) -> TimedCall<'static> {
        TimedCall { rank, group: "g", operation: "all_reduce", sequence, bytes: Some(1 << 20), seconds }
    }

    /// Four ranks, and rank 2 enters last.
    fn late(numbers: impl Iterator<Item = u64> + Clone) -> Vec<TimedCall<'static>> {
        let of_rank = |rank: u32| {
            let least = if rank == 2 { 500e-6 } else { 1500e-6 };
            numbers.clone().map(move |at| call(rank, Some(at), least + at as f64 * 1e-9))
        };
        (0..4).flat_map(of_rank).collect()
    }

    #[test]
    fn transfer_wait_and_the_last_rank_come_from_calls_that_belong_together() {
        let found = call_totals(late(0..200)).0;
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.calls, one.ranks, one.judged, one.last), (200, 4, 200, Some((2, 200))));
        assert!(
            (one.transfer_s.unwrap() - 500e-6).abs() < 1e-6 && (one.wait_s.unwrap() - 1000e-6).abs() < 1e-6,
            "{one:?}"
        );
        assert!(one.is_last_by_more_than_chance && (one.time_s - 1250e-6).abs() < 1e-6, "{one:?}");
        // A log that keeps every third call of one rank leaves fewer to judge.
        let mut calls = late(0..90);
        calls.retain(|call| call.rank != 1 || call.sequence.unwrap().is_multiple_of(3));
        let one = &call_totals(calls).0[0];
        assert_eq!((one.calls, one.judged, one.last), (90, 30, Some((2, 30))));
    }

    #[test]
    fn equal_ranks_are_last_by_chance_alone() {
        // Each of four ranks is last in turn, one of them slightly more often.
        let seconds = |rank: u32, at: u64| if (at % 13) % 4 == u64::from(rank) { 1e-3 } else { 2e-3 };
        let calls = (0..4).flat_map(|rank| (0..130).map(move |at| call(rank, Some(at), seconds(rank, at))));
        let one = &call_totals(calls).0[0];
        assert_eq!((one.judged, one.last), (130, Some((0, 40))));
        assert!(!one.is_last_by_more_than_chance, "{one:?}");
        // A tie has no last rank.
        let one = &call_totals((0..2).flat_map(|rank| (0..20).map(move |at| call(rank, Some(at), 1e-3)))).0[0];
        assert_eq!((one.judged, one.last, one.wait_s), (0, None, Some(0.0)));
    }

    #[test]
    fn calls_that_do_not_belong_together_have_a_time_alone() {
        let alone = |calls: Vec<TimedCall<'_>>| {
            let one = call_totals(calls).0.remove(0);
            assert_eq!((one.transfer_s, one.wait_s, one.last), (None, None, None), "{one:?}");
            one.time_s
        };
        assert_eq!(alone(vec![call(0, Some(1), 1e-3)]), 1e-3);
        let broadcast = TimedCall { operation: "broadcast", ..call(0, Some(1), 1e-3) };
        assert_eq!(alone(vec![broadcast, TimedCall { rank: 1, ..broadcast }]), 1e-3);
        let any = TimedCall { group: ONE_OF_SEVERAL, ..call(0, None, 1e-3) };
        assert_eq!(alone(vec![any, TimedCall { rank: 1, seconds: 3e-3, ..any }]), 2e-3);
        // Without numbers, ranks with different counts do not match.
        assert_eq!(alone(vec![call(0, None, 1e-3), call(1, None, 3e-3), call(1, None, 5e-3)]), 3e-3);
        let by_order = call_totals(vec![call(0, None, 1e-3), call(1, None, 3e-3)]).0.remove(0);
        assert_eq!((by_order.last, by_order.wait_s), (Some((0, 1)), Some(2e-3)));
    }
}
