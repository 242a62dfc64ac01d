//! Files of other tools from import to report: every format of results is drawn, and the study's CSV comes back as it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::place::Place;

/// A sample of a format, the section of its report, and the points of each line of its charts of time.
struct Drawn {
    format: &'static str,
    file: &'static str,
    section: &'static str,
    points: &'static [usize],
}

const fn drawn(format: &'static str, file: &'static str, section: &'static str, points: &'static [usize]) -> Drawn {
    Drawn { format, file, section, points }
}

const SAMPLES: &[Drawn] = &[
    drawn("nccl_tests", "2.19.txt", "all_reduce", &[4, 4]),
    drawn("nccl_tests_json", "v3_sizes.json", "all_reduce", &[4, 4]),
    drawn("nccl_tests_json", "v3_h100.json", "all_reduce", &[8, 8]),
    drawn("rccl_tests_json", "lines.json", "all_reduce", &[4, 4]),
    drawn("osu", "7.5_allreduce.txt", "all_reduce", &[5]),
    drawn("imb", "2021.6_allreduce.txt", "all_reduce", &[5]),
    drawn("ddlb_csv", "sizes.csv", "tp_columnwise", &[4, 4]),
    drawn("all_reduce_bench", "queued.txt", "all_reduce", &[5]),
    drawn("allreduce_study", "gloo_sizes.csv", "all_reduce", &[4, 4, 4]),
    drawn("allreduce_study", "rankmark_sizes.csv", "all_reduce", &[4, 4]),
];

/// Logs of trainings: one case each, which is a row and no line of a chart.
const LOGS: [(&str, &str, &str); 2] =
    [("torchtitan", "two_ranks.txt", "llama3 8B"), ("megatron", "eight_ranks.txt", "megatron")];

/// Records of few rows: a sample, what the user has to say of it, and what its report says.
const ROWS: [(&str, &str, &str, &str); 13] = [
    ("nemo", "nemo1_bar.txt", "--ranks 8", "24.0 s"),
    ("deepspeed", "bert_with_batch.txt", "--ranks 8", "deepspeed"),
    ("hf_trainer", "neuron.txt", "", "hf_trainer"),
    ("trainer_state", "whisper.json", "--ranks 8", "hf_trainer"),
    ("tqdm", "diffusers_8_ranks.txt", "", "1.99 s"),
    ("nvbandwidth", "v0.8_one_gpu.txt", "", "host_to_device: 13.0 GB/s at 512 MiB"),
    ("nvbandwidth_json", "v0.5.json", "", "host_to_device"),
    ("p2p_bandwidth", "eight_gpus.txt", "", "peer_copy"),
    ("perftest", "connectx7.md", "", "write_bw"),
    ("transferbench", "example.md", "", "peer_copy"),
    ("ds_bench", "two_nodes.txt", "", "all_reduce"),
    ("deepspeed_comms", "zero3.txt", "", "reduce_scatter"),
    ("nccl_inspector_prom", "nvl72.prom", "", "reduce_scatter, nodes 4"),
];

/// What makes a plan and no record.
const CONFIGURATIONS: [&str; 4] = ["ddlb", "torchscale", "candle", "cloudai"];

/// What the title of every chart of times has.
const TIMES: &str = ": time vs ";

fn sample(drawn: &Drawn) -> PathBuf {
    file_of(drawn.format, drawn.file)
}

fn file_of(format: &str, file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../import/tests/samples", format, file].iter().collect()
}

#[test]
fn every_format_of_results_is_drawn_by_html_and_markdown() {
    for drawn in SAMPLES {
        assert!(drawn.points.iter().all(|points| *points >= 3), "fewer points are a table: {}", drawn.file);
        let place = Place::new();
        let read_as = place.command("import --json --output-dir out").argument(sample(drawn)).run().exits(0).out;
        let read_as: Value = serde_json::from_str(&read_as).unwrap();
        assert_eq!(read_as["format"], drawn.format, "{}", drawn.file);
        // This checks what `report` writes, and not what `import` left.
        fs::remove_dir_all(place.path("out/charts")).unwrap();
        for name in ["report.html", "report.md"] {
            let _ = fs::remove_file(place.path(&format!("out/{name}")));
        }
        place.run("report out").exits(0);
        assert_eq!(in_html(&place.read("out/report.html"), drawn.section), drawn.points, "{}: HTML", drawn.file);
        assert_eq!(in_markdown(&place, drawn.section), drawn.points, "{}: Markdown", drawn.file);
    }
}

