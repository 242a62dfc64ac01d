//! A training case on one rank: what it needs before the first step, a step, and what is looked at after the last.

use comm::Communicator;
use contract::{Prepared, RankContext, Work};
use engine::cores::peak;
use engine::{Device, Host, Multiplier};
use measure::{Failure, StepTimes, WrongReport};
use parallel::{Agreement, Asleep, Recipe, StepReport, Trainer, TrainerError};
use record::WrongElement;
use serde_json::{Map, Value};
use terms::Dtype;
use trace::timeline::Kind;
use trace::{RankSteps, StepRecorder};

use super::exchange::NumberExchange;
use super::limit::{self, Limit};
use super::notes::{Notes, Phases};
use super::process::{self, Bound, HeldMemory, StepCpu};
use super::resolve::{Sleep, Task};
use super::{balance, gpus, kernel_times, repeat};

/// What else than steps is measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WantedMeasures {
    /// The cores' peak, for MFU.
    pub(super) peak: bool,
    pub(super) limit: Option<Limit>,
    /// Whether the first steps give the same bits again.
    pub(super) repeated: bool,
    /// Where the time of a step goes, by kind of kernel.
    pub(super) kernel_times: bool,
}

struct PreparedTraining {
    trainer: Trainer,
    task: Task,
    rank: u32,
    steps: Vec<StepReport>,
    notes: Notes,
    cpu: StepCpu,
    limit: Option<Limit>,
    times_kernels: bool,
    peaks: Option<Peaks>,
    device: Computes,
    /// Why the initial parameters could not be had again, until somebody can be told.
    unready: Option<Failure>,
    // Last, so that memory is given back before the bound is lifted.
    _bound: Option<Bound>,
}

/// The cores' peak, measured again with each trial: clocks and other tenants change between trials.
struct Peaks {
    kind: (Dtype, Multiplier),
    first: usize,
    cores: Vec<u32>,
    seen: Vec<f64>,
}

impl Peaks {
    /// Operations a second: the median of all measurements, this one among them.
    fn again(&mut self, threads: usize) -> f64 {
        self.seen.push(peak::measure(self.kind, threads, self.first, &self.cores).0);
        stats::median(&self.seen)
    }
}

/// Steps that are kept without allocating.
const STEPS: usize = 10_000;

/// Builds the trainer. Collective.
pub(super) fn prepare(
    mut task: Task,
    wanted: WantedMeasures,
    context: &mut RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let mut exchange = NumberExchange::new(&mut *context.comm)?;
    let bound = match task.gpus {
        Some(_) => None,
        None => limit::apply(&task, wanted.limit, &mut exchange, context)?,
    };
    let device = Computes::new(&task, &mut exchange, context)?;
    if let (Some(held), Some(limit)) = (device.base(), wanted.limit) {
        limit::refuse(&task, (held, limit), &mut exchange, context)?;
    }
    let mut notes = Notes::default();
    let mut peaks = None;
    if wanted.peak
        && let Some((flops, source)) = device.peak(&task, &mut exchange, context)?
    {
        (notes.peak_flops, notes.peak_source) = (flops, source);
    }
    // What sleeps reaches no peak: there is nothing to compare it with.
    if let Computes::Host(multiplier) = device
        && wanted.peak
        && task.sleep.is_none()
    {
        let first = context.index as usize * task.threads;
        // All ranks at once: cores that share a clock or a cache show it.
        let kind = (task.recipe.precision, multiplier);
        let (flops, source) = peak::measure(kind, task.threads, first, &context.cores);
        (notes.peak_flops, notes.peak_source) = (flops, source.to_owned());
        peaks = Some(Peaks { kind, first, cores: context.cores.clone(), seen: vec![flops] });
        let cores = context.thread_cores(task.threads);
        exchange.gather(&mut *context.comm, 0.0)?;
        notes.gemm_flops = product_rate(&task, &cores, &mut exchange, context)?;
    }
    balance::apply(&mut task, &device, context)?;
    (notes.stages, notes.micro_batches) = (task.recipe.stages.clone(), task.recipe.micro_batches.clone());
    process::reset_peak();
    notes.base_bytes = device.base().unwrap_or_else(|| HeldMemory::now().map_or(0, HeldMemory::resident_once));
    let mut trainer = trainer(&task, &device, context)?;
    trainer.record_with(StepRecorder::new(context.clock.clone(), Some(context.hook.clone())));
    if let Some(Sleep { times, jitter, heavy_tail }) = task.sleep.clone() {
        trainer.sleep_instead(Asleep { times, jitter, heavy_tail, seed: task.recipe.seed, rank: context.rank });
    }
    if let Computes::Host(_) = device {
        notes.multiplied = trainer.multiplied();
    }
    if wanted.repeated {
        notes.repeated = Some(repeat::steps(&mut trainer, &mut *context.comm)?);
    }
    Ok(Box::new(PreparedTraining {
        trainer,
        task,
        rank: context.rank,
        steps: Vec::with_capacity(STEPS),
        notes,
        cpu: StepCpu::from_now(process::cpu_ns()),
        limit: wanted.limit,
        times_kernels: wanted.kernel_times,
        peaks,
        device,
        unready: None,
        _bound: bound,
    }))
}

