//! Which kernels compute attention on GPUs: ours, or cuDNN's where all ranks measured them faster.

use std::cell::RefCell;

use comm::Communicator;
use engine::cuda::{Attends, AttentionTimes};
use engine::op::{Attention, Dense, Op};
use measure::Failure;
use record::Case;
use terms::Dtype;

use super::{Prepared, of_engine};
use crate::exchange::NumberExchange;
use crate::fields::Repeating;
use crate::resolve::Task;

/// What is taken where nothing was asked for: steps that are made twice must give the same bits.
pub(super) fn unasked(case: &Case) -> Attends {
    match Repeating::of(case) {
        Ok(Repeating { reproducible: true }) => Attends::Own,
        _ => Attends::Fastest,
    }
}

/// The first attention of a rank's program, and the type of its numbers.
pub(super) fn first_attention(task: &Task, rank: u32) -> Option<(Attention, Dtype)> {
    let found = RefCell::new(None);
    let scratch = |program: &engine::Program| {
        let mut all = program.operations(0..program.instructions.len());
        *found.borrow_mut() = all.find_map(|(_, op)| match op {
            Op::Dense(Dense::AttentionForward(op)) => Some((op.clone(), program.dtype(op.qkv))),
            _ => None,
        });
        0
    };
    // What is wrong with a recipe is said where it is built.
    parallel::outline(&task.recipe, rank as usize, scratch).ok()?;
    found.into_inner()
}

/// What one rank's times say: as numbers, for the others.
#[derive(Clone, Copy, PartialEq)]
enum Vote {
    /// The rank has no attention, or cannot compare.
    None = 0,
    Own = 1,
    Cudnn = 2,
}

/// cuDNN's are taken where they are faster on some rank, and on none slower. A rank that has attention and cannot compare is for ours.
fn decides_for_cudnn(votes: &[f64]) -> bool {
    let is = |vote: Vote| votes.contains(&f64::from(vote as u8));
    is(Vote::Cudnn) && !is(Vote::Own)
}

impl Prepared {
    /// Times both, if the faster is to be taken, and takes it. Collective: all ranks take the same, and where one rank failed, none goes
    /// on.
    ///
    /// # Errors
    /// What the driver or a library says.
    pub(crate) fn choose_attention(
        &mut self,
        task: &Task,
        rank: u32,
        exchange: &mut NumberExchange,
        comm: &mut dyn Communicator,
    ) -> Result<(), Failure> {
        if self.attends != Attends::Fastest || self.gpu.is_emulated() {
            return Ok(());
        }
        let (vote, times) = match first_attention(task, rank) {
            None => (Ok(Vote::None), None),
            // cuDNN has none in wider types.
            Some((_, dtype)) if dtype.bytes() != 2 => (Ok(Vote::Own), None),
            Some((op, dtype)) => match self.cuda.compare_attention(&op, dtype).map_err(of_engine) {
                Ok(Ok(times)) if times.cudnn_ns < times.own_ns => (Ok(Vote::Cudnn), Some(times)),
                Ok(Ok(times)) => (Ok(Vote::Own), Some(times)),
                Ok(Err(why)) => {
                    self.uncompared.get_or_insert(why);
                    (Ok(Vote::Own), None)
                }
                Err(error) => (Err(error), None),
            },
        };
        let own = vote.as_ref().map_or(f64::NAN, |vote| f64::from(*vote as u8));
        let votes = exchange.gather(comm, own)?;
        vote?;
        if let Some(rank) = votes.iter().position(|vote| vote.is_nan()) {
            return Err(Failure::lacking(format!("rank {rank} could not time its attention")));
        }
        if decides_for_cudnn(&votes) {
            self.cuda.attend_by_cudnn();
        }
        self.attention_times = times;
        Ok(())
    }
}

/// Both times of attention, as the record has them.
pub(super) fn text(times: AttentionTimes) -> String {
    format!("own {:.0} us, cuDNN {:.0} us forward and backward", times.own_ns / 1e3, times.cudnn_ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cudnn_is_taken_where_no_rank_is_slower_by_it() {
        let decides =
            |votes: &[Vote]| decides_for_cudnn(&votes.iter().map(|vote| f64::from(*vote as u8)).collect::<Vec<_>>());
        assert!(decides(&[Vote::Cudnn, Vote::Cudnn]));
        assert!(decides(&[Vote::Cudnn, Vote::None]), "a stage without attention");
        assert!(!decides(&[Vote::Cudnn, Vote::Own]));
        assert!(!decides(&[Vote::None, Vote::None]));
    }

    #[test]
    fn times_are_said_in_microseconds() {
        let times = AttentionTimes { own_ns: 812_400.0, cudnn_ns: 402_000.0 };
        assert_eq!(text(times), "own 812 us, cuDNN 402 us forward and backward");
    }
}
