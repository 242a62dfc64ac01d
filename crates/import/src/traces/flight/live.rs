//! A job that runs, seen from outside: each rank is in a call, or in none. Nobody counted these calls, so each rank has one call
//! with the number 0 in a communicator without a name. The causes of a hang are found as in dumps.

use std::collections::BTreeMap;

use super::findings::{HangCause, Missing, Problem, find, find_without_comparing};
use super::mismatch::Difference;
use super::ring::{FlightEntry, FlightRank, Frame};
use super::{FlightReport, HangNote, MOST_RANKS};

/// One rank of a job that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveRank {
    /// The rank.
    pub rank: u32,
    /// The collective that it is in.
    pub collective: Option<String>,
    /// Whether it is in a receive, else a send, and the rank on the other side.
    pub transfer: Option<(bool, u32)>,
    /// Where its main thread is, innermost first.
    pub stack: Vec<Frame>,
    /// The line of the job's own files that it is at. Calls of one operation at other lines are other calls.
    pub place: String,
    /// What it does, for one rank: `sleeps`, `waits for its GPU`.
    pub doing: String,
}

/// What the calls of these ranks say together. `world`: how many ranks the job has.
pub fn live(ranks: &[LiveRank], world: Option<u32>) -> (FlightReport, Vec<HangNote>) {
    let has_collective = ranks.iter().any(|rank| rank.collective.is_some());
    let ring = |rank: &LiveRank| FlightRank {
        rank: rank.rank,
        version: String::new(),
        // Who waits for whom in transfers alone is found from notes, which know the ranks that are awaited most.
        entries: entry(rank).into_iter().filter(|entry| has_collective || !entry.is_p2p).collect(),
    };
    let rings: Vec<FlightRank> = ranks.iter().map(ring).collect();
    let world = world.filter(|world| *world <= MOST_RANKS);
    let groups = [(String::new(), world.map_or(Vec::new(), |world| (0..world).collect()))];
    let known: Vec<u32> = ranks.iter().map(|rank| rank.rank).collect();
    let members = [(String::new(), [groups[0].1.clone(), known].concat())];
    // While a rank is seen in no call, the others may wait for it in different communicators, each in the call of its own.
    let is_away = |rank: &LiveRank| !rank.stack.is_empty() && rank.collective.is_none() && rank.transfer.is_none();
    let (mut findings, waiting) = match ranks.iter().any(is_away) {
        true => find_without_comparing(&rings, &members),
        false => find(&rings, &members),
    };
    if findings.iter().all(|found| found.problem == Problem::NotFinished)
        && let Some(found) = other_lines(ranks)
    {
        findings = vec![found];
    }
    let note = |rank: &LiveRank| HangNote {
        rank: rank.rank,
        world,
        since_last_step_s: None,
        step_ended_after_s: None,
        stack: rank.stack.clone(),
        ended_well: false,
        transfer: rank.transfer,
        doing: Some(rank.doing.clone()),
    };
    let report = FlightReport { ranks: rings, findings, waiting, ..FlightReport::default() };
    (report, ranks.iter().map(note).collect())
}

fn entry(rank: &LiveRank) -> Option<FlightEntry> {
    let peers = rank.transfer.map(|(receives, peer)| if receives { (peer, rank.rank) } else { (rank.rank, peer) });
    let transfer = || peers.map(|(from, _)| if from == rank.rank { "send" } else { "recv" }.to_owned());
    let is_p2p = rank.collective.is_none();
    Some(FlightEntry {
        record: 0,
        group: String::new(),
        sequence: 0,
        is_p2p,
        p2p_sequence: 0,
        peers: peers.filter(|_| is_p2p),
        operation: rank.collective.clone().or_else(transfer)?,
        input_sizes: Vec::new(),
        output_sizes: Vec::new(),
        input_dtypes: Vec::new(),
        output_dtypes: Vec::new(),
        state: "started".to_owned(),
        is_finished: false,
        created_ns: 0,
        duration_ms: None,
        frames: rank.stack.clone(),
    })
}

