//! Findings on single steps and on the machine: pauses, waits for a processor, and waits of ranks that nothing else explains.

use terms::Seconds;

use super::{Confidence, FindingKind, ProfileFinding, Sources, largest, percent};
use crate::profile::disturbance::Disturbance;
use crate::profile::pauses::{Pauses, Who, lowest_rate};
use crate::profile::series::{Series, confidence_above};

/// Waits for a processor that take less of the time are those of any machine.
const SMALLEST_BUSY: f64 = 0.02;

/// A rank that works so much of the time of the first one in pauses works, too, and does not only wait.
const ALSO: f64 = 0.2;

impl Sources<'_> {
    /// Ranks wait for a processor: one of them more than the others, or all of them.
    pub(super) fn busy(&self) -> Option<ProfileFinding> {
        let waited: Option<Vec<&Series>> =
            self.analysis.steps.ranks.iter().map(|rank| rank.descheduled.as_ref()).collect();
        let waited = waited.filter(|ranks| !ranks.is_empty())?;
        let cost = Series::mean_of(waited.iter().copied());
        let first = self.analysis.busy.first();
        let place = |number: u32| self.prepared.numbers.iter().position(|own| *own == number);
        let most = waited.iter().zip(&self.analysis.steps.ranks).max_by(|a, b| a.0.mean().total_cmp(&b.0.mean()))?;
        let evidence = match first {
            Some(busy) => self.evidence(Some(busy.rank), place(busy.worst_step), "waiting for a processor"),
            None => self.evidence(Some(most.1.rank), largest(&most.0.values), "waiting for a processor"),
        };
        let share = self.share(cost.mean());
        let what = match first {
            Some(busy) => format!(
                "The machine is busy: rank {} can run and waits for a processor for {} of the time longer than the others, which \
                 costs {} of the time.",
                busy.rank,
                percent(busy.descheduled_share),
                percent(busy.share)
            ),
            None if share < SMALLEST_BUSY => return None,
            None if waited.len() == 1 => format!(
                "The machine is busy: rank {} can run and waits for a processor for {} of the time.",
                most.1.rank,
                percent(share)
            ),
            None => format!(
                "The machine is busy: ranks can run and wait for a processor for {} of the time, rank {} for {}.",
                percent(share),
                most.1.rank,
                percent(self.share(most.0.mean()))
            ),
        };
        let (saves, share, confidence) = match first {
            Some(busy) => (busy.lost_s_per_step, busy.share, 0.95),
            None => (cost.mean(), share, confidence_above(&cost.values, self.minimum_share * self.step_s())?),
        };
        Some(ProfileFinding {
            kind: FindingKind::BusyMachine,
            what,
            saves_s_per_step: saves,
            share,
            advice: busy_advice(first.map_or(most.1.rank, |busy| busy.rank), &self.analysis.source),
            evidence,
            confidence: Confidence::new(confidence),
            without: None,
        })
    }

    /// Waits that no slow rank, no delays in turn and no pause explain.
    pub(super) fn waits(&self) -> Option<ProfileFinding> {
        let analysis = self.analysis;
        if !(analysis.stragglers.is_empty() && analysis.busy.is_empty()) || analysis.rotating.is_some() {
            return None;
        }
        let explained = analysis.pauses.as_ref().map_or(0.0, |pauses| pauses.lost_s_per_step);
        let saves = self.waiting.mean() - explained;
        if self.share(saves) <= self.minimum_share || saves <= 0.0 {
            return None;
        }
        let evidence = self.evidence(None, largest(&self.waiting.values), "wait");
        let finding = self.measured(FindingKind::Waits, &self.waiting.values, saves, evidence)?;
        Some(ProfileFinding {
            what: format!(
                "Ranks wait for each other for {} of the time, and no rank is known to cause it.",
                percent(finding.share)
            ),
            advice: "Look at the matrix of waits for who waits for whom. Steps that vary from rank to rank cause such waits: inputs \
                     of different length, checkpoints and logging on single ranks, other programs on the host."
                .to_owned(),
            ..finding
        })
    }

    /// Whether others may have made these steps long: ranks waited for a processor, or something disturbed the machine, and the
    /// steps do not come regularly, as what a job does itself.
    fn may_be_others(&self, pauses: &Pauses) -> bool {
        let is_disturbed = self.analysis.disturbance.as_ref().is_some_and(Disturbance::is_felt);
        pauses.who == Who::Busy || is_disturbed && pauses.every.is_none()
    }

    /// Pauses that no verdict on ranks explains.
    pub(super) fn pauses(&self) -> Option<ProfileFinding> {
        let pauses = self.analysis.pauses.as_ref()?;
        let is_named = |rank: u32| self.analysis.stragglers.iter().any(|one| one.rank == rank && !one.persistent);
        let in_turn = self.analysis.rotating.as_ref().is_some_and(|rotating| rotating.share >= 0.5 * pauses.share);
        let rank = if let Who::Rank(rank) = pauses.who { Some(rank) } else { None };
        if in_turn || rank.is_some_and(is_named) {
            return None;
        }
        let of_pauses = |place: &usize| pauses.steps.contains(&self.prepared.numbers[*place]);
        let times = &self.analysis.steps.step.values;
        let longest = (0..times.len()).filter(of_pauses).max_by(|a, b| times[*a].total_cmp(&times[*b]));
        let shows = |level: &f64| lowest_rate(pauses.steps.len(), *level) * pauses.share > self.minimum_share;
        let value = [0.99, 0.95, 0.9, 0.8].into_iter().find(shows).unwrap_or(0.5);
        let mut what = pauses_text(pauses, self.prepared.numbers.len());
        if pauses.who != Who::Busy && self.may_be_others(pauses) {
            what += " Other programs disturbed the machine meanwhile, and may be the cause.";
        }
        Some(ProfileFinding {
            kind: FindingKind::Pauses,
            what,
            saves_s_per_step: pauses.lost_s_per_step,
            share: pauses.share,
            evidence: self.evidence(rank, longest, "step"),
            confidence: Confidence::new(value),
            advice: if self.may_be_others(pauses) { OTHERS } else { OWN }.to_owned(),
            without: None,
        })
    }
}

