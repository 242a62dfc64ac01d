//! Configurations of other tools: each becomes a plan, and what is wrong in one is refused by line.

use import::{Content, ForeignPlan, Here, Source};
use record::Plan;

use crate::{sample, samples, source};

/// A machine with torch or without.
fn here(torch: Result<&str, &str>) -> Here {
    Here {
        torch: Some(torch.map(str::to_owned).map_err(str::to_owned)),
        gpus: 0,
        memory: Some(24_000_000_000),
        hosts: 1,
        models: benchmarks::models().iter().map(|model| model.name).collect(),
        parameters: Some(benchmarks::parameters),
    }
}

fn foreign_of(source: &Source) -> Result<ForeignPlan, terms::Error> {
    match import::read(source, None)?.content {
        Content::Plan(plan) => Ok(plan),
        Content::Results(results) => panic!("results: {results:?}"),
    }
}

fn plan_of(foreign: &ForeignPlan) -> Plan {
    let read = record::plan::read(&foreign.text, "made", &benchmarks::abouts(), &[]);
    read.unwrap_or_else(|errors| panic!("{errors}\n{}", foreign.text))
}

/// The plan of a text on a machine without torch.
fn made(text: &str) -> (ForeignPlan, Plan) {
    let foreign = foreign_of(&source(text).on(here(Err("no torch")))).unwrap();
    let plan = plan_of(&foreign);
    (foreign, plan)
}

fn refusal(text: &str) -> String {
    foreign_of(&source(text).on(here(Err("no torch")))).unwrap_err().to_string()
}

/// A value of each case, in order.
fn values(plan: &Plan, name: &str) -> Vec<String> {
    plan.cases
        .iter()
        .map(|case| case.parameters.get(name).map_or("-".to_owned(), |value| value.to_string().replace('"', "")))
        .collect()
}

#[test]
fn every_sample_is_a_plan_with_torch_and_without() {
    let mut seen = 0;
    for format in ["ddlb", "torchscale", "candle"] {
        for file in std::fs::read_dir(samples(format)).unwrap() {
            for torch in [Ok("2.13"), Err("no torch")] {
                let source = Source::load(&file.as_ref().unwrap().path()).unwrap().on(here(torch));
                assert_eq!(import::recognise(&source).unwrap().name(), format);
                let foreign = foreign_of(&source).unwrap();
                assert!(!plan_of(&foreign).cases.is_empty() && !foreign.read_as.is_empty());
                seen += 1;
            }
        }
    }
    assert!(seen >= 16);
}

#[test]
fn plans_and_results_of_ours_are_no_configurations() {
    for file in ["quick.yaml", "training.yaml"] {
        let path = format!("{}/../../examples/{file}", env!("CARGO_MANIFEST_DIR"));
        assert!(import::recognise(&Source::load(std::path::Path::new(&path)).unwrap()).is_none(), "{file}");
    }
    let json = r#"{"experiment": "x", "cases": [{"benchmark": "primitive", "implementations": 1}]}"#;
    assert!(import::recognise(&source(json)).is_none());
}

#[test]
fn ddlb_without_torch_runs_natively_and_says_what_is_left_out() {
    let (foreign, plan) = made(&sample("ddlb", "readme.json"));
    assert_eq!(
        values(&plan, "implementation"),
        ["compute_only:size=unsharded", "sequential:order=AG_before", "sequential:order=AG_after"]
    );
    for case in &plan.cases {
        let whole = |name: &str| case.whole(name);
        assert_eq!(
            [whole("m"), whole("n"), whole("k"), whole("ranks")],
            [Some(65536), Some(1024), Some(1024), Some(2)]
        );
        assert_eq!([whole("iters"), whole("trials"), whole("warmup")], [Some(5), Some(10), Some(5)]);
    }
    let read_as = foreign.read_as.join("\n");
    for word in [
        "num_iterations: 50 -> 5 calls in each of 10 trials",
        "validate: true -> every result is checked",
        "dtype: float32",
    ] {
        assert!(read_as.contains(word), "{word}: {read_as}");
    }
    let warnings = foreign.warnings.join("\n");
    assert!(warnings.contains("compute_only, pytorch of PyTorch are left out, because no torch"), "{warnings}");
    assert!(warnings.contains("ranks: the file does not say how many"), "{warnings}");
    // A launcher or `--ranks` gives them.
    let four = foreign_of(&source(&sample("ddlb", "readme.json")).with_given("ranks", "4")).unwrap();
    assert!(plan_of(&four).cases.iter().all(|case| case.ranks() == 4) && !four.warnings.join("").contains("ranks:"));
    let several = foreign_of(&source(&sample("ddlb", "readme.json")).with_given("ranks", "2,4")).unwrap();
    let ranks: Vec<u32> = plan_of(&several).cases.iter().map(record::Case::ranks).collect();
    assert!(ranks.contains(&2) && ranks.contains(&4), "{ranks:?}");
}

