//! What `rankmark profile` says of the PyTorch jobs of two folders, each with a fault that is planted, and without it: slow ranks,
//! pauses, shared cores, hangs, crashes and restarts.
//!
//! The files are not part of the repository: other people wrote them, and those who fix a verdict must not shape the jobs that judge
//! it. Not part of CI: it measures the machine, and needs torch.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::job_kinds::{self, Said};
use xtask::runs::{Given, cleared, head, printed, program};

/// A job that hangs is interrupted after so many seconds: it starts, trains for a moment, and ranks say where they are once none has
/// ended a step for 15 seconds.
const HUNG_S: &str = "50";
/// How `profile` ends: well, with a job that failed, or interrupted.
const CODES: [i32; 4] = [0, 1, 2, 130];

/// What is planted, and must be said.
#[derive(Clone, Copy)]
enum Planted {
    Slow(u64),
    Pauses(u64),
    /// Another process shares the core of rank 1.
    Busy,
    /// The job hangs, which one of these words explains.
    Hangs(&'static [&'static str]),
    /// The job fails, which all of these words explain.
    Fails(&'static [&'static str]),
}

use Planted::{Busy, Fails, Hangs, Pauses, Slow};

struct Job {
    /// The file, and what is given to it with the fault.
    words: &'static str,
    /// What is given to it without a fault; None: as with it.
    calm: Option<&'static str>,
    /// The ranks that torchrun starts. None: the job starts them.
    ranks: Option<u32>,
    planted: Planted,
    /// Words that explain how the job fails by itself in some runs, so that its fault does not show.
    own_end: Option<&'static str>,
}

const fn job(words: &'static str, planted: Planted) -> Job {
    Job { words, calm: None, ranks: Some(2), planted, own_end: None }
}

const fn given(words: &'static str, calm: &'static str, planted: Planted) -> Job {
    Job { calm: Some(calm), ..job(words, planted) }
}

const JOBS: [Job; 39] = [
    job("jobs4/compiled.py", Slow(1)),
    job("jobs4/dcp.py", Pauses(1)),
    job("jobs4/eval0.py", Pauses(0)),
    job("jobs4/gcp.py", Pauses(1)),
    job("jobs4/join.py", Slow(1)),
    job("jobs4/localsgd.py", Slow(1)),
    job("jobs4/nice.py", Busy),
    job("jobs4/optinbwd.py", Slow(1)),
    job("jobs4/pipeline.py", Slow(1)),
    // Gloo does not connect in some second attempts, without Rankmark, too.
    Job { own_end: Some("failed before its first step"), ..job("jobs4/restart.py", Slow(0)) },
    job("jobs4/sigstop.py", Pauses(1)),
    job("jobs4/tp.py", Slow(1)),
    job("jobs4/hang_leave.py", Hangs(&["rank 1 is in barrier (hang_leave.py"])),
    // gloo may end it before it hangs, in words that the job's output has.
    job(
        "jobs4/hang_mismatch.py",
        Hangs(&[
            "rank 0 is ahead",
            "rank 0 called all_reduce",
            "gloo ends a rank like this",
            "rank 0 is in all_reduce",
        ]),
    ),
    Job { ranks: Some(3), ..job("jobs4/hang_p2p.py", Hangs(&["rank 1 did not send to"])) },
    given("jobs/gan.py 1 8", "jobs/gan.py -1 0", Slow(1)),
    given("jobs/gcpause.py 1 12 300 90", "jobs/gcpause.py none 12 0 90", Pauses(1)),
    given("jobs/pipe.py --slow-rank 1 --ms 5", "jobs/pipe.py", Slow(1)),
    given("jobs/spawn.py 1", "jobs/spawn.py -1", Slow(1)).alone(),
    job("jobs/slow_input.py", Slow(1)).without_control(),
    job("jobs/noopt.py", Slow(1)).without_control(),
    given("jobs/waits.py --where gather --slow-rank 1", "jobs/waits.py --where gather", Slow(1)),
    given("jobs/waits.py --where bn --slow-rank 0 --phase input", "jobs/waits.py --where bn", Slow(0)),
    given("jobs/waits.py --where count --slow-rank 1 --phase input", "jobs/waits.py --where count", Slow(1)),
    given("jobs/waits.py --where barrier --slow-rank 1", "jobs/waits.py --where barrier", Slow(1)),
    given("jobs/waits.py --where metric --slow-rank 1 --phase after", "jobs/waits.py --where metric", Slow(1)),
    given("jobs/waits.py --where objects --slow-rank 1", "jobs/waits.py --where objects", Slow(1)),
    given("jobs/job.py --slow-rank 1 --phase input --ms 8", "jobs/job.py", Slow(1)),
    given("jobs/job.py --slow-rank 1 --phase forward --ms 8", "jobs/job.py --sgd", Slow(1)),
    given("jobs/job.py --slow-rank 0 --phase backward --ms 8 --clip", "jobs/job.py --clip", Slow(0)),
    given("jobs/job.py --slow-rank 1 --phase optimizer --ms 8", "jobs/job.py --scheduler", Slow(1)),
    given("jobs/job.py --slow-rank 1 --phase loader --workers 0 --ms 8", "jobs/job.py --workers 0", Slow(1)),
    given("jobs/job.py --strategy fsdp2 --slow-rank 1 --phase forward --ms 8", "jobs/job.py --strategy fsdp2", Slow(1)),
    given(
        "jobs/job.py --strategy manual --slow-rank 1 --phase forward --ms 8",
        "jobs/job.py --strategy manual",
        Slow(1),
    ),
    given(
        "jobs/job.py --accum 2 --no-sync --slow-rank 1 --phase forward --ms 8",
        "jobs/job.py --accum 2 --no-sync",
        Slow(1),
    ),
    given("jobs/job.py --ckpt-every 12", "jobs/job.py --eval-every 12", Pauses(0)),
    job("jobs/job.py --crash-at 40", Fails(&["rank 1 failed after step", "with runtimeerror: planted crash"]))
        .without_control(),
    job("jobs/job.py --kill-at 40", Fails(&["rank 1 was killed by sigkill after step"])).without_control(),
    job("jobs/job.py --hang-at 40", Hangs(&["rank 1"])).without_control(),
];

