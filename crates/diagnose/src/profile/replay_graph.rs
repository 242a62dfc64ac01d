//! The recorded dependencies of steps, rank by rank: own work, collectives that a rank enters, and waits that end when a
//! collective does.
//!
//! Steps that follow each other directly are one chain, because a rank that ends a step late begins the next one late.

use std::collections::HashMap;

use super::instances::{Clocks, Instance, Instances};
use super::intervals::Intervals;
use super::lanes::{CommonSteps, Lanes};

/// Parts of a rank's own work: input, forward, backward, optimizer, and the rest. With kernels: input, kernels, nothing twice, and
/// the rest.
pub(super) const PARTS: usize = 5;

/// Times within this many nanoseconds are one event, in long steps.
const TOGETHER_NS: i64 = 100_000;
/// In short steps: within this share of a step.
const TOGETHER_SHARE: f64 = 0.01;
/// Steps follow each other directly if the time between them is at most this share of a step.
const LARGEST_GAP: f64 = 0.5;
/// Clocks with an error above this share of a step are aligned by the ends of collectives instead.
const LARGEST_CLOCK_ERROR: f64 = 1e-3;

/// Consecutive steps with the collectives in them.
pub(super) struct Chain {
    /// Places of the first and of the last step.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) ranks: Vec<RankGraph>,
    pub(super) calls: Vec<ReplayedCall>,
}

/// A collective of a chain.
pub(super) struct ReplayedCall {
    /// Index of the collective among all instances.
    pub(super) instance: usize,
    pub(super) members: usize,
    /// Nanoseconds.
    pub(super) transfer: f64,
}

/// What one rank does in a chain.
pub(super) struct RankGraph {
    /// When its first step begins, in nanoseconds of a clock that all ranks of the chain share.
    pub(super) start: f64,
    pub(super) points: Vec<ReplayPoint>,
    /// Nanoseconds of waits that no collective of the chain explains.
    pub(super) unexplained: i64,
}

/// Something that happens to a rank, after work of its own.
pub(super) struct ReplayPoint {
    /// Own work since the point before, by part, in nanoseconds: nothing while the rank waits.
    pub(super) work: [f64; PARTS],
    /// The step of the work; None between steps.
    pub(super) step: Option<usize>,
    /// Which part of the step's program the work is in, see [`number_sections`].
    pub(super) section: usize,
    pub(super) event: ReplayEvent,
}

pub(super) enum ReplayEvent {
    StepBegins,
    StepEnds,
    Enters(CallEntry),
    /// Goes on after these collectives.
    Joins(Vec<usize>),
    WaitBegins,
    WaitEnds(Wait),
}

/// A rank enters a collective.
pub(super) struct CallEntry {
    pub(super) call: usize,
    /// The collective before it on its queue, and the time between the two.
    pub(super) previous: Option<(usize, f64)>,
    /// The collective begins right after the one before on its queue, so that it may have been queued earlier.
    pub(super) is_queued: bool,
    /// The rank's thread waits: nanoseconds since the beginning of the wait.
    pub(super) in_wait: Option<f64>,
}

/// A wait of a rank.
pub(super) struct Wait {
    /// Nanoseconds.
    pub(super) length: f64,
    /// Collectives that end in it, and how long after the last of them it goes on.
    pub(super) ends: Vec<usize>,
    pub(super) rest: f64,
    /// Collectives that have ended before it.
    pub(super) before: Vec<usize>,
    /// A collective that is under way when it ends, and how long before the end of that.
    pub(super) under_way: Option<(usize, f64)>,
}

/// One rank's part of a call.
#[derive(Clone, Copy)]
struct CallPart {
    call: usize,
    queue: u32,
    begin: i64,
    end: i64,
    transfer: i64,
}

/// All chains of a timeline, or why they cannot be made.
pub(super) fn chains(prepared: &CommonSteps, instances: &Instances, step_s: f64) -> Result<Vec<Chain>, String> {
    let step_ns = step_s * 1e9;
    let together = TOGETHER_NS.min((TOGETHER_SHARE * step_ns) as i64);
    let mut by_step: Vec<Vec<usize>> = vec![Vec::new(); prepared.numbers.len()];
    for (place, instance) in instances.all.iter().enumerate().filter(|(_, instance)| instance.tells_waits()) {
        by_step[instance.step].push(place);
    }
    let of_one = |[first, last]: [usize; 2]| {
        let places = by_step[first..=last].concat();
        chain(prepared, instances, ([first, last], &places), (step_ns, together))
    };
    stretches(prepared, step_ns).into_iter().map(of_one).collect()
}