#[test]
fn ddlb_with_torch_has_its_backends_beside_native_ranks() {
    let with_gpu = Here { gpus: 2, ..here(Ok("2.13")) };
    let foreign = foreign_of(&source(&sample("ddlb", "readme.json")).on(with_gpu)).unwrap();
    let plan = plan_of(&foreign);
    let pairs: Vec<(String, String)> = values(&plan, "runtime").into_iter().zip(values(&plan, "backend")).collect();
    let count = |runtime: &str, backend: &str| pairs.iter().filter(|(r, b)| r == runtime && b == backend).count();
    // Three of nccl: compute_only, and both orders.
    assert_eq!(
        [count("-", "shm"), count("pytorch", "nccl"), count("pytorch", "ucc/tl/nccl"), count("pytorch", "ucc/tl/cuda")],
        [3, 3, 2, 2]
    );
}

#[test]
fn ddlb_gets_the_device_that_the_machine_has() {
    let text = sample("ddlb", "readme.json");
    let foreign = foreign_of(&source(&text).on(here(Ok("2.13")))).unwrap();
    let plan = plan_of(&foreign);
    let of_torch: Vec<_> = plan.cases.iter().filter(|case| case.text("runtime") == Some("pytorch")).collect();
    assert!(!of_torch.is_empty());
    assert!(of_torch.iter().all(|case| case.text("device") == Some("cpu") && case.text("backend") == Some("gloo")));
    assert!(foreign.warnings.join("\n").contains("because no GPU was found"), "{:?}", foreign.warnings);
    // Where there are GPUs, gloo stays on the processors.
    let gloo = text.replace("\"nccl\"", "\"gloo\"");
    let plan = plan_of(&foreign_of(&source(&gloo).on(Here { gpus: 2, ..here(Ok("2.13")) })).unwrap());
    let devices = |backend: &str| -> std::collections::BTreeSet<&str> {
        let of = plan.cases.iter().filter(|case| case.text("backend") == Some(backend));
        of.filter_map(|case| case.text("device")).collect()
    };
    assert_eq!(devices("gloo").into_iter().collect::<Vec<_>>(), ["cpu"]);
}

#[test]
fn candle_takes_widths_as_people_write_them() {
    for (width, heads) in [(256u64, 4u64), (512, 8), (768, 12), (2048, 32), (96, 2), (1000, 20)] {
        let sample = sample("candle", "v100-nvlink.json");
        let text = sample.replacen("\"parameters\": 350000000", &format!("\"hidden_size\": {width}"), 1);
        assert_ne!(text, sample);
        let Ok(foreign) = foreign_of(&source(&text)) else { panic!("{width}: {:?}", foreign_of(&source(&text)).err()) };
        let plan = plan_of(&foreign);
        let case = plan.cases.iter().find(|case| case.benchmark == "training").unwrap();
        assert_eq!(case.parameters.get("heads").and_then(serde_json::Value::as_u64), Some(heads), "{width}");
    }
}

