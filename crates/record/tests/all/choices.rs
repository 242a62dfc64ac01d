//! Choices: variants with options of their own.

use record::{Plan, plan};
use serde_json::json;

use crate::table::{TABLE, pairs};

fn read(ways: &str) -> Result<Plan, String> {
    let text =
        format!("experiment: x\ncases:\n  - {{benchmark: collective, op: all_reduce, bytes: 1KiB, way: {ways}}}\n");
    plan::read(&text, "plan.yaml", &TABLE, &[]).map_err(|errors| errors.to_string())
}

fn ways(plan: &Plan) -> Vec<&str> {
    plan.cases.iter().map(|case| case.text("way").unwrap()).collect()
}

#[test]
fn options_of_a_variant_multiply_and_have_one_spelling() {
    let plan = read("[plain, {pipelined: {chunks: [4, 8], algorithm: [ring, tree]}}]").unwrap();
    let expected = [
        "plain",
        "pipelined:algorithm=ring,chunks=4",
        "pipelined:algorithm=ring,chunks=8",
        "pipelined:algorithm=tree,chunks=4",
        "pipelined:algorithm=tree,chunks=8",
    ];
    assert_eq!(ways(&plan), expected);
    // However it is written, it is the same case: a default that is not given, order, mapping or text.
    let ids = |ways: &str| read(ways).unwrap().cases.into_iter().map(|case| case.id).collect::<Vec<_>>();
    let one = ids("'pipelined:chunks=4,algorithm=ring'");
    assert_eq!(ids("{pipelined: {chunks: 4}}"), one);
    assert_eq!(ids("'Pipelined:chunks=4'"), one);
    assert_eq!(ids("{plain: }"), ids("plain"));
}

#[test]
fn a_flag_lists_variants_with_their_options() {
    let flags =
        pairs(&[("op", "all_reduce"), ("bytes", "1KiB"), ("way", "plain,pipelined:chunks=4,algorithm=tree,plain")]);
    let plan = plan::from_flags(TABLE[0], &flags, &[]).unwrap();
    assert_eq!(ways(&plan), ["plain", "pipelined:algorithm=tree,chunks=4"]);
    let (variant, options) = plan::chosen(TABLE[0].field("way").unwrap(), plan.cases[1].text("way").unwrap()).unwrap();
    assert_eq!((variant.name, json!(options)), ("pipelined", json!({"algorithm": "tree", "chunks": 4})));
}

#[test]
fn what_a_variant_does_not_take_is_refused_where_it_stands() {
    for (written, said) in [
        ("pipeline", "did you mean `pipelined`?"),
        ("{pipelined: {chunk: 4}}", "did you mean `chunks`?"),
        ("{plain: {chunks: 4}}", "`plain` of `way` has no option `chunks`"),
        ("{pipelined: {chunks: 65}}", "must be a whole number from 1 to 64"),
        ("'pipelined:chunks'", "is not an option=value"),
        ("{pipelined: {chunks: 4}, plain: }", "one variant in each entry"),
        ("{pipelined: [4]}", "options as a mapping"),
        ("{pipelined: {chunks: []}}", "option `chunks` has no value"),
        ("'pipelined:chunks=4,chunks=8'", "option `chunks` is given twice"),
    ] {
        let error = read(written).unwrap_err();
        assert!(error.contains(said) && error.contains("plan.yaml:3"), "{written}: {error}");
    }
}
