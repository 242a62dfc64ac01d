//! Communicators whose sums depend on something that they should not depend on: each time the comparison of bits names what it is,
//! and no result is wrong, because every order of additions is right.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use benchmarks::benchmark;
use comm::{Call, Communicator};
use device::Slice;
use measure::Trial;
use record::found::REPRODUCIBLE;
use record::reproducible::{Comparison, Reproducible};
use record::{Case, CaseLine};
use terms::{Collective, Named};

use crate::plans;
use crate::worlds::{Instead, Wrap, Wrapped};

/// What an order of additions may depend on.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rank: u32,
    /// Counts the operations of the case, from 1.
    call: u64,
    elements: usize,
    in_place: bool,
}

/// By how many ranks the order begins later than at rank 0, for each element.
type Order = fn(Seen, usize) -> usize;

/// Inputs of all ranks, by the number of the operation.
type Inputs = Arc<Mutex<HashMap<u64, Vec<Vec<f32>>>>>;

fn floats(slice: &Slice) -> Vec<f32> {
    // SAFETY: the slice lies in its region, and no operation is in flight on this rank's buffers.
    (0..slice.len() / 4).map(|at| unsafe { slice.ptr().cast::<f32>().add(at).read() }).collect()
}

/// Adds up again what all ranks have, in this order.
fn sum(inner: &mut dyn Communicator, call: &Call, seen: Seen, inputs: &Inputs, order: Order) -> comm::Result<()> {
    let ranks = inner.shape().size as usize;
    let mut held = inputs.lock().unwrap();
    // The operation before may still be added up by others.
    held.retain(|number, _| number + 2 > seen.call);
    held.entry(seen.call).or_insert_with(|| vec![Vec::new(); ranks])[seen.rank as usize] = floats(&call.input);
    drop(held);
    // Behind it, all ranks have given theirs.
    inner.run(call)?;
    let all = inputs.lock().unwrap()[&seen.call].clone();
    let one = |rank: usize, at: usize| all[rank % ranks][at];
    for at in 0..seen.elements {
        let begin = order(seen, at);
        let sum = (1..ranks).fold(one(begin, at), |sum, next| sum + one(begin + next, at));
        // SAFETY: as above.
        unsafe { call.output.ptr().cast::<f32>().add(at).write(sum) };
    }
    Ok(())
}

fn world(order: Order) -> Wrapped {
    let inputs = Inputs::default();
    let wrap: Wrap = Arc::new(move |rank, inner| {
        let (inputs, mut calls) = (inputs.clone(), 0);
        let run = move |inner: &mut dyn Communicator, call: &Call| {
            if call.op != Collective::AllReduce {
                return inner.run(call);
            }
            calls += 1;
            let (elements, in_place) = (call.output.len() / 4, call.is_in_place());
            sum(inner, call, Seen { rank, call: calls, elements, in_place }, &inputs, order)
        };
        Instead::boxed(inner, run)
    });
    Wrapped::start("sim", 4, wrap)
}

fn case(bytes: &str, in_place: &str) -> Case {
    let flags = [("op", "all_reduce"), ("backend", "sim"), ("ranks", "4"), ("bytes", bytes), ("in-place", in_place)];
    let asked = [("data", "random"), ("reproducible", "true"), ("warmup", "0"), ("iters", "6")];
    plans::case(&[&flags[..], &asked].concat()).expect("a case")
}

/// What the case says of these trials.
fn line(case: &Case, order: Order) -> CaseLine {
    let (trial, line) = world(order).trial(case);
    of_trials(case, line, vec![trial])
}

fn of_trials(case: &Case, mut line: CaseLine, trials: Vec<Trial>) -> CaseLine {
    assert_eq!((line.wrong, &line.reason), (Some(0), &None), "every order is right");
    let times = line.time_s.clone().expect("times");
    let measured = benchmarks::Measured { times: &times, limit: None, peak: None, trials: &trials };
    line.metrics.extend(benchmarks::parse(case).expect("it was checked").metrics(&measured));
    line
}

fn found(line: &CaseLine) -> Reproducible {
    REPRODUCIBLE.of(line).expect("results were compared")
}

/// The one comparison with a difference.
fn differing(found: &Reproducible) -> &Comparison {
    let mut all = found.comparisons().filter(|one| one.difference.is_some());
    let one = all.next().expect("a difference");
    assert_eq!(all.next(), None, "one alone: {one:?}");
    one
}

/// What is found for the last case, each case measured after those before it.
fn related(lines: &[CaseLine]) -> Reproducible {
    let all: Vec<&CaseLine> = lines.iter().collect();
    let relations = benchmark("collective").expect("it is there").relations(&all);
    let last = lines.last().expect("a line");
    found(&CaseLine { metrics: relations(last).into(), ..last.clone() })
}

