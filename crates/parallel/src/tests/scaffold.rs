//! Worlds of threads that train small models, and what they end up with.

use std::collections::BTreeMap;

use comm::{Abort, Communicator, Options};
use engine::{Device, Host, Program};
use model::Model;
use terms::Dtype;

use crate::strategies::build;
use crate::{Mesh, Optimizer, Recipe, Source, Trainer};

/// Samples from their index alone.
pub(super) struct Formula {
    pub(super) vocabulary: usize,
    pub(super) classes: usize,
    /// Whether targets are the next tokens.
    pub(super) next: bool,
}

impl Formula {
    pub(super) fn for_model(model: &Model) -> Self {
        match model.input {
            model::Input::Tokens { vocabulary, next, .. } => Self { vocabulary, classes: vocabulary, next },
            model::Input::Image { classes, .. } | model::Input::Vector { classes, .. } => {
                Self { vocabulary: 0, classes, next: false }
            }
        }
    }

    fn token(&self, index: u64, position: usize) -> i32 {
        (terms::mix(index * 1_000_003 + position as u64) % self.vocabulary as u64) as i32
    }
}

impl Source for Formula {
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        for position in 0..tokens.len() {
            tokens[position] = self.token(index, position);
            targets[position] = self.token(index, position + usize::from(self.next));
        }
        Ok(())
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        for (place, number) in numbers.iter_mut().enumerate() {
            let word = terms::mix(index * 1_000_003 + place as u64);
            *number = (word >> 40) as f32 / (1 << 23) as f32 - 1.0;
        }
        *class = (terms::mix(index) % self.classes as u64) as i32;
        Ok(())
    }
}

/// A serial recipe: one rank, so many micro-batches.
pub(crate) fn recipe(model: Model, micro_batch: usize, micros: usize) -> Recipe {
    Recipe {
        micro_batch,
        micro_batches: vec![micros],
        bucket_bytes: 4096,
        optimizer: Optimizer::Sgd { rate: 0.05, momentum: 0.9 },
        seed: 11,
        ..Recipe::plain(model, Mesh::SERIAL, Dtype::F64)
    }
}

/// The work of the serial recipe on a mesh: its micro-batches, shared out among replicas.
pub(super) fn on(serial: &Recipe, data: usize, tensor: usize, pipeline: usize) -> Recipe {
    let micros: usize = serial.micro_batches.iter().sum();
    assert_eq!(micros % data, 0);
    let mesh = Mesh { data, tensor, pipeline };
    Recipe { mesh, micro_batches: vec![micros / data; data], ..serial.clone() }
}

/// What a run ends with.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) losses: Vec<f64>,
    /// Whole parameters, put together from what ranks hold.
    pub(super) parameters: BTreeMap<String, Vec<f64>>,
    /// Numbers that ranks hold in common and that are not equal: by the trainer's own comparison, and by ours.
    pub(super) differing: u64,
}

impl Outcome {
    /// Whether all losses and parameters are the same, bit by bit.
    pub(super) fn has_bits_of(&self, other: &Self) -> bool {
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        bits(&self.losses) == bits(&other.losses)
            && self.differing == other.differing
            && self.parameters.len() == other.parameters.len()
            && self.parameters.iter().all(|(name, numbers)| bits(numbers) == bits(&other.parameters[name]))
    }
}

/// Changes a rank's program before it runs.
pub(super) type Edit<'a> = &'a (dyn Fn(usize, &mut Program) + Sync);

/// What ranks compute and communicate on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// Computation and communication at once, when they are called.
    Host,
    /// Computation and communication as late as waits permit: an order of a device's streams in which nothing arrives by chance.
    Late,
    /// Computes as late, and communicates at once: nothing is computed by chance before it is given.
    Behind,
}

impl On {
    fn device(self, threads: usize, recipe: &Recipe) -> Box<dyn Device> {
        let host = match self {
            Self::Host => Host::new(threads, &[], recipe.matmul),
            Self::Late | Self::Behind => Host::late(threads, recipe.matmul),
        };
        Box::new(host.expect("there are threads"))
    }

