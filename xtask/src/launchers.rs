//! `cargo xtask launchers`: each command under each launcher, on two nodes of namespaces with a real Slurm, and the table of
//! docs/explanation/launchers.md. A cell is `ok` or a sentence; anything else is a hole, and fails the chore.
//!
//! Not part of CI: it takes minutes. Needs root, and what the launchers need; columns without their programs are left out.

mod cells;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::runs::{Given, build_for_tests, cleared, printed};
use crate::test::target;
use cells::{COMMANDS, Cell, LAUNCHERS, Launcher, cell};

const PAGE: &str = "docs/explanation/launchers.md";
const BEGIN: &str = "<!-- table of launchers: written by `cargo xtask launchers` -->\n";
const END: &str = "<!-- end of the table of launchers -->\n";
/// The cluster of the tests.
const CLUSTER: &str = "crates/rankmark/tests/all/slurm/cluster.sh";
const TABLE: &str = include_str!("launchers/table.sh");
/// Collectives and training, which are two worlds of MPI.
const PLAN: &str = "experiment: both\ndefaults: {ranks: 2, trials: 1, limits: false, max_seconds: 0.2s}\ncases:\n  \
                    - {benchmark: collective, op: all_reduce, bytes: 1KiB, iters: 6}\n  \
                    - {benchmark: training, model: mlp}\n";
const NAMESPACES: [&str; 7] = ["--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts", "--ipc"];

/// Runs the table and writes it. False where it has a hole.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--only PART OF A NAME, --program PATH, --torch FOLDER, --records DIR")?;
    Ok(match table(root, &given) {
        Ok((text, holes)) => printed(Ok(text)) && holes == 0,
        Err(why) => printed(Err(why)),
    })
}

/// The text of the table, and its holes.
fn table(root: &Path, given: &Given<'_>) -> Result<(String, usize), String> {
    let program = match given.path("--program") {
        Some(program) => program,
        None => {
            build_for_tests(root, &["--workspace"])?;
            target(root).join("debug/rankmark")
        }
    };
    let named = || std::env::var_os("RANKMARK_TEST_TORCHRUN").map(PathBuf::from)?.parent().map(Path::to_owned);
    let torch = given.path("--torch").or_else(named).unwrap_or_default();
    let folder = given.records("launchers");
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let only = given.text("--only").unwrap_or_default();
    let columns: Vec<&Launcher> = LAUNCHERS.iter().filter(|launcher| is_here(launcher, &torch)).collect();
    let names = |launcher: &Launcher, row: &cells::Command| format!("{}-{}", launcher.name, row.name);
    let mut lines = String::new();
    for launcher in &columns {
        for row in COMMANDS.iter().filter(|row| names(launcher, row).contains(only)) {
            let words = row.words.replace("BACKEND", launcher.backend);
            let record = match row.name {
                "resume" | "validate" => "",
                _ => " --output-dir r",
            };
            // What stands behind `--` is the job's.
            let words = match words.split_once(" -- ") {
                Some((own, job)) => format!("{own}{record} -- {job}"),
                None => format!("{words}{record}"),
            };
            lines += &format!("{}\t{}\t{} {words}\n", names(launcher, row), launcher.words, program.display());
        }
    }
    start(root, &folder, &lines, &torch)?;
    let rows: Vec<(&str, Vec<Cell>)> = COMMANDS
        .iter()
        .filter(|row| columns.iter().any(|launcher| names(launcher, row).contains(only)))
        .map(|row| (row.title, columns.iter().map(|launcher| cell(&folder, &names(launcher, row))).collect()))
        .collect();
    let missing = LAUNCHERS.iter().filter(|launcher| !is_here(launcher, &torch));
    let missing: Vec<String> = missing.map(|launcher| format!("{} ({})", launcher.title, launcher.needs.1)).collect();
    // The folders of this run say nothing.
    let mut text = page(&columns, &rows, &missing).replace(&format!("{}/", folder.display()), "");
    if torch.is_absolute() {
        text = text.replace(&format!("{}/", torch.display()), "");
    }
    let holes: Vec<&Cell> =
        rows.iter().flat_map(|(_, cells)| cells).filter(|cell| matches!(cell, Cell::Hole(_))).collect();
    if only.is_empty() && holes.is_empty() {
        write(root, &text)?;
    }
    Ok((text, holes.len()))
}

/// Runs all cells in a cluster of their own.
fn start(root: &Path, folder: &Path, lines: &str, torch: &Path) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).map_err(|why| format!("{}: {why}", folder.join(name).display()))
    };
    write("cells", lines)?;
    write("plan.yaml", PLAN)?;
    write("table.sh", TABLE)?;
    // A socket's path is short.
    let state = PathBuf::from(format!("/tmp/rankmark-cluster-{}", std::process::id()));
    std::fs::create_dir_all(cleared(&state)?).map_err(|why| format!("{}: {why}", state.display()))?;
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).arg("sh").arg(root.join(CLUSTER)).arg(&state).arg("2");
    command.args(["sh".as_ref(), folder.join("table.sh").as_os_str()]).arg(folder).arg(folder.join("cells"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", torch.display()));
    // The file with which ranks meet is in the home directory.
    command.env("HOME", &state).env("torchrun", torch.join("torchrun")).env("python", torch.join("python"));
    let ended = command.status().map_err(|why| format!("unshare: {why}"));
    let _ = std::fs::remove_dir_all(&state);
    let ended = ended?;
    if ended.success() { Ok(()) } else { Err(format!("the cluster ended with {ended}")) }
}

/// Whether its programs are on this machine.
fn is_here(launcher: &Launcher, torch: &Path) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let has = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let program = launcher.needs.0;
    (program.is_empty() || has(program)) && (!launcher.needs.1.contains("PyTorch") || torch.join("torchrun").exists())
}

/// The table in Markdown: sentences are numbered below it.
fn page(columns: &[&Launcher], rows: &[(&str, Vec<Cell>)], missing: &[String]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let mut text = String::from("| command |");
    columns.iter().for_each(|launcher| text += &format!(" {} |", launcher.title));
    text += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    for (title, cells) in rows {
        text += &format!("| {title} |");
        for cell in cells {
            text += &match cell {
                Cell::Ok => " ok |".to_owned(),
                Cell::Hole(why) => format!(" **hole: {why}** |"),
                Cell::Says(why) => {
                    let at = sentences.iter().position(|known| known == why).unwrap_or_else(|| {
                        sentences.push(why.clone());
                        sentences.len() - 1
                    });
                    format!(" {} |", at + 1)
                }
            };
        }
        text.push('\n');
    }
    text.push('\n');
    for (number, sentence) in (1..).zip(&sentences) {
        text += &format!("{number}. {}\n", sentence.replace('|', "\\|"));
    }
    if !missing.is_empty() {
        text += &format!("\nNot on the machine that wrote this table: {}.\n", missing.join(", "));
    }
    text
}

/// Puts the table in its place on the page.
fn write(root: &Path, table: &str) -> Result<(), String> {
    let path = root.join(PAGE);
    let old = std::fs::read_to_string(&path).map_err(|why| format!("{PAGE}: {why}"))?;
    let places = old.find(BEGIN).zip(old.find(END));
    let (begin, end) = places.ok_or_else(|| format!("{PAGE} has no place for the table: {BEGIN}"))?;
    let new = format!("{}{BEGIN}\n{table}\n{}", &old[..begin], &old[end..]);
    std::fs::write(&path, new).map_err(|why| format!("{PAGE}: {why}"))
}
