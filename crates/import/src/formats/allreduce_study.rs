//! The CSV of `benchmark_allreduce.py`, the all-reduce study of the CS336 course: backends, sizes and numbers of processes.
//!
//! `rankmark comm --output FILE.csv` and the layout `allreduce-study` of reports write such a CSV, too, with more columns, and
//! it comes back as it was. A megabyte is 1e6 bytes in both, because the study's sizes are 1 MB to 1 GB and its flag for 1 GB
//! is 1000.

use terms::{Collective, Dtype, Error, Mode, Named, Reduce, Runtime};

use super::csv::{self, CsvTable};
use super::nccl::plain;
use super::runs::ToolGroups;
use crate::collective::{self, MeasuredCall};
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
const WARMUP: &[&str] = &["num_warmup", "warmup", "num_warmup_iters"];
const ELEMENTS: &[&str] = &["total_elements", "num_elements"];
/// Columns that only a file of ours has.
const RUNTIME: &[&str] = &["runtime"];
const REDUCE: &[&str] = &["reduce"];
const IN_PLACE: &[&str] = &["in_place"];
const MODE: &[&str] = &["mode"];
/// Columns that follow from size, ranks and time.
const BANDWIDTHS: &[&str] = &[
    "bandwidth_gb_s",
    "bandwidth_gbps",
    "bandwidth_gb_per_s",
    "algbw_GBps",
    "busbw_GBps",
    "algbw_gbps",
    "busbw_gbps",
    "throughput_gb_s",
];
/// Columns of times that name no unit.
const WITHOUT_UNIT: &[&str] = &["mean_time", "average_time", "stdev_time", "std_time"];

/// A time: its columns, and what it becomes.
type Time = (&'static [&'static str], f64, fn(&mut Details) -> &mut Option<f64>);

const TIMES: &[Time] = &[
    (&["mean_time_ms", "avg_time_ms", "mean_ms", "time_ms"], 1e-3, |details| &mut details.mean),
    (&["mean_time_s", "avg_time_s", "time_s", "mean_time", "average_time"], 1.0, |details| &mut details.mean),
    (&["median_time_ms", "median_ms", "p50_ms"], 1e-3, |details| &mut details.p50),
    (&["p95_ms", "p95_time_ms"], 1e-3, |details| &mut details.p95),
    (&["p99_ms", "p99_time_ms"], 1e-3, |details| &mut details.p99),
    (&["min_time_ms", "min_ms"], 1e-3, |details| &mut details.min),
    (&["max_time_ms", "max_ms"], 1e-3, |details| &mut details.max),
];
/// Standard deviations, and seconds of their unit.
const DEVIATIONS: [(&[&str], f64); 2] =
    [(&["std_time_ms", "std_ms"], 1e-3), (&["std_time_s", "std_time", "stdev_time"], 1.0)];

impl Format for AllreduceStudy {
    fn about(&self) -> (&'static str, &'static str) {
        ("allreduce_study", "benchmark_allreduce.py of the CS336 course: its CSV")
    }

    fn marks(&self) -> &'static [&'static str] {
        &["backend", "data_size_mb", "num_processes"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let first = source.text().lines().next().unwrap_or_default();
        let has = |names: &[&str]| first.split(',').any(|column| names.contains(&column.trim()));
        has(BACKEND) && has(RANKS) && (has(MEGABYTES) || has(BYTES))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let table = csv::table(source)?;
        let mut known = vec![BACKEND, DEVICE, RANKS, MEGABYTES, BYTES, DTYPE, ITERATIONS, OP, WARMUP, ELEMENTS];
        known.extend(TIMES.iter().map(|(names, ..)| *names));
        known.extend(DEVIATIONS.iter().map(|(names, _)| *names));
        known.extend(BANDWIDTHS.iter().map(std::slice::from_ref));
        if !is_ours(&table) {
            table.refuse_unknown(source, "benchmark_allreduce.py, which names no version,", &known)?;
        }
        for names in [BACKEND, RANKS] {
            if table.column(names).is_none() {
                return Err(source.error(1, format!("the column `{}` is missing", names[0])));
            }
        }
        if table.column(MEGABYTES).or(table.column(BYTES)).is_none() {
            return Err(source.error(1, "the column `data_size_mb` is missing"));
        }
        let mut results = ToolGroups::default();
        for (line, row) in &table.rows {
            let warmup = table.column(WARMUP).map_or("", |at| row[at].trim());
            let iterations = table.column(ITERATIONS).map_or("", |at| row[at].trim());
            // Rows of other warm-ups or iterations are not trials of one case.
            let results = results.for_method(&format!("{warmup} {iterations}"), || results_of(&table, warmup));
            add(source, &table, *line, row, results)?;
        }
        Ok(Content::Results(results.finish()))
    }
}

