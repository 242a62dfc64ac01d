//! Stacks of children: this test program again, asleep in a function that is known.

use std::process::{Child, Command, Stdio};

use super::*;

/// Tells a child of these tests what to do.
const ROLE: &str = "RANKMARK_STACK_TEST";
const LIMIT: Duration = Duration::from_secs(2);

/// The function that the child sleeps in. It does something after the call, so that the call is not a jump.
#[inline(never)]
extern "C" fn the_known_function(seconds: u64) -> u64 {
    std::thread::sleep(Duration::from_secs(std::hint::black_box(seconds)));
    std::hint::black_box(seconds) + 1
}

/// Not a test of its own: what children of these tests do.
#[test]
#[ignore = "the children of other tests run it"]
#[expect(clippy::disallowed_methods, reason = "a child is told by a variable what to do")]
#[expect(clippy::print_stdout, reason = "a child prints what it found")]
fn child() {
    match std::env::var(ROLE).as_deref() {
        Ok("sleep") => assert_eq!(the_known_function(60), 61),
        Ok("tick") => tick(),
        Ok("look") => {
            let pid = std::env::var("RANKMARK_STACK_OF").unwrap().parse().unwrap();
            let stack = Stack::read(pid, LIMIT).unwrap();
            println!("lacking={:?} threads={}", stack.lacking, stack.threads.len());
        }
        _ => {}
    }
}

/// Prints the longest time that this thread did nothing, every 50 ms, until nobody reads it. Other threads sleep.
#[expect(clippy::print_stdout, reason = "a child prints what it found")]
fn tick() {
    for _ in 0..40 {
        std::thread::spawn(|| the_known_function(60));
    }
    loop {
        let (begun, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        while begun.elapsed() < Duration::from_millis(50) {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        println!("gap {}", longest.as_micros());
    }
}

fn child_that(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "stack::tests::child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let sleeper = Self(child_that("sleep").spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while !sleeper.names().iter().any(|name| name.contains("the_known_function")) {
            assert!(Instant::now() < deadline, "it never came there: {:?}", Stack::read(sleeper.pid(), LIMIT));
            std::thread::sleep(Duration::from_millis(20));
        }
        sleeper
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The functions of all threads: libtest runs a test in a thread of its own.
    fn names(&self) -> Vec<String> {
        let stack = Stack::read(self.pid(), LIMIT).unwrap();
        stack.threads.iter().flat_map(|thread| &thread.frames).map(ToString::to_string).collect()
    }

    fn states(&self) -> Vec<char> {
        Stack::read(self.pid(), LIMIT).unwrap().threads.iter().map(|thread| thread.state).collect()
    }

    /// Whether all threads come to this state: one that was let go runs for a moment before it is stopped again.
    fn comes_to(&self, state: char) -> bool {
        let deadline = Instant::now() + LIMIT;
        let all = || thread::list(self.pid(), THREADS).unwrap().iter().all(|thread| thread.state == state);
        while !all() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        all()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a plain system call.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, signal) }, 0);
    }

    fn tracer(&self) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        status.lines().find(|line| line.starts_with("TracerPid")).unwrap().to_owned()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_sleeping_child_is_named_down_to_its_main() {
    let sleeper = Sleeper::start();
    let names = sleeper.names();
    let at = |part: &str| names.iter().position(|name| name.contains(part));
    let (call, known) = (at("nanosleep"), at("the_known_function"));
    let library = names.iter().position(|name| name.starts_with("std::thread") && name.contains("sleep"));
    assert!(call.is_some() && call < library && library < known, "{names:#?}");
    // The whole way: up to where the C library starts the thread, and the program.
    assert!(at("__libc_start").is_some() || at("_start").is_some() || at("main").is_some(), "{names:#?}");
    let module = std::env::current_exe().unwrap();
    let module = module.file_name().unwrap().to_string_lossy().into_owned();
    assert!(names[known.unwrap()].ends_with(&format!("({module})")), "{names:#?}");
    let stack = Stack::read(sleeper.pid(), LIMIT).unwrap();
    assert_eq!((stack.lacking, stack.python), (None, false));
    assert_eq!(stack.threads[0].number, sleeper.pid());
    assert!(stack.threads.iter().all(|thread| thread.doing().starts_with("sleeps")), "{:?}", stack.threads);
}

