//! Who does what when: the order of a stage's passes, and of what crosses between stages.
//!
//! Orders are those of the literature ([`Schedule`]). Where transfers stand follows from playing all stages' orders
//! against each other with a forward pass of one unit and a backward pass of two: every pass and every transfer gets a
//! time, and every rank lists its own in order of time. Transfers may block both ends: an order that all ranks share has
//! no cycle, so none can wait for ever.

use std::collections::HashMap;

use crate::recipe::Schedule;

/// One pass of one micro-batch through one chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pass {
    /// Forward or backward.
    pub backward: bool,
    /// Which of the stage's chunks.
    pub chunk: usize,
    /// Which micro-batch.
    pub micro: usize,
}

/// Data that crosses from one stage to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transfer {
    /// Joins stage `link` and the next (the last: the last and the first).
    pub link: usize,
    /// Up with activations, or down with their gradients.
    pub up: bool,
    /// Which micro-batch.
    pub micro: usize,
    /// The sender's chunk.
    pub from_chunk: usize,
    /// The receiver's chunk.
    pub to_chunk: usize,
}

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Compute.
    Pass(Pass),
    /// Send.
    Send(Transfer),
    /// Receive.
    Receive(Transfer),
}

/// Stages, chunks of each, and micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dimensions {
    pub(crate) stages: usize,
    pub(crate) chunks: usize,
    pub(crate) micros: usize,
}

/// The passes of a stage in their order.
pub(crate) fn order(schedule: Schedule, of: Dimensions, stage: usize) -> Vec<Pass> {
    match schedule {
        Schedule::GPipe => all_then_all(of),
        Schedule::OneForwardOneBackward | Schedule::Interleaved => {
            let total = of.micros * of.chunks;
            let warm_up = if of.chunks == 1 {
                of.stages - stage - 1
            } else if of.micros == of.stages {
                total
            } else {
                (of.stages - stage - 1) * 2 + (of.chunks - 1) * of.stages
            };
            let warm_up = warm_up.min(total);
            let mut passes: Vec<Pass> = (0..warm_up).map(|count| numbered(of, count, false)).collect();
            for count in warm_up..total {
                passes.push(numbered(of, count, false));
                passes.push(numbered(of, count - warm_up, true));
            }
            passes.extend((total - warm_up..total).map(|count| numbered(of, count, true)));
            passes
        }
    }
}

fn all_then_all(of: Dimensions) -> Vec<Pass> {
    let passes = |backward| (0..of.micros * of.chunks).map(move |count| numbered_by_chunk(of, count, backward));
    passes(false).chain(passes(true)).collect()
}

/// All micro-batches through one chunk, then through the next.
fn numbered_by_chunk(of: Dimensions, count: usize, backward: bool) -> Pass {
    let chunk = count / of.micros;
    let chunk = if backward { of.chunks - 1 - chunk } else { chunk };
    Pass { backward, chunk, micro: count % of.micros }
}

/// `stages` micro-batches through each chunk in turn, then the next `stages`.
fn numbered(of: Dimensions, count: usize, backward: bool) -> Pass {
    let group = of.stages * of.chunks;
    let within = count % group;
    let chunk = within / of.stages;
    let chunk = if backward { of.chunks - 1 - chunk } else { chunk };
    if of.chunks == 1 {
        return Pass { backward, chunk: 0, micro: count };
    }
    Pass { backward, chunk, micro: count / group * of.stages + within % of.stages }
}

/// A position among all chunks of all stages, in model order.
fn place(of: Dimensions, stage: usize, chunk: usize) -> usize {
    chunk * of.stages + stage
}

/// When each pass of each stage begins and ends. None when the orders wait for each other in a cycle.
fn play(of: Dimensions, orders: &[Vec<Pass>]) -> Option<Vec<Vec<(u64, u64)>>> {
    let last = of.stages * of.chunks - 1;
    let mut ends: HashMap<(bool, usize, usize), u64> = HashMap::new();
    let mut times: Vec<Vec<(u64, u64)>> = vec![Vec::new(); of.stages];
    loop {
        let mut moved = false;
        for stage in 0..of.stages {
            while let Some(pass) = orders[stage].get(times[stage].len()) {
                let at = place(of, stage, pass.chunk);
                let needs = match (pass.backward, at) {
                    (false, 0) => None,
                    (false, at) => Some((false, at - 1, pass.micro)),
                    (true, at) if at == last => Some((false, at, pass.micro)),
                    (true, at) => Some((true, at + 1, pass.micro)),
                };
                let free = times[stage].last().map_or(0, |time| time.1);
                let ready = match needs {
                    None => Some(0),
                    Some(needs) => ends.get(&needs).copied(),
                };
                let Some(ready) = ready else { break };
                let begin = free.max(ready);
                let end = begin + if pass.backward { 2 } else { 1 };
                times[stage].push((begin, end));
                ends.insert((pass.backward, at, pass.micro), end);
                moved = true;
            }
        }
        if orders.iter().zip(&times).all(|(order, times)| order.len() == times.len()) {
            return Some(times);
        }
        if !moved {
            return None;
        }
    }
}

/// Whether the orders of all stages fit together.
pub(crate) fn fits(schedule: Schedule, of: Dimensions) -> bool {
    let orders: Vec<Vec<Pass>> = (0..of.stages).map(|stage| order(schedule, of, stage)).collect();
    of.stages == 1 || play(of, &orders).is_some()
}

