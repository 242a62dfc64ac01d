//! How the ranks of a job ended: which one failed first and with what, and how much of the window of steps was recorded.
//!
//! A rank notes its own end in its file of steps, torchrun's process what it saw of its ranks, and `rankmark profile` how the
//! command ended. A rank without any of it was killed, or left Python by `os._exit`.

use std::collections::BTreeMap;
use std::path::Path;

use process::child::Ended;
use process::signal_name;
use report::Ends;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::hangs::ranks;
use crate::spill::Spill;

/// The file of the command's own end, in the folder of traces.
pub(crate) const JOB_END: &str = "job-end.json";
/// Sentences on ranks that failed after the first one; the rest is counted.
const TOLD: usize = 4;
/// Letters of a message in a sentence on a rank that did not fail first.
const SHORT: usize = 120;
/// Letters of a message in a sentence on the rank that failed first.
const LONG: usize = 160;
/// In place of how a rank ended, where nobody saw it.
const WITHOUT_A_WORD: &str = "ended without a word";
/// What agents note of every window that was cut: the sentence on all ranks says it with numbers.
const SAID: &str = "the job ended before the window did";
/// Seconds within which a launcher sees what ended at about the same time: before PyTorch 2.4, torchrun looks every 5 s. What
/// does not end by itself, it kills 30 s after it has seen the first.
const ONE_LOOK_S: u64 = 5;

/// How the command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobEnd {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Somebody ended it, such as by Ctrl-C.
    pub(crate) was_asked: bool,
    /// Processes of this machine that the kernel killed for want of memory meanwhile.
    pub(crate) oom_kills: u64,
}

impl JobEnd {
    pub(crate) fn from_ended(ended: &Ended, was_asked: bool) -> Self {
        let (code, signal) = match ended {
            Ended::Code(code) => (Some(*code), None),
            Ended::Signal(signal) => (None, Some(*signal)),
            Ended::Answered | Ended::Deadline(_) => (None, None),
        };
        Self { code, signal, was_asked, oom_kills: 0 }
    }

    /// The exit code as shells say it: 128 and the signal where one ended it.
    pub(crate) fn shell_code(self) -> u8 {
        let code = self.code.unwrap_or_else(|| self.signal.map_or(1, |signal| 128 + signal));
        u8::try_from(code).unwrap_or(1)
    }
}

/// What a rank noted of its own end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OwnEnd {
    how: String,
    at_unix_ns: i64,
    #[serde(rename = "type")]
    kind: String,
    message: String,
    place: Option<String>,
}

/// What a launcher noted of the ranks that failed, in its order.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Launcher {
    ranks: Vec<LauncherRank>,
}

#[derive(Deserialize)]
struct LauncherRank {
    rank: u32,
    exit_code: Option<i32>,
    message: Option<String>,
    /// When the launcher saw it.
    at_unix_s: Option<i64>,
    /// Whether it ended at about the time at which the first one did.
    #[serde(skip)]
    is_with_first: bool,
}

/// What is known of a rank's end, from its file of steps.
pub(crate) struct RankFile {
    pub(crate) rank: u32,
    pub(crate) pid: Option<u64>,
    pub(crate) end: Option<OwnEnd>,
    /// `agent`, `script`, `nsys`, or None where there is no trace.
    pub(crate) trace: Option<String>,
    /// The last step that ended when the file was written.
    pub(crate) last_step: Option<u32>,
}

/// The end of a rank that did not end well.
struct Failure {
    rank: u32,
    /// Where it stands among the failures: the first one is the cause.
    order: i64,
    what: String,
    short: String,
    json: Value,
}

