//! Configurations of other tools on this machine: what their readers learn about it, and what flags do to the plan.

use import::{ForeignPlan, Format, Here, Source};
use measure::machine;
use terms::Kind;

use crate::read::Surroundings;

/// The file with what its reader may ask of this machine and of the user. Torch is looked for only where the format asks for
/// it: importing it takes seconds.
pub fn here(source: Source, format: &dyn Format, overrides: &[(String, String)], around: &Surroundings<'_>) -> Source {
    let of = |name: &str| overrides.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let torch = || match of("runtime") {
        Some(runtime) if !runtime.split(',').any(|word| terms::normalize(word) == "pytorch") => {
            Err(format!("`runtime: {runtime}` is asked for"))
        }
        _ => survey::torch(of("python"), &(around.search_path)())
            .map(|torch| torch.version)
            .map_err(|why| format!("torch was not found: {why}; `--python PATH` names a Python that has it")),
    };
    let here = Here {
        torch: format.uses_torch().then(torch),
        gpus: machine::gpus(),
        memory: device::available_memory(),
        hosts: around.coordinator.map_or(1, |coordinator| coordinator.hosts().len()),
        models: models(),
        parameters: Some(benchmarks::parameters),
    };
    let launched = around.coordinator.map(|coordinator| coordinator.size().to_string());
    let ranks = of("ranks").map(str::to_owned).or(launched);
    let given = [
        ("ranks", ranks),
        ("model", of("model").map(str::to_owned)),
        ("strategy", of("strategy").map(str::to_owned)),
        ("batch", of("batch").map(str::to_owned)),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name, value?))).fold(source.on(here), |source, (name, value)| {
        if source.given(name).is_some() { source } else { source.with_given(name, value) }
    })
}

/// The models, by the words that the field takes.
fn models() -> Vec<&'static str> {
    let abouts = benchmarks::abouts();
    let fields = abouts.iter().flat_map(|about| about.all_fields());
    let words = fields.filter(|field| field.name == "model").find_map(|field| match field.kind {
        Kind::Word(words) => Some(words()),
        _ => None,
    });
    words.unwrap_or_default()
}

/// What is still to be set in the plan of a configuration: not what its reader has put there already.
pub(crate) fn left(plan: &ForeignPlan, overrides: &[(String, String)]) -> Vec<(String, String)> {
    overrides.iter().filter(|(name, _)| !plan.used.contains(name)).cloned().collect()
}

/// `iters` as steps, too: other tools have one number of iterations for everything, and a step is one. What no case takes is
/// left out, so that it does not count as a mistake.
pub fn with_steps(overrides: &mut Vec<(String, String)>, takes: impl Fn(&str) -> bool) {
    let of = |name: &str| overrides.iter().find(|(given, _)| given == name).cloned();
    let Some((_, iterations)) = of("iters").filter(|_| takes("steps")) else { return };
    if of("steps").is_none() {
        overrides.push(("steps".to_owned(), iterations));
    }
    overrides.retain(|(name, _)| name != "iters" || takes("iters"));
}

/// Whether a benchmark of these cases has a field of this name.
pub fn takes(cases: &[record::Case], name: &str) -> bool {
    let has = |case: &record::Case| benchmarks::benchmark(&case.benchmark)?.about().field(name);
    cases.iter().any(|case| has(case).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_steps_unless_steps_are_given() {
        let pairs =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        let mut all = pairs(&[("iters", "3")]);
        with_steps(&mut all, |_| true);
        assert_eq!(all, pairs(&[("iters", "3"), ("steps", "3")]));
        let mut all = pairs(&[("iters", "3"), ("steps", "5")]);
        with_steps(&mut all, |_| true);
        assert_eq!(all, pairs(&[("iters", "3"), ("steps", "5")]));
        let mut all = pairs(&[("iters", "3")]);
        with_steps(&mut all, |name| name == "steps");
        assert_eq!(all, pairs(&[("steps", "3")]));
        let mut all = pairs(&[("iters", "3")]);
        with_steps(&mut all, |name| name == "iters");
        assert_eq!(all, pairs(&[("iters", "3")]));
        let plan = ForeignPlan { used: vec!["model".to_owned()], ..ForeignPlan::default() };
        assert_eq!(left(&plan, &pairs(&[("model", "a"), ("width", "2")])), pairs(&[("width", "2")]));
        assert!(models().contains(&"gpt2"));
    }
}
