//! Runs the program of one rank, step by step.

mod agreement;
mod asleep;
mod inspect;
mod kinds;
mod load;
mod operations;
mod run;
mod speed;

use std::sync::Arc;

use comm::{Abort, Call, Communicator, Options, Ticket};
use device::{Region, Slice};
use engine::{Axis, Device, Instruction, Loaded, Memory, MemoryPlan, Program, View};
use terms::{Collective, Direction, Dtype, FieldError, Reduce, Space};
use trace::timeline::Kind;
use trace::{ExchangeNote, StepRecorder};

use crate::check::check;
use crate::groups::Groups;
use crate::mesh::Coordinate;
use crate::outline::{self, Outline};
use crate::recipe::Recipe;
use crate::source::Source;
use crate::strategies::{Built, PassMark, build};

pub use agreement::Agreement;
pub use asleep::{Asleep, SleepTimes};
pub use inspect::Piece;
use run::{Lap, Running};

/// Where loss scaling begins (as PyTorch's GradScaler).
const FIRST_LOSS_SCALE: f64 = 65536.0;

/// A step as this rank saw it. Seconds; phases and waiting add up to the total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Mean loss over the global batch: the same on all ranks.
    pub loss: f64,
    /// Waiting for data.
    pub input_s: f64,
    /// Forward pass, without waiting for communication.
    pub forward_s: f64,
    /// Backward pass, without waiting for communication.
    pub backward_s: f64,
    /// Optimizer.
    pub optimizer_s: f64,
    /// Waiting for communication, pipeline neighbours included.
    pub communication_s: f64,
    /// The whole step.
    pub total_s: f64,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum TrainerError {
    /// The recipe does not fit.
    #[error(transparent)]
    Refused(#[from] FieldError),
    /// Communication failed.
    #[error(transparent)]
    Comm(#[from] comm::Error),
    /// The device says so.
    #[error(transparent)]
    Engine(engine::Error),
    /// Memory could not be had.
    #[error("cannot allocate {bytes} bytes: {source}")]
    Memory {
        /// How many.
        bytes: usize,
        /// The system's words.
        source: std::io::Error,
    },
    /// Data could not be had.
    #[error("{0}")]
    Data(String),
    /// The loss is not a number.
    #[error("the loss of step {step} is {loss}")]
    Loss {
        /// Which step, from 1.
        step: u64,
        /// What it is.
        loss: f64,
    },
}

impl From<engine::Error> for TrainerError {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Memory { bytes, source } => Self::Memory { bytes, source },
            other => Self::Engine(other),
        }
    }
}

/// An exchange as the communicator takes it.
#[derive(Debug)]
struct Joined {
    axis: Axis,
    call: Call,
    ticket: Option<Ticket>,
    /// When it began: by the recorder's clock, or by the number of a point of the device's.
    begun: u64,
}

/// One rank's end of a training run.
pub struct Trainer {
    recipe: Recipe,
    at: Coordinate,
    built: Built,
    program: Arc<Program>,
    loaded: Box<dyn Loaded>,
    outline: Outline,
    groups: Groups,
    abort: Abort,
    /// By ticket.
    exchanges: Vec<Option<Joined>>,
    source: Box<dyn Source>,
    samples: load::LoadedSamples,
    /// Steps done since the parameters were initial.
    steps: u64,
    recorder: StepRecorder,
    asleep: Option<Asleep>,
    laps: Vec<Lap>,
}

impl Trainer {
    /// Allocates everything on the device, and gives parameters their initial values. Collective.
    ///
    /// # Errors
    /// What could not be had.
    pub fn new(
        recipe: &Recipe,
        world: &mut dyn Communicator,
        abort: &Abort,
        options: &Options,
        device: &dyn Device,
        source: Box<dyn Source>,
    ) -> Result<Self, TrainerError> {
        check(recipe)?;
        let at = recipe.mesh.coordinate(world.shape().rank as usize);
        let built = build(recipe, at)?;
        Self::from_built(built, recipe, world, abort, options, device, source)
    }

