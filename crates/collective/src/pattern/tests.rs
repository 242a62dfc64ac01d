//! Patterns are exact for as long as they say, and every rank and every element shows.

use super::*;
use half::{bf16, f16};
use terms::Named;

/// An element's exact value: its decimal text would be the shortest that reads back in its own type.
fn decode(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::from_ne_bytes(bytes[..4].try_into().unwrap())),
        Dtype::F64 => f64::from_ne_bytes(bytes[..8].try_into().unwrap()),
        Dtype::F16 => f16::from_ne_bytes(bytes[..2].try_into().unwrap()).to_f64(),
        Dtype::Bf16 => bf16::from_ne_bytes(bytes[..2].try_into().unwrap()).to_f64(),
        _ => unreachable!("floats only"),
    }
}

/// A whole number in an order that is the type's own.
fn rank_of(pattern: &Pattern, number: i64) -> i128 {
    if pattern.is_unsigned() { i128::from(number as u64) } else { i128::from(number) }
}

/// Every type that is reduced, by every operator.
fn reductions() -> impl Iterator<Item = (Dtype, Reduce)> {
    let types = Dtype::ALL.iter().filter(|dtype| dtype.reduces());
    types.flat_map(|dtype| Reduce::ALL.iter().map(move |reduce| (*dtype, *reduce)))
}

/// The inputs of all ranks, put together one by one: what [`Pattern::result`] must be.
fn fold(pattern: &Pattern, inputs: impl Iterator<Item = Number>) -> Number {
    let folded = inputs.reduce(|a, b| match (a, b) {
        (Number::Float(a), Number::Float(b)) => Number::Float(match pattern.reduce {
            Reduce::Sum | Reduce::Avg => a + b,
            Reduce::Prod => a * b,
            Reduce::Min => a.min(b),
            Reduce::Max => a.max(b),
        }),
        (Number::Whole(a), Number::Whole(b)) => Number::Whole(match pattern.reduce {
            Reduce::Sum | Reduce::Avg => a.wrapping_add(b),
            Reduce::Prod => a.wrapping_mul(b),
            Reduce::Min => [a, b].into_iter().min_by_key(|number| rank_of(pattern, *number)).unwrap(),
            Reduce::Max => [a, b].into_iter().max_by_key(|number| rank_of(pattern, *number)).unwrap(),
        }),
        (a, b) => panic!("{a:?} and {b:?}"),
    });
    match (pattern.reduce, folded.expect("at least one rank")) {
        (Reduce::Avg, Number::Float(sum)) => Number::Float(sum / f64::from(pattern.ranks)),
        (Reduce::Avg, Number::Whole(sum)) => Number::Whole(sum / i64::from(pattern.ranks)),
        (_, number) => number,
    }
}

#[test]
fn results_are_what_all_inputs_make() {
    let mut looked_at = 0;
    for (dtype, reduce) in reductions() {
        // Around the limits of the types, and where they have no room for all ranks.
        for ranks in (1..=20).chain([31, 63, 64, 65, 99, 100, 101, 127, 128, 129, 255, 256, 257, 1000, 1024]) {
            for (op, in_place) in [
                (Collective::AllReduce, true),
                (Collective::AllReduce, false),
                (Collective::ReduceScatter, true),
                (Collective::Reduce, false),
            ] {
                let Some(pattern) = Pattern::new(op, dtype, reduce, ranks, in_place, 3) else { continue };
                let bits = |number| match number {
                    Number::Float(value) => value.to_bits(),
                    Number::Whole(value) => value as u64,
                };
                for index in (0..24).chain([4095, 8190]) {
                    let right = fold(&pattern, (0..ranks).map(|rank| pattern.input(rank, index)));
                    let result = pattern.result(index);
                    let what = format!("{op} {dtype} {reduce}, {ranks} ranks, in place {in_place}, element {index}");
                    assert_eq!(bits(result), bits(right), "{what}: {result:?}, {right:?}");
                    assert_eq!(pattern.once().at(index), result, "{what}");
                    looked_at += 1;
                }
            }
        }
    }
    assert!(looked_at > 100_000, "{looked_at}");
}

/// Repeats the operation on real elements of the type, rounding after every addition, and compares with the table.
fn repeat_in_place(pattern: &Pattern, calls: u64) -> bool {
    let tables: Vec<PeriodTable> = (0..pattern.ranks).map(|rank| pattern.inputs(rank)).collect();
    let expected = pattern.reduced(&pattern.once(), calls, 0);
    (0..64).all(|i| {
        let read = |table: &PeriodTable| decode(pattern.dtype, table.read(i));
        let mut values: Vec<f64> = tables.iter().map(read).collect();
        for _ in 0..calls {
            let mut sum = 0.0;
            for value in &values {
                let mut bytes = Vec::new();
                Number::Float(sum + value).encode(pattern.dtype, &mut bytes);
                sum = decode(pattern.dtype, &bytes);
            }
            values.fill(sum);
        }
        values[0] == read(&expected)
    })
}

