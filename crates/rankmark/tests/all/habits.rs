//! Lines that users type out of habit: the answer is the line to type.

use crate::place::Place;

#[test]
fn a_wrong_line_is_answered_with_the_right_one() {
    let place = Place::new();
    place.write("plan.yaml", "experiment: x\ncases: []\n");
    for (line, what, hint) in [
        ("allreduce --ranks 2", "`allreduce` is an operation, not a command", "rankmark comm all_reduce --ranks 2"),
        ("osu_bcast", "`osu_bcast` is an operation", "rankmark comm broadcast"),
        ("gpt2_mini --batch 4", "`gpt2_mini` is a model", "rankmark train --model gpt2-mini --batch 4"),
        ("training", "`training` is a benchmark", "rankmark train"),
        ("soak", "`soak` is a preset", "rankmark gen-config soak > soak.yaml && rankmark run soak.yaml"),
        ("plan.yaml --quick", "`plan.yaml` is a plan", "rankmark run plan.yaml --quick"),
        (
            "comm --bytes 8..1KiB*2",
            "`rankmark comm` needs the operation\nvalid values: all_reduce, ",
            "rankmark comm all_reduce --bytes '8..1KiB*2'",
        ),
        (
            "train gpt2 --ranks 2",
            "`rankmark train` takes its model as an option",
            "rankmark train --model gpt2 --ranks 2",
        ),
        ("run all_reduce", "there is no plan `all_reduce`: it is an operation", "rankmark comm all_reduce"),
        ("run quick", "there is no plan `quick`", "rankmark run"),
        ("gen-config h100", "`h100-nvlink` is hardware, not a preset", "rankmark gen-config --hardware h100-nvlink"),
    ] {
        // Measuring commands get `--trials 1` from this helper, which the answer repeats.
        let err = place.run(line).refuses(&[what]).err.replace(" --trials 1", "");
        assert!(err.ends_with(&format!("\nhint:  {hint}\n")), "{line}: {err}");
    }
    assert_eq!(place.names(), ["plan.yaml"]);
    // Where nothing is known of a word, help is; and help is not an error.
    place
        .run("frobnicate")
        .refuses(&["there is no command `frobnicate`", "hint:  `rankmark --help` lists the commands"]);
    place.run("comm --help").exits(0);
    place.run("merge a").refuses(&["`rankmark merge` needs 2 arguments, not 1", "usage: rankmark merge"]);
    // A line that would be refused again is not the line to type.
    let err = place.run("comm --hostfile hosts").refuses(&["`rankmark comm` has no option `--hostfile`"]).err;
    assert!(err.contains("mpirun --hostfile FILE"), "{err}");
}

#[test]
fn launchers_flags_mean_ranks() {
    let place = Place::new();
    for flag in ["-n", "-np", "--np"] {
        let ended = place.run(&format!("comm all_reduce {flag} 3 --bytes 1KiB --dry-run")).exits(0);
        assert!(ended.out.contains("\n  3 ranks "), "{}", ended.out);
    }
    place.run("comm all_reduce -np 4 --ranks 2 --dry-run").refuses(&["`-np` and `--ranks` are both given"]);
}

#[test]
fn options_of_nccl_tests_and_osu_are_taken() {
    let place = Place::new();
    let line = "comm all_reduce -b 8 -e 2K -f 4 -g 3 -o max -d float -n 3 -w 1 --max-seconds 0.02s --output-dir out";
    let ended = place.run(line).exits(0);
    let note = "note: `-b 8 -e 2K -f 4` is read as `--bytes 8..2KiB*4`: K, M and G are powers of 1024\n";
    assert!(ended.out.contains(note), "{}", ended.out);
    let cases = place.cases("out");
    let sizes: Vec<u64> = cases.iter().map(|case| case["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [8, 32, 128, 512, 2048]);
    for case in &cases {
        assert_eq!(
            (&case["ranks"], &case["dtype"], &case["parameters"]["reduce"]),
            (&3.into(), &"f32".into(), &"max".into())
        );
        assert_eq!(case["samples"], 3);
    }
    let sizes = place.run("comm all_gather -m 64:256 --dry-run").exits(0).out;
    assert!(["64", "128", "256"].iter().all(|size| sizes.contains(&format!(" {size} B\n"))), "{sizes}");
    place.run("comm all_reduce -b 8 -e 1M --dry-run").refuses(&["add `-f 2`"]);
}

#[test]
fn element_types_have_their_other_names_in_plans_and_flags() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "experiment: x\ncases:\n  - {benchmark: collective, bytes: 1KiB, dtype: [Float32, half, bfloat16]}\n",
    );
    let dtypes = |line: &str| -> Vec<String> {
        let lines = crate::place::json_lines(&place.run(line).exits(0).out);
        lines.iter().map(|line| line["parameters"]["dtype"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(dtypes("run plan.yaml --dry-run --json"), ["f32", "f16", "bf16"]);
    assert_eq!(
        dtypes("comm all_reduce --bytes 1KiB --dtype double,uint8,int64 --dry-run --json"),
        ["f64", "u8", "i64"]
    );
    assert_eq!(
        dtypes("comm all_gather --bytes 1KiB --dtype int8,uint32,uint64,torch.float8_e4m3fn,fp8_e5m2 --dry-run --json"),
        ["i8", "u32", "u64", "f8e4m3", "f8e5m2"]
    );
    // One case, whatever it is called.
    assert_eq!(dtypes("comm all_reduce --bytes 1KiB --dtype f32,float --dry-run --json"), ["f32"]);
    place.run("comm all_reduce --reduce float --dry-run").refuses(&["`reduce` does not take `float`"]);
    place.run("comm reduce --dtype fp8_e4m3 --dry-run").refuses(&[
        "reduce does not support f8e4m3: sums of fp8 are not exact here",
        "all_gather, broadcast and other moves support fp8",
    ]);
}

#[test]
fn all_types_of_nccl_tests_run() {
    let place = Place::new();
    for (op, types) in [("all_reduce", 10), ("all_gather", 12)] {
        let line = format!("comm {op} -d all -b 1001 -g 2 -n 3 -w 1 --trials 1 --max-seconds 0.02s --output-dir {op}");
        let ended = place.run(&line).exits(0);
        let cases = place.cases(op);
        assert_eq!(cases.len(), types, "{}", ended.out);
        assert!(cases.iter().all(|case| case["status"] == "ok" && case["wrong"] == 0), "{cases:?}");
        assert_eq!(ended.out.contains("`-d all` is read without f8e4m3,f8e5m2"), types == 10, "{}", ended.out);
    }
}
