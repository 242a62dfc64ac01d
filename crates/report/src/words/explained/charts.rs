//! The charts of a case's traces: phases of each rank, timeline, waterfall, and who waits for whom.

use record::file::FileStem;
use record::{Blame, ExplainedCase, Phases};
use view::{Axis, ChartSpec, Lane, Lanes, Matrix, NamedChart, Quantity, Scale, Span, SpanKind, Stack, Term, Waterfall};

use super::waterfall::is_efficiency;
use crate::escape::one_line;
use crate::number::{count, percent, seconds};

/// Kinds of spans and phases that have their own colour; the others share one.
const KINDS: usize = 24;
/// Ranks that have a bar, or a row and a column.
const RANKS: usize = 64;
/// Terms of a waterfall; the smallest of more are one.
const TERMS: usize = 24;
/// The kind of span in which a rank waits.
const STALL: &str = "wait";
/// The colour of waiting: grey.
const STALL_STYLE: usize = view::COLOURS - 1;
/// Sentences about a step without what was found.
const WITHOUT: usize = 3;
/// A waterfall that misses its end by more than this share of its larger end says so.
const MISSES: f64 = 0.005;

/// The charts, with file names that begin with `stem`, and notes on what they leave out.
pub(super) fn of_case(
    case: &ExplainedCase,
    fall: Option<&record::Waterfall>,
    stem: &FileStem,
) -> (Vec<NamedChart>, Vec<String>) {
    let (colours, mut notes) = (Colours::from_case(case), Vec::new());
    let all = [
        ("phases", case.phases.as_ref().and_then(|of| phases(of, &colours, &mut notes))),
        ("timeline", case.lanes.as_ref().and_then(|of| timeline(of, &colours, &mut notes))),
        ("waterfall", fall.and_then(|of| waterfall(of, &mut notes))),
        ("blame", case.blame.as_ref().and_then(|of| blame(of, &mut notes))),
    ];
    let named = |(name, spec): (&str, Option<ChartSpec>)| Some(NamedChart { stem: stem.and(name), spec: spec? });
    (all.into_iter().filter_map(named).collect(), notes)
}

/// A colour for each name of a phase or a kind of span: the same in all charts of the case.
struct Colours<'c>(Vec<&'c str>);

impl<'c> Colours<'c> {
    fn from_case(case: &'c ExplainedCase) -> Self {
        let (lanes, phases) = (case.lanes.iter().flat_map(|of| &of.kinds), case.phases.iter().flat_map(|of| &of.kinds));
        let mut names: Vec<&str> = Vec::new();
        for name in phases.take(KINDS).chain(lanes.take(KINDS)).filter(|name| *name != STALL) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        Self(names)
    }

    fn style(&self, name: &str) -> usize {
        if name == STALL {
            return STALL_STYLE;
        }
        let place = self.0.iter().position(|other| *other == name).unwrap_or(self.0.len());
        // Grey is left out of each round.
        place % STALL_STYLE + view::COLOURS * (place / STALL_STYLE)
    }
}

fn titled(title: &str, otherwise: &str) -> String {
    let title = one_line(title);
    if title.is_empty() { otherwise.to_owned() } else { title }
}

fn drawn_ranks(all: usize) -> String {
    if all > RANKS { format!("Drawn: the first {RANKS} of {}.", count(all, "rank", "ranks")) } else { String::new() }
}

/// `3 values of the phases are negative or no numbers. They are left out.`
fn left_out(number: usize, of: &str, why: &str) -> Option<String> {
    let verb = if number == 1 { "is" } else { "are" };
    (number > 0).then(|| format!("{} of the {of} {verb} left out: {why}.", count(number, "value", "values")))
}

const NO_DURATION: &str = "negative, or not a number";

/// Differences of times may be a little below zero.
fn is_duration(value: f64) -> bool {
    value.is_finite() && value >= -1e-9
}

