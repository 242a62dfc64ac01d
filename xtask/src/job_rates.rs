//! How often `rankmark profile` names the right slow rank of PyTorch jobs with one more exchange in each step: real jobs, with
//! computation asleep, and delays that are planted.
//!
//! Not part of CI: it measures the machine, and needs torch.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

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

/// What `cargo xtask job-rates` was asked for.
pub(crate) struct Options {
    /// Runs of each exchange and phase, and as many without a delay.
    runs: usize,
    python: PathBuf,
    /// None: the release build, which is made.
    program: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `job-rates`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { runs: 2, python: PathBuf::from("python3"), program: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            match *word {
                "--runs" => options.runs = value.parse().map_err(|_| "--runs takes a number".to_owned())?,
                "--python" => options.python = PathBuf::from(value),
                "--program" => options.program = Some(PathBuf::from(value)),
                other => {
                    let valid = "--runs N, --python PATH, --program PATH";
                    return Err(format!("unknown option `{other}`; valid options: {valid}"));
                }
            }
        }
        Ok(options)
    }
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
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    match table(root, options) {
        Ok(text) => {
            print!("{text}");
            true
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

fn table(root: &Path, options: &Options) -> Result<String, String> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => crate::compare_rates::built(root)?,
    };
    let mut text =
        "| one more exchange | planted | jobs | right rank | other rank | nobody, with a bound | no verdict |\n\
                    |---|---|---|---|---|---|---|\n"
            .to_owned();
    for exchange in EXCHANGES {
        let (mut slow, mut healthy) = (Counts::default(), Counts::default());
        for run in 0..options.runs {
            for (at, phase) in PHASES.into_iter().enumerate() {
                let rank = (run + at) as u64 % RANKS;
                let planted = Planted::Slow { rank, phase };
                slow.add(&profile(root, &program, options, (exchange, planted))?, Some(rank), planted);
            }
            healthy.add(&profile(root, &program, options, (exchange, Planted::Nothing))?, None, Planted::Nothing);
        }
        text += &slow.row(exchange, &format!("{SLOW_MS} ms"));
        text += &healthy.row(exchange, "nothing");
        eprintln!("{exchange}: {slow:?}, without a delay {healthy:?}");
    }
    let mut pauses = Counts::default();
    for _ in 0..options.runs {
        pauses.add(&profile(root, &program, options, ("none", Planted::Pauses))?, Some(0), Planted::Pauses);
    }
    text += &pauses.row("none", "300 ms in each tenth step");
    Ok(text)
}

/// The profile of one job.
fn profile(
    root: &Path,
    program: &Path,
    options: &Options,
    (exchange, planted): (&str, Planted),
) -> Result<Value, String> {
    let folder = std::env::temp_dir().join(format!("rankmark-job-rates-{}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(program);
    command.current_dir(root).args(["profile", "--json", "--output-dir"]).arg(&folder).arg("--").arg(&options.python);
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
    let ended = command.env("OMP_NUM_THREADS", "1").output().map_err(|error| error.to_string())?;
    if !ended.status.success() {
        return Err(format!("{exchange}, {planted:?}: {}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr)));
    }
    let _ = std::fs::remove_dir_all(&folder);
    let text = String::from_utf8_lossy(&ended.stdout);
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find(|line| line["kind"] == "profile").ok_or_else(|| "a job printed no profile".to_owned())
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
