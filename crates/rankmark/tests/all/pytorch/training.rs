//! Training by PyTorch ranks: losses compared with those of native ranks, phases, and what a plan may ask for.

use std::process::Command;

use super::{BEYOND, torch};
use crate::place::{Place, reason, statuses};
use crate::skip;

/// Losses of each case, in order.
fn losses(cases: &[serde_json::Value]) -> Vec<Vec<f64>> {
    let of = |case: &serde_json::Value| {
        let all = case["loss"].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().map(|loss| loss.as_f64().unwrap()).collect()
    };
    cases.iter().map(of).collect()
}

/// The largest relative difference of two series.
fn apart(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs - 1.0).abs()).fold(0.0, f64::max)
}

const SMALL: &str = "--layers 2 --width 48 --heads 4 --vocabulary 97 --sequence 16";
const BOTH: &str = "--runtime native,pytorch --steps 5 --output-dir r";

/// Runs native and PyTorch cases in turn, and holds their losses against each other.
fn agree(test: &str, options: &str, bounds: &[f64]) {
    let Some(python) = torch(test) else { return };
    let place = Place::new();
    place.run(&format!("train {BOTH} --python {python} {options}")).exits(0);
    let cases = place.cases("r");
    assert!(cases.iter().all(|case| case["status"] == "ok" && case["wrong"] == 0), "{cases:#?}");
    let of = |runtime: &str| -> Vec<serde_json::Value> {
        cases.iter().filter(|case| case["runtime"] == runtime).cloned().collect()
    };
    let (ours, theirs) = (losses(&of("native")), losses(&of("pytorch")));
    assert_eq!((ours.len(), theirs.len()), (bounds.len(), bounds.len()), "{cases:#?}");
    for ((ours, theirs), bound) in ours.iter().zip(&theirs).zip(bounds) {
        assert_eq!(ours.len(), 5);
        assert!(ours.windows(2).all(|pair| pair[0] != pair[1]), "something is trained: {ours:?}");
        let apart = apart(ours, theirs);
        assert!(apart < *bound, "{apart:e} for {options}: ours {ours:?}, theirs {theirs:?}");
    }
}

/// Sums in another order: a few units of the type's rounding in each loss, which no chaos of so few steps makes large.
const F32: f64 = 2e-6;
const F64: f64 = 1e-9;
/// Norms over the few numbers of a small batch make more of it, and AdamW divides by gradients that are almost zero.
const F32_OF_IMAGES: f64 = 2e-4;

#[test]
fn losses_of_gpt2_agree() {
    let options = format!("--model gpt2 {SMALL} --positions 24 --ranks 1,2 --precision f32,f64");
    agree("losses of gpt2 by both runtimes", &options, &[F32, F64, F32, F64]);
}

#[test]
fn losses_of_llama_agree() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let sgd = "--optimizer sgd --learning-rate 0.1 --momentum 0.9";
    let options = format!("--model llama-tiny {SMALL} --kv-heads 2 --ffn 80 {sgd} --ranks 1,2 --precision f32,f64");
    agree("losses of llama by both runtimes", &options, &[F32, F64, F32, F64]);
}

#[test]
fn losses_of_bert_agree_with_parts_of_a_batch() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let options = format!("--model bert-base {SMALL} --positions 24 --accumulate 2 --ranks 1,2 --precision f32,f64");
    agree("losses of bert by both runtimes", &options, &[F32, F64, F32, F64]);
}

#[test]
fn losses_of_resnet_agree() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let options = "--model resnet18 --image 32 --classes 10 --width 8 --synchronised false --ranks 1,2";
    let bounds = [F32_OF_IMAGES, F64, F32_OF_IMAGES, F64];
    agree("losses of resnet by both runtimes", &format!("{options} --precision f32,f64"), &bounds);
}

#[test]
fn losses_agree_however_gradients_are_exchanged() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let small = format!("--model gpt2 {SMALL} --positions 24 --ranks 2 --precision f64");
    let test = "losses of sharded training by both runtimes";
    agree(test, &format!("{small} --sharded 2,3"), &[F64, F64]);
    // torch clips at `bound / (norm + 1e-6)`, we at `bound / norm`.
    agree(test, &format!("{small} --clip 0.5 --bucket 4KiB"), &[1e-7]);
}

#[test]
fn buckets_and_graphs_change_no_loss() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("fields of DistributedDataParallel") else { return };
    let place = Place::new();
    let lists = "--gradient-as-bucket-view false,true --static-graph false,true --bucket 4KiB,25MiB";
    let options = format!("--runtime pytorch --model gpt2 {SMALL} --positions 24 --ranks 2 --steps 3 --output-dir r");
    place.run(&format!("train {options} --python {python} {lists}")).exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [8, 0, 0, 0]);
    let losses = losses(&cases);
    assert!(losses.iter().all(|other| apart(other, &losses[0]) < F32), "{losses:?}");
    // Waiting for others is separate from computing.
    let told = |case: &serde_json::Value| case["phases_s"]["communication"].as_f64().is_some_and(|time| time > 0.0);
    assert!(cases.iter().all(told), "{cases:#?}");
}

