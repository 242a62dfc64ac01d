//! What one round of a case takes beyond its samples, with fresh ranks of backend `shm`: start them, prepare the case, end the
//! case, end the ranks.
//!
//! `cargo bench -p rankmark --bench rounds [-- --ranks 4 --rounds 40 --bytes 1KiB --at-most-ms 15]`
//!
//! Prints the median of the rounds and the range of the middle 90% of them, for each part and for the whole. Ends with 1 where
//! the median of the whole is above `--at-most-ms`. Starts itself again as the ranks.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and environment, and prints its table"
)]

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use benchmarks::benchmark;
use measure::{Verdict, World, WorldSpec};
use record::Case;

/// A world that takes longer is broken.
const LIMIT: Duration = Duration::from_secs(60);
/// The first rounds read the program from disk.
const UNCOUNTED: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if launch::is_rank(&arguments) {
        return rank(&arguments);
    }
    let value = |name: &str, default: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        let given = at.and_then(|at| arguments.get(at + 1)).map(|value| value.to_string_lossy().into_owned());
        given.unwrap_or_else(|| default.to_owned())
    };
    let rounds: usize = value("--rounds", "40").parse().unwrap_or(40);
    let at_most: f64 = value("--at-most-ms", "inf").parse().unwrap_or(f64::INFINITY);
    let case = match case(&value("--ranks", "4"), &value("--bytes", "1KiB")) {
        Ok(case) => case,
        Err(problem) => {
            println!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let mut parts: [Vec<Duration>; 5] = Default::default();
    for number in 0..UNCOUNTED + rounds.max(1) {
        match round(&case) {
            Ok(times) if number >= UNCOUNTED => {
                parts.iter_mut().zip(times).for_each(|(part, time)| part.push(time));
            }
            Ok(_) => {}
            Err(verdict) => {
                println!("error: {verdict}");
                return ExitCode::from(2);
            }
        }
    }
    println!("{} rounds of all_reduce with {} ranks: median (5% to 95%)", rounds, case.ranks());
    let medians = parts.map(|mut times| {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3;
        [at(0.5), at(0.05), at(0.95)]
    });
    for (name, [median, low, high]) in ["start", "prepare", "finish", "end", "round"].iter().zip(medians) {
        println!("{name:8} {median:7.2} ms ({low:.2} to {high:.2})");
    }
    if medians[4][0] > at_most {
        println!("error: a round takes more than {at_most} ms beyond its samples");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A rank, as the program itself makes it.
fn rank(arguments: &[OsString]) -> ExitCode {
    let environment = |name: &str| std::env::var_os(name);
    let left = launch::rank_main(arguments, &environment, &mut |context: launch::RankContext| {
        let launch::RankContext { spec, mut bootstrap, slot, here, cores, guardian, .. } = context;
        let oversubscribed = benchmarks::cores_wanted(here, &spec.fields) > cores.len();
        let slot: Arc<_> = slot;
        let (work, abort) = benchmarks::open_rank(&spec, &mut *bootstrap, slot, oversubscribed, cores)?;
        guardian.raise_on_loss(abort);
        Ok(Box::new(work))
    });
    ExitCode::from(left.map_or_else(|departure| departure.code() as u8, |()| 0))
}

fn case(ranks: &str, bytes: &str) -> Result<Case, String> {
    let about = benchmark("collective").ok_or("there is no benchmark `collective`")?.about();
    let fields = [("op", "all_reduce"), ("backend", "shm"), ("ranks", ranks), ("bytes", bytes)];
    let plan = record::plan::from_flags(about, &fields, &[]).map_err(|problems| problems.to_string())?;
    plan.cases.into_iter().next().ok_or_else(|| "the plan has no case".to_owned())
}

/// One round without a sample: what starting, preparing, finishing and ending took, and all of it.
fn round(case: &Case) -> Result<[Duration; 5], Verdict> {
    let begun = Instant::now();
    let spec = WorldSpec { ranks: case.ranks(), fields: case.world.to_map() };
    let mut world = launch::LocalStarter::new().start_processes(&spec)?;
    let started = begun.elapsed();
    // Later rounds check what their share of the time admits.
    world.prepare(case, false, LIMIT)?;
    let prepared = begun.elapsed();
    world.finish(LIMIT)?;
    let finished = begun.elapsed();
    drop(world);
    let ended = begun.elapsed();
    Ok([started, prepared - started, finished - prepared, ended - finished, ended])
}