/// Sections of a step at most.
const MOST_SECTIONS: usize = 16;

/// Numbers the sections of each step: those between collectives that all ranks enter from their own work in every step. Gives how
/// many there are. A delay is somewhere in a phase, and sections say where. One, where steps have different numbers of calls.
pub(super) fn number_sections(chains: &mut [Chain]) -> usize {
    let graphs = || chains.iter().flat_map(|chain| &chain.ranks);
    let steps: Vec<Vec<bool>> = graphs().flat_map(|graph| free_entries(&graph.points)).collect();
    let calls = steps.first().map_or(0, Vec::len);
    if steps.iter().any(|step| step.len() != calls) {
        return 1;
    }
    let is_shared: Vec<bool> = (0..calls).map(|call| steps.iter().all(|step| step[call])).collect();
    let all = 1 + is_shared.iter().filter(|shared| **shared).count();
    let count = all.min(MOST_SECTIONS);
    for point in chains.iter_mut().flat_map(|chain| &mut chain.ranks).map(|graph| &mut graph.points) {
        let (mut call, mut section) = (0, 0);
        for point in point {
            point.section = section * count / all;
            match &point.event {
                ReplayEvent::StepBegins => (call, section) = (0, 0),
                ReplayEvent::Enters(_) => {
                    section += usize::from(is_shared[call]);
                    call += 1;
                }
                _ => {}
            }
        }
    }
    count
}

/// Which collectives a rank enters from its own work, with a free queue, for each step.
fn free_entries(points: &[ReplayPoint]) -> Vec<Vec<bool>> {
    let mut steps = Vec::new();
    let mut step = Vec::new();
    for point in points {
        match &point.event {
            ReplayEvent::Enters(entry) => step.push(!entry.is_queued && entry.in_wait.is_none()),
            ReplayEvent::StepEnds => steps.push(std::mem::take(&mut step)),
            _ => {}
        }
    }
    steps
}

/// First and last step of each chain.
fn stretches(prepared: &CommonSteps, step_ns: f64) -> Vec<[usize; 2]> {
    let follows = |place: usize| {
        let gap = |lanes: &Lanes| lanes.windows[place][0] - lanes.windows[place - 1][1];
        let is_next = prepared.numbers[place] == prepared.numbers[place - 1] + 1;
        is_next && prepared.ranks.iter().all(|lanes| (gap(lanes) as f64) <= LARGEST_GAP * step_ns)
    };
    let mut found: Vec<[usize; 2]> = Vec::new();
    for place in 0..prepared.numbers.len() {
        match found.last_mut() {
            Some([_, last]) if follows(place) => *last = place,
            _ => found.push([place, place]),
        }
    }
    found
}

fn chain(
    prepared: &CommonSteps,
    instances: &Instances,
    ([first, last], places): ([usize; 2], &[usize]),
    (step_ns, together): (f64, i64),
) -> Result<Chain, String> {
    let within = |instance: &Instance| {
        instance.members.iter().all(|member| {
            let step = prepared.ranks[member.rank].step_at(member.begin);
            step.is_some_and(|step| (first..=last).contains(&step))
        })
    };
    let mut calls = Vec::new();
    let mut parts: Vec<Vec<CallPart>> = prepared.ranks.iter().map(|_| Vec::new()).collect();
    let all = places.iter().map(|place| (*place, &instances.all[*place]));
    for (place, instance) in all.filter(|(_, instance)| within(instance)) {
        let transfer = instance.transfer();
        for member in &instance.members {
            let (call, queue) = (calls.len(), member.queue);
            parts[member.rank].push(CallPart { call, queue, begin: member.begin, end: member.end, transfer });
        }
        calls.push(ReplayedCall { instance: place, members: instance.members.len(), transfer: transfer as f64 });
    }
    let is_exact = |clocks: &Clocks| {
        clocks.aligned && clocks.error_s.is_some_and(|error| error * 1e9 <= LARGEST_CLOCK_ERROR * step_ns)
    };
    let offsets = if is_exact(&instances.clocks) { vec![0; parts.len()] } else { offsets(&parts, calls.len())? };
    let base = prepared.ranks.first().map_or(0, |lanes| lanes.windows[first][0]);
    let graph = |(rank, lanes): (usize, &Lanes)| {
        parts[rank].sort_unstable_by_key(|part| (part.begin, part.end));
        let start = (lanes.windows[first][0] - base + offsets[rank] - offsets[0]) as f64;
        let mut sweep = Sweep::new(lanes, &parts[rank], together);
        sweep.all([first, last]);
        RankGraph { start, points: sweep.points, unexplained: sweep.unexplained }
    };
    let ranks = prepared.ranks.iter().enumerate().map(graph).collect();
    Ok(Chain { first, last, ranks, calls })
}

