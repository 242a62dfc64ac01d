//! Timelines of several files as one: which file is which rank, and whether their clocks can be compared.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use terms::Error;
use trace::timeline::{Kind, NameId, Names, RankTimeline, Timeline};

use super::Spans;
use super::cycles;
use super::rank_names::{natural_order, process_of_name, rank_of_name};
use super::same_names::SameNames;

/// What is said of files whose jobs have different numbers of ranks, before these.
pub(crate) const DIFFERENT_WORLDS: &str = "the files disagree on the number of ranks: ";

/// One timeline of all ranks. None without a part.
pub(super) fn timelines(mut parts: Vec<(PathBuf, Spans)>) -> Result<Option<Timeline>, Error> {
    let Some((first, part)) = parts.first() else { return Ok(None) };
    let source = part.timeline.source.clone();
    if let Some((other, part)) = parts.iter().find(|(_, part)| part.timeline.source != source) {
        return Err(Error::new("traces of different tools cannot be joined")
            .cause(format!(
                "{} is from {source}, {} is from {}",
                first.display(),
                other.display(),
                part.timeline.source
            ))
            .hint("name the files of one tool"));
    }
    let mut joined = Timeline { source, ..Timeline::default() };
    assign_ranks(&mut parts, &mut joined.notes);
    cycles::refuse_other_runs(&parts)?;
    joined.world = world(&parts, &mut joined.notes);
    joined.clock_error_ns = clock_error(&parts);
    let one = parts.len() == 1;
    let mut groups: HashSet<(String, Vec<u32>)> = HashSet::new();
    for (path, part) in parts {
        let new = part.timeline.groups.into_iter().filter(|group| groups.insert(group.clone()));
        joined.groups.extend(new);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let notes = part.timeline.notes.into_iter();
        joined.notes.extend(notes.map(|note| if one { note } else { format!("{name}: {note}") }));
        if joined.ranks.is_empty() {
            // Of several files, each measured itself alone.
            joined.recording = part.timeline.recording.filter(|_| one);
            (joined.ranks, joined.names) = (part.timeline.ranks, part.timeline.names);
        } else {
            add(&mut joined, part.timeline.ranks, &part.timeline.names);
        }
    }
    cycles::join(&mut joined);
    tell_groups_apart(&mut joined);
    compare(&joined.ranks, &mut joined.notes);
    Ok(Some(joined))
}

/// Gives communicators that share a name names of their own: their calls have the same numbers, and do not belong together.
fn tell_groups_apart(joined: &mut Timeline) {
    let own_names = SameNames::of(&joined.groups);
    if own_names.is_empty() {
        return;
    }
    let Timeline { ranks, names, groups, .. } = joined;
    for rank in ranks {
        let shared: BTreeSet<NameId> = rank.collectives.iter().map(|call| call.group).collect();
        for group in shared {
            let Some(own) = own_names.own(names.get(group), rank.rank) else { continue };
            let own = names.intern(own);
            rank.collectives.iter_mut().filter(|call| call.group == group).for_each(|call| call.group = own);
        }
    }
    own_names.rename(groups);
}

/// Gives ranks to parts that do not name theirs: by the name of the file, else by order.
fn assign_ranks(parts: &mut [(PathBuf, Spans)], notes: &mut Vec<String>) {
    let mut unnamed = Vec::new();
    for (at, (path, part)) in parts.iter_mut().enumerate().filter(|(_, (_, part))| !part.is_numbered) {
        part.rank = part.rank.or_else(|| rank_of_name(path));
        if part.rank.is_none() {
            unnamed.push(at);
        }
    }
    // A shell gives `worker10` before `worker2`. Names that differ in more than numbers stay in the order of the user.
    let skeleton = |at: &usize| -> String {
        parts[*at].0.to_string_lossy().chars().filter(|letter| !letter.is_ascii_digit()).collect()
    };
    if unnamed.iter().map(skeleton).collect::<BTreeSet<_>>().len() == 1 {
        unnamed.sort_by(|a, b| natural_order(&parts[*a].0, &parts[*b].0));
    }
    let numbered = parts.iter().filter(|(_, part)| part.is_numbered).flat_map(|(_, part)| &part.timeline.ranks);
    let mut taken: BTreeSet<u32> = numbered.map(|rank| rank.rank).collect();
    taken.extend(parts.iter().filter_map(|(_, part)| part.rank));
    let mut processes: BTreeMap<String, u32> = BTreeMap::new();
    for at in unnamed {
        let process = process_of_name(&parts[at].0);
        if let Some(rank) = process.as_ref().and_then(|process| processes.get(process)) {
            parts[at].1.rank = Some(*rank);
            continue;
        }
        let free = (0..).find(|rank| !taken.contains(rank)).unwrap_or(u32::MAX);
        taken.insert(free);
        processes.extend(process.map(|process| (process, free)));
        notes.push(format!(
            "{} names no rank: it is read as rank {free}, by the order of the files (hint: put `rank{free}` into its name)",
            parts[at].0.display()
        ));
        parts[at].1.rank = Some(free);
    }
    for (_, part) in parts.iter_mut().filter(|(_, part)| !part.is_numbered) {
        for rank in &mut part.timeline.ranks {
            rank.rank = part.rank.unwrap_or(rank.rank);
        }
    }
}

