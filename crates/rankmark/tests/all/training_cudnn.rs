//! Training on GPUs with what cuDNN computes there, attention and convolutions, on the libraries of tests/fakes.

use serde_json::Value;

use crate::gpus::folder;
use crate::place::{Ended, Place, json_lines, reason};
use crate::training_gpus::run;

const TRANSFORMER: &str = "train --model gpt2-mini --layers 1 --width 32 --heads 2 --vocabulary 64 --sequence 16 --batch 2 --warmup 1 --steps 2 --trials 1";
const IMAGES: &str = "--model resnet50 --image 33 --classes 7 --width 8 --stage1 1 --stage2 1 --stage3 1 --stage4 1 --warmup 1 --steps 2 --trials 1";

fn losses(line: &Value) -> Vec<f64> {
    line["loss"].as_array().expect("losses").iter().filter_map(Value::as_f64).collect()
}

fn first(ended: &Ended) -> Value {
    json_lines(&ended.out).into_iter().next().unwrap_or_else(|| panic!("no row: {}", ended.err))
}

/// Attention by cuDNN in both orders of streams, and the memory plan.
#[test]
fn attention_by_cudnn_trains_as_on_the_host() {
    let Some(folder) = folder("attention_by_cudnn_trains_as_on_the_host") else { return };
    let arguments = format!("{TRANSFORMER} --precision bf16");
    let host = losses(&first(&run(folder, &arguments, &[]).exits(0)));
    for variables in [&[][..], &[("FAKE_CUDA_EAGER", "1")]] {
        let line = first(&run(folder, &format!("{arguments} --device cuda --attention cudnn"), variables).exits(0));
        assert_eq!((&line["status"], &line["wrong"]), (&"ok".into(), &0.into()), "{line}");
        for (a, b) in losses(&line).iter().zip(&host) {
            assert!((a - b).abs() < 0.02 * b, "{a} and {b}");
        }
        assert_eq!(line["conditions"]["attention"], "cuDNN 9.26.0", "{line}");
        assert_eq!(line["conditions"]["cudnn"], "9.26.0", "{line}");
        assert_eq!(line["parameters"]["attention"], "cudnn", "{line}");
    }
    let plan = "memory --model gpt2-mini --device cuda --batch 2 --sequence 64 --precision bf16 --attention cudnn";
    let memory = first(&run(folder, plan, &[]).exits(0))["memory"].clone();
    assert!(memory["difference"].as_f64().is_some_and(|difference| difference.abs() < 0.02), "{memory}");
}

/// A stand-in's times say nothing, and steps that must repeat are made by our kernels.
#[test]
fn our_kernels_attend_where_nothing_else_was_measured() {
    let Some(folder) = folder("our_kernels_attend_where_nothing_else_was_measured") else { return };
    for more in ["", "--attention fastest", "--attention own", "--reproducible true"] {
        let line = first(&run(folder, &format!("{TRANSFORMER} --precision f16 --device cuda {more}"), &[]).exits(0));
        assert_eq!(line["conditions"]["attention"], "plain", "{more}: {line}");
        assert!(line["conditions"].get("attention_times").is_none(), "{more}: {line}");
    }
}

/// cuDNN before 9.8 plans for a handle: the same losses. A cuDNN that this GPU cannot use is no reason to fail.
#[test]
fn an_older_or_unfit_cudnn_fails_nothing() {
    let Some(folder) = folder("an_older_or_unfit_cudnn_fails_nothing") else { return };
    let older = folder.join(crate::fakes::OLD_CUDNN.0);
    let images = format!("train {IMAGES} --batch 2 --device cuda");
    let transformer = format!("{TRANSFORMER} --precision bf16 --device cuda");
    let named = format!("--cudnn-library {}/libcudnn.so.9", older.display());
    for (arguments, attention) in [
        (&images, None),
        (&format!("{transformer} --attention cudnn"), Some("cuDNN 9.1.0")),
        (&transformer, Some("plain")),
    ] {
        let line = first(&run(folder, &format!("{arguments} {named}"), &[]).exits(0));
        assert_eq!((&line["status"], &line["conditions"]["cudnn"]), (&"ok".into(), &"9.1.0".into()), "{line}");
        assert_eq!(line["conditions"]["attention"].as_str(), attention, "{line}");
    }
    let refuses = [("FAKE_CUDNN_REFUSES", "1")];
    let line = first(&run(folder, &transformer, &refuses).exits(0));
    assert_eq!(line["conditions"]["attention"], "plain", "{line}");
    let why = line["conditions"]["attention_uncompared"].as_str().unwrap_or_default();
    assert!(why.starts_with("cuDNN 9.26.0: cudnnCreate: CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"), "{line}");
    for arguments in [&images, &format!("{transformer} --attention cudnn")] {
        let line = first(&run(folder, arguments, &refuses));
        assert_eq!(line["status"], "skipped", "{line}");
        assert!(reason(&line).contains("cuDNN 9.26.0: cudnnCreate"), "{line}");
    }
}

