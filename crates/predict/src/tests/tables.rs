//! Tables of others, in a folder beside the repository: skipped without it.

use std::path::PathBuf;

use crate::fit::{Observed, errors, fit};
use crate::machines::machine;
use crate::rows::read_rows;
use crate::{Constants, Judged, Software};

#[path = "../../../../tests/skip.rs"]
mod skip;

fn table(name: &str) -> Option<Vec<Observed>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/steps").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        skip::skip(name, &format!("there is no {}", path.display()));
        return None;
    };
    let rows = read_rows(&text).unwrap();
    assert_eq!(rows.skipped, []);
    Some(rows.rows.iter().map(|row| Observed::from_row(row).unwrap()).collect())
}

#[test]
fn steps_of_selene_follow_from_public_numbers() {
    let Some(rows) = table("steps_selene_a100.csv") else { return };
    let profile = machine("a100-nvlink").unwrap().profile();
    let constants = Software::Megatron.constants(Constants::of(&profile));
    let [mean, ..] = Judged::sizes(&errors(&profile, &constants, &rows));
    assert!(mean <= 0.08, "mean error {mean:.3}");
}

#[test]
fn a_few_rows_of_a_table_tell_the_others() {
    let Some(mut rows) = table("steps_single_node_a100.csv") else { return };
    let profile = machine("a100-nvlink").unwrap().profile();
    let constants = Software::Megatron.constants(Constants::of(&profile));
    // Drawn with a fixed seed; every seventh row keeps the test short.
    let mut seed = 1;
    let mut drawn = Vec::new();
    for _ in 0..24 {
        drawn.push(rows.swap_remove((terms::next_splitmix64(&mut seed) % rows.len() as u64) as usize));
    }
    let rest: Vec<Observed> = rows.into_iter().step_by(7).collect();
    let found = fit(&profile, constants, &drawn).unwrap();
    let [mean, median, _] = Judged::sizes(&errors(&profile, &found.after, &rest));
    assert!(mean <= 0.08 && median <= 0.07, "mean {mean:.3}, median {median:.3}");
    let [before, ..] = Judged::sizes(&errors(&profile, &constants, &rest));
    assert!(before > 2.0 * mean, "the fit changes nothing: {before:.3} {mean:.3}");
}