/// What to add to each rank's clock so that all leave a collective together: medians over the collectives that join ranks.
fn offsets(parts: &[Vec<CallPart>], calls: usize) -> Result<Vec<i64>, String> {
    let mut known: Vec<Option<i64>> = vec![None; parts.len()];
    let mut ends: Vec<Option<i64>> = vec![None; calls];
    let mut next = Some((0, 0));
    while let Some((rank, offset)) = next {
        known[rank] = Some(offset);
        for part in &parts[rank] {
            ends[part.call].get_or_insert(part.end + offset);
        }
        next = (0..parts.len()).filter(|rank| known[*rank].is_none()).find_map(|rank| {
            let apart: Vec<f64> =
                parts[rank].iter().filter_map(|part| Some((ends[part.call]? - part.end) as f64)).collect();
            (!apart.is_empty()).then(|| (rank, stats::median(&apart) as i64))
        });
    }
    let joined: Option<Vec<i64>> = known.into_iter().collect();
    joined.ok_or_else(|| "clocks are not aligned, and no collective joins all ranks".to_owned())
}

/// Goes through the events of one rank in their order.
struct Sweep<'s> {
    lanes: &'s Lanes<'s>,
    parts: &'s [CallPart],
    kinds: Vec<(usize, Intervals)>,
    together: i64,
    points: Vec<ReplayPoint>,
    unexplained: i64,
    at: i64,
    step: Option<usize>,
    waits_since: Option<i64>,
    /// Collectives that were entered, and whose end nothing waited for yet.
    open: Vec<CallPart>,
    /// The last collective of each queue.
    last: HashMap<u32, CallPart>,
}

/// What is known of an event before it has its place.
#[derive(Clone, Copy)]
enum EventMark {
    WaitEnds,
    Joins,
    StepEnds,
    StepBegins(usize),
    Enters(CallPart),
    WaitBegins,
}

impl EventMark {
    /// The order of what happens at one time.
    fn order(self) -> u8 {
        match self {
            Self::WaitEnds => 0,
            Self::Joins => 1,
            Self::StepEnds => 2,
            Self::StepBegins(_) => 3,
            Self::Enters(_) => 4,
            Self::WaitBegins => 5,
        }
    }
}

impl<'s> Sweep<'s> {
    fn new(lanes: &'s Lanes<'s>, parts: &'s [CallPart], together: i64) -> Self {
        let kinds = if lanes.has_device() {
            vec![(0, lanes.input.minus(&lanes.kernels).minus(&lanes.blocked)), (1, lanes.kernels.clone())]
        } else {
            [&lanes.input, &lanes.forward, &lanes.backward, &lanes.optimizer]
                .map(Clone::clone)
                .into_iter()
                .enumerate()
                .collect()
        };
        Self {
            lanes,
            parts,
            kinds,
            together,
            points: Vec::new(),
            unexplained: 0,
            at: 0,
            step: None,
            waits_since: None,
            open: Vec::new(),
            last: HashMap::new(),
        }
    }

