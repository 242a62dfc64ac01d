//! `rankmark import FILE...`: files of other tools as records or plans.

mod archive;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use import::{Content, ForeignPlan, Format, ImportedRecord, SaidRecord, Source};
use serde_json::json;
use terms::{Collective, Named};

use super::{Ended, Typed, profile};
use crate::options::refuse_given;
use crate::session::Entry;
use crate::{Failure, environment, packed, plan_files, screen};
use plans::{foreign, gates};
use record::store::RESULTS;

/// The name of a source without a file.
const STANDARD_INPUT: &str = "standard input";

mod traffic;

/// What `--as` makes of traces.
const KINDS: [&str; 1] = ["plan"];

/// Makes records from results of other tools, and plans from their configurations
#[derive(clap::Args)]
#[command(
    after_help = "Results become a record with a report, marked as imported. A configuration becomes a plan on standard \
                  output; `rankmark run FILE` runs it directly. Traces, dumps and folders of them are explained as by \
                  `rankmark profile --import`. `rankmark list imports` names what can be read.\n\n\
                  rankmark import nccl-tests.log\nrankmark import --ranks 8 osu_allreduce.txt\n\
                  rankmark import ddlb.json > plan.yaml\nrankmark import old-logs/ --output-dir results/old\n\
                  rankmark import --as plan trace/ > plan.yaml"
)]
pub(crate) struct Import {
    /// a file that another tool wrote or reads, a folder of results or of traces, or `-` for standard input; several make
    /// several records
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true, num_args = 1..)]
    file: Vec<PathBuf>,
    /// read it as this format (default: the one that it looks like)
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(import::FORMATS.iter().map(|format| format.name())))]
    format: Option<String>,
    /// of traces: prints a plan of the collectives of the job's step
    #[arg(long = "as", value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS))]
    kind: Option<String>,
    /// ranks that the results are of, where the file does not say; with --as: ranks of the plan (default: the job's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// operation that the results are of, where the file does not say
    #[arg(long, value_name = "OP", value_parser = PossibleValuesParser::new(Collective::names()))]
    op: Option<String>,
    /// of configurations that PyTorch runs: the Python to look for torch in (default: python3)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    python: Option<String>,
    /// figures that the hardware should reach: a plan with `expected`, or a name of `rankmark list hardware` (default: those of
    /// the GPUs that the file names)
    #[arg(long, value_name = "PLAN|NAME", value_hint = ValueHint::FilePath)]
    expect: Option<String>,
    /// exit 1 below it: a share of the expected figures (`90%`), or a bound on a metric (`busbw_gbs>=370`) that the best case of
    /// each operation must keep
    #[arg(long, value_name = "GATE", num_args = 1)]
    gate: Vec<gates::Wanted>,
    /// where the record goes (default: results/TIME-FILE)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Typed for Import {
    const NAME: &'static str = "import";

    fn run(self, _: Entry<'_>) -> Ended {
        if self.kind.is_some() {
            if !gates::Gates::new(self.expect.as_deref(), &self.gate)?.is_empty() {
                return Err(no_results("a trace"));
            }
            return traffic::plan(&self);
        }
        let is_not_results = |file: &PathBuf| {
            file.is_dir() || record::pack::is_packed(file) || import::traces::recognise(file).is_some()
        };
        if let Some(file) = self.file.iter().find(|file| is_not_results(file))
            && !gates::Gates::new(self.expect.as_deref(), &self.gate)?.is_empty()
        {
            return Err(no_results(&file.display().to_string()));
        }
        if self.file.iter().any(|file| record::pack::is_packed(file)) {
            return packed_records(&self);
        }
        if let [folder] = self.file.as_slice()
            && folder.is_dir()
            && let Some(code) = archive::import(&self, folder)?
        {
            return Ok(code);
        }
        match self.file.iter().any(|file| file.is_dir() || import::traces::recognise(file).is_some()) {
            true => traces(&self),
            false => results(&self),
        }
    }
}

impl Import {
    /// The format that the user names.
    fn named_format(&self) -> Result<Option<&'static dyn Format>, Failure> {
        Ok(self.format.as_deref().map(import::format).transpose()?)
    }

    /// Refuses one directory for several files.
    fn refuse_one_directory(&self) -> Result<(), Failure> {
        match &self.output_dir {
            Some(_) if self.file.len() > 1 => {
                Err(Failure::new("`--output-dir` is for one file").hint("import the files one by one"))
            }
            _ => Ok(()),
        }
    }

    /// Options that say how results and configurations are read, and whether they were given.
    fn reading(&self) -> [(&'static str, bool); 4] {
        [
            ("format", self.format.is_some()),
            ("ranks", self.ranks.is_some()),
            ("op", self.op.is_some()),
            ("python", self.python.is_some()),
        ]
    }
}

