//! The verdict on each node, from all of its records and those of its peers.

use std::collections::BTreeMap;

use stats::{FEWEST_LINKED, FEWEST_MEMBERS, Member};
use terms::HostName;

use super::measures::{NodeRun, Tournament};
use super::{Criterion, FLEET_LEVEL, Fleet, LinkCriterion, MOST_UNSEEN, Node, NodeVerdict, SlowIn, SlowLink, hosts};

/// A node over all of its records.
struct Gathered {
    node: Node,
    /// By criterion: its member, and whether it was disturbed.
    members: BTreeMap<usize, (Member, bool)>,
    unsettled: Vec<String>,
}

pub(super) fn judge(runs: &[NodeRun], tournaments: &[Tournament], absent: &[(HostName, String)]) -> Fleet {
    let mut fleet = Fleet::default();
    let mut nodes = gather(runs, &mut fleet);
    for (host, why) in absent {
        match nodes.iter_mut().find(|gathered| gathered.node.host == *host) {
            Some(gathered) => gathered.node.failed.push(why.clone()),
            None => nodes.push(missing(host, why)),
        }
    }
    nodes.sort_by(|a, b| hosts::natural(&a.node.host, &b.node.host));
    // A third of the chance of a false alarm for links where there are any; each test has an equal part of the rest.
    let (of_nodes, of_links) =
        if tournaments.is_empty() { (FLEET_LEVEL, 0.0) } else { (FLEET_LEVEL * 2.0 / 3.0, FLEET_LEVEL / 3.0) };
    let each = of_nodes / fleet.criteria.len().max(1) as f64;
    for criterion in 0..fleet.criteria.len() {
        by_criterion(criterion, each, &mut fleet, &mut nodes);
    }
    for tournament in tournaments {
        by_links(tournament, of_links / tournaments.len() as f64, &mut fleet, &mut nodes);
    }
    fleet.links.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    fleet.nodes = nodes.into_iter().map(|gathered| settle(gathered, &fleet.criteria)).collect();
    notes(&mut fleet);
    fleet
}

/// Nodes that took no part in what was learned, each by itself.
pub(super) fn against(learned: &Fleet, runs: &[NodeRun]) -> Fleet {
    let mut fleet = Fleet::default();
    let mut nodes = gather(runs, &mut fleet);
    let each = FLEET_LEVEL / fleet.criteria.len().max(1) as f64;
    for at in 0..fleet.criteria.len() {
        let own = &fleet.criteria[at];
        let kind = &fleet.kinds[own.kind];
        let known =
            learned.criteria.iter().find(|known| known.key == own.key && learned.kinds.get(known.kind) == Some(kind));
        let Some(level) = known.and_then(|known| known.level) else { continue };
        let label = own.label.clone();
        fleet.criteria[at].nodes = known.map_or(0, |known| known.nodes);
        fleet.criteria[at].level = Some(level);
        fleet.criteria[at].smallest = Some(level.smallest_of_one(each).exp_m1());
        for gathered in &mut nodes {
            let Some((member, disturbed)) = gathered.members.get(&at).copied() else { continue };
            stand(&mut gathered.node, (at, &label), &level.judge(&member, each), disturbed);
        }
    }
    nodes.sort_by(|a, b| hosts::natural(&a.node.host, &b.node.host));
    fleet.nodes = nodes.into_iter().map(|gathered| settle(gathered, &fleet.criteria)).collect();
    let unknown = fleet.criteria.iter().filter(|criterion| criterion.level.is_none()).count();
    if unknown > 0 {
        let cases = if unknown == 1 { "case of these nodes is" } else { "cases of these nodes are" };
        fleet.notes.push(format!("{unknown} {cases} not among what was learned: other work, or another kind of node."));
    }
    fleet
}

