//! The JSON that nccl-tests writes with `-J FILE`, version 3 of its schema: one file for each program, number of ranks and
//! backend, as nccl-tests measures one of each at a time.
//!
//! What it has no place for (trials, intervals, percentiles of samples, caveats) is left out. So are cases that must not be
//! taken for plain measurements, because it has no place for their mark.

mod facts;

use std::collections::{BTreeMap, HashMap};

use record::file::FileStem;
use record::{Case, CaseLine, Caveat, Machine};
use serde_json::{Map, Value, json};
use terms::{Bytes, Collective, Dtype, Named, Reduce, Seconds, Status};

use crate::number::{count, list};
use crate::words::damage::end_banner;
use crate::{Artifact, Error, Format, Run};

/// The layout.
#[derive(Debug)]
pub(super) struct NcclTestsJson;

/// nccl-tests' word for a reduction. Our own is another, so it is spelled once.
const REDUCTION: &str = "re\u{64}op";

/// Cases of these are not plain measurements, and say so wherever we show them.
const MARKS: [Caveat; 5] =
    [Caveat::Simulated, Caveat::Emulated, Caveat::Paced, Caveat::ComputeAsleep, Caveat::Injected];

/// The most ranks of a file, which lists each.
const MOST_RANKS: u32 = 1 << 16;

/// Fields that differ between the rows of one file.
const OF_A_ROW: [&str; 5] = ["bytes", "dtype", "reduce", "root", "in_place"];

impl Format for NcclTestsJson {
    fn about(&self) -> (&'static str, &'static str) {
        (
            "nccl-tests-json",
            "the JSON of nccl-tests (-J): all_reduce_perf.json and others, a file for each program, backend and number of ranks",
        )
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let mut left_out = BTreeMap::new();
        let files = files(run, &mut left_out);
        let reasons: Vec<String> =
            left_out.iter().map(|(why, number)| format!("{} {why}", count(*number, "case", "cases"))).collect();
        if files.iter().all(|file| file.rows.is_empty()) {
            let what = "the layout `nccl-tests-json` needs measured collectives, and the record has none";
            let what = if reasons.is_empty() { what.to_owned() } else { format!("{what}: {}", list(&reasons)) };
            return Err(Error::new(what).hint("rankmark comm all_reduce --backend nccl --ranks 8"));
        }
        let record = record::read_run(&run.directory).ok();
        let known = Known {
            warmup: record.iter().flat_map(|record| &record.file.plan.cases).filter_map(fixed_warmup).collect(),
            machines: record.iter().map(|record| &record.file.machine).chain(&run.hosts).collect(),
        };
        let files: Vec<File<'_>> = files.into_iter().filter(|file| !file.rows.is_empty()).collect();
        let is_only = files.len() == 1;
        let mut taken: HashMap<FileStem, u64> = HashMap::new();
        let artifact = |file: &File<'_>| {
            let stem = file.stem(is_only);
            let number = taken.entry(stem.clone()).and_modify(|number| *number += 1).or_insert(1);
            let stem = if *number == 1 { stem } else { stem.and(*number) };
            Artifact::at(stem.file(".json"), format!("{}\n", file.json(run, &known)).into_bytes())
        };
        let mut artifacts: Vec<Artifact> = files.iter().map(artifact).collect();
        if let Some(first) = artifacts.first_mut().filter(|_| !reasons.is_empty()) {
            first.remark = Some(format!("left out: {}", list(&reasons)));
        }
        Ok(artifacts)
    }
}

/// What only the record as it was written has.
struct Known<'r> {
    /// Calls before the timed ones, of cases where they are fixed.
    warmup: HashMap<&'r str, u64>,
    /// With each GPU's model.
    machines: Vec<&'r Machine>,
}

fn fixed_warmup(case: &Case) -> Option<(&str, u64)> {
    Some((case.id.as_str(), u64::from(case.warmup()?)))
}

/// What one program would have measured in one run.
struct File<'r> {
    op: Collective,
    program: &'static str,
    first: &'r CaseLine,
    rows: Vec<NcclTestsRow<'r>>,
    /// The latest row of each call.
    known: HashMap<RowCall, usize>,
    /// Why cases failed that have no time.
    errors: Vec<String>,
}

/// What a row is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowCall {
    bytes: u64,
    dtype: Dtype,
    reduction: &'static str,
    root: Option<u64>,
}