/// A file with what the user says of it.
fn source_of(given: &Import, mut source: Source, read_as: Option<&'static dyn Format>) -> Source {
    if let Some(ranks) = given.ranks {
        source = source.with_given("ranks", ranks.to_string());
    }
    if let Some(op) = &given.op {
        source = source.with_given("op", op);
    }
    match read_as {
        Some(format) => {
            let python = given.python.clone().map(|python| ("python".to_owned(), python));
            foreign::here(source, format, &python.into_iter().collect::<Vec<_>>(), &plan_files::here(None))
        }
        None => source,
    }
}

/// A gate that nobody looks at would always hold.
fn no_results(name: &str) -> Failure {
    Failure::new(format!("`--expect` and `--gate` are for files of results, and {name} is not one"))
        .hint("name the files of results")
}

/// The records of a file's results, with what is known of the GPUs that it names.
fn records_of(
    source: &Source,
    format: &dyn Format,
    results: Vec<import::Results>,
) -> Result<Vec<ImportedRecord>, terms::Error> {
    let (tool, now) = (environment::tool(), jiff::Timestamp::now());
    let mut records = import::records(source, format.name(), results, &benchmarks::abouts(), &tool, now)?;
    records.iter_mut().for_each(gates::expect_known);
    Ok(records)
}

/// Results and configurations.
fn results(given: &Import) -> Ended {
    let files = &given.file;
    let format = given.named_format()?;
    let gates = gates::Gates::new(given.expect.as_deref(), &given.gate)?;
    given.refuse_one_directory()?;
    let (mut text, mut made, mut missed) = (String::new(), Vec::new(), false);
    for file in files {
        let imported = import_file(file, given, (format, &gates), (&mut made, &mut missed));
        text += &imported.inspect_err(|_| name_made(&made))?;
    }
    let code = if given.json { screen::print_json(&text)? } else { screen::print(&(text + &next_of(&made)))? };
    Ok(if missed { 1 } else { code })
}

/// Imports a file of results or of a configuration; gives what is printed of it.
fn import_file(
    file: &Path,
    given: &Import,
    (format, gates): (Option<&'static dyn Format>, &gates::Gates<'_>),
    (made, missed): (&mut Vec<Made>, &mut bool),
) -> Result<String, Failure> {
    let source = match file.as_os_str() == "-" {
        true => Source::from_reader(STANDARD_INPUT, std::io::stdin().lock())?,
        false => Source::load(file)?,
    };
    let read_as = format.or_else(|| import::recognise(&source));
    let source = source_of(given, source, read_as);
    let found = import::read(&source, format)?;
    let is_for = |what: &str, other: &str| format!("is for {what}, and {} is {other}", source.name());
    let needs_no_python = given.python.is_some() && !found.format.uses_torch();
    refuse_given(&[("python", needs_no_python)], &is_for("configurations that PyTorch runs", "not one"))?;
    match found.content {
        Content::Plan(_) if !gates.is_empty() => Err(no_results(source.name())),
        Content::Plan(plan) => {
            let of_results = [("op", given.op.is_some()), ("output-dir", given.output_dir.is_some())];
            refuse_given(&of_results, &is_for("results", "a configuration"))?;
            refuse_ranks(given, &source, &plan)?;
            show_plan(&source, found.format, &plan, given.json)
        }
        Content::Results(results) => {
            let mut records = records_of(&source, found.format, results)?;
            *missed |= gates.apply(&mut records)?;
            let name = source.name().to_owned();
            // Its lines are in the records.
            drop(source);
            write(&name, found.format, records, (given.output_dir.as_ref(), made), given.json)
        }
    }
}

/// Refuses a number of ranks where the configuration has its own: it would change nothing.
fn refuse_ranks(given: &Import, source: &Source, plan: &ForeignPlan) -> Result<(), Failure> {
    if given.ranks.is_none() || plan.has_given_ranks {
        return Ok(());
    }
    Err(Failure::new(format!("`--ranks` is for files that do not say how many ranks run, and {} does", source.name()))
        .hint("leave `--ranks` out, and change `ranks` in the plan that is printed"))
}

/// Names the records that stay when a file after theirs cannot be imported.
fn name_made(made: &[Made]) {
    let name = |record: &Made| view::one_line(&record.directory.display().to_string());
    screen::remark(&made.iter().map(|record| format!("record   {}\n", name(record))).collect::<String>());
}

/// A record that was made, and the identities of its cases.
struct Made {
    directory: PathBuf,
    cases: HashSet<String>,
}

/// What to type after these records were made; nothing after none. Records are compared that have a case in common.
fn next_of(made: &[Made]) -> String {
    let pairs =
        made.iter().enumerate().flat_map(|(at, first)| made[at + 1..].iter().map(move |second| (first, second)));
    let mut alike = pairs.filter(|(first, second)| !first.cases.is_disjoint(&second.cases));
    match (alike.next().map(|(first, second)| [first, second]), made.first()) {
        (Some(pair), _) => {
            let words = pair.map(|record| record.directory.display().to_string());
            screen::next(
                &["rankmark", "compare", &words[0], &words[1], "--fail-on", "none"],
                "what differs between the two",
            )
        }
        (None, Some(first)) => screen::next_report(&[&first.directory], "tables and charts of these results"),
        (None, None) => String::new(),
    }
}

