//! Our side: ranks as threads of this process, each pinned to its cores, trained on request.

use std::sync::mpsc::{Receiver, Sender, channel};

use comm::{Abort, Options};
use parallel::{Mesh, Optimizer, Recipe, Source, Trainer};
use terms::Dtype;

/// What both sides train.
pub(crate) struct Case {
    /// Name of the case, as PyTorch's script calls it.
    pub(crate) name: &'static str,
    model: &'static str,
    settings: &'static [(&'static str, f64)],
    batch: usize,
    precision: Dtype,
    pub(crate) ranks: usize,
}

const F32: Dtype = Dtype::F32;
const GPT2: &[(&str, f64)] = &[("sequence", 256.0)];

/// The cases, as CASES of bench.py.
pub(crate) const CASES: &[Case] = &[
    Case { name: "gpt2", model: "gpt2", settings: GPT2, batch: 1, precision: F32, ranks: 1 },
    Case {
        name: "block",
        model: "gpt2",
        settings: &[("layers", 1.0), ("vocabulary", 256.0), ("sequence", 512.0)],
        batch: 4,
        precision: F32,
        ranks: 1,
    },
    Case {
        name: "bert_base",
        model: "bert-base",
        settings: &[("sequence", 128.0)],
        batch: 4,
        precision: F32,
        ranks: 1,
    },
    Case { name: "resnet50", model: "resnet50", settings: &[], batch: 4, precision: F32, ranks: 1 },
    Case { name: "gpt2_bf16", model: "gpt2", settings: GPT2, batch: 1, precision: Dtype::Bf16, ranks: 1 },
    Case { name: "gpt2_ddp", model: "gpt2", settings: GPT2, batch: 1, precision: F32, ranks: 2 },
];

/// Random samples.
struct Random {
    vocabulary: u64,
    classes: u64,
}

impl Source for Random {
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        for (place, (token, target)) in tokens.iter_mut().zip(targets).enumerate() {
            *token = (terms::mix(index * 65_537 + place as u64) % self.vocabulary) as i32;
            *target = (terms::mix(index * 65_537 + place as u64 + 1) % self.vocabulary) as i32;
        }
        Ok(())
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        // One image for all steps, as PyTorch's script: making one costs as much as a layer.
        if numbers[0] == 0.0 {
            for (place, number) in numbers.iter_mut().enumerate() {
                *number = (terms::mix(place as u64) >> 56) as f32 / 128.0 - 1.0;
            }
        }
        *class = (index % self.classes) as i32;
        Ok(())
    }
}

fn source(recipe: &Recipe) -> Box<Random> {
    Box::new(match recipe.model.input {
        model::Input::Tokens { vocabulary, .. } => Random { vocabulary: vocabulary as u64, classes: 1 },
        model::Input::Image { classes, .. } | model::Input::Vector { classes, .. } => {
            Random { vocabulary: 1, classes: classes as u64 }
        }
    })
}

type Answer = Result<Vec<f64>, String>;

/// The ranks of a case, waiting for orders.
pub(crate) struct Ours {
    ranks: Vec<(Sender<usize>, Receiver<Answer>)>,
}

impl Ours {
    /// Allocates and fills everything.
    pub(crate) fn new(case: &Case, threads: usize) -> Result<Self, String> {
        let settings: Vec<(String, f64)> = case.settings.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let recipe = Recipe {
            micro_batch: case.batch,
            optimizer: Optimizer::Sgd { rate: 1e-3, momentum: 0.0 },
            ..Recipe::plain(
                model::model(case.model, &settings).map_err(|error| error.to_string())?,
                Mesh { data: case.ranks, tensor: 1, pipeline: 1 },
                case.precision,
            )
        };
        let abort = Abort::default();
        let each = (threads / case.ranks).max(1);
        let mut ranks = Vec::new();
        for (rank, mut bootstrap) in comm::threads(case.ranks as u32, &abort).into_iter().enumerate() {
            let (orders, receiver) = channel::<usize>();
            let (sender, answers) = channel::<Answer>();
            let recipe = recipe.clone();
            std::thread::spawn(move || {
                let cores: Vec<u32> = (rank * each..(rank + 1) * each).map(|core| core as u32).collect();
                if recipe.mesh.ranks() > 1 {
                    pin(&cores);
                }
                let options = Options::default();
                let mut trained = (|| {
                    let (mut world, abort) =
                        comm::open("shm", &mut bootstrap, &options).map_err(|error| error.to_string())?;
                    let device = engine::Host::new(each, &cores, recipe.matmul).map_err(|error| error.to_string())?;
                    let trainer = Trainer::new(&recipe, &mut *world, &abort, &options, &device, source(&recipe))
                        .map_err(|error| error.to_string())?;
                    Ok::<_, String>((trainer, world))
                })();
                for count in receiver {
                    let answer = match &mut trained {
                        Ok((trainer, world)) => (0..count)
                            .map(|_| trainer.step(&mut **world).map(|report| report.total_s))
                            .collect::<Result<Vec<f64>, _>>()
                            .map_err(|error| error.to_string()),
                        Err(message) => Err(message.clone()),
                    };
                    if sender.send(answer).is_err() {
                        return;
                    }
                }
            });
            ranks.push((orders, answers));
        }
        Ok(Self { ranks })
    }

    /// Seconds of each step on the slowest rank, and CPU seconds of one.
    pub(crate) fn steps(&mut self, count: usize) -> Result<(Vec<f64>, Vec<f64>), String> {
        let cpu = cpu_seconds();
        for (orders, _) in &self.ranks {
            orders.send(count).map_err(|_| "a rank is gone".to_owned())?;
        }
        let mut slowest = vec![0.0f64; count];
        for (_, answers) in &self.ranks {
            let seconds = answers.recv().map_err(|_| "a rank is gone".to_owned())??;
            slowest.iter_mut().zip(seconds).for_each(|(slowest, own)| *slowest = slowest.max(own));
        }
        let each = (cpu_seconds() - cpu) / count as f64;
        Ok((slowest, vec![each; count]))
    }
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    // SAFETY: `rusage` is plain data, for which all zeros are valid; the pointer is valid for the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// This thread onto these cores.
fn pin(cores: &[u32]) {
    // SAFETY: an all-zero set is a valid empty set; the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cores.iter().for_each(|core| libc::CPU_SET(*core as usize, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
