//! What the benchmark declares: its entry, metrics, and which combinations of fields make sense.

use contract::fields::{Execution, Sampling, World, problem};
use record::{About, Case, Command, Plan, Sweep};
use serde_json::Value;
use terms::{Dtype, FieldError, Mode, Named};

use super::fields::Fields;
use super::implementation::CHUNKS;
use super::implementations::{self, ALL};
use super::resolve::{chosen, task};
use super::task::{Options, Scheme, whole};
use super::words::{Primitive, Tokens};
use super::{PrimitiveBenchmark, declared, torch};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "primitive",
    doc: "a matrix product and the collective that a parallel model needs with it: does overlap pay?",
    fields: &[Fields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: declared::METRICS,
    check,
    command: Some(Command {
        name: "primitive",
        doc: "Measures a matrix product with its collective, in each way to overlap the two",
        argument: "primitive",
        examples: &[
            ("tp_columnwise", "each implementation"),
            ("tp_rowwise -m 8192 -n 64,1024", "these sizes"),
            ("tp_rowwise --implementation fused", "one implementation"),
            ("tp_columnwise --runtime native,pytorch", "beside PyTorch (needs torch)"),
            ("tp_columnwise --pace-bandwidth 250MB/s --progress-thread", "on a slower link"),
        ],
        notes: "An implementation takes options behind a colon: pipelined:order=AG_after,chunks=8. In a plan, lists of \
                options multiply. docs/primitives.md explains each column.",
        sweep: Some(Sweep { field: "n", values: "16,64,256,1024", unless: ("primitive", "cp_ring") }),
    }),
    show: super::show::show,
};

