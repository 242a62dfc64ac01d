//! `rankmark report DIR`: the report of a record, again; of each record where DIR is a folder of records, with an index page;
//! one HTML page that compares several records that are named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use clap::builder::PossibleValuesParser;

use super::{Ended, Typed};
use crate::options::{ExportOptions, Exports};
use crate::session::Entry;
use crate::{Failure, environment, incomplete, not_a_record, packed, screen};
use record::store::{RESULTS, RecordFolders, is_absence};

/// The format that `--open` opens, and the ending of its file.
const HTML: &str = "html";
/// What opens a file in the program that the user chose for it.
const OPENER: &str = "xdg-open";
/// How long it may take to say that it cannot.
const OPENS_WITHIN: Duration = Duration::from_secs(5);

/// What the command line asks for.
struct ReportAsked {
    how: How,
    formats: Vec<&'static dyn report::Format>,
    layout: Option<&'static dyn report::Format>,
    /// What is handed to other tools.
    exports: Exports,
}

const EXAMPLES: &str = "\
Examples:
  rankmark report results/DIR --open               all formats; opens the HTML page
  rankmark report results/DIR --format html        report.html alone: one file that loads nothing
  rankmark report results/DIR --format pdf,parquet a document to print, and a typed table
  rankmark report results/DIR --junit junit.xml    each case as a test, for a CI system
  rankmark report results/A results/B              one HTML page that compares both";

/// Writes the report of a record, or of each record in a folder: tables, pictures, text
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Report {
    /// a record's directory, or a folder of records (default: results); several make one HTML page
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, num_args = 0..)]
    source: Vec<String>,
    #[arg(long = "source", short = 's', value_name = "DIR", conflicts_with = "source", hide = true)]
    from: Option<String>,
    #[command(flatten)]
    how: How,
    #[command(subcommand)]
    command: Option<Generate>,
}

#[derive(clap::Subcommand)]
enum Generate {
    /// Writes reports, with options
    Generate {
        /// a record's directory, or a folder of records (default: results); several make one HTML page
        #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath)]
        source: Vec<String>,
        #[command(flatten)]
        how: How,
    },
}

/// What is written, and where.
#[derive(clap::Args)]
#[group(skip)]
struct How {
    #[arg(long, short, value_name = "FORMAT", value_delimiter = ',', value_parser = formats(), help = format_help())]
    format: Vec<String>,
    /// write the files of another tool's report instead
    #[arg(long, value_name = "LAYOUT", value_parser = layouts(), conflicts_with = "format")]
    layout: Option<String>,
    /// where the files go (default: the record; of a layout, a folder of its name there)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// adds what steps and a million tokens cost, at so many dollars: `2.10/gpu-hour`, `16.80/node-hour`
    #[arg(long, value_name = "PRICE", conflicts_with = "layout")]
    price: Option<report::Price>,
    /// open the HTML page in the browser (xdg-open)
    #[arg(long, conflicts_with = "layout")]
    open: bool,
    /// write the one file of a format, of one record, to FILE
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "output_dir")]
    output: Option<PathBuf>,
    /// also say what each record holds, on standard error
    #[arg(long, short)]
    verbose: bool,
    /// print errors only, and no path
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    #[command(flatten)]
    exports: ExportOptions,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(report::FORMATS.iter().map(|format| format.name()))
}

fn layouts() -> PossibleValuesParser {
    PossibleValuesParser::new(report::LAYOUTS.iter().map(|layout| layout.name()))
}

fn format_help() -> String {
    let by_default: Vec<&str> = report::default_formats().iter().map(|format| format.name()).collect();
    format!("only these formats (default: {})", by_default.join(", "))
}

impl Typed for Report {
    const NAME: &'static str = "report";

    fn run(self, _: Entry<'_>) -> Ended {
        let (sources, how) = match self.command {
            Some(Generate::Generate { source, how }) => (source, how),
            None => (self.source.into_iter().chain(self.from).collect(), self.how),
        };
        let asked = ReportAsked::from_how(how)?;
        let sources = packed::names_opened(&sources)?;
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        sources.iter().try_for_each(|source| not_a_record::refuse_file(Path::new(source)))?;
        match sources.as_slice() {
            [] => each(RESULTS, &asked),
            [source] => each(source, &asked),
            several => together(several, &asked),
        }
    }
}

impl ReportAsked {
    fn from_how(how: How) -> Result<Self, Failure> {
        let layout = how.layout.as_deref().map(report::layout).transpose()?;
        let formats = match layout {
            Some(layout) => vec![layout],
            None if how.format.is_empty() => report::default_formats(),
            None => how.format.iter().map(|name| report::format(name)).collect::<Result<_, _>>()?,
        };
        Ok(Self { formats, layout, exports: how.exports.exports()?, how })
    }

    /// Whether formats or a layout were named: then nothing else is written.
    fn is_named(&self) -> bool {
        self.layout.is_some() || !self.how.format.is_empty()
    }
}

