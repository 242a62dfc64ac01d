//! Tournaments: slow links, nodes whose messages are slow with every other, and how far blocks of nodes are apart.

use std::collections::BTreeMap;

use stats::{FEWEST_LINKED, FEWEST_TRIALS, Links};
use terms::HostName;

use super::hosts::compressed;
use super::rails::{self, SlowRail};
use super::taken::Tournament;
use super::topology::Topology;
use super::verdict::{LinkCriterion, MOST_UNSEEN, SlowLink};

/// A node whose short messages alone take longer may stand in another rack, up to so many times as long: more switches on the
/// way add as much again, and no more.
const FARTHEST: f64 = 3.0;

/// What a tournament shows.
#[derive(Debug, Default)]
pub(super) struct ShownNetwork {
    /// Nodes that are slow with every other: the place among its hosts, the ratio and its interval.
    pub(super) slow: Vec<(usize, f64, [f64; 2])>,
    /// Nodes that may be, each with the reason why it cannot be told.
    pub(super) unknown: Vec<(usize, String)>,
    /// Ranks whose way to other nodes is slow, although that of their node is not.
    pub(super) rails: Vec<SlowRail>,
    pub(super) links: Vec<SlowLink>,
    pub(super) notes: Vec<String>,
}

/// Judges a tournament at this level of false alarms.
pub(super) fn judge(of: &Tournament, topology: Option<&Topology>, level: f64) -> (LinkCriterion, ShownNetwork) {
    let blocks = topology.map_or_else(|| stats::blocks(&of.times), |topology| topology.blocks(&of.hosts));
    let judged = stats::links(&of.times, &blocks, level);
    let criterion = LinkCriterion {
        what: of.label.clone(),
        nodes: of.hosts.len(),
        pairs: of.times.pairs.len(),
        smallest: judged.as_ref().map(|judged| judged.smallest.exp_m1()),
    };
    let mut shown = judged.map(|judged| show(of, topology.is_some(), &blocks, &judged)).unwrap_or_default();
    show_rails(of, level, &mut shown);
    (criterion, shown)
}

/// `bandwidth of local rank 5 (its GPU, adapter or rail) with other nodes`.
pub(super) fn rail_label(label: &str, number: usize) -> String {
    format!("{label} of local rank {number} (its GPU, adapter or rail) with other nodes")
}

/// Adds the rails that are slow at this level of false alarms, which is one of its own.
fn show_rails(of: &Tournament, level: f64, shown: &mut ShownNetwork) {
    if of.hosts.len() < FEWEST_LINKED {
        return;
    }
    for rail in rails::slow(&of.rails, level) {
        let takes = format!("{} takes {:.2}x as long", rail_label(&of.label, rail.number), rail.ratio);
        if of.trials < FEWEST_TRIALS {
            let why = format!("{takes}, in {} trials; {FEWEST_TRIALS} in different rounds are needed", of.trials);
            shown.unknown.push((rail.host, why));
        } else if of.disturbed.as_ref() == Some(&of.hosts[rail.host]) {
            shown.unknown.push((rail.host, format!("{takes}, but other programs or the like disturbed it")));
        } else {
            shown.rails.push(rail);
        }
    }
}

