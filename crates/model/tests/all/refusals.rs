//! What does not fit is refused with the arithmetic and what would fit.

use model::{ModelError, model};

fn refused(name: &str, settings: &[(&str, f64)]) -> ModelError {
    let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    model(name, &settings).unwrap_err()
}

fn check(name: &str, settings: &[(&str, f64)], message: &str, hint: &str) {
    let error = refused(name, settings).error;
    assert_eq!((error.what.as_str(), error.hint.as_deref()), (message, Some(hint)));
}

#[test]
fn names_are_answered_with_the_nearest() {
    check("gtp2", &[], "there is no model `gtp2`", "did you mean `gpt2`?");
    check("resnet5", &[], "there is no model `resnet5`", "did you mean `resnet50`?");
    check("gpt2", &[("layer", 6.0)], "gpt2 has no setting `layer`", "did you mean `layers`?");
    check(
        "mlp",
        &[("dropout", 0.1)],
        "mlp has no setting `dropout`",
        "valid values: layers, width, ffn, features, classes",
    );
    assert!(
        refused("convnext", &[])
            .error
            .hint
            .unwrap()
            .starts_with("valid values: gpt2, gpt2-medium, gpt2-mini, llama-1b")
    );
}

#[test]
fn dimensions_that_do_not_divide_show_the_arithmetic() {
    check(
        "gpt2",
        &[("width", 50.0), ("heads", 4.0)],
        "width = 50 is not divisible by heads = 4: 50 = 4 x 12 + 2",
        "width = 48 or width = 52, or heads = 2",
    );
    check(
        "gpt2",
        &[("width", 3.0), ("heads", 4.0)],
        "width = 3 is not divisible by heads = 4: 3 = 4 x 0 + 3",
        "width = 4, or heads = 3",
    );
    check(
        "llama-1b",
        &[("kv_heads", 5.0)],
        "heads = 32 is not divisible by kv_heads = 5: 32 = 5 x 6 + 2",
        "heads = 30 or heads = 35, or kv_heads = 4",
    );
    check(
        "llama-tiny",
        &[("width", 24.0)],
        "rotary positions turn pairs of features, and a head has 24 / 8 = 3",
        "width = 32",
    );
    check(
        "bert-base",
        &[("sequence", 513.0)],
        "sequence = 513 is longer than the 512 learned positions",
        "sequence = 512, or positions = 513",
    );
}

#[test]
fn values_out_of_range_are_refused() {
    for (setting, value) in [
        ("layers", 0.0),
        ("layers", 1.5),
        ("layers", -1.0),
        ("layers", f64::NAN),
        ("layers", f64::INFINITY),
        ("layers", 4097.0),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("dropout", f64::NAN),
    ] {
        let error = refused("gpt2", &[(setting, value)]);
        assert_eq!(error.field, setting, "{value}");
        assert!(error.error.what.starts_with(&format!("{setting} = {value}: takes ")), "{error}");
    }
    assert_eq!(refused("llama-1b", &[("tied", 2.0)]).error.what, "tied = 2: takes 0 (no) or 1 (yes)");
    assert_eq!(refused("mlp", &[("width", 262_144.0), ("ffn", 1_048_577.0)]).field, "ffn");
    assert_eq!(refused("gpt2", &[("layers", 2.0), ("Layers", 2.0)]).error.what, "layers is set twice");
}
