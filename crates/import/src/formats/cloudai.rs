//! A test of CloudAI that runs nccl-tests: `test_template_name = "NcclTest"` (`conf/**/test/nccl_test*.toml`; the
//! fields and their defaults are those of `src/cloudai/workloads/nccl_test/nccl.py`). It becomes collective cases
//! over the same sizes.

mod sizes;
mod text;

use terms::{Collective, Dtype, Error, Named as _, Reduce};

use crate::collective;
use crate::fields::{MappedFields, flag, items, text as word_of, whole, wholes};
use crate::plan_text::{PlanText, joined, list, ranks_of_user};
use crate::tree::{Tree, ValueNode, beginning, shown};
use crate::{Content, ForeignPlan, Format, Source};

/// The format.
pub(super) struct CloudAi;

/// The template of nccl-tests.
const TEMPLATE: &str = "NcclTest";
/// Ranks where nobody tells them and no GPU was found.
const RANKS: &str = "2";
/// Fields of a test that change nothing that is measured.
const ABOUT: &[&str] = &["name", "description", "test_template_name"];
/// Fields of `cmd_args` that nccl-tests does not see, or that do not change what a plan does.
const UNUSED: &[&str] =
    &["docker_image_url", "parallel_init", "use_deepep_matrix", "alltoallv_matrix_container_path", "min_busbw"];
