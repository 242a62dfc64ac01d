//! A working directory of one test, and the program started in it.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::processes::{self, Aim, RankProcess};

/// No start of the program may take longer, on any machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Ranks may outlive their coordinator for so long.
pub(crate) const ORPHANS: Duration = Duration::from_secs(5);
/// Marks every process that a start of the program leads to.
const MARKER: &str = "RANKMARK_TEST_RUN";
/// Variables of the user who runs the tests that would change what the program prints.
// `CI` too: the colour library takes it for a wish for colours on whatever terminal.
const UNSET: [&str; 7] = ["CI", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "TERM", "COLORTERM"];

static STARTS: AtomicU32 = AtomicU32::new(0);

/// See the module's documentation. Removed when dropped.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.temporary()).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folder for temporary files that the program gets.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path("temporary")
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Everything in it that the test did not put there.
    pub(crate) fn names(&self) -> Vec<String> {
        let own = |name: &String| name == "temporary" || name.starts_with("out-");
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !own(name)).collect();
        names.sort();
        names
    }

    /// The program with these arguments (separated by spaces), not yet started. Cases make one trial unless the arguments
    /// say otherwise: six of them span eight seconds.
    pub(crate) fn command(&self, arguments: &str) -> Starting<'_> {
        self.starting(Command::new(env!("CARGO_BIN_EXE_rankmark")), arguments)
    }

    /// The program with these arguments under a launcher of others, as `mpirun -n 2`.
    pub(crate) fn command_under(&self, launcher: &str, arguments: &str) -> Starting<'_> {
        let mut words = launcher.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(env!("CARGO_BIN_EXE_rankmark"));
        self.starting(command, arguments)
    }

    /// A program other than ours, watched in the same way.
    pub(crate) fn command_of(&self, program: &str, arguments: &str) -> Starting<'_> {
        self.starting(Command::new(program), arguments)
    }

    fn starting(&self, mut command: Command, arguments: &str) -> Starting<'_> {
        let number = STARTS.fetch_add(1, Ordering::Relaxed);
        let marker = format!("{}-{number}", std::process::id());
        command
            .args(arguments.split_whitespace())
            .args(one_trial(arguments))
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command.env(MARKER, &marker).env("TMPDIR", self.temporary());
        command.env("XDG_CACHE_HOME", self.path("cache"));
        for name in UNSET {
            command.env_remove(name);
        }
        let outputs = ["stdout", "stderr"].map(|stream| self.path(&format!("out-{number}-{stream}")));
        command.stdout(File::create(&outputs[0]).unwrap()).stderr(File::create(&outputs[1]).unwrap());
        Starting { place: self, command, marker: format!("{MARKER}={marker}"), outputs }
    }

    pub(crate) fn start(&self, arguments: &str) -> Live<'_> {
        self.command(arguments).start()
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &str) -> Ended {
        self.start(arguments).wait()
    }

    /// The latest line of each case of a record, in the order of its plan: they are visited in random order. Those of
    /// searches follow.
    pub(crate) fn cases(&self, record: &str) -> Vec<Value> {
        let mut lines: Vec<Value> = Vec::new();
        for line in json_lines(&self.read(&format!("{record}/cases.jsonl"))) {
            match lines.iter_mut().find(|known| known["id"] == line["id"]) {
                Some(known) => *known = line,
                None => lines.push(line),
            }
        }
        let file = std::fs::read_to_string(self.path(&format!("{record}/run.json"))).unwrap_or_default();
        let file: Value = serde_json::from_str(&file).unwrap_or_default();
        let plan: Vec<&Value> =
            file["plan"]["cases"].as_array().into_iter().flatten().map(|case| &case["id"]).collect();
        lines.sort_by_key(|line| plan.iter().position(|id| **id == line["id"]).unwrap_or(usize::MAX));
        lines
    }

    pub(crate) fn run_file(&self, record: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{record}/run.json"))).unwrap()
    }
}

/// The text of a run file as somebody edits it: without its checksum.
pub(crate) fn edited(text: &str) -> String {
    format!("{}\n}}\n", &text[..text.rfind(",\n  \"crc32\"").expect("it has a checksum")])
}

/// A line without its place in a record and its checksum: what `--json` prints of it.
pub(crate) fn without_place(mut line: Value) -> Value {
    let members = line.as_object_mut().unwrap();
    ["run", "line", "crc32"].iter().for_each(|name| drop(members.remove(*name)));
    line
}

/// Lines that must each be a JSON object.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value.is_object(), "{line}");
        value
    };
    text.lines().map(parse).collect()
}

