//! Invented case lines: deterministic, with known answers.

use record::{CaseLine, Caveat, SCHEMA, TimeSummary};
use report::Run;
use serde_json::{Map, json};
use terms::{Collective, Mode, Status};

#[path = "traced.rs"]
mod traced;

/// One invented case.
#[derive(Clone)]
pub(crate) struct Invented {
    pub(crate) op: &'static str,
    pub(crate) backend: &'static str,
    pub(crate) ranks: u32,
    pub(crate) bytes: u64,
    /// Seconds.
    pub(crate) time: f64,
    /// Half the interval's width, relative.
    pub(crate) half_width: f64,
    /// GB/s of busbw at the limit.
    pub(crate) limit: Option<f64>,
    pub(crate) caveats: Vec<Caveat>,
}

impl Invented {
    pub(crate) fn new(ranks: u32, bytes: u64, time: f64) -> Self {
        let (op, backend) = ("all_reduce", "shm");
        Self { op, backend, ranks, bytes, time, half_width: 0.01, limit: None, caveats: Vec::new() }
    }

    pub(crate) fn line(&self) -> CaseLine {
        let parameters = json!({
            "op": self.op, "ranks": self.ranks, "backend": self.backend, "device": "cpu", "dtype": "f32",
            "reduce": "sum", "bytes": self.bytes, "in_place": true, "buffers": "registered",
            "touch": false, "mode": "streaming", "seed": 1
        });
        let time = self.time;
        let mut metrics = Map::new();
        let op: Option<Collective> = self.op.parse().ok();
        let rate = time * 1e9;
        if self.bytes > 0 {
            let algbw = self.bytes as f64 / rate;
            let busbw = algbw * op.map_or(1.0, |op| op.bus_factor(self.ranks));
            metrics.insert("algbw_gbs".into(), json!(algbw));
            metrics.insert("busbw_gbs".into(), json!(busbw));
            if let Some(limit) = self.limit {
                metrics.insert("limit_share".into(), json!(busbw / limit));
                metrics.insert("limit_busbw_gbs".into(), json!(limit));
            }
        }
        CaseLine {
            schema: SCHEMA,
            id: format!("{:012x}", self.bytes * 100 + u64::from(self.ranks)),
            benchmark: "collective".into(),
            parameters: parameters.as_object().cloned().unwrap().into(),
            status: Status::Ok,
            reason: None,
            ranks: self.ranks,
            hosts: None,
            pair_hosts: None,
            runtime: "native".into(),
            backend: self.backend.into(),
            device: "cpu".into(),
            dtype: Some("f32".into()),
            mode: Mode::Streaming,
            bytes: (self.bytes > 0).then_some(self.bytes),
            bytes_requested: (self.bytes > 0).then_some(self.bytes),
            samples: Some(640),
            calls_per_sample: Some(2),
            trials: Some(6),
            span_s: Some(8.4),
            worlds: Some(record::WorldUse::Fresh),
            time_s: Some(TimeSummary {
                median: time,
                ci95: Some([time * (1.0 - self.half_width), time * (1.0 + self.half_width)]),
                ci95_again: Some([time * (1.0 - self.half_width), time * (1.0 + self.half_width)]),
                mean: Some(time),
                p05: Some(time * 0.9),
                p50: Some(time),
                p95: Some(time * 1.2),
                p99: Some(time * 1.5),
                p999: Some(time * 1.7),
                min: Some(time * 0.8),
                max: Some(time * 2.0),
                ..TimeSummary::default()
            }),
            per_rank_median_s: Some(vec![time; self.ranks as usize]),
            trial_median_s: Vec::new(),
            trial_round: Vec::new(),
            state: None,
            states: Vec::new(),
            limit: None,
            clocks: Vec::new(),
            starts_apart_s: None,
            metrics: metrics.into(),
            wrong: Some(0),
            wrong_elements: Vec::new(),
            gates_missed: Vec::new(),
            caveats: self.caveats.clone(),
            simulated: false,
        }
    }
}

fn backend(name: &str, version: &str, library: Option<&str>, launcher: Option<&str>) -> record::BackendState {
    record::BackendState {
        name: name.into(),
        ready: true,
        version: Some(version.into()),
        path: library.map(|library| format!("/usr/lib/{library}")),
        library: library.map(str::to_owned),
        launcher: launcher.map(str::to_owned),
        why: None,
    }
}

fn cache((level, bytes, shared_by): (u32, u64, u32)) -> record::Cache {
    record::Cache { level, kind: "unified".into(), bytes, shared_by }
}

