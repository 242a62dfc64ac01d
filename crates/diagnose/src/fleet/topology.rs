//! Which nodes share a switch, from the text of Slurm's `topology.conf`: nodes of one leaf switch are at the same distance.

use std::collections::BTreeMap;

use terms::{Error, HostName};

use super::hosts::expanded;

/// The leaf switch of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    switches: BTreeMap<HostName, String>,
}

impl Topology {
    /// Reads lines of `SwitchName=leaf1 Nodes=node[01-16]`; those of switches above (`Switches=`) add nothing here.
    ///
    /// # Errors
    /// When no line names nodes, a list is not one of hosts, or a node hangs on two switches.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut found = Self::default();
        // Slurm continues a line that ends in a backslash.
        let text = text.replace("\\\n", "");
        for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
            let word = |name: &str| {
                line.split_whitespace().find_map(|word| {
                    let (key, value) = word.split_once('=')?;
                    key.eq_ignore_ascii_case(name).then_some(value)
                })
            };
            let (Some(switch), Some(nodes)) = (word("SwitchName"), word("Nodes")) else { continue };
            for host in expanded(nodes)? {
                let refused = format!("{host} has two switches: {switch} and another");
                if found.switches.insert(host, switch.to_owned()).is_some_and(|known| known != switch) {
                    return Err(Error::new(refused));
                }
            }
        }
        if found.switches.is_empty() {
            let error = Error::new("the topology names no node".to_owned());
            return Err(error.hint("lines of Slurm's topology.conf: SwitchName=leaf1 Nodes=node[01-16]"));
        }
        Ok(found)
    }

    /// Whether it names any of these hosts.
    pub(super) fn names_any(&self, hosts: &[HostName]) -> bool {
        hosts.iter().any(|host| self.switch(host).is_some())
    }

    /// The switch of a host, which Slurm may know by the first part of its name alone.
    fn switch(&self, host: &HostName) -> Option<&String> {
        let short = || HostName::parse(host.as_str().split('.').next()?).ok();
        self.switches.get(host).or_else(|| self.switches.get(&short()?))
    }

    /// The block of each host, by number; hosts that it does not name are a block of their own together.
    pub(super) fn blocks(&self, hosts: &[HostName]) -> Vec<usize> {
        let mut known: Vec<Option<&String>> = Vec::new();
        hosts
            .iter()
            .map(|host| {
                let switch = self.switch(host);
                known.iter().position(|own| *own == switch).unwrap_or_else(|| {
                    known.push(switch);
                    known.len() - 1
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_switch_are_a_block() {
        let text = "# racks\nSwitchName=leaf1 Nodes=n[1-3,5]\nSwitchName=leaf2 LinkSpeed=9 Nodes=n4,m07\nSwitchName=top Switches=leaf[1-2]\n";
        let topology = Topology::parse(text).unwrap();
        let hosts: Vec<HostName> =
            ["n1", "n4", "n5", "m07", "other"].map(|host| HostName::parse(host).unwrap()).to_vec();
        assert_eq!(topology.blocks(&hosts), [0, 1, 0, 1, 2]);
        let continued = text.replace("n[1-3,5]", "n[1-3],\\\nn5");
        assert_eq!(Topology::parse(&continued).unwrap(), topology);
        let long = |name: &str| [HostName::parse(name).unwrap()];
        assert_eq!(
            [topology.names_any(&long("n5.cluster")), topology.names_any(&long("other.cluster"))],
            [true, false]
        );
        for bad in
            ["", "SwitchName=a Nodes=n[3-1]", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "SwitchName=a Nodes=n[1"]
        {
            assert!(Topology::parse(bad).is_err(), "{bad}");
        }
    }
}
