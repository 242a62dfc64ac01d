//! What others took of a machine while a job ran.

use diagnose::profile::Disturbance;
use record::Caveat;
use view::number::{list, percent};

/// What it means for the findings; None where nothing disturbed the job.
pub fn disturbed(found: &Disturbance) -> Option<String> {
    let part = |caveat: &Caveat| match caveat {
        Caveat::OtherPrograms => {
            let cores = found
                .other_cores
                .map_or_else(|| "cores".to_owned(), |used| format!("{used:.1} of {} cores", found.cores));
            format!("other programs used {cores}")
        }
        Caveat::StolenTime => {
            let share = found
                .stolen_share
                .map_or_else(|| "time".to_owned(), |share| format!("{} of their time", percent(share)));
            format!("the hypervisor gave {share} to others")
        }
        Caveat::Throttled => "the clock of processors was held down".to_owned(),
        Caveat::QuotaReached => "the quota of processor time stopped processes".to_owned(),
        other => other.explanation().to_owned(),
    };
    let parts: Vec<String> = found.caveats.iter().map(part).collect();
    let when = if found.of_window { "While the steps were recorded" } else { "While the job ran" };
    // Of a job that somebody else starts, the host that starts it is looked at alone.
    let place = if found.cores > 0 { " on this host" } else { "" };
    let text = format!("{when}, {}{place}: what is said of single ranks and steps is less certain.", list(&parts));
    found.is_felt().then_some(text)
}
