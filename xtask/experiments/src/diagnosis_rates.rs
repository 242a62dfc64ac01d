//! How often `rankmark profile` names the right slow rank, and how often it names one where none is: real ranks and real
//! exchanges, with computation asleep, and delays that are injected.
//!
//! Not part of CI: it measures the machine. It is bounded: no run begins after `--minutes`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use xtask::runs::{Given, cleared, head, is_late, median_percent, printed, profile, program};

const RANKS: usize = 4;
/// A model of one narrow layer: what its ranks exchange takes no time, so that four of them share two cores without delays. A
/// pass takes long for the same reason: ranks that wake up together wait for a core for some microseconds each time.
const MODEL: &[&str] = &[
    "--model",
    "gpt2-mini",
    "--layers",
    "1",
    "--width",
    "32",
    "--heads",
    "2",
    "--vocabulary",
    "64",
    "--sequence",
    "16",
];
const PASS: &str = "1500us";
/// Seconds of a run. Twenty steps find out how long a step takes; half of the time makes steps, and half of these are
/// recorded: about 200.
const SECONDS: f64 = 10.0;
const SAMPLED: &str = "steps=20";
const PHASES: [&str; 5] = ["input", "forward", "backward", "optimizer", "host"];
/// Delays, in percent of a step.
const PERCENT: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
/// Jitter of a step, as the option takes it, and whether it has a heavy tail.
const JITTER: [(&str, &str, bool); 4] =
    [("1%", "0.01", false), ("5%", "0.05", false), ("15%", "0.15", false), ("1%, heavy tail", "0.01", true)];

/// Which ranks are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    One,
    /// One rank and the rank after it, as long.
    Two,
    /// Each rank in turn, in every second step.
    Rotating,
}

/// Most jobs have one slow rank, so most runs do.
const WHO: [Who; 5] = [Who::One, Who::Two, Who::One, Who::Rotating, Who::One];

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::One => "one rank",
            Self::Two => "two ranks",
            Self::Rotating => "rotating",
        }
    }
}

/// What was injected.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Delay {
    who: Who,
    rank: usize,
    phase: usize,
    percent: f64,
}

impl Delay {
    fn ranks(&self) -> Vec<usize> {
        match self.who {
            Who::One => vec![self.rank],
            Who::Two => vec![self.rank, (self.rank + 1) % RANKS],
            Who::Rotating => (0..RANKS).collect(),
        }
    }