/// Notes where a node stands.
fn stand(node: &mut Node, (criterion, label): (usize, &str), standing: &stats::Standing, disturbed: bool) {
    node.ratios.resize(node.ratios.len().max(criterion + 1), None);
    node.ratios[criterion] = Some(standing.deviation.exp());
    if standing.slow {
        node.slow.push(SlowIn {
            criterion: Some(criterion),
            what: label.to_owned(),
            ratio: standing.deviation.exp(),
            interval: standing.interval.map(f64::exp),
            disturbed,
        });
    }
}

fn missing(host: &HostName, why: &str) -> Gathered {
    let node = Node {
        host: host.clone(),
        kind: usize::MAX,
        records: Vec::new(),
        verdict: NodeVerdict::Failed,
        slow: Vec::new(),
        failed: vec![why.to_owned()],
        unknown: String::new(),
        ratios: Vec::new(),
    };
    Gathered { node, members: BTreeMap::new(), unsettled: Vec::new() }
}

fn place<T: PartialEq>(all: &mut Vec<T>, value: T) -> usize {
    all.iter().position(|known| *known == value).unwrap_or_else(|| {
        all.push(value);
        all.len() - 1
    })
}

/// The nodes with what they took: of several records of a node the mean, whose variance its records tell.
fn gather(runs: &[NodeRun], fleet: &mut Fleet) -> Vec<Gathered> {
    let mut nodes: Vec<Gathered> = Vec::new();
    let mut by_host: BTreeMap<&HostName, usize> = BTreeMap::new();
    let mut criteria: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    let mut values: BTreeMap<(usize, usize), Vec<(Member, bool)>> = BTreeMap::new();
    for run in runs {
        let kind = place(&mut fleet.kinds, run.kind.clone());
        let at = *by_host.entry(&run.host).or_insert_with(|| {
            let mut gathered = missing(&run.host, "");
            gathered.node = Node { kind, failed: Vec::new(), ..gathered.node };
            nodes.push(gathered);
            nodes.len() - 1
        });
        let node = &mut nodes[at].node;
        node.records.push(run.record.clone());
        node.failed.extend(run.failed.iter().cloned());
        for measured in &run.measured {
            let criterion = *criteria.entry((kind, &measured.key)).or_insert_with(|| {
                let label = measured.label.clone();
                let key = measured.key.clone();
                fleet.criteria.push(Criterion { key, label, kind, nodes: 0, level: None, smallest: None });
                fleet.criteria.len() - 1
            });
            values.entry((at, criterion)).or_default().push((measured.member, measured.disturbed));
        }
    }
    for ((at, criterion), all) in values {
        fleet.criteria[criterion].nodes += 1;
        nodes[at].members.insert(criterion, mean(&all));
    }
    nodes
}

fn mean(all: &[(Member, bool)]) -> (Member, bool) {
    let number = all.len() as f64;
    let values: Vec<f64> = all.iter().map(|(member, _)| member.value).collect();
    let value = values.iter().sum::<f64>() / number;
    let own = all.iter().map(|(member, _)| member.variance).sum::<f64>() / number;
    let between = stats::standard_deviation(&values).map_or(0.0, |deviation| deviation.powi(2));
    (Member { value, variance: own.max(between) / number }, all.iter().any(|(_, disturbed)| *disturbed))
}

fn by_criterion(criterion: usize, level: f64, fleet: &mut Fleet, nodes: &mut [Gathered]) {
    let held: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].members.contains_key(&criterion)).collect();
    let members: Vec<Member> = held.iter().map(|at| nodes[*at].members[&criterion].0).collect();
    let Some(judged) = stats::fleet(&members, level) else { return };
    let label = fleet.criteria[criterion].label.clone();
    fleet.criteria[criterion].level = Some(judged.level);
    fleet.criteria[criterion].smallest = Some(judged.smallest.exp_m1());
    for (at, standing) in held.into_iter().zip(&judged.standings) {
        let Gathered { node, members, unsettled } = &mut nodes[at];
        stand(node, (criterion, &label), standing, members[&criterion].1);
        if standing.unsettled {
            unsettled.push(label.clone());
        }
    }
}

