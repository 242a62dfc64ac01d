//! Who waits for whom: the waits of each collective are charged to the rank that entered last.

use super::instances::Instances;

/// Seconds per step that each rank (first index) waits for each other rank (second index), by their places in the timeline.
/// None without a wait.
pub(super) fn blame(instances: &Instances, ranks: usize, steps: usize) -> Option<Vec<Vec<f64>>> {
    let by_arrival = instances.clocks.aligned && instances.clocks.orders_arrivals;
    let mut sums = vec![vec![0.0; ranks]; ranks];
    for instance in instances.all.iter().filter(|instance| instance.tells_waits()) {
        let Some(last) = instance.last(by_arrival) else { continue };
        let transfer = instance.transfer();
        for member in instance.members.iter().filter(|member| member.rank != last.rank) {
            sums[member.rank][last.rank] += (member.duration() - transfer) as f64 / 1e9;
        }
    }
    let waited = sums.iter().flatten().any(|sum| *sum > 0.0);
    let per_step = |sum: f64| sum / steps.max(1) as f64;
    waited.then(|| sums.into_iter().map(|row| row.into_iter().map(per_step).collect()).collect())
}

/// The share of all waits that each rank caused.
pub(super) fn shares(blame: &[Vec<f64>]) -> Vec<f64> {
    let all: f64 = blame.iter().flatten().sum();
    (0..blame.len()).map(|rank| blame.iter().map(|row| row[rank]).sum::<f64>() / all).collect()
}

#[cfg(test)]
mod tests {
    use trace::timeline::NameId;

    use super::*;
    use crate::profile::instances::{Instance, InstanceMember};

    fn instance(durations: &[i64]) -> Instance {
        let member = |(rank, duration): (usize, &i64)| InstanceMember { rank, queue: 0, begin: -duration, end: 0 };
        Instance {
            group: NameId(0),
            operation: NameId(0),
            step: 0,
            bytes: None,
            synchronises: true,
            size: None,
            members: durations.iter().enumerate().map(member).collect(),
        }
    }

    #[test]
    fn waits_are_charged_to_the_last_and_shares_add_up() {
        let all = vec![instance(&[4_000_000_000, 1_000_000_000, 2_000_000_000]), instance(&[1, 1, 1])];
        let instances = Instances { all, ..Instances::default() };
        let blame = blame(&instances, 3, 2).unwrap();
        assert_eq!(blame, [vec![0.0, 1.5, 0.0], vec![0.0; 3], vec![0.0, 0.5, 0.0]]);
        assert_eq!(shares(&blame), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn without_a_wait_nobody_is_blamed() {
        let instances = Instances { all: vec![instance(&[5, 5])], ..Instances::default() };
        assert_eq!(blame(&instances, 2, 1), None);
    }
}
