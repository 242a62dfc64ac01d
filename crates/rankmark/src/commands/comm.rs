//! `rankmark comm OP`: collectives from flags.

use clap::ArgMatches;

use super::measure_flags;
use crate::session::Entry;
use crate::{Failure, cli};

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
    measure_flags(abouts[0], pairs, matches, entry)
}
