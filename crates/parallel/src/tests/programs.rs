//! A program is the one that its outline counts.

use model::model;

use super::scaffold::recipe;
use crate::{outline, program};

#[test]
fn a_program_has_the_operations_that_its_outline_counts() {
    let small = [("layers", 2.0), ("width", 32.0), ("heads", 2.0), ("vocabulary", 64.0), ("sequence", 8.0)];
    let settings: Vec<(String, f64)> = small.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let recipe = recipe(model("gpt2-mini", &settings).unwrap(), 2, 1);
    let program = program(&recipe, 0).unwrap();
    let flops: f64 = program.operations(0..program.instructions.len()).map(|(_, op)| engine::flops(op)).sum();
    let counted = outline(&recipe, 0, |_| 0).unwrap();
    assert!(flops > 0.0 && (flops - counted.flops).abs() <= 1e-9 * flops, "{flops} and {}", counted.flops);
}
