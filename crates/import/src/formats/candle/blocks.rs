//! The three blocks of a configuration, read and checked by kind.

use terms::Error;

use crate::Source;
use crate::fields::{MappedFields, one_of, positive_number, text, whole};
use crate::tree::ValueNode;

/// One configuration as its file has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) hardware: Hardware,
    pub(super) model: ModelBlock,
    pub(super) division: Division,
}

/// The block `hardware`.
#[derive(Clone, Debug, Default)]
pub(super) struct Hardware {
    pub(super) devices: Vec<&'static str>,
    pub(super) number: Option<u64>,
    pub(super) memory_gb: Option<f64>,
    pub(super) interconnects: Vec<&'static str>,
    pub(super) network_gbps: Option<f64>,
}

/// The block `model`.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelBlock {
    pub(super) sizes: Vec<&'static str>,
    pub(super) parameters: Option<u64>,
    pub(super) layers: Option<u64>,
    pub(super) width: Option<u64>,
    pub(super) line: usize,
}

/// The block `parallelization`.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    pub(super) strategies: Vec<&'static str>,
    pub(super) data: Option<u64>,
    pub(super) model: Option<u64>,
    pub(super) pipeline: Option<u64>,
    pub(super) micro_batches: Option<u64>,
    pub(super) line: usize,
}

const DEVICES: &[&str] = &["metal", "cuda", "cpu"];
const INTERCONNECTS: &[&str] = &["unified", "nvlink", "system"];
const SIZES: &[&str] = &["small", "medium", "large"];
pub(super) const STRATEGIES: &[&str] = &["data", "model", "pipeline", "hybrid"];
/// Ranks and sizes of meshes.
const RANKS: u64 = 1024;

/// A configuration of these blocks.
pub(super) fn configuration(
    source: &Source,
    name: &str,
    blocks: &[(&str, &ValueNode)],
    line: usize,
) -> Result<Configuration, Error> {
    let mut read = Configuration { name: name.to_owned(), ..Configuration::default() };
    for block in ["hardware", "model", "parallelization"] {
        let found = blocks.iter().find(|(name, _)| *name == block).map(|(_, node)| *node);
        let node = found.ok_or_else(|| source.error(line, format!("the configuration has no block `{block}`")))?;
        let fields = MappedFields::of_mapping(source, block, node)?;
        match block {
            "hardware" => read.hardware = hardware(fields)?,
            "model" => read.model = model(fields)?,
            _ => read.division = division(fields)?,
        }
    }
    Ok(read)
}

/// The words of a field: one, or alternatives as in `small|medium|large`.
fn alternatives(
    fields: &mut MappedFields<'_>,
    name: &str,
    words: &[&'static str],
) -> Result<Option<Vec<&'static str>>, Error> {
    let Some(node) = fields.take(name) else { return Ok(None) };
    let source = fields.source;
    let given = text(source, name, node)?;
    let mut found: Vec<&'static str> = Vec::new();
    for part in given.split('|') {
        let word = one_of(source, name, part, node.at, words)?;
        if !found.contains(&word) {
            found.push(word);
        }
    }
    Ok(Some(found))
}

fn ranks(fields: &mut MappedFields<'_>, name: &str, high: u64) -> Result<Option<u64>, Error> {
    fields.take(name).map(|node| whole(fields.source, name, node, 1, high)).transpose()
}

fn hardware(mut fields: MappedFields<'_>) -> Result<Hardware, Error> {
    let decimal = |fields: &mut MappedFields<'_>, name: &str| {
        fields.take(name).map(|node| positive_number(fields.source, name, node, 1e6)).transpose()
    };
    let read = Hardware {
        devices: alternatives(&mut fields, "device_type", DEVICES)?.unwrap_or_else(|| vec!["cpu"]),
        number: ranks(&mut fields, "num_devices", RANKS)?,
        memory_gb: decimal(&mut fields, "memory_per_device_gb")?,
        interconnects: alternatives(&mut fields, "interconnect", INTERCONNECTS)?.unwrap_or_default(),
        network_gbps: decimal(&mut fields, "network_bandwidth_gbps")?,
    };
    fields.finish(&["device_type", "num_devices", "memory_per_device_gb", "interconnect", "network_bandwidth_gbps"])?;
    Ok(read)
}

fn model(mut fields: MappedFields<'_>) -> Result<ModelBlock, Error> {
    let line = fields.line;
    alternatives(&mut fields, "model_type", &["transformer"])?;
    let read = ModelBlock {
        sizes: alternatives(&mut fields, "size", SIZES)?.unwrap_or_default(),
        parameters: ranks(&mut fields, "parameters", 1 << 50)?,
        layers: ranks(&mut fields, "layers", 10_000)?,
        width: ranks(&mut fields, "hidden_size", 1 << 20)?,
        line,
    };
    let source = fields.source;
    fields.finish(&["model_type", "size", "parameters", "layers", "hidden_size"])?;
    if read.sizes.is_empty() {
        return Err(source.error(line, "`model` has no `size`").hint(format!("valid values: {}", SIZES.join(", "))));
    }
    Ok(read)
}

fn division(mut fields: MappedFields<'_>) -> Result<Division, Error> {
    let line = fields.line;
    let read = Division {
        strategies: alternatives(&mut fields, "strategy", STRATEGIES)?.unwrap_or_else(|| vec!["data"]),
        data: ranks(&mut fields, "data_parallel_size", RANKS)?,
        model: ranks(&mut fields, "model_parallel_size", RANKS)?,
        pipeline: ranks(&mut fields, "pipeline_parallel_size", RANKS)?,
        micro_batches: ranks(&mut fields, "micro_batches", RANKS)?,
        line,
    };
    let names = ["strategy", "data_parallel_size", "model_parallel_size", "pipeline_parallel_size", "micro_batches"];
    fields.finish(&names)?;
    Ok(read)
}
