//! Whether results are the same bits, from outside: what is said of them, gates, and what cannot be asked.

use serde_json::Value;

use crate::gpus::{folder, with_libraries};
use crate::place::{Place, json_lines, statuses};
use crate::pytorch::torch;
use crate::skip;

const SHORT: &str = "--data random --reproducible --max-seconds 0.02s --trials 2 --spacing 0s --output-dir out";

/// What was compared in a line, and whether it was the same.
fn compared(line: &Value, part: &str) -> Vec<(String, bool)> {
    let all = line["same_bits"][part].as_array().unwrap();
    let one = |one: &Value| (one["varied"].as_str().unwrap().to_owned(), one.get("difference").is_none());
    all.iter().map(one).collect()
}

fn same(names: &[&str]) -> Vec<(String, bool)> {
    names.iter().map(|name| ((*name).to_owned(), true)).collect()
}

#[test]
fn ranks_calls_trials_sizes_and_forms_are_compared() {
    let place = Place::new();
    let command = format!("comm all_reduce --ranks 2 --bytes 1KiB,4KiB --in-place true,false {SHORT}");
    let ended = place.run(&format!("{command} --json --expect reproducible_share>=1")).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [4, 0, 0, 0], "{}", ended.err);
    let mut across = 0;
    for line in &lines {
        assert_eq!((&line["wrong"], &line["reproducible_share"]), (&0.into(), &1.0.into()), "{line}");
        assert_eq!(compared(line, "within"), same(&["ranks", "calls", "trials"]), "{line}");
        let found = &line["same_bits"];
        assert_eq!((&found["ranks"], &found["trials"]), (&2.into(), &2.into()), "{line}");
        assert!(found["results"].as_u64().unwrap() >= 8, "{line}");
        across += compared(line, "across").len();
    }
    // Each size in the other form, and each form in the other size.
    assert_eq!(across, 4);
    let said = "all_reduce 1 KiB to 4 KiB, 2 ranks, shm (4 cases): the same bits on all ranks, in ";
    let report = place.read("out/report.md");
    assert!(report.contains(said), "{report}");
    assert!(report.contains("With two ranks, the order of a sum does not matter"), "{report}");
    // Names of parameters are code, in Markdown and in HTML.
    assert!(report.contains("with every `in_place` and `bytes`"), "{report}");
    let page = place.read("out/report.html");
    assert!(page.contains("with every <code>in_place</code> and <code>bytes</code>"), "{page}");
}

#[test]
fn a_missed_gate_on_bits_fails_the_run() {
    let place = Place::new();
    let ended = place
        .run(&format!("comm all_gather --backend sim {SHORT} --bytes 1KiB --expect reproducible_share>1"))
        .exits(1);
    let text = format!("{}{}", ended.out, ended.err);
    assert!(text.contains("reproducible_share>1"), "{text}");
    assert!(text.contains("The operation moves or chooses numbers"), "{text}");
}

#[test]
fn bits_of_mpi_are_compared() {
    if !std::path::Path::new("/usr/bin/mpirun").exists() {
        return skip::skip("bits of mpi", "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    }
    let place = Place::new();
    let ended = place
        .run(&format!("comm all_reduce,reduce_scatter --backend mpi --ranks 3 --bytes 3KiB --json {SHORT}"))
        .exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [2, 0, 0, 0], "{}", ended.err);
    assert_eq!(compared(&lines[0], "within"), same(&["ranks", "calls", "trials"]));
    assert_eq!(compared(&lines[1], "within"), same(&["calls", "trials"]), "each rank has its own part");
}

#[test]
fn bits_of_nccl_are_compared_in_the_hosts_memory() {
    let Some(folder) = folder("bits_of_nccl_are_compared_in_the_hosts_memory") else { return };
    let command = format!("comm all_reduce --backend nccl --ranks 2 --bytes 300KiB --json {SHORT}");
    let lines = json_lines(&with_libraries(&Place::new(), folder, &command, &[]).exits(0).out);
    assert_eq!((&lines[0]["wrong"], &lines[0]["reproducible_share"]), (&0.into(), &1.0.into()), "{}", lines[0]);
    assert_eq!(compared(&lines[0], "within"), same(&["ranks", "calls", "trials"]));
}

#[test]
fn bits_of_pytorch_are_compared_with_those_of_native_ranks() {
    let Some(python) = torch("bits of pytorch/gloo") else { return };
    let place = Place::new();
    let command = format!("comm all_reduce --runtime native,pytorch --python {python} --ranks 3 --bytes 3KiB");
    let ended = place.run(&format!("{command} --json {SHORT}")).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [2, 0, 0, 0], "{}", ended.err);
    let [native, gloo] = &lines[..] else { panic!("two cases") };
    assert_eq!((&gloo["runtime"], &gloo["wrong"]), (&"pytorch".into(), &0.into()), "{gloo}");
    assert_eq!(compared(gloo, "within"), same(&["ranks", "calls", "trials"]), "{gloo}");
    assert_eq!((&gloo["same_bits"]["ranks"], &gloo["same_bits"]["trials"]), (&3.into(), &2.into()), "{gloo}");
    // Both add up the same numbers: where they do it in another order, the sums are next to each other.
    let across = &gloo["same_bits"]["across"][0];
    assert_eq!((&across["varied"], &across["from"], &across["to"]), (&"backend".into(), &"shm".into(), &"gloo".into()));
    let bits = |line: &Value| line["same_bits"]["bits"]["values"].as_str().unwrap().to_owned();
    let signs = |text: &str| -> Vec<u8> {
        (0..text.len() / 8).map(|at| u8::from_str_radix(&text[8 * at..8 * at + 2], 16).unwrap()).collect()
    };
    let [native_signs, gloo_signs] = [native, gloo].map(|line| signs(&bits(line)));
    let alike = native_signs.iter().zip(&gloo_signs).filter(|(one, other)| one == other).count();
    assert!(alike >= 60, "{alike} of {} have the same sign and exponent", native_signs.len());
    if let Some(difference) = across.get("difference") {
        assert!(difference["ulps"].as_u64().is_none_or(|ulps| ulps < 1000), "{difference}");
    }
}

