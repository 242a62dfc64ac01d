//! Another program's job, traced from inside: Python finds our `sitecustomize` first, which starts the PyTorch profiler in
//! each rank. With `--tool nsys`, nsys runs around the whole job instead, and ranks tell it their steps and phases.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process::child::Ended;
use record::file::{FileName, HeldFolder, InnerPath, Whereabouts};
use report::Ends;
use terms::{Error, Seconds, outside};
use trace::timeline::{Recording, Timeline};

use super::disturbance::{self, MACHINE, MachineWatch};
use super::ends::{self, JOB_END, JobEnd, OwnEnd, RankFile};
use super::explain;
use super::hang_watch::HangWatch;
use super::spill::{self, Spill};
use super::wanted::Wanted;
use crate::options::Output;
use crate::session::directory;
use crate::{Failure, environment, screen};

/// The files that Python is to find, by name.
const AGENT: [(&str, &str); 8] = [
    ("sitecustomize.py", include_str!("../../../rankmark_profile/sitecustomize.py")),
    ("rankmark_profile_agent.py", include_str!("../../../rankmark_profile/rankmark_profile_agent.py")),
    ("rankmark_profile_ends.py", include_str!("../../../rankmark_profile/rankmark_profile_ends.py")),
    ("rankmark_profile_hang.py", include_str!("../../../rankmark_profile/rankmark_profile_hang.py")),
    ("rankmark_profile_nvtx.py", include_str!("../../../rankmark_profile/rankmark_profile_nvtx.py")),
    ("rankmark_profile_spill.py", include_str!("../../../rankmark_profile/rankmark_profile_spill.py")),
    ("rankmark_profile_torch.py", include_str!("../../../rankmark_profile/rankmark_profile_torch.py")),
    ("rankmark_profile_window.py", include_str!("../../../rankmark_profile/rankmark_profile_window.py")),
];
/// Folder of these files, and of what ranks write, inside the result's.
const AGENT_FOLDER: &str = "agent";
const TRACES: &str = "trace";
/// Most bytes of a small file that a rank wrote.
const LARGEST: u64 = 4 << 20;
/// Steps that are traced when nobody says: after the job has warmed up, and enough to judge ranks by.
const STEPS: &str = "10:60";
/// How agents begin the reasons of jobs that ended too early.
const EARLY: [&str; 2] = ["no trace: the job ended after ", "no trace: no step was found"];
/// A rank without a step for so long writes down where it is.
const HANG_SECONDS: &str = "15";

/// How a job is traced.
pub(super) struct Asked<'a> {
    pub(super) nsys: bool,
    pub(super) steps: Option<String>,
    pub(super) duration: Option<Seconds>,
    pub(super) output: &'a Output,
}

/// Runs the job, and explains the traces of its ranks. Gives the job's own exit code if that is not zero.
pub(super) fn run(words: &[OsString], asked: &Asked<'_>, wanted: &Wanted) -> Result<u8, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new("there is no command after `--`"))?;
    let given = asked.output.output_dir.as_deref();
    let name = wanted.labels.name.as_deref().unwrap_or("profile");
    let folder = directory::choose(given, (jiff::Timestamp::now(), name), false)?;
    let traces = folder.join(TRACES);
    if folder.join("run.json").exists() {
        let hint = "name a folder of its own, or leave --output-dir out";
        return Err(Failure::new(format!("{} is a record already", folder.display())).hint(hint));
    }
    refuse_old(&traces)?;
    // Ctrl-C ends the job; what its ranks wrote by then is explained.
    process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    let kills_before = measure::machine::out_of_memory_kills();
    let mut machine = MachineWatch::new();
    let ended = match asked.nsys {
        true => with_nsys(program, arguments, &folder, (asked, wanted), &mut machine)?,
        false => {
            let variables = agent(program, arguments, &folder, asked)?;
            end_of(program, arguments, &variables, (&traces, wanted), &mut machine)?
        }
    };
    let disturbance = machine.disturbance(disturbance::common_window(&windows(&traces)));
    let mut job_end = JobEnd::from_ended(&ended, crate::session::signal_code().is_some());
    let kills = measure::machine::out_of_memory_kills().zip(kills_before);
    job_end.oom_kills = kills.map_or(0, |(now, before)| now.saturating_sub(before));
    note(&folder, JOB_END, &job_end)?;
    disturbance.map_or(Ok(()), |found| note(&folder, MACHINE, &found))?;
    // What the user asked for says more than how the job then ended.
    let ended = crate::session::signal_code().unwrap_or_else(|| job_end.shell_code());
    let explained = match explain::job(&folder, &traces, wanted) {
        // The job's own end explains why there is nothing to explain.
        Err(failure) if ended != 0 => {
            let how = format!("the job ended with code {ended} before its ranks wrote traces");
            let failure = Failure::new(how).cause(failure.on_one_line());
            return Err(match crate::session::signal_code() {
                Some(code) => failure.with_code(code),
                None => failure,
            });
        }
        explained => explained?,
    };
    Ok(if ended != 0 { ended } else { explained })
}