#[test]
fn a_file_is_imported_whose_name_is_not_utf_8() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"log-\xe9.txt");
    fs::copy(file_of("nccl_tests", "2.19.txt"), place.path(".").join(name)).unwrap();
    place.command("import --output-dir out").argument(name).run().exits(0);
    let words = place.run_file("out")["command_line"].clone();
    assert_eq!(words[4], "log-\u{fffd}.txt", "{words}");
}

/// Who gives an option that does nothing takes it for done.
#[test]
fn options_without_an_effect_are_refused() {
    let place = Place::new();
    fs::copy(file_of("nccl_tests", "2.19.txt"), place.path("nccl.txt")).unwrap();
    place.write("conf.json", r#"{"benchmark": {"primitive": "tp_columnwise", "m": [64], "n": [64], "k": [64], "dtype": "float32", "implementations": {"pytorch": [{}]}}}"#);
    place.run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --iters 5 --quiet --output-dir r").exits(0);
    place.run("pack r").exits(0);
    fs::create_dir(place.path("logs")).unwrap();
    fs::copy(place.path("nccl.txt"), place.path("logs/nccl.txt")).unwrap();
    for (words, says) in [
        ("conf.json --output-dir out", "`--output-dir` is for results, and conf.json is a configuration"),
        ("conf.json --op all_reduce", "`--op` is for results, and conf.json is a configuration"),
        ("nccl.txt --python python3", "`--python` is for configurations that PyTorch runs, and nccl.txt is not one"),
        ("logs --python python3", "`--python` is for configurations, and logs is a folder of results"),
        ("r.tar.gz --ranks 2", "`--ranks` is for results and configurations, and r.tar.gz is a packed record"),
    ] {
        place.run(&format!("import {words}")).refuses(&[says]);
    }
}

#[test]
fn a_file_that_fails_leaves_the_records_before_it_named() {
    let place = Place::new();
    fs::copy(file_of("nccl_tests", "2.19.txt"), place.path("nccl.txt")).unwrap();
    let ended = place.run("import nccl.txt missing.txt").exits(2);
    let record = ended.err.lines().next().and_then(|line| line.strip_prefix("record   ")).unwrap_or_default();
    assert!(place.path(record).join("run.json").is_file() && ended.err.contains("missing.txt"), "{}", ended.err);
}

#[test]
fn no_format_of_results_is_missing_above() {
    let listed: Value = serde_json::from_str(&Place::new().run("list imports --json").exits(0).out).unwrap();
    let listed = listed["imports"].as_array().unwrap().iter().map(|format| format["name"].as_str().unwrap());
    let results: BTreeSet<&str> = listed.filter(|name| !CONFIGURATIONS.contains(name)).collect();
    let drawn = SAMPLES
        .iter()
        .map(|drawn| drawn.format)
        .chain(LOGS.map(|(format, ..)| format))
        .chain(ROWS.map(|(format, ..)| format));
    assert_eq!(drawn.collect::<BTreeSet<_>>(), results);
}

#[test]
fn logs_of_trainings_are_rows_with_throughput_and_memory() {
    for (format, file, says) in LOGS {
        let place = Place::new();
        let told = place.command("import --json --output-dir out").argument(file_of(format, file)).run().exits(0).out;
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["format"], &told["cases"]), (&format.into(), &1.into()), "{told}");
        let report = place.read("out/report.md");
        assert!(["tokens/s", "memory a rank", "8", says].iter().all(|part| report.contains(part)), "{report}");
        let case = place.cases("out").remove(0);
        assert!(
            case["tokens_per_s"].as_f64().unwrap() > 1e4 && case["reserved_bytes"].as_f64().unwrap() > 1e9,
            "{case}"
        );
        place.run("report out").exits(0);
        place.run("compare out out --json").exits(3);
    }
}