/// Puts together what ranks, launcher and command said.
pub(crate) fn from_files(files: &[RankFile], spills: &[Spill], launchers: &[String], job: Option<JobEnd>) -> Ends {
    let mut seen: BTreeMap<u32, (usize, LauncherRank)> = BTreeMap::new();
    for text in launchers {
        let launcher: Launcher = record::from_json(text).unwrap_or_default();
        let first_s = launcher.ranks.first().and_then(|first| first.at_unix_s);
        for (place, mut rank) in launcher.ranks.into_iter().enumerate() {
            let times = first_s.zip(rank.at_unix_s);
            rank.is_with_first = times.is_some_and(|(first, own)| own.abs_diff(first) <= ONE_LOOK_S);
            seen.entry(rank.rank).or_insert((place, rank));
        }
    }
    let job = job.unwrap_or_default();
    let mut known: Vec<u32> = files.iter().map(|file| file.rank).chain(spills.iter().map(|spill| spill.rank)).collect();
    known.extend(seen.keys());
    known.sort_unstable();
    known.dedup();
    let mut failures: Vec<Failure> = known
        .iter()
        .filter_map(|rank| {
            let spill = spills.iter().find(|spill| spill.rank == *rank);
            let file = files.iter().find(|file| file.rank == *rank && is_of(file, spill));
            failure(*rank, file, spill, seen.get(rank), (job, known.len() == 1))
        })
        .collect();
    failures.sort_by_key(|failure| (failure.order, failure.rank));
    let mut sentences = Vec::new();
    if let Some((first, others)) = failures.split_first() {
        sentences.push(first.what.clone());
        sentences.extend(consequences(others));
    } else if job.was_asked {
        sentences.push("the job was ended by a signal to rankmark, such as Ctrl-C".to_owned());
    }
    sentences.extend(window(files, spills, failures.first(), job));
    let json = match sentences.is_empty() {
        true => Value::Null,
        false => json!({
            "failed": failures.iter().map(|failure| failure.json.clone()).collect::<Vec<_>>(),
            "kept": spills.iter().map(kept_json).collect::<Vec<_>>(),
            "code": job.code,
            "signal": job.signal,
        }),
    };
    Ends { sentences, is_failed: !failures.is_empty(), json }
}

/// Ranks that say why they have no trace, equal reasons in one sentence. Gives what else they noted.
pub(crate) fn without_trace(notes: Vec<(u32, String)>) -> (Vec<String>, Vec<String>) {
    let mut reasons: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut others = Vec::new();
    for (rank, note) in notes {
        match note.strip_prefix("no trace: ") {
            Some(why) => reasons.entry(why.to_owned()).or_default().push(rank),
            None if note == SAID => {}
            None => others.push(format!("rank {rank}: {note}")),
        }
    }
    let has = |of: &[u32]| if of.len() == 1 { "has" } else { "have" };
    let sentences = reasons.iter().map(|(why, of)| format!("{} {} no trace: {why}", ranks(of), has(of)));
    (sentences.collect(), others)
}

/// Ranks that a launcher started again after the attempt that the files of steps are of, and that ended no step: which failed first
/// in the last attempt. Each file with the number of its attempt.
pub(crate) fn again(files: &[(u32, RankFile)], shown: u32) -> Option<String> {
    let last = files.iter().map(|(restarts, _)| *restarts).max().filter(|last| *last > shown)?;
    let of_last = files.iter().filter(|(restarts, _)| *restarts == last);
    let failed = of_last.filter_map(|(_, file)| Some((file.rank, file.end.as_ref()?)));
    let what = match failed.min_by_key(|(_, end)| end.at_unix_ns) {
        Some((rank, end)) => {
            let (kind, message) = (&end.kind, beginning(&end.message));
            format!("rank {rank} failed before its first step with {kind}: {message}")
        }
        None => "no rank ended a step".to_owned(),
    };
    Some(format!("the launcher then restarted the ranks, and {what}"))
}

/// A file of steps may be of another process than the rank's: of a helper that outlived it.
fn is_of(file: &RankFile, spill: Option<&Spill>) -> bool {
    spill.is_none_or(|spill| file.pid.is_none_or(|pid| pid == spill.pid))
}

/// The last step that ended in a rank, and ` after step 49`. Of a rank that writes down no more steps, its own end says it.
fn last_step(file: Option<&RankFile>, spill: Option<&Spill>) -> (Option<u32>, String) {
    let is_full = spill.is_some_and(Spill::is_full);
    // The file may be from the end of the window: it counts where it has the rank's end.
    let noted = file.filter(|file| is_full && file.end.is_some()).and_then(|file| file.last_step);
    let more = if is_full && noted.is_none() { " or a later one" } else { "" };
    let last = noted.or(spill.and_then(Spill::last));
    (last, last.map_or(String::new(), |step| format!(" after step {step}{more}")))
}

