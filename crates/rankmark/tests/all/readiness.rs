//! What `validate` says of the machine that it runs on: known answers, what would become of a plan, the page, and what it
//! misses of what is installed when that is taken away.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::place::Place;
use crate::skip;
use crate::validate::{answer, row, rows};

#[test]
fn every_ready_backend_answers_what_is_known() {
    let place = Place::new();
    let whole = answer(place.run("validate --json"));
    row(&whole, "shm", "ready", &["64 KiB all_reduce on 2 ranks right, "]);
    row(&whole, "reference", "ready", &["right, "]);
    row(&whole, "sim", "ready", &["right, simulated"]);
    if Path::new("/usr/bin/mpirun.openmpi").exists() {
        // By ranks of its own mpirun: any others would each be a world of their own.
        row(&whole, "mpi", "ready", &["64 KiB all_reduce on 2 ranks right, "]);
    } else {
        skip::skip("known answers of MPI", "no Open MPI (Debian: openmpi-bin)");
    }
    // Each library by itself, not the first alone.
    let findings = whole["findings"].as_array().unwrap().iter();
    for library in findings.filter(|row| row["group"] == "MPI" && row["found"].as_str().unwrap().contains(", its ")) {
        assert_eq!(library["state"], "ready", "{library:#}");
        let found = library["found"].as_str().unwrap();
        assert!(found.contains("64 KiB all_reduce on 2 ranks right, "), "{library:#}");
    }
    assert_eq!(whole["benchmarks"].as_array().unwrap().len(), 8);
    let quick = answer(place.run("validate --json --quick"));
    row(&quick, "shm", "ready", &["not run"]);
    let left_out: Vec<&str> =
        quick["left_out"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(left_out, ["PyTorch", "profilers", "known answers", "states of the machine"]);
    assert_eq!(place.names(), [""; 0], "asking makes nothing");
}

#[test]
fn a_torch_answers_what_is_known_and_says_why_nccl_does_not() {
    let Some(python) = crate::pytorch::torch("known answers of pytorch/gloo") else { return };
    let place = Place::new();
    let whole = answer(place.command("validate --json --python").argument(Path::new(&python)).run());
    row(&whole, "pytorch/gloo", "ready", &["is available in it; 64 KiB all_reduce on 2 ranks right, "]);
    let nccl = rows(&whole, "pytorch/nccl")[0];
    assert_eq!(nccl["state"], "missing", "{nccl:#}");
    // A torch with collectives that do not work is not ready, and that is an error.
    place.write("sitecustomize.py", BREAK_GLOO);
    let mut starting = place.command("validate --json --python").argument(Path::new(&python));
    starting.command.env("PYTHONPATH", place.path(""));
    let broken = answer(starting.run());
    let gloo = row(&broken, "pytorch/gloo", "misconfigured", &["no gloo today"]);
    assert!(gloo["fix"].as_str().unwrap().contains("--runtime pytorch --backend gloo"), "{gloo:#}");
    assert_eq!(broken["exit"], 1);
}

/// Lets no process group of this Python start: what a firewall, say, does to gloo.
const BREAK_GLOO: &str = r#"
import sys
from importlib.machinery import PathFinder

def refuse(*arguments, **named):
    raise RuntimeError("no gloo today")

class Break:
    def find_spec(self, name, path, target=None):
        if name != "torch.distributed.distributed_c10d":
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def execute_and_break(module):
            execute(module)
            module.init_process_group = refuse
        spec.loader.exec_module = execute_and_break
        return spec

sys.meta_path.insert(0, Break())
"#;

#[test]
fn a_plan_is_told_what_would_become_of_it() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "experiment: some\ncases:\n  - benchmark: collective\n    op: all_reduce\n    ranks: [2, 3]\n    bytes: [1KiB, 1TB]\n",
    );
    let outlook = answer(place.run("validate --json --quick --plan plan.yaml"));
    let plan = &outlook["plan"];
    assert_eq!((&plan["cases"], &plan["run"], &outlook["exit"]), (&4.into(), &2.into(), &1.into()));
    let skipped = plan["skipped"].as_array().unwrap();
    assert!(skipped.iter().all(|case| case["reason"].as_str().unwrap().contains("not enough memory")), "{plan:#}");
    assert!(skipped[0]["case"].as_str().unwrap().starts_with("collective all_reduce shm 2 ranks 931 GiB"), "{plan:#}");
    // What a run does with them is the same.
    place.run("run plan.yaml --output-dir out --max-seconds 0.02s").exits(0);
    let ids = |lines: &[Value]| {
        let mut ids: Vec<String> = lines.iter().map(|line| line["id"].to_string()).collect();
        ids.sort();
        ids
    };
    let lines: Vec<Value> = place.cases("out").into_iter().filter(|line| line["status"] == "skipped").collect();
    assert_eq!(ids(&lines), ids(skipped));

    let text = place.run("validate --quick --plan plan.yaml").exits(1).out;
    assert!(
        text.contains("2 of 4 cases would run here") && text.contains("1 case skipped: not enough memory"),
        "{text}"
    );

    place.run("validate --plan nowhere.yaml").refuses(&["nowhere.yaml cannot be read"]);
    place
        .write("wrong.yaml", "cases:\n  - benchmark: collective\n    op: all_reduc\n")
        .run("validate --plan wrong.yaml")
        .exits(2);
}

