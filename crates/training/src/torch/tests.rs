//! Cases of PyTorch ranks: what is skipped and refused, what they are sent, and how their models compare with the catalog.

use contract::Benchmark;
use model::{CATALOG, initial_f64};
use record::Plan;
use serde_json::{Value, json};

use super::*;
use crate::facts::facts;
use crate::{MemoryBenchmark, TrainingBenchmark};

fn planned(about: &'static record::About, fields: &[(&str, &str)]) -> Result<Plan, String> {
    record::plan::from_flags(about, fields, &[]).map_err(|errors| errors.to_string())
}

fn plan(fields: &[(&str, &str)]) -> Result<Plan, String> {
    planned(TrainingBenchmark.about(), fields)
}

/// Why a case of PyTorch's ranks is skipped; empty where it runs.
#[track_caller]
fn skip(fields: &[(&str, &str)]) -> String {
    let all: Vec<_> = [("runtime", "pytorch")].iter().chain(fields).copied().collect();
    plan(&all).unwrap().cases[0].skip.clone().unwrap_or_default()
}

#[test]
fn both_runtimes_are_cases_of_one_plan() {
    let plan = plan(&[("runtime", "native,pytorch"), ("python", "python3"), ("ranks", "2"), ("compile", "true")]);
    let plan = plan.unwrap();
    let about = |case: &Case| {
        let text = |name: &str| case.text(name).unwrap_or("-").to_owned();
        (text("runtime"), text("backend"), text("bind"), case.flag("compile"), case.world.get("backend").cloned())
    };
    let row = |runtime: &str, backend: &str, bind: &str, compile| {
        (runtime.to_owned(), backend.to_owned(), bind.to_owned(), compile, Some(Value::from(backend)))
    };
    let found: Vec<_> = plan.cases.iter().map(about).collect();
    assert_eq!(found, [row("-", "shm", "-", false), row("pytorch", "gloo", "none", true)]);
    assert!(!plan.cases[0].settings.contains_key("recipe"), "native ranks resolve for themselves");
    assert_eq!(plan.cases[1].world["threads"], 1);
}

#[test]
fn a_named_native_runtime_is_the_same_case() {
    let id = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].id.clone();
    assert_eq!(id(&[]), id(&[("runtime", "native"), ("backend", "shm")]));
    assert_eq!(id(&[("backend", "gloo")]), id(&[("runtime", "pytorch")]));
    assert_ne!(id(&[]), id(&[("runtime", "pytorch")]));
}

#[test]
fn the_recipe_leaves_nothing_open() {
    let fields = [("runtime", "pytorch"), ("ranks", "2"), ("model", "llama-tiny"), ("tied", "false"), ("batch", "6")];
    let more = [("accumulate", "3"), ("bucket", "1MiB"), ("static_graph", "true"), ("sequence", "32")];
    let plan = plan(&[fields.as_slice(), &more].concat()).unwrap();
    assert_eq!(
        plan.cases[0].settings["recipe"],
        json!({
            "model": "llama-tiny",
            "dimensions": {
                "layers": 4.0, "width": 256.0, "heads": 8.0, "kv_heads": 4.0, "ffn": 1024.0, "vocabulary": 4096.0,
                "sequence": 32.0, "tied": 0.0, "dropout": 0.0,
            },
            "precision": "f32", "micro_batch": 2, "micro_batches": 3, "sharded": 0, "bucket": 1 << 20,
            "communicate": true, "clip": null, "synchronised": true, "seed": 1, "optimizer": "adamw",
            "learning_rate": 3e-4, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01, "gradient_as_bucket_view": false,
            "static_graph": true, "compile": false,
        })
    );
}

