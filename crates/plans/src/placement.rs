//! Where ranks run: for the record, and for benchmarks.

use benchmarks::{Host, Launched, Spread};
use launch::external::Coordinator;
use measure::machine;
use record::{Case, Machine, Placement, Plan, Processor, RunFile};

/// Where the ranks of each kind of world of a plan run: each on the core of its host that it is bound to, or anywhere, and
/// on the device of its cases.
pub fn for_plan(plan: &Plan, machine: &Machine, coordinator: Option<&Coordinator>) -> Vec<Placement> {
    let own = machine::processors(&machine.allowed_cpus);
    let place = |rank: u32| place(rank, &machine.host, &own, coordinator);
    let mut placements: Vec<Placement> = Vec::new();
    let host = host(coordinator, machine);
    let is_computed =
        |case: &Case| benchmarks::parse(case).is_ok_and(|parsed| benchmarks::is_computed(&*parsed, &host));
    let has_ranks = |case: &&Case| !benchmarks::is_in_process(case) && !is_computed(case);
    for case in plan.cases.iter().filter(has_ranks) {
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

/// Notes in a record that other steps may have begun who starts the ranks of this one, and where they are.
pub fn note_step(file: &mut RunFile, ranks: u32, machine: &Machine, coordinator: Option<&Coordinator>) {
    file.started_by = file.started_by.take().or(coordinator.map(|coordinator| coordinator.launcher().to_owned()));
    let own = for_plan(&file.plan, machine, coordinator);
    file.placement.retain(|known| known.ranks != ranks);
    file.placement.extend(own.into_iter().filter(|own| own.ranks == ranks));
    note_hosts(file, coordinator);
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

/// The machines that hold ranks, where they are more than are known.
pub fn note_hosts(file: &mut RunFile, coordinator: Option<&Coordinator>) {
    if let Some([own, others @ ..]) = coordinator.map(Coordinator::hosts)
        && !others.is_empty()
        && others.len() >= file.hosts.len()
    {
        file.hosts = std::iter::once(&file.machine).chain(others.iter().map(|host| &host.machine)).cloned().collect();
        file.hosts[0].allowed_cpus = own.numbers();
    }
}

/// The machine as benchmarks see it.
pub fn host(coordinator: Option<&Coordinator>, machine: &Machine) -> Host {
    Host {
        spread: coordinator.and_then(spread),
        cores: coordinator.map_or_else(|| machine::allowed_cpus().len().max(1), Coordinator::cores),
        available_memory: device::available_memory,
        virtualised: machine::limits_are_virtual(machine),
        launched: launched(coordinator),
    }
}

/// The launcher that started the ranks.
pub fn launched(coordinator: Option<&Coordinator>) -> Option<Launched> {
    coordinator.map(|coordinator| Launched { by: coordinator.launcher(), ranks: coordinator.size() })
}

/// How a launcher's ranks are spread over hosts, where they are on several.
fn spread(coordinator: &Coordinator) -> Option<Spread> {
    let most = coordinator.hosts().iter().map(launch::external::RankHost::crowd).max().unwrap_or(0) as u32;
    let hosts = coordinator.hosts().len() as u32;
    let host_of = |rank: u32| (0..hosts).find(|host| coordinator.hosts()[*host as usize].ranks.contains(&rank));
    let of = (0..coordinator.size()).filter_map(host_of).collect();
    let links: Option<Vec<record::Link>> = coordinator.hosts().iter().map(|host| host.machine.link()).collect();
    let slowest = |links: Vec<record::Link>| links.into_iter().min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
    (hosts > 1).then_some(Spread { hosts, most, of, link: links.and_then(slowest) })
}