/// Everything that `stage` does, in order. None when the schedule does not fit these numbers.
pub(crate) fn events(schedule: Schedule, of: Dimensions, stage: usize) -> Option<Vec<Event>> {
    all_events(schedule, of).map(|mut all| all.swap_remove(stage))
}

/// An event with its place in the order that all ranks share: time, passes after transfers, tie.
type TimedEvent = ((u64, u8, Transfer), Event);

/// Everything that each stage does, in order. None when the schedule does not fit these numbers.
pub(crate) fn all_events(schedule: Schedule, of: Dimensions) -> Option<Vec<Vec<Event>>> {
    let orders: Vec<Vec<Pass>> = (0..of.stages).map(|stage| order(schedule, of, stage)).collect();
    let times = play(of, &orders)?;
    let mut listed: Vec<Vec<TimedEvent>> = vec![Vec::new(); of.stages];
    let none = Transfer { link: 0, up: false, micro: 0, from_chunk: 0, to_chunk: 0 };
    for (at, order) in orders.iter().enumerate() {
        for (pass, (begin, end)) in order.iter().zip(&times[at]) {
            listed[at].push(((*begin, 1, none), Event::Pass(*pass)));
            let Some((transfer, to)) = crossing(of, at, *pass) else { continue };
            let key = (*end, 0, transfer);
            listed[at].push((key, Event::Send(transfer)));
            listed[to].push((key, Event::Receive(transfer)));
        }
    }
    let in_order = |mut listed: Vec<TimedEvent>| {
        listed.sort_by_key(|(key, _)| *key);
        listed.into_iter().map(|(_, event)| event).collect()
    };
    Some(listed.into_iter().map(in_order).collect())
}

/// What a pass gives to another stage, and to which.
fn crossing(of: Dimensions, stage: usize, pass: Pass) -> Option<(Transfer, usize)> {
    let at = place(of, stage, pass.chunk);
    if of.stages == 1 || (pass.backward && at == 0) || (!pass.backward && at == of.stages * of.chunks - 1) {
        return None;
    }
    let to = if pass.backward { at - 1 } else { at + 1 };
    let lower = at.min(to);
    let transfer = Transfer {
        link: lower % of.stages,
        up: !pass.backward,
        micro: pass.micro,
        from_chunk: pass.chunk,
        to_chunk: to / of.stages,
    };
    Some((transfer, to % of.stages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(Schedule, Dimensions)> {
        let mut cases = Vec::new();
        for stages in 1..=4 {
            for micros in [1, 2, 3, 4, 8, 12] {
                cases.push((Schedule::GPipe, Dimensions { stages, chunks: 1, micros }));
                cases.push((Schedule::OneForwardOneBackward, Dimensions { stages, chunks: 1, micros }));
                if micros % stages == 0 {
                    cases.push((Schedule::Interleaved, Dimensions { stages, chunks: 2, micros }));
                    cases.push((Schedule::Interleaved, Dimensions { stages, chunks: 3, micros }));
                }
            }
        }
        cases
    }

    #[test]
    fn every_pass_happens_once_and_forward_comes_first() {
        for (schedule, of) in all() {
            for stage in 0..of.stages {
                let passes = order(schedule, of, stage);
                assert_eq!(passes.len(), 2 * of.chunks * of.micros, "{schedule} {of:?}");
                for chunk in 0..of.chunks {
                    for micro in 0..of.micros {
                        let find = |backward| {
                            let wanted = Pass { backward, chunk, micro };
                            passes.iter().position(|pass| *pass == wanted).expect("every pass is there")
                        };
                        assert!(find(false) < find(true), "{schedule} {of:?} stage {stage}");
                    }
                }
            }
        }
    }

    /// Ranks that block in every transfer until the other end is there.
    #[test]
    fn blocking_transfers_never_wait_in_a_cycle() {
        for (schedule, of) in all() {
            let lists: Vec<Vec<Event>> =
                (0..of.stages).map(|stage| events(schedule, of, stage).expect("it fits")).collect();
            let mut at = vec![0; of.stages];
            loop {
                let mut moved = false;
                for stage in 0..of.stages {
                    match lists[stage].get(at[stage]) {
                        Some(Event::Pass(_)) => {
                            at[stage] += 1;
                            moved = true;
                        }
                        Some(Event::Send(transfer)) => {
                            let met = (0..of.stages)
                                .find(|other| lists[*other].get(at[*other]) == Some(&Event::Receive(*transfer)));
                            if let Some(other) = met {
                                at[stage] += 1;
                                at[other] += 1;
                                moved = true;
                            }
                        }
                        _ => {}
                    }
                }
                if lists.iter().zip(&at).all(|(list, at)| list.len() == *at) {
                    break;
                }
                assert!(moved, "{schedule} {of:?} stands still at {at:?}");
            }
        }
    }

    #[test]
    fn one_forward_one_backward_holds_few_micro_batches() {
        let dimensions = Dimensions { stages: 4, chunks: 1, micros: 12 };
        for stage in 0..4 {
            let mut held: usize = 0;
            let mut most = 0;
            for pass in order(Schedule::OneForwardOneBackward, dimensions, stage) {
                held = if pass.backward { held - 1 } else { held + 1 };
                most = most.max(held);
            }
            assert_eq!(most, 4 - stage);
        }
    }
}
