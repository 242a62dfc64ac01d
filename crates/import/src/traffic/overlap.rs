//! How many calls of a rank run at one time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Whether another call ran at any time of each call, in the order given, and how many ran when it began, itself included. Calls
/// without times overlap nothing.
pub(super) fn overlaps(times: &[Option<(i64, i64)>]) -> Vec<(bool, u32)> {
    let mut order: Vec<(i64, i64, usize)> =
        times.iter().enumerate().filter_map(|(at, times)| times.map(|(begin, end)| (begin, end, at))).collect();
    order.sort_unstable();
    let mut found = vec![(false, 1); times.len()];
    let (mut running, mut latest) = (BinaryHeap::new(), i64::MIN);
    for (place, (begin, end, at)) in order.iter().enumerate() {
        while running.peek().is_some_and(|Reverse(end)| end <= begin) {
            running.pop();
        }
        running.push(Reverse(*end));
        let is_next_within = order.get(place + 1).is_some_and(|(next, ..)| next < end);
        found[*at] = (*begin < latest || is_next_within, u32::try_from(running.len()).unwrap_or(u32::MAX));
        latest = latest.max(*end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_calls_overlap_and_what_touches_does_not() {
        let times = [Some((0, 10)), Some((10, 20)), None, Some((15, 30)), Some((16, 18)), Some((40, 50))];
        let wanted = [(false, 1), (true, 1), (false, 1), (true, 2), (true, 3), (false, 1)];
        assert_eq!(overlaps(&times), wanted);
    }
}
