//! What `rankmark profile` says of PyTorch jobs of many kinds, each with a fault that is planted, and without it: the right rank,
//! nobody, or another one.
//!
//! Not part of CI: it measures the machine, and needs torch.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::runs::{self, Given, cleared, head, printed, program};

/// The job of each rank.
const JOB: &str = "python/tests/job_kinds.py";
const STEPS: &str = "90";
/// Each activation sleeps so long, in seconds, and that of rank 1 longer.
const WORK_S: &str = "0.012";
const SLOW_S: &str = "0.008";

/// What is planted, and must be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// This rank is slower in each step.
    Slow(u64),
    /// This rank pauses in some steps.
    Pauses(u64),
    /// Rank 1 waits for its processor: no rank is slow.
    Busy,
}

impl Planted {
    fn words(self) -> &'static str {
        match self {
            Self::Slow(_) => "rank 1 is slow in forward",
            Self::Pauses(0) => "rank 0 alone evaluates",
            Self::Pauses(_) => "checkpoints of rank 1 take longer",
            Self::Busy => "another process shares the core of rank 1",
        }
    }
}

const KINDS: [(&str, Planted); 15] = [
    ("ddp", Planted::Slow(1)),
    ("hooks_of_ddp", Planted::Slow(1)),
    ("in_backward", Planted::Slow(1)),
    ("fsdp1", Planted::Slow(1)),
    ("fsdp2", Planted::Slow(1)),
    ("tensor_parallel", Planted::Slow(1)),
    ("pipeline", Planted::Slow(1)),
    ("compiled", Planted::Slow(1)),
    ("zero", Planted::Slow(1)),
    ("join", Planted::Slow(1)),
    ("accumulated", Planted::Slow(1)),
    ("local_sgd", Planted::Slow(1)),
    ("evaluation", Planted::Pauses(0)),
    ("checkpoints", Planted::Pauses(1)),
    ("shared_core", Planted::Busy),
];

/// What was said of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Right,
    Silent,
    Wrong,
}

/// Judges a profile. Without a fault, nobody may be named.
pub(crate) fn said(profile: &Value, planted: Option<Planted>) -> Said {
    let analysis = &profile["analysis"];
    let ranks = |list: &Value| -> Vec<u64> {
        list.as_array().into_iter().flatten().filter_map(|one| one["rank"].as_u64()).collect()
    };
    let (slow, busy) = (ranks(&analysis["stragglers"]), ranks(&analysis["busy"]));
    let pauses = analysis["pauses"]["who"]["rank"].as_u64();
    let is_of_pauses = |rank: u64| planted == Some(Planted::Pauses(rank));
    let is_slow = |rank: u64| planted == Some(Planted::Slow(rank));
    // A rank that pauses may also be late in some steps, and a slow one may pause.
    let accused = slow.iter().any(|rank| !is_slow(*rank) && !is_of_pauses(*rank))
        || pauses.is_some_and(|rank| !is_of_pauses(rank) && !is_slow(rank));
    let is_right = match planted {
        None => true,
        Some(Planted::Slow(rank)) => slow == [rank],
        Some(Planted::Pauses(rank)) => pauses == Some(rank) || slow == [rank],
        Some(Planted::Busy) => busy == [1] || slow.is_empty() && is_said(analysis, "busy_machine"),
    };
    match (accused, is_right) {
        (true, _) => Said::Wrong,
        (false, true) => Said::Right,
        (false, false) => Said::Silent,
    }
}

fn is_said(analysis: &Value, kind: &str) -> bool {
    analysis["findings"].as_array().into_iter().flatten().any(|finding| finding["kind"] == kind)
}

/// Runs the jobs, and prints the table. False where a healthy rank was accused.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--runs N, --only PART OF A KIND, --python PATH, --program PATH")?;
    let runs = given.number("--runs", 0, 5)?;
    let python = given.path("--python").unwrap_or_else(|| PathBuf::from("python3"));
    let only = given.text("--only").unwrap_or_default().to_owned();
    let program = given.path("--program");
    let mut wrong = 0;
    let table = table(root, (runs, &only), (program.as_deref(), &python), &mut wrong);
    Ok(printed(table) && wrong == 0)
}

fn table(
    root: &Path,
    (runs, only): (usize, &str),
    (given, python): (Option<&Path>, &Path),
    wrong: &mut usize,
) -> Result<String, String> {
    let program = program(root, given)?;
    let mut text = head("| kind of job | planted | jobs | right | silent | wrong | without it: wrong |");
    for (kind, planted) in KINDS.into_iter().filter(|(kind, _)| kind.contains(only)) {
        let (mut with, mut without) = ([0; 3], 0);
        for _ in 0..runs {
            with[said(&profile(root, (&program, python), kind, Some(planted))?, Some(planted)) as usize] += 1;
            without += usize::from(said(&profile(root, (&program, python), kind, None)?, None) == Said::Wrong);
        }
        let [right, silent, accused] = with;
        *wrong += accused + without;
        text += &format!(
            "| {kind} | {} | {runs} | {right} | {silent} | {accused} | {without} of {runs} |\n",
            planted.words()
        );
        eprintln!("{kind}: {right} right, {silent} silent, {accused} wrong; without a fault {without} wrong");
    }
    Ok(text)
}

/// The profile of one job.
fn profile(
    root: &Path,
    (program, python): (&Path, &Path),
    kind: &str,
    planted: Option<Planted>,
) -> Result<Value, String> {
    let folder = std::env::temp_dir().join(format!("rankmark-job-kinds-{}", std::process::id()));
    let mut command = Command::new(program);
    command.current_dir(root).args(["profile", "--json", "--output-dir"]).arg(cleared(&folder)?).arg("--").arg(python);
    command.args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", JOB, kind, STEPS]);
    command.env("OMP_NUM_THREADS", "1").env("WORK_S", WORK_S);
    match planted {
        Some(Planted::Slow(_)) => command.env("SLOW_S", SLOW_S),
        Some(Planted::Pauses(_) | Planted::Busy) => command.env("FAULT", "1"),
        None => &mut command,
    };
    let profile = runs::profile(&mut command)?;
    cleared(&folder).map(|_| profile)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(stragglers: Value, busy: Value, pauses: Value) -> Value {
        json!({"analysis": {"stragglers": stragglers, "busy": busy, "pauses": pauses, "findings": []}})
    }

    #[test]
    fn an_accused_rank_is_wrong_and_silence_is_not() {
        let (none, pauses) = (|| found(json!([]), json!([]), Value::Null), |rank: u64| json!({"who": {"rank": rank}}));
        let slow = |rank: u64| found(json!([{"rank": rank}]), json!([]), Value::Null);
        assert_eq!([said(&none(), None), said(&slow(1), None)], [Said::Right, Said::Wrong]);
        let of_slow = [&none(), &slow(1), &slow(0)].map(|profile| said(profile, Some(Planted::Slow(1))));
        assert_eq!(of_slow, [Said::Silent, Said::Right, Said::Wrong]);
        let of = |rank: u64| found(json!([]), json!([]), pauses(rank));
        let of_pauses = [&none(), &of(0), &of(1)].map(|profile| said(profile, Some(Planted::Pauses(0))));
        assert_eq!(of_pauses, [Said::Silent, Said::Right, Said::Wrong]);
        let busy = found(json!([]), json!([{"rank": 1}]), Value::Null);
        assert_eq!([said(&busy, Some(Planted::Busy)), said(&slow(1), Some(Planted::Busy))], [Said::Right, Said::Wrong]);
    }
}