/// Where a rank computes.
pub(super) enum Computes {
    Host(Multiplier),
    Gpu(Box<gpus::Prepared>),
}

impl Computes {
    /// Collective: where one rank lacks something, none begins.
    fn new(task: &Task, exchange: &mut NumberExchange, context: &mut RankContext) -> Result<Self, Failure> {
        let Some(given) = &task.gpus else { return Ok(Self::Host(multiplier(task, exchange, context)?)) };
        let own = gpus::Prepared::new(given, task, context.rank, &mut *context.comm);
        let all = exchange.gather(&mut *context.comm, own.as_ref().map_or(f64::NAN, |_| 0.0))?;
        let mut own = own?;
        match all.iter().position(|has| has.is_nan()) {
            None => {
                own.choose_attention(task, context.rank, exchange, &mut *context.comm)?;
                Ok(Self::Gpu(Box::new(own)))
            }
            Some(rank) => Err(Failure::lacking(format!("rank {rank} cannot compute on its GPU"))),
        }
    }

    /// Bytes of a GPU that this program's buffers and kernels hold; None on the host.
    fn held(&self) -> Option<u64> {
        match self {
            Self::Host(_) => None,
            Self::Gpu(there) => Some(there.gpu.held_bytes()),
        }
    }

    /// Bytes of a GPU that are held before a case; None on the host. Without the workspace that every program shares,
    /// because it is planned with each.
    fn base(&self) -> Option<u64> {
        self.held().map(|held| held.saturating_sub(engine::cuda::WORKSPACE as u64))
    }

    /// Operations a second of a GPU's large product, and which; None on the host, whose cores are measured with every trial. Collective:
    /// where one rank could not measure it, none goes on.
    fn peak(
        &self,
        task: &Task,
        exchange: &mut NumberExchange,
        context: &mut RankContext,
    ) -> Result<Option<(f64, String)>, Failure> {
        let Self::Gpu(there) = self else { return Ok(None) };
        let own = there.product_rate(task.recipe.precision);
        let all = exchange.gather(&mut *context.comm, own.as_ref().map_or(f64::NAN, |_| 0.0))?;
        let own = own?;
        match all.iter().position(|rate| rate.is_nan()) {
            None => Ok(own),
            Some(rank) => Err(Failure::lacking(format!("rank {rank} could not measure its product of matrices"))),
        }
    }
}

/// What this rank multiplies with. Collective: where one rank lacks what the case asks for, none begins.
fn multiplier(task: &Task, exchange: &mut NumberExchange, context: &mut RankContext) -> Result<Multiplier, Failure> {
    let Recipe { precision, matmul, .. } = task.recipe;
    let own = engine::multiplier(precision, matmul);
    let all = exchange.gather(&mut *context.comm, own.map_or(f64::NAN, |_| 0.0))?;
    let lacking =
        |rank: usize| Failure::lacking(format!("the processor of rank {rank} cannot run {matmul} (AMX for bf16)"));
    match (own, all.iter().position(|has| has.is_nan())) {
        (Some(own), None) => Ok(own),
        (_, rank) => Err(lacking(rank.unwrap_or(context.rank as usize))),
    }
}

