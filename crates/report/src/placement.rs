//! Where ranks ran: hosts, sockets, NUMA nodes, cores, network interfaces.

use record::{Machine, NetworkInterface, Placement};

use crate::Run;
use crate::escape::markdown as escaped;
use crate::number::NONE;
use crate::run::machine_line;
use crate::table::{Align, Table};

/// A table for each kind of world, and a line for each host where there were several. Empty where the record tells nothing
/// or there was one rank only.
pub(crate) fn text(run: &Run) -> String {
    let several = run.hosts.len() > 1;
    let mut parts: Vec<String> = Vec::new();
    if several {
        parts.push(run.hosts.iter().map(host).collect::<Vec<_>>().join("\n"));
    }
    for placement in run.placement.iter().filter(|placement| several || placement.ranks > 1) {
        parts.push(format!("{} ranks, bind: {}\n\n{}", placement.ranks, escaped(&placement.bind), table(placement)));
    }
    parts.join("\n\n")
}

/// `* node-a: 64 cores AMD EPYC, Linux 6.1; eth0 (25 Gbit/s), mlx5_0:1 (200 Gbit/s)`.
fn host(machine: &Machine) -> String {
    let interface = |one: &NetworkInterface| match one.megabits {
        Some(megabits) if megabits >= 1000 => format!("{} ({} Gbit/s)", one.name, megabits as f64 / 1000.0),
        Some(megabits) => format!("{} ({megabits} Mbit/s)", one.name),
        None => one.name.clone(),
    };
    let interfaces: Vec<String> = machine.interfaces.iter().map(interface).collect();
    let interfaces = if interfaces.is_empty() { String::new() } else { format!("; {}", interfaces.join(", ")) };
    format!("* {}: {}{}", escaped(&machine.host), escaped(&machine_line(machine)), escaped(&interfaces))
}

/// Ranks that share host, socket and NUMA node stand in one row.
fn table(placement: &Placement) -> String {
    use Align::{Left, Right};
    let mut rows: Vec<(Vec<String>, Vec<String>, Vec<String>)> = Vec::new();
    for (rank, host) in placement.hosts.iter().enumerate() {
        let of = |all: &[Vec<u32>]| {
            let own: Vec<String> = all.get(rank).into_iter().flatten().map(u32::to_string).collect();
            if own.is_empty() { NONE.to_owned() } else { own.join(" ") }
        };
        let place = vec![escaped(host), of(&placement.sockets), of(&placement.numa_nodes)];
        let at = rows.iter().position(|(known, ..)| *known == place).unwrap_or_else(|| {
            rows.push((place, Vec::new(), Vec::new()));
            rows.len() - 1
        });
        rows[at].1.push(rank.to_string());
        rows[at].2.push(of(&placement.cpus));
    }
    let mut table =
        Table::new(&[("host", Left), ("socket", Right), ("NUMA node", Right), ("ranks", Left), ("cores", Left)]);
    for (mut cells, ranks, cores) in rows {
        cells.extend([
            ranks.join(" "),
            if cores.iter().all(|core| core == NONE) { NONE.to_owned() } else { cores.join(" ") },
        ]);
        table.row(cells);
    }
    table.without_empty(NONE, &["socket", "NUMA node", "cores"]).markdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_places_are_told_apart() {
        let machine = |host: &str, megabits| Machine {
            host: host.to_owned(),
            interfaces: vec![NetworkInterface { name: "eth0".to_owned(), megabits }],
            ..Machine::default()
        };
        let placement = Placement {
            ranks: 4,
            bind: "core".to_owned(),
            hosts: ["a", "b", "a", "b"].map(str::to_owned).to_vec(),
            cpus: vec![vec![0], vec![0], vec![8], vec![1]],
            sockets: vec![vec![0], vec![0], vec![1], vec![0]],
            numa_nodes: Vec::new(),
        };
        let hosts = vec![machine("a", Some(25_000)), machine("b", None)];
        let text = text(&Run { hosts, placement: vec![placement], ..Run::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["* a: ; eth0 (25 Gbit/s)", "* b: ; eth0"]);
        assert_eq!(
            lines[7..],
            [
                "| a    |      0 | 0     | 0     |",
                "| b    |      0 | 1 3   | 0 1   |",
                "| a    |      1 | 2     | 8     |"
            ]
        );
    }
}
