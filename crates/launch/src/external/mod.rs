//! Under a launcher of others: `mpirun -n 4 rankmark comm ...`, and so under srun, torchrun and
//! Kubernetes Jobs.
//!
//! The launcher starts this program several times. Each of these processes is an **agent** ([`serve`]): it keeps the place
//! that the launcher gave it, and starts a rank there, a child, for each world that the run needs. The agent of rank 0
//! also starts the coordinator, a child with the same command line, in which the run happens as it does without a launcher;
//! its [`Coordinator`] takes the part of a starter. Ranks are children, not the agents themselves, so that one run can have
//! several worlds, and a rank that dies takes its world with it and not the job.
//!
//! Agents find their coordinator by a file that only this user can read (`rendezvous_file`), and prove themselves as ranks do. On
//! several hosts that file lies in a folder that they share, and the coordinator listens on an address that they reach; or
//! torchrun's store (`c10d`) or Hydra's key-value space (`pmi`) has what it would hold; or all of them were given that address and the secret (`meeting_point`).
//! Ranks of the coordinator's host open its memory; those of others open that of their agent. The agent makes what the
//! coordinator asks for, and reports what its status page shows and how its rank ended.

pub(crate) mod above;
mod agent;
mod c10d;
mod command;
mod coordinator;
mod doors;
mod heartbeat;
mod hosts;
mod meeting_point;
mod names;
mod owned;
mod pmi;
mod rendezvous_file;

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use control::reach;
use measure::Verdict;
use process::interrupt;

use crate::departure::launcher_ended;
use crate::rank::{
    ADAPTERS, Adapter, COORDINATOR, JOB_COMPLETION_INDEX, SECRET_FILE, Seat, WORLD_SIZE, launcher_number,
};
use crate::verdict::not_started;
use crate::{Environment, Variables};

pub use agent::{coordinator_arguments, is_coordinator, serve};
pub use coordinator::Coordinator;
pub use hosts::RankHost;
use meeting_point::MeetingPoint;
use names::{ARRIVAL, JOB, KEEPERS, LAUNCHERS, TORCHRUN};

/// The place that a launcher gave this process.
#[derive(Clone)]
pub struct External {
    adapter: &'static Adapter,
    /// This process's rank, from 0.
    pub rank: u32,
    /// Processes that the launcher started; at least two.
    pub size: u32,
    /// Names the job among all jobs of this user on this host.
    job: String,
    /// How its processes find their coordinator.
    meeting_point: MeetingPoint,
    /// The launcher started ranks on other hosts, too.
    several: bool,
    /// This is the first process of the job on this host.
    first_on_host: bool,
    /// The network interface on which the coordinator listens then, where the user named one.
    interface: Option<String>,
    /// How long all processes have to arrive.
    pub arrival: Duration,
    /// The arguments of this process, without the program's name; what may be secret is masked.
    command: Vec<String>,
    /// What the environment tells of the launcher's line.
    told: command::Told,
}

impl External {
    /// The place of this process, where a launcher started it among several; None where none did.
    ///
    /// # Errors
    /// When a launcher did and the run could not be right: it says too little, or what cannot be; or when one of the
    /// variables that are looked at is not text: taken for one that is not set it would make another run of this.
    pub fn from_environment(environment: Environment<'_>) -> Result<Option<Self>, Verdict> {
        let no_text = Cell::new(None);
        let text = |name: &str| {
            let is_none = |value: OsString| no_text.set(Some((name.to_owned(), value)));
            environment(name)?.into_string().map_err(is_none).ok()
        };
        let external = Self::said(&text);
        match no_text.into_inner() {
            Some((name, value)) => {
                let message = format!("{name} is {value:?}, which is not UTF-8");
                let hint = "a launcher's variables are plain text; if it is not of this job, unset it";
                Err(not_started(message, Some(hint.to_owned())))
            }
            None => external,
        }
    }