/// Operations a second of this rank's product of matrices. Collective: where one rank has no memory or no threads for it,
/// none goes on to a collective in which the others would wait.
fn product_rate(
    task: &Task,
    cores: &[u32],
    exchange: &mut NumberExchange,
    context: &mut RankContext,
) -> Result<f64, Failure> {
    let rate = parallel::product_rate(task.recipe.precision, task.recipe.matmul, task.threads, cores);
    let all = exchange.gather(&mut *context.comm, rate.as_ref().copied().unwrap_or(f64::NAN))?;
    let rate = rate.map_err(|error| Failure::lacking(error.to_string()))?;
    match all.iter().position(|rate| rate.is_nan()) {
        Some(rank) => Err(Failure::lacking(format!("rank {rank} could not measure its product of matrices"))),
        None => Ok(rate),
    }
}

/// The trainer of this rank. Collective.
///
/// # Panics
/// When this rank alone has no memory or no threads: its peers wait for it in a collective, and the end of its process
/// is what their coordinator notices at once.
pub(super) fn trainer(task: &Task, device: &Computes, context: &mut RankContext) -> Result<Trainer, Failure> {
    let replica = task.recipe.mesh.coordinate(context.rank as usize).data;
    let source = task.origin.open(&task.recipe, replica, &context.cores)?;
    let cores = context.thread_cores(task.threads);
    let comm = &mut *context.comm;
    let train =
        |device: &dyn Device| Trainer::new(&task.recipe, comm, &context.abort, &context.options, device, source);
    let made = match device {
        Computes::Gpu(there) => train(&there.cuda),
        Computes::Host(_) => Host::new(task.threads, &cores, task.recipe.matmul)
            .map_err(TrainerError::from)
            .and_then(|host| train(&host)),
    };
    made.map_err(|error| {
        if let TrainerError::Engine(engine::Error::Lacking(why)) = &error {
            return Failure::lacking(why.clone());
        }
        let full = matches!(error, TrainerError::Memory { .. } | TrainerError::Comm(comm::Error::OutOfMemory { .. }));
        let alone = full || matches!(error, TrainerError::Engine(_));
        let place = if full { "out of memory on" } else { "on" };
        let message = format!("{place} rank {}: {error}", context.rank);
        assert!(!alone || context.ranks == 1, "{message}");
        Failure::new(message)
    })
}

/// What is said of replicas that do not hold the same.
fn apart(rank: u32, agreement: &Agreement) -> WrongElement {
    let Agreement { compared, different, first } = agreement;
    let name = first.as_deref().unwrap_or("a parameter");
    WrongElement {
        rank,
        index: 0,
        expected: format!("what other ranks hold in `{name}`"),
        got: format!("something else, as {different} of {compared} numbers"),
    }
}

/// Nanoseconds that recording a span takes: the median of bursts, with the clock reading that each span needs.
fn span_ns(recorder: &mut StepRecorder) -> f64 {
    const SPANS: u32 = 1000;
    let mut bursts = [0.0; 11];
    for burst in &mut bursts {
        recorder.record(SPANS as usize, 0);
        let begun_ns = recorder.now_ns();
        let mut since = begun_ns;
        for _ in 0..SPANS {
            let now_ns = recorder.now_ns();
            recorder.mark(Kind::Host, since, now_ns);
            since = now_ns;
        }
        *burst = (recorder.now_ns() - begun_ns) as f64 / f64::from(SPANS);
        drop(recorder.take());
    }
    stats::median(&bursts)
}

impl PreparedTraining {
    fn step(&mut self, comm: &mut dyn Communicator) -> Result<StepReport, Failure> {
        match self.unready.take() {
            Some(failure) => Err(failure),
            None => self.trainer.step(comm).map_err(|error| Failure::new(error.to_string())),
        }
    }
}

