//! Words of other tools, slips and words in the wrong place: each is taken as what it means, or answered with what to type.

use crate::place::Place;

/// What `--dry-run` says of a line that is accepted.
fn dry(line: &str) -> String {
    Place::new().run(&format!("{line} --dry-run")).exits(0).out
}

#[test]
fn options_have_the_names_of_other_tools() {
    for name in ["nproc", "nproc-per-node", "nproc_per_node", "gpus", "world-size", "world_size", "np", "ngpus"] {
        for between in [" ", "="] {
            let out = dry(&format!("comm all_reduce --{name}{between}3 --bytes 1KiB"));
            assert!(out.contains("\n  3 ranks "), "--{name}{between}3: {out}");
        }
    }
    assert!(dry("comm all_reduce --size 2KiB").contains(" 2 KiB\n"));
    for name in ["bs", "batch-size", "batch_size"] {
        assert!(dry(&format!("train --{name} 3")).contains("batch 3"), "{name}");
    }
    assert!(dry("train --zero=3 --ranks 2").contains("sharded 3"));
    // The option of this name stays what it is.
    assert!(dry("hardware gemm --size 512").contains("gemm"));
    let place = Place::new();
    for command in ["comm", "train", "run", "memory"] {
        let help = place.run(&format!("{command} --help")).exits(0).out;
        assert!(!help.contains("--nproc") && !help.contains("--bs"), "{help}");
    }
    place.run("train --size 3").refuses(&["`rankmark train` has no option `--size`"]);
}

#[test]
fn words_that_mean_no_option_are_explained() {
    let place = Place::new();
    for line in ["train --epochs 3", "train --num-epochs=3", "train --epoch 1"] {
        place.run(line).refuses(&[
            "has no option `--",
            "cause: a run measures steps",
            "--steps N",
            "--max-seconds TIME",
        ]);
    }
    place.run("comm all_reduce --epochs 3").refuses(&["--iters N"]);
    for name in ["hostfile", "nnodes"] {
        let words = ["a launcher starts ranks on other hosts", "mpirun --hostfile FILE", "torchrun --nnodes 2"];
        place.run(&format!("comm all_reduce --{name} 2")).refuses(&words);
    }
    place.run("train --tp 2").refuses(&["has no option `--tp`", "`--mesh DPxTPxPP`"]);
    place.run("comm all_reduce --export-json x").refuses(&["rankmark report DIR --format csv --output FILE"]);
    place.run("comm all_reduce --runs x").refuses(&["`trials`"]);
    for (word, line) in
        [("doctor", "rankmark validate"), ("diff a b", "rankmark compare a b"), ("show d", "rankmark report d")]
    {
        place.run(word).refuses(&["a word of other tools, not a command", line]);
    }
    place.run("memory --limit 80").refuses(&["a limit of 80 bytes is too small for any model", "80GiB"]);
}

#[test]
fn keys_of_plans_are_answered_with_the_right_one() {
    let place = Place::new();
    for (key, field) in [("nproc", "ranks"), ("world-size", "ranks"), ("size", "bytes"), ("gpus", "ranks")] {
        place.write("plan.yaml", format!("experiment: x\ncases:\n  - {{benchmark: collective, {key}: 2}}\n"));
        place.run("run plan.yaml").refuses(&["plan.yaml:3:", &format!("hint:  did you mean `{field}`?")]);
        place.run(&format!("comm all_reduce --set {key}=2")).refuses(&[&format!("hint:  did you mean `{field}`?")]);
    }
    place.write("plan.yaml", "experiment: x\ncases:\n  - {benchmark: training, bs: 2, epochs: 3}\n");
    let bad = ["did you mean `batch`?", "has no field `epochs`", "cause: a run measures steps", "`steps`"];
    place.run("run plan.yaml").refuses(&bad);
    place.write("plan.yaml", "experiment: x\ndefaults: {nproc: 2}\ncases:\n  - {benchmark: collective}\n");
    place.run("run plan.yaml").refuses(&["did you mean `ranks`?"]);
}

#[test]
fn plans_take_the_names_of_commands_as_benchmarks() {
    let place = Place::new();
    place.write("plan.yaml", "experiment: x\ncases:\n  - {benchmark: comm, bytes: 1KiB}\n  - {benchmark: train}\n");
    let out = place.run("run plan.yaml --dry-run").exits(0).out;
    assert!(out.contains("collective  all_reduce") && out.contains("\ntraining "), "{out}");
}

