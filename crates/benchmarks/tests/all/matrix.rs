//! Every case that the plan check admits ends well on every backend: patterns, checks and layouts agree with what each
//! backend does, for every operation, type, operator, form and kind of memory.

use terms::{BufferKind, Collective, Dtype, Named, Reduce, Status};

use crate::worlds::Wrapped;
use crate::{plans, skip};

/// Flags that say what is measured, of every combination; most make a case, some the plan check refuses.
fn combinations(bytes: &[&str]) -> Vec<Vec<(&'static str, String)>> {
    let mut found = Vec::new();
    for op in Collective::ALL.iter().filter(|op| **op != Collective::Barrier) {
        for dtype in Dtype::ALL {
            let reduces: Vec<Option<Reduce>> =
                if op.reduces() { Reduce::ALL.iter().copied().map(Some).collect() } else { vec![None] };
            for reduce in reduces {
                for in_place in [false, true] {
                    for buffers in BufferKind::ALL {
                        for bytes in bytes {
                            let mut flags = vec![("op", op.to_string()), ("in-place", in_place.to_string())];
                            flags.extend([("dtype", dtype.to_string()), ("bytes", (*bytes).to_owned())]);
                            flags.push(("buffers", buffers.to_string()));
                            flags.extend(reduce.map(|reduce| ("reduce", reduce.to_string())));
                            // The limit's loop takes most of the time, and knows only bytes: those of the type with
                            // the least aligned blocks.
                            let limits = *dtype == Dtype::U8 && reduce.is_none_or(|reduce| reduce == Reduce::Sum);
                            flags.push(("limits", limits.to_string()));
                            found.push(flags);
                        }
                    }
                }
            }
        }
    }
    found
}

/// What only some operations have: roots, partners, directions, uneven counts, rewritten buffers.
fn special(ranks: u32) -> Vec<Vec<(&'static str, String)>> {
    let last = (ranks - 1).to_string();
    let mut found = Vec::new();
    for in_place in ["false", "true"] {
        for op in ["broadcast", "reduce", "gather", "scatter"] {
            found.push(vec![("op", op), ("root", &*last), ("in-place", in_place)]);
        }
        found.push(vec![("op", "all_reduce"), ("touch", "true"), ("in-place", in_place)]);
    }
    for (op, in_place) in [("all_reduce", "true"), ("all_to_all", "true"), ("gather", "false"), ("send_recv", "false")]
    {
        found.push(vec![("op", op), ("cache", "cold"), ("cold_bytes", "1MiB"), ("in-place", in_place)]);
    }
    found.push(vec![("op", "barrier")]);
    if ranks > 1 {
        found.push(vec![("op", "ping_pong"), ("peer", &*last)]);
    }
    for traffic in ["uniform", "skewed"] {
        found.push(vec![("op", "all_to_allv"), ("traffic", traffic), ("dtype", "f16")]);
    }
    for direction in ["one_way", "both_ways"] {
        found.push(vec![("op", "send_recv"), ("direction", direction)]);
    }
    found.push(vec![("op", "all_gather"), ("mode", "isolated")]);
    let owned = |flags: Vec<(&'static str, &str)>| -> Vec<(&'static str, String)> {
        let flags = flags.into_iter().map(|(name, value)| (name, value.to_owned()));
        flags.chain([("bytes", "60000".to_owned())]).collect()
    };
    found.into_iter().map(owned).collect()
}