/// How a rank failed. None where it ended well, or because another one had failed.
fn failure(
    rank: u32,
    file: Option<&RankFile>,
    spill: Option<&Spill>,
    seen: Option<&(usize, LauncherRank)>,
    (job, is_alone): (JobEnd, bool),
) -> Option<Failure> {
    let own = file.and_then(|file| file.end.as_ref());
    let code = seen.and_then(|(_, seen)| seen.exit_code);
    // What ends a job of one rank that no launcher watches is the end of the command.
    let is_bare = is_alone && seen.is_none();
    let code = code.or_else(|| if is_bare { job.code.or(job.signal.map(|signal| -signal)) } else { None });
    // A launcher lists first what it saw first. Of what it ended itself, it says so at the end.
    let is_first = seen.is_none_or(|(place, _)| *place == 0);
    let (last, after) = last_step(file, spill);
    let made = |order: i64, what: String, short: String, json: Value| {
        let mut json = json;
        json["rank"] = json!(rank);
        json["exit_code"] = json!(code);
        json["last_step"] = json!(last);
        Some(Failure { rank, order, what, short, json })
    };
    match (own, code) {
        (Some(own), _) if own.how == "exception" => {
            if job.was_asked && own.kind == "KeyboardInterrupt" {
                return None;
            }
            let colon = if own.message.is_empty() { "" } else { ": " };
            let at = own.place.as_ref().map_or(String::new(), |place| format!(", in {place}"));
            let what = format!("rank {rank} failed{after} with {}{colon}{}{at}", own.kind, beginning(&own.message));
            let short = format!("{}{colon}{}", own.kind, shortened(&own.message));
            let json = json!({"how": "exception", "type": own.kind, "message": own.message, "place": own.place});
            made(own.at_unix_ns, what, short, json)
        }
        // The launcher ended the others by SIGTERM.
        (_, Some(code)) if code < 0 => {
            let name = signal_name(-code);
            let is_asked = name == "SIGTERM";
            // What a launcher sees in one look is in the order of numbers, and a rank that has lost another one may abort.
            let is_with_first = seen.is_some_and(|(_, seen)| seen.is_with_first);
            let order = match &*name {
                "SIGTERM" => i64::MAX,
                "SIGKILL" if is_with_first => i64::MIN,
                "SIGABRT" if is_first => i64::MIN + 1,
                _ if is_first => i64::MIN,
                _ => i64::MAX,
            };
            if job.was_asked || is_asked && !is_first {
                return None;
            }
            let why = match &*name {
                "SIGKILL" => out_of_memory(job.oom_kills),
                "SIGABRT" => ABORTED.to_owned(),
                _ => String::new(),
            };
            made(
                order,
                format!("rank {rank} was killed by {name}{after}{why}"),
                format!("killed by {name}"),
                json!({"how": "signal", "signal": name}),
            )
        }
        (own, Some(code)) if code > 0 && !job.was_asked => {
            let order = own.map_or(i64::MIN, |own| own.at_unix_ns);
            let message = seen.and_then(|(_, seen)| seen.message.clone());
            let how = match (&message, own) {
                (Some(message), _) => format!(": {message}"),
                (None, None) if spill.is_some() => {
                    ", and ran none of Python's exit functions, as after `os._exit`".to_owned()
                }
                _ => String::new(),
            };
            let what = format!("rank {rank} exited with code {code}{after}{how}");
            made(order, what, format!("exit code {code}"), json!({"how": "exit", "message": message}))
        }
        (_, None) if seen.is_some() => {
            let message = seen.and_then(|(_, seen)| seen.message.clone()).unwrap_or_default();
            made(
                i64::MIN,
                format!("rank {rank} failed{after}: {message}"),
                shortened(&message),
                json!({"how": "unknown", "message": message}),
            )
        }
        // Ended without a word, and nobody saw how.
        (None, None) if spill.is_some() && job.code != Some(0) && !job.was_asked => {
            let what = format!("rank {rank} ended{after} without a word: it was killed, or called `os._exit`");
            made(i64::MAX, what, WITHOUT_A_WORD.to_owned(), json!({"how": "unknown"}))
        }
        _ => None,
    }
}

/// A library in C++ that finds a fault prints it and aborts: only the output of the job has its words.
const ABORTED: &str = ": it aborted itself, and its last words are in the output of the job (`what():`). gloo ends a rank like this where ranks \
                       make different calls";

/// What the kernel killed while the job ran; empty where that is nothing.
fn out_of_memory(kills: u64) -> String {
    match kills {
        0 => String::new(),
        1 => ": the kernel's OOM killer ended one process of this machine meanwhile, because memory ran out".to_owned(),
        more => format!(
            ": the kernel's OOM killer ended {more} processes of this machine meanwhile, because memory ran out"
        ),
    }
}

