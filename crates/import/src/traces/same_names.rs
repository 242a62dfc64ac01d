//! Communicators of one name. PyTorch splits a communicator into several at once (`split_group`, as meshes of devices do), and each
//! rank counts only its own: those of ranks 0, 1 and of ranks 2, 3 get the same number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Ranks that a name lists one by one.
const LISTED: usize = 8;

/// Names of communicators that share theirs with others, by this name and by rank.
pub(super) struct SameNames(HashMap<String, HashMap<u32, String>>);

impl SameNames {
    /// Finds them among the communicators that traces or dumps list, which may be the same ones many times.
    pub(super) fn of(groups: &[(String, Vec<u32>)]) -> Self {
        let mut lists: BTreeMap<&str, BTreeSet<Vec<u32>>> = BTreeMap::new();
        for (name, ranks) in groups {
            let mut ranks = ranks.clone();
            ranks.sort_unstable();
            ranks.dedup();
            lists.entry(name).or_default().insert(ranks);
        }
        let several = lists.into_iter().filter(|(_, lists)| lists.len() > 1 && are_apart(lists));
        Self(several.map(|(name, lists)| (name.to_owned(), by_rank(name, &lists))).collect())
    }

    /// Whether no name stands for several communicators.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a rank's communicator of this name is called, if others share the name.
    pub(super) fn own(&self, name: &str, rank: u32) -> Option<&str> {
        self.0.get(name)?.get(&rank).map(String::as_str)
    }

    /// Gives the listed communicators their own names.
    pub(super) fn rename(&self, groups: &mut [(String, Vec<u32>)]) {
        for (name, ranks) in groups {
            let own = ranks.first().and_then(|rank| self.own(name, *rank)).map(str::to_owned);
            if let Some(own) = own {
                *name = own;
            }
        }
    }
}

/// Whether no rank is in two of the lists. Where one is, they are not parts of one communicator, and nothing tells which is meant.
fn are_apart(lists: &BTreeSet<Vec<u32>>) -> bool {
    let mut seen = BTreeSet::new();
    lists.iter().flatten().all(|rank| seen.insert(*rank))
}

fn by_rank(name: &str, lists: &BTreeSet<Vec<u32>>) -> HashMap<u32, String> {
    let of_list = |ranks: &Vec<u32>| {
        let own = format!("{name} {}", written(ranks));
        ranks.iter().map(|rank| (*rank, own.clone())).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of_list).collect()
}

/// `[0, 1]`, `[0 to 63]`, or the first of many ranks.
fn written(ranks: &[u32]) -> String {
    if let [first, .., last] = ranks
        && ranks.len() > 2
        && (last - first) as usize == ranks.len() - 1
    {
        return format!("[{first} to {last}]");
    }
    let shown: Vec<String> = ranks.iter().take(LISTED).map(u32::to_string).collect();
    format!("[{}{}]", shown.join(", "), if ranks.len() > LISTED { ", ..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_names(groups: &[(&str, &[u32])]) -> SameNames {
        SameNames::of(&groups.iter().map(|(name, ranks)| ((*name).to_owned(), ranks.to_vec())).collect::<Vec<_>>())
    }

    #[test]
    fn communicators_of_one_name_get_names_of_their_own() {
        let names = same_names(&[("3", &[0, 1]), ("3", &[2, 3]), ("3", &[1, 0]), ("0", &[0, 1, 2, 3])]);
        assert_eq!((names.own("3", 1), names.own("3", 2)), (Some("3 [0, 1]"), Some("3 [2, 3]")));
        assert_eq!((names.own("3", 4), names.own("0", 1)), (None, None));
        let mut groups = vec![("3".to_owned(), vec![2, 3]), ("0".to_owned(), vec![0, 1, 2, 3])];
        names.rename(&mut groups);
        assert_eq!((groups[0].0.as_str(), groups[1].0.as_str()), ("3 [2, 3]", "0"));
    }

    #[test]
    fn one_communicator_and_lists_that_overlap_keep_their_name() {
        // Ranks may list one communicator in another order, or one of them only a part of it.
        assert!(same_names(&[("3", &[0, 1]), ("3", &[1, 0])]).is_empty());
        assert!(same_names(&[("3", &[0, 1]), ("3", &[0, 1, 2])]).is_empty());
        assert!(same_names(&[]).is_empty());
    }

    #[test]
    fn long_lists_are_written_short() {
        assert_eq!((written(&[0, 1, 2]), written(&[0, 2, 4])), ("[0 to 2]".to_owned(), "[0, 2, 4]".to_owned()));
        let even: Vec<u32> = (0..20).map(|rank| 2 * rank).collect();
        assert_eq!(written(&even), "[0, 2, 4, 6, 8, 10, 12, 14, ...]");
    }
}
