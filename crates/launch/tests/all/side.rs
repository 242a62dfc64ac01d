//! What a test's rank does: the benchmark's name of the prepared case says it. Knows nothing of the tests.

use std::io::Write;
use std::time::Duration;

use launch::RankContext;
use measure::{Command, Failure, Observations, Probe, RankSide, Ready, Reply, WrongReport};
use record::Case;
use terms::Collective;
use trace::{Clock, Hook};

/// A rank of the tests.
struct Side {
    context: RankContext,
    hook: Hook,
    case: Option<Case>,
}

/// Makes a rank; the world's field `make` says what goes wrong.
pub(crate) fn make(mut context: RankContext) -> Result<Box<dyn RankSide>, Failure> {
    let chosen = context.spec.fields.get("rank").and_then(serde_json::Value::as_u64) == Some(u64::from(context.rank));
    let what = context.spec.fields.get("make").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    match what.as_str() {
        "fail" if chosen => return Err(Failure::new("no such backend")),
        "lack" => return Err(Failure::lacking("no such library")),
        "exit" if chosen => exit(),
        "hang" if chosen => std::thread::sleep(Duration::from_secs(600)),
        "fail" | "exit" | "hang" => {
            let _ = context.bootstrap.all_gather(&[]);
        }
        _ => {}
    }
    let hook = Hook::new(context.rank, Clock::Monotonic, context.slot.clone());
    Ok(Box::new(Side { context, hook, case: None }))
}

/// Ends this rank's process as a library that gives up does.
#[expect(clippy::exit, reason = "what the test is about")]
fn exit() -> ! {
    std::process::exit(7)
}

impl RankSide for Side {
    fn obey(&mut self, command: &Command) -> Reply {
        match command {
            Command::Prepare { case, .. } => {
                self.case = Some((**case).clone());
                self.hook.begin_case(&[]);
                self.act().map_or_else(Reply::Failed, |path| Reply::Ready(Ready { path, ..Ready::default() }))
            }
            Command::Sample(request) => {
                for _ in 0..request.samples {
                    self.collective();
                }
                Reply::Samples((0..u64::from(request.samples)).collect())
            }
            Command::Check => {
                Reply::Checked(WrongReport { compared: u64::from(self.context.rank), ..Default::default() })
            }
            Command::Probe(Probe::Canary) => Reply::Numbers(vec![f64::NAN]),
            Command::Clocks(_) => Reply::Numbers(Vec::new()),
            Command::Probe(_) => Reply::Numbers(vec![0.1 + 0.2, f64::from(self.context.rank)]),
            Command::Observe | Command::Finish => {
                Reply::Finished(Observations { operations: self.hook.count(), ..Default::default() })
            }
        }
    }
}

impl Side {
    /// An operation that, as a collective does, ends only when every rank has entered it.
    fn collective(&mut self) {
        self.hook.enter(Collective::AllReduce);
        let _ = self.context.bootstrap.all_gather(&[self.context.rank as u8]);
        self.hook.leave(Collective::AllReduce, 4);
    }

    /// An operation that this rank never leaves, and that burns its core.
    fn stuck(&mut self) -> ! {
        self.hook.enter(Collective::AllReduce);
        loop {
            std::hint::spin_loop();
        }
    }

    fn act(&mut self) -> Result<String, Failure> {
        let case = self.case.clone().ok_or_else(|| Failure::new("nothing to do"))?;
        let chosen = case.whole("rank") == Some(u64::from(self.context.rank));
        match case.benchmark.as_str() {
            "echo" => Ok(format!("{} of {}", self.context.rank, self.context.size)),
            "gather" => self.gather(case.whole("rounds").unwrap_or(1)),
            "variable" => Ok(std::env::var(case.text("name").unwrap_or_default()).unwrap_or_default()),
            "place" => Ok(self.place()),
            "print" => {
                self.print();
                Ok(String::new())
            }
            "large" => Ok("x".repeat(65 << 20)),
            "fail" if chosen => Err(Failure::new("no memory for it")),
            "lack" => Err(Failure::lacking("no such device")),
            "fail_slowly" if chosen => {
                std::thread::sleep(Duration::from_millis(1500));
                Err(Failure::new("too late"))
            }
            "work_while_peer_fails" if chosen => Err(Failure::new("at once")),
            "work_while_peer_fails" => {
                std::thread::sleep(Duration::from_millis(2500));
                Ok(String::new())
            }
            "fail_in_collective" | "panic" | "exit" | "hang" => self.go_wrong(&case.benchmark, chosen),
            "compute" if chosen => {
                Self::compute(Duration::from_millis(case.whole("milliseconds").unwrap_or(0)));
                Ok(String::new())
            }
            "compute_while_peers_wait" => self.compute_while_peers_wait(chosen),
            "sleep_while_peers_exchange" if chosen => {
                std::thread::sleep(Duration::from_secs(600));
                Ok(String::new())
            }
            "sleep_while_peers_exchange" => self.gather(1),
            "spin" => loop {
                self.collective();
            },
            "stuck" => self.stuck(),
            "detached" => {
                // Like a rank that gets no signal when its parent dies: on another host, or after setuid.
                // SAFETY: a plain system call.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
                self.stuck()
            }
            _ => Ok(String::new()),
        }
    }

    /// Works for so long, and tells nobody of it.
    #[inline(never)]
    fn compute(time: Duration) {
        let end = std::time::Instant::now() + time;
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    /// One collective, and another that the chosen rank has no time for.
    fn compute_while_peers_wait(&mut self, chosen: bool) -> ! {
        self.collective();
        if chosen {
            Self::compute(Duration::from_secs(600));
        }
        self.stuck()
    }

    /// Two collectives that work, and a third in which the chosen rank does not.
    fn go_wrong(&mut self, how: &str, chosen: bool) -> Result<String, Failure> {
        self.collective();
        self.collective();
        if !chosen {
            self.stuck();
        }
        if how == "hang" {
            std::thread::sleep(Duration::from_secs(600));
        }
        self.hook.enter(Collective::AllReduce);
        match how {
            "panic" => panic!("boom on {}", self.context.rank),
            "exit" => exit(),
            _ => Err(Failure::new("ranks disagree")),
        }
    }

    fn gather(&mut self, rounds: u64) -> Result<String, Failure> {
        let mut last = Vec::new();
        for round in 0..rounds {
            let mine = format!("{}/{round}", self.context.rank);
            last =
                self.context.bootstrap.all_gather(mine.as_bytes()).map_err(|error| Failure::new(error.to_string()))?;
            if last.get(self.context.rank as usize).map(Vec::as_slice) != Some(mine.as_bytes()) {
                return Err(Failure::new("my own part came back changed"));
            }
        }
        let parts = last.iter().map(|part| String::from_utf8_lossy(part).into_owned());
        Ok(parts.collect::<Vec<_>>().join(" "))
    }

    fn place(&self) -> String {
        let mine = process::allowed_cores().unwrap_or_default();
        // SAFETY: a plain system call.
        let group = unsafe { libc::getpgrp() };
        let leads = group as u32 == std::process::id();
        format!("{:?} {mine:?} {leads}", self.context.core)
    }

    fn print(&self) {
        // More than a pipe holds: a coordinator that does not read would hang this rank.
        for line in 0..20_000 {
            let _ = writeln!(std::io::stdout(), "rank {} says {line}", self.context.rank);
            let _ = writeln!(std::io::stderr(), "rank {} moans {line}", self.context.rank);
        }
    }
}
