//! Where ranks ran: hosts, sockets, NUMA nodes, cores, devices, network interfaces.

use std::collections::BTreeMap;

use record::{CaseLine, Machine, NetworkInterface, Placement, slower_interfaces};

use crate::Run;
use crate::document::{Align, Block, Table, Words, bullets};
use crate::number::{NONE, count, seconds};
use crate::run::machine_line;

/// A table for each kind of world, and a line for each host where there were several. Empty where the record tells nothing
/// or there was one rank only.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    let several = run.hosts.len() > 1;
    let mut parts: Vec<Block> = Vec::new();
    if several {
        parts.extend(bullets(run.hosts.iter().map(host)));
        parts.extend(clocks(&run.cases));
    }
    for placement in run.placement.iter().filter(|placement| several || placement.ranks > 1) {
        let ranks = count(placement.ranks as usize, "rank", "ranks");
        parts.push(Block::Paragraph(format!("{ranks}, bind: {}", placement.bind).into()));
        parts.push(Block::Table(table(placement, &run.hosts)));
    }
    if run.placement.iter().any(|placement| placement.interfaces.iter().any(Option::is_some)) {
        parts.push(Block::Paragraph(Words::prose(MEANT)));
    }
    parts.extend(bullets(slower_interfaces(&run.hosts, &run.placement)));
    parts
}

/// What the column `interface` is, and is not.
const MEANT: &str = "`interface` connects the rank to the coordinator; MPI, NCCL and gloo choose their own.";

/// `node-a: 64 cores AMD EPYC, Linux 6.1; eth0 (25 Gbit/s), mlx5_0:1 (200 Gbit/s)`.
fn host(machine: &Machine) -> String {
    let interfaces: Vec<String> = machine.interfaces.iter().map(NetworkInterface::label).collect();
    let interfaces = if interfaces.is_empty() { String::new() } else { format!("; {}", interfaces.join(", ")) };
    match machine_line(machine) + &interfaces {
        known if known.is_empty() => machine.host.clone(),
        known => format!("{}: {known}", machine.host),
    }
}

/// A host's clock over all cases.
#[derive(Default)]
struct ClockSummary<'a> {
    last: Option<(i64, f64)>,
    worst_ns: f64,
    caveats: Vec<&'a str>,
}

/// The clocks of the other hosts compared with the first host's, over all cases. Empty if no case compared them.
fn clocks(cases: &[CaseLine]) -> Vec<Block> {
    use Align::{Left, Right};
    let mut hosts: BTreeMap<&str, ClockSummary<'_>> = BTreeMap::new();
    for clock in cases.iter().flat_map(|case| &case.clocks) {
        let summary = hosts.entry(&clock.host).or_default();
        summary.last = clock.offset_ns.zip(clock.drift_ppm).or(summary.last);
        summary.worst_ns = clock.residual_ns.unwrap_or(0.0).max(summary.worst_ns);
        summary.caveats.extend(clock.why.as_deref().filter(|why| !summary.caveats.contains(why)));
    }
    if hosts.is_empty() {
        return Vec::new();
    }
    let columns = [("clock of", Left), ("offset", Right), ("drift", Right), ("residual", Right), ("caveat", Left)];
    let mut table = Table::new(columns);
    for (host, ClockSummary { last, worst_ns, caveats }) in hosts {
        let (offset, drift, residual) = match last {
            Some((ns, ppm)) => (seconds(ns as f64 / 1e9), format!("{ppm:.2} ppm"), seconds(worst_ns / 1e9)),
            None => (NONE.to_owned(), NONE.to_owned(), NONE.to_owned()),
        };
        let caveat = if caveats.is_empty() { NONE.to_owned() } else { caveats.join("; ") };
        table.row([host.to_owned(), offset, drift, residual, caveat]);
    }
    let words = "Clocks compared with rank 0's host: offset and drift in the last case, largest residual of all cases";
    vec![Block::Paragraph(words.into()), Block::Table(table.without_empty(NONE, &["caveat"]))]
}

/// Ranks of one host, socket, NUMA node and interface.
struct PlacementRow {
    place: [String; 4],
    ranks: Vec<String>,
    cores: Vec<String>,
    devices: Vec<String>,
}