#[test]
fn what_torch_does_not_do_is_skipped_with_the_reason() {
    let two = ("ranks", "2");
    for (fields, said) in [
        (vec![two, ("strategy", "tensor")], "strategy `data` only"),
        (vec![two, ("strategy", "pipeline")], "strategy `data` only"),
        (vec![("dropout", "10%")], "another order"),
        (vec![("precision", "f16")], "f32, bf16 and f64"),
        (vec![("recompute", "true")], "do not recompute"),
        (vec![two, ("load_balance", "measured"), ("accumulate", "4")], "the same number of micro-batches"),
        (vec![two, ("sharded", "1")], "support `sharded` 0 (nothing), 2 (optimizer and gradients)"),
        (vec![two, ("overlap", "false")], "overlaps the exchange"),
        (vec![two, ("sharded", "3"), ("communicate", "false")], "cannot leave out its exchanges"),
        (vec![two, ("model", "resnet18"), ("image", "32")], "SyncBatchNorm runs on GPUs only"),
        (
            vec![two, ("model", "resnet18"), ("image", "32"), ("device", "cuda"), ("sharded", "3")],
            "synchronise batch norm with `sharded: 0` only",
        ),
        (vec![("bind", "core"), ("threads", "2")], "share the one core"),
        (vec![("backend", "nccl")], "moves GPU memory only"),
    ] {
        let reason = skip(&fields);
        assert!(reason.contains(said), "{fields:?}: `{reason}`");
    }
    for fields in [
        vec![],
        vec![two, ("strategy", "hybrid"), ("mesh", "2x1x1")],
        vec![("dropout", "0")],
        vec![("model", "resnet18"), ("image", "32")],
        vec![two, ("model", "resnet18"), ("image", "32"), ("synchronised", "false")],
        vec![two, ("overlap", "false"), ("communicate", "false")],
        vec![two, ("sharded", "2")],
        vec![two, ("model", "resnet18"), ("image", "32"), ("device", "cuda")],
        vec![("bind", "core")],
    ] {
        assert_eq!(skip(&fields), "", "{fields:?}");
    }
}

#[test]
fn fields_of_the_other_runtime_are_refused() {
    for (fields, said) in [
        ([("backend", "shm"), ("compile", "true")], "`compile` is for runtime `pytorch`"),
        ([("ranks", "2"), ("static_graph", "false")], "`static_graph` is for runtime `pytorch`"),
        ([("backend", "shm"), ("python", "python3")], "`python` is for runtime `pytorch`"),
        ([("runtime", "pytorch"), ("pace_bandwidth", "1GB/s")], "`pace_bandwidth` is for runtime `native`"),
        ([("runtime", "native"), ("backend", "gloo")], "runtime `native` has no backend `gloo`"),
    ] {
        let error = plan(&fields).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let error = planned(MemoryBenchmark.about(), &[("backend", "gloo")]).unwrap_err();
    assert!(error.contains("native ranks, but `gloo` is a backend of PyTorch ranks"), "{error}");
}

#[test]
fn bf16_by_autocast_is_marked() {
    let caveats = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].caveats.clone();
    assert_eq!(caveats(&[("runtime", "pytorch"), ("precision", "bf16")]), [Caveat::Autocast]);
    assert_eq!(caveats(&[("precision", "bf16")]), []);
    assert_eq!(caveats(&[("runtime", "pytorch")]), []);
}

/// Every model of the catalog, and what changes a graph: names, shapes and first values of all parameters.
#[test]
fn models_of_the_package_are_those_of_the_catalog() {
    const SEED: u64 = 7;
    let untied = [("llama-tiny".to_owned(), vec![("tied".to_owned(), 0.0)])];
    let every = CATALOG.iter().map(|entry| (entry.name.to_owned(), Vec::new()));
    let wanted: Vec<_> = every.chain(untied).collect();
    let resolved = |(name, given): &(String, Vec<(String, f64)>)| {
        let dimensions = model::entry(name).unwrap().resolved(given).unwrap();
        json!([name, dimensions.into_iter().collect::<std::collections::BTreeMap<_, _>>(), SEED])
    };
    let asked: Value = wanted.iter().map(resolved).collect();
    let Some(theirs) = facts("models of the Python package", "shapes.py", &asked) else { return };
    let theirs = theirs.as_array().unwrap();
    assert_eq!(theirs.len(), wanted.len());
    for (theirs, (name, given)) in theirs.iter().zip(&wanted) {
        let mut ours = model::model(name, given).unwrap().parameters();
        ours.sort_by(|a, b| a.name.cmp(&b.name));
        let mut theirs: Vec<&Value> = theirs.as_array().unwrap().iter().collect();
        theirs.sort_by_key(|parameter| parameter["name"].as_str());
        let names =
            |all: &[&Value]| all.iter().map(|each| each["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&theirs), ours.iter().map(|each| each.name.clone()).collect::<Vec<_>>(), "{name}");
        for (theirs, ours) in theirs.iter().zip(&ours) {
            // A convolution of ours may be written as the matrix that it is: the numbers are the same in order.
            let size = |shape: &Value| shape.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product::<u64>();
            assert_eq!(size(&theirs["shape"]), ours.len() as u64, "{name}: {}", ours.name);
            let first = theirs["first"].as_array().unwrap();
            let mut values = vec![0.0; first.len()];
            initial_f64(ours, SEED, 0, &mut values);
            let bits: Vec<Value> = values.iter().map(|value| Value::from(value.to_bits())).collect();
            assert_eq!(*first, bits, "{name}: {}", ours.name);
        }
    }
}
