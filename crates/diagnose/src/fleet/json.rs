//! The verdicts as JSON, with what was learned.

use serde_json::{Value, json};
use terms::Named;

use super::{FLEET_LEVEL, Fleet, Node, NodeVerdict};

/// The version of this form.
pub(super) const VERSION: u32 = 3;

/// A fleet for programs, as `fleet.json` has it.
pub fn json(fleet: &Fleet) -> Value {
    let counts: serde_json::Map<String, Value> = NodeVerdict::ALL
        .iter()
        .map(|verdict| (verdict.name().replace(' ', "_"), fleet.count(*verdict).into()))
        .collect();
    let criteria = fleet.criteria.iter().map(|criterion| {
        json!({
            "key": criterion.key, "label": criterion.label, "kind": criterion.kind, "nodes": criterion.nodes,
            "healthy": criterion.level.map(|level| json!({
                "log_s": level.centre, "log_scatter": level.scatter, "log_own_variance": level.own_variance,
                "nodes": level.members,
            })),
            "smallest_deficit": criterion.smallest,
        })
    });
    let links = fleet
        .links
        .iter()
        .map(|link| json!({ "hosts": link.hosts, "what": link.what, "ratio": link.ratio, "since": link.since }));
    let link_criteria = fleet.link_criteria.iter().map(|one| {
        json!({
            "what": one.what, "nodes": one.nodes, "pairs": one.pairs, "possible_pairs": one.possible_pairs(),
            "smallest_deficit": one.smallest,
        })
    });
    let groups = fleet.groups.iter().map(|group| {
        json!({
            "what": group.what, "slower": group.slower, "others": group.others, "ratio": group.ratio, "differs": group.differs,
        })
    });
    let results = fleet.results.iter().map(|check| {
        json!({
            "what": check.what, "kind": (check.kind != usize::MAX).then_some(check.kind), "nodes": check.nodes,
            "operations": check.operations, "wrong_rounds": check.wrong_rounds, "excluded_rate": check.excluded_rate,
        })
    });
    json!({
        "version": VERSION,
        "false_alarms": FLEET_LEVEL,
        "nodes_by_verdict": counts,
        "failures": fleet.failures,
        "kinds": fleet.kinds,
        "criteria": criteria.collect::<Vec<_>>(),
        "nodes": fleet.nodes.iter().map(node).collect::<Vec<_>>(),
        "link_criteria": link_criteria.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "results": results.collect::<Vec<_>>(),
        "notes": fleet.notes,
    })
}

fn node(node: &Node) -> Value {
    let slow = node.slow.iter().map(|slow| {
        json!({
            "criterion": slow.criterion, "what": slow.what, "ratio": slow.ratio, "interval": slow.interval,
            "trials": slow.trials, "since": slow.since,
        })
    });
    json!({
        "host": node.host,
        "kind": (node.kind != usize::MAX).then_some(node.kind),
        "verdict": node.verdict.name(),
        "slow": slow.collect::<Vec<_>>(),
        "failed": node.failed,
        "unknown": node.unknown,
        "ratios": node.ratios,
        "records": node.records,
    })
}
