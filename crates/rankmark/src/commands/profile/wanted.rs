//! What to show of traces.

use job::Origin;
use record::Labels;
use report::Target;

use crate::{Failure, environment, screen};

/// How to show what was recorded.
pub(crate) struct Wanted {
    pub(crate) target: Target,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(super) traces: job::Wanted,
}

impl Default for Wanted {
    fn default() -> Self {
        let traces = job::Wanted { steps: None, labels: Labels::default(), origin };
        Self { target: Target::default(), json: false, quiet: false, traces }
    }
}

/// This command, for a record that it makes.
pub(super) fn origin() -> Origin {
    let command_line = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    Origin { command_line, environment: environment::variables() }
}

impl Wanted {
    /// Shows text where JSON does not take its place.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        match (self.quiet, self.json) {
            (true, _) => {}
            (_, true) => screen::remark(text),
            (_, false) => drop(screen::print(text)?),
        }
        Ok(())
    }
}

pub(super) fn range_of(text: &str) -> Result<std::ops::Range<u32>, Failure> {
    let numbers =
        text.split_once(':').and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    match numbers {
        Some((from, to)) if from < to => Ok(from..to),
        _ => {
            Err(Failure::new(format!("`--steps {text}` is not a range of steps"))
                .hint("FIRST:LAST, as in --steps 10:20"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_steps_is_read_or_refused() {
        assert_eq!(range_of("10:20").ok(), Some(10..20));
        for wrong in ["10", "20:10", "10:10", "a:b", "-1:4"] {
            assert!(range_of(wrong).is_err(), "{wrong}");
        }
    }
}
