//! Which cases PyTorch's ranks take, and that they fill operands with the same numbers.

use device::{Region, Slice};
use measure::WrongReport;
use record::Plan;
use serde_json::json;
use terms::Dtype;

use super::super::about::{ABOUT, complete};
use super::super::attention::Attention;
use super::super::pattern::{Comparison, Pattern, Picture, elements, elements_mut};
use super::super::words::Drawn;
use super::*;
use crate::facts::facts;

fn plan(flags: &[(&str, &str)]) -> Result<Plan, String> {
    let mut plan = record::plan::from_flags(&ABOUT, flags, &[]).map_err(|error| error.to_string())?;
    complete(&mut plan);
    Ok(plan)
}

const TORCH: (&str, &str) = ("runtime", "pytorch");

#[test]
fn each_runtime_has_its_own_implementations() {
    let cases = plan(&[("primitive", "tp_columnwise"), ("runtime", "native,pytorch")]).unwrap().cases;
    let of = |backend: &str| -> Vec<&str> {
        let all = cases.iter().filter(|case| case.text("backend") == Some(backend));
        all.map(|case| case.text("implementation").unwrap_or_default()).collect()
    };
    assert_eq!(of("shm").len(), 11);
    assert!(of("shm").iter().all(|text| !text.starts_with("jax")));
    let ours = [
        "compute_only:size=sharded",
        "compute_only:size=unsharded",
        "communication_only:order=AG_before",
        "communication_only:order=AG_after",
        "sequential:order=AG_before",
        "sequential:order=AG_after",
        "async_tp:order=AG_before",
        "transformer_engine:order=AG_before",
        "jax:order=AG_before",
        "jax:order=AG_after",
    ];
    assert_eq!(of("gloo"), ours);
    // The same work: only who does it differs.
    let pair = |backend: &str| {
        let of = |case: &&Case| {
            case.text("backend") == Some(backend) && case.text("implementation") == Some("sequential:order=AG_after")
        };
        let mut case = cases.iter().find(of).unwrap().clone();
        for name in ["runtime", "backend", "bind"] {
            case.parameters.shift_remove(name);
        }
        case.parameters
    };
    assert_eq!(pair("shm"), pair("gloo"));
}

#[test]
fn what_a_runtime_lacks_is_refused_with_what_it_has() {
    let refused = |flags: &[(&str, &str)], said: &[&str]| {
        let why = plan(&[&[("primitive", "tp_columnwise")], flags].concat()).unwrap_err();
        assert!(said.iter().all(|said| why.contains(said)), "{flags:?}: {why}");
    };
    let ours = "valid values: all, compute_only, communication_only, sequential, async_tp, transformer_engine, jax";
    refused(&[TORCH, ("implementation", "fused")], &["runtime `pytorch` has no implementation `fused`", ours]);
    let native = "valid values: all, compute_only, communication_only, dispatch_only, combine_only, sequential, pipelined, fused";
    refused(&[("implementation", "jax")], &["runtime `native` has no implementation `jax`", native]);
    refused(&[("device", "cuda"), ("progress_thread", "true")], &["`progress_thread` supports host memory only"]);
    refused(&[("device", "cuda"), ("pace_bandwidth", "1GB/s")], &["links for host memory only"]);
    refused(&[TORCH, ("backend", "shm")], &["runtime `pytorch` has no backend `shm`"]);
    refused(&[TORCH, ("pace_bandwidth", "1GB/s")], &["`pace_bandwidth` is for runtime `native`"]);
    refused(&[TORCH, ("implementation", "async_tp:order=AG_after")], &["valid values: order=AG_before"]);
    let why = plan(&[("primitive", "cp_ring"), TORCH, ("implementation", "jax")]).unwrap_err();
    assert!(why.contains("not cp_ring"), "{why}");
    let skip = |flags: &[(&str, &str)]| {
        let flags = [&[("primitive", "tp_rowwise"), TORCH, ("implementation", "sequential")], flags].concat();
        plan(&flags).unwrap().cases[0].skip.clone().unwrap_or_default()
    };
    assert!(skip(&[("backend", "nccl")]).contains("moves GPU memory only"));
    assert!(skip(&[("bind", "core"), ("threads", "2")]).contains("`bind: none`"));
    assert_eq!(skip(&[("backend", "ucc/tl/cuda"), ("device", "cuda")]), "", "a torch tells what it has");
}

#[test]
fn the_recipe_leaves_nothing_open() {
    let recipe =
        |flags: &[(&str, &str)]| plan(&[flags, &[TORCH]].concat()).unwrap().cases[0].settings["recipe"].clone();
    let sizes = [("m", "24"), ("n", "5"), ("k", "6"), ("ranks", "3")];
    let one = recipe(
        &[&sizes[..], &[("primitive", "dp_all_reduce"), ("implementation", "compute_only:size=unsharded")]].concat(),
    );
    // The whole problem on each rank: the depth of all ranks.
    assert_eq!((&one["k"], &one["ranks"], &one["scheme"]), (&18.into(), &1.into(), &"reduce_last".into()), "{one}");
    let skewed = [("primitive", "ep_all_to_all"), ("tokens", "skewed"), ("implementation", "sequential")];
    let one = recipe(&[&sizes[..], &skewed].concat());
    assert_eq!((&one["tokens"], &one["operation"]), (&json!([4, 2, 2]), &"all_to_allv".into()), "{one}");
}

fn slice(elements: usize) -> Slice {
    Region::host(elements * 4).unwrap().whole()
}

