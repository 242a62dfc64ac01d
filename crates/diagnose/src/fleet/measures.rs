//! What single nodes took: of records of one host, all timed cases; of records of several, the cases in which ranks work apart.

use std::collections::BTreeMap;

use record::{CaseLine, Caveat, Machine, Placement, Record};
use stats::Member;
use terms::{Error, HostName, Status};

use super::{Reader, Taken};
use crate::compare::case_key;

/// Caveats of a machine that others used.
const DISTURBED: [Caveat; 5] =
    [Caveat::OtherPrograms, Caveat::StolenTime, Caveat::QuotaReached, Caveat::Throttled, Caveat::Noisy];

/// What a node took for one kind of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Equal keys are equal work.
    pub key: String,
    /// The work, in words.
    pub label: String,
    /// The logarithm of its time, with the variance of that.
    pub member: Member,
    /// Whether the machine was disturbed.
    pub disturbed: bool,
}

/// A node in one record.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRun {
    /// Its host's name.
    pub host: HostName,
    /// Its hardware in words: nodes of one kind are peers.
    pub kind: String,
    /// The record.
    pub record: String,
    /// What it took.
    pub measured: Vec<Measured>,
    /// What failed, and why.
    pub failed: Vec<String>,
}

/// Times between each two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Tournament {
    /// The exchange, in words.
    pub label: String,
    /// The hosts, one each.
    pub hosts: Vec<HostName>,
    /// Seconds between each two of them; of several ranks on a host, the fastest pair, which the link alone bounds.
    pub times: Vec<Vec<f64>>,
}

pub(super) fn read(name: &str, record: &Record, reader: &Reader) -> Result<Taken, Error> {
    let file = &record.file;
    let machines: Vec<&Machine> = if file.hosts.is_empty() { vec![&file.machine] } else { file.hosts.iter().collect() };
    let node = |machine: &&Machine| {
        let (host, kind, record) = (HostName::parse(&machine.host)?, kind(machine), name.to_owned());
        Ok(NodeRun { host, kind, record, measured: Vec::new(), failed: Vec::new() })
    };
    let mut nodes = machines.iter().map(node).collect::<Result<Vec<NodeRun>, Error>>()?;
    let mut tournaments = Vec::new();
    for line in &record.cases {
        let label = (reader.label)(record, line);
        if let Some(why) = failure(line) {
            blame(&mut nodes, &format!("{label}: {why}"));
            continue;
        }
        if line.status != Status::Ok {
            continue;
        }
        let key = case_key(record, line);
        let disturbed = line.caveats.iter().any(|caveat| DISTURBED.contains(caveat));
        let measured = |member| Measured { key: key.clone(), label: label.clone(), member, disturbed };
        match nodes.as_mut_slice() {
            [only] => only.measured.extend(of_line(line).map(measured)),
            several => {
                let placed = file.placement.iter().find(|placement| placement.ranks == line.ranks);
                if let Some(times) = (reader.pairs)(line) {
                    tournaments.extend(tournament(&label, &times, placed)?);
                } else if (reader.is_local)(line) {
                    for (host, member) in by_host(line, placed) {
                        if let Some(node) = several.iter_mut().find(|node| node.host == host.as_str()) {
                            node.measured.push(measured(member));
                        }
                    }
                }
            }
        }
    }
    Ok((nodes, tournaments))
}

/// What makes nodes peers.
fn kind(machine: &Machine) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(cores) = machine.cores.or(machine.threads) {
        parts.push(format!("{cores} cores"));
    }
    parts.extend([&machine.cpu_model, &machine.arch].into_iter().find(|text| !text.is_empty()).cloned());
    // Firmware takes a little of the memory, and not the same on each node.
    parts.extend(machine.memory_bytes.map(|bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))));
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    machine.gpus.iter().for_each(|model| *models.entry(model).or_default() += 1);
    parts.extend(models.iter().map(|(model, number)| format!("{number} x {model}")));
    if parts.is_empty() { "unknown hardware".to_owned() } else { parts.join(", ") }
}

fn failure(line: &CaseLine) -> Option<String> {
    if line.wrong.unwrap_or(0) > 0 {
        return Some("gave wrong results".to_owned());
    }
    (line.status == Status::Failed).then(|| line.reason.clone().unwrap_or_else(|| "failed".to_owned()))
}

/// Notes a failure at the nodes that it names; where it names none, at the only one.
fn blame(nodes: &mut [NodeRun], why: &str) {
    let is_named =
        |host: &str| why.split(|c: char| !(c.is_alphanumeric() || "-._".contains(c))).any(|word| word == host);
    if let [only] = nodes {
        only.failed.push(why.to_owned());
        return;
    }
    nodes.iter_mut().filter(|node| is_named(node.host.as_str())).for_each(|node| node.failed.push(why.to_owned()));
}

fn of_line(line: &CaseLine) -> Option<Member> {
    let time = line.time_s.as_ref().map(|time| time.median).filter(|time| time.is_finite() && *time > 0.0)?;
    let is_positive = |trial: &f64| trial.is_finite() && *trial > 0.0;
    let trials = Some(&line.trial_median_s).filter(|trials| !trials.is_empty() && trials.iter().all(is_positive));
    let variance = trials.map_or(0.0, |trials| Member::from_trials(trials).variance);
    Some(Member { value: time.ln(), variance })
}

/// The time of the slowest rank of each host.
fn by_host(line: &CaseLine, placed: Option<&Placement>) -> Vec<(String, Member)> {
    let (Some(times), Some(placed)) = (&line.per_rank_median_s, placed) else { return Vec::new() };
    let mut slowest: BTreeMap<&str, f64> = BTreeMap::new();
    for (host, time) in placed.hosts.iter().zip(times).filter(|(_, time)| time.is_finite() && **time > 0.0) {
        let known = slowest.entry(host).or_insert(*time);
        *known = known.max(*time);
    }
    slowest.into_iter().map(|(host, time)| (host.to_owned(), Member { value: time.ln(), variance: 0.0 })).collect()
}

fn tournament(label: &str, times: &[Vec<f64>], placed: Option<&Placement>) -> Result<Option<Tournament>, Error> {
    let Some(placed) = placed.filter(|placed| placed.hosts.len() == times.len()) else { return Ok(None) };
    let mut hosts: Vec<&String> = placed.hosts.iter().collect();
    hosts.sort();
    hosts.dedup();
    let mut square = vec![vec![f64::NAN; hosts.len()]; hosts.len()];
    for (low, row) in times.iter().enumerate() {
        for (high, time) in row.iter().enumerate().skip(low + 1) {
            let [one, other] = [low, high].map(|rank| hosts.binary_search(&&placed.hosts[rank]).unwrap_or(0));
            let (one, other) = (one.min(other), one.max(other));
            if one != other {
                // `min` of a number and NaN is the number.
                square[one][other] = square[one][other].min(*time);
            }
        }
    }
    let hosts = hosts.into_iter().map(|host| HostName::parse(host)).collect::<Result<Vec<HostName>, Error>>()?;
    Ok(Some(Tournament { label: label.to_owned(), hosts, times: square }))
}
