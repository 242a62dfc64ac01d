//! Ours and other engines of the same run: which is the peer, how much longer it takes, and what differs.

use crate::data;
use crate::golden::text;

/// The fastest other engine is the peer of each of ours. A reference or a simulation is not a peer.
#[test]
fn ours_stands_beside_the_best_peer() {
    let case = |backend: &'static str, bytes: u64, time: f64| {
        data::Invented { backend, ..data::Invented::new(2, bytes, time) }.line()
    };
    let mut lines = vec![
        case("shm", 1024, 1e-6),
        case("mpi", 1024, 3e-6),
        case("reference", 1024, 1e-9),
        case("sim", 1024, 1e-9),
        case("shm", 65536, 1e-5),
        case("mpi", 65536, 0.5e-5),
    ];
    let mut tuned = case("mpi", 1024, 2e-6);
    tuned.parameters.insert("mpi_tuned", true.into());
    // Faster, but of another kind of call.
    let mut apart = case("mpi", 1024, 1e-7);
    apart.parameters.insert("in_place", false.into());
    lines.extend([tuned, apart]);
    let page = text("markdown", &data::run(lines));
    let table = page.split("Against the best peer of this run").nth(1).expect("a table");
    let row = |size: &str| table.lines().find(|line| line.contains(size)).expect("a row").to_owned();
    let small = row("1 KiB");
    assert!(small.contains("mpi, in place, tuned") && small.contains("2.00x"), "{small}");
    assert!(small.contains("1.97x to 2.03x"), "both widths of 1% in quadrature: {small}");
    assert!(row("64 KiB").contains("0.500x"), "slower is said as well: {}", row("64 KiB"));
    assert!(page.contains("faster in 1 of 2 pairs, slower in 1"), "{page}");
}

/// The ratio's row shows what differs, and a peer that is more like ours goes before a faster one.
#[test]
fn what_differs_from_the_peer_is_said() {
    let case = |backend: &'static str, buffers: &str, time: f64| {
        let mut line = data::Invented { backend, ..data::Invented::new(2, 1024, time) }.line();
        line.parameters.insert("buffers", buffers.into());
        line.parameters.insert("bind", if backend == "shm" { "core" } else { "none" }.into());
        line
    };
    let page = |lines| text("markdown", &data::run(lines));
    let (ours, private, alike) =
        (case("shm", "registered", 1e-6), case("mpi", "private", 2e-6), case("mpi", "registered", 3e-6));
    let report = page(vec![ours.clone(), private.clone()]);
    let row = |page: &str| {
        let table = page.split("Against the best peer of this run").nth(1).expect("a table");
        table.lines().find(|line| line.contains("1 KiB")).expect("a row").to_owned()
    };
    assert!(
        row(&report).contains("bind core / none") && row(&report).contains("buffers registered / private"),
        "{report}"
    );
    let sentence = "shm and the other program differ in bind core / none, buffers registered / private.";
    assert!(report.contains(sentence), "{report}");
    let report = page(vec![ours, private, alike]);
    assert!(row(&report).contains("3.00x") && !row(&report).contains("private"), "{}", row(&report));
    assert!(report.contains("shm and the other program differ in bind core / none."), "{report}");
}

/// The machine was three times as slow in every other round, for both: the ratio is that of the rounds, and its interval
/// knows nothing of that. Nor is the best peer the one that was lucky in one round.
#[test]
fn ratios_to_peers_are_those_of_the_rounds() {
    const MOODS: [f64; 6] = [2.0, 6.0, 2.0, 6.0, 2.0, 6.0];
    let case = |backend: &'static str, factor: f64, rounds: [f64; 6]| {
        let mut line =
            data::Invented { backend, half_width: 0.5, ..data::Invented::new(2, 1024, 2e-6 * factor) }.line();
        line.trial_round = (0..6).collect();
        line.trial_median_s = rounds.iter().map(|round| round * factor * 1e-6).collect();
        line
    };
    let mut lucky = case("mpi", 2.5, MOODS);
    lucky.parameters.insert("mpi_tuned", true.into());
    lucky.trial_median_s[0] = 1e-6;
    let page = |lines| text("markdown", &data::run(lines));
    let lines = vec![case("shm", 1.0, MOODS), case("mpi", 2.0, MOODS), lucky];
    let report = page(lines.clone());
    let row = |page: &str| {
        let table = page.split("Against the best peer of this run").nth(1).expect("a table");
        table.lines().find(|line| line.contains("1 KiB")).expect("a row").to_owned()
    };
    assert!(row(&report).contains("2.00x | 2.00x to 2.00x") && !row(&report).contains("tuned"), "{}", row(&report));
    assert!(
        report.contains("A ratio of two cases is the median of the ratios of their trials round by round"),
        "{report}"
    );
    // Of rounds that they do not share: of the times, with their intervals.
    let mut fewer = lines;
    fewer[1].trial_round.iter_mut().for_each(|round| *round += 6);
    assert!(!row(&page(fewer)).contains("2.00x to 2.00x"));
}

/// A product alone is not a peer of a product with its collective, however much faster it is.
#[test]
fn only_what_makes_the_same_choice_is_a_peer() {
    let case = |backend: &'static str, way: &str, time: f64| {
        let mut line = data::Invented { backend, ..data::Invented::new(2, 1024, time) }.line();
        line.parameters.insert("way", way.into());
        line
    };
    let table = |lines| {
        let mut run = data::run(lines);
        let mut way = run.benchmarks[0].fields.iter().find(|field| field.name == "buffers").unwrap().clone();
        "way".clone_into(&mut way.name);
        "choice".clone_into(&mut way.kind);
        run.benchmarks[0].fields.push(way);
        let page = text("markdown", &run);
        page.split("Against the best peer of this run").nth(1).map(str::to_owned)
    };
    let ours = case("shm", "sequential", 1e-6);
    assert_eq!(table(vec![ours.clone(), case("mpi", "compute_only", 1e-7)]), None);
    let report = table(vec![ours, case("mpi", "compute_only", 1e-7), case("mpi", "sequential", 3e-6)]).unwrap();
    assert!(report.lines().any(|line| line.contains("1 KiB") && line.contains("3.00x")), "{report}");
}
