//! The verdicts over a fleet: which nodes and links are slow, what to do, and what that rests on.

use diagnose::fleet::{
    Criterion, FLEET_LEVEL, Fleet, Group, Inventory, Node, NodeVerdict, ResultCheck, SlowIn, SlowLink, compressed,
};
use terms::{HostName, Named};
use view::number::{NONE, count, factor, percent, ratio, seconds};

use crate::document::{Block, Column, Document, Table, TableRow, Tile, Tone, Words};

/// Nodes and links that are listed with what is wrong with them; a page has all nodes.
const LISTED: usize = 40;
/// Failures of a node that are said.
const FAILURES: usize = 2;

/// What a person reads of a fleet.
pub fn fleet(fleet: &Fleet) -> Document {
    let mut blocks = vec![
        Block::OnPage(vec![Block::Heading(1, "Fleet".into())]),
        Block::Verdict(tone_of_all(fleet), sentence(fleet).into()),
        Block::Actions(actions(fleet).iter().map(|action| Words::prose(action)).collect()),
        Block::OnPage(vec![Block::Heading(2, "Map of the nodes".into())]),
        Block::Tiles(fleet.nodes.iter().map(tile).collect()),
    ];
    blocks.extend(bad(fleet));
    blocks.push(Block::OnPage(vec![Block::Heading(2, "How nodes were judged".into())]));
    blocks.push(Block::Table(criteria(fleet)));
    let results = fleet.results.iter().map(results);
    blocks.extend(results.map(|said| Block::Paragraph(said.into())));
    blocks.extend(fleet.notes.iter().map(|note| Block::Note(Words::prose(note))));
    blocks.push(Block::OnPage(nodes(fleet)));
    blocks.retain(|block| !matches!(block, Block::Actions(actions) if actions.is_empty()));
    Document { title: "Fleet".to_owned(), blocks }
}

fn tone(verdict: NodeVerdict) -> Tone {
    match verdict {
        NodeVerdict::Good => Tone::Good,
        NodeVerdict::CannotTell => Tone::Care,
        NodeVerdict::Slow | NodeVerdict::Failed => Tone::Bad,
    }
}

fn tone_of_all(fleet: &Fleet) -> Tone {
    let worst = fleet.nodes.iter().map(|node| tone(node.verdict)).max().unwrap_or(Tone::Care);
    let of_links = match () {
        () if !fleet.failures.is_empty() || !fleet.links.is_empty() => Tone::Bad,
        () if fleet.is_blind_to_links() => Tone::Care,
        () => Tone::Good,
    };
    worst.max(of_links)
}

/// `half of case: 8 nodes take 1.05x as long as the other 8: n[1-8]. They differ in kernel: 6.1.0, others 6.8.0.`
fn group(group: &Group) -> String {
    let slower: Vec<&HostName> = group.slower.iter().collect();
    let differs = match group.differs.as_slice() {
        [] => "The records do not show what differs: compare firmware settings and clocks.".to_owned(),
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
fn results(check: &ResultCheck) -> String {
    let did = format!(
        "{}: {} did {} operations (products, sums, updates of a training step)",
        check.what,
        count(check.nodes, "node", "nodes"),
        view::number::thousands(check.operations)
    );
    let found = match (check.excluded_rate, check.wrong_rounds) {
        (Some(rate), _) => {
            format!("all results have the same bits. With 95% confidence, fewer than {rate:.2e} of operations err.")
        }
        (None, 0) => "results differ, and nothing shows which are right.".to_owned(),
        (None, rounds) => format!("{} gave wrong bits.", count(rounds as usize, "round", "rounds")),
    };
    view::one_line(&format!("{did}: {found}"))
}

/// `n07: slow. 64 nodes: 63 good, 1 slow; 1 slow link`. What is wrong, and names no node, stands first; then the bad nodes.
fn sentence(fleet: &Fleet) -> String {
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
        named_first(fleet),
        count(fleet.nodes.len(), "node", "nodes"),
        counted.join(", ")
    )
}

/// Nodes that are named in the sentence.
const NAMED: usize = 8;

/// The bad nodes: `n[03,17]: failed; n12: slow. `
fn named_first(fleet: &Fleet) -> String {
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
fn why(node: &Node) -> String {
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
            "{} takes {} as long as on healthy nodes{since} ({} to {}, {}; at most {} of healthy fleets have one)",
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

/// What to do, the most urgent first.
fn actions(fleet: &Fleet) -> Vec<String> {
    let mut all = Vec::new();
    let named = |verdict: NodeVerdict| fleet.hosts(&[verdict]);
    let few = |hosts: &[&HostName]| {
        let shown = hosts.iter().take(8).map(|host| host.as_str()).collect::<Vec<_>>().join(", ");
        if hosts.len() > 8 { format!("{shown} and {} more", hosts.len() - 8) } else { shown }
    };
    all.extend(fleet.failures.iter().map(|why| {
        format!("{}: repeat it on subsets of the nodes until you find the node at fault.", view::one_line(why))
    }));
    let (failed, slow) = (named(NodeVerdict::Failed), named(NodeVerdict::Slow));
    if !failed.is_empty() {
        all.push(format!("Take {} out of service, and find out why it failed there.", few(&failed)));
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
            "Check the cables, ports and routes between {one} and {other}: both are fast with all other nodes."
        ));
    }
    all.extend(fleet.groups.iter().map(group));
    if all.is_empty() && fleet.count(NodeVerdict::CannotTell) > 0 {
        all.push("Add nodes of the same kind, or measure them longer under a launcher: `--budget 15min`.".to_owned());
    }
    all
}

fn tile(node: &Node) -> Tile {
    let worst = node.slow.first().map(|slow| format!("+{}", percent(slow.ratio - 1.0)));
    let verdict = node.verdict.name();
    let is_good = node.verdict == NodeVerdict::Good;
    let figure = worst.unwrap_or_else(|| if is_good { String::new() } else { verdict.to_owned() });
    let why = why(node);
    let tip = if why.is_empty() { verdict.to_owned() } else { format!("{verdict}: {why}") };
    Tile { tone: tone(node.verdict), name: node.host.to_string(), figure, tip }
}

/// The nodes that are not good, and the slow links.
fn bad(fleet: &Fleet) -> Vec<Block> {
    let mut all: Vec<&Node> = fleet.nodes.iter().filter(|node| node.verdict != NodeVerdict::Good).collect();
    all.sort_by_key(|node| node.verdict as u8);
    let mut table = Table::new([Column::left("node"), Column::left("verdict"), Column::left("why").wraps(60, 24)]);
    for node in all.iter().take(LISTED) {
        let cells = [node.host.to_string(), node.verdict.name().to_owned(), why(node)];
        table.push(TableRow::new(cells).tone(1, tone(node.verdict)));
    }
    for link in fleet.links.iter().take(LISTED) {
        table.push(TableRow::new([between(link), "slow link".to_owned(), why_slow(link)]).tone(1, Tone::Bad));
    }
    if table.is_empty() {
        return Vec::new();
    }
    let more = all.len().saturating_sub(LISTED) + fleet.links.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| Block::Paragraph(format!("... and {more} more, on the page").into()));
    let title = Block::OnPage(vec![Block::Heading(2, "What is not good".into())]);
    [title, Block::Table(table)].into_iter().chain(more).collect()
}

