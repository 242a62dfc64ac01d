//! The samples of every case, as far as a row shows them: 32 quantiles.

use record::CaseSamples;
use record::store::SAMPLES_FILE;

use super::cases::Quantiles;
use crate::Run;
use crate::run::call_times;

/// Quantiles of a case.
const SHOWN: usize = 32;

/// The quantiles of all samples of each case, and why there are none where the file cannot be read. Of a run without a
/// record on disk: none.
pub(super) fn quantiles(run: &Run, most: usize) -> (Quantiles, Option<String>) {
    let path = run.directory.join(SAMPLES_FILE);
    if run.cases.len() > most || path.symlink_metadata().is_err() {
        return Default::default();
    }
    match read(run) {
        Ok(quantiles) => (quantiles, None),
        Err(error) => (Quantiles::new(), Some(format!("{SAMPLES_FILE} could not be read: {}", error.what))),
    }
}

fn read(run: &Run) -> Result<Quantiles, crate::Error> {
    let mut lines = record::read_samples(&run.directory, &run.id).map_err(crate::Error::from)?;
    let mut all = Quantiles::new();
    for case in run.cases.iter().filter(|case| case.time_s.is_some()) {
        let trials: Vec<CaseSamples> = lines.of_case(&case.id).map_err(crate::Error::from)?;
        let mut times: Vec<f64> = trials.iter().flat_map(call_times).collect();
        times.sort_by(f64::total_cmp);
        if !times.is_empty() {
            all.insert(case.id.clone(), thinned(&times));
        }
    }
    Ok(all)
}

/// At most [`SHOWN`] times at equal distances of their order, the smallest and the largest among them; all, where they are fewer.
fn thinned(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= SHOWN {
        return sorted.to_vec();
    }
    let at = |place: usize| sorted[(place * (sorted.len() - 1) + (SHOWN - 1) / 2) / (SHOWN - 1)];
    (0..SHOWN).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_kept() {
        let sorted: Vec<f64> = (0..1000).map(f64::from).collect();
        let thin = thinned(&sorted);
        assert_eq!((thin.len(), thin[0], thin[SHOWN - 1]), (SHOWN, 0.0, 999.0));
        assert!(thin.is_sorted());
        assert_eq!(thinned(&sorted[..5]), sorted[..5]);
    }
}
