//! The verdicts as a page.

use std::path::Path;

use diagnose::fleet::{Fleet, Inventory, Node, NodeVerdict};
use report::{FleetCell, FleetPage, FleetRow, FleetTone};
use terms::{HostName, Named};
use view::number::{factor, percent, seconds};

use super::text;
use crate::Failure;

/// The file of the page.
pub(super) const FILE: &str = "fleet.html";

/// Writes it into this folder.
pub(super) fn write(folder: &Path, fleet: &Fleet) -> Result<(), Failure> {
    report::write_fleet(&page(fleet), folder, FILE)?;
    Ok(())
}

fn tone(verdict: NodeVerdict) -> FleetTone {
    match verdict {
        NodeVerdict::Good => FleetTone::Good,
        NodeVerdict::CannotTell => FleetTone::Unknown,
        NodeVerdict::Slow => FleetTone::Slow,
        NodeVerdict::Failed => FleetTone::Failed,
    }
}

fn page(fleet: &Fleet) -> FleetPage {
    let worst = fleet.nodes.iter().map(|node| tone(node.verdict)).max().unwrap_or(FleetTone::Unknown);
    let of_links = match () {
        () if !fleet.failures.is_empty() => FleetTone::Failed,
        () if !fleet.links.is_empty() => FleetTone::Slow,
        () if fleet.is_blind_to_links() => FleetTone::Unknown,
        () => FleetTone::Good,
    };
    let tone_of_all = worst.max(of_links);
    let criteria = fleet.criteria.iter().map(|criterion| {
        let dash = || "-".to_owned();
        FleetRow {
            tone: FleetTone::Good,
            cells: vec![
                criterion.label.clone(),
                fleet.kinds.get(criterion.kind).map(Inventory::label).unwrap_or_default(),
                criterion.nodes.to_string(),
                criterion.level.map_or_else(dash, |level| seconds(level.centre.exp())),
                criterion.level.map_or_else(dash, |level| percent(level.scatter)),
                criterion.smallest.map_or_else(dash, |smallest| format!("+{}", percent(smallest))),
            ],
        }
    });
    let links = fleet.links.iter().map(|link| FleetRow {
        tone: FleetTone::Slow,
        cells: vec![link.hosts.each_ref().map(HostName::as_str).join(" - "), link.what.clone(), factor(link.ratio)],
    });
    FleetPage {
        title: "Fleet".to_owned(),
        sentence: text::sentence(fleet),
        tone: tone_of_all,
        actions: actions(fleet),
        cells: fleet.nodes.iter().map(cell).collect(),
        columns: fleet.criteria.iter().map(|criterion| criterion.label.clone()).collect(),
        nodes: rows(fleet),
        criteria: criteria.collect(),
        links: links.collect(),
        notes: fleet.results.iter().map(text::results).chain(fleet.notes.iter().cloned()).collect(),
    }
}

/// What to do, the most urgent first.
fn actions(fleet: &Fleet) -> Vec<String> {
    let mut all = Vec::new();
    let named = |verdict: NodeVerdict| fleet.hosts(&[verdict]);
    let few = |hosts: &[&HostName]| {
        let shown = hosts.iter().take(8).map(|host| host.as_str()).collect::<Vec<_>>().join(", ");
        if hosts.len() > 8 { format!("{shown} and {} more", hosts.len() - 8) } else { shown }
    };
    all.extend(fleet.failures.iter().map(|why| {
        format!("{}: run it on parts of the nodes, until the one that is at fault is found.", view::one_line(why))
    }));
    let (failed, slow) = (named(NodeVerdict::Failed), named(NodeVerdict::Slow));
    if !failed.is_empty() {
        all.push(format!("Take {} out of service, and look at what failed there.", few(&failed)));
    }
    if !slow.is_empty() {
        all.push(format!(
            "Keep jobs off {} (`slurm.exclude`), and compare their clocks, memory and other programs with those of a good node.",
            few(&slow)
        ));
    }
    for link in fleet.links.iter().take(3) {
        let [one, other] = &link.hosts;
        all.push(format!(
            "Look at the cables, ports and routes between {one} and {other}: each is as fast as others with the rest."
        ));
    }
    all.extend(fleet.groups.iter().map(text::group));
    if all.is_empty() && fleet.count(NodeVerdict::CannotTell) > 0 {
        all.push("Measure more nodes of a kind, or for longer: `--budget 15min`.".to_owned());
    }
    all
}

fn cell(node: &Node) -> FleetCell {
    let worst = node.slow.first().map(|slow| format!("+{}", percent(slow.ratio - 1.0)));
    let why = text::why(node);
    FleetCell {
        tone: tone(node.verdict),
        name: node.host.to_string(),
        figure: worst.unwrap_or_else(|| {
            if node.verdict == NodeVerdict::Good { String::new() } else { node.verdict.name().to_owned() }
        }),
        tip: if why.is_empty() { node.verdict.name().to_owned() } else { format!("{}: {why}", node.verdict.name()) },
    }
}

/// The worst first.
fn rows(fleet: &Fleet) -> Vec<FleetRow> {
    let mut nodes: Vec<&Node> = fleet.nodes.iter().collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(tone(node.verdict)));
    nodes.into_iter().map(row).collect()
}

fn row(node: &Node) -> FleetRow {
    let ratios = node.ratios.iter().map(|ratio| ratio.map_or("-".to_owned(), view::number::ratio));
    let head = [node.host.to_string(), node.verdict.name().to_owned(), text::why(node)];
    FleetRow { tone: tone(node.verdict), cells: head.into_iter().chain(ratios).collect() }
}
