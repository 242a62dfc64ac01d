//! Rows of measured steps that others published or logged: a table of comma-separated values.

mod text;

use std::collections::HashMap;

use parallel::{Mesh, Optimizer, Recipe, Schedule};
use terms::{Dtype, Error};

use crate::software::Software;
use crate::workload::{Emulated, Workload};

use text::HeadedTable;

/// A measured step.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Line of the file, from 1.
    pub line: usize,
    /// What was run.
    pub workload: Workload,
    /// Measured seconds of a step: the geometric mean if the table has several.
    pub step_s: f64,
    /// Relative spread of the times of equal rows; zero for a single one.
    pub spread: f64,
    /// Rows of the table that it stands for.
    pub count: usize,
}

/// What a table holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredRows {
    /// Rows that can be used, in the order of the file.
    pub rows: Vec<Row>,
    /// Lines that cannot be used, each with the reason.
    pub skipped: Vec<(usize, String)>,
}

/// Columns of a table, each with whether a table must have it.
const COLUMNS: [(&str, bool); 17] = [
    ("machine", false),
    ("gpus", true),
    ("gpus_per_node", true),
    ("hidden", true),
    ("heads", true),
    ("layers", true),
    ("sequence", true),
    ("vocabulary", true),
    ("tensor", true),
    ("data", true),
    ("pipeline", true),
    ("interleave", false),
    ("micro_batch", true),
    ("global_batch", true),
    ("recompute", false),
    ("sequence_parallel", false),
    ("step_s", true),
];

/// Most rows that are read.
const MOST_ROWS: usize = 100_000;
/// The largest number of GPUs, samples or features that is read.
const MOST_OF_A_SIZE: usize = 1 << 20;

/// Reads a table.
///
/// # Errors
/// When a column is missing, or no row can be used.
pub fn read_rows(text: &str) -> Result<MeasuredRows, Error> {
    let table = HeadedTable::parse(text, MOST_ROWS)?;
    let lacking: Vec<&str> =
        COLUMNS.iter().filter(|(name, must)| *must && table.column(name).is_none()).map(|(name, _)| *name).collect();
    if !lacking.is_empty() {
        let all: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        return Err(Error::new("the table of steps cannot be read")
            .cause(format!("it has no column {}", lacking.join(", ")))
            .hint(format!("columns: {}", all.join(", "))));
    }
    let mut found = MeasuredRows::default();
    let mut read: Vec<(Vec<String>, Row)> = Vec::new();
    for (line, cells) in table.lines() {
        match row(&table, line, cells) {
            Ok(row) => {
                let key = COLUMNS[..16].iter().map(|(name, _)| table.cell(cells, name).to_owned()).collect();
                read.push((key, row));
            }
            Err(why) => found.skipped.push((line, why)),
        }
    }
    found.skipped.extend(without_odd_units(&mut read));
    found.skipped.sort_by_key(|(line, _)| *line);
    let mut known: HashMap<Vec<String>, (usize, Vec<f64>)> = HashMap::new();
    for (key, row) in read {
        match known.get_mut(&key) {
            Some((_, times)) => times.push(row.step_s),
            None => {
                known.insert(key, (found.rows.len(), vec![row.step_s]));
                found.rows.push(row);
            }
        }
    }
    for (at, times) in known.into_values() {
        merge(&mut found.rows[at], &times);
    }
    if found.rows.is_empty() {
        let (line, why) = found.skipped.first().cloned().unwrap_or((1, "it has no rows".to_owned()));
        return Err(Error::new("no row of the table can be used").cause(format!("line {line}: {why}")));
    }
    Ok(found)
}

/// Rates of rows are so far from the median rate where a time is in milliseconds, or in minutes.
const OTHER_UNIT: f64 = 50.0;

