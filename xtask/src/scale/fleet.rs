//! The record of a fleet of many nodes under a launcher: what each took alone, with its samples, and tournaments of a part of all
//! pairs, as large fleets have. One node is slow, and one link, so that there is something to say.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use stats::samples::{Marginal, Situation, StationarySeries};

use super::records::{identity, sealed};

/// Trials of a case.
const TRIALS: usize = 8;
/// Samples of a trial.
const SAMPLES: usize = 10;
/// What each node measures alone.
const ALONE: [&str; 5] = ["triad", "gemm", "device_copy", "host_to_device", "device_to_host"];
/// What pairs of nodes measure.
const PAIRS: [(&str, u64); 2] = [("latency", 8), ("bandwidth", 1 << 20)];
/// Others that a node meets on either side.
const DISTANCES: usize = 32;

/// Numbers around 1 with this deviation.
fn draw(noise: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut series = StationarySeries::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise }, seed);
    series.extend(count);
    series.samples
}

fn host(at: usize) -> String {
    format!("n{at:05}")
}

/// Writes the record. `file` and `line`: the run file and a case line of a small run, from which everything else is taken.
pub(super) fn write(
    record: &Path,
    nodes: usize,
    file: &Map<String, Value>,
    line: &Map<String, Value>,
) -> io::Result<()> {
    std::fs::create_dir_all(record)?;
    let run = format!("{nodes:012x}");
    let mut cases: Vec<Value> = Vec::new();
    let mut lines = BufWriter::new(File::create(record.join("cases.jsonl"))?);
    let mut samples = BufWriter::new(File::create(record.join("samples.jsonl"))?);
    let (mut case_lines, mut sample_lines) = (0, 0);
    for (number, test) in ALONE.iter().enumerate() {
        let (mut own, case) = head(line, test, nodes, 1 << 30);
        let id = own["id"].clone();
        let mut levels = draw(0.005, nodes, 3 + number as u64);
        levels[nodes / 3] *= if number == 0 { 1.3 } else { 1.0 };
        own.insert("per_rank_median_s".to_owned(), json!(levels.iter().map(|level| 1e-3 * level).collect::<Vec<_>>()));
        for trial in 0..TRIALS {
            let noise = draw(0.01, nodes * SAMPLES, (number * TRIALS + trial) as u64 + 100);
            let of_rank = |rank: usize| -> Vec<u64> {
                noise[rank * SAMPLES..][..SAMPLES].iter().map(|sample| (1e6 * levels[rank] * sample) as u64).collect()
            };
            let ns: Vec<Vec<u64>> = (0..nodes).map(of_rank).collect();
            let trial = json!({ "id": id, "trial": trial, "round": trial, "begun_s": 0.0, "calls": 1, "ns": ns });
            sample_lines += 1;
            writeln!(samples, "{}", sealed(trial.as_object().unwrap_or(&Map::new()), &run, sample_lines)?)?;
        }
        case_lines += 1;
        writeln!(lines, "{}", sealed(&own, &run, case_lines)?)?;
        cases.push(case);
    }
    for (number, (test, bytes)) in PAIRS.iter().enumerate() {
        let (mut own, case) = head(line, test, nodes, *bytes);
        own.insert("pair_times".to_owned(), tournament(nodes, number as u64));
        case_lines += 1;
        writeln!(lines, "{}", sealed(&own, &run, case_lines)?)?;
        cases.push(case);
    }
    lines.flush()?;
    samples.flush()?;
    let mut file = file.clone();
    let machine = file["machine"].clone();
    let machine_of = |at: usize| {
        let mut machine = machine.clone();
        machine["host"] = json!(host(at));
        machine
    };
    file["id"] = json!(run);
    file["simulated"] = json!(false);
    file["plan"]["cases"] = json!(cases);
    file["machine"] = machine_of(0);
    file.insert("hosts".to_owned(), (0..nodes).map(machine_of).collect());
    let hosts: Vec<String> = (0..nodes).map(host).collect();
    file.insert("placement".to_owned(), json!([{ "ranks": nodes, "bind": "none", "hosts": hosts, "cpus": [] }]));
    file.insert("end".to_owned(), json!({ "case_lines": case_lines }));
    // A run file without a checksum is one that somebody wrote.
    std::fs::write(record.join("run.json"), serde_json::to_vec_pretty(&file)?)
}

/// The case line of a test without what it measured, and its case.
fn head(line: &Map<String, Value>, test: &str, nodes: usize, bytes: u64) -> (Map<String, Value>, Value) {
    let parameters =
        json!({ "test": test, "device": "cpu", "backend": "tcp", "ranks": nodes, "bytes": bytes, "seed": 1 });
    let parameters = parameters.as_object().cloned().unwrap_or_default();
    let mut own = line.clone();
    let id = json!(identity(&json!("hardware"), &parameters));
    for (name, value) in [
        ("id", id.clone()),
        ("benchmark", json!("hardware")),
        ("parameters", Value::Object(parameters.clone())),
        ("ranks", json!(nodes)),
        ("hosts", json!(nodes)),
        ("backend", json!("tcp")),
        ("bytes", json!(bytes)),
        ("trials", json!(TRIALS)),
        ("trial_median_s", json!(vec![1e-3; TRIALS])),
        ("trial_round", json!((0..TRIALS).collect::<Vec<_>>())),
        ("simulated", json!(false)),
        ("caveats", json!([])),
    ] {
        own.insert(name.to_owned(), value);
    }
    own.remove("per_rank_median_s");
    let case = json!({
        "id": id, "benchmark": "hardware", "parameters": parameters, "settings": {}, "world": {}, "caveats": [],
        "bytes_requested": null, "skip": null,
    });
    (own, case)
}

/// Racks of 32 nodes, between which short messages take 1.4 times as long. One link is slow.
fn tournament(nodes: usize, number: u64) -> Value {
    const RACK: usize = 32;
    let own = draw(0.005, nodes, 50 + number);
    let ratio = (nodes as f64 / 2.0).powf(1.0 / DISTANCES as f64);
    let mut distances: Vec<usize> =
        (0..DISTANCES).map(|step| (ratio.powi(step as i32).round() as usize).max(step + 1)).collect();
    distances.retain(|distance| *distance < nodes);
    let noise = draw(0.005, nodes * DISTANCES, 60 + number);
    let (mut pairs, mut times): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
    for (at, distance) in distances.iter().enumerate() {
        for low in 0..nodes - distance {
            let high = low + distance;
            let far = if number == 0 && low / RACK != high / RACK { 1.4 } else { 1.0 };
            let slow = if (at, low) == (2, nodes / 5) { 1.5 } else { 1.0 };
            pairs.extend([low, high]);
            times.push((2e-6 * own[low] * own[high] * noise[at * nodes + low] * far * slow * 1e11).round() / 1e11);
        }
    }
    json!({ "ranks": nodes, "pairs": pairs, "s": times })
}
