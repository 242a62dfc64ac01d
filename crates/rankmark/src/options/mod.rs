//! Options of commands that measure, read once: what cases are, where results go, what concerns the run as a whole.

pub(crate) mod exports;
pub(crate) mod fields;
pub(crate) mod gate;
pub(crate) mod labels;
pub(crate) mod parts;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, ValueHint};
use record::About;
use terms::{Kind, Seconds};

use crate::Failure;
use crate::screen::{self, Verbosity};

pub(crate) use exports::{ExportOptions, Exports};
pub(crate) use gate::GateOptions;
pub(crate) use labels::LabelOptions;
pub(crate) use plans::ranks::default_ranks;

/// Fields of cases as users write them: name and text, each with the text of a list.
pub(crate) type Pairs = Vec<(String, String)>;

/// The heading of options that short help lists.
pub(crate) const OUTPUT: &str = "Output";
/// The heading of options that it leaves out.
pub(crate) const RUN: &str = "The whole run";

/// Where results go, and how much is said.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Output {
    /// directory of the record (default: results/TIME-EXPERIMENT)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// shows cases, least trials and time, and what is skipped; runs nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// prints one JSON object for each case; text goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// prints errors only
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// prints more: caveats in full, paths taken
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// What concerns the run and its record as a whole.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Whole {
    /// sets a field of every case; repeats
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// ends the whole run after this time, with the trials made by then
    #[arg(long, value_name = "TIME")]
    budget: Option<Seconds>,
    /// counts only trials in this state of the machine (`near-cores`), and waits for it until --budget ends
    #[arg(long, value_name = "NAME", requires = "budget")]
    pub(crate) state: Option<String>,
    /// continues this record; with a plan, also begins it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "output_dir")]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) labels: LabelOptions,
    #[command(flatten)]
    pub(crate) baseline: gate::BaselineOptions,
    #[command(flatten)]
    pub(crate) exports: ExportOptions,
}

/// Files that a run also writes, because users of another tool expect them.
#[derive(Debug, Default)]
pub(crate) struct ExtraFiles {
    /// The table of an OSU study.
    pub(crate) study_csv: Option<PathBuf>,
    /// The results as one JSON file.
    pub(crate) results_json: Option<PathBuf>,
}

/// All options of a run.
#[derive(Debug, Default)]
pub(crate) struct RunOptions {
    /// The fields that were given, in the benchmarks' order.
    pub(crate) fields: Pairs,
    pub(crate) output: Output,
    pub(crate) whole: Whole,
    pub(crate) extra_files: ExtraFiles,
    /// Runs the cases of so many ranks alone.
    pub(crate) only_ranks: Option<u32>,
    /// Whether cases are those of a plan, whose fields are not flags.
    pub(crate) has_plan: bool,
}

impl RunOptions {
    /// Reads what [`fields::with_options`] declared for these benchmarks.
    ///
    /// # Errors
    /// As [`parts::read`].
    pub(crate) fn read(matches: &ArgMatches, abouts: &[&'static About]) -> Result<Self, Failure> {
        Ok(Self {
            fields: given(matches, abouts),
            output: parts::read(matches)?,
            whole: parts::read(matches)?,
            ..Self::default()
        })
    }

    /// The given fields of one benchmark.
    pub(crate) fn fields_of(&self, about: &About) -> Pairs {
        let of = |name: &'static str| self.fields.iter().filter(move |(given, _)| given == name).cloned();
        about.all_fields().flat_map(|field| of(field.name)).collect()
    }

    /// The `--set` options.
    ///
    /// # Errors
    /// One that sets nothing.
    pub(crate) fn overrides(&self) -> Result<Pairs, Failure> {
        let pair = |text: &String| {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                Failure::new(format!("`--set {text}` sets nothing")).hint("--set FIELD=VALUE, as in --set ranks=2,4")
            })?;
            Ok((name.trim().to_owned(), value.to_owned()))
        };
        self.whole.set.iter().map(pair).collect()
    }

    /// How long the whole run may take.
    ///
    /// # Errors
    /// A budget of no time.
    pub(crate) fn budget(&self) -> Result<Option<Duration>, Failure> {
        budget(self.whole.budget)
    }
}

