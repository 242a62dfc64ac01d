//! Which hosts a launcher's ranks are on, and what each of these has.

use std::collections::HashMap;

use control::Here;
use record::{Machine, Processor};

/// A host with ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct RankHost {
    /// Name of the host.
    pub name: String,
    /// Ranks of the host, ascending.
    pub ranks: Vec<u32>,
    /// The interface by which each of these ranks is connected with the coordinator; None for loopback.
    pub(super) interfaces: Vec<Option<String>>,
    /// The cores that its ranks may use together, ascending; where containers of one machine may all use the same ones, from
    /// the one that is this host's turn.
    pub cores: Vec<Processor>,
    /// Ranks of other hosts on these same cores: such hosts are containers of one machine.
    pub(super) co_located: u32,
    /// What it is.
    pub machine: Machine,
}

/// The hosts of ranks, in the order of their first ranks. `ranks` holds each rank's host and place, in rank order.
///
/// # Errors
/// When two hosts have the same name: messages could not say which one a rank is on.
pub(super) fn group(ranks: Vec<(String, Here)>) -> Result<Vec<RankHost>, String> {
    let (mut hosts, mut boots): (Vec<RankHost>, HashMap<String, String>) = (Vec::new(), HashMap::new());
    for ((name, Here { boot, cores, interface, machine, .. }), rank) in ranks.into_iter().zip(0..) {
        let known = boots.entry(name.clone()).or_insert_with(|| boot.clone());
        if *known != boot {
            return Err(format!("two hosts call themselves {name}"));
        }
        match hosts.iter_mut().find(|host| host.name == name) {
            Some(host) => {
                host.ranks.push(rank);
                host.interfaces.push(interface);
                host.cores.extend(cores);
            }
            None => {
                let (ranks, interfaces) = (vec![rank], vec![interface]);
                hosts.push(RankHost { name, ranks, interfaces, cores, co_located: 0, machine });
            }
        }
    }
    for host in &mut hosts {
        host.cores.sort_unstable_by_key(|core| core.number);
        host.cores.dedup();
        host.machine.allowed_cpus = host.numbers();
    }
    take_turns(&mut hosts, &boots);
    Ok(hosts)
}

/// Pods on one machine are hosts to each other, and without a share of its cores each may use all: their first ranks would
/// all be bound to its first core. Each begins where those before it end.
fn take_turns(hosts: &mut [RankHost], boots: &HashMap<String, String>) {
    let of: Vec<(Option<&String>, Vec<u32>)> =
        hosts.iter().map(|host| (boots.get(&host.name), host.numbers())).collect();
    let ranks: Vec<u32> = hosts.iter().map(|host| host.ranks.len() as u32).collect();
    let sharing = |own: usize, upto: usize| -> u32 {
        (0..upto).filter(|other| *other != own && of[*other] == of[own]).map(|other| ranks[other]).sum()
    };
    for (index, host) in hosts.iter_mut().enumerate() {
        host.co_located = sharing(index, ranks.len());
        let turn = (sharing(index, index) as usize).checked_rem(host.cores.len()).unwrap_or(0);
        host.cores.rotate_left(turn);
    }
}

impl RankHost {
    /// The kernel's numbers for its cores.
    pub fn numbers(&self) -> Vec<u32> {
        self.cores.iter().map(|core| core.number).collect()
    }

    /// Ranks on its machine: its own, and those of other containers.
    pub fn crowd(&self) -> usize {
        self.ranks.len() + self.co_located as usize
    }

    /// The core that a rank is bound to, where ranks are; None for a rank of another host.
    pub fn core_of(&self, rank: u32) -> Option<Processor> {
        self.cores.get(self.index_of(rank)?.checked_rem(self.cores.len())?).copied()
    }

    /// The interface of this host by which a rank's place is connected with the coordinator, and so with all other hosts'
    /// ranks as far as this program's own messages go. None for loopback, and for a rank of another host.
    pub fn interface_of(&self, rank: u32) -> Option<&str> {
        self.interfaces.get(self.index_of(rank)?)?.as_deref()
    }

    fn index_of(&self, rank: u32) -> Option<usize> {
        self.ranks.iter().position(|own| *own == rank)
    }
}

/// Which of these hosts each rank is on, by rank; empty where there is one only.
pub(super) fn layout(hosts: &[RankHost]) -> Vec<u32> {
    if hosts.len() < 2 {
        return Vec::new();
    }
    let mut of: Vec<(u32, u32)> =
        hosts.iter().zip(0..).flat_map(|(host, index)| host.ranks.iter().map(move |rank| (*rank, index))).collect();
    of.sort_unstable();
    of.into_iter().map(|(_, index)| index).collect()
}