    fn all(&mut self, [first, last]: [usize; 2]) {
        let windows = &self.lanes.windows;
        let [begin, end] = [windows[first][0], windows[last][1]];
        let mut marks: Vec<(i64, EventMark)> = Vec::new();
        for (step, [begin, end]) in windows.iter().enumerate().take(last + 1).skip(first) {
            marks.extend([
                (*begin, EventMark::StepBegins(step)),
                (*end, EventMark::Joins),
                (*end, EventMark::StepEnds),
            ]);
            // All gradients are there before weights change.
            let update = self.lanes.optimizer.first_from(*begin).filter(|update| update < end);
            marks.extend(update.map(|update| (update, EventMark::Joins)));
        }
        for [from, until] in self.lanes.blocked.parts_within(begin, end) {
            marks.extend([(from, EventMark::WaitBegins), (until, EventMark::WaitEnds)]);
        }
        marks.extend(self.parts.iter().map(|part| (part.begin, EventMark::Enters(*part))));
        marks.sort_by_key(|(at, mark)| (*at, mark.order()));
        self.at = begin;
        for (at, mark) in marks {
            self.add(at, mark);
        }
    }

    fn add(&mut self, at: i64, mark: EventMark) {
        let work = if self.waits_since.is_some() { [0.0; PARTS] } else { self.work(at) };
        self.at = at;
        let step = self.step;
        let event = match mark {
            EventMark::StepBegins(place) => {
                self.step = Some(place);
                ReplayEvent::StepBegins
            }
            EventMark::StepEnds => {
                self.step = None;
                ReplayEvent::StepEnds
            }
            EventMark::Joins if self.waits_since.is_some() => return,
            EventMark::Joins => ReplayEvent::Joins(self.take_ended(at).iter().map(|part| part.call).collect()),
            EventMark::WaitBegins => {
                self.waits_since = Some(at);
                ReplayEvent::WaitBegins
            }
            EventMark::WaitEnds => {
                let from = self.waits_since.take().unwrap_or(at);
                ReplayEvent::WaitEnds(self.wait([from, at]))
            }
            EventMark::Enters(part) => ReplayEvent::Enters(self.entry(part)),
        };
        self.points.push(ReplayPoint { work, step, section: 0, event });
    }

    /// Own work up to a time, by part.
    fn work(&self, until: i64) -> [f64; PARTS] {
        let mut found = [0.0; PARTS];
        let mut rest = until - self.at;
        for (part, of) in &self.kinds {
            let time = of.within(self.at, until);
            found[*part] = time as f64;
            rest -= time;
        }
        found[PARTS - 1] = rest as f64;
        found
    }

    /// Entered collectives that end up to a time. They are no longer open.
    fn take_ended(&mut self, until: i64) -> Vec<CallPart> {
        let (ended, open) = self.open.iter().partition(|part| part.end <= until);
        self.open = open;
        ended
    }

    fn entry(&mut self, part: CallPart) -> CallEntry {
        let previous = self.last.insert(part.queue, part).filter(|previous| previous.end <= part.begin);
        // What ended before a wait began is not why a collective begins in it.
        let previous = previous.filter(|previous| self.waits_since.is_none_or(|since| previous.end > since));
        self.open.push(part);
        let in_wait = self.waits_since.map(|since| (part.begin - since) as f64);
        let gap = previous.map(|previous| part.begin - previous.end);
        CallEntry {
            call: part.call,
            is_queued: in_wait.is_none() && gap.is_some_and(|gap| gap <= self.together),
            previous: previous.zip(gap).map(|(previous, gap)| (previous.call, gap as f64)),
            in_wait,
        }
    }

    fn wait(&mut self, [from, until]: [i64; 2]) -> Wait {
        let (ends, before): (Vec<CallPart>, Vec<CallPart>) =
            self.take_ended(until + self.together).into_iter().partition(|part| part.end > from);
        let last = ends.iter().map(|part| part.end).max();
        let next = self.open.iter().min_by_key(|part| part.end);
        // A device between two kernels does not wait for the transfer that goes on.
        let moves = |part: &&CallPart| !self.lanes.has_device() && until >= part.end - part.transfer;
        let under_way = next.filter(moves).map(|part| (part.call, (part.end - until) as f64));
        let rest = last.map_or(0, |last| until - last);
        self.unexplained += match last {
            Some(_) => rest.max(0),
            None if next.is_none() => until - from,
            None => 0,
        };
        Wait {
            length: (until - from) as f64,
            ends: ends.iter().map(|part| part.call).collect(),
            rest: rest as f64,
            before: before.iter().map(|part| part.call).collect(),
            under_way: under_way.filter(|_| last.is_none()),
        }
    }
}
