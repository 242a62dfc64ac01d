//! The configuration of TorchScale: models, batch sizes and numbers of GPUs, trained by data parallelism.

use terms::Error;

use crate::fields::{MappedFields, flag, items, one_of, text, wholes};
use crate::plan_text::{PlanText, joined, list, quoted, ranks_of_user};
use crate::tree::{self, one_line, shown};
use crate::{Content, ForeignPlan, Format, Source};

/// The format.
pub(super) struct Torchscale;

const FIELDS: &[&str] = &["experiment_name", "models", "batch_sizes", "gpu_counts", "profiling"];
const PROFILING: &[&str] = &["enabled", "tool", "trigger"];
/// What TorchScale's profiling has of its own.
const TOOL: &str = "nsys";
const TRIGGER: &str = "sync_stall_detection";

impl Format for Torchscale {
    fn about(&self) -> (&'static str, &'static str) {
        ("torchscale", "TorchScale: its configuration as YAML")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn recognises(&self, source: &Source) -> bool {
        let has = |key: &str| {
            tree::beginning(source).lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
        };
        has("models") && (has("gpu_counts") || has("batch_sizes")) && !has("cases")
    }

    fn uses_torch(&self) -> bool {
        true
    }

    fn shares_output_dir(&self) -> bool {
        true
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let root = tree::parse(source)?;
        plan(source, MappedFields::of_mapping(source, "the file", &root)?).map(Content::Plan)
    }
}

fn plan(source: &Source, mut fields: MappedFields<'_>) -> Result<ForeignPlan, Error> {
    let name = match fields.take("experiment_name") {
        Some(node) => text(source, "experiment_name", node)?,
        None => "torchscale",
    };
    let mut plan = PlanText::new(source.file_name(), "TorchScale", name);
    plan.became("experiment_name", "experiment");
    profiling(source, &mut fields, &mut plan)?;
    let models = fields.needed("models")?;
    let mut names: Vec<String> = Vec::new();
    for item in items(source, "models", models)? {
        let given = text(source, "models", item)?;
        let known = &source.here().models;
        // Where the caller gives no models, the reader of plans refuses unknown ones.
        let model = if known.is_empty() { given } else { one_of(source, "models", given, item.at, known)? };
        names.push(quoted(model));
    }
    let batches = fields.take("batch_sizes").map(|node| wholes(source, "batch_sizes", node, 1, 1 << 20)).transpose()?;
    let counts = fields.take("gpu_counts").map(|node| wholes(source, "gpu_counts", node, 1, 1024)).transpose()?;
    fields.finish(FIELDS)?;
    plan.line(0, "cases:");
    plan.line(1, "- benchmark: training");
    plan.line(2, &format!("model: {} # models", list(&names)));
    plan.became(format!("models: {}", joined(&names)), "model, of the benchmark `training`");
    plan.line(2, "strategy: data # DistributedDataParallel");
    plan.line(2, "synchronised: false # DistributedDataParallel leaves batch norm to each replica");
    plan.became("DistributedDataParallel", "strategy: data, synchronised: false (batch norm of each replica)");
    let given = if counts.is_none() { ranks_of_user(source, &mut plan) } else { None };
    let counts = counts.unwrap_or_else(|| vec![1]);
    let ranks = given.unwrap_or_else(|| list(&counts));
    plan.line(2, &format!("ranks: {ranks} # gpu_counts"));
    match plan.plan.has_given_ranks {
        true => plan.became("no gpu_counts", format!("ranks: {ranks}, as given")),
        false => plan.became(format!("gpu_counts: {}", joined(&counts)), format!("ranks: {ranks}")),
    }
    if let Some(batches) = batches {
        plan.line(2, &format!("batch: {} # batch_sizes, of each rank", list(&batches)));
        plan.became(format!("batch_sizes: {}", joined(&batches)), format!("batch: {} on each rank", list(&batches)));
    }
    device(source, &mut plan);
    Ok(plan.finish())
}

/// TorchScale takes GPUs where there are some.
fn device(source: &Source, plan: &mut PlanText) {
    let (gpus, torch) = (source.here().gpus, source.here().torch());
    if gpus > 0 {
        plan.line(2, &format!("device: cuda # {} found", count(gpus)));
        plan.became("GPUs", "device: cuda, one GPU for each rank");
        return runtimes(torch, plan);
    }
    runtimes(torch, plan);
    let why = "no GPU was found";
    plan.line(2, &format!("device: cpu # {why}"));
    plan.warning(format!("device: cpu, because {why}"));
}

/// Who trains beside native ranks.
fn runtimes(torch: Result<&str, &str>, plan: &mut PlanText) {
    match torch {
        Ok(version) => {
            plan.line(2, "runtime: [native, pytorch]");
            plan.became("PyTorch", format!("runtime: pytorch (torch {version}), compared with native"));
        }
        Err(why) => plan.warning(format!("runtime: native alone, because {}", one_line(why))),
    }
}

fn count(gpus: usize) -> String {
    if gpus == 1 { "1 GPU was".to_owned() } else { format!("{gpus} GPUs were") }
}

/// A plan says whether steps are recorded. `rankmark profile` takes the tool that records them and what of them is shown.
fn profiling(source: &Source, fields: &mut MappedFields<'_>, plan: &mut PlanText) -> Result<(), Error> {
    let Some(node) = fields.take("profiling") else { return Ok(()) };
    let mut block = MappedFields::of_mapping(source, "profiling", node)?;
    let enabled = block.take("enabled").map(|node| flag(source, "enabled", node)).transpose()?.unwrap_or(false);
    let tool = block.take("tool").map(|node| text(source, "tool", node)).transpose()?;
    let trigger = block.take("trigger").map(|node| text(source, "trigger", node)).transpose()?;
    block.finish(PROFILING)?;
    plan.line(0, &format!("profiling: {{enabled: {enabled}}}"));
    let does =
        if enabled { "records steps of each case and explains them in the report" } else { "nothing is recorded" };
    plan.became(format!("profiling.enabled: {enabled}"), format!("profiling: {{enabled: {enabled}}}: {does}"));
    if let Some(tool) = tool {
        let hint = match tool {
            TOOL => "; `rankmark profile --tool nsys -- COMMAND` traces a job of your own with it",
            _ => "",
        };
        plan.warning(format!("profiling.tool: {} is not started: Rankmark records steps itself{hint}", shown(tool)));
    }
    if let Some(trigger) = trigger {
        let hint = match trigger {
            TRIGGER => "; `rankmark profile --target sync_stalls results/DIR` shows stalls alone",
            _ => "; `rankmark profile --target sync_stalls|overlap|input results/DIR` shows one subject",
        };
        let what = format!(
            "profiling.trigger: {} starts nothing: steps are recorded whatever they show{hint}",
            shown(trigger)
        );
        plan.warning(what);
    }
    Ok(())
}
