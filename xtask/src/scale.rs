//! `cargo xtask scale`: whether commands stay within their memory, and in near-linear time, while their inputs grow: plans, records,
//! traces, logs. Each row runs one command at three sizes. `figures` shows the largest on its page; `test --gate` runs all rows in
//! small, where only growth and memory are judged.
//!
//! * `rows`: the table of commands. `inputs`, `records`, `fleet` and `logs` make what they read.
//! * `child`: what a process took. `growth`: whether that grows too fast.

mod child;
mod fleet;
mod growth;
mod inputs;
mod logs;
mod records;
mod rows;

use std::path::Path;

use crate::ledger::Ending;
use crate::runs::{self, Given};

use child::Cost;
use growth::Sizes;
use inputs::Inputs;
use rows::{Row, rows};

/// Which build runs which sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The largest inputs that are promised, with a release.
    Full,
    /// Small ones, with the build of the tests.
    Small,
}

/// One command at its sizes, and what is promised of it.
pub struct Measured {
    /// What it does.
    pub what: String,
    /// The command.
    pub command: String,
    /// Costs of the least, a quarter of the largest, and the largest input.
    costs: [Cost; 3],
    sizes: Sizes,
    most: rows::Most,
}

impl Measured {
    /// What the largest input took.
    pub fn cost(&self) -> Cost {
        self.costs[2]
    }

    /// What is not as promised, in words. A build without optimization is not judged by seconds.
    fn missed(&self, scope: Scope) -> Vec<String> {
        let (cost, most) = (self.cost(), self.most);
        let mut missed = Vec::new();
        if scope == Scope::Full && cost.processor > most.seconds {
            missed.push(format!("more than {:.0} s", most.seconds));
        }
        if cost.megabytes > most.megabytes {
            missed.push(format!("more than {:.0} MB", most.megabytes));
        }
        missed.extend(growth::faster_than_linear(&self.sizes, &self.costs));
        missed
    }

    fn line(&self, scope: Scope) -> String {
        let (most, missed) = (self.most, self.missed(scope));
        let word = if missed.is_empty() { "holds" } else { "MISSED" };
        let why = if missed.is_empty() { String::new() } else { format!("  ({})", missed.join("; ")) };
        let seconds = match scope {
            Scope::Full => format!(" (at most {:.0})", most.seconds),
            Scope::Small => String::new(),
        };
        let [_, quarter, whole] = self.costs;
        format!(
            "{word:<6}  {}: {:.2} s of a processor{seconds}, {:.0} MB (at most {:.0}); of a quarter {:.2} s, {:.0} MB   {}{why}",
            self.what,
            whole.processor,
            whole.megabytes,
            most.megabytes,
            quarter.processor,
            quarter.megabytes,
            self.command
        )
    }
}

/// Builds, measures and prints. False where a promise is missed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let (small, words) = match words {
        ["--small", rest @ ..] => (true, rest),
        words => (false, words),
    };
    let given = Given::read(words, "--only NAME")?;
    let scope = if small { Scope::Small } else { Scope::Full };
    let only = given.text("--only").unwrap_or_default();
    if !rows().iter().any(|row| row.name.contains(only)) {
        let names: Vec<&str> = rows().iter().map(|row| row.name).collect();
        return Err(format!("no row has `{only}` in its name; valid values are parts of: {}", names.join(", ")));
    }
    Ok(judge(root, scope, only).unwrap_or_else(|why| {
        eprintln!("error: {why}");
        false
    }))
}

/// The rows in small, for the gate.
pub(crate) fn check(root: &Path) -> Ending {
    match judge(root, Scope::Small, "") {
        Ok(true) => Ending::Passed,
        Ok(false) => Ending::Failed("see above".into()),
        Err(why) => Ending::Failed(why),
    }
}

