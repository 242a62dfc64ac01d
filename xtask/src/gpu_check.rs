//! What GPUs do, on a machine that has one: commands of the product on the GPU, and what each must answer. Writes one file for each
//! command and a table of all.
//!
//! Each check ends by itself: one that cannot start is a failed row. Rows are on disk as they end, and the order ([`stages`]) is such that
//! a machine that is taken away early has decided the most. All of it ends after `--minutes`, and says what it left out.
//!
//! Not part of CI: it needs a GPU, and for some checks a Python with torch.

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::gpu_model;
use crate::runs::{Given, printed, program};

mod answers;
mod checks;
mod execute;
mod peer;
mod products;
mod profiles;
mod rows;
mod stages;
mod training;
mod units;

use execute::{Ended, execute, keep};
use rows::{Outcome, Rows};
use training::{Training, beside};
use units::Unit;

/// Past this a command is ended. The longest, all primitives, takes about a minute.
const LIMIT: Duration = Duration::from_secs(180);

const VALID: &str = "--python PATH, --program PATH, --out DIR, --only NAME,..., --nccl-tests PATH, --minutes N, --sanitizer PATH, --model PATH";

/// What was asked for.
struct Options {
    python: PathBuf,
    /// None: the release build, which is made.
    program: Option<PathBuf>,
    out: PathBuf,
    /// all_reduce_perf of nccl-tests, to measure beside native ranks.
    nccl_tests: Option<PathBuf>,
    /// compute-sanitizer.
    sanitizer: PathBuf,
    /// The example `gpu_model`. None: the release build, which is made.
    model: Option<PathBuf>,
    /// All checks together take no longer.
    minutes: usize,
    /// Only checks with one of these in their names.
    only: Vec<String>,
}

impl Options {
    fn read(root: &Path, words: &[&str]) -> Result<Self, String> {
        let given = Given::read(words, VALID)?;
        Ok(Self {
            python: given.path("--python").unwrap_or_else(|| PathBuf::from("python3")),
            program: given.path("--program"),
            out: given.path("--out").unwrap_or_else(|| root.join("results/gpu-check")),
            nccl_tests: given.path("--nccl-tests"),
            sanitizer: given.path("--sanitizer").unwrap_or_else(|| PathBuf::from("compute-sanitizer")),
            model: given.path("--model"),
            minutes: given.number("--minutes", 1, 8)?,
            only: given.text("--only").map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        })
    }

    fn wants(&self, unit: &Unit) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| unit.name.contains(part.as_str()))
    }
}

/// What checks run with.
struct Run<'a> {
    root: &'a Path,
    program: &'a Path,
    python: &'a Path,
    sanitizer: &'a Path,
    peer: Option<&'a Path>,
    out: &'a Path,
    /// When all must have ended.
    end: Instant,
    /// How long each command of the check that runs may take.
    limit: Cell<Duration>,
}

impl Run<'_> {
    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Runs a command and keeps what it printed below this name.
    ///
    /// # Errors
    /// It could not start, or its words could not be kept.
    fn execute(&self, name: &str, words: &[String]) -> Result<Ended, String> {
        // Of an earlier run.
        let record = self.record(name);
        if record.is_dir() {
            std::fs::remove_dir_all(&record).map_err(|error| format!("{}: {error}", record.display()))?;
        }
        let ended = execute(self.root, words, self.limit.get().min(self.left()))?;
        keep(&self.out.join(format!("{name}.txt")), words, &ended)?;
        Ok(ended)
    }

    /// Where a command leaves its record.
    fn record(&self, name: &str) -> PathBuf {
        self.out.join("records").join(name)
    }
}

/// Runs the checks and prints the table. False where one did not answer as it must.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let options = Options::read(root, words)?;
    let mut passed = false;
    let table = table(root, &options).map(|(text, all)| {
        passed = all;
        text
    });
    Ok(printed(table) && passed)
}

fn table(root: &Path, options: &Options) -> Result<(String, bool), String> {
    let program = program(root, options.program.as_deref())?;
    let out = &options.out;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let model = options.model.clone().map_or_else(|| gpu_model::program(root), Ok);
    // Building the programs takes none of the time.
    let end = Instant::now() + Duration::from_secs(60 * options.minutes as u64);
    let run = Run {
        root,
        program: &program,
        python: &options.python,
        sanitizer: &options.sanitizer,
        peer: options.nccl_tests.as_deref(),
        out,
        end,
        limit: Cell::new(LIMIT),
    };
    let path = out.join("checks.md");
    let machine = Machine::of(&run);
    let mut rows = Rows::new(&path, &machine.to_string())?;
    let model = model.and_then(|model| beside::modelled(&model, &machine.gpu()?));
    let mut training = Training::new(&run, model);
    for unit in units::all(run.peer.is_some()).iter().filter(|unit| options.wants(unit)) {
        let begun = Instant::now();
        let left = run.left().as_secs();
        run.limit.set(limit(unit));
        let outcome = match left < unit.seconds {
            true => Outcome::LeftOut(format!("it takes about {} s, and {left} s are left", unit.seconds)),
            false => unit.work.run(&run, &mut training),
        };
        let names = (unit.stage.name(), unit.name.as_str(), unit.command.as_str());
        rows.add(names, outcome, begun.elapsed().as_secs_f64())?;
    }
    let passed = rows.end(&training.text())?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((text, passed))
}

/// How long a command of a check may take: one that hangs must not use up the time of all.
fn limit(unit: &Unit) -> Duration {
    Duration::from_secs((4 * unit.seconds).max(30)).min(LIMIT)
}

/// What other programs say of the machine, or why they do not. Containers may have neither, or refuse what they need.
struct Machine {
    smi: Result<String, String>,
    sanitizer: Result<String, String>,
}

impl Machine {
    fn of(run: &Run<'_>) -> Self {
        let of = |words: &[&str]| -> Result<String, String> {
            let name = words[0];
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match execute(run.root, &words, Duration::from_secs(20)) {
                Err(why) => Err(format!("none ({why})")),
                Ok(ended) if ended.code != Some(0) => Err(format!("of no use ({name}: {})", ended.last_words())),
                Ok(ended) => Ok(ended.standard.lines().next().unwrap_or("it says nothing").trim().to_owned()),
            }
        };
        Self {
            smi: of(&["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
            sanitizer: of(&[&run.sanitizer.display().to_string(), "--version"]),
        }
    }

    /// What the GPU calls itself.
    fn gpu(&self) -> Result<String, String> {
        let smi = self.smi.as_ref().map_err(|why| format!("nvidia-smi: {why}"))?;
        Ok(smi.split(',').next().unwrap_or(smi).to_owned())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |answer: &Result<String, String>| answer.clone().unwrap_or_else(|why| why);
        write!(to, "nvidia-smi: {}\n\ncompute-sanitizer: {}", said(&self.smi), said(&self.sanitizer))
    }
}

fn answered(answer: Result<String, String>) -> Outcome {
    answer.map_or_else(Outcome::Failed, Outcome::Passed)
}

#[cfg(test)]
mod tests;
