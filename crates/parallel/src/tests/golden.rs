//! What PyTorch computes: losses, logits, gradients and parameters of small models in f64, from the same initial values
//! and inputs (made by peers/pytorch/golden.py).

use comm::{Abort, Options};
use engine::Host;
use model::Model;
use serde_json::Value;

use super::scaffold::recipe;
use crate::{Optimizer, Piece, Recipe, Source, Trainer};

/// Relative to the size of what is compared: two orders of summation of f64.
const TOLERANCE: f64 = 1e-9;
/// Tolerance of parameters after steps of AdamW, which divides each gradient by its own size: where a gradient is small because
/// large terms cancel, its rounding errors grow with it.
const ADAMW_TOLERANCE: f64 = 1e-7;

/// The formulas that stand in the files.
struct Formulas {
    vocabulary: u64,
    classes: u64,
    next: bool,
}

impl Formulas {
    fn token(&self, index: u64, position: usize) -> i32 {
        ((2_654_435_761 * index + 40_503 * position as u64) % self.vocabulary) as i32
    }
}

impl Source for Formulas {
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        for position in 0..tokens.len() {
            tokens[position] = self.token(index, position);
            targets[position] = self.token(index, position + usize::from(self.next));
        }
        Ok(())
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = (terms::mix((index << 32) + place as u64) >> 56) as f32 / 128.0 - 1.0;
        }
        *class = (2_654_435_761 * index % self.classes) as i32;
        Ok(())
    }
}

fn formulas(model: &Model) -> Formulas {
    match model.input {
        model::Input::Tokens { vocabulary, next, .. } => Formulas { vocabulary: vocabulary as u64, classes: 1, next },
        model::Input::Image { classes, .. } | model::Input::Vector { classes, .. } => {
            Formulas { vocabulary: 1, classes: classes as u64, next: false }
        }
    }
}

fn close(what: &str, ours: f64, theirs: f64, scale: f64) {
    within(TOLERANCE, what, ours, theirs, scale);
}

fn within(tolerance: f64, what: &str, ours: f64, theirs: f64, scale: f64) {
    let apart = (ours - theirs).abs();
    assert!(apart <= tolerance * scale.max(1e-12), "{what}: {ours:e}, PyTorch has {theirs:e}");
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn number_at(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} is missing"))
}

/// Every named tensor of the file has this norm and begins with these numbers.
fn compare(what: &str, pieces: &[Piece], golden: &Value) {
    let tolerance = if what == "adamw" { ADAMW_TOLERANCE } else { TOLERANCE };
    let golden = golden.as_array().expect("a list of tensors");
    assert!(!golden.is_empty());
    for tensor in golden {
        let name = tensor["name"].as_str().expect("a name");
        let mut held: Vec<&Piece> = pieces.iter().filter(|piece| piece.name == name).collect();
        held.sort_by_key(|piece| piece.first);
        let ours: Vec<f64> = held.iter().flat_map(|piece| piece.numbers.iter().copied()).collect();
        assert!(!ours.is_empty(), "{what}: there is no {name}");
        let norm = ours.iter().map(|x| x * x).sum::<f64>().sqrt();
        let theirs = number_at(tensor, "norm");
        within(tolerance, &format!("{what}: norm of {name}"), norm, theirs, theirs);
        for (ours, theirs) in ours.iter().zip(numbers(&tensor["first"])) {
            within(tolerance, &format!("{what}: {name}"), *ours, theirs, norm);
        }
    }
}

fn optimizers(golden: &Value) -> [(&'static str, Optimizer); 2] {
    let (sgd, adamw) = (&golden["sgd"], &golden["adamw"]);
    [
        ("sgd", Optimizer::Sgd { rate: number_at(sgd, "rate"), momentum: number_at(sgd, "momentum") }),
        (
            "adamw",
            Optimizer::AdamW {
                rate: number_at(adamw, "rate"),
                beta1: number_at(adamw, "beta1"),
                beta2: number_at(adamw, "beta2"),
                epsilon: number_at(adamw, "epsilon"),
                decay: number_at(adamw, "decay"),
            },
        ),
    ]
}

fn check(file: &str) {
    let golden: Value = serde_json::from_str(file).expect("the file is JSON");
    let name = golden["model"].as_str().expect("a model");
    let settings = golden["settings"].as_object().expect("settings");
    let settings: Vec<(String, f64)> =
        settings.iter().map(|(name, value)| (name.clone(), value.as_f64().expect("a number"))).collect();
    let model = model::model(name, &settings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(model.parameter_count() as u64, golden["parameters"].as_u64().expect("a count"));
    let batch = golden["batch"].as_u64().expect("a batch") as usize;
    for (optimizer_name, optimizer) in optimizers(&golden) {
        let seed = golden["seed"].as_u64().expect("a seed");
        let recipe = Recipe { optimizer, seed, ..recipe(model.clone(), batch, 1) };
        follow(&recipe, optimizer_name, &golden);
    }
}

/// Trains as PyTorch did, and compares at every point.
fn follow(recipe: &Recipe, optimizer: &str, golden: &Value) {
    let abort = Abort::default();
    let mut bootstrap = comm::threads(1, &abort).remove(0);
    let options = Options::default();
    let (mut world, abort) = comm::open("shm", &mut bootstrap, &options).expect("shm opens");
    let source = Box::new(formulas(&recipe.model));
    let device = Host::new(1, &[], recipe.matmul).expect("a thread");
    let mut trainer = Trainer::new(recipe, &mut *world, &abort, &options, &device, source).expect("it fits");
    compare("initial", &trainer.parameters().expect("memory of the host"), &golden["initial"]);
    let logits = trainer.logits(&mut *world).expect("a forward pass").expect("one rank computes the loss");
    let norm = logits.iter().map(|x| x * x).sum::<f64>().sqrt();
    close("logits", norm, number_at(&golden["logits"], "norm"), norm);
    let columns = golden["logits"]["shape"][1].as_u64().expect("columns") as usize;
    let rows = golden["logits"]["rows"].as_array().expect("rows");
    for (place, row) in rows.iter().enumerate() {
        for (ours, theirs) in logits[place * columns..].iter().zip(numbers(row)) {
            close("logits", *ours, theirs, norm);
        }
    }
    for (step, theirs) in numbers(&golden[optimizer]["losses"]).into_iter().enumerate() {
        let loss = trainer.step(&mut *world).expect("a step").loss;
        close(&format!("{optimizer}: loss of step {step}"), loss, theirs, theirs);
        if step == 0 {
            compare("gradients", &trainer.gradients().expect("memory of the host"), &golden["gradients"]);
        }
    }
    compare(optimizer, &trainer.parameters().expect("memory of the host"), &golden[optimizer]["after"]);
}

#[test]
fn gpt2() {
    check(include_str!("../../tests/golden/gpt2.json"));
}

#[test]
fn llama() {
    check(include_str!("../../tests/golden/llama.json"));
}

#[test]
fn bert() {
    check(include_str!("../../tests/golden/bert.json"));
}

#[test]
fn resnet18() {
    check(include_str!("../../tests/golden/resnet18.json"));
}

#[test]
fn resnet50() {
    check(include_str!("../../tests/golden/resnet50.json"));
}