/// Writes a file of a folder of the result.
fn write(result: &Path, folder: &'static str, name: &'static str, text: &str) -> std::io::Result<()> {
    let path = InnerPath::within(FileName::literal(folder), FileName::literal(name));
    record::file::replace(result, &path, &FileName::literal(".new"), text.as_bytes())
}

/// Notes something of the whole job next to the traces, for later analyses.
fn note(folder: &Path, name: &'static str, what: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(what).unwrap_or_default();
    write(folder, TRACES, name, &text)
        .map_err(|error| Failure::new(format!("{} cannot be written", folder.display())).cause(error))
}

/// When each rank recorded, as its file of steps says.
fn windows(traces: &Path) -> Vec<Option<[f64; 2]>> {
    let files = texts(traces, "steps-", ".json").filter_map(|(_, text)| record::from_json::<StepFile>(&text).ok());
    files.map(|file| file.window_unix_s).collect()
}

/// Traces of another job must not be taken for this one's.
fn refuse_old(traces: &Path) -> Result<(), Failure> {
    let is_empty = traces.read_dir().map_or(true, |mut entries| entries.next().is_none());
    match is_empty {
        true => Ok(()),
        false => {
            let hint = "name a new folder, or leave --output-dir out";
            Err(Failure::new(format!("{} holds traces already", traces.display())).hint(hint))
        }
    }
}

/// Puts the agent where Python finds it. Gives the variables that the job needs.
fn agent(
    program: &OsStr,
    arguments: &[OsString],
    folder: &Path,
    asked: &Asked<'_>,
) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{} cannot be written", folder.display())).cause(error);
    for (name, text) in AGENT {
        write(folder, AGENT_FOLDER, name, text).map_err(failed)?;
    }
    // Ranks only write where there is a folder.
    write(folder, TRACES, "command.txt", &shown(program, arguments)).map_err(failed)?;
    let folder = std::path::absolute(folder).map_err(failed)?;
    let mut path = folder.join(AGENT_FOLDER).into_os_string();
    if let Some(own) = environment::variable("PYTHONPATH").filter(|own| !own.is_empty()) {
        path.push(":");
        path.push(own);
    }
    let mut variables = vec![
        ("PYTHONPATH", path),
        ("RANKMARK_PROFILE_DIR", folder.join(TRACES).into_os_string()),
        ("RANKMARK_PROFILE_HANG_SECONDS", HANG_SECONDS.into()),
    ];
    match (&asked.steps, asked.duration) {
        (None, Some(Seconds(seconds))) => variables.push(("RANKMARK_PROFILE_SECONDS", seconds.to_string().into())),
        (steps, _) => variables.push(("RANKMARK_PROFILE_STEPS", steps.as_deref().unwrap_or(STEPS).into())),
    }
    Ok(variables)
}

/// Runs the job under nsys. Ranks that are Python with torch tell it their steps.
fn with_nsys(
    program: &OsStr,
    arguments: &[OsString],
    folder: &Path,
    (asked, wanted): (&Asked<'_>, &Wanted),
    machine: &mut MachineWatch,
) -> Result<Ended, Failure> {
    let nsys = process::first_program(&environment::search_path(), "nsys").ok_or_else(|| {
        Failure::new("nsys is not installed")
            .cause("no program `nsys` is on PATH")
            .hint("install NVIDIA Nsight Systems, or leave --tool out: the PyTorch profiler traces the job")
    })?;
    let mut variables = agent(program, arguments, folder, asked)?;
    variables.push(("RANKMARK_PROFILE_TOOL", "nsys".into()));
    let traces = folder.join(TRACES);
    let report = traces.join("job.nsys-rep");
    let mut words: Vec<OsString> =
        ["profile", "-s", "none", "--trace-fork-before-exec=true", "-o"].map(Into::into).into();
    words.extend([report.clone().into_os_string(), program.to_owned()]);
    words.extend(arguments.iter().cloned());
    let ended = end_of(nsys.as_os_str(), &words, &variables, (&traces, wanted), machine)?;
    let export = ["export", "--type", "sqlite", "-o"].map(Into::into).into_iter();
    let files = [traces.join("job.sqlite").into_os_string(), report.into_os_string()];
    let words: Vec<OsString> = export.chain(files).collect();
    let exported = end_of(nsys.as_os_str(), &words, &[], (&traces, wanted), machine)?;
    // Where the job itself failed, its own code says more.
    match (exported, ended) {
        (Ended::Code(0), ended) => Ok(ended),
        (exported, Ended::Code(0)) => {
            let code = JobEnd::from_ended(&exported, false).shell_code();
            Err(Failure::new(format!("`nsys export` ended with code {code}")))
        }
        (_, ended) => Ok(ended),
    }
}

/// Runs a program in the terminal, says so when its ranks hang, and gives its end. With `--json`, what it prints goes to standard error, so that standard output holds JSON alone.
fn end_of(
    program: &OsStr,
    arguments: &[OsString],
    variables: &[(&str, OsString)],
    (traces, wanted): (&Path, &Wanted),
    machine: &mut MachineWatch,
) -> Result<Ended, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{} cannot be opened", traces.display())).cause(error);
    let folder = HeldFolder::open(traces).map_err(failed)?;
    let mut watch = HangWatch::new(traces);
    let mut lost: Option<Error> = None;
    let output = if wanted.json { std::io::stderr().into() } else { Stdio::inherit() };
    let mut look = || {
        watch.look();
        machine.look();
        if lost.is_none()
            && let Some(error) = absence(&folder)
        {
            // The job is the user's: it goes on.
            screen::noted(&error.sentence());
            lost = Some(error);
        }
    };
    let ended = process::attached(program, arguments, variables, output, &mut look)
        .map_err(|error| Failure::new(format!("`{}` could not be started", program.display())).cause(error))?;
    // Nothing is written where the folder was.
    match absence(&folder) {
        Some(error) => Err(error.into()),
        None => Ok(ended),
    }
}