fn show(of: &Tournament, is_known: bool, blocks: &[usize], judged: &Links) -> ShownNetwork {
    let mut shown = ShownNetwork { notes: apart(of, blocks, &judged.farther), ..ShownNetwork::default() };
    let label = &of.label;
    shown.unknown.extend(alone(of, blocks));
    for (at, standing) in judged.members.standings.iter().enumerate().filter(|(_, one)| one.slow) {
        let ratio = standing.deviation.exp();
        if of.trials < FEWEST_TRIALS {
            let why = format!("{label} with every other node takes {ratio:.2}x as long, in {} trials", of.trials);
            shown.unknown.push((at, format!("{why}; {FEWEST_TRIALS} in different rounds are needed")));
        } else if of.disturbed.as_ref() == Some(&of.hosts[at]) {
            let why = format!("{label} with every other node takes {ratio:.2}x as long");
            shown.unknown.push((at, format!("{why}, but other programs or the like disturbed it")));
        } else if of.short && !is_known && ratio <= FARTHEST {
            let why = format!("{label} with every other node takes {ratio:.2}x as long");
            shown.unknown.push((at, format!("{why}: it is slow, or in another rack: --topology FILE tells which")));
        } else {
            shown.slow.push((at, ratio, standing.interval.map(f64::exp)));
        }
    }
    for ([low, high], ratio) in &judged.slow {
        let hosts = [low, high].map(|at| of.hosts[*at].clone());
        if of.trials < FEWEST_TRIALS {
            let [one, other] = &hosts;
            shown.notes.push(format!(
                "{label} between {one} and {other} takes {ratio:.2}x as long, in {} trials: {FEWEST_TRIALS} are needed.",
                of.trials
            ));
            continue;
        }
        if let Some(disturbed) = hosts.iter().find(|host| of.disturbed.as_ref() == Some(host)) {
            let [one, other] = &hosts;
            shown.notes.push(format!(
                "{label} between {one} and {other} takes {ratio:.2}x as long, but other programs or the like disturbed {disturbed}."
            ));
            continue;
        }
        shown.links.push(SlowLink { hosts, what: label.clone(), ratio: *ratio, since: None });
    }
    shown
}

/// Nodes that stand alone on their switch, and whose long messages take longer than those between other blocks: the node or its switch
/// is slow, and no other node behind the switch tells which.
fn alone(of: &Tournament, blocks: &[usize]) -> Vec<(usize, String)> {
    if of.short {
        return Vec::new();
    }
    let members = |block: usize| blocks.iter().filter(|own| **own == block).count();
    let is_lone = |at: usize| members(blocks[at]) == 1;
    let lone: Vec<usize> = (0..blocks.len()).filter(|at| is_lone(*at)).collect();
    let median_of = |keep: &dyn Fn([usize; 2]) -> bool| {
        let kept = of.times.pairs.iter().filter(|(pair, _)| keep(pair.map(|at| at as usize)));
        let times: Vec<f64> = kept.map(|(_, time)| *time).collect();
        (!times.is_empty()).then(|| stats::median(&times))
    };
    let between = |[one, other]: [usize; 2]| !is_lone(one) && !is_lone(other) && blocks[one] != blocks[other];
    let within = |[one, other]: [usize; 2]| blocks[one] == blocks[other];
    // Of two blocks, the lone node is one: what others take is known within their block alone.
    let Some(usual) = median_of(&between).or_else(|| median_of(&within)) else { return Vec::new() };
    let longer = |at: &usize| Some((*at, median_of(&|pair| pair.contains(at))? / usual));
    let label = &of.label;
    let why = |(at, ratio): (usize, f64)| {
        (
            at,
            format!(
                "{label} with every other node takes {ratio:.2}x as long: it is slow, or its switch is, which no other node has"
            ),
        )
    };
    lone.iter().filter_map(longer).filter(|(_, ratio)| *ratio > 1.0 + MOST_UNSEEN).map(why).collect()
}

/// A sentence about blocks that are apart. Distance is not a fault of their nodes.
fn apart(of: &Tournament, blocks: &[usize], farther: &[f64]) -> Vec<String> {
    let mut members: BTreeMap<usize, Vec<&HostName>> = BTreeMap::new();
    blocks.iter().zip(&of.hosts).for_each(|(block, host)| members.entry(*block).or_default().push(host));
    let ratios: Vec<f64> = farther.iter().map(|farther| farther.exp()).collect();
    let Some(least) = ratios.iter().copied().reduce(f64::min) else { return Vec::new() };
    let most = ratios.iter().copied().fold(least, f64::max);
    let range = if most - least < 0.05 { format!("{most:.2}x") } else { format!("{least:.2}x to {most:.2}x") };
    const LISTED: usize = 8;
    let listed: Vec<String> = members.values().take(LISTED).map(|hosts| compressed(hosts)).collect();
    let more = members.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    vec![format!(
        "{}: the nodes stand in {} blocks, as in racks ({}{more}). Between blocks it takes {range} as long as within; each node is \
         compared at the same distance.",
        of.label,
        members.len(),
        listed.join("; ")
    )]
}
