//! Tournaments of several days: the newest that has a node or a pair tells what it is now, and those before it since when.

use std::collections::BTreeMap;

use terms::HostName;

use super::gathered::Gathered;
use super::network::{self, ShownNetwork, rail_label};
use super::taken::Tournament;
use super::topology::Topology;
use super::verdict::{Fleet, LinkCriterion, SlowIn, SlowLink};

/// A tournament with what it shows.
struct JudgedTournament<'t> {
    of: &'t Tournament,
    places: BTreeMap<&'t HostName, usize>,
    criterion: LinkCriterion,
    shown: ShownNetwork,
}

impl JudgedTournament<'_> {
    fn day(&self) -> Option<String> {
        self.of.started.map(|started| started.strftime("%Y-%m-%d").to_string())
    }

    fn slow_node(&self, host: &HostName) -> Option<(f64, [f64; 2])> {
        let at = *self.places.get(host)?;
        self.shown.slow.iter().find(|(place, ..)| *place == at).map(|(_, ratio, interval)| (*ratio, *interval))
    }

    fn has_slow_rail(&self, host: &HostName, number: usize) -> bool {
        let Some(at) = self.places.get(host) else { return false };
        self.shown.rails.iter().any(|rail| rail.host == *at && rail.number == number)
    }

    fn has_pair(&self, hosts: &[HostName; 2]) -> bool {
        let [Some(one), Some(other)] = hosts.each_ref().map(|host| self.places.get(host)) else { return false };
        let pair = [*one.min(other) as u32, *one.max(other) as u32];
        self.of.times.pairs.binary_search_by_key(&pair, |(pair, _)| *pair).is_ok()
    }

    fn slow_link(&self, hosts: &[HostName; 2]) -> bool {
        self.shown.links.iter().any(|link| link.hosts == *hosts)
    }
}

/// Judges all tournaments. `level`: the chance that any healthy node or link is called slow.
pub(super) fn by_links(
    tournaments: &[Tournament],
    topology: Option<&Topology>,
    level: f64,
    fleet: &mut Fleet,
    nodes: &mut [Gathered],
) {
    let mut by_key: BTreeMap<&str, Vec<&Tournament>> = BTreeMap::new();
    // In the order in which they were taken.
    let mut order: Vec<&str> = Vec::new();
    for tournament in tournaments {
        let known = by_key.entry(&tournament.key).or_default();
        if known.is_empty() {
            order.push(&tournament.key);
        }
        known.push(tournament);
    }
    by_key.values_mut().for_each(|of| of.sort_by_key(|tournament| tournament.started));
    let count = |of: &Vec<&Tournament>| -> usize {
        (0..of.len()).filter(|at| stands(of, *at)).map(|at| count_tests(of[at])).sum()
    };
    let tests: usize = by_key.values().map(count).sum();
    for key in order {
        let of = &by_key[key];
        let judged: Vec<JudgedTournament> =
            of.iter().map(|tournament| judge(tournament, topology, level / tests as f64)).collect();
        for at in (0..of.len()).filter(|at| stands(of, *at)) {
            tell_nodes(&judged, at, fleet, nodes);
            tell_links(&judged, at, fleet);
            fleet.link_criteria.push(judged[at].criterion.clone());
            fleet.notes.extend(judged[at].shown.notes.iter().cloned());
        }
    }
}

fn judge<'t>(of: &'t Tournament, topology: Option<&Topology>, level: f64) -> JudgedTournament<'t> {
    let (criterion, shown) = network::judge(of, topology, level);
    JudgedTournament {
        of,
        places: of.hosts.iter().enumerate().map(|(at, host)| (host, at)).collect(),
        criterion,
        shown,
    }
}

/// Tests at one level each: of nodes and their links, and of rails.
fn count_tests(of: &Tournament) -> usize {
    1 + usize::from(!of.rails.is_empty())
}

/// Whether a tournament is the newest of any of its nodes.
fn stands(of: &[&Tournament], at: usize) -> bool {
    at + 1 == of.len() || of[at].hosts.iter().any(|host| !of[at + 1..].iter().any(|later| later.hosts.contains(host)))
}

/// The day since which this holds in all tournaments that tell, up to the one at `at`; None where it always did.
fn since(
    judged: &[JudgedTournament],
    at: usize,
    tells: impl Fn(&JudgedTournament) -> bool,
    holds: impl Fn(&JudgedTournament) -> bool,
) -> Option<String> {
    let earlier: Vec<&JudgedTournament> = judged[..at].iter().filter(|one| tells(one)).collect();
    let last = earlier.iter().rposition(|one| !holds(one))?;
    earlier.get(last + 1).copied().unwrap_or(&judged[at]).day()
}

fn tell_nodes(judged: &[JudgedTournament], at: usize, fleet: &mut Fleet, nodes: &mut [Gathered]) {
    let own = &judged[at];
    let label = &own.of.label;
    for gathered in nodes.iter_mut() {
        let host = gathered.node.host.clone();
        let has = |one: &JudgedTournament| one.places.contains_key(&host);
        if !has(own) || judged[at + 1..].iter().any(has) {
            continue;
        }
        let place = own.places[&host];
        let unknown = own.shown.unknown.iter().filter(|(known, _)| *known == place);
        gathered.unsettled.extend(unknown.map(|(_, why)| why.clone()));
        let before = judged[..at].iter().rfind(|one| has(one));
        match own.slow_node(&host) {
            Some((ratio, interval)) => gathered.node.slow.push(SlowIn {
                criterion: None,
                what: format!("{label} with every other node"),
                ratio,
                interval,
                trials: own.of.trials,
                since: since(judged, at, has, |one| one.slow_node(&host).is_some()),
            }),
            None if before.is_some_and(|before| before.slow_node(&host).is_some()) => {
                let day = own.day().unwrap_or_default();
                fleet.notes.push(format!("{label} changed: {host} is not slow with every other node since {day}."));
            }
            None => {}
        }
        let has_rails = |one: &JudgedTournament| has(one) && !one.of.rails.is_empty();
        let slow = own.shown.rails.iter().filter(|rail| rail.host == place);
        gathered.node.slow.extend(slow.map(|rail| SlowIn {
            criterion: None,
            what: rail_label(label, rail.number),
            ratio: rail.ratio,
            interval: rail.interval,
            trials: own.of.trials,
            since: since(judged, at, has_rails, |one| one.has_slow_rail(&host, rail.number)),
        }));
    }
}

fn tell_links(judged: &[JudgedTournament], at: usize, fleet: &mut Fleet) {
    let own = &judged[at];
    for link in &own.shown.links {
        let has = |one: &JudgedTournament| one.has_pair(&link.hosts);
        if judged[at + 1..].iter().any(has) {
            continue;
        }
        let since = since(judged, at, has, |one| one.slow_link(&link.hosts));
        fleet.links.push(SlowLink { since, ..link.clone() });
    }
    let Some(before) = at.checked_sub(1).map(|before| &judged[before]) else { return };
    let repaired = before.shown.links.iter().filter(|link| own.has_pair(&link.hosts) && !own.slow_link(&link.hosts));
    let day = own.day().unwrap_or_default();
    let label = &own.of.label;
    fleet.notes.extend(repaired.map(|link| {
        let [one, other] = &link.hosts;
        format!("{label} changed: the link between {one} and {other} is not slow since {day}.")
    }));
}
