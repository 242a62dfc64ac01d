//! Files that the ranks of a job wrote next to their traces: their steps, their ends, and what went wrong in them. Anybody may
//! have written such a file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use record::file::FileName;
use report::Ends;
use terms::outside;
use trace::timeline::{Recording, Timeline};

use crate::disturbance::MACHINE;
use crate::ends::{self, JOB_END, OwnEnd, RankFile};
use crate::spill::{self, Spill};

/// Most bytes of a file that a rank wrote. With many phases, its steps take 20 MB.
const LARGEST: u64 = 32 << 20;
/// How agents begin the reasons of jobs that ended too early.
const EARLY: [&str; 2] = ["no trace: the job ended after ", "no trace: no step was found"];

/// What the files of steps say of all ranks together.
#[derive(Default)]
pub(crate) struct JobSteps {
    /// Times of traced and of untraced steps: the slowest rank of each.
    pub(crate) recording: Option<Recording>,
    pub(crate) notes: Vec<String>,
    /// Steps of each rank's trace, and how long each waited for a processor.
    descheduled: Vec<(u32, Vec<(u32, u64)>)>,
    /// The steps of ranks, as far as these noted them.
    spills: Vec<Spill>,
    /// How the job ended.
    pub(crate) ends: Ends,
}

impl JobSteps {
    /// Tells a timeline what traces do not hold: how long steps waited for a processor, and the steps of ranks without a trace.
    /// Gives whether there is such a rank.
    pub(crate) fn complete(&mut self, timeline: &mut Option<Timeline>) -> bool {
        let of_spills = spill::complete(timeline, &self.spills);
        let is_partial = !of_spills.is_empty();
        self.notes.extend(of_spills);
        let Some(timeline) = timeline else { return is_partial };
        // The trace of a job without torch.distributed does not say that there is no other rank.
        timeline.world = timeline.world.or_else(|| self.spills.iter().filter_map(|spill| spill.world).max());
        for (rank, steps) in &self.descheduled {
            if let Some(own) = timeline.ranks.iter_mut().find(|own| own.rank == *rank) {
                own.descheduled.clone_from(steps);
            }
        }
        is_partial
    }
}

impl StepFile {
    /// What it says of the rank's end.
    fn end(&self) -> RankFile {
        let last_step = self.steps_ended.and_then(|ended| ended.checked_sub(1));
        RankFile { rank: self.rank, pid: self.pid, end: self.ended.clone(), trace: self.trace.clone(), last_step }
    }

    /// Steps by number, each with the nanoseconds that it waited for a processor.
    fn descheduled(&self) -> Option<Vec<(u32, u64)>> {
        let (first, waited) = (self.first_traced_step?, self.traced_descheduled_s.as_ref()?);
        // The file may say anything: numbers that go on past the last one are left out.
        let numbers = (first..=u32::MAX).zip(waited);
        Some(numbers.map(|(number, seconds)| (number, (seconds * 1e9) as u64)).collect())
    }
}

/// A rank's file of steps, as far as it is needed.
#[derive(serde::Deserialize)]
struct StepFile {
    rank: u32,
    #[serde(default)]
    untraced_step_s: Vec<f64>,
    #[serde(default)]
    traced_step_s: Vec<f64>,
    #[serde(default)]
    first_traced_step: Option<u32>,
    #[serde(default)]
    traced_descheduled_s: Option<Vec<f64>>,
    #[serde(default)]
    trace: Option<String>,
    #[serde(default)]
    window_unix_s: Option<[f64; 2]>,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    pid: Option<u64>,
    #[serde(default)]
    ended: Option<OwnEnd>,
    #[serde(default)]
    restarts: u32,
    #[serde(default)]
    steps_ended: Option<u32>,
}

