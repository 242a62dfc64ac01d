//! Real series, replayed: runs that begin anywhere in a long series of trial medians, with the stop rule running.
//!
//! A fixture is a line a case: its name, the seconds between two trials, and their medians in nanoseconds, in order of time.

use stats::{LOOKS, median, relative_half_width, sign_interval};

/// Seconds between the trials of a replayed run.
const SPACING_S: f64 = 1.6;

struct Series {
    name: String,
    spacing_s: f64,
    medians: Vec<f64>,
}

fn read(text: &str) -> Vec<Series> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, spacing) = (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap());
        Series { name, spacing_s: spacing, medians: words.map(|word| word.parse().unwrap()).collect() }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// Trials of a run that begins at `start`, at a look that is precise within 2% or the last that the series has room for;
/// and the median of all trials in its span.
fn replay(series: &Series, start: usize) -> Option<([f64; 2], f64)> {
    let every = (SPACING_S / series.spacing_s).round().max(1.0) as usize;
    let room = (series.medians.len() - start) / every;
    let trials =
        |count: usize| -> Vec<f64> { series.medians[start..].iter().copied().step_by(every).take(count).collect() };
    let looks: Vec<usize> = LOOKS.iter().copied().filter(|look| *look <= room).collect();
    let precise = |look: &&usize| {
        let seen = trials(**look);
        sign_interval(&seen).is_some_and(|ends| relative_half_width(ends, median(&seen)) <= 0.02)
    };
    let made = *looks.iter().find(precise).or(looks.last())?;
    let span = &series.medians[start..start + made * every];
    Some((sign_interval(&trials(made))?, median(span)))
}

/// Share of starts with an interval that holds the median of its own span.
fn held(series: &Series) -> (f64, usize) {
    let runs: Vec<_> = (0..series.medians.len()).filter_map(|start| replay(series, start)).collect();
    let held = runs.iter().filter(|([low, high], truth)| low <= truth && truth <= high).count();
    (held as f64 / runs.len() as f64, runs.len())
}

#[test]
fn intervals_hold_the_median_of_their_own_span_in_real_series() {
    let all = read(include_str!("../fixtures/series.txt"));
    assert!(all.len() >= 6 && all.iter().all(|series| series.medians.len() >= 100), "{} series", all.len());
    let coverage: Vec<(String, f64, usize)> = all
        .iter()
        .map(|series| {
            let (share, runs) = held(series);
            (series.name.clone(), share, runs)
        })
        .collect();
    let share = coverage.iter().map(|(_, share, _)| share).sum::<f64>() / coverage.len() as f64;
    // Starts of one series overlap, so single series vary by more than independent runs would.
    assert!(share >= 0.93 && coverage.iter().all(|(_, share, _)| *share >= 0.85), "mean {share}: {coverage:?}");
}

#[test]
fn six_trials_in_a_row_do_not_hold_it() {
    // What the spacing is for: trials right after one another see one mood of the machine.
    let all = read(include_str!("../fixtures/series.txt"));
    let misses = |series: &Series| {
        let within = |start: usize| {
            let [low, high] = sign_interval(&series.medians[start..start + 6]).unwrap();
            let truth = median(&series.medians);
            low <= truth && truth <= high
        };
        let starts = series.medians.len() - 6;
        (0..starts).filter(|start| !within(*start)).count() as f64 / starts as f64
    };
    assert!(all.iter().any(|series| misses(series) > 0.2), "{:?}", all.iter().map(misses).collect::<Vec<_>>());
}