fn between(link: &SlowLink) -> String {
    link.hosts.each_ref().map(HostName::as_str).join(" - ")
}

fn why_slow(link: &SlowLink) -> String {
    let since = link.since.as_ref().map_or(String::new(), |since| format!(" since {since}"));
    format!("{} takes {} as long as expected from the two nodes{since}", link.what, factor(link.ratio))
}

/// What nodes and links were judged by, and what would have shown.
fn criteria(fleet: &Fleet) -> Table {
    let mut table = Table::new([
        Column::left("judged by").wraps(40, 18),
        Column::right("nodes"),
        Column::right("healthy time"),
        Column::right("healthy spread"),
        Column::right("slow from"),
    ]);
    let dash = || NONE.to_owned();
    let from = |smallest: Option<f64>| smallest.map_or_else(dash, |smallest| format!("+{}", percent(smallest)));
    for one in &fleet.criteria {
        let kind = fleet.kinds.get(one.kind).filter(|_| fleet.kinds.len() > 1).map(Inventory::label);
        table.row([
            one.label.clone() + &kind.map_or(String::new(), |kind| format!(" ({kind})")),
            one.nodes.to_string(),
            one.level.map_or_else(dash, |level| seconds(level.centre.exp())),
            one.level.map_or_else(dash, |level| percent(level.scatter)),
            from(one.smallest),
        ]);
    }
    for one in &fleet.link_criteria {
        table.row([format!("{}, links", one.what), one.nodes.to_string(), dash(), dash(), from(one.smallest)]);
    }
    table
}

/// A row for each node, the worst first, with its time over that of healthy nodes for each criterion.
fn nodes(fleet: &Fleet) -> Vec<Block> {
    let ratios = fleet.criteria.iter().map(|one: &Criterion| Column::right(one.label.as_str()));
    let head = [Column::left("node"), Column::left("verdict"), Column::left("why").wraps(60, 24)];
    let mut table = Table::new(head.into_iter().chain(ratios));
    let mut all: Vec<&Node> = fleet.nodes.iter().collect();
    all.sort_by_key(|node| std::cmp::Reverse(tone(node.verdict)));
    for node in all {
        let ratios = node.ratios.iter().map(|of| of.map_or(NONE.to_owned(), ratio));
        let cells = [node.host.to_string(), node.verdict.name().to_owned(), why(node)];
        table.push(TableRow::new(cells.into_iter().chain(ratios)).tone(1, tone(node.verdict)));
    }
    vec![
        Block::Heading(2, "Nodes".into()),
        Block::Note("A ratio is the node's time divided by that of healthy nodes of the same kind.".into()),
        Block::Table(table),
    ]
}