/// How often each status occurs: ok, failed, skipped, not_run.
pub(crate) fn statuses(lines: &[Value]) -> [usize; 4] {
    ["ok", "failed", "skipped", "not_run"].map(|status| lines.iter().filter(|line| line["status"] == status).count())
}

pub(crate) fn reason(line: &Value) -> &str {
    line["reason"].as_str().unwrap_or_else(|| panic!("a reason is missing: {line}"))
}

/// The program about to be started.
pub(crate) struct Starting<'a> {
    place: &'a Place,
    pub(crate) command: Command,
    marker: String,
    outputs: [PathBuf; 2],
}

impl<'a> Starting<'a> {
    pub(crate) fn argument(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn start(mut self) -> Live<'a> {
        let child = self.command.spawn().unwrap();
        Live { _place: self.place, child, marker: self.marker, outputs: self.outputs, begun: Instant::now() }
    }

    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }
}

/// The program while it runs; killed when dropped.
pub(crate) struct Live<'a> {
    _place: &'a Place,
    pub(crate) child: Child,
    marker: String,
    outputs: [PathBuf; 2],
    pub(crate) begun: Instant,
}

impl Live<'_> {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ranks(&self) -> Vec<RankProcess> {
        processes::ranks_of(self.pid())
    }

    /// Waits until so many ranks live.
    pub(crate) fn await_ranks(&self, count: usize) -> Vec<RankProcess> {
        let there = processes::wait_until(LIMIT, || self.ranks().len() == count);
        assert!(there, "{count} ranks never came; {}", self.said());
        self.ranks()
    }

    /// Waits until its record holds so many case lines.
    pub(crate) fn await_lines(&self, file: &Path, count: usize) {
        let lines = || fs::read_to_string(file).unwrap_or_default().lines().count();
        assert!(processes::wait_until(LIMIT, || lines() >= count), "{count} lines never came; {}", self.said());
    }

    /// Waits until its standard error has these words.
    pub(crate) fn await_error(&self, words: &str, limit: Duration) {
        let is_there = || fs::read_to_string(&self.outputs[1]).is_ok_and(|text| text.contains(words));
        assert!(processes::wait_until(limit, is_there), "`{words}` never came; {}", self.said());
    }

    pub(crate) fn signal(&self, signal: i32) {
        // Not reaped before `wait`, so its number is its own.
        Aim::at(self.pid()).unwrap().send(signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn said(&self) -> String {
        let [out, err] = self.outputs.each_ref().map(|path| fs::read_to_string(path).unwrap_or_default());
        format!("it said: {out}{err}")
    }

    /// Processes of this start that live.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes::marked(&self.marker)
    }

    /// Waits for its end, and that nothing of it is left after it.
    pub(crate) fn wait(self) -> Ended {
        self.wait_for(LIMIT)
    }

    pub(crate) fn wait_for(mut self, limit: Duration) -> Ended {
        let ended = processes::wait_until(limit, || self.child.try_wait().unwrap().is_some());
        assert!(ended, "still there after {limit:?}; {}", self.said());
        let took = self.begun.elapsed();
        let status = self.child.wait().unwrap();
        let gone = processes::wait_until(ORPHANS, || self.processes().is_empty());
        assert!(gone, "processes {:?} outlived their coordinator; {}", self.processes(), self.said());
        let [out, err] = self.outputs.each_ref().map(|path| fs::read_to_string(path).unwrap());
        Ended { status, out, err, took }
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        // Fails for a process that has been waited for, as it should.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a start of the program came to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Ended {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "signal {:?}\n{}{}", self.status.signal(), self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// A refusal: code 2, nothing on standard output, an error with these words on standard error.
    #[track_caller]
    pub(crate) fn refuses(self, words: &[&str]) -> Self {
        let ended = self.exits(2);
        assert_eq!(ended.out, "");
        assert!(ended.err.starts_with("error: "), "{}", ended.err);
        words.iter().for_each(|word| assert!(ended.err.contains(word), "`{word}` is missing in: {}", ended.err));
        ended
    }
}

/// What makes a measuring command make one trial of each case, where its arguments do not say how many.
fn one_trial(arguments: &str) -> &'static [&'static str] {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let measures = words.iter().any(|word| ["run", "comm", "train", "toy"].contains(word)) && words[0] != "help";
    let says = ["--trials", "--num-iters", "--launches", "--quick", "--resume", "trials=", "--help"];
    let given = words.iter().any(|word| says.iter().any(|name| word.starts_with(name)));
    if measures && !given { &["--trials", "1"] } else { &[] }
}
