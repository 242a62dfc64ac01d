//! `rankmark comm OP`: collectives from flags.

use clap::ArgMatches;
use measure::machine;

use crate::session::{Entry, Request, measure};
use crate::{Failure, adopted, cli, terminal};

/// What is measured when no size is given: from latency to bandwidth.
const SIZES: &str = "1KiB..64MiB*4";

pub(crate) fn run(matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let abouts = cli::collective();
    let operation = matches.get_one::<String>("op").cloned().unwrap_or_default();
    let mut pairs = cli::given(matches, &abouts);
    let sized = pairs.iter().any(|(name, _)| name == "bytes");
    if !sized && terms::normalize(&operation) != "barrier" {
        pairs.push(("bytes".to_owned(), SIZES.to_owned()));
    }
    let overrides = cli::overrides(matches)?;
    cli::default_ranks(&mut pairs, &overrides, entry.lobby);
    let plan = record::plan::from_flags(abouts[0], &pairs, &overrides)?;
    if let Some(note) = adopted::default_backend(entry.lobby, &pairs, &overrides) {
        terminal::note_first(matches, &note);
    }
    measure(&Request { matches, machine: machine::detect(), entry }, Some(plan))
}