    fn said(variable: Variables<'_>) -> Result<Option<Self>, Verdict> {
        let set = |name: &&str| variable(name).is_some();
        let complete = |adapter: &&Adapter| {
            set(&adapter.rank) && set(&adapter.size) && adapter.also.iter().all(|name| variable(name).is_some())
        };
        // What starts torchrun on each node is further away than torchrun itself.
        let nearest = || ADAPTERS.iter().filter(|_| set(&TORCHRUN)).find(|adapter| adapter.seat == Seat::Torchrun);
        let Some(adapter) = nearest().filter(complete).or_else(|| ADAPTERS.iter().find(complete)) else {
            return unannounced(variable, &process::ancestors()).map_or(Ok(None), Err);
        };
        let wrong = |why: String| not_started(format!("{} started this process, and {why}", adapter.title), None);
        let rank = launcher_number(adapter.rank, variable).map_err(wrong)?;
        let size = launcher_number(adapter.size, variable).map_err(wrong)?;
        if size < 2 {
            return Ok(None);
        }
        if let Some(refusal) = in_a_shell(adapter, size, variable) {
            return Err(refusal);
        }
        if rank >= size {
            return Err(wrong(format!("{} is {rank}, which is not one of {size} ranks", adapter.rank)));
        }
        let several = on_several_hosts(adapter, size, variable);
        let several_refused = |hint: &'static str| {
            move |why: String| {
                let on = if several { " on several hosts" } else { "" };
                let message = format!("{} started {size} ranks{on}, and {why}", adapter.title);
                not_started(message, Some(hint.to_owned()))
            }
        };
        let speaks_pmi = adapter.seat == Seat::Pmi && !is_logged();
        let meeting_point = MeetingPoint::from_variables(variable, several, speaks_pmi)
            .map_err(several_refused(how_to_meet(variable)))?;
        // Only the processes of rank 0 then need a name, and they are on one host.
        let named_on_several = several && !matches!(meeting_point, MeetingPoint::Launcher { .. });
        let job = job(adapter, variable, named_on_several)
            .map_err(several_refused("give all of them the same RANKMARK_JOB, another for each job"))?;
        let arrival = arrival(adapter, variable).map_err(wrong)?;
        let interface = interface(variable, several && rank > 0)?;
        let told = command::Told::from_variables(variable);
        let command = Vec::new();
        // srun's tasks that speak PMI have Slurm's variable.
        let local_rank = variable(adapter.local_rank).or_else(|| variable("SLURM_LOCALID"));
        let first_on_host =
            if adapter.local_rank.is_empty() { true } else { local_rank.map_or(rank == 0, |own| own == "0") };
        Ok(Some(Self {
            adapter,
            rank,
            size,
            job,
            meeting_point,
            several,
            first_on_host,
            interface,
            arrival,
            command,
            told,
        }))
    }

    /// "Open MPI's mpirun".
    pub fn launcher(&self) -> &'static str {
        self.adapter.title
    }

    /// Whether this process is to look at its host for all processes there.
    pub const fn is_first_on_host(&self) -> bool {
        self.first_on_host
    }

    /// Whether the launcher started processes on several hosts.
    pub const fn is_on_several_hosts(&self) -> bool {
        self.several
    }

    /// The launcher's words before this program's own command line, as [`Coordinator::command`] without our variables; empty
    /// where no line of one host starts the same.
    pub fn line(&self, own: &[OsString]) -> Vec<String> {
        let hosts = if self.several { 2 } else { 1 };
        command::launchers_words(self.adapter.seat, &self.told, (self.size, hosts), own)
    }

    /// Whether its variables reach other hosts only if the line names them (Open MPI's `-x`).
    pub fn passes_named_variables(&self) -> bool {
        self.several && self.adapter.seat == Seat::OpenMpi
    }

    /// With the arguments that the user gave this process: those of all ranks must be the same.
    #[must_use]
    pub fn with_arguments(self, arguments: &[OsString]) -> Self {
        let words = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        Self { command: record::command_line(words), ..self }
    }
}

/// The network interface that the user names, which each host with ranks has, also where nothing of it is needed: one that
/// is passed over would be taken for the one that was used. An address is that of one host; `elsewhere`: maybe not of this.
fn interface(variable: Variables<'_>, elsewhere: bool) -> Result<Option<String>, Verdict> {
    let Some(asked) = variable(reach::INTERFACE) else { return Ok(None) };
    if !(elsewhere && asked.parse::<IpAddr>().is_ok()) {
        reach::check(&asked).map_err(|(why, hint)| not_started(why, Some(hint)))?;
    }
    Ok(Some(asked))
}