/// Results of rows with this warm-up.
fn results_of(table: &CsvTable, warmup: &str) -> Results {
    let is_ours = is_ours(table);
    let mut results = match is_ours {
        true => Results::new("Rankmark", "mean over samples of the slowest rank"),
        false => Results::new("benchmark_allreduce.py", "mean over iterations and ranks"),
    };
    results.begin_run();
    results.cut = table.column(&[RUN_END]).is_some();
    if !is_ours {
        results.note("the file does not tell what its mean is over: it is read as that of all iterations and ranks");
        // It waits for the device behind each call, and ranks do not meet.
        results
            .note("no barrier stands between the study's calls: the mode is `streaming`, as with its flags on `comm`");
    }
    if table.column(BYTES).or(table.column(ELEMENTS)).is_none() {
        results.note("a megabyte is read as 1e6 bytes, as `--data-sizes` takes it");
    }
    if let Some(at) = table.column(WITHOUT_UNIT) {
        results.note(format!("the column `{}` names no unit: it is read as seconds", table.header[at]));
    }
    if table.column(DTYPE).is_none() {
        results.note("the file does not tell the element type: it is read as f32, that of the course");
    }
    if !warmup.is_empty() {
        results.tell([(WARMUP[0].to_owned(), plain(warmup))]);
    }
    if let Some(at) = table.column(BANDWIDTHS) {
        results.note(format!("`{}` is computed again from size, ranks and time", table.header[at]));
    }
    results
}

/// The columns of the CSV that we write, in their order.
const OURS: &[&str] = &[
    "backend",
    "device",
    "world_size",
    "data_size_mb",
    "avg_time_s",
    "std_time_s",
    "bandwidth_gb_s",
    "runtime",
    "dtype",
    "reduce",
    "in_place",
    "mode",
];
/// The columns of the study. Files of ours without the others are read, too.
const OURS_OF_THE_STUDY: usize = 7;
/// The column that stands behind ours where the run was incomplete: how it ended.
const RUN_END: &str = "run_end";

fn is_ours(table: &CsvTable) -> bool {
    let header = table.header.strip_suffix(&[RUN_END.to_owned()]).unwrap_or(&table.header);
    header == OURS || table.header == OURS[..OURS_OF_THE_STUDY]
}

/// Who moved the data, and where it was if the file does not say.
struct Backend {
    name: &'static str,
    /// Where the file does not tell the runtime.
    by_pytorch: bool,
    device: &'static str,
}

/// Backends that only PyTorch has.
const PYTORCH_ONLY: &[&str] = &["gloo", "ucc", "ucc/tl/nccl", "ucc/tl/cuda", "ucc/tl/ucp"];

/// A backend of the study, or, in a CSV of ours, of Rankmark.
fn backend(name: &str, is_ours: bool) -> Result<Backend, &'static str> {
    let backend = |name, by_pytorch, device| Ok(Backend { name, by_pytorch, device });
    let of_pytorch = PYTORCH_ONLY.iter().find(|known| **known == name);
    match name {
        "gloo" => backend("gloo", true, "cpu"),
        // The study is one of PyTorch. In a file of ours, a missing runtime means native ranks.
        "nccl" => backend("nccl", !is_ours, "cuda"),
        "shm" if is_ours => backend("shm", false, "cpu"),
        "mpi" if is_ours => backend("mpi", false, "cpu"),
        "reference" if is_ours => backend("reference", false, "cpu"),
        "sim" if is_ours => Err("times of `sim` are computed and not measured"),
        _ if is_ours => match of_pytorch {
            Some(name) => backend(name, true, "cpu"),
            None => Err("expected gloo, ucc, nccl, shm, mpi or reference"),
        },
        _ => Err("expected gloo or nccl"),
    }
}

