//! Training on GPUs against training on the host: the same recipes, on the fakes of the driver, of cuBLAS and of NCCL, whose streams run
//! as late as waits permit. It proves orders, addresses, forms and kernels' results; never a speed.

mod aborts;
mod images;
mod kinds;
mod meshes;

use std::path::Path;

use comm::{Abort, Communicator, Options};
use engine::cuda::{Attends, Cublas, Cuda, Cudnn};
use engine::{Device, Host};
use model::{Input, Model};
use parallel::{Mesh, Optimizer, Piece, Recipe, Source, StepReport, Trainer};
use terms::{Dtype, Space};

use crate::fakes;

const STEPS: usize = 3;

/// Attention does not change with its keys' bias, whose gradient is then nothing but rounding: AdamW would make steps of a full rate of
/// that, each time others.
const SGD: Optimizer = Optimizer::Sgd { rate: 0.05, momentum: 0.9 };

/// The fakes where libraries are looked for; None where they cannot be built.
fn surrounded(test: &str) -> Option<()> {
    fakes::folder(test)?;
    comm::surrounded_by(|| {
        let folders = fakes::folder("").map(Path::to_owned).into_iter().collect();
        comm::Surroundings { folders, ..comm::Surroundings::default() }
    });
    Some(())
}

/// Runs a test of these modules in a process of its own: the fakes read their variables once.
fn again(test: &str, variables: &[(&str, &str)]) {
    let own = std::env::current_exe().expect("the tests' own program");
    let name = format!("gpus::{test}");
    let mut command = std::process::Command::new(own);
    let ended = command.args(["--exact", &name]).envs(variables.iter().copied()).output().expect("itself");
    let said = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    // Of another name the program would run nothing, and succeed.
    assert!(ended.status.success() && said.contains("1 passed"), "{variables:?}: {said}");
}

/// What [`again`] set.
#[allow(clippy::disallowed_methods, reason = "a test that runs again tells what its fakes were told")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Samples from their index alone.
struct Mixed {
    values: u64,
}

impl Source for Mixed {
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        for (place, (token, target)) in tokens.iter_mut().zip(targets).enumerate() {
            // Few different tokens, so that several rows of a batch have the same.
            *token = (terms::mix(index * 1_000_003 + place as u64) % self.values.min(9)) as i32;
            *target = (terms::mix(index * 1_000_003 + place as u64 + 1) % self.values) as i32;
        }
        Ok(())
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = (terms::mix(index * 1_000_003 + place as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        }
        *class = (terms::mix(index) % self.values) as i32;
        Ok(())
    }
}

fn source(model: &Model) -> Box<dyn Source> {
    let values = match model.input {
        Input::Tokens { vocabulary, .. } => vocabulary,
        Input::Image { classes, .. } | Input::Vector { classes, .. } => classes,
    };
    Box::new(Mixed { values: values as u64 })
}

fn small(name: &str, settings: &[(&str, f64)]) -> Model {
    let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    model::model(name, &settings).unwrap_or_else(|error| panic!("{error}"))
}

fn mlp() -> Model {
    small("mlp", &[("width", 24.0), ("features", 16.0), ("layers", 3.0)])
}

fn gpt2() -> Model {
    let dimensions =
        [("layers", 2.0), ("width", 32.0), ("heads", 2.0), ("vocabulary", 24.0), ("sequence", 8.0), ("dropout", 0.1)];
    small("gpt2", &dimensions)
}

fn llama() -> Model {
    let dimensions = [
        ("layers", 2.0),
        ("width", 32.0),
        ("heads", 4.0),
        ("kv_heads", 2.0),
        ("ffn", 40.0),
        ("vocabulary", 24.0),
        ("sequence", 8.0),
    ];
    small("llama-tiny", &dimensions)
}

fn bert() -> Model {
    let dimensions = [
        ("layers", 2.0),
        ("width", 32.0),
        ("heads", 2.0),
        ("ffn", 40.0),
        ("vocabulary", 24.0),
        ("sequence", 8.0),
        ("dropout", 0.1),
    ];
    small("bert-base", &dimensions)
}