/// A bar for each rank, of its phases.
fn phases(of: &Phases, colours: &Colours, notes: &mut Vec<String>) -> Option<ChartSpec> {
    let values = |kind: usize| of.ranks.iter().map(move |(_, values)| values.get(kind).copied().unwrap_or(0.0));
    let bad = of.ranks.iter().flat_map(|(_, values)| values).filter(|value| !is_duration(**value)).count();
    notes.extend(left_out(bad, "phases", NO_DURATION));
    let stack = |(kind, name): (usize, &String)| {
        let bars = values(kind).take(RANKS).enumerate().filter(|(_, value)| is_duration(*value));
        let bars: Vec<[f64; 2]> = bars.map(|(rank, value)| [rank as f64, value.max(0.0)]).collect();
        let any = bars.iter().any(|[_, value]| *value > 0.0);
        any.then(|| Stack { label: one_line(name), style: colours.style(name), bars })
    };
    let stacks: Vec<Stack> = of.kinds.iter().take(KINDS).enumerate().filter_map(stack).collect();
    (!stacks.is_empty()).then(|| ChartSpec {
        title: titled(&of.title, "Phases of a step for each rank"),
        note: drawn_ranks(of.ranks.len()),
        x: Axis { title: "rank".to_owned(), quantity: Quantity::Count, scale: Scale::Steps },
        y: Axis { title: "time of one step".to_owned(), quantity: Quantity::Seconds, scale: Scale::FromZero },
        stacks,
        names: of.ranks.iter().take(RANKS).map(|(label, _)| one_line(label)).collect(),
        ..ChartSpec::default()
    })
}

/// A row for each rank, of its spans.
fn timeline(of: &record::Lanes, colours: &Colours, notes: &mut Vec<String>) -> Option<ChartSpec> {
    let listed = of.kinds.len();
    let mut used = vec![false; listed.min(KINDS) + usize::from(listed > KINDS)];
    let mut bad = 0;
    let mut row = |lane: &record::Lane| {
        let mut spans = Vec::with_capacity(lane.spans.len());
        for (begin, end, kind) in lane.spans.iter().copied() {
            if !begin.is_finite() || !end.is_finite() || end < begin || kind >= listed {
                bad += 1;
                continue;
            }
            let kind = kind.min(KINDS);
            used[kind] = true;
            spans.push(Span { begin, end, kind });
        }
        Lane { label: one_line(&lane.label), spans }
    };
    let mut rows: Vec<Lane> = of.lanes.iter().map(&mut row).collect();
    notes.extend(left_out(bad, "timeline", "the end is before the beginning, or the kind is not listed"));
    // Kinds that no span has are in no legend.
    let mut places = vec![0; used.len()];
    let mut kinds = Vec::new();
    for kind in (0..used.len()).filter(|kind| used[*kind]) {
        places[kind] = kinds.len();
        kinds.push(match of.kinds.get(kind).filter(|_| kind < KINDS) {
            Some(name) => SpanKind { label: one_line(name), style: colours.style(name), stall: name == STALL },
            None => SpanKind { label: "other kinds".to_owned(), style: colours.style(""), stall: false },
        });
    }
    rows.iter_mut().flat_map(|row| &mut row.spans).for_each(|span| span.kind = places[span.kind]);
    let title = if shifted(&mut rows) { "time since the first span" } else { "time" };
    (!kinds.is_empty()).then(|| ChartSpec {
        title: titled(&of.title, "Timeline of the ranks"),
        x: Axis { title: title.to_owned(), quantity: Quantity::Seconds, scale: Scale::Linear },
        lanes: Some(Lanes { kinds, rows }),
        ..ChartSpec::default()
    })
}

/// Counts time from the first span where spans begin so late, such as after 1970, that ticks would all look alike.
fn shifted(rows: &mut [Lane]) -> bool {
    const LATE: f64 = 100.0;
    let [first, last] = crate::chart::time_range(rows);
    let is_late = first.abs() > LATE * (last - first);
    if is_late {
        for span in rows.iter_mut().flat_map(|row| &mut row.spans) {
            span.begin -= first;
            span.end -= first;
        }
    }
    is_late
}

