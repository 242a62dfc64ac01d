//! Where the step's thread waits for an exchange that another thread of the host runs: it runs nothing while an exchange of its
//! rank is under way.
//!
//! No span says that a thread waits. A stretch without an operation may also be Python, a sleep, or time without a processor.
//! So only the part of it counts in which an exchange is under way, up to the end of the last exchange that ends in it: a thread
//! that goes on while an exchange is under way did not wait for it. After a backward pass, DDP's reducer waits for futures, which
//! complete a little before the exchange's span ends. There any exchange counts.

use super::collect::{Busy, ThreadFrame};

/// Shorter stretches lie between operations that run one after the other.
const SHORTEST_NS: i64 = 20_000;

/// Clocks of threads agree within this.
const SLACK_NS: i64 = 50_000;

/// An exchange that a thread of the host runs: begin, end, index of the call.
pub(super) type Transfer = (i64, i64, u32);

/// A stretch in which a thread runs no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Idle {
    from: i64,
    to: i64,
    /// Exchanges that began earlier do not count.
    since: i64,
    /// Whether those count that end later.
    ends_later: bool,
}

/// The waits of a thread between the beginning and the end of what it runs: begin, end, and the call that ends last. `busy` is
/// ordered by beginning; an enclosing stretch stands before what it encloses. `after_backward`: from the end of each backward
/// pass to the next phase, in order.
pub(super) fn waits(transfers: &[Transfer], busy: &[Busy], after_backward: &[(i64, i64)]) -> Vec<Transfer> {
    if transfers.is_empty() {
        return Vec::new();
    }
    let transfers = Transfers::sorted(transfers);
    let mut waits = Vec::new();
    for mut idle in idle(busy).into_iter().filter(|idle| idle.to - idle.from >= SHORTEST_NS) {
        let after = after_backward.partition_point(|(from, _)| *from <= idle.from);
        let limit = after.checked_sub(1).map(|at| after_backward[at].1).filter(|limit| idle.from < *limit);
        if let Some(limit) = limit.filter(|_| idle.since == i64::MIN) {
            idle.ends_later = true;
            idle.to = idle.to.min(limit);
        }
        transfers.within(idle, &mut waits);
    }
    waits.sort_unstable();
    waits
}

impl Idle {
    fn new(from: i64, to: i64, since: i64) -> Self {
        Self { from, to, since, ends_later: false }
    }
}

/// A stretch that is open while a thread is followed.
struct OpenStretch {
    busy: Busy,
    /// Up to where its inside is known.
    at: i64,
    has_inside: bool,
}

impl OpenStretch {
    /// From when on exchanges count in a hole of this stretch; None where a hole is work.
    fn since(&self) -> Option<i64> {
        match self.busy.frame {
            ThreadFrame::Phase | ThreadFrame::Wait => Some(i64::MIN),
            // What has no operation inside runs all the time.
            ThreadFrame::Operation | ThreadFrame::Input => self.has_inside.then_some(self.busy.begin),
        }
    }
}

/// The holes between what a thread runs.
fn idle(busy: &[Busy]) -> Vec<Idle> {
    let mut found = Vec::new();
    let mut open: Vec<OpenStretch> = Vec::new();
    let Some(first) = busy.first() else { return found };
    let mut at = first.begin;
    for own in busy {
        while let Some(inner) = open.pop_if(|inner| inner.busy.end <= own.begin) {
            close(&inner, &mut open, &mut at, &mut found);
        }
        match open.last_mut() {
            None => found.push(Idle::new(at, own.begin, i64::MIN)),
            Some(outer) => {
                outer.has_inside = true;
                found.extend(outer.since().map(|since| Idle::new(outer.at, own.begin, since)));
                outer.at = own.begin.max(outer.at);
            }
        }
        open.push(OpenStretch { busy: *own, at: own.begin, has_inside: false });
    }
    while let Some(inner) = open.pop() {
        close(&inner, &mut open, &mut at, &mut found);
    }
    found.retain(|idle| idle.to > idle.from);
    found
}

/// Ends a stretch: what is left of it is a hole, and its outer one goes on behind it.
fn close(inner: &OpenStretch, open: &mut [OpenStretch], at: &mut i64, found: &mut Vec<Idle>) {
    let end = inner.busy.end;
    found.extend(inner.since().map(|since| Idle::new(inner.at, end, since)));
    match open.last_mut() {
        Some(outer) => outer.at = outer.at.max(end),
        None => *at = end.max(*at),
    }
}

/// Exchanges by beginning, each with the latest end up to it.
struct Transfers(Vec<(Transfer, i64)>);

impl Transfers {
    fn sorted(all: &[Transfer]) -> Self {
        let mut all = all.to_vec();
        all.sort_unstable();
        let mut latest = i64::MIN;
        let with_latest = |one: Transfer| {
            latest = latest.max(one.1);
            (one, latest)
        };
        Self(all.into_iter().map(with_latest).collect())
    }