    /// A trainer of a program that is built already.
    pub(crate) fn from_built(
        mut built: Built,
        recipe: &Recipe,
        world: &mut dyn Communicator,
        abort: &Abort,
        options: &Options,
        device: &dyn Device,
        source: Box<dyn Source>,
    ) -> Result<Self, TrainerError> {
        let ranks = world.shape().size as usize;
        if recipe.mesh.ranks() != ranks {
            let message = format!("the mesh {} holds {} ranks, not {ranks}", recipe.mesh, recipe.mesh.ranks());
            let hint = format!("sizes with the product {ranks}");
            return Err(FieldError::new("mesh", message).hint(hint).into());
        }
        let at = recipe.mesh.coordinate(world.shape().rank as usize);
        let plan = engine::plan(&built.program);
        let outline = outline::for_rank(&built, &plan, recipe, at, device.scratch(&built.program));
        let program = Arc::new(std::mem::take(&mut built.program));
        let memory = allocate(&program, &plan, device, world)?;
        let groups = Groups::new(recipe, at, device.space(), world, abort, options)?;
        let exchanges = join(&program, &memory, &groups);
        let loaded = device.load(&program, memory, recipe.seed)?;
        let mut trainer = Self {
            recipe: recipe.clone(),
            at,
            built,
            program,
            loaded,
            outline,
            groups,
            abort: abort.clone(),
            exchanges,
            source,
            samples: load::LoadedSamples::new(recipe),
            steps: 0,
            recorder: StepRecorder::default(),
            asleep: None,
            laps: Vec::new(),
        };
        trainer.reset()?;
        Ok(trainer)
    }

    /// What this rank's program takes.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// From now on steps are recorded here, by this recorder's clock.
    pub fn record_with(&mut self, recorder: StepRecorder) {
        self.recorder = recorder;
    }

    /// From now on nothing is computed: each pass of a block sleeps. Exchanges stay real.
    pub fn sleep_instead(&mut self, asleep: Asleep) {
        self.asleep = Some(asleep);
    }

    /// What records its steps.
    pub fn recorder(&mut self) -> &mut StepRecorder {
        &mut self.recorder
    }

    /// Spans that a step records, at most.
    pub fn marks_in_a_step(&self) -> usize {
        // A phase's stretch and a wait at most for each instruction but operations, an exchange, a block, input and the step.
        let others = self.program.instructions.iter().filter(|instruction| !matches!(instruction, Instruction::Run(_)));
        3 * others.count() + self.built.marks.len() + 4
    }

    /// What is known of each exchange of a step, by the number that recorded spans have.
    pub fn exchange_notes(&self) -> Vec<ExchangeNote> {
        outline::exchange_notes(&self.program, &self.recipe, self.at)
    }

    /// One step. Collective.
    ///
    /// # Errors
    /// What communication or data say; a loss that is not a number, on every rank.
    pub fn step(&mut self, world: &mut dyn Communicator) -> Result<StepReport, TrainerError> {
        let begun_ns = self.recorder.begin();
        self.recorder.enter(Kind::Host);
        let input_ns = self.recorder.now_ns();
        self.recorder.enter(Kind::Input);
        self.load()?;
        let loaded_ns = self.recorder.now_ns();
        self.recorder.mark(Kind::Input, input_ns, loaded_ns);
        let mut report = StepReport { input_s: seconds(loaded_ns - input_ns), ..StepReport::default() };
        self.steps += 1;
        let all = 0..self.program.instructions.len();
        self.run(world, &mut report, |running, marks| running.run(all, marks))?;
        report.loss = self.scalar(self.built.loss)?;
        report.total_s = seconds(self.recorder.end() - begun_ns);
        if report.loss.is_finite() {
            return Ok(report);
        }
        Err(TrainerError::Loss { step: self.steps, loss: report.loss })
    }

