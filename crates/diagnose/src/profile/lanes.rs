//! A rank's spans by what they are, as unions of time, and its steps among those that all ranks have.

use std::collections::HashMap;

use trace::timeline::{Kind, RankTimeline, Span, Timeline};

use super::Settings;
use super::intervals::Intervals;

/// With fewer common steps, the first is not left out as warm-up.
const FEWEST_WITH_WARM_UP: usize = 4;

/// Beginning and end of a step on one rank, in nanoseconds.
pub(super) type Window = [i64; 2];

/// One rank. Phases are disjoint: time that the step's thread waits for communication belongs to no phase.
pub(super) struct Lanes<'t> {
    pub(super) timeline: &'t RankTimeline,
    /// The common steps, in ascending order of their numbers.
    pub(super) windows: Vec<Window>,
    pub(super) input: Intervals,
    pub(super) forward: Intervals,
    pub(super) backward: Intervals,
    pub(super) optimizer: Intervals,
    /// The step's thread is blocked on communication: waits, and collectives on its own queue.
    pub(super) waits: Intervals,
    /// Communication on any queue.
    pub(super) comm: Intervals,
    /// Communication between two ranks.
    pub(super) point_to_point: Intervals,
    /// Kernels, and copies and fills of device memory: the device is busy. Empty on a rank without a device.
    pub(super) kernels: Intervals,
    /// Kernels where there are any, else the phases.
    pub(super) compute: Intervals,
    /// Time lost to communication: with kernels, communication and waits without a kernel; else the waits.
    pub(super) blocked: Intervals,
}

/// All ranks on their common steps.
pub(super) struct CommonSteps<'t> {
    pub(super) numbers: Vec<u32>,
    pub(super) warm_up: Option<u32>,
    pub(super) ranks: Vec<Lanes<'t>>,
    pub(super) notes: Vec<String>,
}

impl Lanes<'_> {
    /// Nanoseconds of this in each step.
    pub(super) fn per_step(&self, of: &Intervals) -> Vec<f64> {
        self.windows.iter().map(|[begin, end]| of.within(*begin, *end) as f64 * 1e-9).collect()
    }

    /// The place of the step in which a time lies.
    pub(super) fn step_at(&self, time: i64) -> Option<usize> {
        let after = self.windows.partition_point(|[begin, _]| *begin <= time);
        let place = after.checked_sub(1)?;
        (time < self.windows[place][1]).then_some(place)
    }

    /// Whether it has kernels.
    pub(super) fn has_device(&self) -> bool {
        !self.kernels.is_empty()
    }

    /// Whether the trace shows where it waits, if it communicates at all.
    pub(super) fn shows_waits(&self) -> bool {
        self.timeline.endless == 0 && (self.comm.is_empty() || self.has_device() || !self.waits.is_empty())
    }

    /// The host's time of each step before its first forward pass: neither input, nor optimizer, nor a wait.
    pub(super) fn before_forward(&self) -> Vec<f64> {
        let before = |[begin, end]: &Window| [*begin, self.forward.first_from(*begin).unwrap_or(*begin).min(*end)];
        let before = Intervals::union_of(self.windows.iter().map(before).collect());
        self.per_step(&before.minus(&self.waits).minus(&self.input).minus(&self.optimizer).minus(&self.backward))
    }
}

/// Whether an operation is a transfer between two ranks.
pub(super) fn is_point_to_point(operation: &str) -> bool {
    // A kernel `SendRecv` may be of any collective: they run as sends and receives.
    matches!(operation, "send" | "recv" | "send_recv" | "isend" | "irecv" | "batch_isend_irecv")
}

/// Sorts all ranks' spans and finds their common steps.
pub(super) fn prepare<'t>(timeline: &'t Timeline, settings: &Settings) -> CommonSteps<'t> {
    let mut notes = timeline.notes.clone();
    let steps: Vec<HashMap<u32, Window>> = timeline.ranks.iter().map(|rank| steps_of(rank, &mut notes)).collect();
    let mut common: Vec<u32> = steps.first().map_or(Vec::new(), |first| first.keys().copied().collect());
    common.retain(|number| steps.iter().all(|of_rank| of_rank.contains_key(number)));
    common.sort_unstable();
    if steps.iter().any(|of_rank| of_rank.len() != common.len()) {
        let counts: Vec<usize> = steps.iter().map(HashMap::len).collect();
        let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
        notes.push(format!(
            "ranks have different steps ({least} to {most}): only the {} that all have are used",
            common.len()
        ));
    }
    let warm_up = (common.len() >= FEWEST_WITH_WARM_UP).then(|| common.remove(0));
    if let Some(range) = &settings.steps {
        common.retain(|number| range.contains(number));
    }
    let lanes = |(rank, steps): (&'t RankTimeline, &HashMap<u32, Window>)| {
        let windows = common.iter().map(|number| steps[number]).collect();
        lanes_of(rank, windows, timeline)
    };
    let ranks: Vec<Lanes> = timeline.ranks.iter().zip(&steps).map(lanes).collect();
    notes.extend(incomplete(timeline, &ranks));
    CommonSteps { numbers: common, warm_up, ranks, notes }
}

/// All ranks on one stretch that holds all of their spans, for what needs no step.
pub(super) fn whole(timeline: &Timeline) -> CommonSteps<'_> {
    CommonSteps {
        numbers: vec![0],
        warm_up: None,
        ranks: timeline.ranks.iter().map(|rank| whole_rank(rank, timeline)).collect(),
        notes: Vec::new(),
    }
}