/// Builds and measures rows whose names have `only`, and prints each. False where a promise is missed.
fn judge(root: &Path, scope: Scope, only: &str) -> Result<bool, String> {
    build(root, scope)?;
    let folder = Folder::new()?;
    let mut holds = true;
    measure(root, scope, &folder.0, only, |measured| {
        println!("{}", measured.line(scope));
        holds &= measured.missed(scope).is_empty();
    })?;
    Ok(holds)
}

/// The largest sizes, built for release before. Inputs go below `folder`.
///
/// # Errors
/// What could not be written or run.
pub fn full(root: &Path, folder: &Path) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    measure(root, Scope::Full, folder, "", |measured| all.push(measured))?;
    Ok(all)
}

fn build(root: &Path, scope: Scope) -> Result<(), String> {
    // Of the whole workspace, as the tests: of one package, dependencies have fewer features and are all built once more.
    let words = ["--workspace", "--bin", "rankmark", "--example", "large"];
    match scope {
        Scope::Full => runs::build(root, &words),
        Scope::Small => runs::build_for_tests(root, &words),
    }
}

fn measure(root: &Path, scope: Scope, folder: &Path, only: &str, mut each: impl FnMut(Measured)) -> Result<(), String> {
    let profile = if scope == Scope::Full { "release" } else { "debug" };
    let mut inputs = Inputs::new(&crate::test::target(root).join(profile), folder);
    for row in rows().iter().filter(|row| row.name.contains(only)) {
        each(of_row(row, scope, &mut inputs)?);
    }
    Ok(())
}

/// Other programs can only add to what a command takes, so a row that grows too fast is measured again.
const TRIES: usize = 3;

fn of_row(row: &Row, scope: Scope, inputs: &mut Inputs) -> Result<Measured, String> {
    let sizes = Sizes::up_to(if scope == Scope::Full { row.full } else { row.small });
    let mut costs: Option<[Cost; 3]> = None;
    for _ in 0..TRIES {
        let mut now = [Cost::default(); 3];
        for (cost, size) in now.iter_mut().zip(sizes.0) {
            *cost = inputs.cost(row, size)?;
        }
        let least = costs.map_or(now, |before| std::array::from_fn(|at| before[at].least(now[at])));
        costs = Some(least);
        if growth::faster_than_linear(&sizes, &least).is_empty() {
            break;
        }
    }
    let costs = costs.unwrap_or_default();
    let (what, command) = (row.what.replace("{n}", &sizes.largest().to_string()), row.shown());
    Ok(Measured { what, command, costs, sizes, most: row.most })
}

/// A folder of this process, removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("rankmark-scale-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: [f64; 3], megabytes: [f64; 3]) -> Measured {
        let cost = |at: usize| Cost { processor: seconds[at], megabytes: megabytes[at], ..Cost::default() };
        Measured {
            what: "x".to_owned(),
            command: "y".to_owned(),
            costs: [cost(0), cost(1), cost(2)],
            sizes: Sizes::up_to(1000),
            most: rows::Most { seconds: 2.0, megabytes: 100.0 },
        }
    }

    #[test]
    fn a_missed_promise_is_said() {
        let linear = measured([0.1, 0.5, 1.9], [10.0, 30.0, 90.0]);
        assert!(linear.missed(Scope::Full).is_empty() && linear.line(Scope::Full).starts_with("holds "));
        let slow = measured([0.1, 0.6, 2.1], [10.0, 30.0, 90.0]);
        assert_eq!(slow.missed(Scope::Full), ["more than 2 s"]);
        assert!(slow.line(Scope::Full).starts_with("MISSED"));
        assert!(slow.missed(Scope::Small).is_empty(), "the gate judges no speed");
        let large = measured([0.1, 0.5, 1.9], [10.0, 30.0, 101.0]);
        assert_eq!(large.missed(Scope::Small), ["more than 100 MB"]);
        let quadratic = measured([0.1, 0.2, 1.7], [10.0, 30.0, 90.0]);
        assert_eq!(quadratic.missed(Scope::Small).len(), 1);
    }
}
