//! What single nodes took: of records of one host, all timed cases; of records of several, the cases in which ranks work apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{CaseLine, Caveat, Machine, Placement, Record, RunEnd};
use stats::PairTimes;
use terms::{Error, HostName, Status};

use super::blame::fault;
use super::inventory::Inventory;
use super::rails::rails;
use super::taken::{FailedCase, Measured, NodeBits, NodeRun, RankBits, RankTrial, Reader, Taken, Tournament, Unblamed};
use crate::compare::work_key;

/// Caveats of a machine that others used. Throttling is not one: a node with a clock that is held down is slow.
const DISTURBED: [Caveat; 4] = [Caveat::OtherPrograms, Caveat::StolenTime, Caveat::QuotaReached, Caveat::Noisy];

/// The device of cases whose ranks each use a GPU.
const GPU: &str = "cuda";

/// Messages of at most so many bytes are short: their time is that of the way, and not of the rate.
const SHORT_BYTES: u64 = 4096;

/// What a record has of nodes and links. `name`: what the record is called.
///
/// # Errors
/// A host of the record has a name that no list of hosts can hold.
pub fn read(name: &str, record: &Record, reader: &Reader) -> Result<Taken, Error> {
    let file = &record.file;
    let machines: Vec<&Machine> = if file.hosts.is_empty() { vec![&file.machine] } else { file.hosts.iter().collect() };
    let mut nodes = machines.iter().map(|machine| node(name, record, machine)).collect::<Result<Vec<_>, Error>>()?;
    let hosts: Vec<&str> = machines.iter().map(|machine| machine.host.as_str()).collect();
    let place: HashMap<&str, usize> = hosts.iter().enumerate().map(|(at, host)| (*host, at)).collect();
    let (mut tournaments, mut unblamed) = (Vec::new(), Vec::new());
    for line in &record.cases {
        let label = (reader.label)(record, line);
        let placed = file.placement.iter().find(|placement| placement.ranks == line.ranks);
        let key = format!("{} x{}", work_key(record, line), ranks_of_a_host(line, placed, hosts.len()));
        let bits = (reader.bits)(line);
        let fault = fault(line, &file.machine.host, &hosts, placed);
        if line.status == Status::Ok && fault.is_none() {
            for node in &mut nodes {
                node.right.insert(key.clone());
            }
        }
        if line.device == GPU && line.status == Status::Ok {
            nodes.iter_mut().for_each(|node| node.gpus_used = node.gpus_used.max(ranks_on(&node.host, line, placed)));
        }
        if let Some(found) = bits {
            take_bits(&found, (&key, &label), placed, &mut nodes);
            // Rounds that differ are judged by their bits, which also tell whose fault it is.
            if line.wrong.unwrap_or(0) > 0 || line.status == Status::Ok {
                continue;
            }
        }
        if let Some(fault) = fault {
            let why = format!("{label}: {}", fault.why);
            if fault.hosts.is_empty() {
                let (key, started) = (key.clone(), file.started.parse().ok());
                let hosts = nodes.iter().map(|node| node.host.clone()).collect();
                unblamed.push(Unblamed { key, started, why: why.clone(), hosts });
            }
            let blamed = nodes.iter_mut().filter(|node| fault.hosts.iter().any(|host| node.host == host.as_str()));
            blamed.for_each(|node| node.failed.push(FailedCase { key: key.clone(), why: why.clone() }));
            continue;
        }
        if line.status != Status::Ok {
            continue;
        }
        let disturbed = line.caveats.iter().any(|caveat| DISTURBED.contains(caveat));
        let measured = |(median_s, trials), disturbed| Measured {
            key: key.clone(),
            label: label.clone(),
            median_s,
            trials,
            disturbed,
        };
        match nodes.as_mut_slice() {
            [only] => only.measured.extend(of_line(line).map(|taken| measured(taken, disturbed))),
            several => {
                if let Some(times) = (reader.pairs)(line) {
                    let found = tournament(&label, &times, line, placed)?;
                    let started = file.started.parse().ok();
                    let here = HostName::parse(&file.machine.host)?;
                    let disturbed = disturbed.then_some(here);
                    let whole = |found| Tournament { key: key.clone(), started, disturbed, ..found };
                    tournaments.extend(found.map(whole));
                } else if (reader.is_local)(line) {
                    for (host, taken) in by_host(line, placed, (reader.rank_trials)(line)) {
                        if let Some(node) = place.get(host.as_str()).map(|at| &mut several[*at]) {
                            // The coordinator looks at its own host.
                            let disturbed = disturbed && host == file.machine.host;
                            node.measured.push(measured(taken, disturbed));
                        }
                    }
                }
            }
        }
    }
    Ok(Taken { nodes, tournaments, unblamed })
}

