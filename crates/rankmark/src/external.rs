//! Under a launcher of others (`mpirun -n 4 rankmark comm ...`): which part of the run this process has.

use std::ffi::OsString;
use std::process::ExitCode;

use launch::external::{Coordinator, External};
use measure::Verdict;
pub(crate) use plans::backends::default_backend;
use terms::Error;

use crate::{Failure, screen};

/// Whether a command always measures.
pub(crate) fn measures(command: &str) -> bool {
    ["run", "suite", "benchmark"].contains(&command) || crate::options::fields::measured(command).is_some()
}

/// Whether this command line measures with the launcher's ranks. All others run in the process of rank 0 alone, as without a
/// launcher, or, as `validate`, on each host.
fn uses_ranks(command: &str, arguments: &[OsString]) -> bool {
    match command {
        "fleet" => !is_given(command, arguments, &["dir"]),
        "profile" => !is_given(command, arguments, &["record", "import", "compare"]),
        _ => measures(command),
    }
}

/// Whether one of these arguments of a command is given: records or traces, with which it measures nothing. clap knows which
/// words are values of options. Of a line that clap refuses, the process that leads all ranks says so.
fn is_given(command: &str, arguments: &[OsString], names: &[&str]) -> bool {
    let Ok(matches) = crate::command_line().try_get_matches_from(arguments) else { return false };
    let own = matches.subcommand_matches(command);
    own.is_some_and(|own| names.iter().any(|name| own.contains_id(name)))
}

/// How this process came to be.
pub(crate) enum ProcessRole {
    /// No launcher started it among several.
    Alone,
    /// The process keeps the place of one rank.
    Agent(External),
    /// The process of rank 0 started it, to lead the run.
    Coordinator(External),
    /// One of several, and rank 0 does what there is to do.
    Idle,
}

/// Which part this process has.
pub(crate) fn part(arguments: &[OsString]) -> Result<ProcessRole, Failure> {
    let coordinator = launch::external::is_coordinator(arguments);
    let command = arguments.get(1).and_then(|argument| argument.to_str()).unwrap_or_default();
    // Asked only where a launcher is there: the answer takes a look at the whole line.
    let uses_ranks = || uses_ranks(command, arguments);
    // It looks at ranks of another job: on each node of a job of Slurm, one process does.
    if command == "hang" {
        return Ok(ProcessRole::Alone);
    }
    let own = if coordinator { launch::external::coordinator_arguments(arguments) } else { arguments.to_vec() };
    let external = External::from_environment(&|name| std::env::var_os(name));
    match external.map(|external| external.map(|external| external.with_arguments(&own))) {
        Ok(Some(external)) if coordinator => Ok(ProcessRole::Coordinator(external)),
        _ if coordinator => {
            let cause = "no launcher's variables are set".to_owned();
            Err(Failure::new("`__coordinator` is for processes that a launcher started").cause(cause))
        }
        Ok(Some(external)) if command == "profile" && arguments.iter().any(|argument| argument == "--") => {
            if external.rank > 0 { Ok(ProcessRole::Idle) } else { Err(job_below_profile(&external, arguments)) }
        }
        Ok(Some(external)) if uses_ranks() => Ok(ProcessRole::Agent(external)),
        Ok(Some(external)) if command == "validate" && external.is_first_on_host() => Ok(ProcessRole::Alone),
        Ok(Some(external)) if external.rank > 0 => Ok(ProcessRole::Idle),
        Err(verdict) if uses_ranks() => Err(refusal(&verdict)),
        Ok(_) | Err(_) => Ok(ProcessRole::Alone),
    }
}

/// A job of others is below `rankmark profile`, and not beside it in each process of the launcher: the line to type.
fn job_below_profile(external: &External, arguments: &[OsString]) -> Failure {
    let (own, job): (Vec<String>, Vec<String>) = {
        let words = |words: &[OsString]| words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let at = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
        (words(&arguments[..at]), words(arguments.get(at + 1..).unwrap_or_default()))
    };
    let launcher = external.line(arguments);
    let cause = format!("{} started {} processes of `rankmark profile`", external.launcher(), external.size);
    let failure = Failure::new("`rankmark profile -- COMMAND` starts the ranks of a job itself").cause(cause);
    if launcher.is_empty() {
        return failure.hint("rankmark profile -- torchrun --nproc-per-node N train.py, with the options of each host");
    }
    // Open MPI warns of a variable that is not set.
    let is_timed = own.iter().any(|word| word.starts_with("--duration") || word.starts_with("-d"));
    let window = if is_timed { "RANKMARK_PROFILE_SECONDS" } else { "RANKMARK_PROFILE_STEPS" };
    let passed = ["PYTHONPATH", "RANKMARK_PROFILE_DIR", window, "RANKMARK_PROFILE_HANG_SECONDS"];
    let passed = passed.iter().filter(|_| external.passes_named_variables()).flat_map(|name| ["-x", name]);
    let mut line = vec!["rankmark".to_owned()];
    line.extend(own.into_iter().skip(1));
    line.push("--".to_owned());
    line.extend(launcher);
    line.extend(passed.map(str::to_owned));
    line.extend(record::command_line(job));
    let line: Vec<String> = line.iter().map(|word| report::shell(word)).collect();
    failure.hint(line.join(" "))
}

/// The life of a process that keeps a rank's place.
pub(crate) fn agent(external: &External, arguments: &[OsString]) -> ExitCode {
    match launch::external::serve(external, arguments) {
        Ok(code) => ExitCode::from(code),
        Err(departure) => {
            let code = ExitCode::from(u8::try_from(departure.code()).unwrap_or(1));
            // Of a coordinator that is gone the process of rank 0 speaks.
            if !departure.is_orphaned() {
                screen::complain(&Failure::from(Error::from(departure)), false);
            }
            code
        }
    }
}

/// Gathers all ranks before anything else is checked, so that all of them end together whatever is wrong.
pub(crate) fn gather(external: External) -> Result<Coordinator, Failure> {
    process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    launch::external::end_with_launcher()
        .map_err(|error| Failure::new("the launcher cannot be watched").cause(error))?;
    Coordinator::gather(external, crate::environment::search_path())
        .map(|coordinator| coordinator.on_stall(crate::session::on_stall()))
        .map_err(|verdict| refusal(&verdict).with_code(crate::session::signal_code().unwrap_or(2)))
}

fn refusal(verdict: &Verdict) -> Failure {
    let failure = Failure::new("the launcher's ranks cannot be used").cause(&verdict.error.what);
    verdict.error.hint.iter().fold(failure, Failure::hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_the_name_of_a_value_is_no_record() {
        let measures = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            uses_ranks(&arguments[1].to_string_lossy(), &arguments)
        };
        // Tests start in the folder of their crate, which has a folder `src`.
        assert!(std::path::Path::new("src").is_dir());
        for line in [
            "rankmark profile",
            "rankmark profile --model src",
            "rankmark profile --model=src --name src -o src",
            "rankmark profile -- ls src",
            "rankmark fleet",
            "rankmark fleet --topology src --output-dir src",
            "rankmark run src",
        ] {
            assert!(measures(line), "{line}");
        }
        for line in [
            "rankmark profile src",
            "rankmark profile -o src src",
            "rankmark profile --import src",
            "rankmark profile --import=a.json",
            "rankmark profile --compare src src",
            "rankmark fleet src --output-dir out",
            "rankmark fleet nodes.tar.gz",
            "rankmark list records",
        ] {
            assert!(!measures(line), "{line}");
        }
    }
}
