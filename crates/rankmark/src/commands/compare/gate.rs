//! The exit code of a comparison, and the options that decide it.

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use diagnose::Verdict;
use diagnose::compare::Comparison;
use terms::Ratio;

/// Within this share two cases are the same, unless the user says otherwise.
const THRESHOLD: Ratio = Ratio(0.03);

/// What ends a comparison with another code than 0.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::commands) struct Gate {
    /// Within this share two cases are the same.
    pub(in crate::commands) threshold: f64,
    fail_on: Vec<String>,
}

/// Every word of `--fail-on`.
const WORDS: [&str; 5] = ["worse", "cannot-tell", "better", "unmatched", "none"];

/// `--threshold` and `--fail-on`.
pub(crate) fn options() -> [Arg; 2] {
    [
        Arg::new("threshold")
            .long("threshold")
            .value_name("SHARE")
            .value_parser(share)
            .help("within this share of no change, cases are the same (default: 3%)"),
        Arg::new("fail-on")
            .long("fail-on")
            .value_name("WORDS")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(WORDS)
            .hide_possible_values(true)
            .help("what sets the exit code: worse, cannot-tell, better, unmatched, none (default: worse,cannot-tell)"),
    ]
}

/// A share above 0.
fn share(text: &str) -> Result<Ratio, String> {
    let share: Ratio = text.parse().map_err(|error: terms::ParseQuantityError| error.to_string())?;
    let fits = share.0.is_finite() && share.0 > 0.0 && share.0 <= 10.0;
    if fits { Ok(share) } else { Err("a share above 0 (3% or 0.03)".to_owned()) }
}

impl Gate {
    pub(in crate::commands) fn read(matches: &ArgMatches) -> Self {
        let threshold = matches.get_one::<Ratio>("threshold").copied().unwrap_or(THRESHOLD).0;
        let words: Vec<String> = matches.get_many::<String>("fail-on").into_iter().flatten().cloned().collect();
        let fail_on = if words.is_empty() { vec!["worse".to_owned(), "cannot-tell".to_owned()] } else { words };
        Self { threshold, fail_on }
    }

    /// Whether what this word names is to fail.
    pub(in crate::commands) fn fails(&self, word: &str) -> bool {
        let given = |word: &str| self.fail_on.iter().any(|given| given == word);
        given(word) && !given("none")
    }

    /// 1: worse, or what else is to fail. 3: it cannot be told. 0: fine.
    pub(in crate::commands) fn code(&self, comparisons: &[&Comparison]) -> u8 {
        let fails = |word: &str| self.fails(word);
        let any = |verdict| comparisons.iter().any(|comparison| comparison.count(verdict) > 0);
        let unmatched = || comparisons.iter().any(|comparison| !comparison.only_base.is_empty());
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

/// The same options for commands that measure first. Help lists the first alone: it has many options already.
pub(crate) fn of_baseline() -> Vec<Arg> {
    let name = Arg::new("baseline").long("baseline").value_name("NAME").value_parser(value_parser!(String));
    let name = name.help("compares with this baseline at the end: `rankmark baseline --help`");
    std::iter::once(name).chain(options().map(|option| option.requires("baseline").hide(true))).collect()
}