#[test]
fn in_place_sums_are_exact_for_as_long_as_they_say() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
        for ranks in 2..=12 {
            let pattern = Pattern::new(Collective::AllReduce, dtype, Reduce::Sum, ranks, true, 1).unwrap();
            let calls = pattern.max_calls();
            assert!((1..2000).contains(&calls), "{dtype} {ranks}: {calls}");
            assert!(repeat_in_place(&pattern, calls), "{dtype} {ranks}: not exact after {calls} calls");
        }
    }
    let two = Pattern::new(Collective::AllReduce, Dtype::F32, Reduce::Sum, 2, true, 1).unwrap();
    assert!(two.max_calls() > 200, "{}", two.max_calls());
}

#[test]
fn averages_in_place_stay_what_they_are() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
        for ranks in (1..=64).chain([100, 255, 256, 257, 1000, 1024]) {
            let Some(pattern) = Pattern::new(Collective::AllReduce, dtype, Reduce::Avg, ranks, true, 1) else {
                assert!(ranks > 256 && dtype == Dtype::Bf16, "{dtype} {ranks}");
                continue;
            };
            let expected = pattern.reduced(&pattern.once(), 1, 0);
            let read = |i: usize| decode(dtype, expected.read(i));
            let rounded = |value: f64| {
                let mut bytes = Vec::new();
                Number::Float(value).encode(dtype, &mut bytes);
                decode(dtype, &bytes)
            };
            let most = pattern.max_calls();
            assert!(most == 1 || most == u64::MAX);
            for i in (0..64).filter(|_| most > 1) {
                let sum = (0..ranks).fold(0.0, |sum, _| rounded(sum + read(i)));
                assert_eq!(sum / f64::from(ranks), read(i), "{dtype} {ranks}");
            }
            for i in 0..64 {
                let held = |rank| match pattern.input(rank, i) {
                    Number::Float(value) => rounded(value),
                    Number::Whole(_) => unreachable!("floats only"),
                };
                let sum = (0..ranks).fold(0.0, |sum, rank| rounded(sum + held(rank)));
                assert_eq!(sum / f64::from(ranks), read(i as usize), "{dtype} {ranks}");
            }
        }
    }
}

#[test]
fn every_pattern_differs_by_rank_and_element() {
    for op in Collective::ALL.iter().filter(|op| **op != Collective::Barrier) {
        for dtype in Dtype::ALL {
            for reduce in Reduce::ALL {
                for ranks in [2, 3, 6, 16] {
                    let Some(pattern) = Pattern::new(*op, *dtype, *reduce, ranks, false, 1) else { continue };
                    let (first, second) = (pattern.inputs(0).bytes(), pattern.inputs(1).bytes());
                    assert_ne!(first, second, "{op} {dtype} {reduce} {ranks}");
                    let element = dtype.bytes() as usize;
                    let kinds: std::collections::HashSet<_> = first.chunks(element).collect();
                    assert!(kinds.len() >= 2, "{op} {dtype} {reduce} {ranks}");
                }
            }
        }
    }
}

/// At how many of the first `elements` a rank shows when it is left out, and when it counts twice: the fewest of any
/// rank. Twice shows in no minimum or maximum, which it does not change.
fn shown(pattern: &Pattern, elements: u64) -> [usize; 2] {
    let (dtype, n) = (pattern.dtype, pattern.ranks);
    let encoded = |number: Number| {
        let mut bytes = Vec::new();
        number.encode(dtype, &mut bytes);
        bytes
    };
    let held: Vec<Vec<Number>> = (0..elements).map(|i| (0..n).map(|rank| pattern.input(rank, i)).collect()).collect();
    let right: Vec<Vec<u8>> = held.iter().map(|all| encoded(fold(pattern, all.iter().copied()))).collect();
    let fewest_differences = |weight: usize| {
        let differs = |rank: u32| {
            let weight = |other: u32| if other == rank { weight } else { 1 };
            let wrong = |all: &Vec<Number>| {
                let counted = (0..n).flat_map(|other| std::iter::repeat_n(all[other as usize], weight(other)));
                encoded(fold(pattern, counted))
            };
            held.iter().zip(&right).filter(|(all, right)| wrong(all) != **right).count()
        };
        (0..n).map(differs).min().unwrap_or(0)
    };
    [fewest_differences(0), fewest_differences(2)]
}

