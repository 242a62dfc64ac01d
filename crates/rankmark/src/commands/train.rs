//! `rankmark train` and `rankmark memory`: training from flags.

use std::time::Instant;

use clap::ArgMatches;
use measure::machine;

use crate::session::{Request, measure};
use crate::{Failure, cli};

pub(crate) fn run(benchmark: &str, matches: &ArgMatches, begun: Instant) -> Result<u8, Failure> {
    let abouts = cli::benchmark(benchmark);
    let pairs = cli::given(matches, &abouts);
    let plan = record::plan::from_flags(abouts[0], &pairs, &cli::overrides(matches)?)?;
    measure(&Request { matches, machine: machine::detect(), begun }, Some(plan))
}
