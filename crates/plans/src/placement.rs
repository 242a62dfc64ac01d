//! Where ranks ran, for the record.

use launch::external::Coordinator;
use measure::machine;
use record::{Machine, Placement, Plan, Processor};

/// Where the ranks of each kind of world of a plan run: each on the core of its host that it is bound to, or anywhere, and
/// on the device of its cases.
pub fn for_plan(plan: &Plan, machine: &Machine, coordinator: Option<&Coordinator>) -> Vec<Placement> {
    let own = machine::processors(&machine.allowed_cpus);
    let place = |rank: u32| place(rank, &machine.host, &own, coordinator);
    let mut placements: Vec<Placement> = Vec::new();
    for case in plan.cases.iter().filter(|case| !benchmarks::is_in_process(case)) {
        let bind = case.bind().to_owned();
        let (ranks, device) = (case.ranks(), case.device().unwrap_or("cpu").to_owned());
        if coordinator.is_some_and(|coordinator| coordinator.size() != ranks)
            || placements
                .iter()
                .any(|known| known.ranks == ranks && known.bind == bind && known.devices.first() == Some(&device))
        {
            continue;
        }
        let places: Vec<(String, Option<Processor>)> = (0..ranks).map(place).collect();
        let bound = bind == "core" && places.iter().all(|(_, core)| core.is_some());
        let of_rank = |tell: fn(&Processor) -> Option<u32>| -> Vec<Vec<u32>> {
            let property = |(_, core): &(String, Option<Processor>)| core.as_ref().and_then(tell).into_iter().collect();
            if bound { places.iter().map(property).collect() } else { Vec::new() }
        };
        placements.push(Placement {
            ranks,
            bind,
            cpus: of_rank(|core| Some(core.number)),
            sockets: of_rank(|core| core.socket),
            numa_nodes: of_rank(|core| core.numa_node),
            // The CPU is one device to all ranks of a host.
            devices: vec![device; ranks as usize],
            interfaces: coordinator.map_or_else(Vec::new, |coordinator| interfaces(ranks, coordinator)),
            hosts: places.iter().map(|(host, _)| host.clone()).collect(),
        });
    }
    placements
}

/// The interface of each rank; empty where all are on one host, because its ranks use none.
fn interfaces(ranks: u32, coordinator: &Coordinator) -> Vec<Option<String>> {
    let hosts = coordinator.hosts();
    if hosts.len() < 2 {
        return Vec::new();
    }
    let of = |rank: u32| hosts.iter().find_map(|host| host.interface_of(rank)).map(str::to_owned);
    (0..ranks).map(of).collect()
}

/// A rank's host, and the core that it is bound to there.
fn place(rank: u32, host: &str, own: &[Processor], coordinator: Option<&Coordinator>) -> (String, Option<Processor>) {
    let hosts = coordinator.map(Coordinator::hosts).unwrap_or_default();
    if let Some(host) = hosts.iter().find(|host| host.ranks.contains(&rank)) {
        return (host.name.clone(), host.core_of(rank));
    }
    let index = (rank as usize).checked_rem(own.len());
    (host.to_owned(), index.and_then(|index| own.get(index)).copied())
}
