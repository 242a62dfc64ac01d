//! DDLB's implementations, and what each is here.

use terms::Error;

use crate::fields::{MappedFields, items, one_of, text, whole};
use crate::plan_text::{PlanText, joined, list};
use crate::tree::{Tree, ValueNode, kind, shown};

/// Implementations of a file, as items of a plan's `implementation`.
#[derive(Default)]
pub(super) struct Chosen {
    /// Implementations of this program.
    pub(super) native: Vec<String>,
    /// Implementations of PyTorch, by backends.
    pub(super) pytorch: Vec<ImplementationGroup>,
}

/// Implementations that run over the same backends.
pub(super) struct ImplementationGroup {
    pub(super) backends: Vec<&'static str>,
    pub(super) lines: Vec<String>,
    /// What DDLB calls them.
    pub(super) names: Vec<String>,
}

impl Chosen {
    fn native(&mut self, line: String) {
        if !self.native.contains(&line) {
            self.native.push(line);
        }
    }

    fn pytorch(&mut self, name: &str, backends: Vec<&'static str>, line: String) {
        let at = self.pytorch.iter().position(|group| group.backends == backends);
        let at = at.unwrap_or_else(|| {
            self.pytorch.push(ImplementationGroup { backends, lines: Vec::new(), names: Vec::new() });
            self.pytorch.len() - 1
        });
        let group = &mut self.pytorch[at];
        if !group.lines.contains(&line) {
            group.lines.push(line);
        }
        if !group.names.iter().any(|known| known == name) {
            group.names.push(name.to_owned());
        }
    }
}

/// Every implementation that DDLB has.
const NAMES: &[&str] = &["compute_only", "pytorch", "fuser", "transformer_engine", "jax", "pytorch_sym_mem", "ddlp"];
const BACKENDS: &[&str] = &["nccl", "ucc", "ucc/tl/nccl", "ucc/tl/cuda", "ucc/tl/ucp", "gloo"];
const ORDERS: &[&str] = &["AG_before", "AG_after"];

/// Reads the block `implementations`: a list of options for each name.
pub(super) fn read(block: &mut MappedFields<'_>, primitives: &[&str], plan: &mut PlanText) -> Result<Chosen, Error> {
    let source = block.source;
    let mut chosen = Chosen::default();
    let named = block.rest();
    if named.is_empty() {
        let hint = format!("valid values: {}", NAMES.join(", "));
        return Err(source.error(block.line, "`implementations` is empty").hint(hint));
    }
    for (name, node) in named {
        let name = one_of(source, "implementations", name, node.at, NAMES)?;
        for options in items(source, name, node)? {
            let fields = MappedFields::of_mapping(source, name, options)?;
            match name {
                "compute_only" => compute_only(fields, &mut chosen, plan)?,
                "pytorch" => pytorch(fields, primitives, &mut chosen, plan)?,
                "fuser" => fuser(fields, primitives, &mut chosen, plan)?,
                "ddlp" => {
                    let mut fields = fields;
                    let options: Vec<String> = fields.rest().iter().map(|(name, node)| given((name, *node))).collect();
                    let options = if options.is_empty() { String::new() } else { format!(" ({})", joined(&options)) };
                    plan.warning(format!("ddlp{options} is left out: it has no counterpart here"));
                }
                _ => of_library(name, fields, &mut chosen, plan)?,
            }
        }
    }
    Ok(chosen)
}

/// The values of an option, one or a list; None where it is not given.
fn values(
    fields: &mut MappedFields<'_>,
    name: &str,
    words: &[&'static str],
) -> Result<Option<Vec<&'static str>>, Error> {
    let source = fields.source;
    let Some(node) = fields.take(name) else { return Ok(None) };
    let all =
        items(source, name, node)?.iter().map(|item| one_of(source, name, text(source, name, item)?, item.at, words));
    all.collect::<Result<_, _>>().map(Some)
}

/// `NAME: {option: [a, b]}`, or the name alone.
fn item(name: &str, options: &[(&str, String)]) -> String {
    let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    if options.is_empty() { name.to_owned() } else { format!("{name}: {{{}}}", options.join(", ")) }
}

fn compute_only(mut fields: MappedFields<'_>, chosen: &mut Chosen, plan: &mut PlanText) -> Result<(), Error> {
    let sizes = values(&mut fields, "size", &["sharded", "unsharded"])?.unwrap_or_else(|| vec!["sharded"]);
    fields.finish(&["size"])?;
    let line = item("compute_only", &[("size", list(&sizes))]);
    plan.became(format!("compute_only: size {}", joined(&sizes)), format!("{line}, here natively and of torch"));
    chosen.native(line.clone());
    chosen.pytorch("compute_only", vec!["nccl"], line);
    Ok(())
}

/// DDLB's product and collective, one after the other: those of torch, and native ones to compare with.
fn pytorch(
    mut fields: MappedFields<'_>,
    primitives: &[&str],
    chosen: &mut Chosen,
    plan: &mut PlanText,
) -> Result<(), Error> {
    let backends = values(&mut fields, "backend", BACKENDS)?.unwrap_or_else(|| vec!["nccl"]);
    let (source, line) = (fields.source, fields.line);
    let orders = values(&mut fields, "order", ORDERS)?;
    if orders.is_some() && primitives.contains(&"tp_rowwise") {
        return Err(source.error(line, "`order` is of tp_columnwise alone").hint("leave it out"));
    }
    fields.finish(&["backend", "order"])?;
    let options: Vec<(&str, String)> = orders.iter().map(|orders| ("order", list(orders))).collect();
    let line = item("sequential", &options);
    let with_orders = orders.map_or(String::new(), |orders| format!(", order {}", joined(&orders)));
    plan.became(
        format!("pytorch: backend {}{with_orders}", joined(&backends)),
        format!("{line}, of torch over {} and natively over shm", joined(&backends)),
    );
    chosen.native(line.clone());
    chosen.pytorch("pytorch", backends, line);
    Ok(())
}

