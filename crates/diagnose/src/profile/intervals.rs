//! Unions of stretches of time, and what they have in common. Sums of overlapping spans count time twice; unions do not.

/// Disjoint stretches of time in nanoseconds, ascending, none of them empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Intervals {
    parts: Vec<[i64; 2]>,
}

impl Intervals {
    /// The union of stretches in any order; those without length are left out.
    pub(super) fn union_of(mut stretches: Vec<[i64; 2]>) -> Self {
        stretches.retain(|[begin, end]| end > begin);
        if !stretches.is_sorted_by_key(|[begin, _]| *begin) {
            stretches.sort_unstable();
        }
        let mut parts: Vec<[i64; 2]> = Vec::with_capacity(stretches.len());
        for [begin, end] in stretches {
            match parts.last_mut() {
                Some(last) if begin <= last[1] => last[1] = last[1].max(end),
                _ => parts.push([begin, end]),
            }
        }
        Self { parts }
    }

    /// What is in either.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut all = Vec::with_capacity(self.parts.len() + other.parts.len());
        let (mut left, mut right) = (self.parts.iter().peekable(), other.parts.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a[0] <= b[0] => left.next(),
                (_, Some(_)) => right.next(),
                _ => left.next(),
            };
            let Some(part) = next else { break };
            all.push(*part);
        }
        Self::union_of(all)
    }

    /// What is in both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let (mut parts, mut at) = (Vec::new(), 0);
        for [begin, end] in &self.parts {
            while at < other.parts.len() && other.parts[at][1] <= *begin {
                at += 1;
            }
            let meets = other.parts[at..].iter().take_while(|part| part[0] < *end);
            parts.extend(meets.map(|part| [part[0].max(*begin), part[1].min(*end)]));
        }
        Self { parts }
    }

    /// What is here and not in the other.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let (mut parts, mut at) = (Vec::with_capacity(self.parts.len()), 0);
        for [begin, end] in &self.parts {
            while at < other.parts.len() && other.parts[at][1] <= *begin {
                at += 1;
            }
            let mut from = *begin;
            for [out_from, out_to] in other.parts[at..].iter().take_while(|part| part[0] < *end) {
                if *out_from > from {
                    parts.push([from, *out_from]);
                }
                from = from.max(*out_to);
            }
            if from < *end {
                parts.push([from, *end]);
            }
        }
        Self { parts }
    }

    /// Nanoseconds of it between two times.
    pub(super) fn within(&self, begin: i64, end: i64) -> i64 {
        let first = self.parts.partition_point(|part| part[1] <= begin);
        let meets = self.parts[first..].iter().take_while(|part| part[0] < end);
        meets.map(|part| part[1].min(end) - part[0].max(begin)).sum()
    }

    /// The stretches between two times, cut off there.
    pub(super) fn parts_within(&self, begin: i64, end: i64) -> impl Iterator<Item = [i64; 2]> {
        let first = self.parts.partition_point(|part| part[1] <= begin);
        let meets = self.parts[first..].iter().take_while(move |part| part[0] < end);
        meets.map(move |part| [part[0].max(begin), part[1].min(end)])
    }

    /// The last stretch that begins before this time, cut off there.
    pub(super) fn last_before(&self, time: i64) -> Option<[i64; 2]> {
        let after = self.parts.partition_point(|part| part[0] < time);
        let [begin, end] = *self.parts.get(after.checked_sub(1)?)?;
        Some([begin, end.min(time)])
    }

    /// When the first stretch begins that begins at or after a time.
    pub(super) fn first_from(&self, time: i64) -> Option<i64> {
        self.parts.get(self.parts.partition_point(|part| part[0] < time)).map(|part| part[0])
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn union(parts: &[[i64; 2]]) -> Intervals {
        Intervals::union_of(parts.to_vec())
    }

    #[test]
    fn unions_join_what_overlaps_or_touches() {
        assert_eq!(union(&[[5, 9], [0, 2], [2, 3], [8, 12], [4, 4]]).parts, [[0, 3], [5, 12]]);
        assert_eq!(union(&[[0, 10], [2, 3]]).parts, [[0, 10]]);
        assert_eq!(union(&[[0, 2], [6, 8]]).or(&union(&[[1, 3], [7, 9], [20, 21]])).parts, [[0, 3], [6, 9], [20, 21]]);
    }

    #[test]
    fn common_and_remaining_parts_add_up() {
        let (a, b) = (union(&[[0, 10], [20, 30], [40, 50]]), union(&[[5, 7], [9, 22], [29, 41], [60, 70]]));
        assert_eq!(a.and(&b).parts, [[5, 7], [9, 10], [20, 22], [29, 30], [40, 41]]);
        assert_eq!(a.minus(&b).parts, [[0, 5], [7, 9], [22, 29], [41, 50]]);
        for [begin, end] in [[0, 100], [6, 45], [22, 22], [-5, 3]] {
            let sum = a.and(&b).within(begin, end) + a.minus(&b).within(begin, end);
            assert_eq!(sum, a.within(begin, end));
            let parts: i64 = a.parts_within(begin, end).map(|[from, to]| to - from).sum();
            assert_eq!(parts, a.within(begin, end));
        }
        assert_eq!(a.parts_within(5, 25).collect::<Vec<_>>(), [[5, 10], [20, 25]]);
        assert_eq!(a.minus(&Intervals::default()), a);
        assert!(a.and(&Intervals::default()).is_empty());
    }

    #[test]
    fn the_last_stretch_before_a_time_is_cut() {
        let a = union(&[[0, 10], [20, 30]]);
        assert_eq!(
            [0, 5, 15, 25, 99].map(|time| a.last_before(time)),
            [None, Some([0, 5]), Some([0, 10]), Some([20, 25]), Some([20, 30])]
        );
        assert_eq!([0, 5, 20, 25].map(|time| a.first_from(time)), [Some(0), Some(20), Some(20), None]);
    }
}
