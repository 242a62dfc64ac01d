//! The command of one benchmark (`comm`, `train`, ...): its fields from flags.

use clap::ArgMatches;

use super::measure_flags;
use crate::session::Entry;
use crate::{Failure, cli};

pub(crate) fn run(command: &str, matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let (about, declared) = cli::measured(command).expect("clap knows the commands of benchmarks alone beside its own");
    let mut pairs = crate::given::given(matches, &[about]);
    if let Some(sweep) = declared.sweep {
        let of = |name: &str| pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let (field, value) = sweep.unless;
        let is_void = of(field).is_some_and(|given| terms::normalize(given) == value);
        if of(sweep.field).is_none() && !is_void {
            pairs.push((sweep.field.to_owned(), sweep.values.to_owned()));
        }
    }
    measure_flags(about, pairs, matches, entry)
}
