//! How much is listed: a trace may have a communicator, or a size, for each of its calls.

/// Operations, sizes and exchanges that are listed, each. A job has some dozen.
pub(super) const MOST: usize = 4096;

/// Values of series that operations may have together, so that many operations over many steps fit in memory.
const VALUES: usize = 1 << 18;
/// Operations that are listed however many steps there are.
const FEWEST: usize = 128;

/// Operations that are listed, of which each has a value a step.
pub(super) fn most_operations(steps: usize) -> usize {
    (VALUES / steps.max(1)).clamp(FEWEST, MOST)
}

/// Keeps so many entries, those with the most of something, in their order. Gives how many are left out.
pub(super) fn keep_most<T>(all: &mut Vec<T>, most: usize, of: impl Fn(&T) -> f64) -> usize {
    let left_out = all.len().saturating_sub(most);
    if left_out > 0 {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|a, b| of(&all[*b]).total_cmp(&of(&all[*a])));
        let mut is_kept = vec![false; all.len()];
        order.into_iter().take(most).for_each(|place| is_kept[place] = true);
        let mut kept = is_kept.into_iter();
        all.retain(|_| kept.next().unwrap_or(false));
        all.shrink_to_fit();
    }
    left_out
}

/// For members that are written only where something is left out.
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What is said where something is left out; None where nothing is.
pub(super) fn note(what: &str, listed: usize, left_out: usize) -> Option<String> {
    let all = listed + left_out;
    (left_out > 0).then(|| {
        format!("{listed} of {all} {what} are listed, those with the most time; the others are in the trace alone")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_are_kept_in_their_order() {
        let mut all = vec![3.0, 1.0, 4.0, 1.0, 5.0, 5.0];
        assert_eq!(keep_most(&mut all, 6, |value| *value), 0);
        assert_eq!(keep_most(&mut all, 4, |value| *value), 2);
        assert_eq!(all, [3.0, 4.0, 5.0, 5.0]);
        assert_eq!(
            note("sizes", 4, 2).unwrap(),
            "4 of 6 sizes are listed, those with the most time; the others are in the trace alone"
        );
        assert_eq!(note("sizes", 4, 0), None);
    }

    #[test]
    fn few_steps_leave_room_for_many_operations() {
        assert_eq!([1, 64, 1024, 1 << 20].map(most_operations), [4096, 4096, 256, 128]);
    }
}