#[test]
fn records_of_few_rows_are_told_and_reported() {
    for (format, file, given, says) in ROWS {
        let place = Place::new();
        let command = format!("import --json --output-dir out {given}");
        let told = place.command(command.trim()).argument(file_of(format, file)).run().exits(0).out;
        let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(told.iter().all(|one| one["format"] == format && one["cases"].as_u64() > Some(0)), "{told:?}");
        let record = if told.len() > 1 { "out/1" } else { "out" };
        let report = place.read(&format!("{record}/report.md"));
        assert!(report.contains(says), "{format}: {report}");
        place.run(&format!("report {record}")).exits(0);
    }
}

/// Traces are not results; the command that takes files takes them, too.
#[test]
fn a_folder_of_traces_is_explained() {
    let place = Place::new();
    let line = |rank: u32, at: u64, us: u64| {
        format!(
            r#"{{"header":{{"id":"0xab","rank":{rank},"n_ranks":2,"nnodes":1}},"metadata":{{"inspector_output_format_version":"v4.0","hostname":"h","pid":{}}},"coll_perf":{{"coll":"AllReduce","coll_sn":{at},"coll_msg_size_bytes":4096,"coll_exec_time_us":{us},"coll_timing_source":"kernel_gpu"}}}}"#,
            100 + rank
        )
    };
    fs::create_dir(place.path("logs")).unwrap();
    fs::create_dir(place.path("empty")).unwrap();
    for rank in 0..2 {
        let lines: Vec<String> = (0..40).map(|at| line(rank, at, if rank == 1 { 500 } else { 1500 })).collect();
        place.write(&format!("logs/h-pid{rank}.log"), &(lines.join("\n") + "\n"));
    }
    let ran = place.run("import logs --output-dir out").exits(0);
    assert!(ran.out.contains("Rank 1 is the last to enter all_reduce of 4.00 KiB in 40 of 40 calls"), "{}", ran.out);
    assert!(ran.err.contains("`rankmark profile --import` reads it, too"), "{}", ran.err);
    assert!(place.read("out/report.md").contains("is the last to enter all_reduce"));
    assert!(place.run("import logs --ranks 2").exits(2).err.contains("`--ranks` is for results"));
    place.write("empty/notes.txt", "nothing");
    assert!(place.run("import empty").exits(2).err.contains("no file in empty holds results or traces"));
}