    /// The delay as `--inject` takes it, once for each rank.
    fn injections(&self) -> Vec<String> {
        let one = |(turn, rank): (usize, usize)| {
            let (phase, percent) = (PHASES[self.phase], self.percent);
            let turns =
                if self.who == Who::Rotating { format!(",at={},every={}", 2 * turn, 2 * RANKS) } else { String::new() };
            format!("delay:rank={rank},phase={phase},percent={percent}{turns}")
        };
        self.ranks().into_iter().enumerate().map(one).collect()
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Planted {
    jitter: usize,
    /// None: nothing.
    delay: Option<Delay>,
    seed: u64,
}

/// The runs in their order: every jitter, phase and delay in turn, and a run without a delay after each.
fn planned(runs: usize) -> impl Iterator<Item = Planted> {
    (0..2 * runs).map(|number| {
        let (at, seed) = (number / 2, 1 + number as u64);
        let jitter = at % JITTER.len();
        let percent = PERCENT[at / JITTER.len() % PERCENT.len()];
        // The phase goes on with each round through delays, so that all meet.
        let phase = (at / JITTER.len() + at / (JITTER.len() * PERCENT.len())) % PHASES.len();
        let delay = Delay { who: WHO[(at + at / WHO.len()) % WHO.len()], rank: at / 3 % RANKS, phase, percent };
        Planted { jitter, delay: (number % 2 == 0).then_some(delay), seed }
    })
}

/// The verdict on a run, and what was planted in it.
#[derive(Clone, Debug)]
struct RunVerdict {
    planted: Planted,
    rank: Option<u64>,
    phase: String,
    share: f64,
    rotates: bool,
    /// Whether there is no verdict.
    abstains: bool,
    /// No rank loses more than this, where none is slow.
    at_most: Option<f64>,
}

/// Makes the runs, and prints the tables. False where something failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--runs N, --minutes N, --records DIR")?;
    // Runs with a delay, and as many without.
    let (runs, minutes) = (given.number("--runs", 1, 300)?, given.number("--minutes", 1, 90)?);
    let verdicts = rates(root, (runs, minutes), &given.records("diagnosis-rates"));
    Ok(printed(verdicts.map(|verdicts| tables(&verdicts))))
}

fn rates(root: &Path, (runs, minutes): (usize, usize), folder: &Path) -> Result<Vec<RunVerdict>, String> {
    let program = program(root, None)?;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let begun = Instant::now();
    let mut verdicts = Vec::new();
    for (number, planted) in planned(runs).enumerate() {
        if is_late(begun, Some(minutes)) {
            eprintln!("{minutes} minutes are over: {number} of {} runs", 2 * runs);
            break;
        }
        verdicts.push(one(&program, folder, number, planted)?);
        if number % 10 == 9 {
            eprintln!("run {} of {}, {:.0} s", number + 1, 2 * runs, begun.elapsed().as_secs_f64());
        }
    }
    Ok(verdicts)
}

/// What was said of one run. Its profile is kept in a file, so that the experiment can be ended and carried on.
fn one(program: &Path, folder: &Path, number: usize, planted: Planted) -> Result<RunVerdict, String> {
    let kept = folder.join(format!("profile-{number:03}.json"));
    let text = match std::fs::read_to_string(&kept) {
        Ok(text) => text,
        Err(_) => {
            let text = profiled(program, &folder.join(format!("run-{number:03}")), planted)?.to_string();
            std::fs::write(&kept, &text).map_err(|error| format!("{}: {error}", kept.display()))?;
            text
        }
    };
    let profile: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", kept.display()))?;
    let (slow, analysis) = (&profile["straggler"], &profile["analysis"]);
    Ok(RunVerdict {
        planted,
        rank: slow["rank"].as_u64(),
        phase: slow["phase"].as_str().unwrap_or_default().to_owned(),
        share: slow["share"].as_f64().unwrap_or_default(),
        rotates: !analysis["rotating"].is_null(),
        abstains: !analysis["straggler_abstains"].is_null(),
        at_most: analysis["straggler_at_most"].as_f64(),
    })
}

/// The profile of a run. Its record is not kept.
fn profiled(program: &Path, record: &Path, planted: Planted) -> Result<Value, String> {
    let (_, jitter, tail) = JITTER[planted.jitter];
    let mut command = Command::new(program);
    command.arg("profile").args(MODEL).args(["--json", "--compute", "sleep", "--sleep-time", PASS, "--set", SAMPLED]);
    command.args(["--ranks", &RANKS.to_string(), "--sleep-jitter", jitter, "--seed", &planted.seed.to_string()]);
    command.args(["--duration", &format!("{SECONDS}s"), "--output-dir"]).arg(cleared(record)?);
    if tail {
        command.args(["--sleep-tail", "true"]);
    }
    for injection in planted.delay.iter().flat_map(Delay::injections) {
        command.args(["--inject", &injection]);
    }
    let profile = profile(&mut command)?;
    cleared(record).map(|_| profile)
}

/// The most that a rate can be at 95%, one-sided, where `k` of `n` were seen: Clopper and Pearson, Biometrika 26 (1934), by
/// bisection of the binomial's lower tail.
fn bound(k: usize, n: usize) -> f64 {
    if n == 0 || k == n {
        return 1.0;
    }
    let tail = |p: f64| {
        let (mut term, mut sum) = ((1.0 - p).powi(n as i32), 0.0);
        for i in 0..=k {
            sum += term;
            term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1.0 - 1e-12);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if tail(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// Runs with a delay, by who is delayed and by jitter.
type Cells<'t> = BTreeMap<(Who, usize), Vec<(&'t RunVerdict, Delay)>>;

fn tables(verdicts: &[RunVerdict]) -> String {
    let mut cells = Cells::new();
    for one in verdicts {
        if let Some(delay) = one.planted.delay {
            cells.entry((delay.who, one.planted.jitter)).or_default().push((one, delay));
        }
    }
    let without: Vec<&RunVerdict> = verdicts.iter().filter(|one| one.planted.delay.is_none()).collect();
    [accused(&without), found(&cells), shares(&cells)].join("\n")
}

/// The verdicts on runs without a delay.
fn accused(without: &[&RunVerdict]) -> String {
    let mut text = head(
        "| jitter | runs without a delay | a rank was named | at most (95%) | called rotating | no verdict | \
         median bound of the others |",
    );
    let mut row = |name: &str, runs: &[&RunVerdict]| {
        let count = |of: fn(&RunVerdict) -> bool| runs.iter().filter(|one| of(one)).count();
        let (named, rotates, abstains) =
            (count(|one| one.rank.is_some()), count(|one| one.rotates), count(|one| one.abstains));
        let bounds: Vec<f64> = runs.iter().filter_map(|one| one.at_most).collect();
        let most = 100.0 * bound(named, runs.len());
        let runs = runs.len();
        text += &format!(
            "| {name} | {runs} | {named} | {most:.1}% | {rotates} | {abstains} | {} |\n",
            median_percent(&bounds)
        );
    };
    for (at, (name, ..)) in JITTER.iter().enumerate() {
        let of: Vec<&RunVerdict> = without.iter().copied().filter(|one| one.planted.jitter == at).collect();
        row(name, &of);
    }
    row("all", without);
    text
}

/// One column a delay.
fn heading(first: &str, last: &str) -> String {
    let delays = PERCENT.map(|percent| format!(" {percent}% |")).concat();
    head(&format!("{first}{delays}{last}"))
}

/// Which delays were found: one row for who is delayed and jitter.
fn found(cells: &Cells<'_>) -> String {
    let mut text = heading("| delayed | jitter |", " right phase | other rank named |");
    for ((who, jitter), runs) in cells {
        text += &format!("| {} | {} |", who.name(), JITTER[*jitter].0);
        for percent in PERCENT {
            let of = || runs.iter().filter(|(_, delay)| delay.percent == percent);
            let (found, all) = (of().filter(|(one, delay)| is_found(one, delay)).count(), of().count());
            text += &if all == 0 { " - |".to_owned() } else { format!(" {found} of {all} |") };
        }
        let named: Vec<_> = runs.iter().filter_map(|(one, delay)| Some((one, delay, one.rank? as usize))).collect();
        let (right, other): (Vec<_>, Vec<_>) = named.iter().partition(|(_, delay, rank)| delay.ranks().contains(rank));
        let phases = right.iter().filter(|(one, delay, _)| one.phase == PHASES[delay.phase]).count();
        text += &match who {
            Who::Rotating => format!(" - | {} |\n", named.len()),
            _ => format!(" {phases} of {} | {} |\n", right.len(), other.len()),
        };
    }
    text
}

/// What one slow rank loses, as planted and as the median of the verdicts that name it has it.
fn shares(cells: &Cells<'_>) -> String {
    // The delay makes the step longer, too.
    let planted = PERCENT.map(|percent| format!(" {:.1}% |", 100.0 * percent / (100.0 + percent))).concat();
    let mut text = format!("{}| planted |{planted}\n", heading("| jitter |", ""));
    for (jitter, (name, ..)) in JITTER.iter().enumerate() {
        let runs = cells.get(&(Who::One, jitter)).map_or(&[][..], Vec::as_slice);
        text += &format!("| {name} |");
        for percent in PERCENT {
            let of = runs.iter().filter(|(one, delay)| delay.percent == percent && is_found(one, delay));
            let shares: Vec<f64> = of.map(|(one, _)| one.share).collect();
            text += &format!(" {} |", median_percent(&shares));
        }
        text.push('\n');
    }
    text
}

/// Whether it was said what is true.
fn is_found(one: &RunVerdict, delay: &Delay) -> bool {
    match delay.who {
        Who::Rotating => one.rotates,
        _ => one.rank.is_some_and(|rank| delay.ranks().contains(&(rank as usize))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jitter_delay_and_phase_meets_and_half_of_the_runs_have_no_delay() {
        let all: Vec<Planted> = planned(140).collect();
        assert_eq!(all.iter().filter(|one| one.delay.is_none()).count(), 140);
        let mut seen: Vec<(usize, usize, u64)> = all
            .iter()
            .filter_map(|one| one.delay.map(|delay| (one.jitter, delay.phase, (delay.percent * 10.0) as u64)))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), JITTER.len() * PHASES.len() * PERCENT.len());
    }

    #[test]
    fn bounds_are_those_of_the_binomial() {
        // The rule of three, and a value of a table: 2 of 100.
        assert!((bound(0, 300) - 0.009_94).abs() < 1e-4, "{}", bound(0, 300));
        assert!((bound(2, 100) - 0.061_6).abs() < 1e-3, "{}", bound(2, 100));
        assert_eq!(bound(3, 3), 1.0);
    }

    #[test]
    fn tables_count_what_was_said() {
        let delay = Delay { who: Who::Two, rank: 3, phase: 2, percent: 2.0 };
        let planted = Planted { jitter: 0, delay: Some(delay), seed: 1 };
        let slow = RunVerdict {
            planted,
            rank: Some(0),
            phase: "backward".to_owned(),
            share: 0.02,
            rotates: false,
            abstains: false,
            at_most: None,
        };
        let nothing = Planted { delay: None, ..planted };
        let verdicts = [
            slow.clone(),
            RunVerdict { rank: Some(2), ..slow.clone() },
            RunVerdict { planted: nothing, rank: None, at_most: Some(0.012), ..slow.clone() },
        ];
        let text = tables(&verdicts);
        assert!(text.contains("| 1% | 1 | 0 | 95.0% | 0 | 0 | 1.2% |"), "{text}");
        assert!(text.contains("| two ranks | 1% | - | - | 1 of 2 | - | - | - | - | 1 of 1 | 1 |"), "{text}");
    }

    #[test]
    fn delays_rotate_over_ranks_and_steps() {
        let delay = Delay { who: Who::Rotating, rank: 0, phase: 0, percent: 10.0 };
        let all = delay.injections();
        assert_eq!(all.len(), RANKS);
        assert_eq!(all[3], "delay:rank=3,phase=input,percent=10,at=6,every=8");
        let two = Delay { who: Who::Two, rank: 3, ..delay };
        assert_eq!(two.injections(), ["delay:rank=3,phase=input,percent=10", "delay:rank=0,phase=input,percent=10"]);
    }
}