/// A row for each term.
fn waterfall(of: &record::Waterfall, notes: &mut Vec<String>) -> Option<ChartSpec> {
    let term = |(label, value): &(String, f64)| Term { label: one_line(label), value: *value };
    let mut terms: Vec<Term> = of.terms.iter().filter(|(_, value)| value.is_finite()).map(term).collect();
    notes.extend(left_out(of.terms.len() - terms.len(), "waterfall", "not a number"));
    if ![of.from.1, of.to.1].iter().all(|end| end.is_finite()) {
        notes.extend(left_out(1, "waterfall", "its first or last value is not a number, so it is not drawn"));
        return None;
    }
    let is_share = is_efficiency(of);
    let (quantity, title) = if is_share { (Quantity::Share, "efficiency") } else { (Quantity::Seconds, "time") };
    let missing = of.to.1 - of.from.1 - terms.iter().map(|term| term.value).sum::<f64>();
    let shown = if is_share { percent(missing.abs()) } else { seconds(missing.abs()) };
    let is_off = missing.abs() > MISSES * of.from.1.abs().max(of.to.1.abs());
    let missed = is_off.then(|| format!("The terms do not add up to the final value: {shown} is unexplained."));
    let without = of.without.iter().take(WITHOUT).map(|sentence| one_line(sentence));
    let note = without.chain(missed).collect::<Vec<_>>().join(" ");
    fold(&mut terms);
    Some(ChartSpec {
        title: titled(&of.title, "From the first value to the last"),
        note,
        x: Axis { title: title.to_owned(), quantity, scale: Scale::Linear },
        waterfall: Some(Waterfall { from: term(&of.from), terms, to: term(&of.to) }),
        ..ChartSpec::default()
    })
}

/// The smallest of many terms become one.
fn fold(terms: &mut Vec<Term>) {
    if terms.len() <= TERMS {
        return;
    }
    let mut sizes: Vec<f64> = terms.iter().map(|term| term.value.abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let (least, all) = (sizes[TERMS - 2], terms.len());
    let mut other = 0.0;
    let mut room = TERMS - 1;
    terms.retain(|term| {
        let stays = room > 0 && term.value.abs() >= least;
        room -= usize::from(stays);
        other += if stays { 0.0 } else { term.value };
        stays
    });
    terms.push(Term { label: format!("{} other terms", all - terms.len()), value: other });
}

/// Cells of who waits for whom.
fn blame(of: &Blame, notes: &mut Vec<String>) -> Option<ChartSpec> {
    let bad = of.seconds.iter().flatten().filter(|value| !is_duration(**value)).count();
    notes.extend(left_out(bad, "waits", NO_DURATION));
    let ranks: Vec<String> = of.ranks.iter().take(RANKS).map(|rank| one_line(rank)).collect();
    let value = |value: &f64| if is_duration(*value) { value.max(0.0) } else { f64::NAN };
    let row = |row: &Vec<f64>| row.iter().take(ranks.len()).map(value).collect();
    let values: Vec<Vec<f64>> = of.seconds.iter().take(ranks.len()).map(row).collect();
    let any = values.iter().flatten().any(|value| value.is_finite());
    let quantity = Quantity::Seconds;
    any.then(|| ChartSpec {
        title: titled(&of.title, "How long ranks wait for others"),
        note: drawn_ranks(of.ranks.len()),
        x: Axis { title: "rank that is waited for".to_owned(), ..Axis::default() },
        y: Axis { title: "rank that waits".to_owned(), quantity, ..Axis::default() },
        matrix: Some(Matrix { rows: ranks.clone(), columns: ranks, values, quantity, ..Matrix::default() }),
        ..ChartSpec::default()
    })
}
