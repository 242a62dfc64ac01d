//! The verdict on each node, from all of its records and those of its peers.

use std::collections::{BTreeMap, HashSet};

use stats::{FEWEST_LINKED, FEWEST_MEMBERS, Level, Member, Standing};
use terms::HostName;

use super::differs::{self, NodeFacts};
use super::gathered::{Gathered, missing};
use super::inventory::{Inventory, sort_into_kinds};
use super::now::{TimedRun, between_runs, now};
use super::taken::{NodeRun, Taken};
use super::topology::Topology;
use super::verdict::{Criterion, FLEET_LEVEL, Fleet, Group, MOST_UNSEEN, Node, NodeVerdict, SlowIn};
use super::{bits, hosts, over_time};

/// Changes of nodes that are listed.
const LISTED: usize = 5;

/// A file that is of another cluster, or has other names.
const STRANGE_TOPOLOGY: &str =
    "The topology names none of these hosts: racks are looked for in the times of messages instead.";

/// Adds hosts without a result.
fn add_absent(absent: &[(HostName, String)], nodes: &mut Vec<Gathered>) {
    for (host, why) in absent {
        match nodes.iter_mut().find(|gathered| gathered.node.host == *host) {
            Some(gathered) => gathered.node.failed.push(why.clone()),
            None => nodes.push(missing(host, vec![why.clone()])),
        }
    }
}

/// The chances of a false alarm for nodes and for links: links have a third, where there are any. Each test has an equal part.
fn levels(taken: &Taken) -> (f64, f64) {
    if taken.tournaments.is_empty() { (FLEET_LEVEL, 0.0) } else { (FLEET_LEVEL * 2.0 / 3.0, FLEET_LEVEL / 3.0) }
}

/// Judges these nodes. `topology`: which nodes share a switch; without one, blocks are looked for in the tournaments. `absent`:
/// hosts that were to take part and have no result, each with the reason.
pub fn fleet(taken: &Taken, topology: Option<&Topology>, absent: &[(HostName, String)]) -> Fleet {
    let mut fleet = Fleet::default();
    let mut nodes = gather(&taken.nodes, &[], &mut fleet);
    add_absent(absent, &mut nodes);
    nodes.sort_by(|a, b| hosts::natural(&a.node.host, &b.node.host));
    let tournaments = &taken.tournaments;
    let (of_nodes, of_links) = levels(taken);
    let topology = topology.filter(|topology| {
        let names_any = tournaments.is_empty() || tournaments.iter().any(|of| topology.names_any(&of.hosts));
        if !names_any {
            fleet.notes.push(STRANGE_TOPOLOGY.to_owned());
        }
        names_any
    });
    let each = of_nodes / fleet.criteria.len().max(1) as f64;
    for criterion in 0..fleet.criteria.len() {
        by_criterion(criterion, each, &mut fleet, &mut nodes);
    }
    over_time::by_links(tournaments, topology, of_links, &mut fleet, &mut nodes);
    fleet.links.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    bits::judge(&mut fleet, &mut nodes);
    unblamed(taken, &mut fleet, &mut nodes);
    let facts: Vec<(&HostName, &NodeFacts)> =
        nodes.iter().map(|gathered| (&gathered.node.host, &gathered.facts)).collect();
    fleet.notes.extend(differs::among(&facts));
    fleet.notes.extend(idle_gpus(&taken.nodes));
    fleet.nodes = nodes.into_iter().map(|gathered| judge_node(gathered, &fleet.criteria, false)).collect();
    notes(&mut fleet);
    fleet
}