/// Reads the times of steps that ranks wrote. What cannot be read is left out with a note: the traces are what counts.
pub(crate) fn steps(traces: &Path) -> JobSteps {
    let (mut files, mut notes) = (Vec::<StepFile>::new(), Vec::new());
    for (name, text) in texts(traces, "steps-", ".json") {
        match record::from_json(&text) {
            Ok(file) => files.push(file),
            Err(error) => notes.push(format!("{name} is left out: {error}")),
        }
    }
    let spills: Vec<Spill> = texts(traces, "spill-", ".jsonl").filter_map(|(_, text)| Spill::read(&text)).collect();
    let launchers: Vec<String> = texts(traces, "launcher-", ".json").map(|(_, text)| text).collect();
    let of_ranks: Vec<RankFile> = files.iter().map(StepFile::end).collect();
    let mut ends = ends::from_files(&of_ranks, &spills, &launchers, ends::job_end(traces));
    let others = texts(traces, "other-", ".json").count();
    if others > 0 {
        let process = if others == 1 { "another process trains" } else { "other processes train" };
        notes.push(format!(
            "{process} in this job and {} not shown: without RANK, the first one is",
            if others == 1 { "is" } else { "are" }
        ));
    }
    let again = texts(traces, "again-", ".json").filter_map(|(_, text)| record::from_json::<StepFile>(&text).ok());
    let again: Vec<(u32, RankFile)> = again.map(|file| (file.restarts, file.end())).collect();
    let restarts = restarts(&files, &spills);
    if restarts > 0 {
        let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
        notes.push(format!("the launcher restarted the ranks {times}: this is the last attempt"));
    }
    ends.sentences.extend(ends::again(&again, restarts));
    let slowest = |times: fn(&StepFile) -> &Vec<f64>| -> Vec<f64> {
        let steps = files.iter().map(|file| times(file).len()).min().unwrap_or(0);
        let longest = |step: usize| files.iter().map(|file| times(file)[step]).fold(0.0, f64::max);
        (0..steps).map(longest).filter(|seconds| seconds.is_finite()).collect()
    };
    let recording = Recording {
        with_s: slowest(|file| &file.traced_step_s),
        without_s: slowest(|file| &file.untraced_step_s),
        span_ns: None,
    };
    let of_ranks = files.iter().flat_map(|file| file.notes.iter().map(|note| (file.rank, note.clone())));
    let (reasons, others) = ends::without_trace(of_ranks.collect());
    // Of a job that failed, that is why.
    let is_said = |reason: &String| ends.is_failed && EARLY.iter().any(|early| reason.contains(early));
    let reasons: Vec<String> = reasons.into_iter().filter(|reason| !is_said(reason)).collect();
    ends.sentences.extend(reasons);
    notes.extend(others);
    let descheduled = files.iter().filter_map(|file| Some((file.rank, file.descheduled()?))).collect();
    // nsys records all of the job: no step is without it.
    let is_known = !files.is_empty() && files.iter().all(|file| file.trace.as_deref() != Some("nsys"));
    JobSteps { notes, descheduled, spills, ends, recording: is_known.then_some(recording) }
}

/// How often the launcher had restarted the ranks before the last attempt that ended a step. A rank may have been killed before it
/// wrote its file of steps.
fn restarts(files: &[StepFile], spills: &[Spill]) -> u32 {
    files.iter().map(|file| file.restarts).chain(spills.iter().map(|spill| spill.restarts)).max().unwrap_or(0)
}

/// What went wrong in the ranks while they were traced: the last line of each.
pub(crate) fn complaints(traces: &Path) -> Vec<String> {
    let last = |(name, text): (String, String)| {
        Some(format!("{name}: {}", outside::text(text.lines().rev().find(|line| !line.is_empty())?)))
    };
    texts(traces, "error-", ".txt").filter_map(last).collect()
}

/// The traces and dumps of a folder; other files tell of the job.
pub(crate) fn traces(traces: &Path) -> Vec<PathBuf> {
    const KINDS: [&str; 6] = [".json.gz", ".json", ".pickle", ".sqlite", ".log", ".gz"];
    const OURS: [&str; 7] = ["steps-", "again-", "error-", "launcher-", "other-", JOB_END, MACHINE];
    let entries = traces.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let is_trace = |path: &PathBuf| {
        let Some(name) = path.file_name().and_then(OsStr::to_str).filter(|name| !name.starts_with('.')) else {
            return false;
        };
        KINDS.iter().any(|kind| name.ends_with(kind)) && !OURS.iter().any(|ours| name.starts_with(ours))
    };
    let mut files: Vec<PathBuf> = entries.filter(is_trace).collect();
    files.sort();
    files
}

/// The job's command.
pub(crate) fn title(traces: &Path) -> String {
    let command = texts(traces, "command", ".txt").next().map(|(_, text)| text.trim().to_owned());
    command.filter(|command| !command.is_empty()).unwrap_or_else(|| traces.display().to_string())
}

/// Files of this folder with such a beginning and end of their names, by name. Anybody may have written them.
fn texts(folder: &Path, begin: &str, end: &str) -> impl Iterator<Item = (String, String)> {
    use std::io::Read;
    let names =
        folder.read_dir().into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(begin) && name.ends_with(end)).collect();
    names.sort();
    let folder = folder.to_owned();
    names.into_iter().filter_map(move |name| {
        let mut text = String::new();
        let file = record::file::open_inside(&folder, &FileName::checked(&name)?).ok()?;
        file.take(LARGEST).read_to_string(&mut text).ok()?;
        Some((name, text))
    })
}

/// When each rank recorded, as its file of steps says.
pub(crate) fn windows(traces: &Path) -> Vec<Option<[f64; 2]>> {
    let files = texts(traces, "steps-", ".json").filter_map(|(_, text)| record::from_json::<StepFile>(&text).ok());
    files.map(|file| file.window_unix_s).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Helpers of a rank may have said that there is this attempt, and that no step ended.
    #[test]
    fn an_attempt_that_was_killed_after_a_step_is_known() {
        let head = r#"{"rank":0,"world":2,"pid":7,"window":[10,60],"restarts":2}"#;
        let killed = Spill::read(&format!("{head}\n[1,2000,1000,0,[]]")).unwrap();
        assert_eq!(restarts(&[], &[killed]), 2);
        let before = record::from_json(r#"{"rank":0,"restarts":1}"#).unwrap();
        assert_eq!([restarts(&[before], &[]), restarts(&[], &[])], [1, 0]);
    }
}
