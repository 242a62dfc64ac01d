//! That each operation of real programs can be run by itself: its shape is that of a sample.

use engine::{Instruction, OperationShape, Sample};
use parallel::Mesh;
use terms::Dtype;

use super::allocations::recipe;

#[test]
fn every_operation_of_a_step_has_a_sample_of_its_shape() {
    let small: &[(&str, &[(&str, f64)])] = &[
        ("gpt2", &[("layers", 1.0), ("width", 32.0), ("heads", 2.0), ("vocabulary", 50.0), ("sequence", 8.0)]),
        ("llama-tiny", &[("layers", 1.0), ("sequence", 8.0)]),
        ("bert-base", &[("layers", 1.0), ("width", 32.0), ("heads", 2.0), ("vocabulary", 50.0), ("sequence", 8.0)]),
        ("resnet18", &[("image", 32.0)]),
        ("mlp", &[]),
    ];
    let (tensor, serial) = (Mesh { tensor: 2, ..Mesh::SERIAL }, Mesh::SERIAL);
    for (name, settings) in small {
        for (precision, mesh) in [(Dtype::F32, serial), (Dtype::Bf16, serial), (Dtype::F32, tensor)] {
            if mesh == tensor && *name != "gpt2" {
                continue;
            }
            let settings: Vec<(String, f64)> =
                settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let model = model::model(name, &settings).unwrap();
            let program = parallel::program(&recipe(model, precision, mesh), 0).map_err(|error| error.error).unwrap();
            for instruction in &program.instructions {
                let Instruction::Run(op) = instruction else { continue };
                let shape = OperationShape::of(&program, op);
                let sample = Sample::new(shape.kernel, &shape.dims, shape.dtype);
                let sample = sample.unwrap_or_else(|why| panic!("{name}: {shape:?}: {why}"));
                let own = OperationShape::of(&sample.program, sample.op());
                assert_eq!((own.kernel, &own.dims, own.dtype), (shape.kernel, &shape.dims, shape.dtype), "{name}");
                assert_eq!(own.flops, shape.flops, "{name}: {shape:?}");
            }
        }
    }
}
