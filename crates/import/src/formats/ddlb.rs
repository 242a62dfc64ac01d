//! The configuration of DDLB: one primitive, its sizes, and the implementations to compare. Lists multiply.

mod implementations;

use terms::Error;

use crate::fields::{MappedFields, flag, items, text, whole, wholes, word};
use crate::plan_text::{PlanText, joined, list, ranks_of_user};
use crate::tree::{self, ValueNode, one_line, shown};
use crate::{Content, ForeignPlan, Format, Source};
use implementations::{Chosen, ImplementationGroup};

/// The format.
pub(super) struct Ddlb;

const FIELDS: &[&str] = &[
    "primitive",
    "m",
    "n",
    "k",
    "dtype",
    "validate",
    "num_iterations",
    "num_warmups",
    "time_measurement_backend",
    "barrier_at_each_iteration",
    "output_csv",
    "implementations",
];
const PRIMITIVES: &[&str] = &["tp_columnwise", "tp_rowwise"];
const DTYPES: &[&str] = &["float32", "float64", "float16", "bfloat16"];
/// The largest size of a matrix.
const LARGEST: u64 = 1 << 31;
/// Iterations are spread over at least so many trials, which is what an interval needs.
const FEWEST: u64 = stats::FEWEST_TRIALS as u64;
/// Iterations are spread over at most so many trials.
const MOST: u64 = 30;
/// What `mpirun -np` of its own documentation starts.
const RANKS: &str = "2";

impl Format for Ddlb {
    fn about(&self) -> (&'static str, &'static str) {
        ("ddlb", "DDLB: its configuration as JSON")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn recognises(&self, source: &Source) -> bool {
        tree::json_with(source, &["benchmark", "implementations"]) && !tree::json_with(source, &["cases"])
    }

    fn uses_torch(&self) -> bool {
        true
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let root = tree::parse(source)?;
        let mut file = MappedFields::of_mapping(source, "the file", &root)?;
        let benchmark = file.needed("benchmark")?;
        file.finish(&["benchmark"])?;
        Ok(Content::Plan(plan(source, MappedFields::of_mapping(source, "benchmark", benchmark)?)?))
    }
}

fn plan(source: &Source, mut fields: MappedFields<'_>) -> Result<ForeignPlan, Error> {
    let primitives: Vec<&str> = words(source, "primitive", fields.needed("primitive")?, PRIMITIVES)?;
    let mut plan = PlanText::new(source.file_name(), "DDLB", &format!("ddlb-{}", primitives.join("-")));
    plan.became("primitive", joined(&primitives));
    plan.line(0, "defaults:");
    ranks(source, &mut plan);
    for name in ["m", "n", "k"] {
        let sizes = wholes(source, name, fields.needed(name)?, 1, LARGEST)?;
        plan.became(format!("{name}: {}", joined(&sizes)), format!("{name}: {}", list(&sizes)));
        plan.line(1, &format!("{name}: {} # {name}", list(&sizes)));
    }
    let dtypes = match fields.take("dtype") {
        Some(node) => words(source, "dtype", node, DTYPES)?,
        None => vec!["float32"],
    };
    plan.became(format!("dtype: {}", joined(&dtypes)), format!("dtype: {}", list(&dtypes)));
    plan.line(1, &format!("dtype: {} # dtype", list(&dtypes)));
    sampling(source, &mut fields, &mut plan)?;
    let mut block = MappedFields::of_mapping(source, "implementations", fields.needed("implementations")?)?;
    fields.finish(FIELDS)?;
    let chosen = implementations::read(&mut block, &primitives, &mut plan)?;
    cases(source, &primitives, &chosen, &mut plan);
    Ok(plan.finish())
}

fn words<'w>(source: &Source, name: &str, node: &ValueNode, words: &[&'w str]) -> Result<Vec<&'w str>, Error> {
    items(source, name, node)?.iter().map(|item| word(source, name, item, words)).collect()
}

/// The file does not tell the number of ranks: mpirun's `-np` does.
fn ranks(source: &Source, plan: &mut PlanText) {
    let given = ranks_of_user(source, plan);
    let ranks = given.as_deref().unwrap_or(RANKS);
    if given.is_none() {
        plan.warning(format!(
            "ranks: the file does not say how many (DDLB uses those of `mpirun -np`): {ranks}; `--ranks N` sets another number"
        ));
    }
    plan.line(1, &format!("ranks: {ranks} # mpirun -np"));
}

/// Iterations as trials and calls in each: as many in all, unless no number of trials divides them.
fn spread(iterations: u64) -> (u64, u64) {
    if iterations < FEWEST {
        return (iterations, 1);
    }
    let trials = (FEWEST..=MOST).find(|trials| iterations.is_multiple_of(*trials)).unwrap_or(FEWEST);
    (trials, iterations.div_ceil(trials))
}

