//! The measuring commands of README, of the tutorial of a laptop and of the page of launchers, as they stand there, under
//! `torchrun` and `mpirun` with four processes: docs/how-to/launchers.md says that each command runs under any launcher.

use std::path::Path;
use std::time::Duration;

use crate::place::Place;
use crate::{skip, tutorials};

/// Pages, and the fewest commands that each has.
const PAGES: [(&str, usize); 3] = [("README.md", 1), ("docs/tutorials/laptop.md", 4), ("docs/how-to/launchers.md", 4)];
/// Commands that ranks run.
const MEASURING: [&str; 8] = ["run", "comm", "primitive", "train", "memory", "hardware", "startup", "interference"];
/// Launchers of four processes here.
const LAUNCHERS: [&str; 2] = ["torchrun --no-python --nproc-per-node 4", "mpirun -np 4"];

/// The measuring commands of a page, without the launcher that stands before them.
fn commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned());
    let lines: Vec<String> = blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let measuring = |line: &String| {
        let at = line.find("rankmark ")?;
        let (before, command) = line.split_at(at);
        let launched =
            before.is_empty() || ["mpirun ", "torchrun ", "srun "].iter().any(|name| before.starts_with(name));
        let word = command.split_whitespace().nth(1)?;
        (launched && MEASURING.contains(&word))
            .then(|| command.split(" # ").next().unwrap_or(command).trim().to_owned())
    };
    lines.iter().filter_map(measuring).collect()
}

/// The programs of launchers that are here, by name.
fn launchers() -> Vec<(&'static str, String)> {
    let in_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    let torchrun = crate::external::torchrun().map(|path| ("torchrun", path));
    let found = torchrun.into_iter().chain(in_path("mpirun").map(|path| ("mpirun", path)));
    found.map(|(name, path)| (name, path.display().to_string())).collect()
}

#[test]
fn commands_of_pages_run_under_launchers() {
    let here = launchers();
    let place = Place::new();
    let others: Vec<(&str, &str)> = here.iter().map(|(name, path)| (*name, path.as_str())).collect();
    let folder = tutorials::programs(&place, &others);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let whole = std::env::var_os("RANKMARK_TEST_FULL").is_some();
    for (page, least) in PAGES {
        let found = commands(page);
        assert!(found.len() >= least, "{page}: {found:?}");
        for (number, command) in found.iter().enumerate() {
            for launcher in LAUNCHERS {
                let program = launcher.split(' ').next().unwrap_or_default();
                // It starts a Python with torch each time: the short test types the first command of each page under it.
                if !whole && program == "torchrun" && number > 0 {
                    continue;
                }
                if !here.iter().any(|(name, _)| *name == program) {
                    skip::skip(command, &format!("no {program}"));
                    continue;
                }
                // A record of its own: pages name one that the command before it may have made.
                let record = format!("record-{}-{number}-{program}", page.replace('/', "-"));
                let command = command.split(" --output-dir ").next().unwrap_or(command);
                let rest = if whole { format!("--output-dir {record}") } else { "--dry-run".to_owned() };
                typed(&place, &path, &format!("{launcher} {command} {rest}"), whole);
            }
        }
    }
}

fn typed(place: &Place, path: &str, line: &str, whole: bool) {
    let ended = tutorials::typed(place, path, line, Duration::from_secs(if whole { 1800 } else { 120 }));
    assert!(ended.status.success(), "{line}\n{}\n{}", ended.out, ended.err);
    // One of the processes speaks, and no other: how a run begins, or its plan.
    let begin = if whole { "rankmark 0." } else { "dry run   plan" };
    assert_eq!(ended.out.matches(begin).count(), 1, "{line}: how many processes speak?\n{}", ended.out);
}