#[test]
fn values_have_the_words_of_other_tools() {
    for (line, shown) in [
        ("comm allreduce --bytes 1KiB", "all_reduce"),
        ("comm all-gather,reducescatter,alltoall,bcast --bytes 1KiB", "reduce_scatter"),
        ("comm all_reduce --bytes 1KiB --reduce average", "avg"),
        ("comm all_reduce --bytes 1KiB --dtype torch.float16", "f16"),
        ("comm all_reduce --bytes 1KiB --runtime torch", "pytorch"),
        ("train --strategy ddp --ranks 2", "  data  "),
        ("train --strategy tp --ranks 2", "  tensor"),
        ("train --strategy pipeline_parallel --ranks 2", "  pipeline"),
        ("train --precision half", "  f16  "),
        ("comm all_reduce --bytes 1KiB --runtime torch --device gpu", "cuda"),
    ] {
        let out = dry(line);
        assert!(out.contains(shown), "{line}: {out}");
    }
    let place = Place::new();
    for (line, hint) in [
        ("train --strategy fsdp", "strategy data with sharded 3"),
        ("train --strategy zero3", "strategy data with sharded 3"),
        ("train --strategy zero2", "strategy data with sharded 2"),
        ("comm all_reduce --backend openmpi", "backend mpi; mpi_library names the library"),
        ("comm all_reduce --backend mpich", "backend mpi; mpi_library names the library"),
        ("comm all_reduce --backend ddp", "valid values: shm, "),
    ] {
        place.run(line).refuses(&["does not take", hint]);
    }
}

#[test]
fn ambiguous_sizes_are_asked_back() {
    let place = Place::new();
    for (size, binary, decimal) in [
        ("1K", "1KiB (1,024 bytes)", "1kB (1,000 bytes)"),
        ("16G", "16GiB (17,179,869,184 bytes)", "16GB (16,000,000,000 bytes)"),
        ("1.5m", "1.5MiB (1,572,864 bytes)", "1.5MB (1,500,000 bytes)"),
    ] {
        let hint = format!("hint:  write {binary} or {decimal}");
        for line in [size.to_owned(), format!("8..{size}*2"), format!("8,{size}")] {
            let what = format!("`bytes`: `{size}` has two meanings");
            place.run(&format!("comm all_reduce --bytes {line}")).refuses(&[&what, &hint]);
        }
        place.write("plan.yaml", format!("experiment: x\ncases:\n  - {{benchmark: collective, bytes: {size}}}\n"));
        place.run("run plan.yaml").refuses(&["plan.yaml:3:", &hint]);
    }
    // A number without a unit is bytes, as docs/reference/command-line.md says.
    assert!(dry("comm all_reduce --bytes 16").contains(" 16 B\n"));
    place.run("comm all_reduce --bytes 1x").refuses(&["is not a number of bytes", "64KiB, 100MB or 4096"]);
}

#[test]
fn words_in_the_wrong_place_are_put_right() {
    let place = Place::new();
    place.write("train.py", "");
    for (line, what, hint) in [
        ("comm all_reduce 1MiB", "`1MiB` belongs to no option", "rankmark comm all_reduce --bytes 1MiB"),
        (
            "comm all_reduce 1K,4K",
            "`1K,4K` belongs to no option",
            "rankmark comm all_reduce --bytes 1KiB,4KiB\n       rankmark comm all_reduce --bytes 1KB,4KB",
        ),
        (
            "comm all_reduce 4 --quiet",
            "`4` belongs to no option",
            "rankmark comm all_reduce --quiet --ranks 4\n       rankmark comm all_reduce --quiet --bytes 4",
        ),
        ("comm all_reduce mpi", "`mpi` belongs to no option", "rankmark comm all_reduce --backend mpi"),
        ("train tensor --ranks 2", "`tensor` belongs to no option", "rankmark train --ranks 2 --strategy tensor"),
        (
            "comm all_reduce broadcast --ranks 2",
            "`rankmark comm` takes one list, with commas and no spaces",
            "rankmark comm all_reduce,broadcast --ranks 2",
        ),
        ("comm all_reduce, allgather", "takes one list", "rankmark comm all_reduce,all_gather"),
        ("hardware triad fma", "takes one list", "rankmark hardware triad,fma"),
        ("--ranks 2 comm all_reduce", "options stand after the command", "rankmark comm all_reduce --ranks 2"),
        (
            "--ranks=2 --bytes 1KiB comm",
            "options stand after the command",
            "rankmark comm all_reduce --ranks=2 --bytes 1KiB",
        ),
        ("train.py --lr 3", "`train.py` is a Python program", "rankmark profile -- python3 train.py --lr 3"),
        ("python train.py", "`python` is a program that starts jobs", "rankmark profile -- python train.py"),
        ("torchrun x.py", "`torchrun` is a program that starts jobs", "rankmark profile -- torchrun x.py"),
        ("run train.py", "there is no plan `train.py`: it is a Python program", "rankmark profile -- python3 train.py"),
        ("run torchrun x.py", "`torchrun` is a program that starts jobs", "rankmark profile -- torchrun x.py"),
        ("train train.py", "`train.py` is a Python program", "rankmark profile -- python3 train.py"),
        ("rnu", "there is no command `rnu`", "did you mean `run`?"),
        ("baseline sav x", "`rankmark baseline` has no command `sav`", "did you mean `save`?"),
    ] {
        // Measuring commands get `--trials 1` from this helper, which the answer repeats.
        let err = place.run(line).refuses(&[what]).err.replace(" --trials 1", "");
        assert!(err.ends_with(&format!("\nhint:  {hint}\n")), "{line}: {err}");
    }
}