/// The failures that came after the first one. Equal ones are one sentence.
fn consequences(others: &[Failure]) -> Vec<String> {
    let mut alike: Vec<(&str, Vec<u32>)> = Vec::new();
    for other in others {
        match alike.iter_mut().find(|(short, _)| *short == other.short) {
            Some((_, of)) => of.push(other.rank),
            None => alike.push((&other.short, vec![other.rank])),
        }
    }
    let rest: usize = alike.iter().skip(TOLD).map(|(_, of)| of.len()).sum();
    let mut all: Vec<String> = alike
        .iter()
        .take(TOLD)
        .map(|(short, of)| format!("after that, {} {}", ranks(of), were(short, of.len())))
        .collect();
    if rest > 0 {
        all.push(format!("{rest} more ranks failed after that"));
    }
    all
}

/// How much of the window is there, where it is not all.
fn window(files: &[RankFile], spills: &[Spill], cause: Option<&Failure>, job: JobEnd) -> Option<String> {
    // A trace that the script's own profiler wrote has steps of its own choice.
    if spills.is_empty() || files.iter().any(|file| file.trace.as_deref() == Some("script")) {
        return None;
    }
    let counts: Vec<usize> = spills.iter().map(Spill::traced).collect();
    let (least, most) = (*counts.iter().min()?, *counts.iter().max()?);
    let kept = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let because = match cause {
        Some(cause) => format!("rank {} {}", cause.rank, was(&cause.short)),
        None if job.was_asked => "a user or a program ended it".to_owned(),
        None => "the job had no more steps".to_owned(),
    };
    let (first, last) = match (spills[0].window, spills[0].window_s) {
        (Some(window), _) => window,
        (None, Some(seconds)) if cause.is_some() || job.was_asked => {
            return Some(format!(
                "the window of {seconds} s is not whole, because {because}: {kept} steps of it are kept"
            ));
        }
        _ => return None,
    };
    let expected = (last - first) as usize;
    // Where the job just goes on after a window that never began, a rank's own note says why.
    if least >= expected || most == 0 && cause.is_none() {
        return None;
    }
    if most == 0 {
        let ended = spills.iter().filter_map(Spill::last).max().unwrap_or(0);
        return Some(format!("the window of steps {first} to {} had not begun: {ended} steps had ended", last - 1));
    }
    Some(format!("{kept} of {expected} steps of the window are kept, because {because}"))
}

/// `was killed by SIGKILL`, `failed with ValueError`.
fn was(short: &str) -> String {
    were(short.split(": ").next().unwrap_or(short), 1)
}

/// `were killed by SIGKILL`, `failed with ValueError: ...`: what happened to so many ranks, with the message.
fn were(short: &str, ranks: usize) -> String {
    match short {
        killed if killed.starts_with("killed") => format!("{} {killed}", if ranks == 1 { "was" } else { "were" }),
        WITHOUT_A_WORD => short.to_owned(),
        other => format!("failed with {other}"),
    }
}

fn kept_json(spill: &Spill) -> Value {
    let expected = spill.window.map(|(first, last)| last - first);
    json!({"rank": spill.rank, "steps": spill.traced(), "of": expected, "last_step": spill.last()})
}

/// A message in the sentence on the first failure: the sentences of it that are short together. PyTorch's on memory that ran out
/// says in two what happened, and then advises for a screen; the record has all of it.
fn beginning(message: &str) -> String {
    if message.chars().count() <= LONG {
        return message.to_owned();
    }
    let within = message.char_indices().nth(LONG).map_or(message.len(), |(at, _)| at);
    match message[..within].rfind(". ") {
        Some(end) => message[..end].to_owned(),
        None => shortened(message),
    }
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}...", &message[..at]),
        None => message.to_owned(),
    }
}