/// A trace of PyTorch's profiler of one rank of two: three steps, two all_reduces and an all_gather in each.
fn traced(rank: u32) -> String {
    let event = |category: &str, name: &str, thread: u32, at: u32, time: u32, more: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{at},"dur":{time},"args":{{{more}}}}}"#
        )
    };
    let call = |at: u32, word: &str, [given, taken]: [u32; 2]| {
        let more = format!(
            r#""Collective name":"{word}","dtype":"Float","In msg nelems":{given},"Out msg nelems":{taken},"Group size":2,"Process Group Name":"0","Process Group Description":"default_pg""#
        );
        event("kernel", "ncclDevKernel_Generic(x)", 7, at, 100 + 50 * rank, &more)
    };
    let step = |number: u32| {
        let at = 10_000 * number;
        [
            event("user_annotation", &format!("ProfilerStep#{number}"), 1, at, 9_000, ""),
            call(at + 1_000, "allreduce", [256, 256]),
            call(at + 2_000, "allreduce", [256, 256]),
            call(at + 3_000, "_allgather_base", [256, 512]),
        ]
    };
    let events: Vec<String> = (1..4).flat_map(step).collect();
    format!(
        r#"{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}},"baseTimeNanoseconds":1700000000000000000,"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

#[test]
fn a_traced_job_becomes_a_plan_that_runs_and_says_what_its_step_costs() {
    let place = Place::new();
    fs::create_dir(place.path("trace")).unwrap();
    for rank in 0..2 {
        place.write(&format!("trace/rank{rank}.json"), traced(rank));
    }
    let made = place.run("import --as plan trace").exits(0);
    for said in ["2 of 2 ranks, 3 steps each", "3 calls a step, 2 distinct collectives", "rankmark run plan.yaml"] {
        assert!(made.err.contains(said), "{said}: {}", made.err);
    }
    let json: Value = serde_json::from_str(&place.run("import --as plan --json trace").exits(0).out).unwrap();
    assert_eq!((&json["plan"], &json["format"]), (&made.out.as_str().into(), &"pytorch_profiler".into()));
    place.write("plan.yaml", &made.out);
    let ran = place.run("run plan.yaml --trials 6 --spacing 0s --max-seconds 0.03s --output-dir out").exits(0);
    let shown = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("Communication of a step of the traced job costs ")
            && shown.contains("x the 300 us of its trace"),
        "{shown}"
    );
    let report = place.read("out/report.md");
    let table = report.split("## Communication of a job").nth(1).expect("the table");
    let row = table.lines().find(|line| line.contains("all_gather 2 KiB")).expect("a row of the all_gather");
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.contains("| 1 |") && row.contains("| 100 us | 125 us |"), "{row}");
    assert!(place.read("out/report.html").contains("Communication of a job"));
    // A job of more ranks, and what `--as` does not take.
    let wide =
        traced(0).replace("\"world_size\":2", "\"world_size\":4096").replace("\"Group size\":2", "\"Group size\":512");
    place.write("wide.json", wide);
    let made = place.run("import --as plan wide.json").exits(0);
    assert!(made.out.contains("ranks: 512,") && made.err.contains("--set ranks="), "{} {}", made.out, made.err);
    assert!(place.run("import --as plan --ranks 2 wide.json").exits(0).out.contains("ranks: 2,"));
    assert!(place.run("import --as plan --op all_reduce trace").exits(2).err.contains("`--op` has no effect"));
    assert!(place.run("import --as plan plan.yaml").exits(2).err.contains("is not a trace"));
}

/// Points of each line of the section's charts of times, of the values that the page holds. Each chart stands in the page.
fn in_html(page: &str, section: &str) -> Vec<usize> {
    let data = page.split("<script type=\"application/json\" id=\"data\">").nth(1).expect("the page's values");
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let mut points = Vec::new();
    for (number, chart) in data["charts"].as_array().unwrap().iter().enumerate() {
        let title = chart["t"].as_str().unwrap();
        if !(title.starts_with(section) && title.contains(TIMES)) {
            continue;
        }
        let figure = page.split(&format!("data-chart=\"{number}\"")).nth(1).expect("the figure of the values");
        let figure = figure.split("</figure>").next().unwrap();
        assert!(figure.contains("<svg ") && figure.contains(&format!("<h4>{title}</h4>")), "{title}: {figure}");
        for line in chart["s"].as_array().unwrap() {
            let places: Vec<&Value> = line[2].as_array().unwrap().iter().map(|point| &point[0]).collect();
            assert!(places.windows(2).all(|pair| pair[0].as_f64() < pair[1].as_f64()), "one point at each: {line}");
            points.push(places.len());
        }
    }
    points
}

/// Points of each line of the pictures that the section of the Markdown report shows.
fn in_markdown(place: &Place, section: &str) -> Vec<usize> {
    let report = place.read("out/report.md");
    let body = report.split(&format!("\n## {section}\n")).nth(1).expect("the section");
    let body = body.split("\n## ").next().unwrap();
    let mut points = Vec::new();
    for line in body.lines().filter(|line| line.starts_with("[![") && line.contains(TIMES)) {
        let shown: Vec<&str> = line.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
        let [png, svg] = shown[..] else { panic!("a picture and what it links to: {line}") };
        assert!(fs::read(place.path(&format!("out/{png}"))).unwrap().starts_with(b"\x89PNG"), "{png}");
        points.extend(lines_of(&place.read(&format!("out/{svg}"))));
    }
    points
}

/// Points of each line of a picture: lines of data alone are so wide.
fn lines_of(svg: &str) -> Vec<usize> {
    let lines = svg.split("<polyline points=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let drawn = lines.filter(|(_, rest)| rest.split('>').next().unwrap().contains("stroke-width=\"1.8\""));
    drawn.map(|(points, _)| points.split(' ').count()).collect()
}