/// Ranks that share all of their place stand in one row, each with its core and device. Devices are left out where all are
/// the CPU, which the cores tell already. `machines`: those of the hosts, where they are several.
fn table(placement: &Placement, machines: &[Machine]) -> Table {
    use Align::{Left, Right};
    let only_cpu = placement.devices.iter().all(|device| device == "cpu");
    let mut rows: Vec<PlacementRow> = Vec::new();
    for (rank, host) in placement.hosts.iter().enumerate() {
        let of = |all: &[Vec<u32>]| {
            let own: Vec<String> = all.get(rank).into_iter().flatten().map(u32::to_string).collect();
            if own.is_empty() { NONE.to_owned() } else { own.join(" ") }
        };
        let by = interface_of(placement, machines, rank);
        let place = [host.clone(), of(&placement.sockets), of(&placement.numa_nodes), by];
        let at = rows.iter().position(|row| row.place == place).unwrap_or_else(|| {
            rows.push(PlacementRow { place, ranks: Vec::new(), cores: Vec::new(), devices: Vec::new() });
            rows.len() - 1
        });
        let device = placement.devices.get(rank).filter(|_| !only_cpu);
        rows[at].ranks.push(rank.to_string());
        rows[at].cores.push(of(&placement.cpus));
        rows[at].devices.push(device.map_or_else(|| NONE.to_owned(), Clone::clone));
    }
    let mut table = Table::new([
        ("host", Left),
        ("socket", Right),
        ("NUMA node", Right),
        ("interface", Left),
        ("ranks", Left),
        ("cores", Left),
        ("devices", Left),
    ]);
    let joined = |each: &[String]| match each.iter().all(|one| one == NONE) {
        true => NONE.to_owned(),
        false => each.join(" "),
    };
    for PlacementRow { place, ranks, cores, devices } in rows {
        table.row(place.into_iter().chain([ranks.join(" "), joined(&cores), joined(&devices)]));
    }
    table.without_empty(NONE, &["socket", "NUMA node", "interface", "cores", "devices"])
}

/// The interface of a rank, with the speed that its host says of it.
fn interface_of(placement: &Placement, machines: &[Machine], rank: usize) -> String {
    let Some(Some(name)) = placement.interfaces.get(rank) else { return NONE.to_owned() };
    let machine = machines.iter().find(|machine| Some(&machine.host) == placement.hosts.get(rank));
    let known = machine.and_then(|machine| machine.interfaces.iter().find(|one| one.name == *name));
    known.map_or_else(|| name.clone(), NetworkInterface::label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::markdown;
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
            devices: ["cpu", "cuda:0", "cuda:1", "cuda:1"].map(str::to_owned).to_vec(),
            interfaces: ["eth0", "eth0", "eth0", "ib|0"].map(|name| Some(name.to_owned())).to_vec(),
            ..Placement::default()
        };
        let hosts = vec![machine("a", Some(25_000)), machine("b", None)];
        let known = Run { hosts, placement: vec![placement], ..Run::default() };
        let text = |run: &Run| markdown::text(&blocks(run)).into_string();
        let all = text(&known);
        let lines: Vec<&str> = all.lines().collect();
        assert_eq!(lines[..2], ["* a: ; eth0 (25 Gbit/s)", "* b: ; eth0"]);
        assert_eq!(
            lines[5..11],
            [
                "| host | socket | interface        | ranks | cores | devices |",
                "| ---- | -----: | ---------------- | ----- | ----- | ------- |",
                "| a    |      0 | eth0 (25 Gbit/s) | 0     | 0     | cpu     |",
                "| b    |      0 | eth0             | 1     | 0     | cuda:0  |",
                "| a    |      1 | eth0 (25 Gbit/s) | 2     | 8     | cuda:1  |",
                "| b    |      0 | ib\\|0            | 3     | 1     | cuda:1  |",
            ]
        );
        assert_eq!(lines.last(), Some(&MEANT));
        // All on the CPU, or in a record that is older than devices and interfaces.
        let without = |devices: Vec<String>| {
            let placement = Placement { devices, interfaces: Vec::new(), ..known.placement[0].clone() };
            text(&Run { placement: vec![placement], ..known.clone() })
        };
        for plain in [without(vec!["cpu".to_owned(); 4]), without(Vec::new())] {
            let lines: Vec<&str> = plain.lines().collect();
            assert_eq!(lines[5], "| host | socket | ranks | cores |");
            assert_eq!(lines[8..], ["| b    |      0 | 1 3   | 0 1   |", "| a    |      1 | 2     | 8     |"]);
        }
    }

    #[test]
    fn clocks_show_the_last_offset_and_the_worst_residual() {
        let parameters = || serde_json::from_str(r#"{"op": "all_reduce", "ranks": 2}"#).unwrap();
        let case = |clocks: Vec<HostClock>| {
            let case = record::Case::new("collective", parameters());
            CaseLine { clocks, ..CaseLine::unmeasured(&case, terms::Status::Ok, "") }
        };
        let clock = |host: &str, offset, ppm, residual| HostClock {
            host: host.to_owned(),
            offset_ns: Some(offset),
            drift_ppm: Some(ppm),
            residual_ns: Some(residual),
            why: None,
        };
        assert!(clocks(&[case(Vec::new())]).is_empty());
        let jumped = HostClock { host: "c".to_owned(), why: Some("it jumped".to_owned()), ..HostClock::default() };
        let cases =
            [case(vec![clock("b", 1, 0.0, 90_000.0), jumped]), case(vec![clock("b", -2_000_000, 12.345, 40_000.0)])];
        let text = markdown::text(&clocks(&cases)).into_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2..],
            [
                "| clock of |   offset |     drift | residual | caveat    |",
                "| -------- | -------: | --------: | -------: | --------- |",
                "| b        | -2.00 ms | 12.35 ppm |  90.0 us | -         |",
                "| c        |        - |         - |        - | it jumped |",
            ]
        );
    }
}
