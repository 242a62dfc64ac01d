//! What is lost by those who choose by prediction.

use record::{Case, CaseLine};

use super::{Sealed, pairs};

/// What a choice by prediction loses over the best, and what a random choice loses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Regrets {
    pub(super) first: f64,
    pub(super) best_of_three: f64,
    pub(super) random: f64,
    pub(super) choices: usize,
}

/// Regrets over groups of cases that train the same model on as many ranks and samples.
pub(super) fn regrets(sealed: &[Sealed], lines: &[CaseLine]) -> Regrets {
    let mut groups: std::collections::BTreeMap<String, Vec<(f64, f64)>> = std::collections::BTreeMap::new();
    for (case, line, measured) in pairs(sealed, lines) {
        let of_case = Case::new(&line.benchmark, line.parameters.clone());
        let Some(Ok((recipe, _))) = benchmarks::recipe(&of_case) else { continue };
        let key = format!(
            "{:?}",
            (&recipe.model.name, recipe.model.parameter_count(), recipe.mesh.ranks(), recipe.global_batch())
        );
        groups.entry(key).or_default().push((case.step_s, measured));
    }
    let mut regrets = Regrets::default();
    for mut group in groups.into_values().filter(|group| group.len() > 1) {
        group.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = group.iter().map(|case| case.1).fold(f64::INFINITY, f64::min);
        let three = group.iter().take(3).map(|case| case.1).fold(f64::INFINITY, f64::min);
        let mean = group.iter().map(|case| case.1).sum::<f64>() / group.len() as f64;
        regrets.first += group[0].1 / best - 1.0;
        regrets.best_of_three += three / best - 1.0;
        regrets.random += mean / best - 1.0;
        regrets.choices += 1;
    }
    let count = regrets.choices.max(1) as f64;
    Regrets {
        first: regrets.first / count,
        best_of_three: regrets.best_of_three / count,
        random: regrets.random / count,
        ..regrets
    }
}

pub(super) fn text(regrets: &Regrets) -> String {
    if regrets.choices == 0 {
        return "\nno two cases train the same model on as many ranks and samples: nothing could be chosen\n"
            .to_owned();
    }
    format!(
        "\nlost by choice over the best, mean of {} choices: the first {:.1}%, the best of three {:.1}%, a random one {:.1}%\n",
        regrets.choices,
        100.0 * regrets.first,
        100.0 * regrets.best_of_three,
        100.0 * regrets.random
    )
}
