//! Ranges for tools that record NVTX, passed to a library like that of nsys (`tests/tools/nvtx.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, json_lines};
use crate::pytorch;
use crate::skip::{self, skip};

/// The library, compiled by the compiler of these tests: cargo builds no library for tests alone.
fn tool(place: &Place) -> PathBuf {
    let (source, library) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/nvtx.rs"), place.path("tool.so"));
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "-o"]).arg(&library).arg(source);
    let ended = compiler.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    library
}

/// What the library wrote in each process of a command.
fn logs(place: &Place, arguments: &str) -> Vec<String> {
    let (tool, log) = (tool(place), place.path("ranges"));
    let environment = format!("--env NVTX_INJECTION64_PATH={} --env NVTX_TOOL_LOG={}", tool.display(), log.display());
    place.run(&format!("{arguments} {environment} --output-dir record")).exits(0);
    written(place)
}

fn written(place: &Place) -> Vec<String> {
    let logs = place.names().into_iter().filter(|name| name.starts_with("ranges."));
    logs.map(|name| place.read(&name)).collect()
}

/// The rank that a process says it is.
fn rank(log: &str) -> &str {
    log.lines().find_map(|line| line.trim().strip_prefix("mark rankmark rank ")).expect("a mark that names the rank")
}

/// The names of ranges and how often each occurs below which: `step > forward`.
fn paths(log: &str) -> BTreeMap<String, usize> {
    let (mut open, mut paths) = (Vec::new(), BTreeMap::new());
    for line in log.lines().map(str::trim) {
        match line.strip_prefix("push ") {
            Some(range) => {
                open.push(range.split(' ').next().unwrap());
                *paths.entry(open.join(" > ")).or_insert(0) += 1;
            }
            None if line == "pop" => drop(open.pop().expect("a range ends that none began")),
            None => {}
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "every range ends");
    paths
}

#[test]
fn steps_phases_blocks_and_waits_are_ranges() {
    let place = Place::new();
    let training = "train --model gpt2-mini --layers 2 --width 32 --heads 2 --vocabulary 64 --sequence 16 --batch 2";
    let all = logs(&place, &format!("{training} --ranks 2 --threads 1 --steps 3 --trials 1"));
    let mut ranks: Vec<&str> = all.iter().map(|log| rank(log)).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0 of 2", "1 of 2"], "one for each rank");
    for log in &all {
        let paths = paths(log);
        let steps = paths["step"];
        assert!(steps >= 3, "{paths:?}");
        for phase in ["input", "forward", "backward", "optimizer"] {
            assert_eq!(paths[&format!("step > {phase}")], steps, "{phase}: {paths:?}");
        }
        // Two layers and the blocks before and after them, in each direction.
        let blocks = paths["step > forward > block"];
        assert!(blocks >= 2 * steps && blocks.is_multiple_of(steps), "{paths:?}");
        let waits: usize = paths.iter().filter(|(path, _)| path.ends_with("> wait")).map(|(_, number)| number).sum();
        assert!(waits >= steps, "{paths:?}");
        assert!(log.contains("push step 0\n") && log.contains("push step 2\n"), "steps are numbered: {log}");
    }
}

#[test]
fn operations_are_ranges_with_their_numbers() {
    let place = Place::new();
    let all = logs(&place, "comm all_reduce --ranks 2 --bytes 1KiB --warmup 0 --iters 4 --trials 1");
    assert_eq!(all.len(), 2);
    for log in &all {
        let of = |word: &str| log.lines().filter(|line| line.starts_with(word)).count();
        assert!(of("start ") >= 4 && of("start ") == of("end "), "{log}");
        assert!(log.contains(" all_reduce 0\n") && log.contains(" all_reduce 3\n"), "{log}");
    }
}

/// The agent in a job of PyTorch, without nsys: it opens the library as nsys has it opened.
#[test]
fn ranks_of_pytorch_tell_steps_and_phases() {
    let name = "ranks of PyTorch tell their steps to a tool";
    let Some(python) = pytorch::torch(name) else { return };
    if !skip::heavy(name) {
        return;
    }
    let place = Place::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = root.join("examples/train.py");
    let job = format!("-m torch.distributed.run --nproc-per-node 2 {} --steps 12", example.display());
    let mut job = place.command_of(&python, &job);
    std::fs::create_dir(place.path("traces")).unwrap();
    let given = [
        ("PYTHONPATH", root.join("python/rankmark_profile")),
        ("RANKMARK_PROFILE_DIR", place.path("traces")),
        ("NVTX_INJECTION64_PATH", tool(&place)),
        ("NVTX_TOOL_LOG", place.path("ranges")),
    ];
    job.command.envs(given).env("PYTHONDONTWRITEBYTECODE", "1");
    job.command.env("RANKMARK_PROFILE_TOOL", "nsys").env("RANKMARK_PROFILE_STEPS", "3:8");
    job.run().exits(0);
    let all = written(&place);
    let mut ranks: Vec<&str> = all.iter().map(|log| rank(log)).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0 of 2", "1 of 2"]);
    for log in &all {
        let paths = paths(log);
        assert_eq!(paths["step"], 5, "{log}");
        for phase in ["input", "forward", "backward", "optimizer"] {
            assert_eq!(paths[&format!("step > {phase}")], 5, "{phase}: {paths:?}");
        }
        assert_eq!(paths.len(), 5, "no range is inside a phase: {paths:?}");
        assert!(log.contains("push step 3\n") && log.contains("push step 7\n"), "{log}");
    }
    let traces: Vec<String> = std::fs::read_dir(place.path("traces"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!traces.iter().any(|name| name.starts_with("error-")), "{traces:?}");
    for rank in 0..2 {
        let steps: Value = serde_json::from_str(&place.read(&format!("traces/steps-{rank}.json"))).unwrap();
        let of = |field: &str| steps[field].as_array().unwrap().len();
        assert_eq!((&steps["trace"], &steps["first_traced_step"]), (&"nsys".into(), &3.into()), "{steps}");
        assert_eq!((of("traced_step_s"), of("traced_descheduled_s")), (5, 5), "{steps}");
    }
}

#[test]
fn a_tool_that_cannot_be_used_is_an_error() {
    let place = Place::new();
    let run = "comm all_reduce --ranks 2 --bytes 1KiB --iters 2 --trials 1 --output-dir record";
    let ended = place.run(&format!("{run} --env NVTX_INJECTION64_PATH=/nowhere/libtool.so"));
    assert!(!ended.status.success());
    for words in ["tool that records NVTX cannot be used", "/nowhere/libtool.so", "unset NVTX_INJECTION64_PATH"] {
        assert!(format!("{}{}", ended.out, ended.err).contains(words), "{words}: {}{}", ended.out, ended.err);
    }
}

/// Whether nsys is installed.
pub(crate) fn has_nsys() -> bool {
    Command::new("nsys").arg("--version").output().is_ok_and(|ended| ended.status.success())
}

/// The whole way, where nsys is installed: our ranks under nsys, its export, and what we make of it.
#[test]
fn nsys_records_our_ranks_and_its_export_is_explained() {
    let name = "our ranks under nsys";
    if !cfg!(feature = "nsys") {
        return skip(name, "built without the feature `nsys` (hint: cargo test -p rankmark --features nsys)");
    }
    if !has_nsys() {
        return skip(name, "nsys is not on the path");
    }
    let place = Place::new();
    let training = "train --model gpt2-mini --layers 2 --width 64 --heads 2 --vocabulary 128 --sequence 32 --ranks 2";
    let under = "nsys profile -t nvtx -s none -o ranks";
    place.command_under(under, &format!("{training} --steps 20 --trials 1 --output-dir trained")).run().exits(0);
    place.command_of("nsys", "export --type sqlite -o ranks.sqlite ranks.nsys-rep").run().exits(0);
    let told = place.run("profile --import ranks.sqlite --output-dir explained --json").exits(0);
    let profile = json_lines(&told.out).into_iter().find(|line| line["kind"] == "profile").unwrap();
    let analysis = &profile["analysis"];
    assert_eq!((&analysis["source"], &analysis["world"]), (&"Nsight Systems".into(), &2.into()), "{analysis}");
    let steps = &analysis["steps"];
    assert!(
        steps["ranks"].as_array().unwrap().len() == 2 && steps["numbers"].as_array().unwrap().len() >= 15,
        "{steps}"
    );
    let operations = analysis["collectives"].to_string();
    assert!(operations.contains("all_reduce"), "{operations}");
}
