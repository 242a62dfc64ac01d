//! Who belongs together after a split: the rule that every backend follows.

/// The members (ranks of the parent) of `rank`'s new group: equal color, ordered by key, then by rank. None where the
/// rank gave no color. `entries[r]` is what rank r gave.
pub fn members(entries: &[(Option<u32>, u32)], rank: u32) -> Option<Vec<u32>> {
    let color = entries[rank as usize].0?;
    let mut members: Vec<u32> =
        (0..entries.len() as u32).filter(|other| entries[*other as usize].0 == Some(color)).collect();
    members.sort_by_key(|other| (entries[*other as usize].1, *other));
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_ordered_by_key_then_rank() {
        let entries = [(Some(0), 5), (Some(1), 0), (Some(0), 1), (None, 0), (Some(0), 5)];
        assert_eq!(members(&entries, 0), Some(vec![2, 0, 4]));
        assert_eq!(members(&entries, 1), Some(vec![1]));
        assert_eq!(members(&entries, 3), None);
    }
}