/// All ranks are in one operation, and some of them at another line: the calls differ, though their names do not. The line of
/// most ranks is the usual one.
fn other_lines(ranks: &[LiveRank]) -> Option<HangCause> {
    let mut places: BTreeMap<&str, Vec<&LiveRank>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| rank.collective.is_some() && !rank.place.is_empty()) {
        places.entry(&rank.place).or_default().push(rank);
    }
    let first = |of: &[&LiveRank]| std::cmp::Reverse(of.first().map_or(0, |rank| rank.rank));
    let usual = places.values().max_by_key(|of| (of.len(), first(of))).filter(|_| places.len() > 1)?;
    let odd = places.values().filter(|of| *of != usual).flatten();
    let missing = odd.map(|rank| Missing { rank: rank.rank, last: entry(rank) });
    Some(HangCause {
        problem: Problem::Mismatch(Difference::Operation),
        call: entry(usual.first()?)?,
        arrived: usual.iter().map(|rank| rank.rank).collect(),
        missing: missing.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rank: u32, collective: Option<&str>, place: &str) -> LiveRank {
        let collective = collective.map(str::to_owned);
        LiveRank { rank, collective, place: place.to_owned(), ..LiveRank::default() }
    }

    fn causes(ranks: &[LiveRank], world: Option<u32>) -> Vec<(Problem, Vec<u32>, Vec<u32>)> {
        let found = live(ranks, world).0.findings;
        let of = |found: HangCause| {
            (found.problem, found.missing.iter().map(|one| one.rank).collect::<Vec<_>>(), found.arrived)
        };
        found.into_iter().map(of).collect()
    }

    #[test]
    fn the_cause_is_found_from_calls_without_numbers() {
        let (reduces, leaves) = (Some("all_reduce"), Some("barrier"));
        let other = Problem::Mismatch(Difference::Operation);
        for (ranks, world, expected) in [
            (vec![at(0, reduces, "a:1"), at(1, reduces, "a:1"), at(2, leaves, "a:2")], 3, (other, vec![2], vec![0, 1])),
            (vec![at(0, reduces, "a:1"), at(1, None, "b:9")], 2, (Problem::NotReached, vec![1], vec![0])),
            (vec![at(0, reduces, "a:1"), at(1, reduces, "a:1")], 3, (Problem::NoDump, vec![2], vec![0, 1])),
            (vec![at(0, reduces, "a:1"), at(1, reduces, "a:1")], 2, (Problem::NotFinished, vec![0, 1], vec![])),
            (vec![at(0, reduces, "a:1"), at(1, reduces, "a:5")], 2, (other, vec![1], vec![0])),
            // Two ranks at a line outnumber one.
            (
                vec![at(0, reduces, "a:5"), at(1, reduces, "a:1"), at(2, reduces, "a:1")],
                3,
                (other, vec![0], vec![1, 2]),
            ),
        ] {
            assert_eq!(causes(&ranks, Some(world)), [expected], "{ranks:?}");
        }
        assert_eq!(causes(&[at(0, None, "a:1"), at(1, None, "a:1")], Some(2)), []);
        assert_eq!(
            causes(&[at(0, reduces, "a:1"), at(1, None, "b:9")], None),
            [(Problem::NotReached, vec![1], vec![0])]
        );
    }

    /// Two by two ranks: rank 3 is in a lock of its own, rank 2 waits for it in its shard's call, and ranks 0 and 1 in those of the
    /// replicas. Nobody knows of the communicators.
    #[test]
    fn a_rank_in_no_call_comes_before_calls_that_differ() {
        let frame = Frame { name: "locked".into(), file: "hsdp.py".into(), line: 20 };
        let away = LiveRank { stack: vec![frame], ..at(3, None, "hsdp.py:20") };
        let (reduces, gathers) = (Some("all_reduce"), Some("all_gather"));
        let ranks = [at(0, reduces, "a:1"), at(1, reduces, "a:1"), at(2, gathers, "a:2"), away];
        assert_eq!(causes(&ranks, Some(4)), [(Problem::NotReached, vec![3], vec![0, 1, 2])]);
        let calls = |one: &super::super::Waiting| (one.rank, one.call.operation.clone());
        let waits: Vec<(u32, String)> = live(&ranks, Some(4)).0.waiting.iter().map(calls).collect();
        let wanted = [(0, "all_reduce"), (1, "all_reduce"), (2, "all_gather")];
        assert_eq!(waits, wanted.map(|(rank, call)| (rank, call.to_owned())));
        // A rank without a stack may be in any call, so the calls of the others still tell.
        let unseen = [at(0, reduces, "a:1"), at(1, reduces, "a:1"), at(2, gathers, "a:2"), at(3, None, "")];
        assert_eq!(causes(&unseen, Some(4))[0].0, Problem::Mismatch(Difference::Operation));
    }

    #[test]
    fn a_rank_in_a_transfer_waits_for_its_peer_beside_ranks_in_a_collective() {
        let receives = LiveRank { rank: 1, transfer: Some((true, 0)), ..LiveRank::default() };
        let (report, _) = live(&[at(0, Some("barrier"), "a:1"), receives.clone()], Some(2));
        let waits: Vec<(u32, Vec<u32>)> = report.findings[0].missing.iter().map(|one| (one.rank, vec![])).collect();
        assert_eq!((report.findings[0].problem, waits.len()), (Problem::Deadlock, 2), "{:?}", report.findings);
        // In transfers alone, the notes say who waits for whom.
        let (report, notes) = live(&[receives], Some(2));
        assert_eq!((report.findings.len(), notes[0].transfer), (0, Some((true, 0))));
    }
}
