//! Many tests at once: the chance of any false claim stays below one level.

/// How one test of a family ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Whether its hypothesis is rejected.
    pub rejected: bool,
    /// The level that it was tested at. The confidence interval of this level leaves the hypothesis out exactly if it is
    /// rejected.
    pub level: f64,
}

/// Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979): the smallest p-value is tested at `level / m`,
/// the next at `level / (m-1)`, until one is not rejected. Any dependence between tests is allowed.
pub fn holm(p_values: &[f64], level: f64) -> Vec<Held> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut held = vec![Held { rejected: false, level }; p_values.len()];
    let mut stopped_at = None;
    for (place, index) in order.into_iter().enumerate() {
        let step = stopped_at.unwrap_or(level / (p_values.len() - place) as f64);
        let rejected = stopped_at.is_none() && p_values[index] <= step;
        if !rejected {
            stopped_at = Some(step);
        }
        held[index] = Held { rejected, level: step };
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_down_until_one_is_not_rejected() {
        let held = holm(&[0.2, 0.001, 0.02, 0.016], 0.05);
        let outcomes: Vec<(bool, f64)> = held.iter().map(|held| (held.rejected, held.level)).collect();
        assert_eq!(outcomes, [(false, 0.05), (true, 0.0125), (true, 0.025), (true, 0.05 / 3.0)]);
        // The second is not rejected at 0.05 / 3: the third is not looked at, though it is below 0.05 / 2.
        let held = holm(&[0.02, 0.001, 0.021, 0.9], 0.05);
        assert_eq!(held.iter().map(|held| held.rejected).collect::<Vec<_>>(), [false, true, false, false]);
        assert!(held.iter().filter(|held| !held.rejected).all(|held| held.level == 0.05 / 3.0), "{held:?}");
        assert_eq!(holm(&[], 0.05), []);
    }
}
