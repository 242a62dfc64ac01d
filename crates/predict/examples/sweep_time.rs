//! How long a sweep of 100,000 meshes takes: `cargo run --release -p rankmark-predict --example sweep_time`.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program: it prints, and reads the clock"
)]

use std::time::Instant;

use parallel::{Mesh, Recipe};
use predict::sweep::{Choices, sweep};
use predict::{Predictor, Software, Workload};
use terms::Dtype;

fn main() -> Result<(), terms::Error> {
    for (name, layers, width, heads, ranks, global_batch) in
        [("gpt2", 12.0, 768.0, 12.0, 512, 512), ("gpt2 of 96 layers", 96.0, 12288.0, 96.0, 1536, 3072)]
    {
        let settings =
            [("layers", layers), ("width", width), ("heads", heads)].map(|(name, value)| (name.to_owned(), value));
        let model = model::model("gpt2", &settings).map_err(|why| why.error)?;
        let recipe = Recipe { logits_multiple: 64, ..Recipe::plain(model, Mesh::SERIAL, Dtype::Bf16) };
        let base = Workload::new(recipe, 8);
        let predictor = Predictor::new(predict::machines::machine("h100-nvlink")?.profile(), Software::Rankmark);
        let choices = Choices { ranks, global_batch, most_chunks: 48, most_micro_batch: 3072 };
        let begin = Instant::now();
        let found = sweep(&predictor, &base, &choices, 5)?;
        let seconds = begin.elapsed().as_secs_f64();
        println!("{name}: {} legal, {} fit, {} simulated: {seconds:.2} s", found.legal, found.fitting, found.simulated);
    }
    Ok(())
}
