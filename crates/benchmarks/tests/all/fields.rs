//! Fields that every benchmark takes, in the benchmarks that declare them.

use std::collections::HashSet;

use benchmarks::fields::TRIALS;
use record::Case;
use serde_json::Value;

fn cases(entry: &str) -> Result<Vec<Case>, String> {
    let text = format!("experiment: fields\ncases:\n  - {{benchmark: collective, {entry}}}\n");
    let plan = record::plan::read(&text, "plan.yaml", &benchmarks::abouts(), &[]);
    plan.map(|plan| plan.cases).map_err(|errors| errors.to_string())
}

/// What NCCL may choose from: algorithms, protocols.
const CHOICES: [&str; 2] = ["nccl_algo", "nccl_proto"];

fn choices(cases: &[Case]) -> Vec<[&str; 2]> {
    cases.iter().map(|case| CHOICES.map(|field| case.text(field).unwrap_or_default())).collect()
}

/// Crates that know no benchmark read them of any case.
#[test]
fn a_field_that_benchmarks_share_is_of_one_kind() {
    let kinds_of = |name: &'static str| {
        let declared = benchmarks::abouts().into_iter().flat_map(record::About::all_fields);
        declared.filter(move |field| field.name == name).map(|field| field.kind.name())
    };
    for name in record::SHARED_FIELDS {
        let kinds: HashSet<&str> = kinds_of(name).collect();
        // Many words are a text, and read alike.
        let kinds: HashSet<&str> = kinds.into_iter().map(|kind| if kind == "word" { "text" } else { kind }).collect();
        assert_eq!(kinds.len(), 1, "{name}: {kinds:?}");
    }
}

/// Help and pages promise how many trials a case takes.
#[test]
fn the_promised_number_of_trials_is_the_rules() {
    let [fewest, most] = [stats::FEWEST_TRIALS, stats::MOST_TRIALS];
    assert!(TRIALS.doc.contains(&format!("(default: {fewest} to {most};")), "{}", TRIALS.doc);
    let page = include_str!("../../../../docs/explanation/trials.md");
    assert!(page.contains(&format!("{most} trials. A case also ends")), "docs/explanation/trials.md");
}

#[test]
fn an_environment_is_names_with_values() {
    let kept = |entry: &str| cases(entry).map(|cases| cases[0].texts("env"));
    assert_eq!(kept("env: [A_1=x=y, _B=]"), Ok(vec!["A_1=x=y".to_owned(), "_B=".to_owned()]));
    for wrong in ["NOEQUALS", "=value"] {
        let why = kept(&format!("env: [A=1, {wrong}]")).unwrap_err();
        assert!(why.contains(&format!("`env` takes NAME=value, not `{wrong}`")), "{why}");
        assert!(why.contains("--env NCCL_DEBUG=INFO"), "{why}");
    }
    let why = kept("env: [PMIX_SECURITY_KEY=x]").unwrap_err();
    assert!(why.contains("would put a secret into the record"), "{why}");
}

#[test]
fn choices_of_nccl_multiply_and_each_has_its_world() {
    let cases = cases("backend: nccl, nccl: {algo: [ring, 'Tree,nvls'], proto: [LL, ^ll128]}").unwrap();
    let expected = [["Ring", "LL"], ["Ring", "^LL128"], ["Tree,NVLS", "LL"], ["Tree,NVLS", "^LL128"]];
    assert_eq!(choices(&cases), expected);
    for name in CHOICES {
        assert!(cases.iter().all(|case| case.world.get(name) == case.parameters.get(name)), "{name}");
    }
    let worlds: HashSet<String> = cases.iter().map(|case| Value::from(case.world.to_map()).to_string()).collect();
    let identities: HashSet<&String> = cases.iter().map(|case| &case.id).collect();
    assert_eq!((worlds.len(), identities.len()), (4, 4));
}

#[test]
fn choices_of_nccl_are_flags_have_one_spelling_and_are_absent_otherwise() {
    let flags = |fields: &[(&str, &str)]| record::plan::from_flags(benchmarks::abouts()[0], fields, &[]).unwrap().cases;
    let two = flags(&[("backend", "nccl"), ("nccl-algo", "Ring,allreduce:tree"), ("nccl-proto", "simple")]);
    assert_eq!(choices(&two), [["Ring", "Simple"], ["AllReduce:Tree", "Simple"]]);
    assert_eq!(choices(&flags(&[("backend", "nccl"), ("nccl_algo", "ring,RING")])), [["Ring", ""]], "one case");
    let plain = flags(&[("backend", "nccl")]);
    assert!(CHOICES.iter().all(|field| plain[0].value(field).is_none() && !plain[0].world.contains_key(field)));
}

#[test]
fn choices_of_nccl_are_for_nccl_of_any_runtime_and_are_said_once() {
    let torch = "runtime: pytorch, backend: nccl, nccl: {algo: Tree}, env: [NCCL_DEBUG=INFO]";
    assert_eq!(choices(&cases(torch).unwrap()), [["Tree", ""]]);
    for (entry, said) in [
        ("backend: shm, nccl: {algo: Ring}", "`nccl_algo` is for the backend `nccl`"),
        ("backend: mpi, nccl: {proto: LL}", "`nccl_proto` is for the backend `nccl`"),
        ("backend: gloo, nccl: {proto: LL}", "`nccl_proto` is for the backend `nccl`"),
        ("backend: nccl, nccl: {algo: Rings}", "did you mean `Ring`?"),
        ("backend: nccl, nccl: {proto: Ring}", "`env: [NCCL_PROTO=...]`"),
        ("backend: nccl, nccl: {proto: LL}, env: [A=1, NCCL_PROTO=LL]", "`nccl_proto` and `env` both set NCCL_PROTO"),
    ] {
        let why = cases(entry).unwrap_err();
        assert!(why.contains(said), "{entry}: {why}");
    }
}