/// Ranks on this host. Without a placement all are on one.
fn ranks_on(host: &HostName, line: &CaseLine, placed: Option<&Placement>) -> usize {
    placed.map_or(line.ranks as usize, |placed| placed.hosts.iter().filter(|other| *host == other.as_str()).count())
}

/// Ranks of a host, the most of any: a node does the same work in runs of other numbers of nodes.
fn ranks_of_a_host(line: &CaseLine, placed: Option<&Placement>, hosts: usize) -> usize {
    let Some(placed) = placed.filter(|_| hosts > 1) else { return line.ranks as usize };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    placed.hosts.iter().for_each(|host| *counts.entry(host.as_str()).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

/// Adds what each rank's rounds left to its node.
fn take_bits(found: &[RankBits], (key, label): (&str, &str), placed: Option<&Placement>, nodes: &mut [NodeRun]) {
    for (rank, bits) in found.iter().enumerate().filter(|(_, bits)| !bits.rounds.is_empty()) {
        let host = placed.and_then(|placed| placed.hosts.get(rank));
        let is_its = |node: &&mut NodeRun| host.is_some_and(|host| node.host == host.as_str());
        let is_one = nodes.len() == 1;
        let Some(node) = nodes.iter_mut().find(|node| is_one || is_its(node)) else { continue };
        let key = format!("{key}\n{}", bits.how);
        match node.bits.iter_mut().find(|known| known.key == key) {
            Some(known) => known.add(&bits.rounds),
            None => node.bits.push(NodeBits {
                key,
                label: label.to_owned(),
                operations: bits.operations,
                rounds: bits.rounds.clone(),
            }),
        }
    }
}

fn node(name: &str, record: &Record, machine: &Machine) -> Result<NodeRun, Error> {
    Ok(NodeRun {
        host: HostName::parse(&machine.host)?,
        inventory: Inventory::from_machine(machine),
        facts: facts(record, machine),
        record: name.to_owned(),
        started: record.file.started.parse().ok(),
        measured: Vec::new(),
        failed: Vec::new(),
        unended: unended(record, machine),
        gpus_used: 0,
        right: BTreeSet::new(),
        bits: Vec::new(),
    })
}

/// Why a node may have been lost: it led this run, which has no end. The others measured nothing after that.
fn unended(record: &Record, machine: &Machine) -> Option<String> {
    let more = match record.end {
        RunEnd::Killed => "",
        RunEnd::Unknown => ", or the run still goes on",
        RunEnd::Ended | RunEnd::Interrupted(_) | RunEnd::Running | RunEnd::Part => return None,
    };
    let leads = machine.host == record.file.machine.host;
    leads.then(|| format!("the run that it led has no end: its process was killed, or the node was lost{more}"))
}

/// What can differ between nodes besides their inventory, by name.
fn facts(record: &Record, machine: &Machine) -> BTreeMap<&'static str, String> {
    let file = &record.file;
    let mut facts = BTreeMap::new();
    let mut fact = |name: &'static str, value: &str| {
        if !value.is_empty() {
            facts.insert(name, value.to_owned());
        }
    };
    fact("system", &machine.os);
    fact("kernel", &machine.kernel);
    fact("GPU driver", machine.gpu_driver.as_deref().unwrap_or_default());
    fact("firmware", machine.firmware.as_deref().unwrap_or_default());
    fact("microcode", machine.microcode.as_deref().unwrap_or_default());
    fact("clocks", machine.clock_policy.as_deref().unwrap_or_default());
    fact("instruction sets", &machine.isa.join(" "));
    fact("NUMA nodes", &machine.numa_nodes.map(|nodes| nodes.to_string()).unwrap_or_default());
    fact("hardware threads", &machine.threads.map(|threads| threads.to_string()).unwrap_or_default());
    fact("InfiniBand", &ports(machine));
    let others = machine.interfaces.iter().filter(|one| !one.is_port());
    fact("fastest interface", &others.filter_map(|one| one.megabits).max().map(gigabits).unwrap_or_default());
    fact("version of Rankmark", &file.tool.version);
    if file.hosts.is_empty() {
        // Of several hosts the record has the versions of the coordinator's alone, and looks at the clock of that one.
        let throttled = record.cases.iter().any(|line| line.caveats.contains(&Caveat::Throttled));
        fact("clock throttling", if throttled { "seen" } else { "not seen" });
        let versions: Vec<String> = file.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        fact("libraries", &versions.join(", "));
    }
    facts
}

