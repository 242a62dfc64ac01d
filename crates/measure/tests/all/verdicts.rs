//! Ranks that fail, and ranks that answer something else.

use std::time::Duration;

use measure::{Command, Reply, Verdict, VerdictKind, World};
use record::Case;
use serde_json::json;
use terms::Rank;

use crate::scripted::{Scripted, case};

#[test]
fn the_first_failure_ends_the_case_wherever_it_comes() {
    let died = Verdict::new(VerdictKind::Died, "rank 1 died").ranks([1]);
    let settings = json!({"warmup": 1, "iters": 6});
    let commands = {
        let mut world = Scripted::new(2, |_, _, _| 30_000);
        world.trial_real(&case(2, settings.clone()));
        world.commands.len()
    };
    for at in 0..commands {
        let mut world = Scripted::new(2, |_, _, _| 30_000);
        let (verdict, mut count) = (died.clone(), 0);
        world.fails = Box::new(move |_| {
            count += 1;
            (count == at + 1).then(|| verdict.clone())
        });
        let result = world.trial_with_progress(&case(2, settings.clone()), false).0;
        assert_eq!(result.unwrap_err(), died, "command {at}");
        assert_eq!(world.commands.len(), at + 1, "nothing is asked of a world that is gone");
    }
}

/// A world of two ranks. Rank 1 answers `answer` to samples.
struct Confused(Reply);

impl World for Confused {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        let mut replies = Scripted::new(2, |_, _, _| 30_000).command(command, limit)?;
        if matches!(command, Command::Sample(_)) {
            replies[1] = self.0.clone();
        }
        Ok(replies)
    }
}

#[test]
fn a_rank_that_answers_something_else_is_named() {
    let case: Case = case(2, json!({}));
    // Another reply; one sample too few.
    for answer in [Reply::Numbers(vec![1.0]), Reply::Samples(vec![30_000; 2])] {
        let mut run = measure::CaseRun::new(&case, measure::Settings::from_case(&case), true);
        let made = run.visit(&mut Confused(answer), measure::Round::default(), &mut |_, _| {});
        let verdict = made.unwrap_err();
        assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Died, &[Rank(1)][..]));
    }
}