/// Cores for `size` ranks as though each host had as many for each of its ranks as the scarcest has: ranks outnumber these
/// where, and only where, they outnumber the cores of one of the hosts.
pub(super) fn cores_for(hosts: &[RankHost], size: u32) -> usize {
    let each = |host: &RankHost| host.cores.len() * size as usize / host.crowd().max(1);
    hosts.iter().map(each).min().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, boot: &str, cores: &[u32]) -> (String, Here) {
        let machine = Machine { host: name.to_owned(), ..Machine::default() };
        let core = |number: &u32| Processor { number: *number, socket: None, numa_node: None };
        let cores = cores.iter().map(core).collect();
        (name.to_owned(), Here { boot: boot.to_owned(), cores, interface: None, machine, command: Vec::new() })
    }

    #[test]
    fn ranks_are_grouped_by_host_whatever_their_order() {
        let hosts =
            group(vec![said("a", "1", &[1]), said("b", "2", &[0, 1]), said("a", "1", &[0]), said("b", "2", &[1])])
                .unwrap();
        let grouped: Vec<_> =
            hosts.iter().map(|host| (host.name.as_str(), host.ranks.clone(), host.numbers())).collect();
        assert_eq!(grouped, [("a", vec![0, 2], vec![0, 1]), ("b", vec![1, 3], vec![0, 1])]);
        let bound = |rank| hosts.iter().find_map(|host| host.core_of(rank)).map(|core| core.number);
        assert_eq!([0, 1, 2, 3, 4].map(bound), [Some(0), Some(0), Some(1), Some(1), None]);
        assert_eq!(layout(&hosts), [0, 1, 0, 1]);
        assert!(layout(&hosts[..1]).is_empty());
        let why = group(vec![said("node", "1", &[0]), said("node", "2", &[0])]).unwrap_err();
        assert_eq!(why, "two hosts call themselves node");
    }

    #[test]
    fn interfaces_are_those_of_the_ranks_that_said_them() {
        let by = |name: &str, interface: &str| {
            let (name, here) = said(name, name, &[0]);
            (name, Here { interface: (interface != "lo").then(|| interface.to_owned()), ..here })
        };
        let hosts = group(vec![by("a", "eth0"), by("b", "ib0"), by("a", "lo"), by("a", "eth1")]).unwrap();
        let interface_of = |rank: u32| hosts.iter().find_map(|host| host.interface_of(rank));
        assert_eq!([0, 1, 2, 3, 4].map(interface_of), [Some("eth0"), Some("ib0"), None, Some("eth1"), None]);
    }

    #[test]
    fn containers_of_one_machine_share_its_cores() {
        let pods = |ranks: &[&str]| group(ranks.iter().map(|name| said(name, "1", &[0, 1, 2])).collect()).unwrap();
        let bound = |hosts: &[RankHost], size: u32| -> Vec<u32> {
            (0..size).map(|rank| hosts.iter().find_map(|host| host.core_of(rank)).unwrap().number).collect()
        };
        let one_each = pods(&["a", "b", "c"]);
        assert_eq!((bound(&one_each, 3), cores_for(&one_each, 3)), (vec![0, 1, 2], 3));
        let two_each = pods(&["a", "a", "b", "b"]);
        assert_eq!((bound(&two_each, 4), cores_for(&two_each, 4)), (vec![0, 1, 2, 0], 3));
        assert_eq!(two_each[1].machine.allowed_cpus, [0, 1, 2], "the record lists them in order");
        // A share of its own, or a machine of its own.
        let apart = group(vec![said("a", "1", &[0, 1]), said("b", "1", &[2, 3]), said("c", "2", &[0, 1])]).unwrap();
        assert_eq!((bound(&apart, 3), cores_for(&apart, 3)), (vec![0, 2, 0], 6));
    }

    #[test]
    fn the_scarcest_host_counts() {
        // Three ranks on two cores, and one on eight.
        let uneven =
            |rank: u32| if rank < 3 { said("a", "1", &[0, 1]) } else { said("b", "2", &[0, 1, 2, 3, 4, 5, 6, 7]) };
        let hosts = group((0..4).map(uneven).collect()).unwrap();
        assert_eq!(cores_for(&hosts, 4), 2);
        let arrival = |rank: u32| if rank < 2 { said("a", "1", &[0, 1]) } else { said("b", "2", &[0, 1]) };
        let even = group((0..4).map(arrival).collect()).unwrap();
        assert_eq!(cores_for(&even, 4), 4);
    }
}
