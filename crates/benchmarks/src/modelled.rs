//! A world without ranks: a model computes the times of all of them, in the order of operations in which ranks would run them.
//! The times are those of ranks to the nanosecond, at a cost that hardly depends on how many there are.

use std::time::{Duration, Instant};

use comm::{Clocks, Model, Operation};
use contract::{Modelled, ParsedCase, Sampling, Work, backend_of, options_of};
use measure::{
    Command, Failure, Observations, Probe, Ready, Reply, SampleRequest, Samples, Verdict, VerdictKind, World,
    WorldSpec, WrongReport,
};
use record::Case;
use terms::{Collective, Direction, Dtype, Mode, Reduce};
use trace::{Injection, InjectionKind};

use crate::parse;
use crate::rank::{agreed_ahead, peak_bytes};

/// Whether times of the case are computed without its ranks.
pub fn is_modelled(case: &dyn ParsedCase) -> bool {
    case.is_modelled() && contract::has_model(case.case())
}

/// The ranks of a world, as a model has them.
pub struct ModelledWorld {
    model: Box<dyn Model>,
    clocks: Clocks,
    /// Why the run is to end, once it is.
    interrupted: fn() -> Option<String>,
    /// How far ahead starts are agreed on; None until it was first needed.
    start_ahead_ns: Option<u64>,
    current: Option<Current>,
}

/// The case at hand.
struct Current {
    case: Box<dyn Modelled>,
    operation: Operation,
    work: Work,
    injections: Vec<Injection>,
    /// Whether all calls take the same time.
    is_constant: bool,
    /// Operations of the case so far.
    operations: u64,
    /// Calls since ranks would last have filled their inputs.
    calls: u64,
    /// Samples that each rank began late.
    missed_starts: Clocks,
}

/// An operation of the measuring code.
fn own(op: Collective, count: u64) -> Operation {
    let (dtype, reduce, direction) = (Dtype::I64, Reduce::Sum, Direction::OneWay);
    Operation { op, count, dtype, reduce, peer: 0, direction, counts: None }
}

impl ModelledWorld {
    /// The world of a case; None where its backend has no model of it.
    ///
    /// # Errors
    /// Options of the backend that cannot be read.
    pub fn new(case: &Case, spec: &WorldSpec, interrupted: fn() -> Option<String>) -> Result<Option<Self>, Failure> {
        let Some(backend) = backend_of(case) else { return Ok(None) };
        let options = options_of(&spec.fields, backend.about().name, false)?;
        let model = comm::model(backend.about().name, &options).map_err(contract::failure)?;
        let clocks = Clocks::new(spec.ranks);
        Ok(model.map(|model| Self { model, clocks, interrupted, start_ahead_ns: None, current: None }))
    }

    fn prepare_case(&mut self, case: &Case, check: bool) -> Result<Ready, Failure> {
        self.current = None;
        let injections =
            Sampling::of(case)?.inject.iter().map(|text| text.parse::<Injection>()).collect::<Result<Vec<_>, String>>();
        let modelled = parse(case)?.modelled()?;
        let (work, injections) = (modelled.work(), injections.map_err(Failure::new)?);
        let is_delayed = injections.iter().any(|injection| matches!(injection.kind, InjectionKind::Delay(_)));
        let is_constant = self.model.is_constant() && !is_delayed;
        let ready = Ready {
            traffic_bytes: work.traffic_bytes,
            flops: work.flops,
            max_calls: if work.max_calls == u64::MAX { 0 } else { work.max_calls },
            messages: work.messages,
            modelled: true,
            left_out: modelled.left_out(),
            constant: is_constant,
            ..Ready::default()
        };
        let missed_starts = Clocks::new(self.clocks.ranks());
        let operation = modelled.operation().clone();
        let mut current = Current {
            case: modelled,
            operation,
            work,
            injections,
            is_constant,
            operations: 0,
            calls: 0,
            missed_starts,
        };
        if check {
            self.make_checked_calls(&mut current);
        }
        self.current = Some(current);
        Ok(ready)
    }

    /// All ranks meet.
    fn synchronise(&mut self) {
        self.model.run(&own(Collective::Barrier, 0), &mut self.clocks);
    }

    /// A rank's word goes to all of them.
    fn tell(&mut self) {
        self.model.run(&own(Collective::Broadcast, 1), &mut self.clocks);
    }

