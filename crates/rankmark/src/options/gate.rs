//! The options that decide the exit code of a comparison.

use report::Gate;
use terms::Ratio;

/// `--threshold` and `--fail-on`.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct GateOptions {
    /// within this share of no change, cases are the same (default: 3%)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<Ratio>,
    /// what sets the exit code: worse, cannot-tell, better, unmatched, none (default: worse,cannot-tell)
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = Gate::WORDS, hide_possible_values = true)]
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

    /// What they say.
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.threshold, &self.fail_on)
    }
}