#[test]
fn ddlb_names_what_it_has_beyond() {
    let text = sample("ddlb", "commented.json");
    let (foreign, plan) = made(&text);
    let implementations = values(&plan, "implementation");
    for word in ["algorithm=ring_p2p", "algorithm=collective_chunks", "compute_only:size=sharded"] {
        assert!(
            implementations.iter().any(|one| one.starts_with(word) || one.contains(word)),
            "{word}: {implementations:?}"
        );
    }
    let warnings = foreign.warnings.join("\n");
    for word in [
        "fuser: nvFuser is not supported here",
        "inter_stream_synchronization: `true`, `false`",
        "output_csv: results/",
        "transformer_engine, jax",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    let foreign = foreign_of(&source(&text).on(here(Ok("2.13")))).unwrap();
    let implementations = values(&plan_of(&foreign), "implementation").join(" ");
    assert!(implementations.contains("transformer_engine") && implementations.contains("jax"), "{implementations}");
}

#[test]
fn torchscale_trains_on_ranks_and_keeps_profiling() {
    let text = sample("torchscale", "quick_start.yaml");
    let (foreign, plan) = made(&text);
    assert_eq!(
        (plan.experiment.as_str(), plan.profiling, plan.cases.len()),
        ("resnet50_scaling_test", true, 2 * 3 * 4)
    );
    assert!(plan.cases.iter().all(|case| case.text("strategy") == Some("data") && case.text("device") == Some("cpu")));
    let warnings = foreign.warnings.join("\n");
    for word in [
        "profiling.tool: nsys is not started: Rankmark records steps itself; `rankmark profile --tool nsys -- COMMAND`",
        "profiling.trigger: sync_stall_detection starts nothing: steps are recorded whatever they show; `rankmark profile \
         --target sync_stalls results/DIR`",
        "device: cpu, because no GPU",
        "runtime: native alone, because no torch",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    let foreign = foreign_of(&source(&text).on(here(Ok("2.13")))).unwrap();
    let runtimes = values(&plan_of(&foreign), "runtime");
    assert_eq!(runtimes.iter().filter(|runtime| *runtime == "pytorch").count(), 24);
    let gpus = |torch| Here { gpus: 4, ..here(torch) };
    let on_gpus = plan_of(&foreign_of(&source(&text).on(gpus(Ok("2.13")))).unwrap());
    let words =
        |case: &record::Case| ["device", "runtime", "backend"].map(|name| case.text(name).unwrap_or("-").to_owned());
    let count = |runtime: &str| on_gpus.cases.iter().filter(|case| words(case) == ["cuda", runtime, "nccl"]).count();
    assert_eq!((on_gpus.cases.len(), count("-"), count("pytorch")), (48, 24, 24), "both, as on CPUs");
    assert!(on_gpus.cases.iter().all(|case| case.skip.is_none()));
    let foreign = foreign_of(&source(&text).on(gpus(Err("no torch")))).unwrap();
    let warnings = foreign.warnings.join("\n");
    assert!(warnings.contains("runtime: native alone, because no torch"), "{warnings}");
    for case in &plan_of(&foreign).cases {
        assert_eq!((case.text("device"), case.text("backend")), (Some("cuda"), Some("nccl")));
        assert_eq!(case.skip, None, "{:?}", case.text("model"));
    }
    assert!(
        foreign.read_as.iter().any(|read| read.starts_with("profiling.enabled: true -> profiling: {enabled: true}"))
    );
    let (foreign, plan) = made(&text.replace("enabled: true", "enabled: false"));
    assert!(!plan.profiling && foreign.read_as.iter().any(|read| read.contains("profiling.enabled: false -> ")));
    // `--ranks` stands in for what the file does not say, and for nothing else.
    let given = |text: &str| foreign_of(&source(text).on(here(Err("no torch"))).with_given("ranks", "3")).unwrap();
    let has_own = given(&text);
    assert!(!has_own.has_given_ranks && plan_of(&has_own).cases.len() == 2 * 3 * 4);
    let has_none = given("models: [resnet50]\nbatch_sizes: [8]\n");
    assert!(has_none.has_given_ranks && plan_of(&has_none).cases.iter().all(|case| case.ranks() == 3));
    let (foreign, _) = made(&text.replace("  tool: \"nsys\"\n", ""));
    assert!(!foreign.warnings.iter().any(|warning| warning.contains("profiling.tool")), "{:?}", foreign.warnings);
}

#[test]
fn candle_becomes_hardware_collectives_training_and_memory() {
    let (foreign, plan) = made(&sample("candle", "v100-nvlink.json"));
    let mut benchmarks: Vec<&str> = plan.cases.iter().map(|case| case.benchmark.as_str()).collect();
    benchmarks.sort_unstable();
    benchmarks.dedup();
    assert_eq!(benchmarks, ["collective", "hardware", "memory", "training"]);
    let meshes: Vec<String> = plan
        .cases
        .iter()
        .filter(|case| case.benchmark == "training")
        .map(|case| format!("{} {}", case.ranks(), case.text("mesh").unwrap_or("-")))
        .collect();
    assert!(meshes.contains(&"4 2x1x2".to_owned()) && meshes.iter().any(|mesh| mesh.starts_with("1 ")), "{meshes:?}");
    assert!(plan.cases.iter().all(|case| case.text("device") != Some("cuda")), "there is no GPU");
    let gpus = Here { gpus: 4, ..here(Err("")) };
    let plan_of_gpus = plan_of(&foreign_of(&source(&sample("candle", "v100-nvlink.json")).on(gpus)).unwrap());
    let mut on_gpus: Vec<&str> = plan_of_gpus
        .cases
        .iter()
        .filter(|case| case.text("device") == Some("cuda"))
        .map(|case| case.benchmark.as_str())
        .collect();
    on_gpus.dedup();
    assert_eq!(on_gpus, ["hardware", "collective", "training", "memory"]);
    assert!(plan.cases.iter().any(|case| case.whole("limit") == Some(16_000_000_000)));
    let warnings = foreign.warnings.join("\n");
    for word in [
        "memory_per_device_gb: 16 on 4 devices is 64 GB, and this machine has 24.0 GB",
        "network_bandwidth_gbps: 25 (3.125 GB/s)",
        "interconnect: nvlink is not a setting",
        "device_type: cuda",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    assert!(
        foreign.read_as.join("\n").contains("parameters: 350000000 -> checked: transformer-medium has 35"),
        "{:?}",
        foreign.read_as
    );
    // Over hosts the network is compared with.
    let hosts = Here { hosts: 2, ..here(Err("")) };
    let foreign = foreign_of(&source(&sample("candle", "v100-nvlink.json")).on(hosts)).unwrap();
    let expected = plan_of(&foreign).expected;
    assert_eq!((expected.len(), expected[0].value), (1, 3.125));
}

#[test]
fn candle_reads_alternatives_and_suites() {
    let (foreign, plan) = made(&sample("candle", "structure.json"));
    let mut models = values(&plan, "model");
    models.sort();
    models.dedup();
    assert_eq!(models, ["-", "transformer-large", "transformer-medium", "transformer-small"]);
    let mut strategies = values(&plan, "strategy");
    strategies.sort();
    strategies.dedup();
    assert_eq!(strategies, ["-", "data", "hybrid", "model", "pipeline"]);
    let warnings = foreign.warnings.join("\n");
    for word in [
        "layers 24, hidden_size 2048, parameters 1300000000 are of one size",
        "num_devices: 1, and strategy hybrid has 4 ranks",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    let (_, plan) = made(&sample("candle", "benchmark-suite.json"));
    assert_eq!(plan.experiment, "suite");
    let batches: Vec<Option<u64>> =
        plan.cases.iter().filter(|case| case.benchmark == "training").map(|case| case.whole("global_batch")).collect();
    assert!(batches.iter().all(|batch| *batch == Some(8)), "the same work in all: {batches:?}");
    // The base of one rank is written once.
    assert_eq!(plan.cases.iter().filter(|case| case.benchmark == "training").count(), 3);
}

/// The batch is ours: no micro-batches and no replicas of a file may be refused because of it.
#[test]
fn candle_has_a_batch_that_its_divisions_divide() {
    let text = sample("candle", "benchmark-suite.json");
    let batches = |text: &str| {
        let plan = made(text).1;
        let of = |benchmark: &str, field: &str| -> Vec<Option<u64>> {
            let cases = plan.cases.iter().filter(|case| case.benchmark == benchmark && case.ranks() > 1);
            cases.map(|case| case.whole(field)).collect()
        };
        (of("training", "global_batch"), of("memory", "batch"))
    };
    let pipeline = text.replace("\"pipeline\", ", "\"pipeline\", \"micro_batches\": 8, ");
    assert_ne!(pipeline, text);
    let (training, memory) = batches(&pipeline);
    assert_eq!(training, [Some(8); 2]);
    assert!(memory.contains(&Some(8)), "{memory:?}");
    // Three replicas, and a pipeline of 8 micro-batches.
    let (training, _) = batches(&pipeline.replace("\"data_parallel_size\": 2", "\"data_parallel_size\": 3"));
    assert_eq!(training, [Some(24); 2]);
}

#[test]
fn candle_takes_memory_as_drivers_tell_it() {
    for (given, bytes) in [("16.1", 16_100_000_000), ("15.89935302734375", 15_899_353_027)] {
        let text = sample("candle", "v100-nvlink.json").replace("16.0", given);
        let plan = made(&text).1;
        assert!(plan.cases.iter().any(|case| case.whole("limit") == Some(bytes)), "{given}");
    }
}

#[test]
fn candle_takes_model_and_strategy_of_the_user() {
    let text = sample("candle", "m4-metal.json");
    let given =
        source(&text).on(here(Err(""))).with_given("model", "transformer-small").with_given("strategy", "hybrid");
    let foreign = foreign_of(&given).unwrap();
    assert_eq!(foreign.used, ["model", "strategy"]);
    let plan = plan_of(&foreign);
    let training: Vec<_> = plan.cases.iter().filter(|case| case.benchmark == "training").collect();
    assert_eq!(
        (training.len(), training[0].text("model"), training[0].text("strategy")),
        (1, Some("transformer-small"), Some("hybrid"))
    );
    assert_eq!(training[0].whole("layers"), None, "dimensions of another model");
    let why = foreign_of(&source(&text).on(here(Err(""))).with_given("strategy", "hybird")).unwrap_err().to_string();
    assert!(why.contains("did you mean `hybrid`?"), "{why}");
}

#[test]
fn what_is_wrong_is_refused_by_line() {
    let ddlb = sample("ddlb", "readme.json");
    let torchscale = sample("torchscale", "quick_start.yaml");
    let candle = sample("candle", "v100-nvlink.json");
    for (text, from, to, what) in [
        (&ddlb, "\"m\": 65536", "\"m\": \"65536\"", "x.log, line 4: `m` must be a whole number from 1 to 2147483648"),
        (&ddlb, "\"m\": 65536", "\"m\": 1e300", "line 4: `m` must be a whole number"),
        (&ddlb, "\"m\": 65536", "\"m\": NaN", "line 4: `m` must be a whole number from 1 to 2147483648, not `NaN`"),
        (&ddlb, "\"m\": 65536", "\"m\": 99999999999999999999", "line 4: `m` must be a whole number"),
        (&ddlb, "\"m\": 65536", "\"m\": []", "line 4: `m` is an empty list"),
        (&ddlb, "\"m\": 65536,", "", "line 2: `benchmark` has no `m`"),
        (
            &ddlb,
            "num_warmups",
            "num_warmup",
            "line 10: `benchmark` has no field `num_warmup`\nhint:  did you mean `num_warmups`?",
        ),
        (&ddlb, "tp_columnwise", "=cmd|' /C calc'!A0", "line 3: `primitive` does not take `=cmd|' /C calc'!A0`"),
        (&ddlb, "\"compute_only\"", "\"<script>\"", "line 12: `implementations` does not take `<script>`"),
        (&ddlb, "unsharded", "halved", "line 13: `size` does not take `halved`"),
        (&ddlb, "ucc/tl/nccl", "ucx", "line 17: `backend` does not take `ucx`"),
        (&ddlb, "true", "\"yes\"", "line 8: `validate` must be true or false"),
        (&ddlb, "\"n\": 1024,", "\"n\": 1024", "not valid YAML or JSON"),
        (&torchscale, "- 64", "- many", "line 6: `batch_sizes` must be a whole number from 1 to 1048576, not `many`"),
        (
            &torchscale,
            "bert-large",
            "bert-lage",
            "line 4: `models` does not take `bert-lage`\nhint:  did you mean `bert-large`?",
        ),
        (&torchscale, "- 8\n", "- 0\n", "line 13: `gpu_counts` must be a whole number from 1 to 1024, not `0`"),
        (&torchscale, "trigger:", "triger:", "line 17: `profiling` has no field `triger`"),
        (&torchscale, "gpu_counts", "gpu_count", "`the file` has no field `gpu_count`"),
        (&candle, "\"cuda\"", "\"tpu\"", "line 3: `device_type` does not take `tpu`"),
        (&candle, "16.0", "-1", "line 5: `memory_per_device_gb` must be a number above 0"),
        (&candle, "16.0", "1e400", "line 5: `memory_per_device_gb` must be a number above 0"),
        (&candle, "\"medium\"", "\"medium|huge\"", "line 11: `size` does not take `huge`"),
        (
            &candle,
            "\"parameters\": 350000000",
            "\"hidden_size\": 1023",
            "line 9: hidden_size 1023 cannot be divided into heads of 8 to 64 features\nhint:  hidden_size 1024 can be",
        ),
        (&candle, "\"strategy\"", "\"strategies\"", "line 15: `parallelization` has no field `strategies`"),
    ] {
        let why = refusal(&text.replacen(from, to, 1));
        assert!(why.contains(what), "{to}: {why}");
    }
}

#[test]
fn names_that_could_do_harm_are_only_text() {
    let text =
        sample("torchscale", "scaling_test.yaml").replace("scaling_analysis", "=HYPERLINK('x')<script>\\n- evil: 1");
    let (foreign, plan) = made(&text);
    assert!(!plan.experiment.contains(['<', '=', '\n', ' ']) && foreign.warnings[0].contains("cannot name a folder"));
    let text = sample("candle", "benchmark-suite.json").replace("small-data", "a\\nexpected: []\\n- x: <b>");
    assert_eq!(made(&text).1.expected.len(), 0);
    // A warning that repeats a value is one line.
    let text = sample("torchscale", "quick_start.yaml").replace("\"nsys\"", "\"n\\u001b[31m\\nsys\"");
    assert!(made(&text).0.warnings.iter().all(|warning| !warning.contains(char::is_control)));
}
