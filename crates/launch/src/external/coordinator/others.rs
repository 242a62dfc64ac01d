//! A launcher without some of its hosts: what goes on when one of them was lost.

use std::cell::{Cell, RefCell};

use super::Coordinator;
use crate::external::RankHost;
use crate::remote::{Agent, locked};

impl Coordinator {
    /// Whether a world of the others can go on without the hosts of these ranks: most of the hosts are left, at least two, and
    /// this one among them.
    pub fn can_leave_out(&self, ranks: &[u32]) -> bool {
        can_leave_out(&self.hosts, ranks)
    }

    /// This launcher without the hosts of these names, the ranks of the others numbered again in their order. What the
    /// launcher itself connects cannot go on, because it has all of its processes. Worlds of this one must have ended. None if
    /// [too few hosts](Self::can_leave_out) are left.
    pub fn without(&self, names: &[String]) -> Option<Self> {
        let (hosts, stay) = without(&self.hosts, names)?;
        let mut agents = locked(&self.agents);
        // Behind all others, they belong to no world, and are still let go with the others.
        let mut all: Vec<(usize, Agent)> = std::mem::take(&mut *agents).into_iter().enumerate().collect();
        all.sort_by_key(|(rank, _)| (!stay.contains(&(*rank as u32)), *rank));
        agents.extend(all.into_iter().map(|(_, agent)| agent));
        drop(agents);
        Some(Self {
            external: self.external.clone(),
            secret: self.secret.clone(),
            address: self.address,
            agents: self.agents.clone(),
            hosts,
            size: stay.len() as u32,
            renumbered: true,
            search: self.search.clone(),
            initialised: Cell::new(true),
            unjoinable: RefCell::new(self.unjoinable.borrow().clone()),
            on_stall: self.on_stall.clone(),
            ends: Cell::new(self.ends.get()),
        })
    }
}

fn can_leave_out(hosts: &[RankHost], ranks: &[u32]) -> bool {
    let is_out = |host: &&RankHost| host.ranks.iter().any(|rank| ranks.contains(rank));
    let out = hosts.iter().filter(is_out).count();
    let is_own = hosts.first().is_some_and(|own| is_out(&own));
    let left = hosts.len() - out;
    out > 0 && !is_own && left > out && left > 1
}

/// The hosts without those of these names, their ranks numbered again, and the numbers that these had, ascending.
fn without(hosts: &[RankHost], names: &[String]) -> Option<(Vec<RankHost>, Vec<u32>)> {
    let (out, kept): (Vec<&RankHost>, Vec<&RankHost>) = hosts.iter().partition(|host| names.contains(&host.name));
    let ranks =
        |hosts: &[&RankHost]| -> Vec<u32> { hosts.iter().flat_map(|host| host.ranks.iter().copied()).collect() };
    let (out, mut stay) = (ranks(&out), ranks(&kept));
    stay.sort_unstable();
    if !can_leave_out(hosts, &out) {
        return None;
    }
    let number = |rank: &u32| stay.iter().position(|own| own == rank).map(|at| at as u32);
    let numbered = |host: &RankHost| RankHost { ranks: host.ranks.iter().filter_map(number).collect(), ..host.clone() };
    Some((kept.into_iter().map(numbered).collect(), stay))
}

#[cfg(test)]
mod tests {
    use record::Machine;

    use super::*;

    fn host(name: &str, ranks: &[u32]) -> RankHost {
        let (name, ranks, interfaces) = (name.to_owned(), ranks.to_vec(), vec![None; ranks.len()]);
        RankHost { name, ranks, interfaces, cores: Vec::new(), co_located: 0, machine: Machine::default() }
    }

    #[test]
    fn ranks_of_the_others_are_numbered_again_in_their_order() {
        // Dealt out one by one.
        let hosts = [host("a", &[0, 4]), host("b", &[1, 5]), host("c", &[2]), host("d", &[3, 6])];
        let (left, stay) = without(&hosts, &["b".to_owned()]).unwrap();
        let ranks: Vec<_> = left.iter().map(|host| (host.name.as_str(), host.ranks.as_slice())).collect();
        assert_eq!(ranks, [("a", &[0, 3][..]), ("c", &[1]), ("d", &[2, 4])]);
        assert_eq!(stay, [0, 2, 3, 4, 6]);
        let (left, stay) = without(&left, &["d".to_owned()]).unwrap();
        assert_eq!((left.len(), stay), (2, vec![0, 1, 3]), "another one, of what is left");
    }

    #[test]
    fn most_hosts_must_be_left_and_this_one_among_them() {
        let four = ["a", "b", "c", "d"].map(|name| host(name, &[u32::from(name.as_bytes()[0] - b'a')]));
        for (ranks, can) in
            [(&[1][..], true), (&[3], true), (&[0], false), (&[1, 2], false), (&[], false), (&[9], false)]
        {
            assert_eq!(can_leave_out(&four, ranks), can, "{ranks:?}");
        }
        assert!(!can_leave_out(&four[..2], &[1]), "one host alone has no peers");
        assert!(without(&four, &["nobody".to_owned()]).is_none());
    }
}
