//! Backends: whether each is ready, and whether a small all_reduce in it gives the answer that is known.

use std::time::Duration;

use comm::{Backend, Readiness};
use launch::survey::Finding;
use suite::Host;
use terms::{Seconds, Status};

use crate::session::interrupted;
use crate::{Failure, cli};

const GROUP: &str = "backends";

/// What a backend's known-answer test may take, from starting its ranks to their end.
const LIMIT: Duration = Duration::from_secs(30);

/// A row for each backend. Must be called on the main thread, which ranks are tied to.
pub(super) fn check(host: &Host, quick: bool) -> Result<Vec<Finding>, Failure> {
    launch::interrupt::install()
        .map_err(|error| Failure::new("signals could not be set up", Some(error.to_string()), None))?;
    let one = |backend: &&dyn Backend| {
        let row = row(*backend, host, quick)?;
        // A backend whose ranks the user ended has not failed.
        interrupted().map_or(Ok(row.of(GROUP)), |why| Err(Failure::new(why, None, None)))
    };
    comm::BACKENDS.iter().map(one).collect()
}

fn row(backend: &dyn Backend, host: &Host, quick: bool) -> Result<Finding, Failure> {
    let about = backend.about();
    let (version, path) = match backend.probe() {
        Readiness::Missing { why, hint } => return Ok(Finding::missing(about.name, why).mend(hint)),
        Readiness::Ready { version, path } => (version, path),
    };
    let place = path.map_or(String::new(), |path| format!("  {path}"));
    let found = format!("{version}{place}");
    if quick {
        return Ok(Finding::ready(about.name, format!("{found}; not run")));
    }
    const ASKED: &str = "64 KiB all_reduce on 2 ranks";
    Ok(match known_answer(about.name, host)? {
        Ok(time) => Finding::ready(about.name, format!("{found}; {ASKED} right{}", said(time, about.simulated))),
        Err(why) => Finding::misconfigured(about.name, format!("{found}; {ASKED}: {why}"))
            .costs("no case of this backend can be trusted here")
            .mend(format!("rankmark comm all_reduce --ranks 2 --bytes 64KiB --backend {} shows more", about.name)),
    })
}

/// A time that was computed is none.
fn said(time: Option<f64>, simulated: bool) -> String {
    match time {
        _ if simulated => ", simulated".to_owned(),
        Some(time) => format!(", {}", Seconds(time)),
        None => String::new(),
    }
}

/// All ranks' sums, every element of them, by the path that every measurement takes. Gives the median time.
fn known_answer(backend: &str, host: &Host) -> Result<Result<Option<f64>, String>, Failure> {
    let fields = [
        ("op", "all_reduce"),
        ("backend", backend),
        ("ranks", "2"),
        ("bytes", "64KiB"),
        ("iters", "6"),
        ("warmup", "1"),
        ("max_seconds", "1s"),
        ("timeout", "20s"),
        ("limits", "false"),
    ];
    let fields: Vec<_> = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let plan = record::plan::from_flags(cli::collective()[0], &fields, &[])?;
    let Some(case) = plan.cases.first() else { return Ok(Err("there is no case of it".to_owned())) };
    let mut starter = crate::session::starter().limit(LIMIT);
    let line = suite::trial(case, host, &mut starter, LIMIT, interrupted);
    Ok(match (line.status, line.wrong) {
        (Status::Ok, Some(0)) => Ok(line.time_s.map(|times| times.median)),
        (Status::Ok, wrong) => Err(format!("not checked ({wrong:?})")),
        _ => Err(line.reason.unwrap_or_else(|| "failed".to_owned())),
    })
}