/// How often, and how calls are timed.
fn sampling(source: &Source, fields: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<(), Error> {
    if let Some(node) = fields.take("num_iterations") {
        let iterations = whole(source, "num_iterations", node, 1, 10_000)?;
        let (trials, each) = spread(iterations);
        let about = if trials * each == iterations { String::new() } else { format!(", {} in all", trials * each) };
        let calls = if each == 1 { "1 call".to_owned() } else { format!("{each} calls") };
        plan.became(
            format!("num_iterations: {iterations}"),
            format!("{calls} in each of {trials} trials{about}, because an interval needs trials"),
        );
        plan.line(1, &format!("iters: {each} # num_iterations: {iterations}, spread over trials"));
        plan.line(1, &format!("trials: {trials}"));
    }
    if let Some(node) = fields.take("num_warmups") {
        let warmups = whole(source, "num_warmups", node, 0, 10_000)?;
        plan.became(format!("num_warmups: {warmups}"), format!("warmup: {warmups}"));
        plan.line(1, &format!("warmup: {warmups} # num_warmups"));
    }
    if let Some(node) = fields.take("validate") {
        match flag(source, "validate", node)? {
            true => plan.became("validate: true", "every result is checked, before and after it is timed"),
            false => plan.warning("validate: false has no effect: every result is checked, outside of the timing"),
        }
    }
    let barrier = fields.take("barrier_at_each_iteration");
    let barrier = barrier.map(|node| flag(source, "barrier_at_each_iteration", node)).transpose()?;
    let mode = if barrier.unwrap_or(true) { "isolated" } else { "streaming" };
    let barrier = barrier.map_or("true, its default".to_owned(), |barrier| barrier.to_string());
    plan.became(format!("barrier_at_each_iteration: {barrier}"), format!("mode: {mode}"));
    plan.line(1, &format!("mode: {mode} # barrier_at_each_iteration: {barrier}"));
    if let Some(node) = fields.take("time_measurement_backend") {
        match word(source, "time_measurement_backend", node, &["cpu_clock", "cuda_event"])? {
            "cpu_clock" => plan.became("time_measurement_backend: cpu_clock", "the clock of the host, as everywhere"),
            _ => plan.warning(
                "time_measurement_backend: cuda_event has no effect: calls are timed by the clock of the host, between \
                 synchronisations",
            ),
        }
    }
    if let Some(node) = fields.take("output_csv") {
        let file = shown(text(source, "output_csv", node)?);
        plan.warning(format!(
            "output_csv: {file} is not written: the record has cases.csv, and `--output-dir` names it"
        ));
    }
    Ok(())
}

/// The cases: native ones, and where torch was found those of PyTorch, by backend.
fn cases(source: &Source, primitives: &[&str], chosen: &Chosen, plan: &mut PlanText) {
    plan.line(0, "cases:");
    if !chosen.native.is_empty() {
        plan.line(1, "- benchmark: primitive");
        plan.line(2, &format!("primitive: {}", list(primitives)));
        implementation(&chosen.native, plan);
    }
    let names_left =
        chosen.pytorch.iter().flat_map(|group| &group.names).fold(Vec::new(), |mut names: Vec<&str>, name| {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
            names
        });
    match source.here().torch() {
        _ if chosen.pytorch.is_empty() => {}
        Ok(version) => {
            let has_gpus = source.here().gpus > 0;
            let on = if has_gpus { "CUDA devices" } else { "processors" };
            plan.became("implementations of torch", format!("runtime: pytorch (torch {version}) on {on}"));
            if !has_gpus {
                plan.warning(
                    "device: cpu and backend: gloo, because no GPU was found; DDLB's tensors are on CUDA devices",
                );
            }
            for group in &chosen.pytorch {
                on_devices(group, has_gpus).into_iter().for_each(|on| pytorch(group, primitives, &on, plan));
            }
        }
        Err(why) => plan.warning(format!(
            "{} of PyTorch {} left out, because {}",
            names_left.join(", "),
            if names_left.len() == 1 { "is" } else { "are" },
            one_line(why)
        )),
    }
    if chosen.native.is_empty() && (chosen.pytorch.is_empty() || source.here().torch().is_err()) {
        // A plan without cases would be refused without a reason.
        plan.warning("no implementation of the file can run without torch: the plan has `sequential` alone");
        plan.line(1, "- benchmark: primitive");
        plan.line(2, &format!("primitive: {}", list(primitives)));
        implementation(&["sequential".to_owned()], plan);
    }
}

/// A device of the machine, why it is that one, and backends that move data between such devices.
type OnDevice = (&'static str, &'static str, Vec<&'static str>);

/// The devices that a group runs on: DDLB's tensors are on CUDA devices, where there are any. Gloo never gets GPUs by itself.
fn on_devices(group: &ImplementationGroup, has_gpus: bool) -> Vec<OnDevice> {
    if !has_gpus {
        return vec![("cpu", "no GPU was found", vec!["gloo"])];
    }
    let (of_cpus, of_gpus): (Vec<&str>, Vec<&str>) = group.backends.iter().partition(|backend| **backend == "gloo");
    let all = [("cuda", "DDLB's tensors are on CUDA devices", of_gpus), ("cpu", "gloo", of_cpus)];
    all.into_iter().filter(|(.., backends)| !backends.is_empty()).collect()
}

fn pytorch(group: &ImplementationGroup, primitives: &[&str], (device, why, backends): &OnDevice, plan: &mut PlanText) {
    plan.line(1, &format!("- benchmark: primitive # {}", group.names.join(", ")));
    plan.line(2, &format!("primitive: {}", list(primitives)));
    plan.line(2, "runtime: pytorch");
    plan.line(2, &format!("device: {device} # {why}"));
    plan.line(2, &format!("backend: {}", list(backends)));
    implementation(&group.lines, plan);
}

fn implementation(lines: &[String], plan: &mut PlanText) {
    plan.line(2, "implementation:");
    lines.iter().for_each(|line| plan.line(3, &format!("- {line}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_as_many_as_the_file_says() {
        for (iterations, expected) in
            [(1, (1, 1)), (5, (5, 1)), (6, (6, 1)), (20, (10, 2)), (50, (10, 5)), (100, (10, 10)), (53, (6, 9))]
        {
            assert_eq!(spread(iterations), expected, "{iterations}");
        }
    }
}
