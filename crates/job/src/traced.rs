//! Another program's job, traced from inside: Python finds our `sitecustomize` first, which starts the PyTorch profiler in
//! each rank. With `--tool nsys`, nsys runs around the whole job instead, and ranks tell it their steps and phases.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process::child::Ended;
use record::file::{FileName, HeldFolder, InnerPath, Whereabouts};
use terms::{Error, Seconds};

use crate::TRACES;
use crate::disturbance::{self, MACHINE, MachineWatch};
use crate::ends::{JOB_END, JobEnd};
use crate::files;
use crate::hang_watch::HangWatch;

/// The files that Python is to find, by name.
const AGENT: [(&str, &str); 8] = [
    ("sitecustomize.py", include_str!("../rankmark_profile/sitecustomize.py")),
    ("rankmark_profile_agent.py", include_str!("../rankmark_profile/rankmark_profile_agent.py")),
    ("rankmark_profile_ends.py", include_str!("../rankmark_profile/rankmark_profile_ends.py")),
    ("rankmark_profile_hang.py", include_str!("../rankmark_profile/rankmark_profile_hang.py")),
    ("rankmark_profile_nvtx.py", include_str!("../rankmark_profile/rankmark_profile_nvtx.py")),
    ("rankmark_profile_spill.py", include_str!("../rankmark_profile/rankmark_profile_spill.py")),
    ("rankmark_profile_torch.py", include_str!("../rankmark_profile/rankmark_profile_torch.py")),
    ("rankmark_profile_window.py", include_str!("../rankmark_profile/rankmark_profile_window.py")),
];
/// Folder of these files, inside the result's.
const AGENT_FOLDER: &str = "agent";
/// Steps that are traced when nobody says: after the job has warmed up, and enough to judge ranks by. They take 4 seconds at least,
/// or are four times as many: three pauses name a rank, and of one that comes every second, 50 short steps hold one.
const STEPS: &str = "10:60:4";
/// A rank without a step for so long writes down where it is.
const HANG_SECONDS: &str = "15";

/// How a job is traced.
pub struct Asked<'a> {
    /// The command: the program, and its arguments.
    pub words: &'a [OsString],
    /// Whether nsys records it, and not the PyTorch profiler.
    pub nsys: bool,
    /// The steps to record, as the user wrote them.
    pub steps: Option<String>,
    /// How long to record.
    pub duration: Option<Seconds>,
    /// The folder that the user names for the result.
    pub output_dir: Option<&'a Path>,
    /// What the result is called.
    pub name: &'a str,
    /// Where what the job prints goes.
    pub output: fn() -> Stdio,
    /// Where Python already looks for modules.
    pub python_path: Option<OsString>,
    /// The folders of the path.
    pub search_path: &'a [PathBuf],
}

/// A job that has ended.
pub struct Traced {
    /// The folder of the result.
    pub folder: PathBuf,
    /// The exit code as a shell says it: that of what the user asked for, else the job's own.
    pub code: u8,
}

/// Runs the job, and leaves what its ranks wrote in a folder. `say` gets what the user should know while it runs.
///
/// # Errors
/// When the job cannot be started or traced, or its folder is taken or lost.
pub fn run(asked: &Asked<'_>, say: &mut dyn FnMut(&str)) -> Result<Traced, Error> {
    let (program, arguments) = asked.words.split_first().ok_or_else(|| Error::new("there is no command after `--`"))?;
    let folder = record::store::directory_for(asked.output_dir, (jiff::Timestamp::now(), asked.name), false)?;
    let traces = folder.join(TRACES);
    if folder.join(record::store::RUN_FILE).exists() {
        return Err(crate::taken(&folder));
    }
    refuse_old(&traces)?;
    // Ctrl-C ends the job; what its ranks wrote by then is explained.
    process::interrupt::install()
        .and_then(|()| process::interrupt::outlive_user_signals())
        .map_err(|error| Error::new("signals could not be set up").cause(error))?;
    let kills_before = measure::machine::out_of_memory_kills();
    let mut watch = JobWatch { machine: MachineWatch::new(), say };
    let ended = match asked.nsys {
        true => with_nsys((program, arguments), &folder, asked, &mut watch)?,
        false => {
            let variables = agent(program, arguments, &folder, asked)?;
            end_of((program, arguments), &variables, (&traces, asked.output), &mut watch)?
        }
    };
    let disturbance = watch.machine.disturbance(disturbance::common_window(&files::windows(&traces)));
    let mut job_end = JobEnd::from_ended(&ended, process::interrupt::exit_code().is_some());
    let kills = measure::machine::out_of_memory_kills().zip(kills_before);
    job_end.oom_kills = kills.map_or(0, |(now, before)| now.saturating_sub(before));
    // The job has ended, and its exit code counts, on a full disk, too.
    let noted = note(&folder, JOB_END, &job_end)
        .and_then(|()| disturbance.map_or(Ok(()), |found| note(&folder, MACHINE, &found)));
    if let Err(error) = noted {
        (watch.say)(&error.sentence());
    }
    // What the user asked for says more than how the job then ended.
    let code = process::interrupt::exit_code().unwrap_or_else(|| job_end.shell_code());
    Ok(Traced { folder, code })
}

