//! The verdicts as a terminal shows them.

use std::path::{Path, PathBuf};

use diagnose::fleet::{FLEET_LEVEL, Fleet, Group, Node, NodeVerdict, ResultCheck, SlowIn, compressed};
use terms::{HostName, Named};
use view::number::{count, factor, percent, seconds};

use crate::screen;
use terminal::{Cell, Column, Row, Style, Table, hanging, wrap};

/// Nodes that are listed.
const LISTED: usize = 40;
/// Failures of a node that are said.
const FAILURES: usize = 2;

pub(super) fn text(fleet: &Fleet, width: usize) -> String {
    let mut out = format!("{}\n\n", Style::Bold.paint(&wrap(&sentence(fleet), width)));
    out += &nodes(fleet, width);
    for group in &fleet.groups {
        out += &format!("{}\n\n", wrap(&self::group(group), width));
    }
    out += &criteria(fleet, width);
    for check in &fleet.results {
        out += &format!("{}\n\n", wrap(&results(check), width));
    }
    for note in &fleet.notes {
        out += &format!("{}\n", hanging("note: ", &view::one_line(note), width));
    }
    out
}

/// `half of case: 8 nodes take 1.05x as long as the other 8: n[1-8]. They differ in kernel: 6.1.0, others 6.8.0.`
pub(super) fn group(group: &Group) -> String {
    let slower: Vec<&HostName> = group.slower.iter().collect();
    let differs = match group.differs.as_slice() {
        [] => "Nothing that records have tells them apart: compare firmware settings and clocks.".to_owned(),
        differs => format!("They differ in {}.", differs.join("; ")),
    };
    let what = format!(
        "{}: {} take {} as long as the other {}: {}. {differs}",
        group.what,
        count(slower.len(), "node", "nodes"),
        factor(group.ratio),
        group.others,
        compressed(&slower)
    );
    view::one_line(&what)
}

/// `results: 16 nodes did 1,234,567 operations, all with the same bits. At 95%, less than 2.4 in a million operations are wrong.`
pub(super) fn results(check: &ResultCheck) -> String {
    let did = format!(
        "{}: {} did {} operations (products, sums, updates of a training step)",
        check.what,
        count(check.nodes, "node", "nodes"),
        view::number::thousands(i64::try_from(check.operations).unwrap_or(i64::MAX))
    );
    let found = match (check.excluded_rate, check.wrong_rounds) {
        (Some(rate), _) => {
            format!("all results have the same bits. An error rate above {rate:.2e} by operation is excluded at 95%.")
        }
        (None, 0) => "results differ, and it cannot be told which are right.".to_owned(),
        (None, rounds) => format!("{} left wrong bits.", count(rounds as usize, "round", "rounds")),
    };
    view::one_line(&format!("{did}: {found}"))
}

/// `n07: slow. 64 nodes: 63 good, 1 slow; 1 slow link`. What is wrong, and names no node, stands first; then the bad nodes.
pub(super) fn sentence(fleet: &Fleet) -> String {
    let failures: String =
        fleet.failures.iter().take(FAILURES).map(|why| format!("{}; ", view::one_line(why))).collect();
    let more = fleet.failures.len().saturating_sub(FAILURES);
    let more = if more > 0 { format!("and {more} more; ") } else { String::new() };
    let failures =
        if failures.is_empty() { failures } else { format!("{failures}{more}cannot tell which node is at fault. ") };
    let of = [NodeVerdict::Good, NodeVerdict::Slow, NodeVerdict::Failed, NodeVerdict::CannotTell].into_iter();
    let counted: Vec<String> = of
        .map(|verdict| (fleet.count(verdict), verdict))
        .filter(|(number, _)| *number > 0)
        .map(|(number, verdict)| format!("{number} {}", verdict.name()))
        .collect();
    let kinds = if fleet.kinds.len() > 1 { format!(" of {} kinds", fleet.kinds.len()) } else { String::new() };
    let links = match fleet.links.len() {
        0 => String::new(),
        links => format!("; {}", count(links, "slow link", "slow links")),
    };
    let links = if links.is_empty() && fleet.is_blind_to_links() { "; links: cannot tell".to_owned() } else { links };
    format!(
        "{failures}{}{}{kinds}: {}{links}",
        bad(fleet),
        count(fleet.nodes.len(), "node", "nodes"),
        counted.join(", ")
    )
}

/// Nodes that are named in the sentence.
const NAMED: usize = 8;

/// The bad nodes: `n[03,17]: failed; n12: slow. `
fn bad(fleet: &Fleet) -> String {
    let of = |verdict: NodeVerdict| {
        let hosts = fleet.hosts(&[verdict]);
        let named = compressed(&hosts[..hosts.len().min(NAMED)]);
        let more = hosts.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!hosts.is_empty()).then(|| format!("{named}{more}: {}", verdict.name()))
    };
    let said: Vec<String> = [NodeVerdict::Failed, NodeVerdict::Slow].into_iter().filter_map(of).collect();
    if said.is_empty() { String::new() } else { format!("{}. ", said.join("; ")) }
}

