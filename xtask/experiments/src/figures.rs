//! `cargo xtask figures`: runs what docs/appendix/performance.md and docs/appendix/peers.md show, and writes these pages: every
//! table with its command, the machine and the date. A figure that no command here makes does not stand on them.

mod compared;
mod programs;
mod scale;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cases;
use xtask::runs::{self, Given, build, printed, program};

/// The pages: the program's own figures, and those of other libraries.
const PAGES: [&str; 2] = ["docs/appendix/performance.md", "docs/appendix/peers.md"];

/// Runs everything and writes the pages. False where something failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--python PATH, --records DIR")?;
    let write = |texts: [String; 2]| {
        for (page, text) in PAGES.iter().zip(texts) {
            std::fs::write(root.join(page), text).map_err(|why| format!("{page}: {why}"))?;
        }
        Ok(format!("{}\n", PAGES.join("\n")))
    };
    Ok(printed(pages(root, given.text("--python"), &given.records("figures")).and_then(write)))
}

/// `python`: with torch, for gloo and PyTorch.
fn pages(root: &Path, python: Option<&str>, folder: &Path) -> Result<[String; 2], String> {
    // Everything that is timed later, so that no build is.
    build(root, &["-p", "rankmark-report", "--example", "large"])?;
    let program = program(root, None)?;
    let record = |name: &str| record_of(root, (&program, python), &folder.join(name), name);
    let (collectives, training, primitives) = (record("collectives")?, record("training")?, record("primitives")?);
    let about = about(&collectives)?;
    let head = |title: &str, question: &str| {
        format!(
            "# {title}\n\n{question}\n`cargo xtask figures --python PATH` runs every command of this page and writes it. A \
             ratio compares trials of the same\nround and has a 95% interval ([How are two numbers compared?](../explanation/ratios.md)). The machine is \
             shared, so read ratios, not absolute times.\n\n{}\n\n",
            machine(&about)
        )
    };
    let mut peers = head(
        "MPI and gloo compared with shared memory",
        "How fast are collectives of other libraries on the same machine?",
    );
    peers += "`rankmark run examples/figures/collectives.yaml --set python=PATH`\n\n\
             `limit` is the share of the memory limit; `not found` means that a better limit must exist. `peer / shm` is the\n\
             time of another library divided by that of `shm`: above 1, `shm` is faster. `shm` uses registered buffers,\n\
             which all ranks can access; MPI and gloo use private ones. On a machine with two cores, 4 ranks share them.\n\n";
    let chart = copied(root, &collectives, "all_reduce-time.svg")?;
    let _ = writeln!(peers, "![Time of all_reduce vs message size]({chart})\n");
    peers += &compared::collectives(&cases::read(&collectives)?);
    let mut text = head("Performance", "How fast is Rankmark itself, and how does its training compare with PyTorch?");
    text += "The comparison of collectives with MPI and gloo is in [MPI and gloo compared with shared memory](peers.md).\n\n## Training\n\n`rankmark run examples/figures/training.yaml --set python=PATH`\n\n\
             One thread and a batch of 2 per rank. `PyTorch / native` is the step time of PyTorch divided by that of\n\
             the built-in engine.\n\n";
    text += &compared::training(&cases::read(&training)?);
    text += "\n## Primitives\n\n`rankmark run examples/figures/primitives.yaml --set python=PATH`\n\n\
             A product of matrices with an all_gather before it: k = 1024, f32, 2 ranks with one thread each. `speedup` is\n\
             over `sequential`. `link` is memory, or a link that is slowed down. [Does overlap pay?](../how-to/primitives.md) explains\n\
             the implementations.\n\n";
    text += &compared::primitives(&cases::read(&primitives)?);
    text += "\n## Loops and products\n\nBoth tables compare pairs of measurements. The two sides of a pair run one after the other.\n\n";
    text += &programs::tables(root, programs::MACHINE)?;
    text += "\n## Overhead of Rankmark\n\n";
    text += &scale::table(root, &about, folder)?;
    text += "\n## Reading and explaining\n\n";
    text += &programs::tables(root, programs::READING)?;
    Ok([text, peers])
}

/// The record of a plan, run unless it is there.
fn record_of(
    root: &Path,
    (program, python): (&Path, Option<&str>),
    record: &Path,
    name: &str,
) -> Result<PathBuf, String> {
    let plan = format!("examples/figures/{name}.yaml");
    let mut command = Command::new(program);
    command.current_dir(root).args(["run", &plan]);
    if let Some(python) = python {
        command.args(["--set", &format!("python={python}")]);
    }
    eprintln!("{plan}");
    runs::record(record, command.args(["--quiet", "--output-dir"]))?;
    Ok(record.to_owned())
}

/// Copies a chart of the record next to the page. Returns its path as the page names it.
fn copied(root: &Path, record: &Path, chart: &str) -> Result<String, String> {
    let (from, folder) = (record.join("charts").join(chart), root.join("docs/charts"));
    let copied = std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(&from, folder.join(chart)));
    copied.map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(format!("../charts/{chart}"))
}

fn about(record: &Path) -> Result<Value, String> {
    let path = record.join("run.json");
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

fn machine(about: &Value) -> String {
    let machine = &about["machine"];
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let memory = machine["memory_bytes"].as_u64().map_or(String::new(), |bytes| format!(", {} GiB", bytes >> 30));
    let day = text(&about["started"]);
    format!(
        "Machine: {} with {} cores{memory}, Linux {}{}. Rankmark {}, {}.",
        text(&machine["cpu_model"]),
        machine["cores"],
        text(&machine["kernel"]),
        if machine["hypervisor"].is_string() { ", a virtual machine" } else { "" },
        text(&about["tool"]["version"]),
        day.split('T').next().unwrap_or_default()
    )
}