/// What looks on while the job runs.
struct JobWatch<'s> {
    machine: MachineWatch,
    say: &'s mut dyn FnMut(&str),
}

/// Writes a file of a folder of the result.
fn write(result: &Path, folder: &'static str, name: &'static str, text: &str) -> std::io::Result<()> {
    let path = InnerPath::within(FileName::literal(folder), FileName::literal(name));
    record::file::replace(result, &path, &FileName::literal(".new"), text.as_bytes())
}

/// Notes something of the whole job next to the traces, for later analyses.
fn note(folder: &Path, name: &'static str, what: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(what).unwrap_or_default();
    write(folder, TRACES, name, &text)
        .map_err(|error| Error::new(format!("{} cannot be written", folder.display())).cause(error))
}

/// Traces of another job must not be taken for this one's.
fn refuse_old(traces: &Path) -> Result<(), Error> {
    let is_empty = traces.read_dir().map_or(true, |mut entries| entries.next().is_none());
    match is_empty {
        true => Ok(()),
        false => {
            let hint = "name a new folder, or leave --output-dir out";
            Err(Error::new(format!("{} holds traces already", traces.display())).hint(hint))
        }
    }
}

/// Puts the agent where Python finds it. Gives the variables that the job needs.
fn agent(
    program: &OsStr,
    arguments: &[OsString],
    folder: &Path,
    asked: &Asked<'_>,
) -> Result<Vec<(&'static str, OsString)>, Error> {
    let failed = |error: std::io::Error| Error::new(format!("{} cannot be written", folder.display())).cause(error);
    let whole = std::path::absolute(folder).map_err(failed)?;
    if whole.as_os_str().as_bytes().contains(&b':') {
        return Err(Error::new(format!("the path of the result has a colon: {}", whole.display()))
            .cause("Python finds what traces the job by PYTHONPATH, in which a colon separates folders")
            .hint("name another folder: `--output-dir DIR`"));
    }
    for (name, text) in AGENT {
        write(folder, AGENT_FOLDER, name, text).map_err(failed)?;
    }
    // Ranks only write where there is a folder.
    write(folder, TRACES, "command.txt", &shown(program, arguments)).map_err(failed)?;
    let mut path = whole.join(AGENT_FOLDER).into_os_string();
    if let Some(own) = asked.python_path.as_ref().filter(|own| !own.is_empty()) {
        path.push(":");
        path.push(own);
    }
    let mut variables = vec![
        ("PYTHONPATH", path),
        ("RANKMARK_PROFILE_DIR", whole.join(TRACES).into_os_string()),
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
    (program, arguments): (&OsStr, &[OsString]),
    folder: &Path,
    asked: &Asked<'_>,
    watch: &mut JobWatch<'_>,
) -> Result<Ended, Error> {
    let nsys = process::first_program(asked.search_path, "nsys").ok_or_else(|| {
        Error::new("nsys is not installed")
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
    let ended = end_of((nsys.as_os_str(), &words), &variables, (&traces, asked.output), watch)?;
    let export = ["export", "--type", "sqlite", "-o"].map(Into::into).into_iter();
    let files = [traces.join("job.sqlite").into_os_string(), report.into_os_string()];
    let words: Vec<OsString> = export.chain(files).collect();
    let exported = end_of((nsys.as_os_str(), &words), &[], (&traces, asked.output), watch)?;
    // Where the job itself failed, its own code says more.
    match (exported, ended) {
        (Ended::Code(0), ended) => Ok(ended),
        (exported, Ended::Code(0)) => {
            let code = JobEnd::from_ended(&exported, false).shell_code();
            Err(Error::new(format!("`nsys export` ended with code {code}")))
        }
        (_, ended) => Ok(ended),
    }
}

/// Runs a program in the terminal, says so when its ranks hang, and gives its end. What it prints goes to `output`.
fn end_of(
    (program, arguments): (&OsStr, &[OsString]),
    variables: &[(&str, OsString)],
    (traces, output): (&Path, fn() -> Stdio),
    watch: &mut JobWatch<'_>,
) -> Result<Ended, Error> {
    let failed = |error: std::io::Error| Error::new(format!("{} cannot be opened", traces.display())).cause(error);
    let folder = HeldFolder::open(traces).map_err(failed)?;
    let mut hangs = HangWatch::new(traces);
    let mut lost = false;
    let mut look = || {
        hangs.look(watch.say);
        watch.machine.look();
        if !lost && let Some(error) = absence(&folder) {
            // The job is the user's: it goes on.
            (watch.say)(&error.sentence());
            lost = true;
        }
    };
    let ended = process::attached(program, arguments, variables, output(), &mut look)
        .map_err(|error| Error::new(format!("`{}` could not be started", program.display())).cause(error))?;
    // Nothing is written where the folder was.
    match absence(&folder) {
        Some(error) => Err(error),
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
