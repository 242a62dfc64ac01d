//! Where ranks ran: hosts, sockets, NUMA nodes, cores, network interfaces.

use std::collections::BTreeMap;

use record::{CaseLine, Machine, NetworkInterface, Placement};

use crate::Run;
use crate::escape::markdown as escaped;
use crate::number::{NONE, seconds};
use crate::run::machine_line;
use crate::table::{Align, Table};

/// A table for each kind of world, and a line for each host where there were several. Empty where the record tells nothing
/// or there was one rank only.
pub(crate) fn text(run: &Run) -> String {
    let several = run.hosts.len() > 1;
    let mut parts: Vec<String> = Vec::new();
    if several {
        parts.push(run.hosts.iter().map(host).collect::<Vec<_>>().join("\n"));
        parts.extend(clocks(&run.cases));
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

/// What is known of one host's clock over all cases.
#[derive(Default)]
struct Known<'a> {
    last: Option<(i64, f64)>,
    worst_ns: f64,
    doubts: Vec<&'a str>,
}

/// How clocks of the other hosts ran against that of the first, over all cases; None where nobody compared them.
fn clocks(cases: &[CaseLine]) -> Option<String> {
    use Align::{Left, Right};
    let mut hosts: BTreeMap<&str, Known<'_>> = BTreeMap::new();
    for clock in cases.iter().flat_map(|case| &case.clocks) {
        let known = hosts.entry(&clock.host).or_default();
        known.last = clock.offset_ns.zip(clock.drift_ppm).or(known.last);
        known.worst_ns = clock.residual_ns.unwrap_or(0.0).max(known.worst_ns);
        known.doubts.extend(clock.why.as_deref().filter(|why| !known.doubts.contains(why)));
    }
    if hosts.is_empty() {
        return None;
    }
    let columns = [("clock of", Left), ("offset", Right), ("drift", Right), ("residual", Right), ("doubt", Left)];
    let mut table = Table::new(&columns);
    for (host, Known { last, worst_ns, doubts }) in hosts {
        let (offset, drift, residual) = match last {
            Some((ns, ppm)) => (seconds(ns as f64 / 1e9), format!("{ppm:.2} ppm"), seconds(worst_ns / 1e9)),
            None => (NONE.to_owned(), NONE.to_owned(), NONE.to_owned()),
        };
        let doubt = if doubts.is_empty() { NONE.to_owned() } else { escaped(&doubts.join("; ")) };
        table.row(vec![escaped(host), offset, drift, residual, doubt]);
    }
    let words = "Clocks against that of rank 0's host: offset and drift in the last case, the largest residual of any";
    Some(format!("{words}\n\n{}", table.without_empty(NONE, &["doubt"]).markdown().trim_end()))
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
    use record::HostClock;

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

    #[test]
    fn clocks_show_the_last_offset_and_the_worst_residual() {
        let parameters = || serde_json::from_str(r#"{"op": "all_reduce", "ranks": 2}"#).unwrap();
        let case = |clocks: Vec<HostClock>| {
            let case = record::Case {
                id: String::new(),
                benchmark: "collective".to_owned(),
                parameters: parameters(),
                settings: serde_json::Map::new(),
                world: serde_json::Map::new(),
                caveats: Vec::new(),
                bytes_requested: None,
                skip: None,
            };
            CaseLine { clocks, ..CaseLine::unmeasured(&case, terms::Status::Ok, "") }
        };
        let clock = |host: &str, offset, ppm, residual| HostClock {
            host: host.to_owned(),
            offset_ns: Some(offset),
            drift_ppm: Some(ppm),
            residual_ns: Some(residual),
            why: None,
        };
        assert_eq!(clocks(&[case(Vec::new())]), None);
        let jumped = HostClock { host: "c".to_owned(), why: Some("it jumped".to_owned()), ..HostClock::default() };
        let cases =
            [case(vec![clock("b", 1, 0.0, 90_000.0), jumped]), case(vec![clock("b", -2_000_000, 12.345, 40_000.0)])];
        let text = clocks(&cases).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2..],
            [
                "| clock of |   offset |     drift | residual | doubt     |",
                "| -------- | -------: | --------: | -------: | --------- |",
                "| b        | -2.00 ms | 12.35 ppm |  90.0 us | -         |",
                "| c        |        - |         - |        - | it jumped |",
            ]
        );
    }
}