/// Packed records are records already: they are unpacked, and nothing of them changes.
fn packed_records(given: &Import) -> Ended {
    if let Some(other) = given.file.iter().find(|file| !record::pack::is_packed(file)) {
        return Err(Failure::new(format!("{} is not a packed record, and others are", other.display()))
            .hint("import them one after the other"));
    }
    let why = format!("is for results and configurations, and {} is a packed record", given.file[0].display());
    refuse_given(&given.reading(), &why)?;
    given.refuse_one_directory()?;
    let mut text = String::new();
    for file in &given.file {
        let directory = match &given.output_dir {
            Some(directory) => {
                record::pack::unpack(file, directory)?;
                directory.clone()
            }
            None => packed::opened(file)?,
        };
        let cases = record::read_results(&directory)?.cases.len();
        text += &match given.json {
            true => {
                let (file, directory) = (file.display().to_string(), directory.display().to_string());
                format!("{}\n", json!({ "file": file, "format": "packed", "record": directory, "cases": cases }))
            }
            false => format!(
                "{} is a packed record of {}\nrecord   {}\n{}",
                file.display(),
                view::number::count(cases, "case", "cases"),
                directory.display(),
                screen::next_report(&[&directory], "its tables and charts")
            ),
        };
    }
    if given.json { screen::print_json(&text) } else { screen::print(&text) }
}

/// Traces, dumps and logs of single calls, files or a folder of them: `rankmark profile` explains them.
fn traces(given: &Import) -> Ended {
    let files = &given.file;
    refuse_others(files, "traces are imported together", "import results and traces one after the other")?;
    let why = format!("is for results and configurations, and {} is a trace", files[0].display());
    refuse_given(&given.reading(), &why)?;
    let format = import::traces::recognise(&files[0]).map_or("a trace", |format| format.doc);
    screen::remark(&format!("{} is of {format}; `rankmark profile --import` reads it, too\n", files[0].display()));
    profile::explain_files(files, given.output_dir.as_deref(), given.json)
}

/// Refuses a file that is not a trace, and a folder without one.
fn refuse_others(files: &[PathBuf], why: &str, hint: &str) -> Result<(), Failure> {
    let Some(file) = files.iter().find(|file| import::traces::recognise(file).is_none()) else { return Ok(()) };
    Err(match file.is_dir() {
        true => Failure::new(format!("{} is a folder without traces", file.display()))
            .hint("name the files of results one by one"),
        false => Failure::new(format!("{} is not a trace, and {why}", file.display())).hint(hint),
    })
}

/// The plan; what each field became goes to standard error.
fn show_plan(source: &Source, format: &dyn Format, plan: &ForeignPlan, as_json: bool) -> Result<String, Failure> {
    // What is printed must be a plan: a fault of the reader is an error here, not at the next command.
    record::plan::read(&plan.text, &plans::made_of(source), &benchmarks::abouts(), &[])?;
    if as_json {
        return Ok(plan.as_json(("file", source.name().into()), format.name()));
    }
    let mut summary = format!("{} is {}\n{}", source.name(), format.doc(), plan.as_text());
    if source.name() != STANDARD_INPUT {
        summary += &screen::next(&["rankmark", "run", source.name()], "runs this plan");
    }
    screen::remark(&summary);
    Ok(plan.text.clone())
}

/// Writes the records of a file, each with its report.
fn write(
    source: &str,
    format: &dyn Format,
    records: Vec<ImportedRecord>,
    (directory, made): (Option<&PathBuf>, &mut Vec<Made>),
    as_json: bool,
) -> Result<String, Failure> {
    let several = records.len() > 1;
    let mut text = String::new();
    for (number, mut record) in records.into_iter().enumerate() {
        let directory = match directory {
            Some(directory) if several => directory.join((number + 1).to_string()),
            Some(directory) => directory.clone(),
            None => record::fresh_directory(Path::new(RESULTS), jiff::Timestamp::now(), &record.file.experiment)?,
        };
        record.write(&directory, &environment::command_line())?;
        let said = SaidRecord::new(&record);
        let cases = record.lines.iter().map(|line| line.id.clone()).collect();
        // The report reads them again, and a log may have 100,000.
        drop(record);
        process::release_memory();
        let run = report::Run::read(&directory, benchmarks::VIEWS)?;
        let written = report::write(&run, &directory)?;
        made.push(Made { directory: directory.clone(), cases });
        let places = (directory.as_path(), written.first().map(PathBuf::as_path));
        let gates::ImportVerdict { expected, missed } = gates::verdict(&run);
        text += &match as_json {
            true => said.as_json((source, format), places, (&expected, &missed)),
            false => said.as_text(source, places, (&expected, &missed)),
        };
    }
    Ok(text)
}
