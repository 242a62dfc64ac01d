//! Where predictions of a measured profile err: the time of each operation within a step, beside what the profile says.
//!
//! `cargo run --release -p rankmark-predict --example operations -- PROFILE MODEL BATCH [FIELD=VALUE..]`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program: it prints, and reads its arguments"
)]

use std::collections::BTreeMap;

use comm::{Abort, Options};
use engine::{Host, Kind, Matmul};
use parallel::{Mesh, Recipe, Source, Trainer};
use predict::{Constants, Costs, Software};
use terms::Dtype;

struct Random(u64, u64);

impl Source for Random {
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        for (place, (token, target)) in tokens.iter_mut().zip(targets).enumerate() {
            *token = (terms::mix(index * 65_537 + place as u64) % self.0) as i32;
            *target = (terms::mix(index * 65_537 + place as u64 + 1) % self.0) as i32;
        }
        Ok(())
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = (terms::mix(place as u64) >> 56) as f32 / 128.0 - 1.0;
        }
        *class = (index % self.1) as i32;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [profile, name, batch, settings @ ..] = arguments.as_slice() else { return Err("PROFILE MODEL BATCH".into()) };
    let profile = record::read_machine_profile(std::path::Path::new(profile)).map_err(|error| format!("{error:?}"))?;
    let settings: Vec<(String, f64)> = settings
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap_or(f64::NAN)))
        .collect();
    let recipe = Recipe {
        micro_batch: batch.parse()?,
        clip: Some(1.0),
        ..Recipe::plain(model::model(name, &settings).map_err(|why| format!("{why:?}"))?, Mesh::SERIAL, Dtype::F32)
    };
    let source = match recipe.model.input {
        model::Input::Tokens { vocabulary, .. } => Random(vocabulary as u64, 1),
        model::Input::Image { classes, .. } | model::Input::Vector { classes, .. } => Random(1, classes as u64),
    };
    let mut bootstrap = comm::threads(1, &Abort::default()).into_iter().next().ok_or("no rank")?;
    let (mut world, abort) =
        comm::open("shm", &mut bootstrap, &Options::default()).map_err(|why| format!("{why:?}"))?;
    let host = Host::new(1, &[], Matmul::Auto).map_err(|why| why.to_string())?;
    let mut trainer = Trainer::new(&recipe, &mut *world, &abort, &Options::default(), &host, Box::new(source))
        .map_err(|why| format!("{why:?}"))?;
    let mut least: Vec<(engine::OperationShape, f64)> = Vec::new();
    for _ in 0..30 {
        let own = trainer.operation_seconds(&mut *world).map_err(|why| format!("{why:?}"))?;
        if least.is_empty() {
            least = own;
        } else {
            for (known, now) in least.iter_mut().zip(own) {
                known.1 = known.1.min(now.1);
            }
        }
    }
    let costs = Costs::new(&profile, Constants::of(&profile), Software::Rankmark, 1);
    let mut rows: BTreeMap<(&'static str, Vec<u64>), (usize, f64, f64)> = BTreeMap::new();
    for (shape, seconds) in &least {
        let row = rows.entry((shape.kernel, shape.dims.clone())).or_default();
        *row = (row.0 + 1, row.1 + seconds, row.2 + costs.operation(shape, Kind::Other, None).work_s);
    }
    let (mut all, mut said) = (0.0, 0.0);
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    for ((kernel, dims), (count, seconds, predicted)) in rows {
        all += seconds;
        said += predicted;
        println!(
            "{kernel:22} {:28} {count:4} {:9.1} us  predicted {:9.1} us  {:+6.1}%",
            format!("{dims:?}"),
            seconds * 1e6,
            predicted * 1e6,
            100.0 * (predicted / seconds - 1.0)
        );
    }
    println!("all {:.2} ms, predicted {:.2} ms: {:+.1}%", all * 1e3, said * 1e3, 100.0 * (said / all - 1.0));
    Ok(())
}