#[test]
fn it_goes_on_as_it_was() {
    let sleeper = Sleeper::start();
    for _ in 0..20 {
        assert!(!sleeper.states().contains(&'T'));
        assert_eq!(sleeper.tracer(), "TracerPid:\t0");
    }
    sleeper.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..20 {
        assert!(sleeper.comes_to('T'), "a stopped process stays stopped: {:?}", sleeper.states());
        assert!(sleeper.names().iter().any(|name| name.contains("the_known_function")), "{:?}", sleeper.names());
    }
    sleeper.signal(libc::SIGCONT);
    assert!(sleeper.comes_to('S'), "{:?}", sleeper.states());
}

#[test]
fn its_end_is_left_to_the_process_that_reaps_it() {
    let mut sleeper = Sleeper::start();
    sleeper.signal(libc::SIGKILL);
    for _ in 0..50 {
        let _ = Stack::read(sleeper.pid(), LIMIT);
    }
    let status = sleeper.0.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    assert!(Stack::read(sleeper.pid(), LIMIT).is_err(), "there is no such process");
}

#[test]
fn without_permission_the_message_says_which() {
    use std::os::unix::process::CommandExt;
    let sleeper = Sleeper::start();
    let mut look = child_that("look");
    look.env("RANKMARK_STACK_OF", sleeper.pid().to_string());
    if rustix::process::geteuid().is_root() {
        // Nobody may not look at root's. The program is this one, which nobody may not be able to read either.
        look.uid(65534).gid(65534);
    } else {
        look.env("RANKMARK_STACK_OF", "1");
    }
    let said = look.output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
    assert!(!said.contains("threads=0"), "what /proc says is there: {said}");
}

#[test]
fn one_that_is_traced_already_has_no_frames() {
    let sleeper = Sleeper::start();
    let held = Seized::stop(sleeper.pid(), Instant::now() + LIMIT).unwrap();
    let stack = Stack::read(sleeper.pid(), LIMIT).unwrap();
    drop(held);
    let main = stack.main().unwrap();
    assert_eq!((main.frames.len(), main.state), (0, 't'), "{stack:?}");
}

/// What a look costs the process: its own clock is the witness. A busy machine makes gaps, too, so one quiet look is enough.
#[test]
fn nobody_is_stopped_for_long() {
    use std::io::BufRead;
    let mut sleeper = Sleeper(child_that("tick").spawn().unwrap());
    let lines = std::io::BufReader::new(sleeper.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    // libtest begins the line.
    let mut gaps = lines.filter_map(|line| line.rsplit_once("gap ")?.1.parse::<u64>().ok());
    gaps.next().expect("it ticks");
    let looks = (0..10).map(|_| {
        let stack = Stack::read(sleeper.pid(), LIMIT).unwrap();
        assert!(stack.threads.len() > 40, "{stack:?}");
        // The first may have begun before the look, and the second ends after it.
        let gap = gaps.by_ref().take(2).max().expect("it ticks");
        (stack.stopped, gap)
    });
    let looks: Vec<(Duration, u64)> = looks.collect();
    let longest = looks.iter().map(|(stopped, _)| *stopped).max().unwrap();
    let gap = looks.iter().map(|(_, gap)| *gap).min().unwrap();
    assert!(longest < Duration::from_millis(100) && gap < 100_000, "{looks:?}");
}

#[test]
fn frames_of_python_are_read_with_their_arguments() {
    const SCRIPT: &str = "import time\ndef inner(src, word='x'):\n    print('there', flush=True)\n    time.sleep(60)\n\
                          def outer():\n    inner(3)\nouter()\n";
    use std::io::Read;
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).stdin(Stdio::null()).stdout(Stdio::piped());
    // A machine without Python has no such processes.
    let Ok(started) = python.spawn() else { return };
    let mut sleeper = Sleeper(started);
    let mut said = sleeper.0.stdout.take().unwrap();
    said.read_exact(&mut [0; 5]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let mut reader = PythonReader::open(sleeper.pid()).unwrap();
    let threads = reader.threads(true).unwrap();
    let frames: Vec<(&str, u32)> =
        threads[0].frames.iter().map(|frame| (frame.function.as_str(), frame.line)).collect();
    assert_eq!(frames, [("inner", 4), ("outer", 6), ("<module>", 7)]);
    assert_eq!(threads[0].frames[0].numbers, [("src".to_owned(), 3)]);
    assert!(reader.threads(false).unwrap()[0].frames[0].numbers.is_empty());
    assert!(Stack::read(sleeper.pid(), LIMIT).unwrap().python);
    assert!(PythonReader::open(std::process::id()).is_err(), "this process runs no interpreter");
}
