//! What the benchmark declares: its entry, metrics, and which combinations of fields make sense.

use contract::fields::{Execution, Sampling, Supports, World, problem};
use record::{About, Case, Command, Plan, Sweep, WriteFields as _};
use serde_json::Value;
use terms::{Dtype, FieldError, Mode};

use super::fields::PrimitiveFields;
use super::implementation::CHUNKS;
use super::implementations::{self, ALL};
use super::pattern::PERIODS;
use super::resolve::{chosen, task};
use super::task::{Options, Scheme, whole};
use super::words::Primitive;
use super::{declared, gpus, routed, torch};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "primitive",
    doc: "a matrix product and the collective that a parallel model needs with it: does overlap pay?",
    fields: &[PrimitiveFields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: declared::METRICS,
    check,
    command: Some(Command {
        name: "primitive",
        doc: "Measures a matrix product with its collective, and each way to overlap the two",
        argument: "primitive",
        examples: &[
            ("tp_columnwise", "each implementation"),
            ("tp_rowwise -m 8192 -n 64,1024", "these sizes"),
            ("tp_rowwise --implementation fused", "one implementation"),
            ("tp_columnwise --runtime native,pytorch", "compared with PyTorch"),
            ("tp_rowwise --device cuda --ranks 8 --dtype bf16", "on GPUs"),
            ("ep_all_to_all --experts 16 --top-k 2 --tokens zipf", "several experts"),
            ("tp_columnwise --pace-bandwidth 250MB/s --progress-thread", "on a slower link"),
        ],
        notes: "An implementation takes options behind a colon: pipelined:order=AG_after,chunks=8. In a plan, lists of \
                options multiply. docs/how-to/primitives.md explains each column.",
        sweep: Some(Sweep { field: "n", values: "16,64,256,1024", unless: ("primitive", "cp_ring") }),
    }),
    show: super::show::show,
};