/// What processes need that cannot meet as they were set up.
fn how_to_meet(variable: Variables<'_>) -> &'static str {
    match (variable(COORDINATOR), variable(SECRET_FILE)) {
        (_, Some(_)) => {
            "RANKMARK_COORDINATOR=HOST:PORT, and a file of 32 bytes or more, the same for all processes, that not all \
             users can read"
        }
        (Some(_), None) => {
            "RANKMARK_SECRET_FILE names a file of 32 bytes or more, the same for all processes, that not all users can \
             read. Or set RANKMARK_RENDEZVOUS_DIR=/PATH to a shared folder, and (except in pods) unset \
             RANKMARK_COORDINATOR"
        }
        (None, None) => {
            "RANKMARK_RENDEZVOUS_DIR=/PATH names a folder that they share. Without one, set \
             RANKMARK_COORDINATOR=HOST:PORT and RANKMARK_SECRET_FILE"
        }
    }
}

/// What processes have to arrive. Most launchers start all of them at once; a pod first waits for a node and its image.
fn arrival(adapter: &Adapter, variable: Variables<'_>) -> Result<Duration, String> {
    let Some(text) = variable(ARRIVAL) else {
        let usual = if adapter.seat == Seat::Kubernetes { 600 } else { 60 };
        return Ok(Duration::from_secs(usual));
    };
    let seconds = text.parse::<u32>().ok().filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| format!("{ARRIVAL} is `{}`, not seconds from 1", text.escape_debug()))?;
    Ok(Duration::from_secs(seconds.into()))
}

/// Whether the launcher says that other hosts have ranks, too.
fn on_several_hosts(adapter: &Adapter, size: u32, variable: Variables<'_>) -> bool {
    // Cray's PMI has a word of its own for it.
    let of_cray = || variable("PMI_LOCAL_SIZE").filter(|_| adapter.seat == Seat::Pmi);
    let elsewhere = variable(adapter.local_size).or_else(of_cray).is_some_and(|here| here != size.to_string());
    // Where a step's ranks speak PMI, only SLURM tells.
    let nodes = variable("SLURM_STEP_NUM_NODES").filter(|_| adapter.job.contains(&"SLURM_STEP_ID"));
    elsewhere || nodes.and_then(|nodes| nodes.parse::<u32>().ok()).is_some_and(|nodes| nodes > 1)
}

/// Words that name a job and that another host does not have.
const OF_ONE_HOST: [&str; 1] = ["PMIX_SERVER_TMPDIR"];

/// What names the job: the user's or the launcher's own words, else the process of the launcher, which other hosts do not
/// know.
fn job(adapter: &Adapter, variable: Variables<'_>, several: bool) -> Result<String, String> {
    let names = adapter.job.iter().filter(|name| !several || !OF_ONE_HOST.contains(name));
    // Every job of Slurm counts its steps from 0, and the script of one job may start several launchers.
    let in_step = variable("SLURM_STEP_ID").is_some();
    let names = names.filter(|name| in_step || **name != "SLURM_JOB_ID");
    let words: Vec<String> = [JOB, COORDINATOR].iter().chain(names).filter_map(|name| variable(name)).collect();
    if !words.is_empty() {
        return Ok(format!("{} {}", adapter.title, words.join(" ")));
    }
    if several {
        return hydra_port()
            .map(|port| format!("{} {port}", adapter.title))
            .ok_or_else(|| "does not name the job to them".to_owned());
    }
    let is_launcher = |name: &str| LAUNCHERS.iter().chain(&KEEPERS).any(|known| name.starts_with(known));
    let ancestor = process::ancestors().into_iter().find(|above| is_launcher(&above.name)).or_else(process::parent);
    let ancestor = ancestor.map_or_else(String::new, |parent| format!("{} {}", parent.pid, parent.started));
    Ok(format!("{} {ancestor}", adapter.title))
}

/// Where Hydra's mpiexec listens for its proxies on all hosts, one of which is above this process: the same on each of them.
fn hydra_port() -> Option<String> {
    process::ancestors().into_iter().find_map(|above| {
        let line = command::line_of(above.pid);
        let at =
            line.iter().position(|word| word == "--control-port").filter(|_| above.name.starts_with("hydra_pmi"))?;
        line.get(at + 1).cloned()
    })
}