/// Cases that differ only in runtime, element type, reduction, in place or mode. None of them is a trial of another.
#[test]
fn the_study_csv_that_is_written_is_read_as_the_same_cases() {
    let place = Place::new();
    let shared = "comm all_reduce --backend shm --ranks 2 --iters 3";
    place.run(&format!("{shared} --bytes 1KiB,4KiB --dtype f32,i32 --in-place true,false --output-dir ours")).exits(0);
    place.run(&format!("{shared} --bytes 1KiB --reduce max --output-dir largest")).exits(0);
    // What needs GPUs comes from files: the study is one of PyTorch, and waits for each call; nccl-tests does neither.
    place.write("study.csv", "backend,device,num_processes,data_size_mb,mean_time_ms\nnccl,cuda,8,1.048576,0.08\n");
    place.run("import study.csv --output-dir study").exits(0);
    let native = SAMPLES.iter().find(|drawn| drawn.format == "nccl_tests").map(sample).unwrap();
    place.command("import --output-dir native").argument(native).run().exits(0);
    place.run("merge ours largest study native --output-dir all").exits(0);
    place.run("report all --layout allreduce-study --output-dir layout").exits(0);
    place.run("import layout/combined_benchmark.csv --output-dir back").exits(0);
    let imported = &place.run_file("back")["imported"];
    assert_eq!(imported["tool"], "Rankmark", "the reader knows the columns: {imported}");
    let mean = |case: &Value| case["time_s"]["mean"].as_f64().or(case["time_s"]["median"].as_f64()).unwrap();
    let told = |record: &str| {
        let cases = place.cases(record);
        assert_eq!(cases.len(), 8 + 1 + 1 + 8, "{record}: {imported}");
        cases.iter().map(|case| (case["id"].to_string(), mean(case).to_bits())).collect::<BTreeSet<_>>()
    };
    assert_eq!(told("back"), told("all"));
}

/// What `all_reduce_perf` prints of eight such GPUs, four on each of these hosts.
fn of_gpus(model: &str, hosts: [&str; 2]) -> String {
    let text = fs::read_to_string(file_of("nccl_tests", "eight_gpus.txt")).unwrap();
    text.replace("MODEL", model).replace("HOST-A", hosts[0]).replace("HOST-B", hosts[1])
}

#[test]
fn gpus_that_a_log_names_have_the_figures_of_their_kind() {
    let place = Place::new();
    for (name, model, hosts, known) in [
        ("sxm", "NVIDIA H100 80GB HBM3", ["a", "a"], true),
        ("pcie", "NVIDIA H100 PCIe", ["a", "a"], false),
        ("apart", "NVIDIA H100 80GB HBM3", ["a", "b"], false),
    ] {
        place.write(&format!("{name}.txt"), of_gpus(model, hosts));
        place.run(&format!("import {name}.txt --output-dir {name}")).exits(0);
        let report = place.read(&format!("{name}/report.md"));
        assert_eq!(
            report.contains("NVLS: 476 GB/s") && report.contains("of what this hardware gives (ring: 365 GB/s"),
            known,
            "{name}: {report}"
        );
        // What this program would have done by default is not how that one did it.
        for ours in ["registered", "cache-warm", "streaming", "A sample's time is the maximum"] {
            assert!(!report.contains(ours), "{name}: {ours} in {report}");
        }
        assert!(report.contains("Rankmark did not measure them"), "{report}");
        assert!(!report.contains("Healthy"), "nothing was seen of its machine: {report}");
    }
}

#[test]
fn a_log_without_its_end_is_not_called_right() {
    let place = Place::new();
    let whole = of_gpus("NVIDIA H100 80GB HBM3", ["a", "a"]);
    let cut = whole.split("# Out of bounds").next().unwrap();
    place.write("cut.txt", cut);
    place.run("import cut.txt --output-dir cut").exits(0);
    let report = place.read("cut/report.md");
    assert!(report.contains("**Interrupted**: the imported file has no end"), "{report}");
    assert!(report.contains("The end of cut.txt is missing"), "{report}");
}