/// What cannot be computed is the reason of a skipped case.
#[test]
fn what_cudnn_lacks_is_named() {
    let Some(folder) = folder("what_cudnn_lacks_is_named") else { return };
    let without = Place::new();
    let bare = without.path("bare");
    std::fs::create_dir(&bare).unwrap();
    for library in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = library.file_name().unwrap();
        if !name.to_string_lossy().starts_with("libcudnn") {
            std::os::unix::fs::symlink(&library, bare.join(name)).unwrap();
        }
    }
    let images = format!("train {IMAGES} --batch 2");
    for (folder, arguments, said) in [
        (folder, format!("{TRANSFORMER} --attention cudnn"), "cuDNN supports attention in bf16 and f16, not in f32"),
        (
            folder,
            format!("{TRANSFORMER} --attention cudnn --precision bf16")
                .replace("gpt2-mini", "llama-tiny --kv-heads 1 --ffn 48"),
            "as many heads of keys as of queries: 1 and 2",
        ),
        (
            &bare,
            format!("{TRANSFORMER} --attention cudnn --precision bf16"),
            "kernels of attention by `cudnn` need cuDNN 9",
        ),
        (&bare, images.clone(), "convolutions on GPUs need cuDNN 9"),
        (
            &bare,
            format!("{TRANSFORMER} --precision bf16 --cudnn-library /nowhere"),
            "rank 0: /nowhere: cannot open shared object file",
        ),
    ] {
        let ended = run(folder, &format!("{arguments} --device cuda --timeout 20s"), &[]);
        let line = first(&ended);
        assert_eq!(line["status"], "skipped", "{arguments}: {line}");
        let why = reason(&line);
        assert!(why.contains(said), "{arguments}: `{said}` is missing: {why}");
    }
    // Where it is only one of two ways, ours is taken.
    let line = first(&run(&bare, &format!("{TRANSFORMER} --precision bf16 --device cuda"), &[]).exits(0));
    assert_eq!(line["conditions"]["attention"], "plain", "{line}");
    let why = line["conditions"]["attention_uncompared"].as_str().unwrap_or_default();
    assert!(why.starts_with("no libcudnn.so where the loader looks"), "{line}");
    let refused = run(folder, &format!("{TRANSFORMER} --attention own"), &[]).exits(2);
    assert!(refused.err.contains("`attention` is for native ranks on GPUs"), "{}", refused.err);
}

/// Convolutions, batch norm and pooling: the same losses as on the host, on one rank and on two, in both orders of streams.
#[test]
fn images_train_on_gpus_as_on_the_host() {
    let Some(folder) = folder("images_train_on_gpus_as_on_the_host") else { return };
    let train = |more: &str, variables: &[(&str, &str)]| {
        let ended = run(folder, &format!("train {IMAGES} {more}"), variables).exits(0);
        json_lines(&ended.out).pop().expect("a row")
    };
    let host = losses(&train("--batch 2", &[]));
    for (more, variables) in [
        ("--batch 2", &[][..]),
        ("--batch 2", &[("FAKE_CUDA_EAGER", "1")]),
        ("--ranks 2 --global-batch 2 --synchronised true", &[]),
        ("--ranks 2 --global-batch 2 --synchronised true", &[("FAKE_CUDA_EAGER", "1")]),
    ] {
        let line = train(&format!("{more} --device cuda"), variables);
        assert_eq!((&line["status"], &line["wrong"]), (&"ok".into(), &0.into()), "{more}: {line}");
        for (a, b) in losses(&line).iter().zip(&host) {
            assert!((a - b).abs() < 1e-3 * b, "{more}: {a} and {b}");
        }
        assert_eq!(line["conditions"]["cudnn"], "9.26.0", "{line}");
    }
}
