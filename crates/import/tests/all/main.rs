//! Tests of the readers: each sample becomes exact shapes and figures, and damaged files are refused by line.

mod all_reduce_bench;
mod allreduce_study;
mod cases;
mod cloudai;
mod damage;
mod ddlb;
mod deepspeed_comms;
mod ds_bench;
mod imb;
mod json;
mod mixed;
mod mutations;
mod nccl_inspector_prom;
mod nccl_tests;
mod nvbandwidth;
mod osu;
mod osu_programs;
mod p2p_bandwidth;
mod perftest;
mod plans;
mod prefixes;
mod public_traces;
mod runs;
mod second_round;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod traces;
mod training_formats;
mod training_logs;
mod training_runs;
mod transferbench;

use std::path::PathBuf;

use import::{Content, Figures, Results, Shape, Source};

/// The folder of a format's samples.
fn samples(format: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "samples", format].iter().collect()
}

/// A sample's text.
fn sample(format: &str, file: &str) -> String {
    std::fs::read_to_string(samples(format).join(file)).unwrap()
}

/// A file, with what a user would say of it where it does not say so itself.
fn told(source: Source) -> Source {
    let mut told = source;
    for (name, value, missing) in [("ranks", "8", "how many ranks"), ("op", "all_to_all", "which operation")] {
        let refused = import::read(&told, None).err().map(|error| error.to_string());
        if refused.is_some_and(|why| why.contains(missing)) {
            told = told.with_given(name, value);
        }
    }
    told
}

fn source(text: &str) -> Source {
    Source::new("x.log", text.as_bytes().to_vec()).unwrap()
}

/// What a text holds, by the format that recognises it.
fn read(source: &Source) -> Result<Vec<Results>, terms::Error> {
    match import::read(source, None)?.content {
        Content::Results(results) => Ok(results),
        Content::Plan(plan) => panic!("a plan: {plan:?}"),
    }
}

/// What a text holds, as its one record.
fn one(text: &str) -> Results {
    let mut all = read(&source(text)).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Why a text is refused.
fn refusal(text: &str) -> String {
    read(&source(text)).unwrap_err().to_string()
}

/// Each shape and its trials, a line each.
fn lines(results: &Results) -> Vec<String> {
    results.shapes().iter().map(|(shape, figures)| line(shape, figures)).collect()
}

fn line(shape: &Shape, figures: &[Figures]) -> String {
    let fields: Vec<String> = shape.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let times: Vec<String> = figures.iter().map(figure).collect();
    format!("{} {} on {}: {}", shape.benchmark, fields.join(" "), shape.device, times.join(", "))
}

fn figure(figures: &Figures) -> String {
    let mut text = format!("{:.3} us", figures.time_s * 1e6);
    if let Some(iterations) = figures.iterations {
        text += &format!(" x{iterations}");
    }
    if let Some(wrong) = figures.wrong {
        text += &format!(" wrong {wrong}");
    }
    let Some(details) = &figures.details else { return text };
    let times = [
        ("mean", details.mean),
        ("std", details.std),
        ("p50", details.p50),
        ("p95", details.p95),
        ("p99", details.p99),
    ];
    for (name, time) in times.into_iter().chain([("min", details.min), ("max", details.max)]) {
        if let Some(time) = time {
            text += &format!(" {name} {:.3}", time * 1e6);
        }
    }
    for (name, value) in &details.metrics {
        text += &format!(" {name} {value}");
    }
    for (name, word) in &details.words {
        text += &format!(" {name} {word}");
    }
    text
}