/// What a job may do in some steps.
const OWN: &str = "Look for what runs in these steps only: saving a checkpoint (save it in the background, \
                   `torch.distributed.checkpoint.async_save`), evaluation, logging, garbage collection (`gc.disable()` and \
                   `gc.collect()` on all ranks in the same step).";
/// What to do where others may be the cause.
const OTHERS: &str = "Find what else runs on this host (`top`, `ps -eLo psr,comm`), and profile again without it. Long steps that \
                      remain are the job's own.";

fn pauses_text(pauses: &Pauses, steps: usize) -> String {
    let every = pauses.every.map_or(String::new(), |every| format!(", about one in {every},"));
    let who = match pauses.who {
        Who::Rank(rank) => match pauses.next_share.filter(|share| *share >= ALSO) {
            Some(share) => format!(" Rank {rank} works longest in them, the next one {} as long.", percent(share)),
            None => format!(" Rank {rank} works in them, and the others wait."),
        },
        Who::All => " All ranks work longer in them.".to_owned(),
        Who::InTurn => " Other ranks work longer in other steps.".to_owned(),
        Who::Busy => " The machine is busy: ranks wait for a processor in them.".to_owned(),
        Who::Unknown => String::new(),
    };
    format!(
        "{} of {steps} steps{every} take {} where the others take {}. That is {} of the time.{who}",
        pauses.steps.len(),
        Seconds(pauses.long_s),
        Seconds(pauses.usual_s),
        percent(pauses.share)
    )
}

/// Our own ranks are pinned unless a user says otherwise, and have neither OpenMP nor a DataLoader.
fn busy_advice(rank: u32, source: &str) -> String {
    let look = format!("Look for what else runs on the processors of rank {rank} (`top -H`, `ps -eLo psr,comm`)");
    if source == trace::timeline::SOURCE {
        return format!("{look}: other jobs, more ranks or `--threads` than cores, a CPU limit of its container.");
    }
    format!(
        "{look}: other jobs, more threads than cores (`OMP_NUM_THREADS`, workers of the DataLoader), a CPU limit of its \
         container. Pin ranks to cores of their own (`numactl`, `mpirun --bind-to core`, `srun --cpu-bind`)."
    )
}