/// The active ports of InfiniBand, by speed: `8 x 400 Gbit/s`. Empty where no interface is known.
fn ports(machine: &Machine) -> String {
    let mut ports: BTreeMap<u64, usize> = BTreeMap::new();
    for port in machine.interfaces.iter().filter(|one| one.is_port()) {
        *ports.entry(port.megabits.unwrap_or(0)).or_default() += 1;
    }
    let listed = ports.into_iter().rev().map(|(megabits, count)| format!("{count} x {}", gigabits(megabits)));
    let listed: Vec<String> = listed.collect();
    if listed.is_empty() && !machine.interfaces.is_empty() { "none".to_owned() } else { listed.join(", ") }
}

fn gigabits(megabits: u64) -> String {
    if megabits == 0 { "unknown speed".to_owned() } else { format!("{} Gbit/s", megabits as f64 / 1000.0) }
}

/// A median time, and the trials that it comes from.
type Times = (f64, Vec<(u32, f64)>);

fn is_positive(time: f64) -> bool {
    time.is_finite() && time > 0.0
}

fn of_line(line: &CaseLine) -> Option<Times> {
    let time = line.time_s.as_ref().map(|time| time.median).filter(|time| is_positive(*time))?;
    let trials = line.trial_median_s.iter().enumerate();
    // Earlier versions did not say the round: each trial had one.
    let trials = trials.map(|(at, trial)| (line.trial_round.get(at).copied().unwrap_or(at as u32), *trial));
    Some((time, trials.filter(|(_, trial)| is_positive(*trial)).collect()))
}

/// The time of the slowest rank of each host.
fn by_host(line: &CaseLine, placed: Option<&Placement>, trials: Option<Vec<RankTrial>>) -> Vec<(String, Times)> {
    let (Some(times), Some(placed)) = (&line.per_rank_median_s, placed) else { return Vec::new() };
    let slowest = |times: &[f64]| {
        let mut slowest: BTreeMap<String, f64> = BTreeMap::new();
        for (host, time) in placed.hosts.iter().zip(times).filter(|(_, time)| is_positive(**time)) {
            let known = slowest.entry(host.clone()).or_insert(*time);
            *known = known.max(*time);
        }
        slowest
    };
    let mut of: BTreeMap<String, Vec<(u32, f64)>> = BTreeMap::new();
    for trial in trials.unwrap_or_default() {
        for (host, time) in slowest(&trial.seconds) {
            of.entry(host).or_default().push((trial.round, time));
        }
    }
    slowest(times)
        .into_iter()
        .map(|(host, time)| (host.clone(), (time, of.remove(&host).unwrap_or_default())))
        .collect()
}

fn tournament(
    label: &str,
    times: &PairTimes,
    line: &CaseLine,
    placed: Option<&Placement>,
) -> Result<Option<Tournament>, Error> {
    let Some(placed) = placed.filter(|placed| placed.hosts.len() == times.members) else { return Ok(None) };
    let mut hosts: Vec<&String> = placed.hosts.iter().collect();
    hosts.sort();
    hosts.dedup();
    let of_rank: Vec<u32> = placed.hosts.iter().map(|host| hosts.binary_search(&host).unwrap_or(0) as u32).collect();
    let short = line.bytes.is_some_and(|bytes| bytes <= SHORT_BYTES);
    let rails = if line.device == GPU && !short { rails(times, &of_rank) } else { Vec::new() };
    let mut pairs: BTreeMap<[u32; 2], f64> = BTreeMap::new();
    for ([low, high], time) in &times.pairs {
        let [one, other] = [*low, *high].map(|rank| of_rank[rank as usize]);
        if one != other {
            let known = pairs.entry([one.min(other), one.max(other)]).or_insert(f64::NAN);
            // `min` of a number and NaN is the number.
            *known = known.min(*time);
        }
    }
    let times = PairTimes { members: hosts.len(), pairs: pairs.into_iter().collect() };
    let hosts = hosts.into_iter().map(|host| HostName::parse(host)).collect::<Result<Vec<HostName>, Error>>()?;
    let trials = line.trials.unwrap_or(0) as usize;
    let (key, started, label, disturbed) = (String::new(), None, label.to_owned(), None);
    Ok(Some(Tournament { key, started, label, hosts, times, rails, trials, short, disturbed }))
}
