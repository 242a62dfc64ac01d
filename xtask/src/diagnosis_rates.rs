//! How often `rankmark profile` names the right slow rank, and how often it names one where none is: real ranks and real
//! exchanges, with computation asleep, and delays that are injected.
//!
//! Not part of CI: it measures the machine. It is bounded: no run begins after `--minutes`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

const RANKS: usize = 4;
/// Time of a pass of a block. A step of the model has a dozen passes.
const PASS: &str = "300us";
/// Seconds of a run: half of them with samples, the others with batches that are recorded in turn.
const SECONDS: f64 = 4.0;
const PHASES: [&str; 5] = ["input", "forward", "backward", "optimizer", "host"];
/// Delays, in percent of a step.
const PERCENT: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
/// Jitter of a step, as the option takes it, and whether it has a heavy tail.
const JITTER: [(&str, &str, bool); 4] =
    [("1%", "0.01", false), ("5%", "0.05", false), ("15%", "0.15", false), ("1%, heavy tail", "0.01", true)];

/// What `cargo xtask diagnosis-rates` was asked for.
pub(crate) struct Options {
    /// Runs with a delay, and as many without.
    runs: usize,
    minutes: u64,
    folder: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `diagnosis-rates`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { runs: 300, minutes: 90, folder: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
            match *word {
                "--runs" => options.runs = number(value()?).ok_or("--runs takes a number from 1 on")?,
                "--minutes" => options.minutes = number(value()?).ok_or("--minutes takes a number from 1 on")? as u64,
                "--records" => options.folder = Some(PathBuf::from(value()?)),
                other => {
                    return Err(format!(
                        "unknown option `{other}`; valid options: --runs N, --minutes N, --records DIR"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// One run: what was injected.
#[derive(Clone, Copy, Debug)]
struct Planted {
    jitter: usize,
    /// Rank, phase and percent; None: nothing.
    delay: Option<(usize, usize, f64)>,
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
        let delay = (number % 2 == 0).then_some((at % RANKS, phase, percent));
        Planted { jitter, delay, seed }
    })
}

/// What was said of a run.
#[derive(Clone, Debug)]
struct Told {
    planted: Planted,
    rank: Option<u64>,
    phase: String,
    share: f64,
}

/// Makes the runs, and prints the tables. False where something failed.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    let folder = options.folder.clone().unwrap_or_else(|| std::env::temp_dir().join("rankmark-diagnosis-rates"));
    match rates(root, options, &folder) {
        Ok(told) => {
            print!("{}", tables(&told));
            true
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

fn rates(root: &Path, options: &Options, folder: &Path) -> Result<Vec<Told>, String> {
    let program = crate::compare_rates::built(root)?;
    let (begun, limit) = (Instant::now(), Duration::from_secs(60 * options.minutes));
    let mut told = Vec::new();
    for (number, planted) in planned(options.runs).enumerate() {
        if begun.elapsed() > limit {
            eprintln!("{} minutes are over: {number} of {} runs", options.minutes, 2 * options.runs);
            break;
        }
        told.push(one(&program, &folder.join(format!("run-{number:03}")), planted)?);
        if number % 10 == 9 {
            eprintln!("run {} of {}, {:.0} s", number + 1, 2 * options.runs, begun.elapsed().as_secs_f64());
        }
    }
    Ok(told)
}

fn one(program: &Path, record: &Path, planted: Planted) -> Result<Told, String> {
    if record.exists() {
        std::fs::remove_dir_all(record).map_err(|error| format!("{}: {error}", record.display()))?;
    }
    let (_, jitter, tail) = JITTER[planted.jitter];
    let mut command = Command::new(program);
    command.args(["profile", "--model", "gpt2-mini", "--json", "--compute", "sleep", "--sleep-time", PASS]);
    command.args(["--ranks", &RANKS.to_string(), "--sleep-jitter", jitter, "--seed", &planted.seed.to_string()]);
    command.args(["--duration", &format!("{SECONDS}s"), "--output-dir"]).arg(record);
    if tail {
        command.args(["--sleep-tail", "true"]);
    }
    if let Some((rank, phase, percent)) = planted.delay {
        command.args(["--inject", &format!("delay:rank={rank},phase={},percent={percent}", PHASES[phase])]);
    }
    let ended = command.output().map_err(|error| error.to_string())?;
    if !ended.status.success() {
        return Err(format!("{planted:?}: {}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr)));
    }
    let text = String::from_utf8_lossy(&ended.stdout);
    let profile = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let profile = profile.into_iter().find(|line| line["kind"] == "profile").ok_or("a run printed no profile")?;
    let _ = std::fs::remove_dir_all(record);
    let slow = &profile["straggler"];
    Ok(Told {
        planted,
        rank: slow["rank"].as_u64(),
        phase: slow["phase"].as_str().unwrap_or_default().to_owned(),
        share: slow["share"].as_f64().unwrap_or_default(),
    })
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

fn tables(told: &[Told]) -> String {
    let mut text =
        "| jitter | runs without a delay | a rank was named | rate is at most (95%) |\n|---|---|---|---|\n".to_owned();
    let without: Vec<&Told> = told.iter().filter(|one| one.planted.delay.is_none()).collect();
    let mut row = |name: &str, runs: &[&Told]| {
        let alarms = runs.iter().filter(|one| one.rank.is_some()).count();
        text += &format!("| {name} | {} | {alarms} | {:.1}% |\n", runs.len(), 100.0 * bound(alarms, runs.len()));
    };
    for (at, (name, ..)) in JITTER.iter().enumerate() {
        let of: Vec<&Told> = without.iter().copied().filter(|one| one.planted.jitter == at).collect();
        row(name, &of);
    }
    row("all", &without);
    text += "\n| jitter | delay | runs | right rank | right phase of these | median share found |\n|---|---|---|---|---|---|\n";
    let mut cells: BTreeMap<(usize, usize), Vec<&Told>> = BTreeMap::new();
    for one in told {
        let Some((_, _, percent)) = one.planted.delay else { continue };
        let delay = PERCENT.iter().position(|known| *known == percent).unwrap_or_default();
        cells.entry((one.planted.jitter, delay)).or_default().push(one);
    }
    for ((jitter, delay), runs) in cells {
        let planted = |one: &Told| one.planted.delay.unwrap_or_default();
        let right: Vec<&&Told> = runs.iter().filter(|one| one.rank == Some(planted(one).0 as u64)).collect();
        let phases = right.iter().filter(|one| one.phase == PHASES[planted(one).1]).count();
        let shares: Vec<f64> = right.iter().map(|one| 100.0 * one.share).collect();
        let share = if shares.is_empty() { "-".to_owned() } else { format!("{:.1}%", stats::median(&shares)) };
        let (name, percent) = (JITTER[jitter].0, PERCENT[delay]);
        text += &format!("| {name} | {percent}% | {} | {} | {phases} | {share} |\n", runs.len(), right.len());
    }
    text
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
            .filter_map(|one| one.delay.map(|(_, phase, percent)| (one.jitter, phase, (percent * 10.0) as u64)))
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
        let planted = Planted { jitter: 0, delay: Some((1, 2, 2.0)), seed: 1 };
        let told = [
            Told { planted, rank: Some(1), phase: "backward".to_owned(), share: 0.02 },
            Told { planted, rank: Some(2), phase: "backward".to_owned(), share: 0.02 },
            Told { planted: Planted { delay: None, ..planted }, rank: None, phase: String::new(), share: 0.0 },
        ];
        let text = tables(&told);
        assert!(text.contains("| 1% | 1 | 0 | 95.0% |") && text.contains("| 1% | 2% | 2 | 1 | 1 | 2.0% |"), "{text}");
    }
}