fn recipe(model: Model, precision: Dtype) -> Recipe {
    Recipe {
        micro_batch: 2,
        micro_batches: vec![2],
        bucket_bytes: 4096,
        clip: Some(1.0),
        seed: 11,
        logits_multiple: engine::cuda::LOGITS_MULTIPLE,
        ..Recipe::plain(model, Mesh::SERIAL, precision)
    }
}

/// What a rank ends with.
struct Ended {
    reports: Vec<StepReport>,
    parameters: Vec<Piece>,
    gradients: Vec<Piece>,
    scale: f64,
    about: std::collections::BTreeMap<&'static str, String>,
}

impl Ended {
    fn losses(&self) -> Vec<f64> {
        self.reports.iter().map(|report| report.loss).collect()
    }
}

/// Where ranks compute.
#[derive(Clone, Copy)]
enum On {
    Host,
    /// By this backend.
    Gpus(&'static str),
    /// By NCCL, with attention by cuDNN.
    Cudnn,
}

fn device(on: On, recipe: &Recipe, world: &mut dyn Communicator) -> Box<dyn Device> {
    if let On::Host = on {
        return Box::new(Host::new(1, &[], recipe.matmul).unwrap());
    }
    let memory = world.alloc_private(64, Space::Cuda).unwrap();
    let gpu = memory.gpu().unwrap();
    let folder = fakes::folder("").unwrap();
    let library = Cublas::open(&folder.join("libcublasLt.so.12"), gpu).unwrap();
    let cudnn = Cudnn::open(&folder.join("libcudnn.so.9")).unwrap();
    let attends = if matches!(on, On::Cudnn) { Attends::Cudnn } else { Attends::Own };
    let mut cuda = Cuda::new(gpu, &library, false).unwrap().with_attention(attends);
    cuda.open_cudnn(&cudnn).unwrap();
    Box::new(cuda)
}

/// Trains on every rank of the recipe. The host pads no rows, but where parameters are cut into shards: their ends would lie elsewhere.
fn train(on: On, recipe: &Recipe, steps: usize) -> Vec<Ended> {
    let logits_multiple = if recipe.sharded == 0 { 1 } else { recipe.logits_multiple };
    let of_host = Recipe { logits_multiple, ..recipe.clone() };
    let recipe = if matches!(on, On::Host) { &of_host } else { recipe };
    let (backend, gpus) = match on {
        On::Host => ("shm", false),
        On::Gpus(backend) => (backend, true),
        On::Cudnn => ("nccl", true),
    };
    let options = Options { gpus, oversubscribed: true, ..Options::default() };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = comm::threads(recipe.mesh.ranks() as u32, &Abort::default())
            .into_iter()
            .map(|mut bootstrap| {
                let options = &options;
                scope.spawn(move || {
                    let (mut world, abort) = comm::open(backend, &mut bootstrap, options).unwrap();
                    let device = device(on, recipe, &mut *world);
                    let source = source(&recipe.model);
                    let mut trainer = Trainer::new(recipe, &mut *world, &abort, options, &*device, source).unwrap();
                    let reports = (0..steps).map(|_| trainer.step(&mut *world).unwrap()).collect();
                    let agreement = trainer.agreement(&mut *world).unwrap();
                    assert_eq!(agreement.different, 0, "{agreement:?}");
                    let (parameters, gradients) = (trainer.parameters().unwrap(), trainer.gradients().unwrap());
                    let (scale, about) = (trainer.loss_scale().unwrap(), trainer.about());
                    Ended { reports, parameters, gradients, scale, about }
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// How far two ends are apart: of losses, and of each parameter relative to its norm.
fn apart(one: &[Ended], other: &[Ended]) -> f64 {
    let mut most = 0.0_f64;
    for (one, other) in one.iter().zip(other) {
        for (a, b) in one.losses().iter().zip(other.losses()) {
            most = most.max((a - b).abs() / b.abs());
        }
        for (a, b) in one.parameters.iter().zip(&other.parameters) {
            assert_eq!((&a.name, a.first), (&b.name, b.first));
            // The keys' bias stays where it began but for rounding: its norm is that.
            let norm = b.numbers.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-9);
            let off = a.numbers.iter().zip(&b.numbers).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
            most = most.max(off / norm);
        }
        assert_eq!(one.parameters.len(), other.parameters.len());
        assert_eq!(one.gradients.len(), other.gradients.len());
    }
    assert_eq!(one.len(), other.len());
    most
}

/// How far all gradients of the last step together are apart, relative to their norm.
fn gradients_apart(one: &Ended, other: &Ended) -> f64 {
    let pairs = || one.gradients.iter().zip(&other.gradients).flat_map(|(a, b)| a.numbers.iter().zip(&b.numbers));
    let off: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = pairs().map(|(_, b)| b.powi(2)).sum();
    assert!(norm > 0.0, "there are gradients");
    (off / norm).sqrt()
}

fn bits(ended: &[Ended]) -> Vec<u64> {
    ended.iter().flat_map(Ended::losses).map(f64::to_bits).collect()
}

/// On one GPU, and on several by NCCL and through the host: as on the host, in f64 to the order of sums, and the same bits each time.
#[test]
fn a_network_trains_on_gpus_as_on_the_host() {
    if surrounded("a_network_trains_on_gpus_as_on_the_host").is_none() {
        return;
    }
    let serial = recipe(mlp(), Dtype::F64);
    let data = |sharded| Recipe {
        mesh: Mesh { data: 2, ..Mesh::SERIAL },
        micro_batches: vec![1, 1],
        sharded,
        ..serial.clone()
    };
    let pipeline = Recipe { mesh: Mesh { pipeline: 2, ..Mesh::SERIAL }, ..serial.clone() };
    let recipes = [serial.clone(), data(0), data(1), data(2), data(3), pipeline];
    for recipe in &recipes {
        let host = train(On::Host, recipe, STEPS);
        for backend in ["nccl", "shm"] {
            let there = train(On::Gpus(backend), recipe, STEPS);
            let off = apart(&there, &host);
            assert!(off <= 1e-9, "{backend}, {} sharded {}: {off:e} apart", recipe.mesh, recipe.sharded);
        }
    }
    let first = bits(&train(On::Gpus("nccl"), &data(2), STEPS));
    assert_eq!(first, bits(&train(On::Gpus("nccl"), &data(2), STEPS)), "the same bits each time");
}

/// Models with attention, in f64 on one GPU: as on the host.
#[test]
fn transformers_train_on_a_gpu_as_on_the_host() {
    if surrounded("transformers_train_on_a_gpu_as_on_the_host").is_none() {
        return;
    }
    for model in [gpt2(), llama(), bert()] {
        let recipe = Recipe { optimizer: SGD, ..recipe(model, Dtype::F64) };
        let (host, there) = (train(On::Host, &recipe, 2), train(On::Gpus("nccl"), &recipe, 2));
        let off = apart(&there, &host);
        assert!(off <= 1e-9, "{}: {off:e} apart", recipe.model.name);
    }
}

/// Parts of layers, of sequences and of the vocabulary on two GPUs.
#[test]
fn tensor_parallelism_trains_on_gpus_as_on_the_host() {
    if surrounded("tensor_parallelism_trains_on_gpus_as_on_the_host").is_none() {
        return;
    }
    let mesh = Mesh { tensor: 2, ..Mesh::SERIAL };
    for (model, sequence_parallel) in [(gpt2(), false), (llama(), true)] {
        let recipe = Recipe { mesh, sequence_parallel, optimizer: SGD, ..recipe(model, Dtype::F64) };
        let (host, there) = (train(On::Host, &recipe, 2), train(On::Gpus("nccl"), &recipe, 2));
        let off = apart(&there, &host);
        assert!(off <= 1e-9, "{}: {off:e} apart", recipe.model.name);
    }
}

/// The time of a step is the device's, by phase, and stretches of a program are given as graphs from the second step on.
#[test]
fn a_step_on_a_gpu_has_phases_and_graphs() {
    if surrounded("a_step_on_a_gpu_has_phases_and_graphs").is_none() {
        return;
    }
    let ended = &train(On::Gpus("nccl"), &recipe(mlp(), Dtype::F32), STEPS)[0];
    for report in &ended.reports {
        let phases = [report.forward_s, report.backward_s, report.optimizer_s];
        assert!(phases.iter().all(|seconds| *seconds > 0.0), "{report:?}");
        assert!(phases.iter().sum::<f64>() + report.communication_s <= report.total_s, "{report:?}");
    }
    let graphs: usize = ended.about["graphs"].parse().unwrap();
    assert!(graphs >= 1 && !ended.about.contains_key("graphs_refused"), "{:?}", ended.about);
}

/// Types narrower than f32, loss scaling included: losses follow those of the host.
#[test]
fn narrow_types_train_on_gpus() {
    if surrounded("narrow_types_train_on_gpus").is_none() {
        return;
    }
    for (precision, u) in [(Dtype::F32, 2f64.powi(-24)), (Dtype::Bf16, 2f64.powi(-9)), (Dtype::F16, 2f64.powi(-12))] {
        let recipe = recipe(gpt2(), precision);
        let (host, there) = (train(On::Host, &recipe, STEPS), train(On::Gpus("nccl"), &recipe, STEPS));
        for (a, b) in there[0].losses().iter().zip(host[0].losses()) {
            // A few dozen roundings in a row, each of which changes the loss by at most about u of it.
            assert!((a - b).abs() <= 30.0 * u * b.abs(), "{precision}: {a} and {b}");
        }
        assert_eq!(there[0].scale, host[0].scale, "{precision}");
        // Of two layers and the first micro-batch; the second adds its gradients of biases to those.
        let joined = (precision != Dtype::F32).then_some("4 GELU, 4 gradients of GELU, 8 gradients of biases");
        assert_eq!(there[0].about.get("joined_products").map(String::as_str), joined, "{precision}");
    }
}

/// Attention by cuDNN, in the types that it has: losses follow those of the host, and the record says what it was.
#[test]
fn attention_by_cudnn_trains_as_on_the_host() {
    if surrounded("attention_by_cudnn_trains_as_on_the_host").is_none() {
        return;
    }
    for (precision, u) in [(Dtype::Bf16, 2f64.powi(-9)), (Dtype::F16, 2f64.powi(-12))] {
        for model in [gpt2(), bert()] {
            let recipe = recipe(model, precision);
            let (host, there) = (train(On::Host, &recipe, STEPS), train(On::Cudnn, &recipe, STEPS));
            for (a, b) in there[0].losses().iter().zip(host[0].losses()) {
                assert!((a - b).abs() <= 30.0 * u * b.abs(), "{precision}: {a} and {b}");
            }
            let off = gradients_apart(&there[0], &host[0]);
            assert!(off <= 30.0 * u, "{precision}, {}: gradients are {off} apart", recipe.model.name);
            assert_eq!(there[0].about["attention"], "cuDNN 9.26.0");
        }
    }
}

/// What a GPU cannot do is said by name, before anything is allocated for it.
#[test]
fn what_gpus_lack_is_named() {
    if surrounded("what_gpus_lack_is_named").is_none() {
        return;
    }
    let stages = [("stage1", 1.0), ("stage2", 1.0), ("stage3", 1.0), ("stage4", 1.0)];
    let dimensions = [("image", 33.0), ("classes", 7.0), ("width", 8.0)];
    let recipe = recipe(small("resnet18", &[&dimensions[..], &stages[..]].concat()), Dtype::F32);
    let options = Options { gpus: true, ..Options::default() };
    let mut bootstrap = comm::threads(1, &Abort::default()).remove(0);
    let (mut world, abort) = comm::open("nccl", &mut bootstrap, &options).unwrap();
    let memory = world.alloc_private(64, Space::Cuda).unwrap();
    let library = Cublas::open(&fakes::folder("").unwrap().join("libcublasLt.so.12"), memory.gpu().unwrap()).unwrap();
    let device = Cuda::new(memory.gpu().unwrap(), &library, false).unwrap();
    let source = source(&recipe.model);
    let refused = Trainer::new(&recipe, &mut *world, &abort, &options, &device, source).map(drop);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("convolutions on GPUs need cuDNN"), "{said}");
}