fn check(case: &mut Case) -> Result<(), FieldError> {
    let given = PrimitiveFields::of(case)?;
    let mut fields = given.clone();
    fill_sizes(&mut fields);
    routed::resolve_routing(&mut fields, case)?;
    gpus::resolve(case)?;
    if contract::is_simulated(case) {
        let message = "a primitive computes, but a simulated backend does not model computation";
        return Err(problem("backend", message, "`backend: shm`"));
    }
    if fields.mode != Mode::Streaming && fields.primitive == Primitive::CpRing {
        return Err(problem("mode", "cp_ring is measured back to back", "`mode: streaming`"));
    }
    fields.compute_s = contract::fields::chain_compute(fields.mode, fields.compute_s)?;
    let (name, mut options) = chosen(&fields.implementation)?;
    let implementation = implementations::named(name);
    if let Some(implementation) = implementation {
        torch::check_implementation(case, implementation)?;
        (implementation.resolve_options)(fields.primitive, &mut options)?;
        fields.implementation = written(name, &options);
    }
    fields.write(&given, case);
    // Of all ways, what none allows is refused here; what some do not allow, skips these.
    check_sizes(case, &options)?;
    gpus::check(case, implementation.map(|_| name))?;
    if name == implementations::fused::VARIANT.name && World::of(case)?.pace_bandwidth.is_some() {
        case.skip = Some("fused reads other ranks' memory directly, so a paced link would not slow it down".to_owned());
    }
    if name == implementations::fused::VARIANT.name && routed::is_routed(&fields) {
        let message = "routed tokens have no fused implementation: the tokens of an expert are not contiguous";
        return Err(problem("implementation", message, "`pipelined` overlaps them"));
    }
    contract::fields::check(case, &ABOUT, Supports::default())?;
    torch::check(case)?;
    if implementation.is_some() {
        torch::add_recipe(case)?;
    }
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

/// Sizes where the case gives none.
fn fill_sizes(fields: &mut PrimitiveFields) {
    let (n, k) = if fields.primitive == Primitive::CpRing { (8, 64) } else { (1024, 1024) };
    for (size, default) in [(&mut fields.m, 4096), (&mut fields.n, n), (&mut fields.k, k)] {
        size.get_or_insert(default);
    }
}

/// An implementation with its options, in their declared order.
fn written(name: &str, options: &Options) -> String {
    let declared = implementations::VARIANTS.iter().find(|variant| variant.name == name);
    let text = |field: &terms::Field| {
        let value = options.get(field.name)?;
        Some(format!("{}={}", field.name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    };
    let all: Vec<String> = declared.map_or_else(Vec::new, |variant| variant.options.iter().filter_map(text).collect());
    if all.is_empty() { name.to_owned() } else { format!("{name}:{}", all.join(",")) }
}

/// Refuses sizes that ranks and chunks do not divide, and names those next to them that they do.
fn check_sizes(case: &Case, options: &Options) -> Result<(), FieldError> {
    let task = task(case, &PrimitiveFields::of(case)?)?;
    let chunks = whole(options, CHUNKS.name).unwrap_or(1);
    if task.scheme == Scheme::Attention && task.dtype != Dtype::F32 {
        return Err(problem("dtype", format!("cp_ring does not support {}", task.dtype), "valid values: f32"));
    }
    let (by_chunks, ranks) = (chunks > 1, task.ranks);
    let times = |what: &str| if by_chunks { format!("{what} x chunks") } else { what.to_owned() };
    let (m, n) = match task.scheme {
        Scheme::Attention => (ranks, chunks),
        // Chunks of tokens need not be equal.
        Scheme::Exchange => (ranks, 1),
        Scheme::ReduceLast => (chunks, 1),
        _ => (ranks * chunks, 1),
    };
    let by = match task.scheme {
        Scheme::Attention | Scheme::Exchange => "ranks".to_owned(),
        Scheme::ReduceLast => "chunks".to_owned(),
        _ => times("ranks"),
    };
    routed::divides("m", task.m, m, &by)?;
    routed::divides("n", task.n, n, "chunks")?;
    routed::divides("k", task.k, if task.scheme == Scheme::ScatterLast { ranks } else { 1 }, "ranks")?;
    let sums = task.whole_depth() as u64;
    if task.scheme != Scheme::Attention && sums > 1 << 24 {
        let message = format!("sums of {sums} products have no exact result to check against");
        return Err(problem("k", message, "use at most 16777216 over all ranks"));
    }
    let depth = task.depth();
    if task.is_summed() && task.dtype.bytes() == 2 && PERIODS.iter().all(|period| depth.is_multiple_of(2 * period)) {
        let message = format!("sums of {depth} products of {} are all 0 in the data that is checked", task.dtype);
        return Err(problem("k", message, "use another `k`"));
    }
    Ok(())
}

/// Puts every way of every implementation in the place of `all`.
pub(super) fn complete(plan: &mut Plan) {
    let is_all = |case: &Case| PrimitiveFields::of(case).is_ok_and(|fields| fields.implementation == ALL);
    plan.replace_cases(ABOUT.name, |case| if is_all(&case) { ways(&case) } else { vec![case] });
}

/// The case in every way; one that its sizes do not allow is skipped with the reason.
fn ways(case: &Case) -> Vec<Case> {
    let Ok(fields) = PrimitiveFields::of(case) else { return vec![case.clone()] };
    let primitive = fields.primitive;
    let mut cases = Vec::new();
    let runtime = torch::runtime(case);
    let has_form = |name: &str| name != implementations::fused::VARIANT.name || !routed::is_routed(&fields);
    let all = implementations::IMPLEMENTATIONS.iter().filter(|each| each.runs_on(runtime) && has_form(each.name));
    for implementation in all {
        for options in (implementation.ways)(primitive) {
            let text = [implementation.name, options].join(if options.is_empty() { "" } else { ":" });
            let mut way = case.clone();
            way.parameters.insert("implementation", Value::from(text));
            if let Err(refused) = check(&mut way) {
                way.skip = Some(refused.error.on_one_line());
            }
            way.identify(&ABOUT);
            cases.push(way);
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        let mut plan = record::plan::from_flags(&ABOUT, flags, &[]).map_err(|error| error.to_string())?;
        complete(&mut plan);
        Ok(plan.cases)
    }

    fn task_of(case: &Case) -> super::super::task::Task {
        task(case, &PrimitiveFields::of(case).unwrap()).unwrap()
    }

    fn texts(flags: &[(&str, &str)]) -> Vec<String> {
        let cases = plan(flags).unwrap();
        assert!(cases.iter().all(|case| case.skip.is_none()), "{cases:?}");
        cases.iter().map(|case| case.text("implementation").unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn all_is_every_way_and_each_once() {
        let all = texts(&[("primitive", "tp_columnwise")]);
        assert_eq!(
            all,
            [
                "compute_only:size=sharded",
                "compute_only:size=unsharded",
                "communication_only:order=AG_before",
                "communication_only:order=AG_after",
                "sequential:order=AG_before",
                "sequential:order=AG_after",
                "pipelined:order=AG_before,algorithm=collective_chunks,chunks=4,offset=true",
                "pipelined:order=AG_before,algorithm=ring_p2p",
                "pipelined:order=AG_after,algorithm=collective_chunks,chunks=4",
                "fused:offset=true",
                "fused:offset=false",
            ]
        );
        assert_eq!(texts(&[("primitive", "tp_columnwise"), ("implementation", "all,sequential")]).len(), all.len());
        assert_eq!(texts(&[("primitive", "dp_all_reduce")]).len(), 5);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let refused = |flags: &[(&str, &str)], said: &str| {
            let why = plan(flags).unwrap_err();
            assert!(why.contains(said), "{flags:?}: {why}");
        };
        let implementation = |text, said: &str| refused(&[("primitive", "tp_rowwise"), ("implementation", text)], said);
        implementation("sequential:order=AG_before", "`order` is for tp_columnwise, not tp_rowwise");
        implementation("pipelined:algorithm=ring_p2p,chunks=4", "ring_p2p does not support `chunks`");
        implementation("pipelined:sizes=3", "has no option `sizes`");
        implementation("overlapped", "does not take `overlapped`");
        refused(&[("primitive", "dp_all_reduce"), ("implementation", "fused")], "no fused implementation");
        refused(
            &[("primitive", "cp_ring"), ("dtype", "bf16"), ("implementation", "sequential")],
            "cp_ring does not support bf16",
        );
        refused(&[("primitive", "tp_rowwise"), ("tokens", "skewed")], "`tokens` is for ep_all_to_all");
        refused(&[("primitive", "tp_rowwise"), ("top_k", "2")], "`top_k` is for ep_all_to_all, not tp_rowwise");
        refused(&[("primitive", "tp_rowwise"), ("implementation", "dispatch_only")], "a part of ep_all_to_all");
        refused(&[("primitive", "tp_rowwise"), ("backend", "sim")], "a simulated backend does not model computation");
        refused(&[("primitive", "tp_rowwise"), ("k", "0")], "`k` must be a whole number from 1");
        refused(&[("primitive", "dp_all_reduce"), ("dtype", "bf16"), ("k", "120982")], "of bf16 are all 0");
    }

    #[test]
    fn experts_that_mean_nothing_are_refused() {
        let refused = |flags: &[(&str, &str)], said: &str| {
            let why = plan(&[&[("primitive", "ep_all_to_all")], flags].concat()).unwrap_err();
            assert!(why.contains(said), "{flags:?}: {why}");
        };
        refused(&[("experts", "5")], "experts = 5 is not a multiple of ranks = 2");
        refused(&[("top_k", "3")], "top_k = 3 exceeds experts = 2: a token goes to different experts");
        refused(&[("m", "1001"), ("top_k", "1")], "m = 1001 is not a multiple of ranks = 2");
        refused(&[("top_k", "2"), ("k", "3")], "3 elements cannot give 4096 tokens different values");
        refused(&[("top_k", "2"), ("k", "8388608")], "have no exact result to check against");
        refused(&[("tokens", "hot:share=1.5"), ("experts", "4")], "an expert cannot get 1.5 times all tokens");
        refused(&[("tokens", "hot:share=0.1"), ("top_k", "2")], "share = 0.1 leaves");
        refused(&[("tokens", "zipf:exponent=17")], "gives all tokens to one expert");
        refused(&[("tokens", "file")], "tokens=file needs a file");
        refused(&[("tokens_file", "counts")], "these `tokens` do not read a file");
        refused(&[("tokens", "file"), ("tokens_file", "/nowhere/counts")], "No such file");
        refused(&[("tokens", "poisson")], "does not take `poisson`");
        refused(&[("top_k", "2"), ("implementation", "fused")], "routed tokens have no fused implementation");
        refused(&[("top_k", "2"), ("runtime", "pytorch")], "PyTorch ranks have one expert each");
    }

    #[test]
    fn what_gpus_alone_do_is_refused_elsewhere() {
        let refused = |flags: &[(&str, &str)], said: &str| {
            let why = plan(flags).unwrap_err();
            assert!(why.contains(said), "{flags:?}: {why}");
        };
        let cuda = ("device", "cuda");
        let alone = ("implementation", "compute_only");
        refused(&[("matmul", "tf32")], "tf32 is for products on GPUs");
        refused(&[cuda, ("matmul", "tf32"), ("dtype", "bf16")], "tf32 applies to f32 inputs; this case uses bf16");
        refused(&[cuda, ("matmul", "tf32"), ("primitive", "cp_ring")], "scores must not be rounded");
        refused(&[("tuned", "true")], "`tuned` is for native ranks on GPUs");
        refused(&[("cublas_library", "/x.so")], "`cublas_library` is for native ranks on GPUs");
        refused(&[cuda, ("threads", "2")], "products on GPUs do not use threads");
        refused(
            &[alone, ("dtype", "i8")],
            "i8 is supported only where native ranks multiply on GPUs, with `compute_only`",
        );
        refused(
            &[cuda, ("dtype", "f8e4m3"), ("implementation", "sequential")],
            "f8e4m3 is supported only where native ranks multiply",
        );
        refused(&[cuda, ("dtype", "f8e4m3"), alone, ("k", "1000")], "k = 1000 is not a multiple of the 16 of f8e4m3");
        refused(&[cuda, ("dtype", "f8e4m3"), alone, ("n", "40")], "the nearest: 32 or 48");
        refused(&[("data", "random"), alone], "random numbers are supported only where native ranks multiply on GPUs");
        refused(&[cuda, ("data", "random"), alone, ("primitive", "ep_all_to_all")], "`data: exact`");
        let large = [cuda, ("dtype", "i8"), alone, ("k", "131072"), ("m", "2"), ("n", "2")];
        refused(&[&large[..], &[("data", "random")]].concat(), "do not fit 32 bits");
        assert!(plan(&large).is_ok());
        // Of all ways, those that can are run.
        let ways = plan(&[cuda, ("dtype", "i8")]).unwrap();
        let run = ways.iter().filter(|case| case.skip.is_none()).count();
        assert_eq!((run, ways.len()), (2, 11));
    }

    #[test]
    fn native_ranks_beside_a_python_use_its_library() {
        let cases = plan(&[
            ("device", "cuda"),
            ("runtime", "native,pytorch"),
            ("python", "/opt/python3"),
            ("tuned", "true"),
            ("implementation", "compute_only"),
        ])
        .unwrap();
        let of = |case: &Case, name: &str| case.value(name).map(Value::to_string);
        assert_eq!(of(&cases[0], "cublas_library"), Some("\"/opt/python3\"".to_owned()));
        assert_eq!((of(&cases[0], "python"), of(&cases[0], "tuned")), (None, Some("true".to_owned())));
        assert_eq!((of(&cases[1], "cublas_library"), of(&cases[1], "tuned")), (None, None));
        // Who says no runtime, and names a Python, means PyTorch.
        let torch = plan(&[("device", "cuda"), ("python", "p"), ("implementation", "compute_only")]).unwrap();
        assert_eq!(torch[0].text("runtime"), Some("pytorch"));
    }

    /// Plans from before there were several experts a rank mean what they did, and their cases have their identities.
    #[test]
    fn one_expert_a_rank_and_sorted_tokens_are_what_a_case_without_experts_has() {
        let sizes = [("primitive", "ep_all_to_all"), ("tokens", "skewed"), ("m", "42"), ("ranks", "3"), ("k", "8")];
        let of =
            |more: &[(&str, &str)]| plan(&[&sizes[..], more, &[("implementation", "sequential")]].concat()).unwrap();
        let plain = of(&[]).remove(0);
        let names: Vec<&str> = plain.parameters.iter().map(|(name, _)| name).collect();
        assert_eq!(names[..8], ["primitive", "m", "n", "k", "implementation", "tokens", "dtype", "ranks"], "{names:?}");
        let task = task_of(&plain);
        let counts = |rank: usize| [0, 1, 2].map(|expert| task.routing.places(rank, expert).len());
        assert_eq!([0, 1, 2].map(counts), [[8, 4, 2]; 3]);
        let elements = [14 * 8, 8 * 1024, (24 + 14) * 8, (24 + 14) * 1024, 14 * 1024];
        assert_eq!((task.elements(), task.routing.is_sorted), (elements, true));
        // With them, tokens are routed.
        let routed = of(&[("experts", "3")]).remove(0);
        assert!(!task_of(&routed).routing.is_sorted);
        assert_eq!(routed.parameters["top_k"], 1);
    }

    #[test]
    fn tokens_that_several_experts_share_have_the_multiplications_and_bytes_of_all() {
        let sizes = [("m", "64"), ("n", "10"), ("k", "8"), ("ranks", "2"), ("experts", "8"), ("top_k", "4")];
        let case = plan(&[&[("primitive", "ep_all_to_all"), ("implementation", "sequential")], &sizes[..]].concat());
        let task = task_of(&case.unwrap()[0]);
        assert_eq!((task.whole_flops(), task.flops()), (2.0 * 256.0 * 80.0, 2.0 * 128.0 * 80.0));
        // Four experts a rank; tokens as experts have them, as they arrive, and as they are sent.
        assert_eq!(task.elements(), [32 * 8, 4 * 80, 3 * 128 * 8, 3 * 128 * 10, 32 * 10]);
        assert_eq!(task.alone().elements()[1], 8 * 80);
        assert_eq!(task.moved("dispatch_only"), Some(128 * 8 * 4));
    }

    #[test]
    fn sizes_that_do_not_divide_name_the_nearest() {
        let flags = |m: &str, implementation: &str| {
            plan(&[("primitive", "tp_columnwise"), ("m", m), ("implementation", implementation)])
        };
        let why = flags("1004", "pipelined:chunks=8").unwrap_err();
        assert!(why.contains("m = 1004 is not a multiple of ranks x chunks = 16"), "{why}");
        assert!(why.contains("the nearest: 992 or 1008"), "{why}");
        let skipped: Vec<bool> = flags("1002", "all").unwrap().iter().map(|case| case.skip.is_some()).collect();
        assert_eq!(skipped.iter().filter(|skipped| **skipped).count(), 2, "two have chunks");
        let why = flags("1003", "all").unwrap_err();
        assert!(why.contains("m = 1003 is not a multiple of ranks = 2") && why.contains("1002 or 1004"), "{why}");
        let why = plan(&[("primitive", "cp_ring"), ("dtype", "bf16")]).unwrap_err();
        assert!(why.contains("cp_ring does not support bf16") && why.contains("valid values: f32"), "{why}");
    }

    #[test]
    fn memory_past_every_machine_does_not_wrap() {
        for primitive in ["tp_columnwise", "tp_rowwise", "dp_all_reduce", "cp_ring", "ep_all_to_all"] {
            let most = "2147483648";
            let k = if primitive == "cp_ring" { most } else { "1024" };
            let sizes = [("m", most), ("n", most), ("k", k), ("implementation", "sequential")];
            let case = plan(&[&[("primitive", primitive)], &sizes[..]].concat()).unwrap().remove(0);
            let bytes = contract::Benchmark::parse(&crate::PrimitiveBenchmark, &case).unwrap().memory();
            assert!(bytes > 1 << 50, "{primitive}: {bytes}");
        }
    }
}