impl Job {
    const fn alone(mut self) -> Self {
        self.ranks = None;
        self
    }

    /// A job that has no form without the fault: the empty control is none.
    const fn without_control(mut self) -> Self {
        self.calm = Some("");
        self
    }

    /// What is given without a fault, where the job has that form. One that hangs has none.
    fn control(&self) -> Option<&'static str> {
        let can = !matches!(self.planted, Hangs(_) | Fails(_));
        Some(self.calm.unwrap_or(self.words)).filter(|words| can && !words.is_empty())
    }
}

/// How often each verdict was given.
#[derive(Clone, Copy, Default)]
struct Counts {
    jobs: usize,
    said: [usize; 3],
    controls: usize,
    accused: usize,
}

/// Runs the jobs, and prints the table. False where a healthy rank was accused.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let valid = "--folder DIR, --runs N, --controls N, --only PART OF A NAME, --python PATH, --program PATH";
    let given = Given::read(words, valid)?;
    let folder = given.path("--folder").ok_or("--folder DIR: the folder that has jobs and jobs4")?;
    let runs = given.number("--runs", 0, 5)?;
    let controls = given.number("--controls", 0, runs)?;
    let python = given.path("--python").unwrap_or_else(|| PathBuf::from("python3"));
    let only = given.text("--only").unwrap_or_default();
    let folder = std::path::absolute(folder).map_err(|error| error.to_string())?;
    let mut counts = [Counts::default(); JOBS.len()];
    let program = program(root, given.path("--program").as_deref())?;
    // Each round has all jobs: what disturbs the machine for minutes meets all kinds alike.
    for round in 0..runs.max(controls) {
        for (job, counts) in JOBS.iter().zip(&mut counts).filter(|(job, _)| job.words.contains(only)) {
            if round < runs {
                count(job, counts, &folder, (&program, &python))?;
            }
            if round < controls {
                count_control(job, counts, &folder, (&program, &python))?;
            }
        }
    }
    let wrong = counts.iter().any(|counts| counts.accused + counts.said[Said::Wrong as usize] > 0);
    Ok(printed(Ok(table(&counts))) && !wrong)
}

/// Runs a job with its fault.
fn count(job: &Job, counts: &mut Counts, folder: &Path, tools: (&Path, &Path)) -> Result<(), String> {
    let profile = profile(job, job.words, true, folder, tools)?;
    let verdict = match judged(&profile, job.planted) {
        Said::Silent if job.own_end.is_some_and(|words| shown(&profile).contains(words)) => Said::Right,
        verdict => verdict,
    };
    counts.jobs += 1;
    counts.said[verdict as usize] += 1;
    eprintln!("{}: {verdict:?}{}", job.words, if verdict == Said::Right { String::new() } else { named(&profile) });
    Ok(())
}

/// Runs a job without its fault, where it has that form.
fn count_control(job: &Job, counts: &mut Counts, folder: &Path, tools: (&Path, &Path)) -> Result<(), String> {
    let Some(words) = job.control() else { return Ok(()) };
    counts.controls += 1;
    let profile = profile(job, words, false, folder, tools)?;
    if job_kinds::said(&profile, None) == Said::Wrong {
        counts.accused += 1;
        eprintln!("{words}, without a fault: a rank was named{}", named(&profile));
    }
    Ok(())
}

/// Whom a profile names, to see why it did.
fn named(profile: &Value) -> String {
    let of = |name: &str| profile["analysis"][name].to_string();
    format!("; slow: {}; pauses: {}; disturbance: {}", of("stragglers"), of("pauses"), of("disturbance"))
}