/// A call, out of place and in place.
struct NcclTestsRow<'r> {
    call: RowCall,
    halves: [Option<&'r CaseLine>; 2],
}

/// The program of nccl-tests that measures an operation; None where it has none.
const fn program(op: Collective) -> Option<&'static str> {
    Some(match op {
        Collective::AllReduce => "all_reduce_perf",
        Collective::AllGather => "all_gather_perf",
        Collective::ReduceScatter => "reduce_scatter_perf",
        Collective::Broadcast => "broadcast_perf",
        Collective::Reduce => "reduce_perf",
        Collective::AllToAll => "alltoall_perf",
        Collective::Gather => "gather_perf",
        Collective::Scatter => "scatter_perf",
        Collective::SendRecv => "sendrecv_perf",
        Collective::AllToAllV | Collective::PingPong | Collective::Barrier => return None,
    })
}

const fn word_of(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float",
        Dtype::F64 => "double",
        Dtype::F16 => "half",
        Dtype::Bf16 => "bfloat16",
        Dtype::I8 => "int8",
        Dtype::I32 => "int32",
        Dtype::I64 => "int64",
        Dtype::U8 => "uint8",
        Dtype::U32 => "uint32",
        Dtype::U64 => "uint64",
        Dtype::F8E4M3 => "f8e4m3",
        Dtype::F8E5M2 => "f8e5m2",
    }
}

/// The files of a run, in the order of their first cases, and how many cases are left out for each reason.
fn files<'r>(run: &'r Run, left_out: &mut BTreeMap<String, usize>) -> Vec<File<'r>> {
    let mut files: Vec<File<'r>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for case in &run.cases {
        let (op, program, row) = match placed(case) {
            Ok(placed) => placed,
            Err(why) => {
                *left_out.entry(why).or_default() += 1;
                continue;
            }
        };
        let key = key(case);
        let at = *known.entry(key).or_insert_with(|| {
            files.push(File { op, program, first: case, rows: Vec::new(), known: HashMap::new(), errors: Vec::new() });
            files.len() - 1
        });
        match &case.time_s {
            Some(_) => files[at].add(row),
            None => files[at].errors.push(format!(
                "{op} {} bytes: {}",
                row.call.bytes,
                case.reason.as_deref().unwrap_or("it failed")
            )),
        }
    }
    files
}

/// Where a case belongs, or why it is left out: words behind `3 cases`.
fn placed(case: &CaseLine) -> Result<(Collective, &'static str, NcclTestsRow<'_>), String> {
    let text = |name: &str| case.parameters.get(name).and_then(Value::as_str);
    if case.benchmark != "collective" {
        return Err(format!("of `{}`, which nccl-tests does not measure", case.benchmark));
    }
    let op: Option<Collective> = text("op").and_then(|op| op.parse().ok());
    let Some((op, program)) = op.and_then(|op| Some((op, program(op)?))) else {
        return Err(format!("of `{}`, for which nccl-tests has no program", text("op").unwrap_or("?")));
    };
    if let Some(mark) = MARKS.iter().find(|mark| case.caveats.contains(mark)) {
        return Err(format!("with the mark `{}`, which the format cannot hold", mark.name()));
    }
    if case.simulated {
        return Err("with the mark `simulated`, which the format cannot hold".to_owned());
    }
    if text("groups").is_some() || text("direction").is_some_and(|direction| direction != "one_way") {
        return Err("of several groups or of both directions, which the format cannot hold".to_owned());
    }
    if case.ranks > MOST_RANKS {
        return Err(format!("of more than {MOST_RANKS} ranks"));
    }
    if case.time_s.is_none() && case.status != Status::Failed {
        return Err("that did not run".to_owned());
    }
    let dtype: Option<Dtype> = case.dtype.as_deref().and_then(|dtype| dtype.parse().ok());
    let (Some(bytes), Some(dtype)) = (case.bytes, dtype) else {
        return Err("without a size or an element type".to_owned());
    };
    let reduction = match text("reduce").unwrap_or("sum").parse::<Reduce>() {
        Ok(reduce) if op.reduces() => reduce.name(),
        Err(_) if op.reduces() => return Err("of a reduction that is not known".to_owned()),
        // Its sends name one, too.
        _ if op == Collective::SendRecv => "sum",
        _ => "none",
    };
    let root = case.parameters.get("root").and_then(Value::as_u64).unwrap_or(0);
    let is_in_place = case.parameters.get("in_place").and_then(Value::as_bool) == Some(true);
    let mut halves = [None; 2];
    halves[usize::from(is_in_place)] = Some(case);
    let call = RowCall { bytes, dtype, reduction, root: op.has_root().then_some(root) };
    Ok((op, program, NcclTestsRow { call, halves }))
}

