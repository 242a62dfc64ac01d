//! The exit code of a comparison, and the options that decide it.

use diagnose::Verdict;
use report::Comparisons;
use terms::Ratio;

/// Within this share two cases are the same, unless the user says otherwise.
const THRESHOLD: Ratio = Ratio(0.03);

/// What ends a comparison with another code than 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gate {
    /// Within this share two cases are the same.
    pub(crate) threshold: f64,
    fail_on: Vec<String>,
}

/// Every word of `--fail-on`.
const WORDS: [&str; 5] = ["worse", "cannot-tell", "better", "unmatched", "none"];

/// `--threshold` and `--fail-on`.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct GateOptions {
    /// within this share of no change, cases are the same (default: 3%)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<Ratio>,
    /// what sets the exit code: worse, cannot-tell, better, unmatched, none (default: worse,cannot-tell)
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = WORDS, hide_possible_values = true)]
    fail_on: Vec<String>,
}

/// The baseline and the gate of commands that measure first. Help lists the baseline alone: they have many options already.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct BaselineOptions {
    /// compares with this baseline at the end: `rankmark baseline --help`
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    #[command(flatten)]
    pub(crate) gate: GateOptions,
}

/// A share above 0.
fn share(text: &str) -> Result<Ratio, String> {
    let share: Ratio = text.parse().map_err(|error: terms::ParseQuantityError| error.to_string())?;
    let fits = share.0.is_finite() && share.0 > 0.0 && share.0 <= 10.0;
    if fits { Ok(share) } else { Err("a share above 0 (3% or 0.03)".to_owned()) }
}

impl GateOptions {
    /// The names of the options, and whether they were given.
    pub(crate) fn given(&self) -> [(&'static str, bool); 2] {
        [("threshold", self.threshold.is_some()), ("fail-on", !self.fail_on.is_empty())]
    }
}

impl Gate {
    /// What the options say.
    pub(crate) fn from_options(options: &GateOptions) -> Self {
        let threshold = options.threshold.unwrap_or(THRESHOLD).0;
        let default = || vec!["worse".to_owned(), "cannot-tell".to_owned()];
        let fail_on = if options.fail_on.is_empty() { default() } else { options.fail_on.clone() };
        Self { threshold, fail_on }
    }

    /// Whether what this word names is to fail.
    pub(crate) fn fails(&self, word: &str) -> bool {
        let given = |word: &str| self.fail_on.iter().any(|given| given == word);
        given(word) && !given("none")
    }

    /// The exit code. 1: worse, or what else is to fail. 3: undecided. 0: fine.
    pub(crate) fn code(&self, found: &Comparisons<'_>) -> u8 {
        let fails = |word: &str| self.fails(word);
        let any = |verdict| found.others.iter().any(|side| side.comparison.count(verdict) > 0);
        let unmatched = || found.others.iter().any(|side| !side.comparison.only_base.is_empty());
        if fails("worse") && any(Verdict::Worse)
            || fails("better") && any(Verdict::Better)
            || fails("unmatched") && unmatched()
        {
            1
        } else if fails("cannot-tell") && any(Verdict::CannotTell) {
            3
        } else {
            0
        }
    }
}
