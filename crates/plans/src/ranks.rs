//! How many ranks a command has whose user does not say it.

use launch::external::Coordinator;
use record::About;

/// Where a launcher started the ranks and nobody says how many there are, as many as it started.
pub fn default_ranks(
    pairs: &mut Vec<(String, String)>,
    overrides: &[(String, String)],
    coordinator: Option<&Coordinator>,
) {
    let is_given = has_ranks(pairs) || has_ranks(overrides);
    if let Some(coordinator) = coordinator.filter(|_| !is_given) {
        pairs.push(("ranks".to_owned(), coordinator.size().to_string()));
    }
}

fn has_ranks(pairs: &[(String, String)]) -> bool {
    pairs.iter().any(|(name, _)| name == "ranks")
}

/// Where nobody says how many ranks, no more than there are GPUs for them: each takes one of its own.
pub fn ranks_with_gpus(
    about: &About,
    pairs: &mut Vec<(String, String)>,
    overrides: &[(String, String)],
    gpus: impl FnOnce() -> usize,
) {
    let given = |name: &str| pairs.iter().chain(overrides).rev().find(|(given, _)| given == name);
    let is_on_gpus = given("device").is_some_and(|(_, device)| device == "cuda");
    if !is_on_gpus || given("ranks").is_some() {
        return;
    }
    let default = about.field("ranks").and_then(|field| field.default).and_then(|text| text.parse::<usize>().ok());
    let gpus = gpus();
    if gpus > 0 && default.is_some_and(|ranks| ranks > gpus) {
        pairs.push(("ranks".to_owned(), gpus.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_asks_for_no_more_ranks_than_gpus() {
        let about = benchmarks::benchmark("collective").unwrap().about();
        let ranks = |given: &[(&str, &str)], gpus: usize| {
            let mut pairs: Vec<(String, String)> =
                given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            ranks_with_gpus(about, &mut pairs, &[], || gpus);
            pairs.into_iter().find(|(name, _)| name == "ranks").map(|(_, ranks)| ranks)
        };
        assert_eq!(ranks(&[("device", "cuda")], 1).as_deref(), Some("1"));
        // The plan's own default holds.
        assert_eq!(ranks(&[("device", "cuda")], 2), None);
        assert_eq!(ranks(&[("device", "cuda")], 8), None);
        // The ranks say what is missing.
        assert_eq!(ranks(&[("device", "cuda")], 0), None);
        assert_eq!(ranks(&[("device", "cuda"), ("ranks", "2")], 1).as_deref(), Some("2"));
        assert_eq!(ranks(&[], 1), None);
    }
}