/// What all cases of a file have in common.
fn key(case: &CaseLine) -> String {
    let common: Map<String, Value> = case
        .parameters
        .iter()
        .filter(|(name, _)| !OF_A_ROW.contains(name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    format!("{} {} {} {:?} {}", case.runtime, case.ranks, case.device, case.hosts, Value::Object(common))
}

impl<'r> File<'r> {
    /// Adds a row, or its half to one that lacks it.
    fn add(&mut self, row: NcclTestsRow<'r>) {
        let known = self.known.get(&row.call).map(|at| &mut self.rows[*at]);
        let is_free = |known: &NcclTestsRow<'r>| {
            known.halves.iter().zip(&row.halves).all(|(known, new)| known.is_none() || new.is_none())
        };
        match known.filter(|known| is_free(known)) {
            Some(known) => known.halves = [0, 1].map(|half| known.halves[half].or(row.halves[half])),
            None => {
                self.known.insert(row.call, self.rows.len());
                self.rows.push(row);
            }
        }
    }

    /// The file's name without its end: `all_reduce_perf`, with backend and ranks if it is one of several.
    fn stem(&self, is_only: bool) -> FileStem {
        let program = FileStem::of(self.program);
        if is_only {
            return program;
        }
        let runtime = if self.first.runtime == "native" { "" } else { &self.first.runtime };
        program.and(format!("{runtime}-{}", self.first.backend).as_str()).and(u64::from(self.first.ranks))
    }

    fn json(&self, run: &Run, known: &Known<'_>) -> Value {
        let results: Vec<Value> = self.rows.iter().map(|row| row.json(self)).collect();
        let halves = || self.rows.iter().flat_map(|row| row.halves).flatten();
        let wrong = halves().filter(|case| case.wrong.is_some_and(|wrong| wrong > 0)).count();
        let rates: Vec<f64> = halves().map(|case| bandwidths(self.op, case)[1]).collect();
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let mut errors: Vec<String> = end_banner(run).into_iter().chain(self.errors.iter().cloned()).collect();
        if errors.is_empty() {
            errors.push(String::new());
        }
        json!({
            "version": 3,
            "start_time": run.started.replace('T', " ").trim_end_matches('Z'),
            "args": self.arguments(),
            "env": run.environment.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
            "nccl_version": facts::nccl_version(run, self.first).unwrap_or(0),
            "config": self.config(run, known),
            "results": results,
            "out_of_bounds": { "count": wrong, "okay": (wrong == 0).to_string() },
            "average_bus_bandwidth": { "bandwidth": six(mean), "okay": "unchecked" },
            "errors": errors,
            "end_time": run.started.replace('T', " ").trim_end_matches('Z'),
        })
    }

    /// The case as a command line: of nccl-tests' options those that decide what a time is, then ours, which
    /// nccl-tests does not have.
    fn arguments(&self) -> Vec<String> {
        let [least, most] = self.sizes();
        let mut words =
            vec![self.program.to_owned(), "-b".to_owned(), least.to_string(), "-e".to_owned(), most.to_string()];
        if !self.first.caveats.contains(&Caveat::Imported) {
            // Our time is that of the slowest rank.
            words.extend(["-a", "3"].map(str::to_owned));
        }
        for (option, value) in
            [("backend", &self.first.backend), ("runtime", &self.first.runtime), ("device", &self.first.device)]
        {
            words.extend([format!("--{option}"), value.clone()]);
        }
        words
    }

    fn sizes(&self) -> [u64; 2] {
        let sizes = || self.rows.iter().map(|row| row.call.bytes);
        [sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)]
    }

    fn config(&self, run: &Run, known: &Known<'_>) -> Value {
        let [least, most] = self.sizes();
        let warmup = known.warmup.get(self.first.id.as_str());
        let calls = self.rows.iter().find_map(NcclTestsRow::calls);
        json!({
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": least,
            "maximum_bytes": most,
            "step_factor": self.step_factor(),
            "warmup_iters": warmup.copied().unwrap_or(0),
            "iterations": calls.unwrap_or(0),
            "aggregated_iterations": 1,
            "validation": 1,
            "graph": 0,
            "blocking_collectives": self.first.mode.is_single().to_string(),
            "per_iter_timing": "false",
            "per_iter_skip": 0,
            "parallel_init": "false",
            "devices": facts::devices(run, self.first, &known.machines),
        })
    }

    /// The factor between sizes; 1 where there is not one.
    fn step_factor(&self) -> u64 {
        let mut sizes: Vec<u64> = self.rows.iter().map(|row| row.call.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let factor = |pair: &[u64]| pair[1].checked_div(pair[0]).filter(|factor| factor * pair[0] == pair[1]);
        let mut factors = sizes.windows(2).map(factor);
        let first = factors.next().flatten().unwrap_or(1);
        if factors.all(|factor| factor == Some(first)) { first } else { 1 }
    }
}

impl NcclTestsRow<'_> {
    fn json(&self, file: &File<'_>) -> Value {
        let ranks = if file.op.size_counts_all_ranks() { u64::from(file.first.ranks).max(1) } else { 1 };
        let root = self.call.root.map_or(-1, |root| i64::try_from(root).unwrap_or(-1));
        let half = |half: Option<&CaseLine>| half.map(|case| measured(file.op, case));
        json!({
            "size": self.call.bytes,
            "count": self.call.bytes / ranks / self.call.dtype.bytes(),
            "type": word_of(self.call.dtype),
            REDUCTION: self.call.reduction,
            // nccl-tests writes it as it stands in its table.
            "root": format!("{root:>6}"),
            "out_of_place": half(self.halves[0]),
            "in_place": half(self.halves[1]),
            "actual_iterations": self.calls().unwrap_or(0),
            "experiment_name": "",
        })
    }

    /// Calls that were timed, of the half that has them.
    fn calls(&self) -> Option<u64> {
        let case = self.halves.iter().flatten().find(|case| case.samples.is_some())?;
        Some(case.samples?.saturating_mul(case.calls_per_sample.unwrap_or(1)))
    }
}