/// Ranks of the job, as most files say.
fn world(parts: &[(PathBuf, Spans)], notes: &mut Vec<String>) -> Option<u32> {
    let said: BTreeSet<u32> = parts.iter().filter_map(|(_, part)| part.timeline.world).collect();
    if said.len() > 1 {
        let said: Vec<String> = said.iter().map(u32::to_string).collect();
        notes.push(format!("{DIFFERENT_WORLDS}{}", said.join(", ")));
    }
    said.last().copied()
}

/// Times of several files can be compared where all files are of one host.
fn clock_error(parts: &[(PathBuf, Spans)]) -> Option<u64> {
    if let [(_, only)] = parts {
        return only.timeline.clock_error_ns;
    }
    let ranks = || parts.iter().flat_map(|(_, part)| &part.timeline.ranks);
    let host = ranks().next()?.host.as_ref()?;
    let is_one = parts.iter().all(|(_, part)| part.is_calendar) && ranks().all(|rank| rank.host.as_ref() == Some(host));
    is_one.then_some(0)
}

/// Adds ranks with names of another table.
fn add(joined: &mut Timeline, ranks: Vec<RankTimeline>, names: &Names) {
    let mut known: Vec<Option<NameId>> = Vec::new();
    let mut renamed = |id: NameId, table: &mut Names| {
        let at = id.0 as usize;
        if known.len() <= at {
            known.resize(at + 1, None);
        }
        *known[at].get_or_insert_with(|| table.intern(names.get(id)))
    };
    for mut rank in ranks {
        for span in &mut rank.spans {
            span.name = renamed(span.name, &mut joined.names);
        }
        for call in &mut rank.collectives {
            call.operation = renamed(call.operation, &mut joined.names);
            call.group = renamed(call.group, &mut joined.names);
            call.dtype = call.dtype.map(|word| renamed(word, &mut joined.names));
        }
        joined.ranks.push(rank);
    }
}

/// Says where ranks do not fit together.
fn compare(ranks: &[RankTimeline], notes: &mut Vec<String>) {
    let steps = |rank: &RankTimeline| -> Vec<u32> {
        let mut steps: Vec<u32> =
            rank.spans.iter().filter(|span| span.kind == Kind::Step).map(|span| span.number).collect();
        steps.sort_unstable();
        steps
    };
    let Some((first, others)) = ranks.split_first() else { return };
    let expected = steps(first);
    let different: Vec<(u32, Vec<u32>)> =
        others.iter().map(|rank| (rank.rank, steps(rank))).filter(|(_, found)| *found != expected).collect();
    if let Some((rank, found)) = different.first() {
        notes.push(format!(
            "ranks have different steps: rank {} has {}, rank {rank} has {}{}",
            first.rank,
            listed(&expected),
            listed(found),
            more(different.len())
        ));
    }
    let range =
        |rank: &RankTimeline| Some((rank.spans.first()?.begin_ns, rank.spans.iter().map(|span| span.end_ns).max()?));
    let Some((begin, end)) = range(first) else { return };
    let is_apart = |rank: &&RankTimeline| range(rank).is_some_and(|(from, to)| to < begin || end < from);
    let apart: Vec<u32> = others.iter().filter(is_apart).map(|rank| rank.rank).collect();
    if let Some(rank) = apart.first() {
        notes.push(format!(
            "ranks {} and {rank} have no time in common{}: their clocks differ, or the files come from different recordings",
            first.rank,
            more(apart.len())
        ));
    }
}

fn more(ranks: usize) -> String {
    if ranks > 1 { format!(", and so {} more ranks", ranks - 1) } else { String::new() }
}

fn listed(steps: &[u32]) -> String {
    match steps {
        [] => "none".to_owned(),
        [one] => format!("step {one}"),
        [first, .., last] => format!("{} steps from {first} to {last}", steps.len()),
    }
}