fn numbers(slice: &Slice) -> Vec<f64> {
    // SAFETY: this test's own buffer.
    unsafe { elements::<f32>(slice) }.iter().map(|number| f64::from(*number)).collect()
}

fn product(seed: u64, depth: usize, block: usize, narrow: bool, refills: usize) -> Vec<Vec<f64>> {
    let mut pattern = Pattern::new(seed, depth, block, if narrow { Dtype::Bf16 } else { Dtype::F32 }, Drawn::Exact);
    (0..refills).for_each(|_| pattern.displace());
    let [a, b, c] = [5 * 20, 20 * 7, 5 * 7].map(slice);
    pattern.rows(40..45, 3, 20).fill(&a, Dtype::F32);
    pattern.columns(3, 20, 7, 2).fill(&b, Dtype::F32);
    let table = pattern.table(3, depth);
    pattern.product((40..45).map(|row| (row, 2)), 7, (0, &table)).fill(&c, Dtype::F32);
    [a, b, c].iter().map(numbers).collect()
}

/// A case of `dp_all_reduce` or `tp_rowwise` on one of many ranks: sizes `[m, n, k]`, ranks, the rank.
type Summed = (&'static str, &'static str, [usize; 3], usize, usize);

/// Operands of a rank, its own products and its rows of the result, after a refill.
fn summed((primitive, dtype, [m, n, k], ranks, rank): Summed) -> Vec<Vec<f64>> {
    let flags = [("primitive", primitive), ("dtype", dtype), ("implementation", "sequential")];
    let case = plan(&flags).unwrap().cases.remove(0);
    let task = super::super::resolve::task(&case, &PrimitiveFields::of(&case).unwrap()).unwrap();
    let task = Task { m, n, k, ranks, rank, ..task };
    let (mut pattern, [whole, part]) = Pattern::for_task(&task);
    pattern.displace();
    let (begin, depth) = (task.depth_begin(rank), task.depth());
    let rows = if task.scheme == Scheme::ScatterLast { rank * task.rows()..(rank + 1) * task.rows() } else { 0..m };
    let all = |picture: Picture<'_>, count: usize| -> Vec<f64> { (0..count).map(|index| picture.at(index)).collect() };
    let len = rows.len() * n;
    vec![
        all(pattern.rows(0..m, begin, depth), m * depth),
        all(pattern.columns(begin, depth, n, rank), depth * n),
        all(pattern.product((0..m).map(|row| (row, rank)), n, (1, &part)), m * n),
        all(pattern.product(rows.map(|row| (row, 0)), n, (0, &whole)), len),
    ]
}

#[test]
fn the_packages_operands_and_sums_on_many_ranks_are_ours() {
    let cases: [Summed; 4] = [
        ("tp_rowwise", "bf16", [24, 5, 6 * 1300], 6, 2),
        ("dp_all_reduce", "bf16", [9, 4, 250], 64, 63),
        ("dp_all_reduce", "f16", [9, 4, 251], 300, 270),
        ("dp_all_reduce", "f32", [9, 4, 502], 3, 1),
    ];
    let Some(theirs) = facts("sums of the Python package", "operands.py", &json!({"summed": cases})) else { return };
    for (case, theirs) in cases.into_iter().zip(theirs["summed"].as_array().unwrap()) {
        assert_eq!(&json!(summed(case)), theirs, "{case:?}");
    }
}

#[test]
fn the_packages_operands_and_results_are_ours() {
    let products =
        [(1, 24, 144, false, 1), (7, 1024, 502, false, 3), (3, 5000, 251, true, 0), (9, 1 << 20, 64, false, 2)];
    let attention = (600, 2, 16, 3, 1);
    let wanted = json!({"products": products, "attention": attention});
    let Some(theirs) = facts("operands of the Python package", "operands.py", &wanted) else { return };
    for ((seed, depth, block, narrow, refills), theirs) in
        products.into_iter().zip(theirs["products"].as_array().unwrap())
    {
        assert_eq!(&json!(product(seed, depth, block, narrow, refills)), theirs, "{seed} {depth}");
    }
    let (m, n, k, ranks, rank) = attention;
    let case = plan(&[("primitive", "cp_ring"), ("m", "600"), ("n", "2"), ("k", "16"), ("ranks", "3")]).unwrap();
    let fields = PrimitiveFields::of(&case.cases[0]).unwrap();
    let task = Task { rank, ..super::super::resolve::task(&case.cases[0], &fields).unwrap() };
    assert_eq!((task.m, task.n, task.k, task.ranks), (m, n, k, ranks));
    let mut ours = Attention::new(&task).unwrap();
    ours.displace();
    let [panel, queries, output] = [2, 1, 1].map(|sides| slice(sides * n * (m / ranks) * k));
    ours.fill_panel(&panel);
    ours.fill_queries(&queries);
    assert_eq!(json!([numbers(&panel), numbers(&queries)]), json!([theirs["attention"][0], theirs["attention"][1]]));
    // SAFETY: this test's own buffer.
    let held = unsafe { elements_mut::<f32>(&output) };
    for (to, from) in held.iter_mut().zip(theirs["attention"][2].as_array().unwrap()) {
        *to = from.as_f64().unwrap() as f32;
    }
    let compare = || {
        let mut report = WrongReport::default();
        ours.compare(&output, &mut Comparison { rank: 1, report: &mut report });
        (report.compared, report.count)
    };
    assert_eq!(compare(), ((n * m / ranks * k) as u64, 0));
    held[7] += 0.01;
    assert_eq!(compare().1, 1, "a changed element is seen");
}
