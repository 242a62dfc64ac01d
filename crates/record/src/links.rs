//! Network links of hosts: which one bounds what ranks of several hosts exchange, and which slower one was used.

use crate::{Machine, NetworkInterface, Placement};

/// The fastest way out of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// "eth1 (25 Gbit/s)", "8 ports (3200 Gbit/s)".
    pub label: String,
    /// Bytes a second, in each direction.
    pub bytes_per_s: f64,
}

impl NetworkInterface {
    /// `eth0 (25 Gbit/s)`; the name alone where the speed is not known.
    pub fn label(&self) -> String {
        self.megabits.map_or_else(|| self.name.clone(), |megabits| format!("{} ({})", self.name, speed(megabits)))
    }
}

/// `25 Gbit/s`.
fn speed(megabits: u64) -> String {
    match megabits {
        1000.. => format!("{} Gbit/s", megabits as f64 / 1000.0),
        _ => format!("{megabits} Mbit/s"),
    }
}

impl Machine {
    /// The fastest link that the kernel knows of this host: its ports of InfiniBand together, which libraries use at once, or the
    /// fastest other interface. None where it knows no speed.
    pub fn link(&self) -> Option<Link> {
        let (ports, others): (Vec<&NetworkInterface>, Vec<&NetworkInterface>) =
            self.interfaces.iter().filter(|one| one.megabits.is_some()).partition(|one| one.is_port());
        let together: u64 = ports.iter().filter_map(|port| port.megabits).sum();
        let fastest = others.into_iter().max_by_key(|one| one.megabits);
        let (label, megabits) = match (ports.as_slice(), fastest) {
            ([], None) => return None,
            (ports, Some(one)) if one.megabits > Some(together) || ports.is_empty() => (one.label(), one.megabits?),
            ([port], _) => (port.label(), together),
            (ports, _) => (format!("{} ports ({})", ports.len(), speed(together)), together),
        };
        Some(Link { label, bytes_per_s: megabits as f64 * 1e6 / 8.0 })
    }
}

/// A sentence for each pair of interfaces of which hosts used the slower one: `h1: ranks connect through eth0 (1 Gbit/s), and
/// eth1 (25 Gbit/s) is up, too`. Ports of InfiniBand do not count: libraries find them by themselves.
pub fn slower_interfaces(hosts: &[Machine], placement: &[Placement]) -> Vec<String> {
    let mut found: Vec<(String, String, Vec<&str>)> = Vec::new();
    for machine in hosts {
        let used = placement.iter().find_map(|placement| {
            let rank = placement.hosts.iter().position(|host| *host == machine.host)?;
            placement.interfaces.get(rank)?.as_deref()
        });
        let ethernet = || machine.interfaces.iter().filter(|one| !one.is_port());
        let own = ethernet().find(|one| Some(one.name.as_str()) == used);
        let fastest = ethernet().max_by_key(|one| one.megabits);
        let Some((own, fastest)) = own.zip(fastest) else { continue };
        if own.megabits.is_none() || own.megabits >= fastest.megabits {
            continue;
        }
        let pair = (own.label(), fastest.label());
        match found.iter_mut().find(|(one, other, _)| (&pair.0, &pair.1) == (one, other)) {
            Some((.., hosts)) => hosts.push(&machine.host),
            None => found.push((pair.0, pair.1, vec![&machine.host])),
        }
    }
    let sentence = |(own, fastest, hosts): (String, String, Vec<&str>)| {
        let name = fastest.split(' ').next().unwrap_or_default().to_owned();
        let hosts = match hosts.as_slice() {
            [first, second, rest @ ..] if !rest.is_empty() => format!("{first}, {second} and {} more", rest.len()),
            few => few.join(", "),
        };
        format!(
            "{hosts}: ranks connect through {own}, and {fastest} is up, too. RANKMARK_INTERFACE={name} selects it; libraries have \
             settings of their own (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, OMPI_MCA_btl_tcp_if_include)"
        )
    };
    found.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(host: &str, interfaces: &[(&str, Option<u64>)]) -> Machine {
        let interface =
            |(name, megabits): &(&str, Option<u64>)| NetworkInterface { name: (*name).to_owned(), megabits: *megabits };
        Machine { host: host.to_owned(), interfaces: interfaces.iter().map(interface).collect(), ..Machine::default() }
    }

    #[test]
    fn the_link_of_a_host_is_its_fastest() {
        let link = |interfaces: &[(&str, Option<u64>)]| {
            machine("a", interfaces).link().map(|link| (link.label, link.bytes_per_s))
        };
        assert_eq!(link(&[("eth0", None)]), None);
        assert_eq!(link(&[("eth0", Some(100)), ("eth1", None)]), Some(("eth0 (100 Mbit/s)".to_owned(), 12.5e6)));
        let both = [("eth0", Some(1000)), ("eth1", Some(25_000))];
        assert_eq!(link(&both), Some(("eth1 (25 Gbit/s)".to_owned(), 3.125e9)));
        let ports = [("eth0", Some(25_000)), ("mlx5_0:1", Some(200_000)), ("mlx5_1:1", Some(200_000))];
        assert_eq!(link(&ports), Some(("2 ports (400 Gbit/s)".to_owned(), 50e9)));
        assert_eq!(link(&ports[..2]), Some(("mlx5_0:1 (200 Gbit/s)".to_owned(), 25e9)));
    }

    #[test]
    fn the_slower_of_two_interfaces_is_told_once() {
        let fast = ("eth1", Some(25_000));
        let hosts = [
            machine("h0", &[("eth0", Some(1000)), fast]),
            machine("h1", &[("eth0", Some(1000)), fast]),
            machine("h2", &[("eth0", Some(25_000)), fast]),
            machine("h3", &[("eth0", None), fast]),
            machine("h4", &[("eth0", Some(1000)), ("mlx5_0:1", Some(200_000))]),
        ];
        let placement = Placement {
            ranks: 5,
            hosts: hosts.iter().map(|host| host.host.clone()).collect(),
            interfaces: vec![Some("eth0".to_owned()); 5],
            ..Placement::default()
        };
        let told = slower_interfaces(&hosts, &[placement]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(
            "h0, h1: ranks connect through eth0 (1 Gbit/s), and eth1 (25 Gbit/s) is up, too. RANKMARK_INTERFACE=eth1 "
        ));
        assert!(slower_interfaces(&hosts, &[]).is_empty());
    }
}