impl Prepared for PreparedTraining {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let step = self.step(comm)?;
        self.steps.push(step);
        Ok(())
    }

    /// Back to the initial parameters.
    fn refill(&mut self) {
        if !self.steps.is_empty() {
            self.unready = self.trainer.reset().err().map(|error| Failure::new(error.to_string()));
            self.steps.clear();
        }
        self.cpu = StepCpu::from_now(process::cpu_ns());
    }

    /// Replicas must hold the same parameters, bit by bit, and every loss must be a number. Before that, what the steps
    /// took is noted: every rank still holds everything.
    fn check(&mut self, comm: &mut dyn Communicator, _calls: u64) -> Result<WrongReport, Failure> {
        self.cpu.pause(process::cpu_ns());
        self.notes.threads = process::threads();
        self.notes.held_bytes =
            self.device.held().unwrap_or_else(|| HeldMemory::now().map_or(0, HeldMemory::peak_once));
        if let Some(limit) = self.limit.filter(|limit| self.notes.held_bytes > limit.bytes) {
            return Err(limit.passed(limit::exceeded(self.rank, self.notes.held_bytes, limit.bytes)));
        }
        if let Some(peaks) = &mut self.peaks {
            self.notes.peak_flops = peaks.again(self.task.threads);
        }
        // Without communication replicas go ways of their own, as asked.
        let agreement = match self.task.recipe.communicate {
            true => self.trainer.agreement(comm).map_err(|error| Failure::new(error.to_string()))?,
            false => Agreement::default(),
        };
        // Behind all that is timed and compared. Ranks that are kept for the next trial need not do it again.
        if self.times_kernels && self.notes.kernel_times.is_none() {
            self.notes.kernel_times = Some(kernel_times::measure(&mut self.trainer, comm)?);
        }
        let losses = self.steps.iter().filter(|step| !step.loss.is_finite()).count() as u64;
        Ok(WrongReport {
            count: agreement.different + losses,
            compared: agreement.compared + self.steps.len() as u64,
            first: if agreement.different > 0 { vec![apart(self.rank, &agreement)] } else { Vec::new() },
        })
    }

    /// Only sampled steps are made, and no others.
    fn work(&self) -> Work {
        let outline = parallel::outline(&self.task.recipe, self.rank as usize, |program| self.task.scratch(program));
        let flops = outline.map_or(0.0, |outline| outline.flops);
        Work {
            traffic_bytes: 0,
            flops,
            messages: 1,
            max_calls: u64::MAX,
            copies: 1,
            checks: 0,
            steps: true,
            group: 0,
            sample_ns: 0,
        }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        String::new()
    }

    fn records(&self) -> bool {
        true
    }

    fn steps(&mut self, comm: &mut dyn Communicator, steps: u32, record: bool) -> Result<StepTimes, Failure> {
        let mut times = StepTimes { ns: Vec::with_capacity(steps as usize), ..StepTimes::default() };
        if record {
            times.span_ns = span_ns(self.trainer.recorder());
            let room = self.trainer.marks_in_a_step() * steps as usize;
            self.trainer.recorder().record(room, steps as usize);
        }
        for _ in 0..steps {
            let step = self.step(comm)?;
            times.ns.push((step.total_s * 1e9) as u64);
        }
        if record {
            let recorded = self.trainer.recorder().take();
            times.recorded = RankSteps { exchanges: self.trainer.exchange_notes(), ..recorded };
        }
        Ok(times)
    }

    fn details(&mut self) -> Map<String, Value> {
        self.cpu.pause(process::cpu_ns());
        self.notes.cpu_s = self.cpu.seconds();
        self.notes.loss_bits = self.steps.iter().map(|step| step.loss.to_bits()).collect();
        if let Computes::Gpu(there) = &self.device {
            self.notes.gpu = there.about(&self.trainer);
        }
        self.notes.phases = Phases::from_steps(&self.steps);
        self.notes.communication_s = self.steps.iter().map(|step| step.communication_s).collect();
        let notes = self.notes.write();
        // A trial that ranks are kept for goes on with the next step.
        self.cpu.resume(process::cpu_ns());
        notes
    }
}
