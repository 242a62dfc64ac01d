//! Which bytes are taken at which moments, against a list of all buffers.

use engine::internals::Occupancy;

/// The lowest place, found by looking at every buffer.
fn by_list(placed: &[(usize, usize, (usize, usize))], bytes: usize, (first, last): (usize, usize)) -> usize {
    let mut taken: Vec<(usize, usize)> = placed
        .iter()
        .filter(|(_, _, (from, to))| *from <= last && first <= *to)
        .map(|(begin, end, _)| (*begin, *end))
        .collect();
    taken.sort_unstable();
    let mut at = 64;
    for (begin, end) in taken {
        if at + bytes <= begin {
            break;
        }
        at = at.max(end);
    }
    at
}

/// Numbers that look random, from a seed.
fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    }
}

#[test]
fn places_are_those_of_a_search_through_all_buffers() {
    for seed in 0..40 {
        let mut number = numbers(seed);
        let moments = 1 + number(60);
        let mut lives: Vec<(usize, (usize, usize))> = (0..120)
            .map(|_| {
                let (a, b) = (number(moments), number(moments));
                (64 * number(20), (3 * a.min(b), 3 * a.max(b)))
            })
            .collect();
        // Largest first as the plan does it, or in any order.
        if seed % 2 == 0 {
            lives.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        }
        let ends = lives.iter().flat_map(|(_, (first, last))| [*first, *last]).collect();
        let mut occupancy = Occupancy::new(ends);
        let mut placed = Vec::new();
        for (bytes, life) in lives {
            let at = occupancy.lowest(64, bytes, life);
            assert_eq!(at, by_list(&placed, bytes, life), "seed {seed}, {bytes} bytes in {life:?}");
            occupancy.take(at, at + bytes, life);
            placed.push((at, at + bytes, life));
        }
    }
}

/// Looks for `number` buffers that are alive together, as all-forward schedules leave them, and short ones between.
fn looks(number: usize) -> usize {
    let lives = |index: usize| match index % 2 {
        0 => (index, 2 * number - index),
        _ => (index, index + 3),
    };
    let mut occupancy = Occupancy::new((0..number).map(lives).flat_map(|(a, b)| [a, b]).collect());
    for index in 0..number {
        let bytes = 64 * (1 + index % 7);
        let at = occupancy.lowest(0, bytes, lives(index));
        occupancy.take(at, at + bytes, lives(index));
    }
    occupancy.looks()
}

#[test]
fn looks_grow_with_buffers_and_not_with_their_square() {
    let (few, many) = (looks(2_000), looks(32_000));
    assert!(many < 32 * few, "16 times as many buffers take {many} looks instead of {few}");
}