/// Judges nodes by what a fleet learned, which they took no part in, and the links between them by each other.
pub fn against(learned: &Fleet, taken: &Taken, absent: &[(HostName, String)]) -> Fleet {
    let mut fleet = Fleet::default();
    let mut nodes = gather(&taken.nodes, &learned.kinds, &mut fleet);
    add_absent(absent, &mut nodes);
    let (of_nodes, of_links) = levels(taken);
    let each = of_nodes / fleet.criteria.len().max(1) as f64;
    for at in 0..fleet.criteria.len() {
        let own = &fleet.criteria[at];
        let kind = &fleet.kinds[own.kind];
        let of_work = || learned.criteria.iter().filter(|known| known.key == own.key);
        let kind_of = |known: &Criterion| learned.kinds.get(known.kind);
        let is_like = |known: &&Criterion| kind_of(known).is_some_and(|other| other.is_like(kind));
        let has_lost = |known: &&Criterion| kind_of(known).is_some_and(|other| kind.lost(other).is_some());
        // A smaller kind is no larger one that lost a part, where the fleet has both.
        let known = of_work().find(is_like).or_else(|| of_work().find(has_lost));
        let Some(level) = known.and_then(|known| known.level) else { continue };
        let label = own.label.clone();
        fleet.criteria[at].nodes = known.map_or(0, |known| known.nodes);
        fleet.criteria[at].level = Some(level);
        let steady = Member { value: level.centre, variance: 0.0, degrees: 0.0 };
        fleet.criteria[at].smallest = Some(level.smallest_of_one(each, &steady).exp_m1());
        for gathered in nodes.iter_mut().filter(|gathered| gathered.evidence.contains_key(&at)) {
            let standing = level.judge(&gathered.evidence[&at].member, each);
            stand(gathered, (at, &label), &standing, (&level, each));
        }
    }
    nodes.sort_by(|a, b| hosts::natural(&a.node.host, &b.node.host));
    over_time::by_links(&taken.tournaments, None, of_links, &mut fleet, &mut nodes);
    bits::judge(&mut fleet, &mut nodes);
    unblamed(taken, &mut fleet, &mut nodes);
    fleet.nodes = nodes.into_iter().map(|gathered| judge_node(gathered, &fleet.criteria, true)).collect();
    fleet.notes.extend(idle_gpus(&taken.nodes));
    let unknown = fleet.criteria.iter().filter(|criterion| criterion.level.is_none()).count();
    if unknown > 0 {
        let cases = if unknown == 1 { "case of these nodes is" } else { "cases of these nodes are" };
        fleet.notes.push(format!("{unknown} {cases} not among what was learned: other work, or another kind of node."));
    }
    fleet
}

/// A sentence about nodes with GPUs that no rank used: nothing is known of these.
fn idle_gpus(runs: &[NodeRun]) -> Vec<String> {
    let mut counts: BTreeMap<&HostName, [usize; 2]> = BTreeMap::new();
    for run in runs {
        let [used, all] = counts.entry(&run.host).or_default();
        *used = (*used).max(run.gpus_used);
        *all = (*all).max(run.inventory.gpus.values().sum::<usize>());
    }
    let mut by_counts: BTreeMap<[usize; 2], Vec<&HostName>> = BTreeMap::new();
    for (host, count) in counts.into_iter().filter(|(_, [used, all])| 0 < *used && used < all) {
        by_counts.entry(count).or_default().push(host);
    }
    let sentence = |([used, all], of): ([usize; 2], Vec<&HostName>)| {
        let were = if used == 1 { "was" } else { "were" };
        let hosts = hosts::compressed(&of);
        format!("{used} of {all} GPUs {were} measured on {hosts}: a rank uses one. Start {all} ranks on each node.")
    };
    by_counts.into_iter().map(sentence).collect()
}

/// Notes where a node stands: slow where its own trials suffice to say so. `level`: what is healthy, and the chance that this node
/// is called slow though it is.
fn stand(
    gathered: &mut Gathered,
    (criterion, label): (usize, &str),
    standing: &Standing,
    (level, each): (&Level, f64),
) {
    let Gathered { node, evidence, unsettled, blind, .. } = gathered;
    node.ratios.resize(node.ratios.len().max(criterion + 1), None);
    let ratio = standing.deviation.exp();
    node.ratios[criterion] = Some(ratio);
    let evidence = &evidence[&criterion];
    // A node that is faster than others shows by its own interval that it is not 10% slower.
    let is_excluded = standing.interval[1] < MOST_UNSEEN.ln_1p();
    if !is_excluded && level.smallest_of_one(each, &evidence.member).exp_m1() > MOST_UNSEEN {
        blind.push(label.to_owned());
    }
    if standing.unsettled {
        unsettled.push(format!("{label} takes {ratio:.2}x as long, but its own trials vary more than those of others"));
    }
    if !standing.slow {
        return;
    }
    match evidence.lacks(level) {
        Some(why) => unsettled.push(format!("{label} takes {ratio:.2}x as long, {why}")),
        None => node.slow.push(SlowIn {
            criterion: Some(criterion),
            what: label.to_owned(),
            ratio,
            interval: standing.interval.map(f64::exp),
            trials: evidence.rounds,
            since: evidence.since.clone(),
        }),
    }
}

