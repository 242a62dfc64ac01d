//! Under a launcher of others (`mpirun -n 4 rankmark comm ...`): which part of the run this process has.

use std::ffi::OsString;
use std::process::ExitCode;

use launch::Departure;
use launch::adopted::{Adoption, Lobby};
use measure::Verdict;

use crate::{Failure, terminal};

/// Commands that measure. All others run in the process of rank 0 alone, as without a launcher.
const MEASURING: [&str; 6] = ["run", "suite", "benchmark", "comm", "train", "memory"];

/// How this process came to be.
pub(crate) enum Part {
    /// No launcher started it among several.
    Alone,
    /// It keeps the place of one rank.
    Post(Adoption),
    /// The process of rank 0 started it, to lead the run.
    Coordinator(Adoption),
    /// One of several, and rank 0 does what there is to do.
    Idle,
}

/// Which part this process has.
pub(crate) fn part(arguments: &[OsString]) -> Result<Part, Failure> {
    let coordinator = launch::adopted::is_coordinator(arguments);
    let measures =
        arguments.get(1).and_then(|argument| argument.to_str()).is_some_and(|name| MEASURING.contains(&name));
    let adoption = Adoption::of(&|name| std::env::var_os(name));
    match adoption {
        Ok(Some(adoption)) if coordinator => Ok(Part::Coordinator(adoption)),
        _ if coordinator => {
            let cause = "no launcher's variables are set".to_owned();
            Err(Failure::new("`__coordinator` is for processes that a launcher started", Some(cause), None))
        }
        Ok(Some(adoption)) if measures => Ok(Part::Post(adoption)),
        Ok(Some(adoption)) if adoption.rank > 0 => Ok(Part::Idle),
        Err(verdict) if measures => Err(refusal(&verdict)),
        Ok(_) | Err(_) => Ok(Part::Alone),
    }
}

/// The life of a process that keeps a rank's place.
pub(crate) fn post(adoption: &Adoption, arguments: &[OsString]) -> ExitCode {
    match launch::adopted::serve(adoption, arguments) {
        Ok(code) => ExitCode::from(code),
        Err(departure) => {
            // Of a coordinator that is gone the process of rank 0 speaks.
            if !matches!(departure, Departure::Lost) {
                terminal::complain(&Failure::new(&departure, None, None));
            }
            ExitCode::from(u8::try_from(departure.code()).unwrap_or(1))
        }
    }
}

/// Gathers all ranks before anything else is looked at, so that all of them end together whatever is wrong.
pub(crate) fn gather(adoption: Adoption) -> Result<Lobby, Failure> {
    launch::interrupt::install()
        .map_err(|error| Failure::new("signals could not be set up", Some(error.to_string()), None))?;
    Lobby::gather(adoption, crate::session::search_path()).map_err(|verdict| refusal(&verdict))
}

/// Skips what a launcher's ranks cannot do, before anything is measured of it: each launch of a case is a new world.
pub(crate) fn skip_impossible(plan: &mut record::Plan, launcher: &str) {
    for case in &mut plan.cases {
        // PyTorch's MPI, too.
        let launched = case.text("backend").and_then(comm::backend).is_some_and(|backend| backend.about().launched);
        let launches = case.whole("launches").unwrap_or(1);
        if launched && launches > 1 && case.skip.is_none() {
            case.skip = Some(format!(
                "{launcher} started these ranks, which can initialise MPI once, and {launches} launches need it {launches} \
                 times"
            ));
        }
    }
}

fn refusal(verdict: &Verdict) -> Failure {
    Failure::new("the launcher's ranks cannot be used", Some(verdict.message.clone()), verdict.hint.as_deref())
}
