//! `rankmark watch DIR`: follows a run from another terminal. Reads the record while it grows, and takes no lock.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueHint;
use record::store::{CASES_FILE, Follower, LatestLines, Liveness, RUN_FILE, goes_on, liveness, newest};
use record::{CaseLine, RunFile};
use report::rows;
use terms::Seconds;

use super::{Ended, Typed};
use crate::screen::{Watch as Screen, remark, simulated, unwritten, warn};
use crate::session::{self, Entry};
use crate::{Failure, not_a_record, options};
use record::store::RESULTS;

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// A run that another program starts at the same time needs a moment to make its record.
const WAIT: Duration = Duration::from_secs(10);

/// Follows a run from another terminal: rows and curves as rounds refine them
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  rankmark watch\n  rankmark watch results/20261124T101500Z-quick --interval 5s\n  \
                  rankmark watch results/nightly --once\n\n\
                  Exit status: that of the run, once it has ended (0 fine, 1 a case failed or was not run, 2 every case \
                  was skipped); 0 with --once while it runs; 2 where there is no record; 130 after Ctrl-C, which does \
                  not end the run."
)]
pub(crate) struct Watch {
    /// the record (default: the newest in results)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    record: Option<PathBuf>,
    /// how often to look
    #[arg(long, value_name = "TIME", default_value = "2s")]
    interval: Seconds,
    /// print the state and exit
    #[arg(long)]
    once: bool,
}

impl Typed for Watch {
    const NAME: &'static str = "watch";

    fn run(self, _: Entry<'_>) -> Ended {
        self.record.as_deref().map_or(Ok(()), not_a_record::refuse_file)?;
        let interval = options::interval(self.interval, LOOK, "2s")?;
        process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
        let Some(directory) = record(self.record.as_ref())? else { return Ok(interrupted()) };
        follow(&directory, interval, self.once)
    }
}

/// The exit code after Ctrl-C.
fn interrupted() -> u8 {
    session::signal_code().unwrap_or(130)
}

/// Waits, and says whether a signal came.
fn pause(length: Duration) -> bool {
    let end = Instant::now() + length;
    while session::signal_code().is_none() && Instant::now() < end {
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    session::signal_code().is_some()
}

/// The record to follow; waits for one that is not there yet. None after a signal.
fn record(given: Option<&PathBuf>) -> Result<Option<PathBuf>, Failure> {
    let begun = Instant::now();
    let mut was_reported = false;
    loop {
        let found = match given {
            Some(directory) => Some(directory.clone()).filter(|directory| is_record(directory)),
            None => newest(Path::new(RESULTS)),
        };
        if found.is_some() {
            return Ok(found);
        }
        let place = given.map_or(RESULTS.to_owned(), |directory| directory.display().to_string());
        if begun.elapsed() >= WAIT {
            let hint = "`rankmark list records DIR` lists the records of a folder";
            return Err(Failure::new(format!("there is no record in {place}"))
                .cause(format!("no {RUN_FILE}"))
                .hint(hint));
        }
        if !was_reported {
            remark(&format!("note: {place} holds no record yet; waiting for {} s\n", WAIT.as_secs()));
            was_reported = true;
        }
        if pause(LOOK * 4) {
            return Ok(None);
        }
    }
}

fn is_record(directory: &Path) -> bool {
    directory.join(RUN_FILE).symlink_metadata().is_ok()
}

fn follow(directory: &Path, interval: Duration, once: bool) -> Result<u8, Failure> {
    let mut follower = Follower::new(directory);
    let mut file = follower.run_file()?;
    let mut screen = Screen::new(&file.plan, directory);
    screen.output.line(&rows::followed(&file, directory));
    if file.simulated {
        screen.output.line(&simulated("times"));
    }
    let mut latest = LatestLines::default();
    loop {
        // Where no lock shows the run, only its file says that it has ended.
        if liveness(directory) != Liveness::Live {
            file = follower.run_file()?;
        }
        // Before the lines are read: what a run writes before it ends is then read, too.
        let live = goes_on(directory, &file);
        let lines = follower.new_lines()?;
        let is_new = !lines.is_empty();
        screen.put(latest.take(lines));
        let quiet_s = live.then(|| quiet(directory)).flatten();
        if once || !live {
            // What is known only at the end stands in the run file.
            file = follower.run_file()?;
            screen.whole(quiet_s);
            let code = end(&mut screen, &file, &latest.lines, (follower.damaged, live), directory);
            return screen.output.lost().map_or(Ok(code), |error| Err(unwritten(error)));
        }
        screen.update(quiet_s, is_new);
        if screen.output.is_closed() {
            return screen.output.lost().map_or(Ok(0), |error| Err(unwritten(error)));
        }
        if pause(interval) {
            screen.output.line("the run goes on");
            return Ok(interrupted());
        }
    }
}

/// Seconds since the last result.
fn quiet(directory: &Path) -> Option<f64> {
    let modified = directory.join(CASES_FILE).symlink_metadata().ok()?.modified().ok()?;
    modified.elapsed().ok().map(|since| since.as_secs_f64())
}

/// What is said at the end, and the exit code.
fn end(
    screen: &mut Screen,
    file: &RunFile,
    latest: &[CaseLine],
    (damaged, live): (usize, bool),
    directory: &Path,
) -> u8 {
    if damaged > 0 {
        let lines = view::number::count(damaged, "damaged line", "damaged lines");
        warn(&format!("{lines} of {CASES_FILE} left out"));
    }
    let end = rows::followed_end(file, latest, live, directory);
    screen.output.lines(&end.lines);
    if live { 0 } else { session::exit_code(latest, end.incomplete) }
}