fn whole_rank<'t>(rank: &'t RankTimeline, timeline: &Timeline) -> Lanes<'t> {
    let ends = |of: fn(&Span) -> i64| rank.spans.iter().map(of);
    let (begin, end) = (ends(|span| span.begin_ns).min(), ends(|span| span.end_ns).max());
    lanes_of(rank, vec![[begin.unwrap_or(0), end.unwrap_or(0)]], timeline)
}

/// The steps of a rank by number. Of several spans of one number, the one on the lowest queue counts.
fn steps_of(rank: &RankTimeline, notes: &mut Vec<String>) -> HashMap<u32, Window> {
    let mut found: HashMap<u32, &Span> = HashMap::new();
    for span in rank.spans.iter().filter(|span| span.kind == Kind::Step && span.end_ns > span.begin_ns) {
        let kept = found.entry(span.number).or_insert(span);
        if span.queue < kept.queue {
            *kept = span;
        }
    }
    let mut ordered: Vec<&Span> = found.values().copied().collect();
    ordered.sort_unstable_by_key(|span| span.number);
    let mut end = i64::MIN;
    let mut steps = HashMap::new();
    let mut overlapping = 0;
    for span in ordered {
        if span.begin_ns < end {
            overlapping += 1;
            continue;
        }
        end = span.end_ns;
        steps.insert(span.number, [span.begin_ns, span.end_ns]);
    }
    if overlapping > 0 {
        notes.push(format!(
            "rank {}: {overlapping} steps begin before the step before them ends, so they are left out",
            rank.rank
        ));
    }
    steps
}

/// What makes the spans of a timeline less than complete.
fn incomplete(timeline: &Timeline, ranks: &[Lanes]) -> Vec<String> {
    let mut notes = Vec::new();
    let lost: u64 = timeline.ranks.iter().map(|rank| rank.lost).sum();
    if lost > 0 {
        notes.push(format!("{lost} spans are missing because the trace had no room for them: times are too small"));
    }
    let spans = || timeline.ranks.iter().flat_map(|rank| &rank.spans);
    let backwards = spans().filter(|span| span.end_ns < span.begin_ns).count();
    if backwards > 0 {
        notes.push(format!("{backwards} spans end before they begin: a clock jumps, and they are left out"));
    }
    if let Some(world) = timeline.world.filter(|world| *world as usize > timeline.ranks.len()) {
        notes.push(format!(
            "{} of {world} ranks are present: the others are not judged, and waits may be longer than shown",
            timeline.ranks.len()
        ));
    }
    let silent = ranks.iter().filter(|lanes| !lanes.shows_waits()).count();
    if silent > 0 {
        let (ranks, their) = if silent == 1 { ("rank communicates", "its") } else { ("ranks communicate", "their") };
        notes.push(format!("{silent} {ranks}, and the trace does not show when {their} steps wait for it"));
    }
    notes
}

/// The stretches of a rank by what they are, before they are made disjoint.
#[derive(Default)]
struct Stretches {
    input: Vec<Window>,
    forward: Vec<Window>,
    backward: Vec<Window>,
    optimizer: Vec<Window>,
    waits: Vec<Window>,
    comm: Vec<Window>,
    point_to_point: Vec<Window>,
    kernels: Vec<Window>,
}

fn lanes_of<'t>(rank: &'t RankTimeline, windows: Vec<Window>, timeline: &Timeline) -> Lanes<'t> {
    let mut found = Stretches::default();
    for span in &rank.spans {
        let stretch = [span.begin_ns, span.end_ns];
        match span.kind {
            Kind::Input => found.input.push(stretch),
            Kind::Forward => found.forward.push(stretch),
            Kind::Backward => found.backward.push(stretch),
            Kind::Optimizer => found.optimizer.push(stretch),
            Kind::Wait => found.waits.push(stretch),
            Kind::Kernel | Kind::Copy => found.kernels.push(stretch),
            Kind::Collective => {
                found.comm.push(stretch);
                if span.queue == 0 {
                    found.waits.push(stretch);
                }
                let operation = rank.call(span).map_or(span.name, |call| call.operation);
                if is_point_to_point(timeline.names.get(operation)) {
                    found.point_to_point.push(stretch);
                }
            }
            Kind::Step | Kind::Block | Kind::Host => {}
        }
    }
    disjoint(rank, windows, found)
}

fn disjoint(rank: &RankTimeline, windows: Vec<Window>, found: Stretches) -> Lanes<'_> {
    let waits = Intervals::union_of(found.waits);
    let kernels = Intervals::union_of(found.kernels);
    let comm = Intervals::union_of(found.comm);
    let mut taken = waits.clone();
    let mut phase = |stretches: Vec<Window>| {
        let own = Intervals::union_of(stretches).minus(&taken);
        taken = taken.or(&own);
        own
    };
    let (input, forward) = (phase(found.input), phase(found.forward));
    let (backward, optimizer) = (phase(found.backward), phase(found.optimizer));
    let device = !kernels.is_empty();
    let compute = if device { kernels.clone() } else { forward.or(&backward).or(&optimizer) };
    let blocked = if device { comm.or(&waits).minus(&kernels) } else { waits.clone() };
    let point_to_point = Intervals::union_of(found.point_to_point);
    Lanes {
        timeline: rank,
        windows,
        input,
        forward,
        backward,
        optimizer,
        waits,
        comm,
        point_to_point,
        kernels,
        compute,
        blocked,
    }
}