#[test]
fn the_page_is_plain_in_a_pipe_and_ends_with_what_can_run() {
    let ended = Place::new().run("validate");
    let (out, code) = (&ended.out, ended.status.code());
    assert!(!out.contains('\u{1b}') && !out.contains('\r') && ended.err.is_empty(), "{ended:?}");
    assert!(out.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()), "{out}");
    let (page, next) = out.split_once("\nnext ").unwrap_or_else(|| panic!("{out}"));
    let last = page.rfind("8 of 8 benchmarks").unwrap_or_else(|| panic!("{page}"));
    assert_eq!(
        page[last..].split_whitespace().collect::<Vec<_>>().join(" "),
        "8 of 8 benchmarks can run here: collective, primitive, training, memory, hardware, kernel, startup, interference"
    );
    assert!(next.trim_start().starts_with("rankmark run\n"), "{next}");
    // What its own machine is like is not this test's affair; that code and text agree is.
    assert_eq!(code == Some(1), out.contains("fix first"), "{ended:?}");
    assert!(ended.took < Duration::from_secs(100), "{:?}", ended.took);
}

/// Where Debian has libraries and programs.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const PROGRAMS: &str = "/usr/bin";

/// Runs `validate --quick --json` where these files (patterns of the shell) are not; None where that cannot be arranged.
fn without(place: &Place, hidden: &str) -> Option<Value> {
    // What is removed is removed from what the command sees, and from nothing else.
    let script = format!(
        "set -e\nt=$PWD/over; mkdir -p $t; mount -t tmpfs tmpfs $t\nfor d in {LIBRARIES} {PROGRAMS}; do mkdir -p $t$d/u $t$d/w\n\
         mount -t overlay -o lowerdir=$d,upperdir=$t$d/u,workdir=$t$d/w overlay $d || exit 99; done\n\
         rm -f {hidden}\nexec \"$@\"\n"
    );
    place.write("hide.sh", script);
    let ended = place.command_under("unshare --mount sh hide.sh", "validate --quick --json").run();
    if ended.status.code() == Some(99) || ended.err.contains("unshare") {
        skip::skip("validate without libraries that are installed", ended.err.trim());
        return None;
    }
    Some(answer(ended))
}

#[test]
fn what_is_installed_is_told_and_what_is_taken_away_is_missed() {
    let place = Place::new();
    let there = |file: &str| Path::new(file).exists();
    let library = |name: &str| format!("{LIBRARIES}/{name}");
    if !there(&library("libmpi.so.40")) || !there(&library("libmpich.so.12")) {
        return skip::skip("validate without libraries that are installed", "no MPI (Debian: openmpi-bin, mpich)");
    }
    let Some(all) = without(&place, "none") else { return };
    for (name, file, launcher) in
        [("Open MPI", "libmpi.so.40", "mpirun.openmpi"), ("MPICH", "libmpich.so.12", "mpiexec.mpich")]
    {
        row(&all, name, "ready", &[file, &format!("its {PROGRAMS}/{launcher}")]);
    }
    // One of two: all that is said of the other stays.
    let Some(one) = without(&place, &library("libmpich.so*")) else { return };
    assert!(rows(&one, "MPICH").is_empty(), "{one:#}");
    for kept in ["Open MPI", "mpi", "UCX", "shm"] {
        assert_eq!(rows(&one, kept), rows(&all, kept));
    }
    let Some(none) = without(&place, &[library("libmpich.so*"), library("libmpi.so*")].join(" ")) else { return };
    row(&none, "MPI", "missing", &["no libmpi where the loader looks"]);
    let backend = row(&none, "mpi", "missing", &["cannot open shared object file"]);
    assert!(backend["fix"].as_str().unwrap().contains("openmpi-bin or mpich"), "{backend:#}");
    let Some(launchers) = without(&place, &format!("{PROGRAMS}/mpirun.openmpi {PROGRAMS}/mpiexec.openmpi")) else {
        return;
    };
    row(&launchers, "Open MPI", "misconfigured", &["no mpirun of Open MPI "]);
    assert_eq!(rows(&launchers, "MPICH"), rows(&all, "MPICH"));
    if there(&library("libucp.so.0")) {
        let Some(ucx) = without(&place, &library("libucp.so*")) else { return };
        assert_ne!(rows(&ucx, "UCX"), rows(&all, "UCX"));
        row(&ucx, "UCX", "missing", &[]);
    }
}