/// A run of these cases on an invented machine.
pub(crate) fn run(cases: Vec<CaseLine>) -> Run {
    Run {
        benchmarks: benchmarks::abouts().into_iter().map(record::Declared::of).collect(),
        views: benchmarks::VIEWS,
        title: "sweep".into(),
        started: "2026-11-20T10:15:00Z".into(),
        machine: "2 cores, invented".into(),
        cores: Some(2),
        cache_bytes: Some(32 << 20),
        caches: [(1, 32 << 10, 1), (3, 32 << 20, 2)].map(cache).into(),
        backends: vec![
            backend("shm", "0.1.0", None, None),
            backend("mpi", "Open MPI v4.1.6", Some("libmpi.so.40"), Some("/usr/bin/mpirun")),
            backend("pytorch/gloo", "torch 2.9.1", Some("/opt/torch/bin/python"), None),
        ],
        command: "rankmark run examples/sweep.yaml".into(),
        directory: "results/sweep".into(),
        program: "rankmark 0.1.0".into(),
        cases,
        ..Run::default()
    }
}

/// A run of `examples/peers.yaml` in small: our buffers of both kinds, two MPIs, each as it is and tuned, and gloo.
pub(crate) fn peers() -> Run {
    let case = |ranks: u32, bytes: u64, number: usize, others: &[(&str, serde_json::Value)]| {
        let time = transport(bytes, 3e-6, 9.0, 6.0) * (1.0 + number as f64) * f64::from(ranks);
        let mut line = Invented::new(ranks, bytes, time).line();
        line.id = format!("{:012x}", (bytes * 100 + u64::from(ranks)) * 10 + number as u64);
        for (name, value) in others {
            match *name {
                "backend" => line.backend = value.as_str().unwrap_or_default().to_owned(),
                "runtime" => line.runtime = value.as_str().unwrap_or_default().to_owned(),
                _ => {}
            }
            line.parameters.insert((*name).to_owned(), value.clone());
        }
        line
    };
    let libraries = ["libmpi.so.40", "libmpich.so.12"];
    let mpi = libraries.into_iter().flat_map(|library| [false, true].map(|tuned| (library, tuned)));
    let mpi = mpi.map(|(library, tuned)| {
        vec![("backend", json!("mpi")), ("mpi_library", json!(library)), ("mpi_tuned", json!(tuned))]
    });
    let ours = ["registered", "private"].map(|buffers| vec![("buffers", json!(buffers))]);
    let gloo = [
        ("runtime", "pytorch"),
        ("backend", "gloo"),
        ("buffers", "private"),
        ("python", "/opt/torch/bin/python"),
        ("bind", "none"),
    ];
    let gloo = gloo.map(|(name, value)| (name, json!(value))).to_vec();
    let all: Vec<_> = ours.into_iter().chain(mpi).chain([gloo]).enumerate().collect();
    let mut cases = Vec::new();
    for ranks in [2, 4, 6] {
        for bytes in [1024, 1 << 16, 1 << 22, 1 << 28] {
            cases.extend(all.iter().map(|(number, others)| case(ranks, bytes, *number, others)));
        }
    }
    run(cases)
}

/// Time of a transport with a latency, a bandwidth in cache and a lower one beyond it.
pub(crate) fn transport(bytes: u64, latency: f64, cached_gbs: f64, memory_gbs: f64) -> f64 {
    let cache = 4.0 * 1048576.0;
    let bytes = bytes as f64;
    latency + bytes.min(cache) / cached_gbs / 1e9 + (bytes - cache).max(0.0) / memory_gbs / 1e9
}

/// 20 sizes from 1 KiB to 512 MiB.
pub(crate) fn twenty_sizes() -> Vec<u64> {
    (10..30).map(|exponent| 1u64 << exponent).collect()
}

/// One series.
pub(crate) fn one_series() -> Run {
    let case = |bytes| Invented {
        limit: Some(31.0),
        half_width: 0.03,
        ..Invented::new(2, bytes, transport(bytes, 0.3e-6, 40.0, 28.0))
    };
    run(twenty_sizes().into_iter().map(|bytes| case(bytes).line()).collect())
}

/// Three rank counts and twenty sizes, the larger counts oversubscribed.
pub(crate) fn three_by_twenty() -> Run {
    let mut cases = Vec::new();
    for (ranks, latency, cached, memory) in [(2, 0.3e-6, 40.0, 28.0), (4, 2.4e-6, 18.0, 13.0), (6, 4e-6, 14.0, 9.0)] {
        for (index, bytes) in twenty_sizes().into_iter().enumerate() {
            let caveats = if ranks > 2 { vec![Caveat::Oversubscribed] } else { Vec::new() };
            let half_width = 0.02 + 0.01 * (index % 5) as f64 * f64::from(ranks);
            let limit = Some(31.0 - f64::from(ranks));
            let time = transport(bytes, latency, cached, memory);
            cases.push(Invented { caveats, half_width, limit, ..Invented::new(ranks, bytes, time) }.line());
        }
    }
    run(cases)
}

