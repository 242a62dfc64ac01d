//! `cargo xtask bounds`: what the largest plans and records cost, measured on this machine and compared with what is
//! promised. `figures` shows the same on its page. Processor time is judged, because other programs hardly change it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::experiments;

/// Cases of the plans that are checked: as many as a plan may stand for.
const PLANNED: usize = 20_000;
/// Cases of the record that is reported.
const REPORTED: usize = 100_000;
/// Seconds that commands may take that go over all cases of a plan or of a record, of [`PLANNED`] cases.
const OVERVIEW: Most = Most { seconds: 3.0, megabytes: 500.0 };
/// Cases of the pages that are written, each with the most seconds that it may take.
const PAGES: [(usize, f64); 2] = [(5_000, 1.0), (20_000, 3.0)];

/// How often the memory of a program is read: its peak is kept by the kernel, and lost only with the process.
const LOOK: Duration = Duration::from_millis(5);

/// One promise and what was measured.
pub(crate) struct Bound {
    pub(crate) what: String,
    pub(crate) command: String,
    pub(crate) cost: Cost,
    most: Most,
}

/// What a command took.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// Seconds that a user waited.
    pub(crate) wall: f64,
    /// Seconds of all its threads on processors.
    pub(crate) processor: f64,
    /// The most memory that it held.
    pub(crate) megabytes: f64,
}

/// What a command may take.
#[derive(Clone, Copy)]
struct Most {
    /// Of a processor.
    seconds: f64,
    megabytes: f64,
}

impl Bound {
    fn holds(&self) -> bool {
        self.cost.processor <= self.most.seconds && self.cost.megabytes <= self.most.megabytes
    }

    fn line(&self) -> String {
        let (cost, most) = (self.cost, self.most);
        let word = if self.holds() { "holds" } else { "MISSED" };
        format!(
            "{word:<6}  {}: {:.2} s of a processor (at most {:.0}), {:.0} MB (at most {:.0}), {:.2} s in all   {}",
            self.what, cost.processor, most.seconds, cost.megabytes, most.megabytes, cost.wall, self.command
        )
    }
}

