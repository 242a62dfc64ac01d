//! What is expected of an imported log: figures of the hardware, gates, and advice that never touches what the file says.

use serde_json::Value;

use crate::place::Place;

/// A log of eight GPUs of one host: all_reduce of 8 GiB with this bus bandwidth, below a small size that reaches little.
fn log(busbw: f64, before: &str, wrong: u32) -> String {
    let ranks: String = (0..8)
        .map(|rank| {
            format!(
                "#  Rank  {rank} Group  0 Pid  10{rank} on     node-a device  {rank} [0x31] NVIDIA H100 80GB HBM3\n"
            )
        })
        .collect();
    let row = |bytes: u64, busbw: f64, wrong: u32| {
        let algbw = busbw / 1.75;
        let us = bytes as f64 / algbw / 1e3;
        let count = bytes / 4;
        format!(
            "{bytes:>12} {count:>12} float sum -1 {us:.2} {algbw:.2} {busbw:.2} {wrong} {us:.2} {algbw:.2} {busbw:.2} {wrong}\n"
        )
    };
    format!(
        "{before}# nccl-tests version 2.17.8 nccl-headers=22807 nccl-library=22807\n\
         # Collective test starting: all_reduce_perf\n\
         # nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n\
         #\n# Using devices\n{ranks}\
         #       size         count      type   re\u{64}op    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         {}{}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n#\n",
        row(1024, 0.05, 0),
        row(8 << 30, busbw, wrong)
    )
}

#[test]
fn a_log_is_told_what_its_hardware_gives() {
    let place = Place::new();
    let debug = "node-a:17:90 [0] NCCL INFO NVLS multicast support is not available on dev 0\n";
    place.write("slow.log", log(370.0, debug, 0));
    let ended = place.run("import slow.log --output-dir slow --gate 90%").exits(1);
    for part in [
        "busbw 370 GB/s, 78% of what this hardware gives (ring: 365 GB/s, measured,",
        "NVLS: 476 GB/s, measured, NVIDIA/nccl-tests issue 290",
        "NVLS was off (line 1)",
        "gate missed: 90% of 476 busbw_gbs: it is 370.0000, 77.7%",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    assert!(place.read("slow/report.md").contains("gate missed"));
    place.run("import slow.log --output-dir low --gate 70%").exits(0);
    place.write("fast.log", log(475.0, "", 0));
    let fast = place.run("import fast.log --output-dir fast --gate 90% --gate busbw_gbs>=470").exits(0);
    assert!(!fast.out.contains("NVLS was"), "nothing says it: {}", fast.out);
}

#[test]
fn bounds_are_those_of_runs() {
    let place = Place::new();
    place.write("a.log", log(370.0, "", 0));
    let missed = place.run("import a.log --output-dir a --gate busbw_gbs>=400 --json").exits(1);
    let told: Value = serde_json::from_str(missed.out.trim()).unwrap();
    assert_eq!(told["gates_missed"][0], "busbw_gbs>=400: it is 370.0000, and no other case meets it", "{told}");
    // The small size does not fail it: a bound is on what an operation reaches.
    place.run("import a.log --output-dir b --gate busbw_gbs>=360").exits(0);
    assert!(place.run("import a.log --output-dir c --gate bandwidth>=3").exits(2).err.contains("is not a metric"));
    assert!(place.run("import a.log --output-dir c --gate 0%").exits(2).err.contains("above 0%"));
    let unknown = place.run("import a.log --output-dir c --expect h900").exits(2);
    assert!(unknown.err.contains("h900 is neither a file nor a kind of hardware"), "{}", unknown.err);
}

#[test]
fn figures_come_from_a_plan_or_a_name() {
    let place = Place::new();
    place.write("pcie.log", log(370.0, "", 0).replace("H100 80GB HBM3", "H900 PCIe"));
    let none = place.run("import pcie.log --output-dir a --gate 90%").exits(2);
    assert!(none.err.contains("no case of pcie has an expected figure"), "{}", none.err);
    assert!(place.run("import pcie.log --output-dir b --expect h100-nvlink").exits(0).out.contains("NVLS: 476"));
    place.write(
        "figures.yaml",
        "experiment: x\nexpected:\n  - {benchmark: collective, where: {op: all_reduce, ranks: 8}, metric: busbw_gbs, value: 500, \
         basis: specification, source: a data sheet}\ncases: [{benchmark: collective}]\n",
    );
    let own = place.run("import pcie.log --output-dir c --expect figures.yaml --gate 80%").exits(1);
    assert!(own.out.contains("80% of 500 busbw_gbs: it is 370.0000, 74.0% (a data sheet)"), "{}", own.out);
}

#[test]
fn a_record_of_a_file_does_not_go_on() {
    let place = Place::new();
    place.write("wrong.log", log(370.0, "", 18134));
    place.run("import wrong.log --output-dir kept").exits(0);
    let before = place.read("kept/cases.jsonl");
    let report = place.read("kept/report.md");
    assert!(!report.contains("--resume"), "{report}");
    assert!(report.contains("rankmark comm all_reduce --ranks 8 --backend nccl --dtype f32"), "{report}");
    let refused = place.run("run --resume kept").exits(2);
    assert!(refused.err.contains("kept was imported from wrong.log and cannot be resumed"), "{}", refused.err);
    assert_eq!(place.read("kept/cases.jsonl"), before);
}

#[test]
fn records_of_one_file_are_told_apart() {
    let place = Place::new();
    place.write(
        "two.md",
        format!("**BAD**\n```\n{}```\n\n**GOOD**\n```\n{}```\n", log(100.0, "", 0), log(400.0, "", 0)),
    );
    let said = place.run("import two.md --output-dir both").exits(0).out;
    assert!(said.contains("under    BAD\n") && said.contains("under    GOOD\n"), "{said}");
    let listed = place.run("list records both").exits(0).out;
    assert!(listed.contains("two: BAD") && listed.contains("two: GOOD"), "{listed}");
}

#[test]
fn no_gate_holds_because_nobody_looks() {
    let place = Place::new();
    std::fs::create_dir(place.path("logs")).unwrap();
    place.write("logs/a.log", log(100.0, "", 0));
    for more in ["--gate 90%", "--expect h100-nvlink"] {
        let refused = place.run(&format!("import logs --output-dir out {more}")).exits(2);
        assert!(refused.err.contains("are for files of results, and logs is not one"), "{}", refused.err);
    }
    place.write("plan.json", r#"{"hardware": {"device_type": "cpu"}, "model": {"model_type": "transformer", "size": "small"}, "parallelization": {"strategy": "data"}}"#);
    let plan = place.run("import plan.json --gate 90%").exits(2);
    assert!(plan.err.contains("plan.json is not one"), "{}", plan.err);
    // A wrong result keeps no gate, however fast it is.
    place.write("wrong.log", log(475.0, "", 7));
    let wrong = place.run("import wrong.log --output-dir wrong --gate busbw_gbs>=0.01").exits(1);
    assert!(wrong.out.contains("gate missed: a correct result: "), "{}", wrong.out);
    // Of several tools in one file, one has a figure: the others do not stand in its way.
    let osu = "$ mpirun -np 4 ./osu_allreduce\n# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n1024 1.98\n";
    place.write("both.log", log(100.0, "", 0) + "## OSU\n" + osu);
    let both = place.run("import both.log --output-dir both --gate 90%").exits(1);
    assert!(both.out.contains("gate missed: 90% of 476") && both.out.contains("OSU Micro-Benchmarks"), "{}", both.out);
}