fn by_links(tournament: &Tournament, level: f64, fleet: &mut Fleet, nodes: &mut [Gathered]) {
    let judged = stats::links(&tournament.times, level);
    fleet.link_criteria.push(LinkCriterion {
        what: tournament.label.clone(),
        nodes: tournament.hosts.len(),
        smallest: judged.as_ref().map(|judged| judged.smallest.exp_m1()),
    });
    let Some(judged) = judged else { return };
    for (host, standing) in tournament.hosts.iter().zip(&judged.members.standings).filter(|(_, one)| one.slow) {
        let Some(gathered) = nodes.iter_mut().find(|gathered| gathered.node.host == *host) else { continue };
        gathered.node.slow.push(SlowIn {
            criterion: None,
            what: format!("{} with every other node", tournament.label),
            ratio: standing.deviation.exp(),
            interval: standing.interval.map(f64::exp),
            disturbed: false,
        });
    }
    fleet.links.extend(judged.slow.into_iter().map(|([low, high], ratio)| SlowLink {
        hosts: [low, high].map(|at| tournament.hosts[at].clone()),
        what: tournament.label.clone(),
        ratio,
    }));
}

/// What all of it comes to for one node.
fn settle(gathered: Gathered, criteria: &[Criterion]) -> Node {
    let Gathered { mut node, members, unsettled } = gathered;
    node.ratios.resize(criteria.len(), None);
    node.slow.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let own = || members.keys().map(|criterion| &criteria[*criterion]);
    let is_blind = |criterion: &&Criterion| criterion.smallest.is_none_or(|smallest| smallest > MOST_UNSEEN);
    let blind: Vec<&str> = own().filter(is_blind).map(|criterion| criterion.label.as_str()).collect();
    node.unknown = match () {
        () if !node.failed.is_empty() || !node.slow.is_empty() => String::new(),
        () if members.is_empty() => "no case of it has a time".to_owned(),
        () if own().all(|criterion| criterion.level.is_none()) => {
            let peers = own().map(|criterion| criterion.nodes).max().unwrap_or(1).saturating_sub(1);
            let others = if peers == 1 { "1 other node" } else { &format!("{peers} other nodes") };
            format!("{others} of its kind did the same work; {} are needed", FEWEST_MEMBERS - 1)
        }
        () if !unsettled.is_empty() => {
            format!("it is slow in {}, but its own trials vary more than those of others", unsettled.join(", "))
        }
        () if !blind.is_empty() => {
            format!("in {} its peers differ so much that a node 10% slower would not show", blind.join(", "))
        }
        () => String::new(),
    };
    node.verdict = match () {
        () if !node.failed.is_empty() => NodeVerdict::Failed,
        () if !node.slow.is_empty() => NodeVerdict::Slow,
        () if !node.unknown.is_empty() => NodeVerdict::CannotTell,
        () => NodeVerdict::Good,
    };
    node
}

fn notes(fleet: &mut Fleet) {
    if fleet.criteria.iter().any(|criterion| criterion.level.is_some()) {
        fleet.notes.push(
            "Nodes are compared with their peers: a kind of node that is slow as a whole looks healthy. `expected` in a plan \
             compares with known figures."
                .to_owned(),
        );
    }
    for (kind, name) in fleet.kinds.iter().enumerate() {
        let of_kind = fleet.nodes.iter().filter(|node| node.kind == kind).count();
        if of_kind < FEWEST_MEMBERS && of_kind > 0 {
            let nodes = if of_kind == 1 { "node is" } else { "nodes are" };
            fleet.notes.push(format!("{of_kind} {nodes} {name}: {FEWEST_MEMBERS} of a kind are needed to judge them."));
        }
    }
    for tournament in fleet.link_criteria.iter().filter(|tournament| tournament.smallest.is_none()) {
        let (what, nodes) = (&tournament.what, tournament.nodes);
        fleet.notes.push(format!("{what} has {nodes} nodes: {FEWEST_LINKED} are needed to judge links."));
    }
}