/// The nodes with what they show now, and their kinds.
fn gather(runs: &[NodeRun], learned: &[Inventory], fleet: &mut Fleet) -> Vec<Gathered> {
    let mut by_host: BTreeMap<&HostName, Vec<&NodeRun>> = BTreeMap::new();
    runs.iter().for_each(|run| by_host.entry(&run.host).or_default().push(run));
    // In the order of time: the last is what the node is now.
    by_host.values_mut().for_each(|runs| runs.sort_by_key(|run| run.started));
    let newest: Vec<&NodeRun> = by_host.values().filter_map(|runs| runs.last().copied()).collect();
    let inventories: Vec<&Inventory> = newest.iter().map(|run| &run.inventory).collect();
    let (found, of) = sort_into_kinds(&inventories, learned, FEWEST_MEMBERS);
    fleet.kinds = found;
    let mut nodes: Vec<Gathered> = Vec::new();
    let mut series: BTreeMap<usize, Vec<(usize, Vec<TimedRun>)>> = BTreeMap::new();
    let mut criteria: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for ((runs, last), (kind, lost)) in by_host.values().zip(newest).zip(of) {
        let mut gathered = missing(&last.host, lost);
        gathered.node.kind = kind;
        gathered.node.records = runs.iter().map(|run| run.record.clone()).collect();
        gathered.node.failed.extend(failures(runs));
        gathered.unsettled.extend(last.unended.clone());
        // The newest record that has a fact tells it.
        gathered.facts = runs.iter().flat_map(|run| run.facts.clone()).collect();
        for found in runs.iter().flat_map(|run| &run.bits) {
            match gathered.bits.get_mut(&found.key) {
                Some(known) => known.add(&found.rounds),
                None => drop(gathered.bits.insert(found.key.clone(), found.clone())),
            }
        }
        let mut own: BTreeMap<usize, Vec<TimedRun>> = BTreeMap::new();
        for run in runs {
            for measured in &run.measured {
                let criterion = *criteria.entry((kind, &measured.key)).or_insert_with(|| {
                    let (label, key) = (measured.label.clone(), measured.key.clone());
                    fleet.criteria.push(Criterion { key, label, kind, nodes: 0, level: None, smallest: None });
                    fleet.criteria.len() - 1
                });
                own.entry(criterion).or_default().push(TimedRun { started: run.started, measured: measured.clone() });
            }
        }
        own.into_iter().for_each(|(criterion, runs)| series.entry(criterion).or_default().push((nodes.len(), runs)));
        nodes.push(gathered);
    }
    for (criterion, of_nodes) in series {
        take_now(criterion, &of_nodes, fleet, &mut nodes);
    }
    nodes
}

/// What failed, and did not succeed in a later run.
fn failures(runs: &[&NodeRun]) -> Vec<String> {
    let mut all = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let later = || runs[at + 1..].iter().filter(|other| other.started > run.started);
        let is_past = |key: &str| later().any(|other| other.right.contains(key));
        all.extend(run.failed.iter().filter(|failed| !is_past(&failed.key)).map(|failed| failed.why.clone()));
    }
    all
}

/// Gives each node what it shows now in one criterion, and says which changed.
fn take_now(criterion: usize, of_nodes: &[(usize, Vec<TimedRun>)], fleet: &mut Fleet, nodes: &mut [Gathered]) {
    fleet.criteria[criterion].nodes = of_nodes.len();
    let deviation = between_runs(of_nodes.iter().map(|(_, runs)| runs.as_slice()));
    let label = fleet.criteria[criterion].label.clone();
    let mut changed = Vec::new();
    for (at, runs) in of_nodes {
        let (evidence, change) = now(runs, deviation);
        nodes[*at].evidence.insert(criterion, evidence);
        if let Some(change) = change {
            changed.push(format!("{} takes {:.2}x since {}", nodes[*at].node.host, change.ratio, change.since));
        }
    }
    if changed.is_empty() {
        return;
    }
    let more = changed.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    changed.truncate(LISTED);
    fleet
        .notes
        .push(format!("{label} changed: {}{more}. Nodes are judged by their values since then.", changed.join(", ")));
}

fn by_criterion(criterion: usize, level: f64, fleet: &mut Fleet, nodes: &mut [Gathered]) {
    let held: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].evidence.contains_key(&criterion)).collect();
    let members: Vec<Member> = held.iter().map(|at| nodes[*at].evidence[&criterion].member).collect();
    let Some(judged) = stats::fleet(&members, level) else { return };
    let label = fleet.criteria[criterion].label.clone();
    fleet.criteria[criterion].level = Some(judged.level);
    fleet.criteria[criterion].smallest = Some(judged.smallest.exp_m1());
    for (at, standing) in held.iter().zip(&judged.standings) {
        stand(&mut nodes[*at], (criterion, &label), standing, (&judged.level, level / held.len() as f64));
    }
    let Some(groups) = judged.groups else { return };
    let (slower, others): (Vec<_>, Vec<_>) = held.iter().zip(&groups.slower).partition(|(_, slower)| **slower);
    let facts = |part: &[(&usize, &bool)]| part.iter().map(|(at, _)| &nodes[**at].facts).collect::<Vec<_>>();
    fleet.groups.push(Group {
        what: label,
        slower: slower.iter().map(|(at, _)| nodes[**at].node.host.clone()).collect(),
        others: others.len(),
        ratio: groups.distance.exp(),
        differs: differs::between(&facts(&slower), &facts(&others)),
    });
}