    /// Runs instructions of the next step where that takes least. After an error nothing is in flight: what waits for the device then,
    /// its program's end for one, would wait for peers that may never come.
    fn run(
        &mut self,
        world: &mut dyn Communicator,
        report: &mut StepReport,
        work: impl FnOnce(&mut Running<'_>, &[PassMark]) -> Result<(), TrainerError> + Send,
    ) -> Result<(), TrainerError> {
        let Self { built, program, loaded, groups, abort, exchanges, steps, recorder, asleep, laps, .. } = self;
        let pool = loaded.pool();
        let (loaded, step, asleep) = (&mut **loaded, *steps, asleep.clone());
        let (last, late_ns) = (None, 0);
        let mut running = Running {
            program,
            loaded,
            step,
            groups,
            abort,
            exchanges,
            world,
            report,
            recorder,
            asleep,
            late_ns,
            laps,
            last,
        };
        let ran = pool.install(|| work(&mut running, &built.marks));
        ran.inspect_err(|_| self.groups.abandon(world))
    }

    /// The first of a few numbers.
    fn scalar(&self, view: View) -> Result<f64, TrainerError> {
        let mut number = f64::NAN;
        // SAFETY: no exchange is under way between steps.
        unsafe { self.loaded.see::<f64>(view, |numbers| number = numbers[0]) }?;
        Ok(number)
    }

    /// Back to the initial parameters and the first sample.
    ///
    /// # Errors
    /// What the device says.
    pub fn reset(&mut self) -> Result<(), TrainerError> {
        self.steps = 0;
        self.recorder.reset();
        load::fill_initial(&self.built, &mut *self.loaded, &self.recipe, self.at)?;
        self.set_loss_scale(if self.recipe.precision == Dtype::F16 { FIRST_LOSS_SCALE } else { 1.0 })
    }

    /// What the next step multiplies gradients by, so that f16 holds them; 1 for other types.
    ///
    /// # Errors
    /// What the device says.
    pub fn loss_scale(&self) -> Result<f64, TrainerError> {
        self.scalar(self.built.control)
    }

    /// Begins again with this scale.
    pub(crate) fn set_loss_scale(&mut self, scale: f64) -> Result<(), TrainerError> {
        let numbers = [scale, 0.0, 0.0, 0.0];
        // SAFETY: no exchange is under way between steps.
        unsafe { self.loaded.put::<f64>(self.built.control, |control| control.copy_from_slice(&numbers)) }?;
        Ok(())
    }
}

/// Memory that peers reach, as much as any rank needs, and private memory; every buffer at its place.
fn allocate(
    program: &Program,
    plan: &MemoryPlan,
    device: &dyn Device,
    world: &mut dyn Communicator,
) -> Result<Memory, TrainerError> {
    let private = device.alloc(plan.private)?;
    let shared = match (largest(plan.shared, world)?, device.space()) {
        (0, _) => private.clone(),
        (bytes, Space::Host) => world.alloc(bytes, Space::Host)?,
        // Peers reach it by their own device's copies, from wherever it was allocated.
        (_, Space::Cuda) => world.alloc_private(plan.shared, Space::Cuda)?,
    };
    let place = |(buffer, place): (&engine::Buffer, &engine::BufferPlace)| {
        let region = if place.shared { &shared } else { &private };
        region.slice(place.offset, buffer.bytes()).expect("the plan lies inside its memory")
    };
    let places = program.buffers.iter().zip(&plan.places).map(place).collect();
    Ok(Memory::new(&program.buffers, places))
}

/// The largest of all ranks' numbers.
fn largest(own: usize, world: &mut dyn Communicator) -> Result<usize, TrainerError> {
    let region = Region::host(8).map_err(|source| TrainerError::Memory { bytes: 8, source })?;
    let word = region.base().cast::<i64>();
    // SAFETY: eight aligned bytes that only this function uses, before and after the operation.
    unsafe { word.write(own as i64) };
    let whole = region.whole();
    world.run(&call(Collective::AllReduce, Reduce::Max, Dtype::I64, &whole, &whole, 0))?;
    // SAFETY: as above.
    Ok(unsafe { word.read() } as usize)
}

fn call(op: Collective, reduce: Reduce, dtype: Dtype, input: &Slice, output: &Slice, peer: u32) -> Call {
    let (input, output) = (input.clone(), output.clone());
    Call { op, input, output, dtype, reduce, peer, direction: Direction::OneWay, counts: None }
}

/// Every exchange of the program, as the communicator takes it.
fn join(program: &Program, memory: &Memory, groups: &Groups) -> Vec<Option<Joined>> {
    let mut joined: Vec<Option<Joined>> = (0..program.tickets()).map(|_| None).collect();
    for instruction in &program.instructions {
        let Instruction::Start { ticket, exchange } = instruction else { continue };
        let (input, output) = (memory.slice(exchange.input), memory.slice(exchange.output));
        let dtype = memory.dtype(exchange.output);
        let op = outline::operation(exchange.kind);
        let call = match exchange.kind {
            engine::ExchangeKind::Max => call(op, Reduce::Max, dtype, &input, &output, 0),
            engine::ExchangeKind::Transfer { up } => {
                let root = u32::from(!up);
                let sends = groups.rank(exchange.axis) == Some(root);
                let input = if sends { input } else { input.slice(0, 0).unwrap_or(input) };
                call(op, Reduce::Sum, dtype, &input, &output, root)
            }
            _ => call(op, Reduce::Sum, dtype, &input, &output, 0),
        };
        joined[*ticket as usize] = Some(Joined { axis: exchange.axis, call, ticket: None, begun: 0 });
    }
    joined
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
