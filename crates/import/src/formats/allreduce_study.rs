//! The CSV of `benchmark_allreduce.py`, the all-reduce study of the CS336 course: backends, sizes and numbers of processes.

use terms::{Collective, Dtype, Error};

use super::csv::{self, Table};
use super::nccl::plain;
use crate::collective::{self, Call};
use crate::{Content, Details, Figures, Format, Results, Source};

/// The format.
pub(super) struct AllreduceStudy;

const BACKEND: &[&str] = &["backend"];
const DEVICE: &[&str] = &["device", "device_type"];
const RANKS: &[&str] = &["num_processes", "world_size", "num_procs", "processes", "nprocs"];
const MEGABYTES: &[&str] = &["data_size_mb", "size_mb", "data_size (MB)"];
const BYTES: &[&str] = &["bytes", "size_bytes", "data_size_bytes", "total_bytes"];
const DTYPE: &[&str] = &["dtype"];
const ITERATIONS: &[&str] = &["num_iters", "iterations", "num_iterations"];
const OP: &[&str] = &["op", "operation"];
/// Columns that are told and follow from others.
const OTHER: &[&str] = &[
    "bandwidth_gb_s",
    "bandwidth_gbps",
    "bandwidth_gb_per_s",
    "algbw_GBps",
    "busbw_GBps",
    "algbw_gbps",
    "busbw_gbps",
    "throughput_gb_s",
    "std_time_ms",
    "std_ms",
    "stdev_time",
    "std_time_s",
    "num_warmup",
    "total_elements",
    "num_elements",
];

/// A time: its columns, and what it becomes.
type Time = (&'static [&'static str], f64, fn(&mut Details) -> &mut Option<f64>);

const TIMES: &[Time] = &[
    (&["mean_time_ms", "avg_time_ms", "mean_ms", "time_ms"], 1e-3, |details| &mut details.mean),
    (&["mean_time_s", "time_s", "mean_time", "average_time"], 1.0, |details| &mut details.mean),
    (&["median_time_ms", "median_ms", "p50_ms"], 1e-3, |details| &mut details.p50),
    (&["p95_ms", "p95_time_ms"], 1e-3, |details| &mut details.p95),
    (&["p99_ms", "p99_time_ms"], 1e-3, |details| &mut details.p99),
    (&["min_time_ms", "min_ms"], 1e-3, |details| &mut details.min),
    (&["max_time_ms", "max_ms"], 1e-3, |details| &mut details.max),
];

impl Format for AllreduceStudy {
    fn name(&self) -> &'static str {
        "allreduce_study"
    }

    fn doc(&self) -> &'static str {
        "benchmark_allreduce.py of the CS336 course: its CSV"
    }

    fn recognises(&self, source: &Source) -> bool {
        let first = source.text().lines().next().unwrap_or_default();
        let has = |names: &[&str]| first.split(',').any(|column| names.contains(&column.trim()));
        has(BACKEND) && has(RANKS) && (has(MEGABYTES) || has(BYTES))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let table = csv::table(source)?;
        let mut known = vec![BACKEND, DEVICE, RANKS, MEGABYTES, BYTES, DTYPE, ITERATIONS, OP];
        known.extend(TIMES.iter().map(|(names, ..)| *names));
        known.extend(OTHER.iter().map(std::slice::from_ref));
        table.refuse_unknown(source, &known)?;
        for names in [BACKEND, RANKS] {
            if table.column(names).is_none() {
                return Err(source.error(1, format!("the column `{}` is missing", names[0])));
            }
        }
        if table.column(MEGABYTES).or(table.column(BYTES)).is_none() {
            return Err(source.error(1, "the column `data_size_mb` is missing"));
        }
        let mut results = Results::new("benchmark_allreduce.py", "mean over iterations and ranks");
        results.begin_run();
        results.note("the file does not tell what its mean is over: it is read as that of all iterations and ranks");
        if table.column(BYTES).is_none() {
            results.note("a megabyte is read as 1024 x 1024 bytes, as the scripts of this course compute it");
        }
        if table.column(DTYPE).is_none() {
            results.note("the file does not tell the element type: it is read as f32, that of the course");
        }
        for (line, row) in &table.rows {
            add(source, &table, *line, row, &mut results)?;
        }
        Ok(Content::Results(vec![results]))
    }
}