/// Three backends and four rank counts.
pub(crate) fn twelve_series() -> Run {
    let mut cases = Vec::new();
    for (backend, slow) in [("shm", 1.0), ("reference", 6.0), ("mpi", 2.5)] {
        for ranks in [1u32, 2, 4, 6] {
            for bytes in [1u64 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26] {
                let time = slow * f64::from(ranks).sqrt() * transport(bytes, 0.4e-6, 30.0, 20.0);
                let limit = Some(30.0);
                cases.push(Invented { backend, half_width: 0.04, limit, ..Invented::new(ranks, bytes, time) }.line());
            }
        }
    }
    run(cases)
}

/// One measured case.
pub(crate) fn one_point() -> Run {
    run(vec![Invented { half_width: 0.05, limit: Some(80.0), ..Invented::new(2, 1 << 20, 15e-6) }.line()])
}

/// Intervals of several hundred per cent.
pub(crate) fn huge_bands() -> Run {
    let mut run = three_by_twenty();
    for (index, case) in run.cases.iter_mut().enumerate() {
        let time = case.time_s.as_mut().unwrap();
        if index % 3 == 0 {
            time.ci95 = Some([time.median / 50.0, time.median * 1000.0]);
            time.ci95_again = time.ci95;
        }
    }
    run
}

/// The sizes of the study: 1MB, 10MB, 100MB, 1GB on 2, 4 and 6 ranks.
pub(crate) fn study() -> Run {
    let mut cases = Vec::new();
    for (ranks, memory) in [(2u32, 26.0), (4, 13.0), (6, 9.0)] {
        for bytes in [1_000_000u64, 10_000_000, 100_000_000, 1_000_000_000] {
            let caveats = if ranks > 2 { vec![Caveat::Oversubscribed] } else { Vec::new() };
            let time = transport(bytes, 4e-6 * f64::from(ranks), 60.0 / f64::from(ranks), memory);
            let limit = Some(31.0);
            cases.push(Invented { caveats, limit, ..Invented::new(ranks, bytes, time) }.line());
        }
    }
    run(cases)
}

/// Text that wants to be markup, a formula, or another line.
pub(crate) const HOSTILE: &str = "<script>alert('1')</script> | \"x\" `y` *z* \n# =1+1 &amp; \u{202E}\u{0}";

/// Every text of the record hostile.
pub(crate) fn hostile() -> Run {
    let mut run = one_series();
    run.cases.truncate(3);
    run.title = HOSTILE.into();
    run.machine = HOSTILE.into();
    run.command = HOSTILE.into();
    run.directory = HOSTILE.into();
    run.started = HOSTILE.into();
    run.program = HOSTILE.into();
    run.plan_notes = vec![HOSTILE.into()];
    for case in &mut run.cases {
        case.backend = HOSTILE.into();
        case.device = HOSTILE.into();
        case.dtype = Some(HOSTILE.into());
        case.id = HOSTILE.into();
        case.parameters.insert("op", json!(HOSTILE));
        case.parameters.insert(HOSTILE, json!("=cmd|' /C calc'!A0"));
        case.metrics.insert(HOSTILE, json!(HOSTILE));
    }
    run.cases[2].status = Status::Failed;
    run.cases[2].reason = Some(HOSTILE.into());
    run.cases[2].gates_missed = vec![HOSTILE.into()];
    run
}

/// A case of training or memory, of 2 samples a rank or 8 of all together.
fn trained(benchmark: &str, strategy: &str, ranks: u32, samples: u32, scaling: Option<(&str, f64)>) -> CaseLine {
    let time = 0.1 * f64::from(samples) / f64::from(ranks) * (1.0 + 0.1 * f64::from(ranks.ilog2()));
    let mut line = Invented::new(ranks, 0, time).line();
    line.benchmark = benchmark.to_owned();
    line.id = format!("{benchmark}-{strategy}-{ranks}-{samples}");
    let parameters = json!({
        "model": "gpt2_small", "ranks": ranks, "strategy": strategy, "mesh": format!("{ranks}x1x1"),
        "backend": "shm", "device": "cpu", "precision": "f32", "global_batch": samples
    });
    line.parameters = parameters.as_object().cloned().unwrap().into();
    line.metrics.insert("samples_per_s", json!(f64::from(samples) / time));
    if let Some((kind, efficiency)) = scaling {
        let ends = [efficiency - 0.02, efficiency + 0.02];
        line.metrics.insert("scaling", json!({"kind": kind, "base_ranks": 1, "efficiency": efficiency, "ci95": ends}));
    }
    line
}

