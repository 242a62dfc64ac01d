//! The timeline of the last steps: spans of each rank, and what no span covers by its name.

use record::{Lane, Lanes};
use trace::timeline::Kind;

use super::Explanation;

/// What the step's thread does where no span is: the name of that part of a step in the other charts.
const HOST: &str = "host";
/// Spans of a rank that it draws at most.
const DRAWN_SPANS: usize = 20_000;
/// Steps that the report's timeline draws.
const DRAWN_STEPS: usize = 3;
/// A gap that is a smaller share of what is drawn cannot be seen.
const LEAST_GAP: f64 = 1e-3;

/// The parts of steps that no span covers, each at least so long.
fn gaps(steps: &[[f64; 2]], spans: &[(f64, f64, usize)], least: f64) -> Vec<[f64; 2]> {
    let mut covered: Vec<[f64; 2]> = spans.iter().map(|(from, to, _)| [*from, *to]).collect();
    covered.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let mut gaps = Vec::new();
    for [begin, end] in steps {
        let mut at = *begin;
        for [from, to] in covered.iter().filter(|[from, to]| to > begin && from < end) {
            if from - at >= least {
                gaps.push([at, *from]);
            }
            at = at.max(*to);
        }
        if end - at >= least {
            gaps.push([at, *end]);
        }
    }
    gaps
}

/// The last steps that all ranks have, drawn span by span.
pub(super) fn lanes(one: &Explanation) -> Option<Lanes> {
    const KINDS: [Kind; 8] = [
        Kind::Input,
        Kind::Forward,
        Kind::Backward,
        Kind::Optimizer,
        Kind::Wait,
        Kind::Kernel,
        Kind::Copy,
        Kind::Collective,
    ];
    let numbers = &one.analysis.steps.numbers;
    let from = *numbers.get(numbers.len().checked_sub(1)?.saturating_sub(DRAWN_STEPS - 1))?;
    let is_drawn = |span: &&trace::timeline::Span| {
        span.kind == Kind::Step && span.number >= from && numbers.contains(&span.number)
    };
    let steps: Vec<_> =
        one.timeline.ranks.iter().map(|rank| rank.spans.iter().filter(is_drawn).collect::<Vec<_>>()).collect();
    let begin = steps.iter().flatten().map(|span| span.begin_ns).min()?;
    let end = steps.iter().flatten().map(|span| span.end_ns).max()?;
    let lane = |rank: &trace::timeline::RankTimeline| {
        let within = rank.spans.iter().filter(|span| span.end_ns > begin && span.begin_ns < end);
        let drawn = within.filter_map(|span| {
            let kind = KINDS.iter().position(|kind| *kind == span.kind)?;
            // Our collectives overlap the waits that they cause, and would hide them.
            if span.kind == Kind::Collective && one.analysis.idle.is_none() {
                return None;
            }
            let seconds = |ns: i64| (ns.clamp(begin, end) - begin) as f64 / 1e9;
            Some((seconds(span.begin_ns), seconds(span.end_ns), kind))
        });
        drawn.take(DRAWN_SPANS).collect::<Vec<_>>()
    };
    let mut kinds: Vec<String> = KINDS.iter().map(|kind| kind.name().to_owned()).collect();
    kinds.push(HOST.to_owned());
    let host = |rank: &trace::timeline::RankTimeline, steps: &[&trace::timeline::Span]| {
        let mut spans = lane(rank);
        // On a device, what no kernel fills is idle time of the device, and not the work of the host.
        if one.analysis.idle.is_none() {
            let seconds = |ns: i64| (ns.clamp(begin, end) - begin) as f64 / 1e9;
            let steps: Vec<[f64; 2]> = steps.iter().map(|step| [step.begin_ns, step.end_ns].map(seconds)).collect();
            let least = LEAST_GAP * (end - begin) as f64 / 1e9;
            spans.extend(gaps(&steps, &spans, least).into_iter().map(|[from, to]| (from, to, KINDS.len())));
        }
        Lane { label: format!("rank {}", rank.rank), spans }
    };
    let lanes = one.timeline.ranks.iter().zip(&steps).map(|(rank, steps)| host(rank, steps)).collect();
    let title = format!("The last {} steps of all ranks", numbers.len().min(DRAWN_STEPS));
    Some(Lanes { title, kinds, lanes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_span_covers_is_a_gap() {
        let spans = [(0.0, 2.0, 0), (1.0, 3.0, 1), (5.0, 8.0, 0), (12.0, 13.0, 0)];
        assert_eq!(gaps(&[[0.0, 10.0]], &spans, 0.1), [[3.0, 5.0], [8.0, 10.0]]);
        assert_eq!(gaps(&[[0.0, 10.0]], &spans, 2.5), [[0.0; 2]; 0], "too short to be seen");
        assert_eq!(gaps(&[[10.0, 11.0], [11.0, 14.0]], &spans, 0.1), [[10.0, 11.0], [11.0, 12.0], [13.0, 14.0]]);
    }
}