fn judged(profile: &Value, planted: Planted) -> Said {
    let kind = match planted {
        Slow(rank) => job_kinds::Planted::Slow(rank),
        Pauses(rank) => job_kinds::Planted::Pauses(rank),
        Busy => job_kinds::Planted::Busy,
        Hangs(any) => return told(profile, |text| any.iter().any(|words| text.contains(words))),
        Fails(all) => return told(profile, |text| all.iter().all(|words| text.contains(words))),
    };
    job_kinds::said(profile, Some(kind))
}

/// The member of a profile that has the text for people, in one line.
const SHOWN: &str = "shown";

fn shown(profile: &Value) -> String {
    profile[SHOWN].as_str().unwrap_or_default().to_lowercase()
}

/// What is said of a job that did not end well, which begins with a capital in some places.
fn told(profile: &Value, is_right: impl Fn(&str) -> bool) -> Said {
    match (is_right(&shown(profile)), profile["analysis"]["stragglers"].as_array().is_some_and(|slow| !slow.is_empty()))
    {
        (true, _) => Said::Right,
        (false, false) => Said::Silent,
        (false, true) => Said::Wrong,
    }
}

/// The profile of one job.
fn profile(
    job: &Job,
    words: &str,
    is_faulty: bool,
    folder: &Path,
    (program, python): (&Path, &Path),
) -> Result<Value, String> {
    let place = std::env::temp_dir().join(format!("rankmark-job-files-{}", std::process::id()));
    std::fs::create_dir_all(cleared(&place)?).map_err(|error| format!("{}: {error}", place.display()))?;
    // `timeout` interrupts it as Ctrl-C would.
    let mut command = Command::new("timeout");
    let limit = if matches!(job.planted, Hangs(_)) { HUNG_S } else { "240" };
    command.args(["--preserve-status", "--signal=INT", limit]).arg(program);
    command.args(["profile", "--json", "--output-dir", "out", "--"]).arg(python);
    if let Some(ranks) = job.ranks {
        command.args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", &ranks.to_string()]);
        command.args(words.contains("restart").then_some(["--max-restarts", "1"]).iter().flatten());
    }
    let mut words = words.split(' ');
    command.arg(folder.join(words.next().unwrap_or_default())).args(words);
    command.current_dir(&place).env("OMP_NUM_THREADS", "1").env("FAULT", if is_faulty { "1" } else { "0" });
    let ended = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    if !ended.status.code().is_some_and(|code| CODES.contains(&code)) {
        return Err(format!("{command:?}: {}\n{said}", ended.status));
    }
    let lines = String::from_utf8_lossy(&ended.stdout).into_owned();
    let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut profile =
        lines.find(|line| line["kind"] == "profile").ok_or_else(|| format!("{command:?} printed no profile"))?;
    profile[SHOWN] = said.into();
    cleared(&place).map(|_| profile)
}

fn table(counts: &[Counts; JOBS.len()]) -> String {
    let mut text = head("| job | planted | jobs | right | silent | wrong | without it: wrong |");
    let mut all = Counts::default();
    for (job, of) in JOBS.iter().zip(counts).filter(|(_, of)| of.jobs + of.controls > 0) {
        text += &row(job.words, &planted_words(job.planted), of);
        all.jobs += of.jobs;
        all.controls += of.controls;
        all.accused += of.accused;
        for (sum, one) in all.said.iter_mut().zip(of.said) {
            *sum += one;
        }
    }
    text + &row("all", "", &all)
}

fn row(name: &str, planted: &str, of: &Counts) -> String {
    let [right, silent, wrong] = of.said;
    let controls = if of.controls == 0 { "-".to_owned() } else { format!("{} of {}", of.accused, of.controls) };
    format!("| `{name}` | {planted} | {} | {right} | {silent} | {wrong} | {controls} |\n", of.jobs)
}

fn planted_words(planted: Planted) -> String {
    match planted {
        Slow(rank) => format!("rank {rank} is slow"),
        Pauses(rank) => format!("rank {rank} pauses"),
        Busy => "another process shares the core of rank 1".to_owned(),
        Hangs(_) => "a hang".to_owned(),
        Fails(_) => "a rank fails".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hang_is_right_with_its_words_and_wrong_with_another_rank() {
        let found = |shown: &str, slow: Value| json!({SHOWN: shown, "analysis": {"stragglers": slow}});
        let planted = Hangs(&["rank 1 did not send to"]);
        let right = found("Rank 1 did not send to rank 2: rank 2 waits", json!([]));
        let [silent, wrong] = [json!([]), json!([{"rank": 0}])].map(|slow| found("ranks wait", slow));
        assert_eq!([&right, &silent, &wrong].map(|one| judged(one, planted)), [Said::Right, Said::Silent, Said::Wrong]);
        let fails = Fails(&["rank 1 was killed", "by sigkill"]);
        let of = |text: &str| judged(&json!({SHOWN: text, "analysis": {}}), fails);
        assert_eq!([of("Rank 1 was killed by SIGKILL"), of("Rank 1 failed")], [Said::Right, Said::Silent]);
    }
}