    pub(super) fn world(self, world: Box<dyn Communicator>, abort: &Abort) -> Box<dyn Communicator> {
        match self {
            Self::Host | Self::Behind => world,
            Self::Late => Box::new(comm::Late::new(world, abort.clone())),
        }
    }
}

/// Trains on threads over shared memory: on the host, and late in two ways, which must give the same bits.
pub(super) fn train(recipe: &Recipe, steps: usize) -> Outcome {
    let outcome = train_edited(recipe, steps, 1, &|_, _| {});
    assert_eq!(outcome.differing, 0, "ranks hold the same where they must");
    for on in [On::Late, On::Behind] {
        let late = train_on(on, recipe, steps, 1, &|_, _| {});
        assert!(outcome.has_bits_of(&late), "{on:?}: training ends elsewhere: {}", recipe.mesh);
    }
    outcome
}

/// As [`train`] on the host, with programs changed.
pub(super) fn train_edited(recipe: &Recipe, steps: usize, threads: usize, edit: Edit<'_>) -> Outcome {
    train_on(On::Host, recipe, steps, threads, edit)
}

/// As [`train_edited`], on this device.
pub(super) fn train_on(on: On, recipe: &Recipe, steps: usize, threads: usize, edit: Edit<'_>) -> Outcome {
    train_in(on, &|world, abort| on.world(world, abort), recipe, steps, threads, edit)
}

/// What stands around the communicator of all ranks.
pub(super) type Wrap<'a> = &'a (dyn Fn(Box<dyn Communicator>, &Abort) -> Box<dyn Communicator> + Sync);

/// As [`train_on`], with this around the world.
pub(super) fn train_in(
    on: On,
    wrap: Wrap<'_>,
    recipe: &Recipe,
    steps: usize,
    threads: usize,
    edit: Edit<'_>,
) -> Outcome {
    let results = on_all_ranks(wrap, recipe, |rank, world, abort, options| {
        run_rank(recipe, steps, &*on.device(threads, recipe), edit, rank, world, abort, options)
    });
    let different = results.iter().map(|(_, _, different)| different).sum::<u64>();
    let results: Vec<_> = results.into_iter().map(|(losses, pieces, _)| (losses, pieces)).collect();
    let mut outcome = outcome(recipe, &results);
    outcome.differing += different;
    outcome
}

/// Seconds of each block, and of each replica's micro-batch.
pub(super) fn speeds(recipe: &Recipe) -> (Vec<f64>, Vec<f64>) {
    let on = On::Host;
    let results = on_all_ranks(&|world, abort| on.world(world, abort), recipe, |_, world, abort, options| {
        let source = Box::new(Formula::for_model(&recipe.model));
        let mut trainer = Trainer::new(recipe, world, abort, options, &*on.device(1, recipe), source)?;
        let report = trainer.step(world)?;
        Ok((trainer.block_seconds(world)?, trainer.micro_batch_seconds(&report, world)?))
    });
    assert!(results.iter().all(|other| *other == results[0]), "all ranks know the same");
    results.into_iter().next().expect("there is a rank")
}

/// A run that begins with another loss scale.
pub(super) struct Scaled {
    pub(super) outcome: Outcome,
    /// Parameters before the first step.
    pub(super) before: BTreeMap<String, Vec<f64>>,
    /// The scale that the next step would have.
    pub(super) scale: f64,
}

/// Trains on one rank, beginning with this loss scale.
pub(super) fn train_scaled(recipe: &Recipe, steps: usize, scale: f64) -> Scaled {
    let on = On::Late;
    let mut results = on_all_ranks(&|world, abort| on.world(world, abort), recipe, |_, world, abort, options| {
        let source = Box::new(Formula::for_model(&recipe.model));
        let mut trainer = Trainer::new(recipe, world, abort, options, &*on.device(1, recipe), source)?;
        trainer.set_loss_scale(scale)?;
        let before = trainer.parameters()?;
        let losses: Result<Vec<f64>, crate::TrainerError> =
            (0..steps).map(|_| trainer.step(world).map(|report| report.loss)).collect();
        Ok((losses?, before, trainer.parameters()?, trainer.loss_scale()?))
    });
    let (losses, before, after, scale) = results.remove(0);
    let before = outcome(recipe, &[(losses.clone(), before)]).parameters;
    Scaled { outcome: outcome(recipe, &[(losses, after)]), before, scale }
}