#[test]
fn every_rank_shows_when_it_is_left_out_or_counts_twice() {
    let mut looked_at = 0;
    for op in [Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce] {
        for (dtype, reduce) in reductions() {
            for ranks in (2..=9).chain([16, 17, 33, 64]) {
                // Small counts in both forms; large ones where sums grow, which is where room is scarce.
                for in_place in [false, true] {
                    if ranks > 9 && (op != Collective::AllReduce || !in_place) {
                        continue;
                    }
                    let Some(pattern) = Pattern::new(op, dtype, reduce, ranks, in_place, 1) else { continue };
                    // An average of as many has room for one rank at an element, and half of the elements have none.
                    let turns = if (dtype, reduce) == (Dtype::I8, Reduce::Avg) { 12 } else { 1 };
                    let elements = (turns * u64::from(ranks)).max(12);
                    let [without, twice] = shown(&pattern, elements);
                    let what = format!("{op} {dtype} {reduce}, {ranks} ranks, in place {in_place}");
                    assert!(without > 0, "{what}: a rank may be left out unseen");
                    let idempotent = matches!(reduce, Reduce::Min | Reduce::Max);
                    assert!(twice > 0 || idempotent, "{what}: a rank may count twice unseen");
                    // Sums of up to 64 ranks have room for all of them at once.
                    let all = reduce == Reduce::Sum && dtype.bytes() > 1;
                    assert!(!all || without as u64 == elements, "{what}: {without} of {elements}");
                    looked_at += 1;
                }
            }
        }
    }
    assert!(looked_at > 1200, "{looked_at}");
}

#[test]
fn many_ranks_show_in_every_type() {
    for (dtype, reduce) in reductions() {
        for (ranks, in_place) in [(100, true), (255, false), (256, true), (257, false), (1024, true)] {
            let Some(pattern) = Pattern::new(Collective::AllReduce, dtype, reduce, ranks, in_place, 1) else {
                assert!(reduce == Reduce::Avg && ranks > 128, "{dtype} {reduce} {ranks}");
                continue;
            };
            // Whether a rank is neutral at an element is all that matters; a few ranks stand for the others.
            let rank_shows = |rank: u32| {
                (0..PERIOD as u64).any(|i| match (reduce, pattern.input(rank, i)) {
                    (Reduce::Sum | Reduce::Avg, value) => value != Number::new(dtype, 0),
                    (Reduce::Prod, value) => value != Number::new(dtype, 1),
                    (Reduce::Min | Reduce::Max, _) => (u64::from(rank) + i).is_multiple_of(u64::from(ranks)),
                })
            };
            assert!([0, 1, ranks / 2, ranks - 1].into_iter().all(rank_shows), "{dtype} {reduce} {ranks}");
        }
    }
}

#[test]
fn results_differ_by_element() {
    for (dtype, reduce) in reductions() {
        for ranks in [2, 3, 5, 16, 64, 255] {
            for in_place in [false, true] {
                let Some(pattern) = Pattern::new(Collective::AllReduce, dtype, reduce, ranks, in_place, 1) else {
                    continue;
                };
                let table = pattern.reduced(&pattern.once(), 1, 0);
                let bytes = table.bytes();
                let elements: Vec<&[u8]> = bytes.chunks(table.element()).collect();
                // What a displacement by a power of two leaves wrong.
                for displaced in [1, 64, 1024] {
                    let wrong = (0..PERIOD).filter(|i| elements[*i] != elements[(i + displaced) % PERIOD]).count();
                    assert!(
                        wrong > PERIOD / 8,
                        "{dtype} {reduce}, {ranks} ranks, in place {in_place}: {wrong} of {PERIOD} differ by {displaced}"
                    );
                }
            }
        }
    }
}

#[test]
fn averages_beyond_the_type_are_refused() {
    assert!(Pattern::new(Collective::AllReduce, Dtype::U8, Reduce::Avg, 256, false, 1).is_none());
    assert!(Pattern::new(Collective::AllReduce, Dtype::U8, Reduce::Avg, 200, false, 1).is_some());
}

/// A library that takes a number without a sign for one with a sign gives another minimum and maximum, at every element.
#[test]
fn a_sign_that_a_type_does_not_have_shows() {
    for dtype in [Dtype::U8, Dtype::U32, Dtype::U64] {
        for reduce in [Reduce::Min, Reduce::Max] {
            let pattern = Pattern::new(Collective::AllReduce, dtype, reduce, 3, false, 1).unwrap();
            for index in 0..64 {
                let signed = |rank| match pattern.input(rank, index) {
                    Number::Whole(value) => value << (64 - 8 * dtype.bytes()),
                    Number::Float(_) => unreachable!("integers only"),
                };
                let Number::Whole(right) = pattern.result(index) else { unreachable!("integers only") };
                let all = (0..3).map(signed);
                let wrong = if reduce == Reduce::Min { all.min() } else { all.max() };
                assert_ne!(wrong, Some(right << (64 - 8 * dtype.bytes())), "{reduce} of {dtype}, element {index}");
            }
        }
    }
}

#[test]
fn what_only_moves_is_not_reduced() {
    for dtype in Dtype::ALL.iter().filter(|dtype| !dtype.reduces()) {
        for reduce in Reduce::ALL {
            assert!(Pattern::new(Collective::Reduce, *dtype, *reduce, 2, false, 1).is_none(), "{reduce} of {dtype}");
        }
        assert!(Pattern::new(Collective::Broadcast, *dtype, Reduce::Sum, 2, false, 1).is_some(), "{dtype}");
    }
}
