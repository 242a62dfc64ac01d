//! The rule by which the ranks of a communicator follow from the job's: what `groups` of a case takes.

/// The rule that puts exactly these ranks of a job into one group, and all others into groups of as many. None where no rule
/// does.
pub(super) fn rule(members: &[u32], world: u32) -> Option<String> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup();
    let size = u32::try_from(members.len()).ok()?;
    if size < 2 || size >= world || members.last()? >= &world || !world.is_multiple_of(size) {
        return None;
    }
    let together = |same: &dyn Fn(u32) -> bool| (0..world).filter(|rank| same(*rank)).eq(members.iter().copied());
    let first = members[0];
    if together(&|rank| rank / size == first / size) {
        return Some(format!("div {size}"));
    }
    let apart = world / size;
    if together(&|rank| rank % apart == first % apart) {
        return Some(format!("mod {apart}"));
    }
    // The axis of a mesh of powers of two: its ranks differ in some bits and agree in all others.
    let differ = members.iter().fold(0, |bits, rank| bits | (rank ^ first));
    let mask = (world.checked_next_power_of_two()? - 1) & !differ;
    let is_whole = world.is_power_of_two() && together(&|rank| rank & mask == first & mask);
    is_whole.then(|| format!("and {mask:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_a_mesh_follow_a_rule() {
        let said = |members: &[u32], world| rule(members, world).unwrap_or_default();
        assert_eq!(said(&[8, 9, 10, 11, 12, 13, 14, 15], 32), "div 8");
        assert_eq!(said(&[3, 11, 19, 27], 32), "mod 8");
        // 2 x 2 x 2: the middle axis.
        assert_eq!(said(&[1, 3], 8), "and 0x5");
        assert_eq!(said(&[0, 2], 12), "", "not a mesh of powers of two");
        assert_eq!(said(&[0, 1, 2], 8), "", "groups of three do not cover eight ranks");
        assert_eq!(said(&[0, 1, 2, 5], 8), "");
        assert_eq!(said(&[0, 1, 2, 3], 4), "", "all ranks are not a group");
        assert_eq!(said(&[6, 9], 8), "", "a rank that the job does not have");
        assert_eq!(said(&[5], 8), "");
    }
}