    /// One call of the case. `entered` sees the clocks with which ranks enter it.
    fn call(&mut self, current: &mut Current, entered: impl FnOnce(&Clocks)) {
        let hits = |injection: &&Injection| injection.hits(current.operations);
        let mut delays: Vec<(u32, f64)> = Vec::new();
        for injection in current.injections.iter().filter(hits) {
            if let InjectionKind::Delay(time) = injection.kind {
                match delays.iter_mut().find(|(rank, _)| *rank == injection.rank) {
                    Some((_, delay)) => *delay += time.0,
                    None => delays.push((injection.rank, time.0)),
                }
            }
        }
        for (rank, delay) in delays.into_iter().filter(|(_, delay)| *delay > 0.0) {
            let delayed_ns = Duration::from_secs_f64(delay).as_nanos() as u64;
            self.clocks.set(rank, self.clocks.get(rank) + delayed_ns);
        }
        entered(&self.clocks);
        self.model.run(&current.operation, &mut self.clocks);
        current.operations += 1;
        current.calls += 1;
    }

    /// The calls of a check from fresh inputs, as ranks make them. Their data is moved by [`Modelled::check`].
    fn make_checked_calls(&mut self, current: &mut Current) {
        for _ in 0..current.work.checks {
            current.calls = 0;
            self.synchronise();
            (0..current.work.copies.max(1)).for_each(|_| self.call(current, |_| ()));
            self.synchronise();
        }
        current.calls = if current.work.checks > 0 { 0 } else { current.calls };
    }

    fn check_case(&mut self) -> Result<WrongReport, Failure> {
        let mut current = self.take()?;
        if current.calls > 0 {
            self.synchronise();
        }
        self.make_checked_calls(&mut current);
        // One call stands for all so far: it has the faults of each of them.
        let struck = |injection: &Injection| match injection.kind {
            InjectionKind::Wrong { element } if injection.at < current.operations => Some((injection.rank, element)),
            _ => None,
        };
        let mut faults: Vec<(u32, u64)> = current.injections.iter().filter_map(struck).collect();
        faults.sort_unstable();
        faults.dedup();
        let report = current.case.check(&faults);
        self.current = Some(current);
        report
    }

    fn take(&mut self) -> Result<Current, Failure> {
        self.current.take().ok_or_else(|| Failure::new("no case is prepared"))
    }

    fn samples(&mut self, request: SampleRequest, limit: Duration) -> Result<Samples, Verdict> {
        let begun = Instant::now();
        let mut current = self.take().map_err(refused)?;
        let mut samples = Samples::of_ranks(self.clocks.ranks());
        for _ in 0..request.samples {
            self.may_go_on(begun, limit)?;
            match request.mode {
                Mode::Streaming => self.streaming(&mut current, request.calls, &mut samples),
                // Modelled ranks compute equally long: they enter each call of a chain together.
                Mode::Isolated | Mode::Decode => self.isolated(&mut current, &mut samples),
            }
        }
        self.current = Some(current);
        Ok(samples)
    }

    fn may_go_on(&self, begun: Instant, limit: Duration) -> Result<(), Verdict> {
        if let Some(message) = (self.interrupted)() {
            return Err(Verdict::new(VerdictKind::Interrupted, message));
        }
        if begun.elapsed() > limit {
            return Err(Verdict::new(VerdictKind::Hung, "the model did not compute the times of all samples in time"));
        }
        Ok(())
    }

    /// Calls that may follow, at most `wanted`, before inputs would be filled again.
    fn room(current: &mut Current, wanted: u32) -> u32 {
        if current.calls >= current.work.max_calls {
            current.calls = 0;
        }
        u32::try_from(current.work.max_calls - current.calls).unwrap_or(u32::MAX).min(wanted)
    }

    /// Takes streaming samples as ranks time them: see `measure::take`.
    fn streaming(&mut self, current: &mut Current, calls: u32, samples: &mut Samples) {
        let (mut left, mut sum) = (calls, Clocks::new(self.clocks.ranks()));
        while left > 0 {
            let batch = Self::room(current, left);
            self.synchronise();
            let begin = self.clocks.clone();
            self.calls(current, batch);
            sum = sum.plus(&self.clocks.since(&begin));
            left -= batch;
        }
        push(samples, &sum);
    }

    /// Makes so many calls, at least one, of ranks that have just met.
    fn calls(&mut self, current: &mut Current, count: u32) {
        let begin = self.clocks.clone();
        self.call(current, |_| ());
        let further = u64::from(count - 1);
        if current.is_constant {
            // Ranks enter each further call as they entered this one.
            self.clocks = self.clocks.plus(&self.clocks.since(&begin).times(further));
            (current.operations, current.calls) = (current.operations + further, current.calls + further);
        } else {
            (0..further).for_each(|_| self.call(current, |_| ()));
        }
    }

