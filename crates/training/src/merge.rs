//! One rank exchanges nothing, so it computes the same with every strategy: such cases of a plan are one case.

use std::collections::HashMap;

use record::{About, Case, Plan};
use terms::Named as _;
use view::number::list;
use view::study::ranks;

use super::fields::Fields;
use super::resolve::strategy;

/// Keeps of the cases of one rank that differ in the strategy alone the first, and notes which ones it stands for.
pub(super) fn single_ranks(plan: &mut Plan, about: &About) {
    let mut kept: HashMap<String, String> = HashMap::new();
    let mut merged: Vec<(String, Vec<String>)> = Vec::new();
    plan.cases.retain(|case| {
        // PyTorch wraps the model of one rank, too, and each strategy does it in another way.
        if case.ranks() != 1 || case.benchmark != about.name || contract::is_pytorch(case) {
            return true;
        }
        let Ok(fields) = Fields::of(case) else { return true };
        let strategy = strategy(&fields).name().to_owned();
        let first = kept.entry(without_strategy(case, about)).or_insert_with(|| strategy.clone());
        if *first == strategy {
            return true;
        }
        match merged.iter_mut().find(|(known, _)| known == first) {
            Some((_, others)) if others.contains(&strategy) => {}
            Some((_, others)) => others.push(strategy),
            None => merged.push((first.clone(), vec![strategy])),
        }
        false
    });
    for (first, others) in merged {
        let note = format!("{} is measured once, as `{first}`: {} would compute the same", ranks(1), list(&others));
        // A plan may have the same cases of both benchmarks.
        if !plan.notes.contains(&note) {
            plan.notes.push(note);
        }
    }
}

/// What a case measures and how, its strategy apart.
fn without_strategy(case: &Case, about: &About) -> String {
    let mut other = case.clone();
    other.parameters.shift_remove("strategy");
    other.identify(about);
    let settings = serde_json::Value::Object(other.settings.to_map());
    format!("{} {settings} {:?}", other.id, other.skip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &[(&str, &str)]) -> Plan {
        let mut plan = record::plan::from_flags(&crate::about::TRAINING, flags, &[]).unwrap();
        contract::Benchmark::complete(&crate::TrainingBenchmark, &mut plan);
        plan
    }

    fn described(plan: &Plan) -> Vec<(u64, String)> {
        let strategy = |case: &Case| case.text("strategy").unwrap_or_default().to_owned();
        plan.cases.iter().map(|case| (u64::from(case.ranks()), strategy(case))).collect()
    }

    #[test]
    fn one_rank_is_one_case_whatever_the_strategy() {
        let plan = plan(&[("model", "mlp"), ("strategy", "data,tensor,pipeline"), ("ranks", "1,2")]);
        let wanted = [(1, "data"), (2, "data"), (2, "tensor"), (2, "pipeline")];
        assert_eq!(described(&plan), wanted.map(|(ranks, strategy)| (ranks, strategy.to_owned())));
        assert_eq!(
            plan.notes,
            ["1 rank is measured once, as `data`: tensor and pipeline would compute the same".to_owned()]
        );
    }

    #[test]
    fn what_differs_in_more_than_the_strategy_stays() {
        let two = plan(&[("model", "mlp"), ("strategy", "data,tensor"), ("ranks", "1"), ("batch", "2,4")]);
        assert_eq!(two.cases.len(), 2, "{:?}", described(&two));
        assert_eq!(two.notes.len(), 1, "{:?}", two.notes);
        let one = plan(&[("model", "mlp"), ("strategy", "tensor"), ("ranks", "1,2")]);
        assert_eq!((one.cases.len(), one.notes.len()), (2, 0));
    }
}