/// Builds, measures and prints. False where a bound is missed.
pub(crate) fn run(root: &Path) -> bool {
    match build(root).and_then(|()| measure(root, &std::env::temp_dir().join("rankmark-bounds"))) {
        Ok(bounds) => {
            bounds.iter().for_each(|bound| println!("{}", bound.line()));
            bounds.iter().all(Bound::holds)
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

/// Builds what is measured.
fn build(root: &Path) -> Result<(), String> {
    experiments::build(root, &["-p", "rankmark"])?;
    experiments::build(root, &["-p", "rankmark-report", "--example", "large"])
}

/// Measures what is built. Plans and records go below `folder`.
///
/// # Errors
/// What could not be written or run.
pub(crate) fn measure(root: &Path, folder: &Path) -> Result<Vec<Bound>, String> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let built = crate::test::target(root).join("release");
    let mut bounds = Vec::new();
    for (name, text) in plans() {
        let plan = folder.join(format!("{name}.yaml"));
        std::fs::write(&plan, text).map_err(failed)?;
        let words = ["run", &plan.display().to_string(), "--dry-run"].map(str::to_owned);
        bounds.push(Bound {
            what: format!("{PLANNED} cases of a plan shown ({name})"),
            command: format!("rankmark run {name}.yaml --dry-run"),
            // With exit code 2 something that all cases need is missing on this machine.
            cost: cost(&built.join("rankmark"), &words, &[0, 2])?,
            most: OVERVIEW,
        });
        let words = ["validate", "--quick", "--plan", &plan.display().to_string()].map(str::to_owned);
        bounds.push(Bound {
            what: format!("a plan of {PLANNED} cases checked ({name})"),
            command: format!("rankmark validate --quick --plan {name}.yaml"),
            // With 1 it says that something of this machine is misconfigured, which does not concern the plan.
            cost: cost(&built.join("rankmark"), &words, &[0, 1])?,
            most: Most { seconds: 2.0, megabytes: 500.0 },
        });
    }
    let large = built.join("examples/large");
    for (cases, seconds) in PAGES {
        let record = folder.join(format!("page-{cases}")).display().to_string();
        cost(&large, &[record.clone(), cases.to_string()], &[0])?;
        let words = ["report", &record, "--format", "html"].map(str::to_owned);
        bounds.push(Bound {
            what: format!("an HTML page of {cases} cases written"),
            command: format!("rankmark report DIR --format html (made by the example large with {cases})"),
            cost: cost(&built.join("rankmark"), &words, &[0])?,
            most: Most { seconds, megabytes: 500.0 },
        });
    }
    let record = folder.join(format!("page-{PLANNED}")).display().to_string();
    for words in [&["history", &record][..], &["watch", &record, "--once"], &["list", "records", &record]] {
        let shown: Vec<&str> = words.iter().map(|word| if *word == record { "DIR" } else { word }).collect();
        bounds.push(Bound {
            what: format!("a record of {PLANNED} cases: {}", words[0]),
            command: format!("rankmark {} (made by the example large with {PLANNED})", shown.join(" ")),
            cost: cost(
                &built.join("rankmark"),
                &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(),
                // With 1 it says that cases of the record failed.
                &[0, 1],
            )?,
            most: OVERVIEW,
        });
    }
    let record = folder.join("large").display().to_string();
    cost(&large, &[record.clone(), REPORTED.to_string()], &[0])?;
    let words = ["compare", &record, &record].map(str::to_owned);
    bounds.push(Bound {
        what: format!("records of {REPORTED} cases compared"),
        command: format!("rankmark compare DIR DIR (made by the example large with {REPORTED})"),
        // With 1 and 3 it says what it found.
        cost: cost(&built.join("rankmark"), &words, &[0, 1, 3])?,
        most: Most { seconds: 60.0, megabytes: 1000.0 },
    });
    bounds.push(Bound {
        what: format!("a report of {REPORTED} cases written"),
        command: format!("cargo run --release -p rankmark-report --example large -- DIR (made with {REPORTED})"),
        cost: cost(&large, &[record], &[0])?,
        most: Most { seconds: 20.0, megabytes: 400.0 },
    });
    Ok(bounds)
}

/// Plans by name: calls, calls of every backend, training.
fn plans() -> [(&'static str, String); 3] {
    let plan = |fields: &str, seeds: usize| {
        let seeds: Vec<String> = (0..seeds).map(|seed| seed.to_string()).collect();
        format!("experiment: many\ncases:\n  - {{{fields}, seed: [{}]}}\n", seeds.join(", "))
    };
    let bytes = "bytes: [1KiB, 2KiB, 4KiB, 8KiB, 16KiB]";
    [
        (
            "calls",
            plan(
                &format!("benchmark: collective, op: [all_reduce, all_gather, broadcast, reduce], ranks: 2, {bytes}"),
                PLANNED / 20,
            ),
        ),
        (
            "backends",
            plan(
                &format!("benchmark: collective, op: all_reduce, backend: [shm, mpi, nccl, sim], ranks: 2, {bytes}"),
                PLANNED / 20,
            ),
        ),
        (
            "training",
            plan("benchmark: training, model: mlp, ranks: [1, 2], batch: [1, 2], overlap: [true, false]", PLANNED / 8),
        ),
    ]
}

/// Runs a program, which must end with one of these codes.
fn cost(program: &PathBuf, words: &[String], codes: &[i32]) -> Result<Cost, String> {
    let failed = |error: io::Error| format!("{}: {error}", program.display());
    let (begun, before) = (Instant::now(), children_s().map_err(failed)?);
    let mut child = Command::new(program).args(words).stdout(Stdio::null()).spawn().map_err(failed)?;
    let mut kilobytes = 0;
    let ended = loop {
        kilobytes = peak(child.id()).unwrap_or(0).max(kilobytes);
        if let Some(ended) = child.try_wait().map_err(failed)? {
            break ended;
        }
        std::thread::sleep(LOOK);
    };
    let (wall, processor) = (begun.elapsed().as_secs_f64(), children_s().map_err(failed)? - before);
    match ended.code() {
        Some(code) if codes.contains(&code) => Ok(Cost { wall, processor, megabytes: kilobytes as f64 / 1000.0 }),
        _ => Err(format!("`{} {}` ended with {ended}", program.display(), words.join(" "))),
    }
}

/// Seconds that children which have ended spent on processors. Only one is measured at a time.
fn children_s() -> io::Result<f64> {
    /// The kernel's for all programs.
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold anything: cutime and cstime are the 16th and 17th member (proc_pid_stat(5)).
    let members = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(13).take(2);
    Ok(members.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_A_SECOND)
}

/// The most that a process has held, in kilobytes.
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_stand_for_as_many_cases_as_they_say() {
        for (name, text) in plans() {
            let lists = text.split('[').skip(1).map(|rest| rest.split(']').next().unwrap_or("").split(',').count());
            assert_eq!(lists.product::<usize>(), PLANNED, "{name}");
        }
    }

    #[test]
    fn a_missed_bound_is_said() {
        // What a busy machine makes a user wait is shown, and not judged.
        let bound = |processor| Bound {
            what: "x".to_owned(),
            command: "y".to_owned(),
            cost: Cost { wall: 60.0, processor, megabytes: 1.0 },
            most: Most { seconds: 2.0, megabytes: 1.0 },
        };
        assert!(bound(2.0).holds() && bound(2.0).line().starts_with("holds "));
        assert!(!bound(2.1).holds() && bound(2.1).line().starts_with("MISSED"));
    }

    #[test]
    fn what_a_program_holds_is_seen() {
        let words = ["-c", "sleep 0.1; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3"].map(str::to_owned);
        let measured = cost(&PathBuf::from("/bin/sh"), &words, &[3]).unwrap();
        let Cost { wall, processor, megabytes } = measured;
        assert!(wall >= 0.1 && processor >= 0.01 && megabytes > 0.1, "{wall} s, {processor} s, {megabytes} MB");
        assert!(cost(&PathBuf::from("/bin/sh"), &words, &[0]).is_err());
    }
}
