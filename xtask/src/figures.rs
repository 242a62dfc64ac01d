//! `cargo xtask figures`: runs what docs/performance.md and docs/peers.md show, and writes these pages: every table with its
//! command, the machine and the date. A figure that no command here makes does not stand on them.

mod bounds;
mod compared;
mod programs;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cases;

/// The pages: the program's own figures, and those of other libraries.
const PAGES: [&str; 2] = ["docs/performance.md", "docs/peers.md"];

/// What `cargo xtask figures` was asked for.
pub(crate) struct Options {
    /// A Python with torch, for gloo and PyTorch.
    python: Option<String>,
    /// Folder of the records; those that are complete are taken, so that a page can go on.
    folder: PathBuf,
}

impl Options {
    /// Reads the words after `figures`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { python: None, folder: std::env::temp_dir().join("rankmark-figures") };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            match *word {
                "--python" => options.python = Some((*value()?).to_owned()),
                "--records" => options.folder = PathBuf::from(value()?),
                other => return Err(format!("unknown option `{other}`; valid options: --python PATH, --records DIR")),
            }
        }
        Ok(options)
    }
}

/// Runs everything and writes the pages. False where something failed.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    let write = |texts: [String; 2]| {
        let both = PAGES.iter().zip(texts);
        let mut written = both.map(|(page, text)| std::fs::write(root.join(page), text).map_err(|why| why.to_string()));
        written.try_for_each(|result| result)
    };
    match pages(root, options).and_then(write) {
        Ok(()) => {
            PAGES.iter().for_each(|page| println!("{page}"));
            true
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

fn pages(root: &Path, options: &Options) -> Result<[String; 2], String> {
    let cargo = Cargo { root, program: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()) };
    cargo.build()?;
    let collectives = record(&cargo, options, "collectives")?;
    let training = record(&cargo, options, "training")?;
    let primitives = record(&cargo, options, "primitives")?;
    let about = about(&collectives)?;
    let head = |title: &str, question: &str| {
        format!(
            "# {title}\n\n{question}\n`cargo xtask figures --python PATH` runs every command of this page and writes it. A \
             ratio compares trials of the same\nround and has a 95% interval ([method.md](method.md)). The machine is \
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
    text += "The comparison of collectives with MPI and gloo is in [peers.md](peers.md).\n\n## Training\n\n`rankmark run examples/figures/training.yaml --set python=PATH`\n\n\
             One thread and a batch of 2 per rank. `PyTorch / native` is the step time of PyTorch divided by that of\n\
             the built-in engine.\n\n";
    text += &compared::training(&cases::read(&training)?);
    text += "\n## Primitives\n\n`rankmark run examples/figures/primitives.yaml --set python=PATH`\n\n\
             A product of matrices with an all_gather before it: k = 1024, f32, 2 ranks with one thread each. `speedup` is\n\
             over `sequential`. `link` is memory, or a link that is slowed down. [primitives.md](primitives.md) explains\n\
             the implementations.\n\n";
    text += &compared::primitives(&cases::read(&primitives)?);
    text += "\n## Loops and products\n\nBoth tables compare pairs of measurements. The two sides of a pair run one after the other.\n\n";
    text += &programs::tables(&cargo, programs::MACHINE)?;
    text += "\n## Overhead of Rankmark\n\n";
    text += &bounds::table(root, &about, &options.folder)?;
    text += "\n## Reading and explaining\n\n";
    text += &programs::tables(&cargo, programs::READING)?;
    Ok([text, peers])
}

/// Runs the repository's programs, built for release.
struct Cargo<'r> {
    root: &'r Path,
    program: std::ffi::OsString,
}

impl Cargo<'_> {
    /// Everything that is timed later, so that no build is.
    fn build(&self) -> Result<(), String> {
        self.ends_well(&["build", "--quiet", "--release", "-p", "rankmark"])?;
        self.ends_well(&["build", "--quiet", "--release", "-p", "report", "--example", "large"])
    }

    /// What a program of the repository prints.
    fn says(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        let ended = command.current_dir(self.root).args(words).output().map_err(|error| error.to_string())?;
        match ended.status.success() {
            true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
            false => Err(format!("`cargo {}` ended with {}", words.join(" "), ended.status)),
        }
    }

    /// Runs `rankmark` with these words, which must end with one of these codes.
    fn runs(&self, words: &[&str], codes: &[i32]) -> Result<(), String> {
        self.ends(&[&["run", "--quiet", "--release", "-p", "rankmark", "--"], words].concat(), codes)
    }

    fn ends_well(&self, words: &[&str]) -> Result<(), String> {
        self.ends(words, &[0])
    }

    fn ends(&self, words: &[&str], codes: &[i32]) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.current_dir(self.root).args(words).stdout(std::process::Stdio::null());
        let ended = command.status().map_err(|error| error.to_string())?;
        let is_fine = ended.code().is_some_and(|code| codes.contains(&code));
        if is_fine { Ok(()) } else { Err(format!("`cargo {}` ended with {ended}", words.join(" "))) }
    }
}

/// The record of a plan, run unless it is there.
fn record(cargo: &Cargo<'_>, options: &Options, name: &str) -> Result<PathBuf, String> {
    let record = options.folder.join(name);
    if !record.join("report.md").exists() {
        if record.exists() {
            std::fs::remove_dir_all(&record).map_err(|error| format!("{}: {error}", record.display()))?;
        }
        let (plan, place) = (format!("examples/figures/{name}.yaml"), record.display().to_string());
        let python = options.python.as_ref().map(|python| format!("python={python}"));
        let mut words = vec!["run", &plan, "--quiet", "--output-dir", &place];
        words.extend(python.iter().flat_map(|python| ["--set", python.as_str()]));
        eprintln!("{plan}");
        cargo.runs(&words, &[0])?;
    }
    Ok(record)
}

/// Copies a chart of the record next to the page. Returns its path as the page names it.
fn copied(root: &Path, record: &Path, chart: &str) -> Result<String, String> {
    let (from, folder) = (record.join("charts").join(chart), root.join("docs/charts"));
    let copied = std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(&from, folder.join(chart)));
    copied.map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(format!("charts/{chart}"))
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