/// Runs all of them in one world; how many cases there were, and how many the plan check refused.
fn walk(backend: &'static str, ranks: u32, flags: Vec<Vec<(&'static str, String)>>) -> (usize, usize) {
    let (mut ran, mut refused) = (0, 0);
    // Ranks that yield: they share this machine's cores with whatever else is tested.
    let mut world = Wrapped::shared(backend, ranks);
    for mut flags in flags {
        let fixed = [("backend", backend), ("ranks", &ranks.to_string()), ("iters", "6"), ("warmup", "0")];
        flags.extend(fixed.map(|(name, value)| (name, value.to_owned())));
        let flags: Vec<(&str, &str)> = flags.iter().map(|(name, value)| (*name, &**value)).collect();
        let Ok(case) = plans::case(&flags) else {
            refused += 1;
            continue;
        };
        assert_eq!(case.skip, None, "{flags:?}");
        let (trial, line) = world.trial(&case);
        ran += 1;
        let moves = case.word("op") != Some(Collective::Barrier);
        // A rank alone waits for nobody, so there is no exit to compare.
        let wrong = (moves || ranks > 1).then_some(0);
        assert_eq!((line.status, line.wrong), (Status::Ok, wrong), "{flags:?}: {:?}", line.reason);
        let compared: u64 = trial.wrong.iter().map(|report| report.compared).sum();
        assert_eq!(compared > 0, moves, "{flags:?}: {compared} elements compared");
        // Ready, and at the end what was timed and what is fresh: every rank reports each time.
        assert_eq!(trial.wrong.len(), 2 * ranks as usize);
        assert!(line.time_s.is_some_and(|time| time.median > 0.0), "{flags:?}");
    }
    (ran, refused)
}

#[test]
fn every_admitted_case_is_right_on_sim() {
    // 3 operations x 10 types x 5 operators and 8 operations x 12 types, x 2 forms x 2 kinds of memory; three of those that
    // move have no form in place. Reductions of the two types that only move are refused.
    assert_eq!(walk("sim", 3, combinations(&["240"])), (600 + 384 - 72, 72 + 120));
    walk("sim", 2, special(2));
    walk("sim", 5, special(5));
}

/// The check of a model compares as much as that of ranks, and finds a wrong element wherever a rank gets one.
#[test]
fn every_admitted_case_is_right_on_a_model() {
    let mut checked = 0;
    for (ranks, mut flags) in [(3, combinations(&["240"])), (2, special(2)), (5, special(5))]
        .into_iter()
        .flat_map(|(ranks, all)| all.into_iter().map(move |flags| (ranks, flags)))
    {
        flags.extend([("backend", "sim".to_owned()), ("ranks", u32::to_string(&ranks))]);
        let flags: Vec<(&str, &str)> = flags.iter().map(|(name, value)| (*name, &**value)).collect();
        let Ok(case) = plans::case(&flags) else { continue };
        let parsed = benchmarks::parse(&case).unwrap();
        assert!(benchmarks::is_modelled(&*parsed), "{flags:?}");
        let modelled = parsed.modelled().unwrap();
        let moves = case.word("op") != Some(Collective::Barrier);
        let right = modelled.check(&[]).unwrap();
        assert_eq!((right.count, right.compared > 0, modelled.left_out()), (0, moves, 0), "{flags:?}: {right:?}");
        let wrong: u64 = (0..ranks).map(|rank| modelled.check(&[(rank, 0)]).unwrap().count).sum();
        assert!(if moves { (1..=u64::from(ranks)).contains(&wrong) } else { wrong == 0 }, "{flags:?}: {wrong}");
        checked += 1;
    }
    assert!(checked > 900, "{checked} cases");
}

#[test]
fn every_admitted_case_is_right_on_shm() {
    // Longer than the pattern's period in every type, and not a multiple of anything.
    walk("shm", 2, combinations(&["70004"]));
    for ranks in [1, 2, 3, 5] {
        walk("shm", ranks, special(ranks));
    }
}

#[test]
fn every_admitted_case_is_right_on_the_reference() {
    // Both kinds of memory are the same to it: one type shows that.
    let differs = |flags: &Vec<(&str, String)>| {
        flags.contains(&("buffers", "registered".to_owned())) || flags.contains(&("dtype", "f32".to_owned()))
    };
    walk("reference", 2, combinations(&["1000"]).into_iter().filter(differs).collect());
    for ranks in [1, 3] {
        walk("reference", ranks, special(ranks));
    }
}

#[test]
fn more_sizes_and_ranks_on_every_backend() {
    if !skip::heavy("the matrix of cases at more sizes and ranks") {
        return;
    }
    let worlds =
        [("sim", 6, "240"), ("shm", 1, "70004"), ("shm", 3, "300000"), ("shm", 6, "70004"), ("reference", 4, "240")];
    for (backend, ranks, bytes) in worlds {
        let (ran, _) = walk(backend, ranks, combinations(&[bytes]));
        assert!(ran > 500, "{ran} cases");
    }
}
