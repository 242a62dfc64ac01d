//! When ranks enter and leave consecutive operations: who comes last, and whether barriers keep their promise.

use terms::Collective;

use super::{EXTRA_SHARE, Visit};
use crate::{Probe, Verdict, apart_ns, barrier};

/// Operations recorded with their entry times, to see who arrives last.
const ARRIVALS: u32 = 64;
/// Times of entry and exit that a case keeps at most, over all ranks and trials: 64 MiB.
const MOST_TIMES: usize = 8 << 20;
/// Fewest barriers that exits are compared over.
const FEWEST_EXITS: u32 = 6;
/// Share of the case's time that the first look at arrivals may take.
const FIRST_LOOK: f64 = 0.1;

impl Visit<'_> {
    pub(super) fn look_at_arrivals(&mut self) -> Result<(), Verdict> {
        if self.in_steps() {
            return Ok(());
        }
        // Where ranks may run ahead of each other (a broadcast's root), being last means nothing. And not for calls that
        // take long: the look would cost more than the case.
        let alone = self.trial.samples.len() < 2;
        let synchronises = !alone && self.run.case.op().is_some_and(Collective::synchronises);
        let seconds = self.trial.median().unwrap_or(f64::INFINITY) * f64::from(ARRIVALS);
        let share = EXTRA_SHARE * self.run.sampling_s - self.run.extra_s;
        // In the first trial a part of what the whole case samples, whatever the looks before took.
        let first = if self.is_first() { FIRST_LOOK * self.settings.max_seconds.max(0.1) } else { 0.0 };
        let quick = seconds <= share.max(first);
        let kept: usize = self.run.trials.iter().flat_map(|trial| &trial.arrivals).map(Vec::len).sum();
        let fits = kept + 2 * ARRIVALS as usize * self.trial.samples.len() <= MOST_TIMES;
        if (self.settings.traced && (fits || self.is_first())) || (synchronises && quick && fits) {
            self.trial.arrivals = self.arrivals(ARRIVALS, 0)?;
        }
        // What a barrier promises is its check: made in the first trial whatever it takes.
        let is_barrier = self.run.case.op() == Some(Collective::Barrier);
        if is_barrier && !alone && (self.is_first() || quick) {
            self.look_at_exits(seconds)?;
        }
        Ok(())
    }

    /// Whether barriers keep their promise, of at least as many as let each rank come last; fewer where `seconds`, the
    /// time of [`ARRIVALS`] of them, is more than the case's own.
    fn look_at_exits(&mut self, seconds: f64) -> Result<(), Verdict> {
        let ranks = self.trial.samples.len() as u32;
        let within = f64::from(ARRIVALS) * self.settings.max_seconds.max(0.1) / seconds.max(1e-9);
        let wanted = ARRIVALS.max(ranks).min(within as u32);
        let operations = wanted.min((MOST_TIMES / 2) as u32 / ranks).max(FEWEST_EXITS);
        let recorded = self.arrivals(operations, barrier::STAGGER_NS)?;
        let groups: Vec<u32> = self.trial.ready.iter().map(|ready| ready.group).collect();
        self.trial.exits = barrier::judge_groups(&recorded, &groups, self.trial.arrivals_apart_ns);
        // As many exits for each rank that came late in none of these.
        self.trial.exits.left_out = u64::from(wanted.saturating_sub(operations)) * u64::from(ranks);
        Ok(())
    }

    /// Entries and exits of so many operations on rank 0's clock; none where clocks are not known.
    fn arrivals(&mut self, operations: u32, stagger_ns: u64) -> Result<Vec<Vec<f64>>, Verdict> {
        let recorded = self.world.probe(Probe::Arrivals { operations, stagger_ns }, self.left())?;
        self.on_one_clock(recorded)
    }

    /// These times by rank 0's clock, with what they may be off. None of them where clocks are not known.
    fn on_one_clock(&mut self, mut arrivals: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, Verdict> {
        let begin = arrivals.first().and_then(|own| own.first()).copied();
        // Between the look before and this one, which they lie in, clocks are known best.
        self.compare_clocks()?;
        if self.trial.clocks.is_empty() {
            return Ok(arrivals);
        }
        let Some(fits) = &self.fits else { return Ok(vec![Vec::new(); arrivals.len()]) };
        for (times, fit) in arrivals.iter_mut().zip(fits) {
            let Some(fit) = fit else { continue };
            times.iter_mut().for_each(|time| *time = fit.here(*time as u64) as f64);
        }
        // By rank 0: it owns the clock, and the others are in an operation with it.
        let end = arrivals.first().and_then(|own| own.last()).copied();
        let at = [begin, end].into_iter().flatten().map(|at| apart_ns(fits, at as u64));
        self.trial.arrivals_apart_ns = at.fold(0.0, f64::max);
        Ok(arrivals)
    }
}
