//! `rankmark train` and `rankmark memory`: training from flags.

use clap::ArgMatches;

use super::measure_flags;
use crate::session::Entry;
use crate::{Failure, cli};

pub(crate) fn run(benchmark: &str, matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let abouts = cli::benchmark(benchmark);
    measure_flags(abouts[0], cli::given(matches, &abouts), matches, entry)
}