/// Two strategies on up to 4 ranks, in weak and in strong scaling.
pub(crate) fn scaled() -> Run {
    let mut cases = vec![trained("training", "data", 1, 2, None), trained("training", "data", 1, 8, None)];
    for strategy in ["data", "tensor"] {
        for (ranks, efficiency) in [(2, 0.93), (4, 0.81)] {
            cases.push(trained("training", strategy, ranks, 2 * ranks, Some(("weak", efficiency))));
            cases.push(trained("training", strategy, ranks, 8, Some(("strong", efficiency - 0.1))));
        }
    }
    run(cases)
}

/// What training holds on 1, 2 and 4 ranks, under a limit of 3 GiB a rank.
pub(crate) fn held() -> Run {
    let case = |ranks: u32| {
        let mut line = trained("memory", "data", ranks, 8, None);
        let mib = |number: u64| number << 20;
        let many = u64::from(ranks);
        let predicted = json!({
            "parameters": mib(475) * many, "gradients": mib(475) * many, "optimizer": mib(950) * many,
            "activations": mib(600), "communication": mib(50) * (many - 1), "input": mib(1), "scalars": mib(1),
            "scratch": mib(20) * many, "read_ahead": mib(1), "groups": mib(1),
            "total": mib(475 + 475 + 950 + 20) * many + mib(604) + mib(50) * (many - 1)
        });
        let case = predicted["total"].as_u64().unwrap() * 102 / 100;
        let process = mib(30) * many;
        let measured = json!({"total": case + process, "process": process, "case": case});
        line.metrics.insert("memory", json!({"predicted": predicted, "measured": measured, "difference": -0.0196}));
        line.parameters.insert("limit", json!(3u64 << 30));
        line
    };
    run([1, 2, 4].map(case).into())
}

/// Latencies of all pairs of eight ranks, one of them slow.
pub(crate) fn matrices() -> Run {
    let mut line = Invented::new(8, 8, 2e-6).line();
    line.benchmark = "hardware".to_owned();
    let parameters = json!({"test": "pair_latency", "ranks": 8, "backend": "shm", "device": "cpu", "bytes": 8});
    line.parameters = parameters.as_object().cloned().unwrap().into();
    let pair = |a: usize, b: usize| match (a, b) {
        (2, 6) | (6, 2) => 11.6,
        _ => {
            if a / 4 == b / 4 {
                1.2 + 0.05 * ((a * 3 + b) % 4) as f64
            } else {
                2.4 + 0.1 * ((a + b) % 3) as f64
            }
        }
    };
    let row = |a: usize| (0..8).map(|b| if a == b { json!(null) } else { json!(pair(a, b)) }).collect::<Vec<_>>();
    line.metrics = Default::default();
    line.metrics.insert("pair_us", json!((0..8).map(row).collect::<Vec<_>>()));
    run(vec![line])
}

/// A long case with a time that rises by `rise` over its samples.
pub(crate) fn soak(rise: f64) -> Run {
    let mut case = Invented::new(2, 64 << 20, 4.8e-3).line();
    case.calls_per_sample = Some(100);
    case.samples = Some(4000);
    let mut random = 12345u64;
    let samples = (0..4000).map(|index| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let noise = (random >> 33) as f64 / (1u64 << 31) as f64 - 0.5;
        4.8e-3 * (1.0 + rise * f64::from(index) / 4000.0 + 0.04 * noise)
    });
    let mut run = run(vec![case]);
    run.samples.insert(run.cases[0].id.clone(), samples.collect());
    run
}

/// Training on up to 4 ranks, with what traces of one case showed.
pub(crate) fn explained() -> Run {
    let mut run = scaled();
    let case = run.cases.iter().find(|case| case.ranks == 4).map(|case| case.id.clone());
    run.explained = case.map(|id| traced::explained(&id));
    run
}

/// One run of each kind, named.
pub(crate) fn runs() -> Vec<(&'static str, Run)> {
    vec![
        ("one_series", one_series()),
        ("three_by_twenty", three_by_twenty()),
        ("twelve_series", twelve_series()),
        ("one_point", one_point()),
        ("huge_bands", huge_bands()),
        ("study", study()),
        ("hostile", hostile()),
        ("soak", soak(0.03)),
        ("peers", peers()),
        ("scaled", scaled()),
        ("held", held()),
        ("matrices", matrices()),
        ("explained", explained()),
    ]
}