/// How the command ended, from the note next to the traces.
pub(crate) fn job_end(folder: &Path) -> Option<JobEnd> {
    use std::io::Read;

    use record::file::FileName;
    let mut text = String::new();
    record::file::open_inside(folder, &FileName::literal(JOB_END)).ok()?.take(4096).read_to_string(&mut text).ok()?;
    record::from_json(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spill(rank: u32, steps: u32) -> Spill {
        let head = format!(r#"{{"rank":{rank},"world":2,"pid":{rank},"window":[10,60]}}"#);
        let lines: Vec<String> =
            (1..=steps).map(|step| format!("[{step},{},1000,{},[]]", step * 2000, u32::from(step >= 10))).collect();
        Spill::read(&format!("{head}\n{}", lines.join("\n"))).unwrap()
    }

    fn file(rank: u32, end: &str) -> RankFile {
        let end = (!end.is_empty()).then(|| serde_json::from_str(end).unwrap());
        RankFile { rank, pid: Some(u64::from(rank)), end, trace: None, last_step: None }
    }

    fn code(code: i32) -> Option<JobEnd> {
        Some(JobEnd { code: Some(code), ..JobEnd::default() })
    }

    const LOST: &str = r#"{"how":"exception","at_unix_ns":9,"type":"RuntimeError","message":"closed by peer"}"#;
    const NAN: &str = r#"{"how":"exception","at_unix_ns":7,"type":"ValueError","message":"nan","place":"f (a.py:3)"}"#;
    const EXIT: &str = r#"{"how":"exit","at_unix_ns":8}"#;

    fn sentences_for(files: &[RankFile], launcher: &str, job: Option<JobEnd>) -> Vec<String> {
        let launchers: Vec<String> =
            (!launcher.is_empty()).then(|| format!("{{\"ranks\":[{launcher}]}}")).into_iter().collect();
        from_files(files, &[spill(0, 49), spill(1, 49)], &launchers, job).sentences
    }

    #[test]
    fn the_first_failure_is_the_cause_whichever_rank_notes_it() {
        let kept = |why: &str| format!("40 of 50 steps of the window are kept, because rank {why}");
        let lost = "after that, rank 0 failed with RuntimeError: closed by peer".to_owned();
        // torchrun saw the killed rank; the other one lost its peer.
        let launcher = r#"{"rank":1,"exit_code":-9},{"rank":0,"exit_code":-15}"#;
        let killed = "rank 1 was killed by SIGKILL after step 49".to_owned();
        assert_eq!(
            sentences_for(&[file(0, LOST)], launcher, code(1)),
            [killed, lost.clone(), kept("1 was killed by SIGKILL")]
        );
        // Exceptions have times. A launcher that kills who does not end by itself is not a cause.
        let failed = "rank 1 failed after step 49 with ValueError: nan, in f (a.py:3)".to_owned();
        assert_eq!(
            sentences_for(&[file(0, LOST), file(1, NAN)], "", code(1)),
            [failed.clone(), lost.clone(), kept("1 failed with ValueError")]
        );
        let launcher = r#"{"rank":1,"exit_code":1},{"rank":0,"exit_code":-9}"#;
        let others = "after that, rank 0 was killed by SIGKILL".to_owned();
        assert_eq!(sentences_for(&[file(1, NAN)], launcher, code(1))[..2], [failed, others]);
        // Exit codes, with Python's end and without.
        let launcher = r#"{"rank":1,"exit_code":3}"#;
        assert_eq!(
            sentences_for(&[file(0, LOST), file(1, EXIT)], launcher, code(1))[..2],
            ["rank 1 exited with code 3 after step 49".to_owned(), lost]
        );
        assert!(sentences_for(&[file(0, EXIT)], launcher, code(1))[0].ends_with("as after `os._exit`"));
    }

    #[test]
    fn a_killed_rank_is_the_cause_where_others_were_seen_in_the_same_look() {
        let first = |code: i32, at: i64, file: &[RankFile]| {
            let killed = format!(r#"{{"rank":1,"exit_code":-9,"at_unix_s":{at}}}"#);
            let launcher = format!(r#"{{"rank":0,"exit_code":{code},"at_unix_s":100}},{killed}"#);
            sentences_for(file, &launcher, self::code(1)).swap_remove(0)
        };
        let killed = "rank 1 was killed by SIGKILL after step 49";
        assert_eq!(first(1, 101, &[file(0, LOST)]), killed);
        assert_eq!(first(-6, 100, &[]), killed);
        // 30 s later it is the launcher's own kill.
        assert!(first(1, 131, &[file(0, LOST)]).starts_with("rank 0 failed after step 49"));
    }

    #[test]
    fn of_more_steps_than_are_written_down_the_rank_knows_the_last() {
        let full = spill(0, u32::try_from(crate::spill::MOST).unwrap());
        let told = |file: RankFile| last_step(Some(&file), Some(&full));
        let known = RankFile { last_step: Some(73_211), ..file(0, NAN) };
        assert_eq!(told(known), (Some(73_211), " after step 73211".to_owned()));
        // Of one that was killed, the file is that of the window.
        let killed = RankFile { last_step: Some(80), ..file(0, "") };
        assert_eq!(told(killed), (Some(10_000), " after step 10000 or a later one".to_owned()));
        let early = RankFile { last_step: Some(60), ..file(0, NAN) };
        assert_eq!(last_step(Some(&early), Some(&spill(0, 49))), (Some(49), " after step 49".to_owned()));
    }

    #[test]
    fn a_long_message_is_told_by_its_first_sentences() {
        let memory = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB, 0.26 GiB \
                      free. Including non-PyTorch memory, this process has 78.91 GiB memory in use.";
        assert_eq!(
            beginning(memory),
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB, 0.26 GiB free"
        );
        assert_eq!(beginning("closed by peer"), "closed by peer");
        assert_eq!(beginning(&"x".repeat(300)), format!("{}...", "x".repeat(SHORT)));
        assert_eq!(beginning(&"\u{e9}".repeat(300)), format!("{}...", "\u{e9}".repeat(SHORT)));
    }

    #[test]
    fn what_nobody_saw_is_not_made_up() {
        let unseen = sentences_for(&[file(0, EXIT)], "", code(1));
        assert_eq!(unseen[0], "rank 1 ended after step 49 without a word: it was killed, or called `os._exit`");
        // A job that ended well, by `os._exit` or not, has failed nowhere.
        assert_eq!(
            sentences_for(&[file(0, EXIT)], "", code(0)),
            ["40 of 50 steps of the window are kept, because the job had no more steps"]
        );
        // Nobody says that memory ran out, but the kernel's counter.
        let killed = r#"{"rank":1,"exit_code":-9,"message":null}"#;
        let job = |oom_kills| Some(JobEnd { code: Some(1), oom_kills, ..JobEnd::default() });
        assert!(sentences_for(&[file(0, EXIT)], killed, job(1))[0].contains("OOM killer ended one process"));
        assert!(!sentences_for(&[file(0, EXIT)], killed, job(0))[0].contains("OOM"));
        // gloo's own words are in the job's output alone.
        let aborted = r#"{"rank":1,"exit_code":-6,"message":null}"#;
        assert!(sentences_for(&[file(0, EXIT)], aborted, job(0))[0].contains("output of the job (`what():`)"));
        // A file of another process says nothing about the rank.
        let other = RankFile { pid: Some(99), ..file(1, EXIT) };
        assert!(sentences_for(&[file(0, EXIT), other], "", code(1))[0].contains("without a word"));
        let asked = JobEnd { code: Some(1), was_asked: true, ..JobEnd::default() };
        let interrupt = r#"{"how":"exception","at_unix_ns":7,"type":"KeyboardInterrupt"}"#;
        let said = sentences_for(&[file(0, interrupt), file(1, interrupt)], "", Some(asked));
        assert!(said.len() == 2 && said[0].starts_with("the job was ended by a signal"), "{said:?}");
    }

    #[test]
    fn a_later_attempt_without_a_step_is_told() {
        let end = |at: i64, message: &str| {
            let text = json!({"how": "exception", "at_unix_ns": at, "type": "RuntimeError", "message": message, "place": null});
            Some(serde_json::from_value(text).unwrap())
        };
        let file =
            |rank, at, message| RankFile { rank, pid: None, end: end(at, message), trace: None, last_step: None };
        let files = [(1, file(0, 20, "closed")), (1, file(1, 10, "no connection")), (0, file(0, 1, "of the first"))];
        let told = again(&files, 0).unwrap();
        assert_eq!(
            told,
            "the launcher then restarted the ranks, and rank 1 failed before its first step with RuntimeError: no connection"
        );
        assert_eq!(again(&files, 1), None, "the attempt that is shown is the last");
        let stuck = [(1, RankFile { end: None, ..file(0, 0, "") })];
        assert_eq!(again(&stuck, 0).unwrap(), "the launcher then restarted the ranks, and no rank ended a step");
    }

    #[test]
    fn reasons_of_several_ranks_are_one_sentence() {
        let notes = [(0, "no trace: why"), (1, "no trace: why"), (1, "odd"), (1, SAID)];
        let (reasons, others) = without_trace(notes.map(|(rank, note)| (rank, note.to_owned())).to_vec());
        assert_eq!(
            (reasons, others),
            (vec!["ranks 0, 1 have no trace: why".to_owned()], vec!["rank 1: odd".to_owned()])
        );
    }
}
