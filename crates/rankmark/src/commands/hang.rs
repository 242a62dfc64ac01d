//! `rankmark hang`: who waits for whom in a job that runs, and in which call. Only reads.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use import::traces::{Traces, read_timeline};
use job::live;
use launch::attach::{Interval, Target};
use terms::Seconds;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, environment, options, screen};

/// The shortest time between the first look and the last.
const SHORTEST: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  rankmark hang --pid 4711                 the ranks below this process, such as torchrun
  rankmark hang --slurm 123456             the ranks of a job of Slurm, on all of its nodes
  rankmark hang --hosts node01,node02      all ranks on these hosts, through ssh
  rankmark hang --pid 4711 --dumps dumps/  with dumps of PyTorch's Flight Recorder

Exit status: 0 no rank waits, or the job moves; 1 it hangs; 2 it could not be looked at.
docs/how-to/hangs.md says what is read, and what a look costs the job.";

/// Says who waits for whom in a job that runs, and in which call; attaches to it and only reads
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Hang {
    /// processes of this host: ranks, or a launcher of ranks
    #[arg(long, value_name = "PID", num_args = 1.., value_delimiter = ',', group = "job",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pid: Vec<u32>,
    /// a job of Slurm, looked at on all of its nodes
    #[arg(long, value_name = "JOB", group = "job")]
    slurm: Option<String>,
    /// all ranks on these hosts, through ssh
    #[arg(long, value_name = "HOST", num_args = 1.., value_delimiter = ',', group = "job", value_hint = ValueHint::Hostname)]
    hosts: Vec<String>,
    /// how long to look: a call that takes longer looks like a hang
    #[arg(long, value_name = "TIME", default_value = "3s")]
    interval: Seconds,
    /// dumps of PyTorch's Flight Recorder, or a folder of them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath, num_args = 1..)]
    dumps: Vec<PathBuf>,
    /// also ask NCCL's RAS at this address, or read this answer of `ncclras -f json`
    #[arg(long, value_name = "HOST:PORT|FILE", value_hint = ValueHint::AnyPath, num_args = 0..=1, default_missing_value = live::USUAL_RAS)]
    ras: Option<String>,
    /// prints one JSON object
    #[arg(long)]
    json: bool,
    /// prints what this host alone shows, for the process that asks
    #[arg(long, hide = true)]
    part: bool,
}

impl Typed for Hang {
    const NAME: &'static str = "hang";

    fn run(self, _: Entry<'_>) -> Ended {
        let interval = Interval(options::interval(self.interval, SHORTEST, "3s")?);
        if self.part {
            return screen::print_json(&live::part(&self.target(), interval)?);
        }
        let target = self.target();
        if target == Target::Host && self.hosts.is_empty() {
            return Err(Failure::new("no job is named")
                .hint("name a process (`--pid PID`), a job of Slurm (`--slurm JOB`) or hosts (`--hosts a,b`)"));
        }
        let dumps = self.dumps()?;
        let search_path = environment::search_path();
        let ask = || self.ras.as_deref().map(|place| live::ask_ras(place, &search_path)).transpose();
        let before = ask()?;
        let looked = live::collect(&target, &self.hosts, interval, &search_path)?;
        let after = ask()?;
        let found = live::verdict(looked, dumps, before.zip(after))?;
        match self.json {
            true => screen::print_json(&format!("{}\n", found.json()))?,
            false => screen::print(&found.text(screen::width()))?,
        };
        Ok(u8::from(found.is_hung))
    }
}

impl Hang {
    fn target(&self) -> Target {
        match &self.slurm {
            Some(job) => Target::Slurm(job.clone()),
            None if !self.pid.is_empty() => Target::Processes(self.pid.clone()),
            None => Target::Host,
        }
    }

    /// What the dumps hold, without traces next to them: these are of an earlier time.
    fn dumps(&self) -> Result<Option<Traces>, Failure> {
        if self.dumps.is_empty() {
            return Ok(None);
        }
        let read = read_timeline(&self.dumps)?;
        Ok(Some(Traces { timeline: None, inspector: None, ..read }))
    }
}