/// Runs every rank of a recipe on a thread, over shared memory.
fn on_all_ranks<T: Send>(
    wrap: Wrap<'_>,
    recipe: &Recipe,
    work: impl Fn(usize, &mut dyn Communicator, &Abort, &Options) -> Result<T, crate::TrainerError> + Sync,
) -> Vec<T> {
    let ranks = recipe.mesh.ranks();
    let abort = Abort::default();
    let bootstraps = comm::threads(ranks as u32, &abort);
    let work = &work;
    std::thread::scope(|scope| {
        let handles: Vec<_> = bootstraps
            .into_iter()
            .enumerate()
            .map(|(rank, mut bootstrap)| {
                scope.spawn(move || {
                    let options = Options { oversubscribed: true, ..Options::default() };
                    let (world, abort) = comm::open("shm", &mut bootstrap, &options).expect("shm opens");
                    let mut world = wrap(world, &abort);
                    let guard = RaisedOnPanic(abort.clone());
                    let result = work(rank, &mut *world, &abort, &options);
                    let result = result.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
                    drop(guard);
                    result
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a rank panicked")).collect()
    })
}

/// A rank that panics must not leave the others waiting.
struct RaisedOnPanic(Abort);

impl Drop for RaisedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise();
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "one rank's share of a test")]
fn run_rank(
    recipe: &Recipe,
    steps: usize,
    device: &dyn Device,
    edit: Edit<'_>,
    rank: usize,
    world: &mut dyn Communicator,
    abort: &Abort,
    options: &Options,
) -> Result<(Vec<f64>, Vec<crate::Piece>, u64), crate::TrainerError> {
    crate::check(recipe)?;
    let mut built = build(recipe, recipe.mesh.coordinate(rank))?;
    edit(rank, &mut built.program);
    let source = Box::new(Formula::for_model(&recipe.model));
    let mut trainer = Trainer::from_built(built, recipe, world, abort, options, device, source)?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        losses.push(trainer.step(world)?.loss);
    }
    let agreement = trainer.agreement(world)?;
    Ok((losses, trainer.parameters()?, agreement.different))
}

/// Whole parameters from pieces: every number is there; where ranks that hold the same do not agree is counted.
fn outcome(recipe: &Recipe, results: &[(Vec<f64>, Vec<crate::Piece>)]) -> Outcome {
    let mut parameters: BTreeMap<String, Vec<f64>> =
        recipe.model.parameters().into_iter().map(|held| (held.name.clone(), vec![f64::NAN; held.len()])).collect();
    let mut differing = 0;
    for piece in results.iter().flat_map(|(_, pieces)| pieces) {
        let whole = parameters.get_mut(&piece.name).expect("a parameter of the model");
        for (offset, number) in piece.numbers.iter().enumerate() {
            let place = &mut whole[piece.first + offset];
            differing += u64::from(!place.is_nan() && place.to_bits() != number.to_bits());
            *place = *number;
        }
    }
    for (name, numbers) in &parameters {
        assert!(numbers.iter().all(|number| !number.is_nan()), "nobody holds all of {name}");
    }
    // The loss is the same on all ranks.
    differing += results.iter().filter(|(losses, _)| *losses != results[0].0).count() as u64;
    Outcome { losses: results[0].0.clone(), parameters, differing }
}

/// The largest difference relative to the size of what is compared: losses, and each parameter's norm.
pub(super) fn difference(a: &Outcome, b: &Outcome) -> f64 {
    assert_eq!(a.losses.len(), b.losses.len());
    let losses = a.losses.iter().zip(&b.losses).map(|(x, y)| (x - y).abs() / x.abs().max(1e-300));
    let parameters = a.parameters.iter().map(|(name, numbers)| {
        let other = &b.parameters[name];
        let norm = numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
        let apart = numbers.iter().zip(other).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt();
        apart / norm.max(1e-12)
    });
    losses.chain(parameters).fold(0.0, f64::max)
}