/// What failed or is wrong, and whose fault it is cannot be told: no node that took part is good, unless the same work of a later
/// run with it is right.
fn unblamed(taken: &Taken, fleet: &mut Fleet, nodes: &mut [Gathered]) {
    for fault in &taken.unblamed {
        let is_later = |run: &&NodeRun| run.started > fault.started && run.right.contains(&fault.key);
        let cleared: HashSet<&HostName> = taken.nodes.iter().filter(is_later).map(|run| &run.host).collect();
        let open: HashSet<&HostName> = fault.hosts.iter().filter(|host| !cleared.contains(host)).collect();
        if open.is_empty() {
            continue;
        }
        fleet.failures.push(fault.why.clone());
        for gathered in nodes.iter_mut().filter(|gathered| open.contains(&gathered.node.host)) {
            gathered.unsettled.push(format!("it took part in {}, but whose fault that is cannot be told", fault.why));
        }
    }
}

/// What all of it comes to for one node. `is_newcomer`: it is judged by what a fleet learned.
fn judge_node(gathered: Gathered, criteria: &[Criterion], is_newcomer: bool) -> Node {
    let Gathered { mut node, evidence, unsettled, bits, agrees, mut blind, .. } = gathered;
    node.ratios.resize(criteria.len(), None);
    node.slow.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let own = || evidence.keys().map(|criterion| &criteria[*criterion]);
    let is_few = |criterion: &&Criterion| is_newcomer || criterion.nodes < FEWEST_MEMBERS;
    let (few, vary): (Vec<&Criterion>, Vec<&Criterion>) =
        own().filter(|criterion| criterion.level.is_none()).partition(is_few);
    blind.extend(vary.into_iter().map(|criterion| criterion.label.clone()));
    let few: Vec<&str> = few.into_iter().map(|criterion| criterion.label.as_str()).collect();
    node.unknown = match () {
        () if !node.failed.is_empty() || !node.slow.is_empty() => String::new(),
        () if !unsettled.is_empty() => unsettled.join("; "),
        () if evidence.is_empty() && agrees => String::new(),
        () if evidence.is_empty() && !bits.is_empty() => "no other node of its kind did the same work".to_owned(),
        () if evidence.is_empty() => "no case of it has a time".to_owned(),
        () if few.len() == evidence.len() && is_newcomer => {
            "none of its cases is among what was learned: other work, or another kind of node".to_owned()
        }
        () if few.len() == evidence.len() => {
            let peers = own().map(|criterion| criterion.nodes).max().unwrap_or(1).saturating_sub(1);
            let others = if peers == 1 { "1 other node" } else { &format!("{peers} other nodes") };
            format!("{others} of its kind did the same work; {} are needed", FEWEST_MEMBERS - 1)
        }
        () if !blind.is_empty() => {
            format!("in {} times vary so much that a node 10% slower would not show", blind.join(", "))
        }
        () if !few.is_empty() && is_newcomer => format!("not among what was learned: {}", few.join(", ")),
        () if !few.is_empty() => {
            format!("fewer than {FEWEST_MEMBERS} nodes of its kind have a time of {}", few.join(", "))
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
        fleet.notes.insert(
            0,
            "Nodes are compared with their peers: a kind of node that is slow as a whole looks healthy. `expected` in a plan \
             compares with known figures."
                .to_owned(),
        );
    }
    for (kind, inventory) in fleet.kinds.iter().enumerate() {
        let of_kind = fleet.nodes.iter().filter(|node| node.kind == kind).count();
        if of_kind < FEWEST_MEMBERS && of_kind > 0 {
            let nodes = if of_kind == 1 { "node is" } else { "nodes are" };
            let name = inventory.label();
            fleet.notes.push(format!("{of_kind} {nodes} {name}: {FEWEST_MEMBERS} of a kind are needed to judge them."));
        }
    }
    for tournament in &fleet.link_criteria {
        let (what, nodes) = (&tournament.what, tournament.nodes);
        let (pairs, possible) = (tournament.pairs, tournament.possible_pairs());
        if pairs < possible {
            fleet.notes.push(format!(
                "{what} measured {pairs} of {possible} pairs, so that its time does not grow with the square of the nodes: other links \
                 are not judged."
            ));
        }
        match tournament.smallest {
            None if nodes < FEWEST_LINKED => fleet
                .notes
                .push(format!("{what} has {nodes} nodes: {FEWEST_LINKED} are needed to judge links.")),
            None => fleet.notes.push(format!("{what} has no times of pairs: links cannot be judged.")),
            Some(smallest) if smallest > MOST_UNSEEN => fleet.notes.push(format!(
                "{what} varies so much between pairs that a link 10% slower would not show: only one {:.0}% slower would.",
                100.0 * smallest
            )),
            Some(_) => {}
        }
    }
}