/// What a row of ours says in addition to the columns of the study; None where it does not.
struct Particulars {
    runtime: Option<Runtime>,
    reduce: Option<Reduce>,
    in_place: Option<bool>,
    mode: Option<Mode>,
}

impl Particulars {
    fn from_row(source: &Source, table: &CsvTable, line: usize, row: &[String]) -> Result<Self, Error> {
        let cell = |names: &[&str]| table.column(names).map(|at| row[at].trim()).filter(|text| !text.is_empty());
        Ok(Self {
            runtime: cell(RUNTIME).map(|text| word(source, line, RUNTIME[0], text)).transpose()?,
            reduce: cell(REDUCE).map(|text| word(source, line, REDUCE[0], text)).transpose()?,
            in_place: cell(IN_PLACE).map(|text| switch(source, line, IN_PLACE[0], text)).transpose()?,
            mode: cell(MODE).map(|text| word(source, line, MODE[0], text)).transpose()?,
        })
    }
}

/// The word in a cell.
fn word<T: Named>(source: &Source, line: usize, name: &str, cell: &str) -> Result<T, Error> {
    let wrong =
        || source.error(line, format!("`{name}`: expected {}, found `{}`", T::names().join(" or "), plain(cell)));
    T::from_name(cell).ok_or_else(wrong)
}

/// `true` or `false` in a cell.
fn switch(source: &Source, line: usize, name: &str, cell: &str) -> Result<bool, Error> {
    let wrong = || source.error(line, format!("`{name}`: expected true or false, found `{}`", plain(cell)));
    cell.parse().map_err(|_| wrong())
}

fn add(source: &Source, table: &CsvTable, line: usize, row: &[String], results: &mut Results) -> Result<(), Error> {
    let cell = |names: &[&str]| table.column(names).map(|at| row[at].trim());
    let name = cell(BACKEND).unwrap_or_default().to_ascii_lowercase();
    let is_ours = is_ours(table);
    let backend = match backend(&name, is_ours) {
        Ok(backend) => backend,
        Err(why) if name == "sim" && is_ours => {
            results.omit(line, why);
            return Ok(());
        }
        Err(why) => return Err(source.error(line, format!("`backend`: {why}, found `{}`", plain(&name)))),
    };
    let device = device(source, line, cell(DEVICE), &backend)?;
    let particulars = Particulars::from_row(source, table, line, row)?;
    if is_ours && particulars.runtime.is_none() && backend.name == "nccl" {
        results.note("the file does not tell the runtime: `nccl` is read as that of native ranks");
    }
    if cell(OP).is_some_and(|op| collective::op(op) != Some(Collective::AllReduce)) {
        results.omit(line, "its operation is not all_reduce");
        return Ok(());
    }
    let ranks = csv::whole(source, line, RANKS[0], cell(RANKS).unwrap_or_default())?;
    let ranks = u32::try_from(ranks).map_err(|_| source.error(line, "too many processes"))?;
    let dtype = cell(DTYPE).map_or(Some(Dtype::F32), |name| collective::dtype(name.trim_start_matches("torch.")));
    let (Some(dtype), Some(figures)) = (dtype, figures(source, table, line, row)?) else {
        results.omit(line, "it has no time, or an element type that rankmark does not have");
        return Ok(());
    };
    // A call of this backend would be read as one of PyTorch, whatever the row says.
    if particulars.runtime == Some(Runtime::Native) && PYTORCH_ONLY.contains(&backend.name) {
        results.omit(line, format!("runtime `native` has no backend `{}`", backend.name));
        return Ok(());
    }
    if particulars.mode == Some(Mode::Decode) {
        results.omit(line, "mode `decode`: the row does not say what ranks computed between calls");
        return Ok(());
    }
    let bytes = bytes(source, line, [BYTES, ELEMENTS, MEGABYTES].map(cell), dtype)?;
    let by_pytorch = particulars.runtime.map_or(backend.by_pytorch, |runtime| runtime == Runtime::Pytorch);
    let call = MeasuredCall {
        by_pytorch,
        dtype,
        bytes,
        reduce: particulars.reduce,
        // The study's script works in place. Native ranks do what their defaults are.
        in_place: particulars.in_place.or(by_pytorch.then_some(true)),
        isolated: particulars.mode == Some(Mode::Isolated),
        ..MeasuredCall::new(Collective::AllReduce, ranks, backend.name, device)
    };
    let place = results.place(call.shape());
    if is_ours && !results.shapes()[place].1.is_empty() {
        results.quote(format!("line {line} equals an earlier line: it is read as another trial"));
    }
    let iterations = cell(ITERATIONS).map(|text| csv::whole(source, line, ITERATIONS[0], text)).transpose()?;
    results.add_at(place, Figures { iterations, ..figures });
    Ok(())
}