#[test]
fn bf16_of_both_is_near_and_marked() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("bf16 by both runtimes") else { return };
    let place = Place::new();
    let options = format!("--model gpt2 {SMALL} --positions 24 --precision bf16");
    place.run(&format!("train {BOTH} --python {python} {options}")).exits(0);
    let cases = place.cases("r");
    let both = losses(&cases);
    // Half a unit of bf16's rounding is 2^-9; losses are means of many.
    assert!(apart(&both[0], &both[1]) < 1.0 / 512.0, "{both:?}");
    let marked = |case: &serde_json::Value| case["caveats"].as_array().unwrap().contains(&"autocast".into());
    assert_eq!([marked(&cases[0]), marked(&cases[1])], [false, true]);
}

#[test]
fn ranks_that_part_are_found() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("a changed parameter of a PyTorch rank") else { return };
    let place = Place::new();
    let options = format!("--runtime pytorch --model gpt2 {SMALL} --positions 24 --ranks 2 --steps 4 --output-dir r");
    let fault = "--inject wrong:rank=1,element=5,at=2,every=1";
    place.run(&format!("train {options} --python {python} {fault}")).exits(1);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 1, 0, 0]);
    assert!(cases[0]["wrong"].as_u64() > Some(0), "{cases:#?}");
    assert!(reason(&cases[0]).contains("what other ranks hold in `embedding.lookup.tokens`"), "{}", reason(&cases[0]));
}

#[test]
fn a_step_without_its_exchange_trains_each_rank_for_itself() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("training without exchange by PyTorch ranks") else { return };
    let place = Place::new();
    let options = format!("--runtime pytorch --model gpt2 {SMALL} --positions 24 --ranks 2 --steps 3 --output-dir r");
    place.run(&format!("train {options} --python {python} --communicate true,false")).exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [2, 0, 0, 0]);
    let losses = losses(&cases);
    assert!(losses[0][0] == losses[1][0] && losses[0][2] != losses[1][2], "{losses:?}");
}

#[test]
fn a_late_rank_is_waited_for_and_not_computed() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("the wait for a late PyTorch rank") else { return };
    let place = Place::new();
    let options = format!("--runtime pytorch --model gpt2 {SMALL} --positions 24 --ranks 2 --steps 6 --output-dir r");
    place.run(&format!("train {options} --python {python} --inject delay:rank=1,time=300ms")).exits(0);
    let ranks = &place.cases("r")[0]["phases_s"]["per_rank"];
    let of = |phase: &str, rank: usize| ranks[phase][rank].as_f64().unwrap();
    assert!(of("wait", 0) > 0.2 && of("wait", 1) < 0.1, "{ranks:#}");
    assert!(of("backward", 0) < 0.2, "{ranks:#}");
}

#[test]
fn both_runtimes_train_in_one_report() {
    let Some(python) = torch("training of both runtimes in one report") else { return };
    let place = Place::new();
    let options = format!("--model gpt2 {SMALL} --positions 24 --ranks 1,2 --threads 1,2");
    place.run(&format!("train {BOTH} --python {python} {options}")).exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [8, 0, 0, 0]);
    let report = place.read("r/report.md");
    for words in ["Against the best peer of this run", "| pytorch/gloo |", "gpt2 by pytorch/gloo with 2 ranks (2x1x1)"]
    {
        assert!(report.contains(words), "`{words}` is not in {report}");
    }
    // The prediction is for native ranks and does not hold for torch.
    let predicted = |case: &serde_json::Value| !case["memory"]["predicted"].is_null();
    assert!(cases.iter().all(|case| predicted(case) == (case["runtime"] == "native")), "{cases:#?}");
    assert!(cases.iter().all(|case| case["memory"]["measured"]["total"].as_u64() > Some(0)), "{cases:#?}");
}

#[test]
fn compiling_is_done_or_said_to_be_impossible() {
    if !skip::heavy("torch.compile of a model") {
        return;
    }
    let Some(python) = torch("torch.compile of a model") else { return };
    let place = Place::new();
    let options = format!("--runtime pytorch --model gpt2 {SMALL} --positions 24 --steps 3 --output-dir r");
    let run = place.run(&format!("train {options} --python {python} --compile false,true"));
    let cases = place.cases("r");
    assert_eq!(cases[0]["status"], "ok", "{cases:#?}");
    if cases[1]["status"] == "skipped" {
        return skip::skip("torch.compile of a model", reason(&cases[1]));
    }
    run.exits(0);
    let losses = losses(&cases);
    assert!(apart(&losses[0], &losses[1]) < F32, "{losses:?}");
    drop(place);
    // Without a compiler: said, and not run as if nothing had been asked for.
    let place = Place::new();
    place.write(
        "python",
        format!("#!/bin/sh\nCXX=/no/compiler TORCHINDUCTOR_CACHE_DIR=\"$PWD/cache\" exec {python} \"$@\"\n"),
    );
    let made = Command::new("chmod").args(["+x"]).arg(place.path("python")).status();
    assert!(made.is_ok_and(|status| status.success()));
    place.run(&format!("train {options} --python ./python --compile true")).exits(2);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 0, 1, 0], "{cases:#?}");
    assert!(reason(&cases[0]).contains("cannot compile here"), "{}", reason(&cases[0]));
}
