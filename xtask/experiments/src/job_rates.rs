//! How often `rankmark profile` names the right slow rank of PyTorch jobs with one more exchange in each step: real jobs, with
//! computation asleep, and delays that are planted.
//!
//! Not part of CI: it measures the machine, and needs torch.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::runs::{self, Given, cleared, head, printed, program};

/// The job of each rank.
const JOB: &str = "xtask/jobs/exchanges.py";
/// What a step exchanges besides gradients.
const EXCHANGES: [&str; 7] = ["none", "gather", "buffers", "count", "barrier", "metric", "objects"];
/// Where the slow rank sleeps.
const PHASES: [&str; 3] = ["before", "forward", "after"];
const RANKS: u64 = 2;
/// A step sleeps for 10 ms on all ranks, so this is more than a quarter of it.
const SLOW_MS: &str = "8";
const PAUSE_EVERY: &str = "10";

/// What was asked for.
struct Options {
    /// Runs of each exchange and phase, and as many without a delay.
    runs: usize,
    python: PathBuf,
    /// None: the release build, which is made.
    program: Option<PathBuf>,
}

/// What is planted in one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    Slow {
        rank: u64,
        phase: &'static str,
    },
    /// Rank 0 pauses in each tenth step.
    Pauses,
}

/// What was said of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    jobs: usize,
    right: usize,
    wrong: usize,
    /// Nobody was named, with a bound on what any rank loses.
    cleared: usize,
    unclear: usize,
}

impl Counts {
    /// Counts what was said of a job with this slow rank.
    fn add(&mut self, profile: &Value, slow: Option<u64>, planted: Planted) {
        let analysis = &profile["analysis"];
        let named = match planted {
            Planted::Pauses => &analysis["pauses"]["who"]["rank"],
            _ => &profile["straggler"]["rank"],
        };
        let others =
            analysis["stragglers"].as_array().is_some_and(|all| all.iter().any(|one| one["rank"].as_u64() != slow));
        self.jobs += 1;
        match named.as_u64() {
            _ if others => self.wrong += 1,
            Some(rank) if Some(rank) == slow => self.right += 1,
            Some(_) => self.wrong += 1,
            None if analysis["straggler_at_most"].is_number() => self.cleared += 1,
            None => self.unclear += 1,
        }
    }

    fn row(&self, name: &str, planted: &str) -> String {
        let Self { jobs, right, wrong, cleared, unclear } = self;
        format!("| {name} | {planted} | {jobs} | {right} | {wrong} | {cleared} | {unclear} |\n")
    }
}

/// Runs the jobs, and prints the table. False where something failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--runs N, --python PATH, --program PATH")?;
    let runs = given.number("--runs", 0, 2)?;
    let python = given.path("--python").unwrap_or_else(|| PathBuf::from("python3"));
    Ok(printed(table(root, &Options { runs, python, program: given.path("--program") })))
}

fn table(root: &Path, options: &Options) -> Result<String, String> {
    let program = program(root, options.program.as_deref())?;
    let jobs = (&program, &options.python);
    let mut text =
        head("| one more exchange | planted | jobs | right rank | other rank | nobody, with a bound | no verdict |");
    for exchange in EXCHANGES {
        let (mut slow, mut healthy) = (Counts::default(), Counts::default());
        for run in 0..options.runs {
            for (at, phase) in PHASES.into_iter().enumerate() {
                let rank = (run + at) as u64 % RANKS;
                let planted = Planted::Slow { rank, phase };
                slow.add(&profile(root, jobs, (exchange, planted))?, Some(rank), planted);
            }
            healthy.add(&profile(root, jobs, (exchange, Planted::Nothing))?, None, Planted::Nothing);
        }
        text += &slow.row(exchange, &format!("{SLOW_MS} ms"));
        text += &healthy.row(exchange, "nothing");
        eprintln!("{exchange}: {slow:?}, without a delay {healthy:?}");
    }
    let mut pauses = Counts::default();
    for _ in 0..options.runs {
        pauses.add(&profile(root, jobs, ("none", Planted::Pauses))?, Some(0), Planted::Pauses);
    }
    text += &pauses.row("none", "300 ms in each tenth step");
    Ok(text)
}

/// The profile of one job.
fn profile(
    root: &Path,
    (program, python): (&PathBuf, &PathBuf),
    (exchange, planted): (&str, Planted),
) -> Result<Value, String> {
    let folder = std::env::temp_dir().join(format!("rankmark-job-rates-{}", std::process::id()));
    let mut command = Command::new(program);
    command.current_dir(root).args(["profile", "--json", "--output-dir"]).arg(cleared(&folder)?).arg("--").arg(python);
    command.args(["-m", "torch.distributed.run", "--nproc-per-node", &RANKS.to_string(), JOB, "--exchange", exchange]);
    match planted {
        Planted::Nothing => {}
        Planted::Slow { rank, phase } => {
            command.args(["--slow-rank", &rank.to_string(), "--slow-ms", SLOW_MS, "--phase", phase]);
        }
        Planted::Pauses => {
            command.args(["--pause-every", PAUSE_EVERY]);
        }
    }
    let profile = runs::profile(command.env("OMP_NUM_THREADS", "1"))?;
    cleared(&folder).map(|_| profile)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_said_is_counted_once() {
        let slow = Planted::Slow { rank: 1, phase: "before" };
        let said = |rank: Value, others: Value, bound: Value| json!({"straggler": rank, "analysis": {"stragglers": others, "straggler_at_most": bound}});
        let mut counts = Counts::default();
        counts.add(&said(json!({"rank": 1}), json!([{"rank": 1}]), Value::Null), Some(1), slow);
        counts.add(&said(json!({"rank": 1}), json!([{"rank": 1}, {"rank": 0}]), Value::Null), Some(1), slow);
        counts.add(&said(json!({"rank": 0}), json!([{"rank": 0}]), Value::Null), Some(1), slow);
        counts.add(&said(Value::Null, json!([]), json!(0.01)), Some(1), slow);
        counts.add(&said(Value::Null, json!([]), Value::Null), Some(1), slow);
        assert_eq!(counts, Counts { jobs: 5, right: 1, wrong: 2, cleared: 1, unclear: 1 });
        assert_eq!(counts.row("none", "8 ms"), "| none | 8 ms | 5 | 1 | 2 | 1 | 1 |\n");
    }

    #[test]
    fn a_pause_names_its_rank() {
        let profile = json!({"straggler": null, "analysis": {"pauses": {"who": {"rank": 0}}, "stragglers": []}});
        let mut counts = Counts::default();
        counts.add(&profile, Some(0), Planted::Pauses);
        assert_eq!(counts, Counts { jobs: 1, right: 1, ..Counts::default() });
    }
}