#[test]
fn an_order_that_never_changes_gives_the_same_bits_everywhere() {
    let always: Order = |_, at| at % 3;
    let lines: Vec<CaseLine> = [("1000", "true"), ("1000", "false"), ("4000", "false")]
        .map(|(bytes, form)| line(&case(bytes, form), always))
        .into();
    for one in &lines {
        let found = found(one);
        assert_eq!((found.share(), found.ranks, found.trials, found.computed), (Some(1.0), 4, 1, true), "{found:?}");
        assert!(found.results >= 6, "{found:?}");
    }
    let all = related(&lines);
    let across: Vec<&str> = all.across.iter().map(|one| one.varied.as_str()).collect();
    assert_eq!((across, all.share()), (vec!["bytes"], Some(1.0)));
    assert_eq!(related(&lines[..2]).across[0].varied, "in_place");
}

#[test]
fn an_order_that_changes_with_the_call_is_named() {
    let found = found(&line(&case("4000", "false"), |seen, at| usize::from(seen.call >= 3 && at >= 500)));
    let one = differing(&found);
    assert_eq!((one.varied.as_str(), one.from.as_str(), one.to.as_str()), ("calls", "call 1", "call 3 of rank 0"));
    let by = one.difference.as_ref().expect("it differs");
    assert!((500..560).contains(&by.first) && by.end == by.first + 1, "{by:?}");
    assert!(by.different.is_some_and(|number| (50..=500).contains(&number)) && by.ulps >= Some(1), "{by:?}");
}

#[test]
fn an_order_that_differs_between_ranks_is_named() {
    let found = found(&line(&case("400000", "true"), |seen, at| usize::from(seen.rank == 2 && at >= 99_000)));
    let one = differing(&found);
    assert_eq!((one.varied.as_str(), one.from.as_str(), one.to.as_str()), ("ranks", "rank 0", "rank 2"));
    let by = one.difference.as_ref().expect("it differs");
    assert!((99_000..99_060).contains(&by.first) && by.end == by.first + 1, "{by:?}");
}

#[test]
fn an_order_that_differs_between_trials_is_named() {
    let case = case("4000", "false");
    let (first, line) = world(|_, _| 0).trial(&case);
    let (second, _) = world(|_, at| usize::from(at >= 700)).trial(&case);
    let found = found(&of_trials(&case, line, vec![first, second]));
    let one = differing(&found);
    assert_eq!((one.varied.as_str(), one.to.as_str()), ("trials", "trial 2 on rank 0"));
    let by = one.difference.as_ref().expect("it differs");
    // Of other processes, blocks are known and not their elements.
    assert!(by.first <= 700 && by.end > 700 && by.values.is_none(), "{by:?}");
}

#[test]
fn an_order_that_depends_on_the_size_or_on_the_form_is_named() {
    let by_size: Order = |seen, at| usize::from(seen.elements > 500 && at >= 10);
    let sizes = [case("1000", "true"), case("4000", "true")].map(|case| line(&case, by_size));
    let all = related(&sizes);
    let one = differing(&all);
    assert_eq!((one.varied.as_str(), one.from.as_str(), one.to.as_str()), ("bytes", "1000", "4000"));
    let by = one.difference.as_ref().expect("it differs");
    assert!((10..40).contains(&by.first) && by.values.is_some() && by.ulps >= Some(1), "{by:?}");

    let forms = [case("4000", "true"), case("4000", "false")].map(|case| line(&case, |seen, _| seen.in_place.into()));
    let all = related(&forms);
    let one = differing(&all);
    assert_eq!((one.varied.as_str(), one.from.as_str(), one.to.as_str()), ("in_place", "true", "false"));
    assert!(all.share().is_some_and(|share| share < 1.0));
}

/// A result beyond every order of additions is wrong, and not only other.
#[test]
fn a_rank_that_is_left_out_of_random_numbers_is_wrong() {
    let wrap: Wrap = Arc::new(|rank, inner| {
        Instead::boxed(inner, move |inner, call| {
            if rank == 1 && call.op == Collective::AllReduce {
                // SAFETY: this rank's own input; no operation is in flight.
                unsafe { std::ptr::write_bytes(call.input.ptr(), 0, call.input.len()) };
            }
            inner.run(call)
        })
    });
    let (_, line) = Wrapped::start("sim", 4, wrap).trial(&case("4000", "true"));
    assert!(line.wrong.is_some_and(|wrong| wrong > 1000), "{:?}", line.wrong);
    assert!(line.reason.is_some_and(|reason| reason.contains(" within ")));
}

#[test]
fn every_operation_on_random_numbers_is_right_and_compared() {
    for backend in ["sim", "shm", "reference"] {
        let mut world = Wrapped::shared(backend, 3);
        for op in Collective::ALL.iter().filter(|op| **op != Collective::Barrier) {
            for (dtype, form) in [("f32", "true"), ("f64", "false"), ("bf16", "true"), ("f16", "false")] {
                let op = op.to_string();
                let flags = [("op", &*op), ("dtype", dtype), ("in-place", form), ("backend", backend), ("ranks", "3")];
                let asked = [("data", "random"), ("reproducible", "true"), ("warmup", "0"), ("iters", "6")];
                let Ok(case) = plans::case(&[&flags[..], &[("bytes", "60000")], &asked].concat()) else { continue };
                let (trial, line) = world.trial(&case);
                let found = found(&of_trials(&case, line, vec![trial]));
                assert_eq!(found.share(), Some(1.0), "{backend}: {op} {dtype}: {found:?}");
            }
        }
    }
}