/// Chunks that a pipeline here has at most.
const MOST_CHUNKS: u64 = 64;
const ALGORITHMS: &[&str] = &["default", "coll_pipeline", "p2p_pipeline"];
/// Options of nvFuser that have no counterpart.
const OF_NVFUSER: &[&str] = &[
    "backend",
    "order",
    "inter_stream_synchronization",
    "multicast_protocol",
    "fusion_strategy",
    "offset_stream_indexing_by_rank",
];

/// nvFuser is not run; its algorithms are there natively.
fn fuser(
    mut fields: MappedFields<'_>,
    primitives: &[&str],
    chosen: &mut Chosen,
    plan: &mut PlanText,
) -> Result<(), Error> {
    let source = fields.source;
    let algorithms = values(&mut fields, "algorithm", ALGORITHMS)?.unwrap_or_else(|| vec!["default"]);
    let mut chunks = Vec::new();
    if let Some(node) = fields.take("s") {
        for one in items(source, "s", node)? {
            chunks.push(whole(source, "s", one, 1, u64::MAX)?);
        }
    }
    let (kept, too_many): (Vec<u64>, Vec<u64>) = chunks.iter().partition(|chunks| **chunks <= MOST_CHUNKS);
    if !too_many.is_empty() {
        let why = format!("a pipeline has at most {MOST_CHUNKS} chunks here");
        plan.warning(format!("fuser: s {} left out: {why}", joined(&too_many)));
    }
    let is_empty = chunks.is_empty();
    let chunks: Vec<u64> = kept;
    let ignored: Vec<String> =
        OF_NVFUSER.iter().filter_map(|name| Some((name, fields.take(name)?))).map(given).collect();
    fields.finish(&[&["algorithm", "s"], OF_NVFUSER].concat())?;
    // DDLB's default.
    let chunks = if is_empty { vec![8] } else { chunks };
    let lines: Vec<String> = algorithms.iter().flat_map(|algorithm| pipelines(algorithm, &chunks)).collect();
    lines.iter().for_each(|line| chosen.native(line.clone()));
    let options = if ignored.is_empty() {
        String::new()
    } else {
        format!(" ({} {} no effect)", ignored.join(", "), if ignored.len() == 1 { "has" } else { "have" })
    };
    plan.warning(format!(
        "fuser: nvFuser is not supported here; its algorithms {} of {} run natively as {}{options}",
        joined(&algorithms),
        joined(primitives),
        joined(&lines)
    ));
    Ok(())
}

/// An algorithm of nvFuser as implementations here. A pipeline of one chunk is not a pipeline.
fn pipelines(algorithm: &str, chunks: &[u64]) -> Vec<String> {
    match algorithm {
        "coll_pipeline" => {
            let several: Vec<u64> = chunks.iter().copied().filter(|chunks| *chunks > 1).collect();
            let options = [("algorithm", "collective_chunks".to_owned()), ("chunks", list(&several))];
            let one = chunks.contains(&1).then(|| item("sequential", &[]));
            one.into_iter().chain((!several.is_empty()).then(|| item("pipelined", &options))).collect()
        }
        "p2p_pipeline" => vec![item("pipelined", &[("algorithm", "ring_p2p".to_owned())])],
        _ => vec![item("sequential", &[])],
    }
}

/// An option as it stands in the file.
fn given((name, node): (&&str, &ValueNode)) -> String {
    match &node.tree {
        Tree::List(items) => format!("{name}: {}", items.iter().map(kind).collect::<Vec<_>>().join(", ")),
        _ => format!("{name}: {}", kind(node)),
    }
}

/// Implementations that are those of a library in PyTorch's ranks.
fn of_library(
    name: &'static str,
    mut fields: MappedFields<'_>,
    chosen: &mut Chosen,
    plan: &mut PlanText,
) -> Result<(), Error> {
    let backends = values(&mut fields, "backend", BACKENDS)?.unwrap_or_else(|| vec!["nccl"]);
    let (source, orders_of) = (fields.source, if name == "jax" { ORDERS } else { &ORDERS[..1] });
    let orders = values(&mut fields, "order", orders_of)?;
    let left = fields.rest();
    // Options of these libraries change with their versions: each is named, and none is passed on.
    let mut named = Vec::new();
    for (option, node) in left {
        let known = matches!(node.tree, Tree::Scalar { .. } | Tree::List(_)) && option.len() <= 64;
        if !known {
            return Err(source.error(node.at, format!("`{name}` has no option `{}`", shown(option))));
        }
        named.push(given((&option, node)));
    }
    if !named.is_empty() {
        plan.warning(format!("{name}: {} not passed on: the library's defaults are used", joined(&named)));
    }
    let ours = if name == "pytorch_sym_mem" { "async_tp" } else { name };
    let options: Vec<(&str, String)> = orders.iter().map(|orders| ("order", list(orders))).collect();
    let line = item(ours, &options);
    plan.became(name, format!("{line}, of torch"));
    chosen.pytorch(name, backends, line);
    Ok(())
}
