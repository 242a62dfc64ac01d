//! `rankmark train` and `rankmark memory`: training from flags.

use clap::ArgMatches;
use measure::machine;

use crate::session::{Entry, Request, measure};
use crate::{Failure, adopted, cli, terminal};

pub(crate) fn run(benchmark: &str, matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let abouts = cli::benchmark(benchmark);
    let mut pairs = cli::given(matches, &abouts);
    let overrides = cli::overrides(matches)?;
    cli::default_ranks(&mut pairs, &overrides, entry.lobby);
    let plan = record::plan::from_flags(abouts[0], &pairs, &overrides)?;
    if let Some(note) = adopted::default_backend(entry.lobby, &pairs, &overrides) {
        terminal::note_first(matches, &note);
    }
    measure(&Request { matches, machine: machine::detect(), entry }, Some(plan))
}