    /// Takes isolated samples as ranks time them: see `measure::take`.
    fn isolated(&mut self, current: &mut Current, samples: &mut Samples) {
        Self::room(current, 1);
        self.synchronise();
        let ahead_ns = self.start_ahead_ns.unwrap_or_else(|| self.measure_start_ahead());
        self.start_ahead_ns = Some(ahead_ns);
        let start = self.clocks.get(0) + ahead_ns;
        self.tell();
        current.missed_starts = current.missed_starts.plus(&self.clocks.map(|now| u64::from(now > start)));
        self.clocks.advance_to(start);
        self.call(current, |_| ());
        push(samples, &self.clocks.map(|now| now.saturating_sub(start)));
    }

    /// How long telling and meeting take, as rank 0 sees it.
    fn measure_start_ahead(&mut self) -> u64 {
        let round = || {
            let begin = self.clocks.get(0);
            self.tell();
            self.synchronise();
            Ok::<u64, std::convert::Infallible>(self.clocks.get(0) - begin)
        };
        match agreed_ahead(round) {
            Ok(ahead_ns) => ahead_ns,
            Err(never) => match never {},
        }
    }

    /// Entries and exits of so many operations, in ns.
    fn arrivals(&mut self, operations: u32, stagger_ns: u64) -> Result<Vec<Vec<f64>>, Failure> {
        let (mut current, ranks) = (self.take()?, self.clocks.ranks());
        let mut times = vec![Vec::with_capacity(2 * operations as usize); ranks as usize];
        let mut note =
            |clocks: &Clocks| (0..).zip(&mut times).for_each(|(rank, own)| own.push(clocks.get(rank) as f64));
        let mut left = operations;
        while left > 0 {
            let batch = Self::room(&mut current, left);
            self.synchronise();
            for operation in operations - left..operations - left + batch {
                if stagger_ns > 0 {
                    let late = operation % ranks;
                    self.clocks.set(late, self.clocks.get(late) + stagger_ns);
                }
                self.call(&mut current, &mut note);
                note(&self.clocks);
            }
            left -= batch;
        }
        self.current = Some(current);
        Ok(times)
    }

    fn seen(&self) -> Observations {
        let current = self.current.as_ref();
        Observations {
            peak_bytes: peak_bytes(),
            operations: current.map_or(0, |current| current.operations),
            missed_starts: current.map_or(0, |current| current.missed_starts.latest()),
            ..Observations::default()
        }
    }

    fn obey(&mut self, command: &Command) -> Result<Vec<Reply>, Failure> {
        let one = |reply| Ok(vec![reply]);
        match command {
            Command::Prepare { case, check } => one(Reply::Ready(self.prepare_case(case, *check)?)),
            Command::Check => one(Reply::Checked(self.check_case()?)),
            Command::Probe(Probe::Arrivals { operations, stagger_ns }) => {
                Ok(self.arrivals(*operations, *stagger_ns)?.into_iter().map(Reply::Numbers).collect())
            }
            Command::Observe => one(Reply::Finished(self.seen())),
            Command::Finish => {
                let seen = self.seen();
                self.current = None;
                one(Reply::Finished(seen))
            }
            Command::Sample(_) | Command::Probe(_) | Command::Clocks(_) => {
                Err(Failure::new("a model has no ranks that could do it"))
            }
        }
    }
}

/// Adds a sample of each rank.
fn push(samples: &mut Samples, ns: &Clocks) {
    match ns {
        Clocks::Same { ns, .. } => samples.push(*ns),
        Clocks::Each(each) => samples.push_each(each),
    }
}

fn refused(failure: Failure) -> Verdict {
    Verdict::new(if failure.lacking { VerdictKind::Lacking } else { VerdictKind::Refused }, failure.error)
}

/// One reply stands for all ranks, but where each has numbers of its own.
impl World for ModelledWorld {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        self.may_go_on(Instant::now(), limit)?;
        match command {
            Command::Sample(request) => {
                Ok(self.samples(*request, limit)?.iter().cloned().map(Reply::Samples).collect())
            }
            other => self.obey(other).map_err(refused),
        }
    }

    fn sample(&mut self, request: SampleRequest, limit: Duration) -> Result<Samples, Verdict> {
        self.samples(request, limit)
    }
}
