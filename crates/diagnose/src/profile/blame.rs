//! Who waits for whom: the waits of each collective are charged to the rank that entered last.

use super::instances::Instances;

/// Seconds per step that each rank (first index) waits for each other rank (second index), by their places in the timeline.
/// None without a collective that tells waits.
pub(super) fn blame(instances: &Instances, ranks: usize, steps: usize) -> Option<Vec<Vec<f64>>> {
    let mut sums = vec![vec![0.0; ranks]; ranks];
    let mut told = false;
    for instance in instances.all.iter().filter(|instance| instance.tells_waits()) {
        let Some(last) = instance.last(instances.clocks.orders_arrivals) else { continue };
        let transfer = instance.transfer();
        for member in instance.members.iter().filter(|member| member.rank != last.rank) {
            told = true;
            sums[member.rank][last.rank] += (member.duration() - transfer) as f64 / 1e9;
        }
    }
    let per_step = |sum: f64| sum / steps.max(1) as f64;
    told.then(|| sums.into_iter().map(|row| row.into_iter().map(per_step).collect()).collect())
}