/// What is said of a node: in what it is slow, or why it failed or cannot be told.
pub(super) fn why(node: &Node) -> String {
    if !node.failed.is_empty() {
        let more = node.failed.len().saturating_sub(FAILURES);
        let said: Vec<String> = node.failed.iter().take(FAILURES).map(|why| view::one_line(why)).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return said.join("; ") + &more;
    }
    if node.slow.is_empty() {
        return view::one_line(&node.unknown);
    }
    let one = |slow: &SlowIn| {
        let [low, high] = slow.interval;
        let since = slow.since.as_ref().map_or(String::new(), |since| format!(" since {since}"));
        format!(
            "{} takes {} as long as on healthy nodes{since} ({} to {}, {}; of healthy fleets {} have any such node)",
            view::one_line(&slow.what),
            factor(slow.ratio),
            factor(low),
            factor(high),
            count(slow.trials, "trial", "trials"),
            percent(FLEET_LEVEL)
        )
    };
    node.slow.iter().map(one).collect::<Vec<_>>().join("; ")
}

pub(super) fn style(verdict: NodeVerdict) -> Style {
    match verdict {
        NodeVerdict::Good => Style::Green,
        NodeVerdict::CannotTell => Style::Yellow,
        NodeVerdict::Slow | NodeVerdict::Failed => Style::Red,
    }
}

/// The nodes that are not good, and the slow links.
fn nodes(fleet: &Fleet, width: usize) -> String {
    let mut all: Vec<&Node> = fleet.nodes.iter().filter(|node| node.verdict != NodeVerdict::Good).collect();
    all.sort_by_key(|node| node.verdict as u8);
    let mut table = Table::new([Column::left("node"), Column::left("verdict"), Column::left("why").wraps(60, 24)]);
    for node in all.iter().take(LISTED) {
        let verdict = Cell::styled(node.verdict.name(), style(node.verdict));
        table.push(Row::new([Cell::from(node.host.to_string()), verdict, Cell::from(why(node))]));
    }
    for link in fleet.links.iter().take(LISTED) {
        let name = link.hosts.each_ref().map(HostName::as_str).join(" - ");
        let since = link.since.as_ref().map_or(String::new(), |since| format!(" since {since}"));
        let why = format!("{} takes {} as long as both nodes explain{since}", link.what, factor(link.ratio));
        table.push(Row::new([
            Cell::from(name),
            Cell::styled("slow link", Style::Red),
            Cell::from(view::one_line(&why)),
        ]));
    }
    let more = all.len().saturating_sub(LISTED) + fleet.links.len().saturating_sub(LISTED);
    if all.is_empty() && fleet.links.is_empty() {
        return String::new();
    }
    let rest = if more > 0 { format!("... and {more} more, on the page\n") } else { String::new() };
    table.lines(width).iter().map(|line| format!("{line}\n")).collect::<String>() + &rest + "\n"
}

/// What nodes and links were judged by, and what would have shown.
fn criteria(fleet: &Fleet, width: usize) -> String {
    let mut table = Table::new([
        Column::left("judged by").wraps(40, 18),
        Column::right("nodes"),
        Column::right("healthy time"),
        Column::right("healthy spread"),
        Column::right("slow from"),
    ]);
    let several = fleet.kinds.len() > 1;
    let dash = || "-".to_owned();
    for criterion in &fleet.criteria {
        let kind = fleet
            .kinds
            .get(criterion.kind)
            .filter(|_| several)
            .map_or(String::new(), |kind| format!(" ({})", kind.label()));
        table.push(Row::new([
            view::one_line(&format!("{}{kind}", criterion.label)),
            criterion.nodes.to_string(),
            criterion.level.map_or_else(dash, |level| seconds(level.centre.exp())),
            criterion.level.map_or_else(dash, |level| percent(level.scatter)),
            criterion.smallest.map_or_else(dash, |smallest| format!("+{}", percent(smallest))),
        ]));
    }
    for one in &fleet.link_criteria {
        table.push(Row::new([
            view::one_line(&format!("{}, links", one.what)),
            one.nodes.to_string(),
            dash(),
            dash(),
            one.smallest.map_or_else(dash, |smallest| format!("+{}", percent(smallest))),
        ]));
    }
    table.lines(width).iter().map(|line| format!("{line}\n")).collect::<String>() + "\n"
}

/// The files.
pub(super) fn files(folder: &Path, written: &[(PathBuf, &'static str)]) -> String {
    let longest = written.iter().map(|(path, _)| path.display().to_string().chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (path, what) in written {
        out += &format!("{:<9}{:<longest$}   {what}\n", "list", path.display().to_string());
    }
    out + &format!("{:<9}{}\n", "page", folder.join(super::page::FILE).display())
}

/// What to type next.
pub(super) fn next(folder: &Path) -> String {
    let file = folder.join("fleet.json").display().to_string();
    let words = ["rankmark", "fleet", "--criteria", &file, "results/NODE"];
    screen::next(&words, "judges one more node by this fleet")
}