#[test]
fn wrong_usage_says_what_and_how_to_do_better() {
    let place = Place::new();
    for (line, what, hint) in [
        (
            "comm all_reduce --bogus",
            "`rankmark comm` has no option `--bogus`",
            "`rankmark comm --help` lists the options",
        ),
        ("comm all_reduce -Q", "`rankmark comm` has no option `-Q`", "`rankmark comm --help` lists the options"),
        ("comm all_reduce --read-a x", "has no option `--read-a`", "`rankmark comm --help` lists the options"),
        ("comm all_reduce --rnaks 2", "has no option `--rnaks`", "did you mean `--ranks`?"),
        ("comm all_reduce --nprc 2", "has no option `--nprc`", "did you mean `--ranks`?"),
        ("list models --jsn", "`rankmark list` has no option `--jsn`", "did you mean `--json`?"),
        (
            "report x --ranks 2",
            "`rankmark report` has no option `--ranks`",
            "`rankmark report --help` lists the options",
        ),
        ("comm all_reduce -q -v", "`--quiet` and `--verbose` exclude each other", "leave one of them out"),
        ("comm all_reduce --bytes", "`--bytes` has no value", "--bytes <BYTES>"),
        ("report x --format", "`--format` has no value", "valid values: html, markdown"),
        ("report x --format pfd", "`--format` does not take `pfd`", "did you mean `pdf`?"),
        ("completions foo", "`rankmark completions` does not take `foo`", "valid values: bash, "),
        ("list modls", "`rankmark list` does not take `modls`", "did you mean `models`?"),
        ("pack", "`rankmark pack` needs <DIR>", "usage: rankmark pack"),
        ("gen-job", "`rankmark gen-job` needs --for <LAUNCHER> and <PLAN>", "usage: rankmark gen-job"),
        ("gen-job plan.yaml", "`rankmark gen-job` needs --for <LAUNCHER>", "add --for <LAUNCHER>: slurm, "),
        ("hang 4711", "`rankmark hang` does not take `4711`", "rankmark hang --pid 4711"),
        ("predict --ranks 0", "`--ranks` does not take `0`", "use a whole number from 1 to 65536"),
        ("predict --batch 0.5", "`--batch` does not take `0.5`", "use a whole number"),
        ("predict --batch 0", "`--batch` does not take `0`", "use a whole number, 1 or more"),
        ("comm all_reduce --state x", "`rankmark comm` needs --budget <TIME>", "add --budget <TIME>"),
        ("comm all_reduce --dry-run=3", "`--dry-run` takes no value", "leave `3` out"),
        ("run a b", "`rankmark run` does not take `b`", "usage: rankmark run [OPTIONS] [PLAN]"),
        (
            "compare a --threshold x",
            "`--threshold` does not take `x`\ncause: `x` is not a share (write it like 2% or 0.02)",
            "",
        ),
    ] {
        let err = place.run(line).refuses(&[what, hint]).err;
        for raw in ["Usage:", "tip:", "try '--help'", "unexpected", "possible values", "read-as", "study-csv"] {
            assert!(!err.contains(raw), "{line}: {err}");
        }
        let json = place.run(&format!("{line} --json")).exits(2).err;
        let json: serde_json::Value =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{line}: {error}: {json}"));
        let first = what.split('\n').next().unwrap();
        // Some commands do not have `--json`; some options take it as their value.
        let said = json["errors"][0]["what"].as_str().unwrap();
        assert!(said.contains(first) || said.contains("`--json`") || said.contains("has no value"), "{line}: {json}");
    }
}

#[test]
fn lines_of_nccl_tests_run_as_they_are() {
    let place = Place::new();
    let line =
        "comm all_reduce -b 1K -e 4K -i 1K -t 1 -g 3 -n 20 -w 5 -m 1 -c 1 -a 1 -z 0 -G 0 -C 0 -p 0 -y 0 -T 30 -R 1";
    let ended =
        place.run(&format!("{line} -N 1 -D 0 -o sum -d float -r 0 --trials 1 --max-seconds 0.02s --output-dir out"));
    let out = ended.exits(0).out;
    for note in [
        "`-b 1K -e 4K -i 1K` is read as `--bytes 1KiB,2KiB,3KiB,4KiB`",
        "`-m 1` is ignored: ",
        "`-c 1` is ignored: results are always checked",
        "`-a 1` is ignored: ",
        "`-R 1` is ignored: ",
    ] {
        assert!(out.replace('\n', " ").contains(note), "{note}: {out}");
    }
    assert_eq!(place.cases("out").len(), 4);
    let long =
        "comm broadcast --minbytes 8 --maxbytes=8 --stepfactor 2 --ngpus 2 --warmup_iters 1 --check 0 --blocking 1";
    let out = place
        .run(&format!("{long} --datatype half --cudagraph 1 --report_cputime 1 --average 3 --dry-run"))
        .exits(0)
        .out;
    assert!(out.contains("f16") && out.contains(" 8 B\n"), "{out}");
    place.run("comm all_reduce -b 8 -c").refuses(&["`-c` has no value"]);
}