/// The report of a record, or of each record in a folder.
fn each(source: &str, asked: &ReportAsked) -> Result<u8, Failure> {
    let how = &asked.how;
    let directories = records(Path::new(source))?;
    let exported = asked.exports.names_a_file().then_some("a named file");
    let of_one =
        how.output_dir.as_ref().map(|_| "`--output-dir`").or(how.output.as_ref().map(|_| "`--output`")).or(exported);
    if let Some(option) = of_one.filter(|_| directories.len() > 1) {
        let what = format!("{source} holds {} records, and {option} is for one", directories.len());
        return Err(Failure::new(what).hint("name one record"));
    }
    let mut text = String::new();
    let mut last = Vec::new();
    for directory in &directories {
        let run = report::Run { price: how.price, ..read(directory)? };
        if how.verbose {
            screen::remark(&counted(directory, &run));
        }
        asked.exports.write(&run)?;
        if let Some(file) = &how.output {
            let [format] = asked.formats.as_slice() else {
                return Err(Failure::new("`--output` is for one format").hint("--format csv --output FILE"));
            };
            if file == Path::new("-") {
                return screen::print_file(&report::rendered(&run, *format)?);
            }
            remarks(report::write_file(&run, *format, file)?);
            text += &format!("{}\n", file.display());
            last = vec![file.clone()];
            continue;
        }
        let into = match (&how.output_dir, asked.layout) {
            (Some(output), _) => output.clone(),
            (None, Some(layout)) => directory.join(layout.name()),
            (None, None) => directory.clone(),
        };
        let written = report::write_formats(&run, &into, &asked.formats)?;
        remarks(written.remarks);
        last = written.files;
        last.iter().for_each(|path| text += &format!("{}\n", path.display()));
    }
    if directories.len() > 1 && !asked.is_named() {
        text += &format!("{}\n", super::history::write_index(Path::new(source))?.display());
    }
    ended(&text, &last, asked)
}

/// Says what is to be known of files.
fn remarks(remarks: impl IntoIterator<Item = String>) {
    remarks.into_iter().for_each(|remark| screen::remark(&format!("note: {remark}\n")));
}

/// `results/a: 11 of 12 cases ok, 2026-11-20T11:23:59Z`.
fn counted(directory: &Path, run: &report::Run) -> String {
    let ok = run.cases.iter().filter(|case| case.status == terms::Status::Ok && !case.lacks_trials()).count();
    format!("{}: {ok} of {} cases ok, {}\n", directory.display(), run.cases.len(), run.started)
}

/// One HTML page that compares several records with the first.
fn together(sources: &[&str], asked: &ReportAsked) -> Result<u8, Failure> {
    let how = &asked.how;
    let html = report::format(HTML)?.name();
    if asked.layout.is_some()
        || how.output.is_some()
        || asked.exports.names_a_file()
        || asked.is_named() && asked.formats.iter().any(|format| format.name() != html)
    {
        let lines: Vec<String> = sources.iter().map(|one| format!("rankmark report {}", report::shell(one))).collect();
        let what = "several records make one HTML page; other formats take one record";
        return Err(Failure::new(what).hint(lines.join("\n")));
    }
    let mut directories = Vec::new();
    for source in sources {
        directories.extend(records(Path::new(source))?);
    }
    let read = |directory: &PathBuf| Ok(report::Run { price: how.price, ..read(directory)? });
    let runs = directories.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    // Beside the records, never in one of them: that one's own report is there.
    let first = Path::new(sources[0]);
    let beside = first.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let into = how.output_dir.clone().unwrap_or_else(|| beside.to_owned());
    let written = report::write_compared(&runs, &directories, &into)?;
    let text: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
    ended(&text, &written, asked)
}

fn read(directory: &Path) -> Result<report::Run, Failure> {
    let run = report::Run::read(directory, benchmarks::VIEWS)?;
    let damaged: Vec<String> = run.damaged.iter().map(|line| format!("warning: {}\n", line.sentence())).collect();
    screen::remark(&damaged.concat());
    incomplete::warn(directory, report::end_banner(&run).as_deref());
    Ok(run)
}

/// Prints the files, and opens the page where that is asked for.
fn ended(text: &str, written: &[PathBuf], asked: &ReportAsked) -> Result<u8, Failure> {
    let code = if asked.how.quiet { 0 } else { screen::print(text)? };
    if asked.how.open {
        let page = written.iter().find(|path| path.extension().is_some_and(|kind| kind == HTML));
        let page = page.ok_or_else(|| {
            Failure::new("there is no HTML page to open").hint("`--open` needs `--format html`, or no `--format`")
        })?;
        show(page)?;
    }
    Ok(code)
}

/// Gives the page to the desktop's browser.
fn show(page: &Path) -> Result<(), Failure> {
    let hint = format!("open {} in a browser; it is one file that loads nothing", page.display());
    let Some(program) = process::first_program(&environment::search_path(), OPENER) else {
        return Err(Failure::new(format!("there is no `{OPENER}` that opens the page")).hint(hint));
    };
    let failed = |cause: String| {
        let failure = Failure::new(format!("`{OPENER}` could not open the page")).cause(cause);
        failure.hint(hint.clone())
    };
    match process::hand_over(&program, page, OPENS_WITHIN) {
        Ok(None | Some(0)) => Ok(()),
        Ok(Some(code)) => Err(failed(format!("it ended with exit code {code}"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The record itself; else the records in the folder, the oldest first. A folder without any is taken for a record, so that
/// the reader says what is missing.
fn records(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = RecordFolders::at(source).map_err(|error| {
        let failure = Failure::new(format!("there is no record in {}", source.display()));
        let failure = if is_absence(&error) { failure } else { failure.cause(format!("it cannot be listed: {error}")) };
        failure.hint("rankmark report results/DIR")
    })?;
    // Names of records begin with the time.
    let found = incomplete::readable(found);
    Ok(if found.is_empty() { vec![source.to_owned()] } else { found })
}