fn check(case: &mut Case) -> Result<(), FieldError> {
    let fields = Fields::of(case)?;
    if fields.primitive != Primitive::EpAllToAll {
        if fields.tokens.is_some() {
            let message = format!("`tokens` is for ep_all_to_all, not {}", fields.primitive);
            return Err(problem("tokens", message, "leave it out"));
        }
    } else if fields.tokens.is_none() {
        case.parameters.insert("tokens", Tokens::Uniform.name().into());
    }
    fill_sizes(case, fields.primitive);
    contract::runtime::resolve(case, &[], contract::runtime::Native::Host)?;
    if contract::is_simulated(case) {
        let message = "a primitive computes, and a simulated backend has no time for that";
        return Err(problem("backend", message, "`backend: shm`"));
    }
    if fields.mode != Mode::Streaming && fields.primitive == Primitive::CpRing {
        return Err(problem("mode", "cp_ring is measured back to back", "`mode: streaming`"));
    }
    let (name, mut options) = chosen(&fields.implementation)?;
    if let Some(implementation) = implementations::named(name) {
        torch::check_implementation(case, implementation)?;
        (implementation.settle)(fields.primitive, &mut options)?;
        case.parameters.insert("implementation", written(name, &options).into());
        check_sizes(case, &options)?;
    } else {
        // What no way allows is refused here; what some ways do not allow, skips these.
        check_sizes(case, &Options::new())?;
    }
    if name == implementations::fused::VARIANT.name && World::of(case)?.pace_bandwidth.is_some() {
        case.skip = Some("fused reads other ranks' memory directly, and a paced link would slow nothing".to_owned());
    }
    contract::fields::check(case, &PrimitiveBenchmark)?;
    torch::check(case)?;
    if implementations::named(name).is_some() {
        torch::add_recipe(case)?;
    }
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

/// Sizes where the case gives none.
fn fill_sizes(case: &mut Case, primitive: Primitive) {
    let (n, k) = if primitive == Primitive::CpRing { (8, 64) } else { (1024, 1024) };
    for (name, size) in [("m", 4096_u64), ("n", n), ("k", k)] {
        if !case.parameters.contains_key(name) {
            case.parameters.insert(name.to_owned(), size.into());
        }
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
    let task = task(case)?;
    let chunks = whole(options, CHUNKS.name).unwrap_or(1);
    if task.scheme == Scheme::Attention && task.dtype != Dtype::F32 {
        return Err(problem("dtype", format!("cp_ring has no {}", task.dtype), "valid values: f32"));
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
    divides("m", task.m, m, &by)?;
    divides("n", task.n, n, "chunks")?;
    divides("k", task.k, if task.scheme == Scheme::ScatterLast { ranks } else { 1 }, "ranks")?;
    let sums = task.whole_depth() as u64;
    if task.scheme != Scheme::Attention && sums > 1 << 24 {
        let message = format!("sums of {sums} products have no exact result to check against");
        return Err(problem("k", message, "at most 16777216 over all ranks"));
    }
    Ok(())
}

fn divides(field: &'static str, size: usize, by: usize, what: &str) -> Result<(), FieldError> {
    if size.is_multiple_of(by) {
        return Ok(());
    }
    let below = size / by * by;
    let near = if below == 0 { format!("{by}") } else { format!("{below} or {}", below + by) };
    Err(problem(field, format!("{field} = {size} is not a multiple of {what} = {by}"), format!("the nearest: {near}")))
}

/// Puts every way of every implementation in the place of `all`.
pub(super) fn complete(plan: &mut Plan) {
    let mut cases = Vec::with_capacity(plan.cases.len());
    let mut known = std::collections::HashSet::new();
    for case in std::mem::take(&mut plan.cases) {
        let is_all = case.benchmark == ABOUT.name && Fields::of(&case).is_ok_and(|fields| fields.implementation == ALL);
        let ways = if is_all { ways(&case) } else { vec![case] };
        cases.extend(ways.into_iter().filter(|case| case.benchmark != ABOUT.name || known.insert(case.id.clone())));
    }
    plan.cases = cases;
}

/// The case in every way; one that its sizes do not allow is skipped with the reason.
fn ways(case: &Case) -> Vec<Case> {
    let Ok(primitive) = Fields::of(case).map(|fields| fields.primitive) else { return vec![case.clone()] };
    let mut cases = Vec::new();
    let runtime = torch::runtime(case);
    for implementation in implementations::IMPLEMENTATIONS.iter().filter(|each| each.runs_on(runtime)) {
        for options in (implementation.ways)(primitive) {
            let text = [implementation.name, options].join(if options.is_empty() { "" } else { ":" });
            let mut way = case.clone();
            way.parameters.insert("implementation", Value::from(text));
            if let Err(refused) = check(&mut way) {
                way.skip = Some(refused.error.on_one_line());
            }
            way.identify();
            cases.push(way);
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        let flags: Vec<(String, String)> =
            flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut plan = record::plan::from_flags(&ABOUT, &flags, &[]).map_err(|error| error.to_string())?;
        complete(&mut plan);
        Ok(plan.cases)
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
        implementation("pipelined:algorithm=ring_p2p,chunks=4", "ring_p2p takes no `chunks`");
        implementation("pipelined:sizes=3", "has no option `sizes`");
        implementation("overlapped", "does not take `overlapped`");
        refused(&[("primitive", "dp_all_reduce"), ("implementation", "fused")], "no fused implementation");
        refused(
            &[("primitive", "cp_ring"), ("dtype", "bf16"), ("implementation", "sequential")],
            "cp_ring has no bf16",
        );
        refused(&[("primitive", "tp_rowwise"), ("tokens", "skewed")], "`tokens` is for ep_all_to_all");
        refused(&[("primitive", "tp_rowwise"), ("backend", "sim")], "a simulated backend has no time");
        refused(&[("primitive", "tp_rowwise"), ("k", "0")], "`k` must be a whole number from 1");
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
        assert!(why.contains("cp_ring has no bf16") && why.contains("valid values: f32"), "{why}");
    }

    #[test]
    fn memory_past_every_machine_does_not_wrap() {
        for primitive in ["tp_columnwise", "tp_rowwise", "dp_all_reduce", "cp_ring", "ep_all_to_all"] {
            let most = "2147483648";
            let k = if primitive == "cp_ring" { most } else { "1024" };
            let sizes = [("m", most), ("n", most), ("k", k), ("implementation", "sequential")];
            let case = plan(&[&[("primitive", primitive)], &sizes[..]].concat()).unwrap().remove(0);
            let bytes = contract::Benchmark::memory(&crate::PrimitiveBenchmark, &case);
            assert!(bytes > 1 << 50, "{primitive}: {bytes}");
        }
    }
}
