//! The machine's states during the check, and those that earlier runs saw.

use std::path::Path;
use std::time::Duration;

use benchmarks::Host;
use measure::{StatesAsked, machine};
use plans::states;
use survey::Finding;

use super::backends;
use crate::session::starter;
use record::store::RESULTS;

/// How long the machine is observed.
const LASTING: Duration = Duration::from_millis(1_500);
/// The most ranks that look.
const MOST_RANKS: usize = 64;

/// One row. Must be called on the main thread, which ranks are tied to.
pub(super) fn check(host: &Host) -> Finding {
    let named = |finding: Finding| finding.group("system");
    // Neighbours look in pairs.
    let ranks = host.cores.min(MOST_RANKS) / 2 * 2;
    if ranks == 0 {
        return named(Finding::missing("states", "not looked at: that needs two cores"));
    }
    let fields = [("backend", "shm".to_owned()), ("ranks", ranks.to_string())];
    let known = runner::earlier::earlier(Some(Path::new(RESULTS)), (&machine::detect(), &[]), &[]);
    let asked = StatesAsked { known: known.clone(), ..StatesAsked::default() };
    let seen = backends::case(&fields).map_err(|failure| failure.on_one_line()).and_then(|case| {
        let look = runner::look_at_states(&case, host, &mut starter(), asked, LASTING);
        look.map_err(|verdict| verdict.error.on_one_line())
    });
    named(match seen {
        Ok(seen) => states::finding(&seen, &known, LASTING),
        Err(why) => Finding::missing("states", format!("not looked at: {why}")),
    })
}