fn measured(op: Collective, case: &CaseLine) -> Value {
    let time = case.time_s.as_ref().map_or(0.0, |time| time.median);
    let [algorithm, bus] = bandwidths(op, case);
    json!({
        "time": six(time * 1e6),
        "alg_bw": six(algorithm),
        "bus_bw": six(bus),
        "nwrong": case.wrong.map(|wrong| wrong as f64),
    })
}

/// Bandwidths of the record; else by the formulas.
fn bandwidths(op: Collective, case: &CaseLine) -> [f64; 2] {
    let time = Seconds(case.time_s.as_ref().map_or(0.0, |time| time.median));
    let bytes = Bytes(case.bytes.unwrap_or(0));
    let of_record = |name: &str| case.metrics.get(name).and_then(Value::as_f64);
    let algorithm = of_record("algbw_gbs").or_else(|| op.algbw_gbs(bytes, time));
    let bus = of_record("busbw_gbs").or_else(|| op.busbw_gbs(bytes, case.ranks, time));
    [algorithm, bus].map(|rate| rate.unwrap_or(0.0))
}

/// With the six decimals that nccl-tests writes.
fn six(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(parameters: Value, bytes: u64, ranks: u32) -> CaseLine {
        let mut line: CaseLine = serde_json::from_value(json!({
            "schema": 1, "id": "000000000001", "benchmark": "collective", "status": "ok", "ranks": ranks,
            "parameters": parameters, "runtime": "native", "backend": "nccl", "device": "cuda", "mode": "streaming",
            "caveats": [], "simulated": false, "time_s": {"median": 2e-5}, "wrong": 0, "dtype": "f32", "bytes": bytes,
            "samples": 10, "calls_per_sample": 4,
        }))
        .unwrap();
        line.metrics.insert("busbw_gbs".to_owned(), 1.25.into());
        line
    }

    fn rendered(cases: Vec<CaseLine>) -> Result<Vec<(String, Value)>, Error> {
        let run = Run { started: "2026-11-20T10:15:00Z".to_owned(), cases, ..Run::default() };
        let name = |file: &Artifact| file.path.to_string();
        let value = |file: &Artifact| serde_json::from_slice(&file.content).unwrap();
        Ok(NcclTestsJson.render(&run)?.iter().map(|file| (name(file), value(file))).collect())
    }

    #[test]
    fn halves_of_a_size_are_one_row() {
        let op = |op: &str, in_place: bool| json!({"op": op, "in_place": in_place});
        let mut wrong = case(op("all_reduce", true), 4096, 8);
        (wrong.wrong, wrong.status) = (Some(3), Status::Failed);
        let cases = vec![case(op("all_reduce", false), 4096, 8), wrong, case(op("all_reduce", false), 8192, 8)];
        let [(name, file)] = &rendered(cases).unwrap()[..] else { panic!("one file") };
        assert_eq!(name, "all_reduce_perf.json");
        let half = |wrong: f64| json!({"time": 20.0, "alg_bw": 0.2048, "bus_bw": 1.25, "nwrong": wrong});
        assert_eq!(
            file["results"][0],
            json!({"size": 4096, "count": 1024, "type": "float", REDUCTION: "sum", "root": "    -1",
                   "out_of_place": half(0.0), "in_place": half(3.0), "actual_iterations": 40, "experiment_name": ""})
        );
        assert_eq!(file["results"][1]["in_place"], Value::Null);
        assert_eq!(file["out_of_bounds"], json!({"count": 1, "okay": "false"}));
        assert_eq!((&file["config"]["step_factor"], &file["config"]["iterations"]), (&json!(2), &json!(40)));
        assert_eq!((&file["start_time"], &file["nccl_version"]), (&json!("2026-11-20 10:15:00"), &json!(0)));
        assert_eq!(file["config"]["devices"].as_array().unwrap().len(), 8);
    }

    #[test]
    fn each_program_and_number_of_ranks_has_a_file() {
        let gather = json!({"op": "all_gather"});
        let files = rendered(vec![
            case(gather.clone(), 4096, 4),
            case(gather, 4096, 8),
            case(json!({"op": "broadcast", "root": 3, "buffers": "registered"}), 64, 4),
            case(json!({"op": "broadcast", "root": 3, "buffers": "private"}), 64, 4),
        ]);
        let files = files.unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["all_gather_perf-nccl-4.json", "all_gather_perf-nccl-8.json", "broadcast_perf-nccl-4.json"];
        assert_eq!(names[..3], expected);
        assert_eq!(names[3], "broadcast_perf-nccl-4-2.json");
        // Of the blocks of all ranks, nccl-tests counts one.
        assert_eq!(files[0].1["results"][0]["count"], 256);
        assert_eq!(
            (&files[2].1["results"][0]["root"], &files[2].1["results"][0][REDUCTION]),
            (&json!("     3"), &json!("none"))
        );
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused_in_words() {
        let mut training = case(json!({"model": "gpt2"}), 1, 2);
        training.benchmark = "training".to_owned();
        let mut simulated = case(json!({"op": "all_reduce"}), 64, 2);
        (simulated.simulated, simulated.caveats) = (true, vec![Caveat::Simulated]);
        let barrier = case(json!({"op": "barrier"}), 0, 2);
        let huge = case(json!({"op": "reduce"}), 64, u32::MAX);
        let error =
            rendered(vec![training.clone(), simulated, barrier, huge, training.clone()]).unwrap_err().to_string();
        for words in [
            "the record has none: ",
            "2 cases of `training`, which nccl-tests does not measure",
            "1 case of `barrier`, for which nccl-tests has no program",
            "1 case of more than 65536 ranks",
            "1 case with the mark `simulated`, which the format cannot hold",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        let run = Run { cases: vec![training, case(json!({"op": "reduce"}), 64, 2)], ..Run::default() };
        let files = NcclTestsJson.render(&run).unwrap();
        assert_eq!(
            files[0].remark.as_deref(),
            Some("left out: 1 case of `training`, which nccl-tests does not measure")
        );
    }

    #[test]
    fn a_case_that_failed_without_a_time_is_an_error_of_its_file() {
        let mut failed = case(json!({"op": "reduce"}), 64, 2);
        (failed.time_s, failed.status, failed.reason) = (None, Status::Failed, Some("rank 1 died".to_owned()));
        let files = rendered(vec![failed.clone(), case(json!({"op": "reduce"}), 128, 2)]).unwrap();
        assert_eq!(files[0].1["errors"], json!(["reduce 64 bytes: rank 1 died"]));
        assert!(rendered(vec![failed]).is_err());
    }
}