/// Whether Hydra logs what processes tell it, the secret too (`mpiexec -verbose`): all its proxies have this option then.
fn is_logged() -> bool {
    let mut proxies = process::ancestors().into_iter().filter(|above| above.name.starts_with("hydra_pmi"));
    proxies.any(|proxy| command::line_of(proxy.pid).iter().any(|word| word == "--debug"))
}

/// A process that a launcher has started without saying which of how many it is: each would think that it is alone.
fn unannounced(variable: Variables<'_>, above: &[process::Ancestor]) -> Option<Verdict> {
    if variable(WORLD_SIZE).as_deref() == Some("1") {
        return None;
    }
    let alone = format!("{WORLD_SIZE}=1 makes each process a run of its own");
    let hint = || {
        let known = "launchers are Open MPI, PMI (MPICH, Intel MPI), srun, torchrun and Kubernetes Jobs: docs/how-to/launchers.md";
        Some(format!("{known}; {alone}"))
    };
    if let Some(rank) = variable("PMIX_RANK") {
        return Some(not_started(format!("PMIX_RANK is {rank}, and nothing says of how many ranks"), hint()));
    }
    if let Some(index) = variable(JOB_COMPLETION_INDEX) {
        let message = format!("{JOB_COMPLETION_INDEX} is {index}, and nothing says which Job of how many pods this is");
        let hint = format!("`rankmark gen-job --for kubernetes` writes a Job that says it; {alone}");
        return Some(not_started(message, Some(hint)));
    }
    if let Some(refusal) = in_a_training_job(variable, &alone) {
        return Some(refusal);
    }
    let launcher = above.iter().find(|one| LAUNCHERS.iter().any(|known| one.name.starts_with(known)))?;
    let message = format!(
        "`{}` (pid {}) started this process and does not say in the environment which rank of how many it is",
        launcher.name, launcher.pid
    );
    Some(not_started(message, hint()))
}

/// The words of PyTorch's rendezvous without those of torchrun: a PyTorchJob's pod, or a script that starts ranks itself.
fn in_a_training_job(variable: Variables<'_>, alone: &str) -> Option<Verdict> {
    let words = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
    let [rank, size, ..] = words.map(&variable);
    if words.iter().any(|name| variable(name).is_none()) || variable("LOCAL_RANK").is_some() {
        return None;
    }
    let size = size.filter(|size| size.parse::<u32>().is_ok_and(|size| size > 1))?;
    let rank = rank.unwrap_or_default();
    let message = format!(
        "RANK is {rank} of WORLD_SIZE {size}, as in a pod of a PyTorchJob, and no launcher started this process: each of the \
         {size} would run by itself"
    );
    let hint = format!(
        "start `torchrun --no-python rankmark ...` in each pod, as `rankmark gen-job --for pytorchjob` writes it; {alone}"
    );
    Some(not_started(message, Some(hint)))
}

/// A shell that `srun --pty` opened: only the first task has one, so the other ranks would never come.
fn in_a_shell(adapter: &Adapter, size: u32, variable: Variables<'_>) -> Option<Verdict> {
    variable("SLURM_PTY_PORT").filter(|_| adapter.seat == Seat::Slurm)?;
    let shell = process::parent().filter(above::is_interactive_shell)?;
    let message = format!(
        "`{}` (pid {}) is a shell of `srun --pty` with {size} tasks: it is task 0, and the others start nothing",
        shell.name, shell.pid
    );
    let hint = format!(
        "`srun --overlap -n {size} rankmark ...` starts all ranks; `env -u SLURM_STEP_ID rankmark ...` is a run of its own"
    );
    Some(not_started(message, Some(hint)))
}

/// Ends the run of this coordinator when its launcher ends. The process of rank 0, which started it, asks it to end by
/// itself.
///
/// # Errors
/// When the system has no thread left.
pub fn end_with_launcher() -> io::Result<()> {
    above::tell_end(above::launchers(1), |title| interrupt::stop(launcher_ended(title, "this host")))
}

/// What a backend with a launcher asks of the processes that an external launcher started.
fn once(backend: &dyn comm::Backend) -> String {
    format!("processes can join the backend `{}` once in a job", backend.about().name)
}

#[cfg(test)]
mod tests;