    /// Adds the parts of a hole in which the thread waits.
    fn within(&self, idle: Idle, waits: &mut Vec<Transfer>) {
        let first = self.0.partition_point(|(_, latest)| *latest <= idle.from);
        let reached = self.0[first..].iter().map(|(one, _)| *one).take_while(|one| one.0 < idle.to);
        let counts = |one: &Transfer| one.1 > idle.from && one.0 >= idle.since;
        let ends = |end: &i64| idle.ends_later || *end <= idle.to + SLACK_NS;
        let ended = reached.clone().filter(counts).map(|one| one.1).filter(ends).max();
        let Some(until) = ended.map(|end| end.min(idle.to)) else { return };
        let mut part: Option<(i64, i64, Transfer)> = None;
        let mut add = |part: Option<(i64, i64, Transfer)>| {
            waits.extend(part.filter(|(from, to, _)| to - from >= SHORTEST_NS).map(|(from, to, of)| (from, to, of.2)));
        };
        for one in reached.filter(counts).filter(|one| one.0 < until) {
            let (from, to) = (one.0.max(idle.from), one.1.min(until));
            match &mut part {
                Some((_, end, of)) if from <= *end => {
                    *of = if one.1 > of.1 { one } else { *of };
                    *end = to.max(*end);
                }
                _ => add(part.replace((from, to, one))),
            }
        }
        add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    fn busy(begin: i64, end: i64, frame: ThreadFrame) -> Busy {
        Busy { begin: begin * US, end: end * US, frame }
    }

    fn operation(begin: i64, end: i64) -> Busy {
        busy(begin, end, ThreadFrame::Operation)
    }

    /// Waits in microseconds.
    fn find_waits(transfers: &[(i64, i64)], busy: &[Busy]) -> Vec<(i64, i64)> {
        after(transfers, busy, &[])
    }

    fn after(transfers: &[(i64, i64)], busy: &[Busy], after: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let transfers: Vec<Transfer> =
            (0..).zip(transfers).map(|(call, (begin, end))| (begin * US, end * US, call)).collect();
        waits(&transfers, busy, after).iter().map(|(begin, end, _)| (begin / US, end / US)).collect()
    }

    #[test]
    fn a_thread_waits_before_any_phase() {
        let thread = [operation(0, 10), operation(10, 100), operation(21_000, 21_100)];
        // An all_gather before the forward pass, and a sleep after it.
        assert_eq!(find_waits(&[(50, 10_900)], &thread), [(100, 10_900)]);
        assert_eq!(find_waits(&[], &thread), []);
    }

    #[test]
    fn a_phase_waits_inside_and_an_operation_does_not() {
        let inside = [operation(300, 400), operation(9_000, 9_100)];
        let waits = |frame| {
            let thread = [vec![operation(0, 10), busy(200, 9_200, frame)], inside.to_vec()].concat();
            find_waits(&[(100, 8_900)], &thread)
        };
        assert_eq!(waits(ThreadFrame::Phase), [(400, 8_900)]);
        // An operation that began no exchange works between the operations inside of it.
        assert_eq!(waits(ThreadFrame::Operation), []);
        assert_eq!(waits(ThreadFrame::Input), []);
    }

    #[test]
    fn an_operation_waits_for_what_it_began_itself() {
        let thread = [operation(0, 5_000), operation(100, 200), operation(4_000, 4_900)];
        assert_eq!(find_waits(&[(150, 3_900)], &thread), [(200, 3_900)]);
        // An operation without one inside works; one that is a wait does not.
        assert_eq!(find_waits(&[(150, 3_900)], &[operation(0, 100), operation(140, 4_000)]), []);
        assert_eq!(
            find_waits(&[(150, 3_900)], &[operation(0, 100), busy(140, 4_000, ThreadFrame::Wait)]),
            [(150, 3_900)]
        );
    }

    #[test]
    fn a_thread_that_goes_on_while_bytes_move_did_not_wait() {
        let thread = [operation(0, 100), operation(200, 300), operation(400, 500), operation(900, 950)];
        // Python between operations, while a bucket is under way; then the wait for it.
        assert_eq!(find_waits(&[(50, 880)], &thread), [(500, 880)]);
        // Of two exchanges, the thread waits for the first.
        assert_eq!(find_waits(&[(50, 150), (60, 5_000)], &thread), [(100, 150)]);
    }

    #[test]
    fn after_a_backward_pass_the_wait_may_end_before_the_exchange() {
        // The reducer's future completes at 3,000; the exchange's span ends at 3,400.
        let thread = [operation(0, 100), operation(3_000, 3_010), operation(3_200, 3_300), operation(5_000, 5_100)];
        let backward = [(100 * US, 3_200 * US)];
        assert_eq!(find_waits(&[(50, 3_400)], &thread), [(3_300, 3_400)]);
        assert_eq!(after(&[(50, 3_400)], &thread, &backward), [(100, 3_000), (3_010, 3_200), (3_300, 3_400)]);
    }

    #[test]
    fn exchanges_one_after_the_other_are_separate_waits() {
        let thread = [operation(0, 100), operation(5_000, 5_100)];
        assert_eq!(find_waits(&[(50, 1_000), (900, 1_200), (3_000, 4_000)], &thread), [(100, 1_200), (3_000, 4_000)]);
    }
}
