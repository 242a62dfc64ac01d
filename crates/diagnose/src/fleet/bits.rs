//! Silent corruption: nodes of one kind did the same seeded work, so that what it left must be the same bits on all of them.
//!
//! A node whose rounds differ among themselves is at fault, whatever the others show. Of nodes that differ from each other, the
//! majority of a kind is right; where there is none, nobody can be blamed.

use std::collections::BTreeMap;

use terms::HostName;

use super::gathered::Gathered;
use super::hosts::compressed;
use super::verdict::{Fleet, ResultCheck};

/// What an error rate is excluded at.
const LEVEL: f64 = 0.05;

/// The rate of errors that so many operations without one exclude: `(1 - rate)^n = 5%`, about 3/n.
pub fn excluded_rate(operations: u64) -> Option<f64> {
    (operations > 0).then(|| -(LEVEL.ln() / operations as f64).exp_m1())
}

/// Compares the results of nodes of a kind.
pub(super) fn judge(fleet: &mut Fleet, nodes: &mut [Gathered]) {
    let mut groups: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
    for (at, gathered) in nodes.iter().enumerate() {
        gathered.bits.keys().for_each(|key| groups.entry((gathered.node.kind, key.clone())).or_default().push(at));
    }
    for ((kind, key), members) in groups {
        one_group(&key, kind, &members, fleet, nodes);
    }
}

fn one_group(key: &str, kind: usize, members: &[usize], fleet: &mut Fleet, nodes: &mut [Gathered]) {
    let mut counts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for at in members {
        if let Some((digest, _)) = nodes[*at].bits[key].main() {
            counts.entry(digest.to_owned()).or_default().push(*at);
        }
    }
    let right =
        counts.iter().find(|(_, of)| 2 * of.len() > members.len()).map(|(digest, of)| (digest.clone(), of.len()));
    let label = nodes[members[0]].bits[key].label.clone();
    let (mut operations, mut wrong) = (0, 0);
    for at in members {
        let Gathered { node, bits, agrees, .. } = &mut nodes[*at];
        let own = &bits[key];
        let Some((main, most)) = own.main() else { continue };
        operations += own.total() * own.operations;
        let total = own.total();
        if most < total {
            node.failed.push(format!("{label}: {} of its {total} rounds left other bits than the rest", total - most));
        }
        match &right {
            Some((digest, others)) if digest != main => {
                wrong += total - own.rounds.get(digest).copied().unwrap_or(0);
                node.failed.push(format!("{label}: its results differ from those of {others} other nodes of its kind"));
            }
            _ => wrong += total - most,
        }
        *agrees |= members.len() > 1 && right.is_some();
    }
    if right.is_none() && counts.len() > 1 {
        let hosts: Vec<&HostName> = members.iter().map(|at| &nodes[*at].node.host).collect();
        let why = format!("{label}: results of {} differ, and no majority of them agrees", compressed(&hosts));
        for at in members {
            nodes[*at].unsettled.push(format!("{label}: nodes differ, but it cannot be told which of them is right"));
        }
        fleet.failures.push(why);
    }
    let is_same = wrong == 0 && counts.len() == 1;
    fleet.results.push(ResultCheck {
        what: label,
        kind,
        nodes: members.len(),
        operations,
        wrong_rounds: wrong,
        excluded_rate: excluded_rate(operations).filter(|_| is_same),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_excluded_by_the_rule_of_three() {
        assert_eq!(excluded_rate(0), None);
        assert!((excluded_rate(1).unwrap() - 0.95).abs() < 1e-12);
        let many = excluded_rate(1_000_000).unwrap();
        assert!((many / 2.9957e-6 - 1.0).abs() < 1e-3, "{many}");
    }
}