/// Takes rows away whose rate is far from that of the others, and says why: their times are in another unit.
fn without_odd_units(rows: &mut Vec<(Vec<String>, Row)>) -> Vec<(usize, String)> {
    let rates: Vec<f64> = rows.iter().map(|(_, row)| rate(row)).collect();
    let mut sorted: Vec<f64> = rates.iter().copied().filter(|rate| *rate > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(median) = sorted.get(sorted.len() / 2).copied() else { return Vec::new() };
    let mut odd = Vec::new();
    let mut at = 0;
    rows.retain(|(_, row)| {
        let times = median / rates[at];
        at += 1;
        let is_odd = rates[at - 1] > 0.0 && !(1.0 / OTHER_UNIT..=OTHER_UNIT).contains(&times);
        if is_odd {
            odd.push((
                row.line,
                format!(
                    "step_s is {}, {times:.3} times what the rate of the other rows gives: seconds are read",
                    row.step_s
                ),
            ));
        }
        !is_odd
    });
    odd
}

/// Operations a second on each rank.
fn rate(row: &Row) -> f64 {
    let recipe = &row.workload.recipe;
    let of_sample = recipe.model.flops(recipe.model.headline()).ok().flatten().unwrap_or(0.0);
    of_sample * recipe.global_batch() as f64 / recipe.mesh.ranks() as f64 / row.step_s
}

/// Equal rows become one: what they differ by is the spread between launches.
fn merge(row: &mut Row, times: &[f64]) {
    let logarithms: Vec<f64> = times.iter().map(|time| time.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    row.step_s = mean.exp();
    row.count = times.len();
    if times.len() > 1 {
        let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
        row.spread = (squares / (times.len() - 1) as f64).sqrt();
    }
}

fn row(table: &HeadedTable<'_>, line: usize, cells: &[String]) -> Result<Row, String> {
    let count = |name: &str| -> Result<usize, String> {
        let cell = table.cell(cells, name);
        // A program that reads and writes a table with empty cells makes `8.0` of 8.
        match cell.strip_suffix(".0").unwrap_or(cell).parse::<usize>() {
            Ok(value) if (1..=MOST_OF_A_SIZE).contains(&value) => Ok(value),
            Ok(value) if value > 0 => Err(format!("{name} is `{cell}`; it must be at most {MOST_OF_A_SIZE}")),
            _ => Err(format!("{name} is `{cell}`; it must be a whole number above zero")),
        }
    };
    let optional = |name: &str| if table.cell(cells, name).is_empty() { Ok(1) } else { count(name) };
    let cell = table.cell(cells, "step_s");
    let step_s = cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    let step_s = step_s.ok_or_else(|| format!("step_s is `{cell}`; it must be a number of seconds above zero"))?;
    let mesh = Mesh { data: count("data")?, tensor: count("tensor")?, pipeline: count("pipeline")? };
    let gpus = count("gpus")?;
    if mesh.ranks() != gpus {
        return Err(format!("the mesh {mesh} has {} ranks, not {gpus}", mesh.ranks()));
    }
    let (micro_batch, global) = (count("micro_batch")?, count("global_batch")?);
    if !global.is_multiple_of(micro_batch * mesh.data) {
        return Err(format!("{global} samples are not a multiple of {micro_batch} x {} replicas", mesh.data));
    }
    let (full, attention) = match table.cell(cells, "recompute").to_lowercase().as_str() {
        "full" => (true, false),
        "attention" | "selective" => (false, true),
        "" | "none" | "0" => (false, false),
        other => return Err(format!("recompute is `{other}`; valid values: none, attention, full")),
    };
    let shape = GptShape {
        layers: count("layers")?,
        hidden: count("hidden")?,
        heads: count("heads")?,
        sequence: count("sequence")?,
        vocabulary: count("vocabulary")?,
    };
    let (chunks, micros) = (optional("interleave")?, global / micro_batch / mesh.data);
    if chunks > 1 && !micros.is_multiple_of(mesh.pipeline) {
        return Err(format!(
            "interleave is {chunks}: {micros} micro-batches are not a multiple of {} stages",
            mesh.pipeline
        ));
    }
    let workload = Workload {
        recipe: Recipe {
            micro_batch,
            micro_batches: vec![micros; mesh.data],
            schedule: if chunks > 1 { Schedule::Interleaved } else { Schedule::OneForwardOneBackward },
            chunks,
            stages: shape.stages(mesh.pipeline * chunks)?,
            sequence_parallel: yes_or_no("sequence_parallel", table.cell(cells, "sequence_parallel"))?,
            recompute: full,
            ..shape.megatron(mesh)?
        },
        ranks_per_node: count("gpus_per_node")?,
        software: Software::Megatron,
        recompute_attention: attention,
        emulated: Emulated::default(),
    };
    // Of a step that is as short as it may be: one that is too long to be planned here can be predicted.
    parallel::check(&Recipe { micro_batches: vec![chunks * mesh.pipeline; mesh.data], ..workload.recipe.clone() })
        .map_err(|refused| refused.error.what)?;
    Ok(Row { line, workload, step_s, spread: 0.0, count: 1 })
}

/// Whether a cell says yes, which programs write in several ways.
fn yes_or_no(name: &str, cell: &str) -> Result<bool, String> {
    match cell.to_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "" | "0" | "false" | "no" => Ok(false),
        _ => Err(format!("{name} is `{cell}`; valid values: 0, 1, false, true, no, yes")),
    }
}

/// The sizes of a GPT model.
struct GptShape {
    layers: usize,
    hidden: usize,
    heads: usize,
    sequence: usize,
    vocabulary: usize,
}

impl GptShape {
    /// Blocks of each place: equal numbers of layers, the embedding on the first, the head on the last.
    fn stages(&self, places: usize) -> Result<Vec<usize>, String> {
        if !self.layers.is_multiple_of(places) {
            return Err(format!("{} layers do not divide into {places} places", self.layers));
        }
        let mut sizes = vec![self.layers / places; places];
        sizes[0] += 1;
        sizes[places - 1] += 1;
        Ok(sizes)
    }

    /// A step as Megatron-LM trains it: f16, Adam, gradients clipped and exchanged at the end of the step.
    fn megatron(&self, mesh: Mesh) -> Result<Recipe, String> {
        let settings = [
            ("layers", self.layers),
            ("width", self.hidden),
            ("heads", self.heads),
            ("vocabulary", self.vocabulary),
            ("sequence", self.sequence),
            ("positions", self.sequence),
        ];
        let mut settings: Vec<(String, f64)> =
            settings.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect();
        settings.push(("dropout".to_owned(), 0.1));
        let model = model::model("gpt2", &settings).map_err(|why| why.to_string())?;
        Ok(Recipe {
            bucket_bytes: 1 << 30,
            overlap: false,
            optimizer: Optimizer::AdamW { rate: 1e-4, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, decay: 0.1 },
            clip: Some(1.0),
            logits_multiple: 8,
            ..Recipe::plain(model, mesh, Dtype::F16)
        })
    }
}

#[cfg(test)]
mod tests;
