//! Measuring a fleet: all nodes of a launcher, and once one is lost, the others without it.

use std::path::{Path, PathBuf};

use launch::external::Coordinator;
use record::{Plan, PlanErrors};
use terms::Error;

use super::records::{folder_of_others, of_records};
use super::so_far::{MOST_LOSSES, Missing, Open, missing};
use super::{Work, connection, plan};

/// The record of a fleet that was measured now.
pub struct Measurement {
    /// That of all nodes; those of the others lie in it, if a node was lost.
    pub directory: PathBuf,
    /// What they do not have.
    pub missing: Missing,
    /// A sentence about links that went down or came back meanwhile.
    pub links: Option<String>,
}

/// Measures the nodes of the launcher. Once one is lost, the others go on without it, in a record of their own. `run` measures a
/// plan with these ranks into this directory or one of its choice, and gives the record; `said` is its error on one line.
///
/// # Errors
/// When a plan does not fit, all nodes could not be measured, or a record cannot be read.
pub fn measure<E, R>(
    coordinator: &Coordinator,
    mut work: Work,
    mut run: R,
    said: fn(&E) -> String,
    remark: &mut dyn FnMut(&str),
) -> Result<Measurement, E>
where
    E: From<Error> + From<PlanErrors>,
    R: FnMut(&Coordinator, &Work, Plan, Option<PathBuf>) -> Result<PathBuf, E>,
{
    let whole = plan(coordinator, &work)?;
    let mut open = Open::new(whole.cases.len());
    let directory = run(coordinator, &work, whole, None)?;
    open.take(&directory).map_err(Error::from)?;
    let mut missing = missing(coordinator, &directory)?;
    let mut directories = vec![directory];
    let mut others: Option<Coordinator> = None;
    while let Some(last) = directories.last().filter(|_| missing.lost.len() < MOST_LOSSES) {
        let lost = blamed(last, remark)?;
        let ranks = others.as_ref().unwrap_or(coordinator);
        let Some(next) = ranks.without(&lost) else {
            if !lost.is_empty() && ranks.hosts().len() > 1 {
                missing.others_failed = Some(why_not_without(&lost, &ranks.hosts()[0].name));
                missing.lost.extend(lost);
            }
            break;
        };
        missing.lost.extend(lost);
        work.after_loss();
        let mut plan = plan(&next, &work)?;
        open.keep(&mut plan);
        if plan.cases.is_empty() {
            break;
        }
        remark(&format!("{} lost: the others go on without it\n", missing.lost.join(", ")));
        let place = directories[0].join(folder_of_others(directories.len()));
        // What is known of all nodes is worth more than an error of the others.
        let directory = match run(&next, &work, plan, Some(place)) {
            Ok(directory) => directory,
            Err(error) => {
                missing.others_failed = Some(said(&error));
                break;
            }
        };
        open.take(&directory).map_err(Error::from)?;
        directories.push(directory);
        others = Some(next);
    }
    missing.cases = open.not_run();
    missing.is_connected_once = connection(coordinator).0 == "backend";
    let links = flapping(&coordinator.link_changes());
    Ok(Measurement { directory: directories.swap_remove(0), missing, links })
}

/// Hosts that failed by this record.
fn blamed(directory: &Path, remark: &mut dyn FnMut(&str)) -> Result<Vec<String>, Error> {
    let nodes = of_records(&[directory.to_owned()], remark)?.taken.nodes;
    let failed = nodes.into_iter().filter(|node| !node.failed.is_empty());
    Ok(failed.map(|node| node.host.to_string()).collect())
}

/// `Links that went down or came back during the measurement: mlx5_3:1 of n3 (2 times).`
fn flapping(changes: &[(String, String, u64)]) -> Option<String> {
    const LISTED: usize = 8;
    let listed = changes.iter().take(LISTED).map(|(host, interface, count)| {
        let times = if *count == 1 { "once" } else { &format!("{count} times") };
        format!("{} of {host} ({times})", view::one_line(interface))
    });
    let listed: Vec<String> = listed.collect();
    let more = changes.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    (!changes.is_empty()).then(|| {
        format!(
            "Links that went down or came back during the measurement: {}{more}. Check their cables, transceivers and \
             switch ports.",
            listed.join(", ")
        )
    })
}

/// Why the others do not go on without these hosts, and what to type. `leading`: the host of rank 0.
fn why_not_without(lost: &[String], leading: &str) -> String {
    let why = if lost.iter().any(|host| host == leading) {
        format!("{leading} has rank 0, which leads the measurement")
    } else {
        "too few hosts are left".to_owned()
    };
    format!("{why}. Measure the others in a new run (srun --exclude={})", lost.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_host_of_rank_0_is_left_out_of_the_next_run() {
        let lost = ["n1".to_owned()];
        assert_eq!(
            why_not_without(&lost, "n1"),
            "n1 has rank 0, which leads the measurement. Measure the others in a new run (srun --exclude=n1)"
        );
        assert!(why_not_without(&lost, "n0").starts_with("too few hosts are left. "));
    }

    #[test]
    fn links_that_flap_are_named_with_their_host() {
        assert_eq!(flapping(&[]), None);
        let changes = [("n3".to_owned(), "mlx5_3:1".to_owned(), 2), ("n7".to_owned(), "eth0".to_owned(), 1)];
        let said = flapping(&changes).unwrap();
        assert!(said.contains(": mlx5_3:1 of n3 (2 times), eth0 of n7 (once). Check"), "{said}");
        let many: Vec<_> = (0..10).map(|at| (format!("n{at}"), "eth0".to_owned(), 4)).collect();
        assert!(flapping(&many).unwrap().contains("eth0 of n7 (4 times), and 2 more. "));
    }
}