fn add(source: &Source, table: &Table, line: usize, row: &[String], results: &mut Results) -> Result<(), Error> {
    let cell = |names: &[&str]| table.column(names).map(|at| row[at].trim());
    let name = cell(BACKEND).unwrap_or_default().to_ascii_lowercase();
    let (backend, usual) = match name.as_str() {
        "gloo" => ("gloo", "cpu"),
        "nccl" => ("nccl", "cuda"),
        _ => {
            let what = format!("`backend`: expected gloo or nccl, found `{}`", plain(&name));
            return Err(source.error(line, what));
        }
    };
    let device = match cell(DEVICE).map(str::to_ascii_lowercase).as_deref() {
        None => usual,
        Some("cpu") => "cpu",
        Some("cuda" | "gpu") => "cuda",
        Some(other) => {
            let what = format!("`device`: expected cpu, cuda or gpu, found `{}`", plain(other));
            return Err(source.error(line, what));
        }
    };
    if cell(OP).is_some_and(|op| collective::op(op) != Some(Collective::AllReduce)) {
        results.omit(line, "its operation is not all_reduce");
        return Ok(());
    }
    let ranks = csv::whole(source, line, RANKS[0], cell(RANKS).unwrap_or_default())?;
    let ranks = u32::try_from(ranks).map_err(|_| source.error(line, "too many processes"))?;
    let bytes = bytes(source, line, cell(BYTES), cell(MEGABYTES))?;
    let dtype = cell(DTYPE).map_or(Some(Dtype::F32), |name| collective::dtype(name.trim_start_matches("torch.")));
    let (Some(dtype), Some(figures)) = (dtype, figures(source, table, line, row)?) else {
        results.omit(line, "it has no time, or an element type that is none of ours");
        return Ok(());
    };
    let call = Call {
        by_pytorch: true,
        dtype,
        bytes,
        in_place: Some(true),
        isolated: true,
        ..Call::new(Collective::AllReduce, ranks, backend, device)
    };
    let place = results.place(call.shape());
    let iterations = cell(ITERATIONS).map(|text| csv::whole(source, line, ITERATIONS[0], text)).transpose()?;
    results.add_at(place, Figures { iterations, ..figures });
    Ok(())
}

fn bytes(source: &Source, line: usize, bytes: Option<&str>, megabytes: Option<&str>) -> Result<u64, Error> {
    if let Some(text) = bytes {
        return csv::whole(source, line, BYTES[0], text);
    }
    let bytes = csv::number(source, line, MEGABYTES[0], megabytes.unwrap_or_default())? * f64::from(1 << 20);
    if bytes.fract() != 0.0 || !(1.0..1e18).contains(&bytes) {
        return Err(source.error(line, format!("`{}`: {bytes} bytes is no size", MEGABYTES[0])));
    }
    Ok(bytes as u64)
}

/// The times of a row; None where all are empty, as after a failed run.
fn figures(source: &Source, table: &Table, line: usize, row: &[String]) -> Result<Option<Figures>, Error> {
    let mut details = Details::default();
    for (names, unit, member) in TIMES {
        let Some(at) = table.column(names) else { continue };
        let text = row[at].trim();
        // pandas writes what is missing as nothing or as nan.
        if !text.is_empty() && !text.eq_ignore_ascii_case("nan") {
            *member(&mut details) = Some(csv::time(source, line, &table.header[at], text, *unit)?);
        }
    }
    let time = details.mean.or(details.p50);
    Ok(time.map(|time_s| Figures { time_s, details: Some(Box::new(details)), ..Figures::default() }))
}