/// A module that Python loads when it starts: it changes the last bit of an element that torch's all_reduce leaves on rank 1.
const FLIPS: &str = "
import os
import torch
import torch.distributed as dist
true, made = dist.all_reduce, [0]
def all_reduce(tensor, *words, **named):
    done = true(tensor, *words, **named)
    if tensor.numel() == 1024 and dist.get_rank() == 1:
        made[0] += 1
        if os.environ['FLIP'] == 'always' or made[0] == 3:
            tensor.view(torch.int32)[700] ^= 1
    return done
dist.all_reduce = all_reduce
";

#[test]
fn a_bit_that_torch_changes_is_named_and_not_wrong() {
    let Some(python) = torch("a changed bit of pytorch/gloo") else { return };
    for (flip, varied, from, to) in
        [("once", "calls", "call 1", "call 3 of rank 1"), ("always", "ranks", "rank 0", "rank 1")]
    {
        let place = Place::new();
        std::fs::create_dir(place.path("site")).unwrap();
        place.write("site/sitecustomize.py", FLIPS);
        let command = format!("comm all_reduce --backend gloo --python {python} --ranks 2 --bytes 4KiB --json {SHORT}");
        let mut starting = place.command(&command);
        starting.command.env("PYTHONPATH", place.path("site")).env("FLIP", flip);
        let ended = starting.run().exits(0);
        let line = json_lines(&ended.out).remove(0);
        assert_eq!((&line["status"], &line["wrong"]), (&"ok".into(), &0.into()), "{flip}: {line}");
        let within = line["same_bits"]["within"].as_array().unwrap();
        let differing: Vec<&Value> = within.iter().filter(|one| one.get("difference").is_some()).collect();
        let [one] = differing[..] else { panic!("{flip}: one difference alone: {within:?}") };
        assert_eq!((&one["varied"], &one["from"], &one["to"]), (&varied.into(), &from.into(), &to.into()));
        let difference = &one["difference"];
        assert_eq!((&difference["first"], &difference["ulps"]), (&700.into(), &1.into()), "{flip}: {difference}");
        assert_eq!(difference["different"], 1, "{flip}: {difference}");
        let report = place.read("out/report.md");
        assert!(report.contains(&format!("not the same bits between {from} and {to}: element 700 is ")), "{report}");
    }
}

#[test]
fn what_would_always_hold_is_refused() {
    let place = Place::new();
    for (options, words) in [
        ("--reproducible", "would always hold"),
        ("--data random --dtype i32", "the same bits in any order"),
        ("--data random --reproducible --ranks 4 --groups mod2", "leave `groups` out"),
    ] {
        place.run(&format!("comm all_reduce {options}")).exits(2).refuses(&[words]);
    }
}

#[test]
fn steps_of_training_give_the_same_bits_again() {
    let place = Place::new();
    let model = "train --model mlp --features 8 --width 16 --layers 1 --classes 4 --batch 4 --ranks 2";
    let ended = place.run(&format!("{model} --reproducible --steps 3 --trials 1 --output-dir out --json")).exits(0);
    let lines = json_lines(&ended.out);
    let line = lines.iter().find(|line| line["ranks"] == 2).expect("two ranks");
    let found = &line["same_bits"];
    assert_eq!(
        (&found["unit"], &found["results"], &line["reproducible_share"]),
        (&"step".into(), &2.into(), &1.0.into())
    );
    assert_eq!(compared(line, "within"), same(&["ranks", "calls"]), "{line}");
    let report = place.read("out/report.md");
    assert!(report.contains("the same bits of losses and parameters on all ranks"), "{report}");
}

#[test]
fn steps_of_pytorch_give_the_same_bits_again() {
    let Some(python) = torch("repeated steps of pytorch/gloo") else { return };
    let place = Place::new();
    let model = "train --model mlp --features 8 --width 16 --layers 1 --classes 4 --batch 4 --ranks 2";
    let command = format!("{model} --runtime pytorch --python {python} --reproducible --steps 3 --trials 1");
    let lines = json_lines(&place.run(&format!("{command} --output-dir out --json")).exits(0).out);
    let line = lines.iter().find(|line| line["ranks"] == 2).expect("two ranks");
    let found = &line["same_bits"];
    assert_eq!(
        (&found["unit"], &found["results"], &line["reproducible_share"]),
        (&"step".into(), &2.into(), &1.0.into()),
        "{line}"
    );
    assert_eq!(compared(line, "within"), same(&["ranks", "calls"]), "{line}");
}
