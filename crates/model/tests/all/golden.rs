//! The golden files that PyTorch made for `parallel`: their models are the catalog's, and begin with the same bits.

use std::collections::BTreeSet;
use std::path::Path;

use model::{Model, initial_f64, model};
use serde_json::Value;

fn golden(file: &str) -> (Model, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../parallel/tests/golden").join(file);
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let settings = golden["settings"].as_object().unwrap();
    let settings: Vec<(String, f64)> =
        settings.iter().map(|(name, value)| (name.clone(), value.as_f64().unwrap())).collect();
    (model(golden["model"].as_str().unwrap(), &settings).unwrap(), golden)
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|held| held["name"].as_str().unwrap()).collect()
}

#[test]
fn golden_models_have_our_parameters_and_begin_with_our_numbers() {
    for file in ["gpt2.json", "llama.json", "bert.json", "resnet18.json", "resnet50.json"] {
        let (model, golden) = golden(file);
        let parameters = model.parameters();
        assert_eq!(golden["parameters"].as_u64(), Some(model.parameter_count() as u64), "{file}");
        assert_eq!(names(&golden["gradients"]), parameters.iter().map(|held| held.name.as_str()).collect(), "{file}");
        let seed = golden["seed"].as_u64().unwrap();
        for held in golden["initial"].as_array().unwrap() {
            let name = held["name"].as_str().unwrap();
            let parameter = parameters.iter().find(|parameter| parameter.name == name).unwrap();
            let mut values = vec![0.0; parameter.len()];
            initial_f64(parameter, seed, 0, &mut values);
            let bits: Vec<u64> = held["bits"].as_array().unwrap().iter().map(|bits| bits.as_u64().unwrap()).collect();
            assert_eq!(values[..8].iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits, "{file} {name}");
            let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
            assert!((norm / held["norm"].as_f64().unwrap() - 1.0).abs() < 1e-12, "{file} {name}");
        }
    }
}