impl Whole {
    /// Options of a new record with these labels, and nothing else.
    pub(crate) fn labelled(labels: LabelOptions) -> Self {
        Self { labels, ..Self::default() }
    }

    /// Ends the run after this time.
    pub(crate) fn with_budget(self, budget: Seconds) -> Self {
        Self { budget: Some(budget), ..self }
    }
}

impl Output {
    /// How much is said.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        }
    }

    /// Says, before anything else of a measuring command, what its user may not expect; where its text goes.
    pub(crate) fn note_first(&self, text: &str) {
        let line = format!("note: {text}\n");
        // A stream that cannot be written is found out by what comes after.
        match (self.quiet, self.json) {
            (true, _) => {}
            (false, true) => screen::remark(&line),
            (false, false) => _ = screen::written(&line),
        }
    }
}

/// A `--budget`.
///
/// # Errors
/// One of no time.
pub(crate) fn budget(given: Option<Seconds>) -> Result<Option<Duration>, Failure> {
    let Some(seconds) = given else { return Ok(None) };
    let budget = Duration::try_from_secs_f64(seconds.0).ok().filter(|budget| !budget.is_zero());
    let wrong = || Failure::new(format!("`--budget {seconds}` leaves no time")).hint("for example --budget 60s");
    budget.map(Some).ok_or_else(wrong)
}

/// Most seconds of an `--interval`. Beyond some number of them no clock counts.
const LONGEST_INTERVAL: f64 = 86_400.0;

/// An `--interval` of at least `shortest`.
///
/// # Errors
/// One that is shorter, or longer than a day.
pub(crate) fn interval(given: Seconds, shortest: Duration, example: &str) -> Result<Duration, Failure> {
    let refused = |what: &str| Failure::new(what).hint(format!("for example --interval {example}"));
    if given.0 > LONGEST_INTERVAL {
        return Err(refused("`--interval` is too long").cause("it may be a day at most"));
    }
    let interval = Duration::try_from_secs_f64(given.0).ok().filter(|interval| *interval >= shortest);
    interval.ok_or_else(|| refused(&format!("`--interval {}s` is too short", given.0)))
}

/// Refuses the first of these options that was given: it would do nothing, and its user would take it for done. `why` says
/// what the option is for, and what was named instead.
///
/// # Errors
/// Where one was given.
pub(crate) fn refuse_given(options: &[(&str, bool)], why: &str) -> Result<(), Failure> {
    let Some((name, _)) = options.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(Failure::new(format!("`--{name}` {why}")).hint(format!("leave `--{name}` out")))
}

/// The fields that were given, in the benchmarks' order, each as the text of a list.
fn given(matches: &ArgMatches, abouts: &[&'static About]) -> Pairs {
    let mut pairs: Pairs = Vec::new();
    for field in abouts.iter().flat_map(|about| about.all_fields()) {
        if pairs.iter().any(|(name, _)| name == field.name) {
            continue;
        }
        let Ok(Some(values)) = matches.try_get_many::<String>(field.name) else { continue };
        let values: Vec<&str> = values.map(String::as_str).collect();
        match field.kind {
            // These repeat and never split.
            Kind::Texts => pairs.extend(values.iter().map(|value| (field.name.to_owned(), (*value).to_owned()))),
            _ => pairs.push((field.name.to_owned(), values.join(","))),
        }
    }
    pairs
}

/// Names of the arguments that the user wrote.
pub(crate) fn names_given(matches: &ArgMatches) -> Vec<String> {
    let is_given = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    matches.ids().map(clap::Id::as_str).filter(is_given).map(str::to_owned).collect()
}