/// Where the buffers were.
fn device(source: &Source, line: usize, cell: Option<&str>, backend: &Backend) -> Result<&'static str, Error> {
    match cell.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(backend.device),
        Some("cpu") => Ok("cpu"),
        Some("cuda" | "gpu") => Ok("cuda"),
        Some(other) => {
            let what = format!("`device`: expected cpu, cuda or gpu, found `{}`", plain(other));
            Err(source.error(line, what))
        }
    }
}

/// The size of a row: in bytes, else by its elements, else in megabytes.
fn bytes(source: &Source, line: usize, cells: [Option<&str>; 3], dtype: Dtype) -> Result<u64, Error> {
    let [bytes, elements, megabytes] = cells;
    if let Some(text) = bytes {
        return csv::whole(source, line, BYTES[0], text);
    }
    if let Some(text) = elements {
        let elements = csv::whole(source, line, ELEMENTS[0], text)?;
        let bytes = elements.checked_mul(dtype.bytes());
        return bytes.ok_or_else(|| source.error(line, format!("`{}`: too many elements", ELEMENTS[0])));
    }
    // `0.1` is not a number of a binary fraction: what it becomes is rounded to a byte.
    let bytes =
        (csv::parse_number(source, line, MEGABYTES[0], megabytes.unwrap_or_default())? * 1e6 * 1e3).round() / 1e3;
    if bytes.fract() != 0.0 || !(1.0..1e18).contains(&bytes) {
        return Err(source.error(line, format!("`{}`: {bytes} bytes is not a size", MEGABYTES[0])));
    }
    Ok(bytes as u64)
}

/// The column of these names, and its cell. pandas writes what is missing as nothing or as nan.
fn given<'t>(table: &'t CsvTable, row: &'t [String], names: &[&str]) -> Option<(&'t str, &'t str)> {
    let at = table.column(names)?;
    let text = row[at].trim();
    (!text.is_empty() && !text.eq_ignore_ascii_case("nan")).then_some((&table.header[at], text))
}

/// The times of a row; None where all are empty, as after a failed run.
fn figures(source: &Source, table: &CsvTable, line: usize, row: &[String]) -> Result<Option<Figures>, Error> {
    let mut details = Details::default();
    for (names, unit, member) in TIMES {
        if let Some((name, text)) = given(table, row, names) {
            *member(&mut details) = Some(csv::time(source, line, name, text, *unit)?);
        }
    }
    for (names, unit) in DEVIATIONS {
        if let Some((name, text)) = given(table, row, names) {
            details.std = Some(csv::deviation(source, line, name, text, unit)?);
        }
    }
    let time = details.mean.or(details.p50);
    Ok(time.map(|time_s| Figures { time_s, details: Some(Box::new(details)), ..Figures::default() }))
}