/// What is wrong with a folder of traces that is not where it was; None where it is.
fn absence(folder: &HeldFolder) -> Option<Error> {
    let named = folder.named().display();
    match folder.whereabouts() {
        Whereabouts::InPlace => None,
        Whereabouts::Moved(path) => Some(
            Error::new(format!("the folder of the traces was moved away from {named} while the job ran"))
                .cause(format!("it is {} now", path.display()))
                .hint("`rankmark profile --import FOLDER` explains the traces in it"),
        ),
        Whereabouts::Removed => Some(
            Error::new(format!("the folder of the traces, {named}, was removed while the job ran"))
                .cause("what ranks had written is lost")
                .hint("start the job again"),
        ),
    }
}

/// The command as a shell takes it, without the values of secrets.
fn shown(program: &OsStr, arguments: &[OsString]) -> String {
    let words = std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str));
    let words = record::command_line(words.map(|word| word.to_string_lossy().into_owned()));
    let words: Vec<String> = words.iter().map(|word| report::shell(word).to_string()).collect();
    words.join(" ") + "\n"
}

/// What the files of steps say of all ranks together.
#[derive(Default)]
pub(super) struct JobSteps {
    /// Times of traced and of untraced steps: the slowest rank of each.
    pub(super) recording: Option<Recording>,
    pub(super) notes: Vec<String>,
    /// Steps of each rank's trace, and how long each waited for a processor.
    descheduled: Vec<(u32, Vec<(u32, u64)>)>,
    /// The steps of ranks, as far as these noted them.
    spills: Vec<Spill>,
    /// How the job ended.
    pub(super) ends: Ends,
}

impl JobSteps {
    /// Tells a timeline what traces do not hold: how long steps waited for a processor, and the steps of ranks without a trace.
    /// Gives whether there is such a rank.
    pub(super) fn complete(&mut self, timeline: &mut Option<Timeline>) -> bool {
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
        RankFile { rank: self.rank, pid: self.pid, end: self.ended.clone(), trace: self.trace.clone() }
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
}

/// Reads the times of steps that ranks wrote. What cannot be read is left out with a note: the traces are what counts.
pub(super) fn steps(traces: &Path) -> JobSteps {
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
    if let Some(restarts) = files.iter().map(|file| file.restarts).max().filter(|restarts| *restarts > 0) {
        let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
        notes.push(format!("the launcher restarted the ranks {times}: this is the last attempt"));
    }
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

/// What went wrong in the ranks while they were traced: the last line of each.
pub(super) fn complaints(traces: &Path) -> Vec<String> {
    let last = |(name, text): (String, String)| {
        Some(format!("{name}: {}", outside::text(text.lines().rev().find(|line| !line.is_empty())?)))
    };
    texts(traces, "error-", ".txt").filter_map(last).collect()
}

/// The traces and dumps of a folder; other files tell of the job.
pub(super) fn files(traces: &Path) -> Vec<PathBuf> {
    const KINDS: [&str; 6] = [".json.gz", ".json", ".pickle", ".sqlite", ".log", ".gz"];
    const OURS: [&str; 6] = ["steps-", "error-", "launcher-", "other-", JOB_END, MACHINE];
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
pub(super) fn title(traces: &Path) -> String {
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
