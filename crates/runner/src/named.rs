//! What a run takes from its plan before it begins: the profiles that cases name, and the seed of their order.

use record::Plan;
use terms::Error;

/// The seed of the order of simulated cases.
const SIMULATED_ORDER: u64 = 1;

/// A seed of the run's own for the order of cases: two runs are not to share an accident of it. Computed noise goes on from case
/// to case, so that runs of one plan have the same times in the same order only.
pub fn order_seed(plan: &Plan) -> u64 {
    if plan.cases.iter().all(benchmarks::is_simulated) {
        return SIMULATED_ORDER;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // JSON's numbers are exact up to 2^53.
    (now.as_nanos() as u64) & ((1 << 53) - 1)
}

/// The profiles of machines that the plan names in `limits`, each read once.
///
/// # Errors
/// When one cannot be read.
pub fn profiles(plan: &Plan) -> Result<Vec<record::Profile>, Error> {
    let named = plan.cases.iter().filter_map(|case| case.limits());
    let mut paths: Vec<&str> = named.filter(|path| !matches!(*path, "true" | "false")).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().map(record::Profile::read).collect()
}