impl Format for CloudAi {
    fn about(&self) -> (&'static str, &'static str) {
        ("cloudai", "CloudAI: a test of nccl-tests as TOML (test_template_name = \"NcclTest\")")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn recognises(&self, source: &Source) -> bool {
        let is_template = |line: &str| {
            let named = line.trim_start().trim_start_matches(['"', '\'']).strip_prefix("test_template_name");
            named.is_some_and(|rest| rest.contains('=') && rest.contains(TEMPLATE))
        };
        let head = beginning(source);
        let is_table = |line: &str| line.trim_start().starts_with("[[");
        head.lines().take_while(|line| !is_table(line)).any(is_template) && head.contains("cmd_args")
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let root = text::parse(source)?;
        plan(source, MappedFields::of_mapping(source, "the file", &root)?).map(Content::Plan)
    }
}

/// One operation of the test.
struct CloudaiCase {
    op: Collective,
    subtest: String,
}

fn plan(source: &Source, mut file: MappedFields<'_>) -> Result<ForeignPlan, Error> {
    let template = file.needed("test_template_name")?;
    if word_of(source, "test_template_name", template)? != TEMPLATE {
        let what = format!("the template is {}, and only `{TEMPLATE}` is read", crate::tree::kind(template));
        return Err(source.error(template.at, what));
    }
    let name = file.needed("name")?;
    let name = word_of(source, "name", name)?;
    for name in ABOUT {
        file.take(name);
    }
    let mut plan = PlanText::new(source.file_name(), "CloudAI", name);
    let mut args = MappedFields::of_mapping(source, "cmd_args", file.needed("cmd_args")?)?;
    let extra = file.take("extra_cmd_args").map(|node| options(source, node)).transpose()?.unwrap_or_default();
    if let Some(node) = file.take("extra_env_vars") {
        environment(source, node, &mut plan)?;
    }
    for (name, _) in file.rest() {
        plan.warning(format!("{}: CloudAI reads it, but the plan has no counterpart", shown(name)));
    }
    let cases = cases(source, &mut args, &mut plan)?;
    plan.line(0, "defaults:");
    ranks(source, &mut args, &mut plan)?;
    let bytes = sizes::read(source, &mut args, &extra)?;
    plan.became(bytes.said.clone(), format!("bytes: {}", bytes.shown()));
    plan.line(1, &format!("bytes: {} # {}", list(&bytes.sizes), bytes.said));
    device(source, &mut plan);
    let dtypes = dtypes(source, &mut args, &mut plan)?;
    plan.line(1, &format!("dtype: {} # datatype", list(&dtypes)));
    sampling(source, &mut args, &mut plan)?;
    let reductions = reductions(source, &mut args, &mut plan)?;
    let roots = args.take("root").map(|node| wholes(source, "root", node, 0, 1 << 20)).transpose()?;
    for name in UNUSED {
        if args.take(name).is_some() && *name != "docker_image_url" {
            plan.warning(format!("{name}: it has no effect on the plan"));
        }
    }
    for (name, _) in args.rest() {
        plan.warning(format!(
            "{}: `cmd_args` of CloudAI's {TEMPLATE} has no such field, so it has no effect",
            shown(name)
        ));
    }
    for (flag, value) in extra.iter().filter(|(flag, _)| !sizes::is_factor(flag)) {
        plan.warning(format!(
            "{} {}: an option of nccl-tests without a counterpart in the plan",
            shown(flag),
            shown(value)
        ));
    }
    plan.line(0, "cases:");
    for case in cases {
        plan.line(1, "- benchmark: collective");
        plan.line(2, &format!("op: {} # {}", case.op, case.subtest));
        if case.op.reduces() {
            plan.line(2, &format!("reduce: {} # op", list(&reductions)));
        }
        if let Some(roots) = roots.as_ref().filter(|_| case.op.has_root()) {
            plan.line(2, &format!("root: {} # root", list(roots)));
        }
    }
    plan.warning(
        "nccl-tests measures each size out of place and in place: the plan measures in place where that is possible",
    );
    Ok(plan.finish())
}

/// `--stepfactor = "2"` of `extra_cmd_args`.
fn options(source: &Source, node: &ValueNode) -> Result<Vec<(String, String)>, Error> {
    let mut fields = MappedFields::of_mapping(source, "extra_cmd_args", node)?;
    let option = |(name, node): (&str, &ValueNode)| Ok((name.to_owned(), word_of(source, name, node)?.to_owned()));
    fields.rest().into_iter().map(option).collect()
}

/// Settings of the environment are left to the caller: a list of them is several runs of CloudAI.
fn environment(source: &Source, node: &ValueNode, plan: &mut PlanText) -> Result<(), Error> {
    for (name, node) in MappedFields::of_mapping(source, "extra_env_vars", node)?.rest() {
        let values: Vec<&str> =
            items(source, name, node)?.iter().map(|item| word_of(source, name, item)).collect::<Result<_, _>>()?;
        let set = format!("{}={}", shown(name), shown(&values.join(",")));
        plan.warning(format!("{set} is not set: `--set env=NAME=VALUE` sets it for the ranks"));
    }
    Ok(())
}

/// The operations: `all_gather_perf_mpi`.
fn cases(source: &Source, args: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<Vec<CloudaiCase>, Error> {
    const DEFAULT: &str = "all_reduce_perf_mpi";
    let Some(node) = args.take("subtest_name") else {
        plan.warning(format!("subtest_name: a scenario gives it, else it is {DEFAULT}: all_reduce"));
        return known(source, &[(args.line, DEFAULT)], plan);
    };
    let mut named = Vec::new();
    for item in items(source, "subtest_name", node)? {
        named.push((item.at, word_of(source, "subtest_name", item)?));
    }
    known(source, &named, plan)
}

fn known(source: &Source, named: &[(usize, &str)], plan: &mut PlanText) -> Result<Vec<CloudaiCase>, Error> {
    let mut cases = Vec::new();
    for (line, subtest) in named {
        let bare = subtest.trim_end_matches("_mpi").trim_end_matches("_perf");
        match (collective::op(bare), bare) {
            (Some(Collective::AllToAllV), _) => plan.warning(format!(
                "{subtest} is left out: `all_to_allv` here draws its counts in another way than nccl-tests"
            )),
            (Some(op), _) => {
                plan.became(format!("subtest_name: {}", shown(subtest)), format!("op: {op}"));
                cases.push(CloudaiCase { op, subtest: shown(subtest) });
            }
            (None, "hypercube" | "bisection") => {
                plan.warning(format!("{subtest} is left out: it has no counterpart here"));
            }
            (None, _) => {
                let what = format!("`subtest_name` does not take `{}`", shown(subtest));
                let hint = "valid values: all_reduce_perf_mpi and its like, with `_mpi` or without";
                return Err(source.error(*line, what).hint(hint));
            }
        }
    }
    match (cases.is_empty(), named.first()) {
        (true, Some((line, subtest))) => {
            Err(source.error(*line, format!("`{}` has no counterpart here, so the plan has no case", shown(subtest))))
        }
        _ => Ok(cases),
    }
}

/// Ranks are those of the scenario: nodes x processes x threads x GPUs of a thread.
fn ranks(source: &Source, args: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<(), Error> {
    for name in ["ngpus", "nthreads"] {
        if let Some(node) = args.take(name) {
            let each = wholes(source, name, node, 1, 1024)?;
            plan.became(format!("{name}: {}", joined(&each)), "one rank is one GPU, whatever process has it");
        }
    }
    let here = source.here();
    let found = (here.gpus > 0).then(|| (here.gpus * here.hosts.max(1)).to_string());
    let given = ranks_of_user(source, plan);
    let is_given = given.is_some();
    let ranks = given.or(found).unwrap_or_else(|| RANKS.to_owned());
    if !is_given {
        plan.warning(format!(
            "ranks: a scenario of CloudAI sets the nodes, not this file: {ranks}; `--ranks N` sets another number"
        ));
    }
    plan.line(1, &format!("ranks: {} # num_nodes of the scenario", ranks));
    Ok(())
}

/// nccl-tests need GPUs.
fn device(source: &Source, plan: &mut PlanText) {
    if source.here().gpus > 0 {
        plan.line(1, "backend: nccl");
        plan.line(1, "device: cuda");
        plan.became("nccl-tests", "backend: nccl, device: cuda");
    } else {
        plan.line(1, "device: cpu");
        plan.warning("backend: shm on the processor, because no GPU was found and nccl-tests need one");
    }
}

fn dtypes(source: &Source, args: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<Vec<Dtype>, Error> {
    let Some(node) = args.take("datatype") else { return Ok(vec![Dtype::F32]) };
    let one = |item: &ValueNode| {
        let name = word_of(source, "datatype", item)?;
        let dtype = collective::dtype(name);
        dtype.ok_or_else(|| source.error(item.at, format!("there is no element type `{}`", shown(name))))
    };
    let dtypes: Vec<Dtype> = items(source, "datatype", node)?.iter().map(one).collect::<Result<_, _>>()?;
    plan.became("datatype", format!("dtype: {}", list(&dtypes)));
    Ok(dtypes)
}

fn reductions(source: &Source, args: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<Vec<Reduce>, Error> {
    let Some(node) = args.take("op") else { return Ok(vec![Reduce::Sum]) };
    let mut all = Vec::new();
    for item in items(source, "op", node)? {
        let name = word_of(source, "op", item)?;
        match (name, collective::reduce(name)) {
            ("all", _) => all.extend(Reduce::ALL.iter().copied()),
            (_, Some(reduce)) => all.push(reduce),
            _ => {
                let hint = "valid values: sum, prod, min, max, avg, all";
                return Err(source.error(item.at, format!("there is no reduction `{}`", shown(name))).hint(hint));
            }
        }
    }
    all.dedup();
    plan.became("op", format!("reduce: {}, for operations that reduce", list(&all)));
    Ok(all)
}

/// How often, and how calls are timed.
fn sampling(source: &Source, args: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<(), Error> {
    for (name, ours) in [("iters", "iters"), ("warmup_iters", "warmup")] {
        if let Some(node) = args.take(name) {
            let low = u64::from(name == "iters");
            let counts = wholes(source, name, node, low, 10_000)?;
            let most = counts.iter().copied().max().unwrap_or(1);
            plan.line(1, &format!("{ours}: {most} # {name}"));
            let about = if name == "iters" { " in each trial" } else { "" };
            plan.became(format!("{name}: {}", joined(&counts)), format!("{ours}: {most}{about}"));
            if counts.len() > 1 {
                plan.warning(format!("{name}: {}: a plan takes one number, so the largest is taken", joined(&counts)));
            }
        }
    }
    for (name, ours, least) in [("agg_iters", "aggregate", 2), ("cudagraph", "graph", 1)] {
        let Some(node) = args.take(name) else { continue };
        let counts = wholes(source, name, node, 0, 4096)?;
        if counts.iter().any(|count| *count < least) && counts.iter().any(|count| *count >= least) {
            return Err(source.error(node.at, format!("`{name}` with {least} or more and without it are two plans")));
        }
        if counts.iter().all(|count| *count >= least) {
            plan.line(1, &format!("{ours}: {} # {name}", list(&counts)));
            plan.became(format!("{name}: {}", joined(&counts)), format!("{ours}: {}", list(&counts)));
        }
    }
    if let Some(node) = args.take("blocking") {
        let is_blocking = switch(source, "blocking", node)?;
        if is_blocking {
            plan.line(1, "mode: isolated # blocking");
            plan.became("blocking: 1", "mode: isolated: each call waits for the one before");
        }
    }
    if let Some(node) = args.take("check") {
        match switch(source, "check", node)? {
            true => plan.became("check: 1", "every result is checked"),
            false => plan.warning("check: 0: results are checked all the same, once a trial and untimed"),
        }
    }
    if let Some(node) = args.take("average") {
        let average = wholes(source, "average", node, 0, 3)?;
        let words = ["the time of rank 0", "the mean over ranks", "the fastest rank", "the slowest rank"];
        let said: Vec<&str> = average.iter().filter_map(|at| words.get(usize::try_from(*at).ok()?).copied()).collect();
        plan.warning(format!("average: {} ({}): the plan takes the slowest rank", joined(&average), said.join(", ")));
    }
    Ok(())
}

/// 0 or 1, or a word of TOML.
fn switch(source: &Source, name: &str, node: &ValueNode) -> Result<bool, Error> {
    match &node.tree {
        Tree::Scalar { text, .. } if matches!(text.as_str(), "true" | "false") => flag(source, name, node),
        Tree::List(items) if items.len() != 1 => {
            Err(source.error(node.at, format!("`{name}` takes one value here: with several it makes several plans")))
        }
        Tree::List(items) => switch(source, name, &items[0]),
        _ => whole(source, name, node, 0, 1 << 20).map(|number| number > 0),
    }
}
