//! In which rank processes a case's trials run: new ones each round where starting them is cheap, the same through the run
//! where it is not.
//!
//! New processes land on other pages and cores, which moves results more than repetitions do. But an MPI library, the ranks
//! of an external launcher, or a Python that imports torch for itself take seconds to start, and a trainer takes seconds to
//! prepare.

use std::time::Duration;

use benchmarks::{Host, ParsedCase, backend_of, benchmark};
use measure::{VerdictKind, World};
use record::{Case, SharedMap};

use crate::admission;

/// Ranks of idle worlds that may be alive at once.
pub(crate) const MOST_RANKS: u32 = 128;

/// One world, if it could be started and lives.
struct Alive {
    fields: SharedMap,
    /// The only case that it is for: a trainer stays prepared in it.
    owner: Option<String>,
    kept: bool,
    /// The case that it still holds prepared.
    holds: Option<String>,
    ranks: u32,
    world: Option<Box<dyn World>>,
}

impl Alive {
    fn is_of(&self, case: &Case, owner: Option<&String>) -> bool {
        self.fields == case.world && self.owner.as_ref() == owner
    }
}

/// The only case that a world is for, where the case stays prepared in it, or has to be its first.
fn owner(parsed: &dyn ParsedCase, several: bool) -> Option<String> {
    let case = parsed.case();
    (stays_prepared(case) && several || parsed.needs_new_ranks()).then(|| case.id.clone())
}

/// All worlds that are alive.
#[derive(Default)]
pub(crate) struct Worlds {
    alive: Vec<Alive>,
    /// The world that the last case ran in: its fields and owner.
    last: Option<(SharedMap, Option<String>)>,
}

/// The world that a case runs in this time.
pub(crate) struct CaseWorld<'w> {
    pub(crate) world: &'w mut Option<Box<dyn World>>,
    /// Whether the world was started for this round.
    pub(crate) fresh: bool,
    /// Whether it still holds the case prepared.
    pub(crate) prepared: bool,
    /// Whether it is to hold the case prepared for its next trial.
    pub(crate) keep: bool,
    /// Why the world that it had does not live any more.
    pub(crate) died: Option<String>,
}

/// Whether the case's ranks keep it prepared from one trial to the next.
fn stays_prepared(case: &Case) -> bool {
    benchmark(&case.benchmark).is_some_and(|benchmark| benchmark.keeps_prepared())
}

/// Whether new ranks can be started for each trial of a case that needs them. `several`: ranks are started
/// whenever they are asked for.
///
/// # Errors
/// Why they cannot.
pub(crate) fn can_renew(parsed: &dyn ParsedCase, several: bool) -> Result<(), String> {
    let case = parsed.case();
    let launched = backend_of(case).is_some_and(|backend| backend.about().launched);
    // The ranks of each start of a launcher are new once.
    if several || !launched || !parsed.needs_new_ranks() || case.trials() == Some(1) {
        return Ok(());
    }
    Err("each trial needs new rank processes, but the ranks of a launcher can join this backend only once. Use \
         `--trials 1`, which measures one case per start of the launcher, or run the same command without the \
         launcher, on one host"
        .to_owned())
}

/// Whether starting the case's ranks is so expensive that they stay through the run.
fn is_expensive(case: &Case, starts: Starts) -> bool {
    let launched = backend_of(case).is_some_and(|backend| backend.about().launched);
    !starts.several || !starts.quickly || launched || stays_prepared(case)
}

/// What the starter says of worlds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starts {
    /// Worlds may be alive at once.
    pub(crate) several: bool,
    /// The world of the case starts in little time.
    pub(crate) quickly: bool,
}

impl Worlds {
    /// Ends all of them.
    pub(crate) fn end(&mut self) {
        self.alive.clear();
        self.last = None;
    }

    /// Ends those that are started for each round.
    pub(crate) fn end_fresh(&mut self) {
        self.alive.retain(|alive| alive.kept);
        self.last = None;
    }

    /// The place of this case.
    pub(crate) fn place(&mut self, parsed: &dyn ParsedCase, starts: Starts, limit: Duration) -> CaseWorld<'_> {
        let (case, owner) = (parsed.case(), owner(parsed, starts.several));
        let own = |alive: &Alive| alive.is_of(case, owner.as_ref());
        let place = self.alive.iter().position(own).unwrap_or_else(|| {
            let kept = is_expensive(case, starts) && !parsed.needs_new_ranks();
            let (fields, ranks) = (case.world.clone(), case.ranks());
            self.alive.push(Alive { fields, owner: owner.clone(), kept, holds: None, ranks, world: None });
            self.alive.len() - 1
        });
        let key = (case.world.clone(), owner);
        let before = self.last.replace(key.clone());
        let waited = before.is_some_and(|last| last != key) || self.alive[place].kept;
        let alive = &mut self.alive[place];
        let prepared = alive.holds.as_deref() == Some(case.id.as_str());
        // One that died while others were visited is none of this case's doing, which gets a new one.
        let look = |world: &mut Box<dyn World>| match prepared {
            true => world.observe(limit).err(),
            false => world.finish(limit).err(),
        };
        let died = alive.world.as_mut().filter(|_| waited).and_then(look);
        // An interruption ends the run; the case hears of it by itself.
        let died = died.filter(|verdict| verdict.kind != VerdictKind::Interrupted);
        if died.is_some() {
            (alive.world, alive.holds) = (None, None);
        }
        let prepared = prepared && alive.world.is_some();
        CaseWorld {
            fresh: !alive.kept,
            prepared,
            keep: stays_prepared(case),
            died: died.map(|verdict| verdict.error.what),
            world: &mut alive.world,
        }
    }

    /// Whether the case is still prepared in ranks that live: it holds its memory already.
    pub(crate) fn hold(&self, case: &Case) -> bool {
        let holds = |alive: &Alive| alive.world.is_some() && alive.holds.as_deref() == Some(case.id.as_str());
        self.alive.iter().any(holds)
    }

    /// Ends other worlds where memory or the number of ranks asks for it, or where only one may be alive.
    pub(crate) fn make_room(&mut self, parsed: &dyn ParsedCase, host: &Host, several: bool, limit: Duration) {
        let (case, owner) = (parsed.case(), owner(parsed, several));
        let own = |alive: &Alive| alive.is_of(case, owner.as_ref());
        if !several {
            self.alive.retain(own);
        }
        if self.hold(case) {
            return;
        }
        let lacks = admission::lacks_memory(parsed, host);
        // How much memory a GPU has left is not known here: one case at a time holds some there.
        let on_gpus = |fields: &SharedMap| fields.get("device").is_some_and(|device| device != "cpu");
        let shares = |alive: &Alive| on_gpus(&case.world) && on_gpus(&alive.fields);
        if lacks || on_gpus(&case.world) {
            // What others hold prepared is given back first; their ranks may stay.
            let holds = |alive: &&mut Alive| alive.holds.is_some() && (lacks || shares(alive));
            for alive in self.alive.iter_mut().filter(holds) {
                alive.holds = None;
                if alive.world.as_mut().is_some_and(|world| world.finish(limit).is_err()) {
                    alive.world = None;
                }
            }
        }
        let alive: u32 = self.alive.iter().filter(|alive| !own(alive) && alive.world.is_some()).map(|a| a.ranks).sum();
        let crowded = alive > 0 && alive + case.ranks() > MOST_RANKS;
        if crowded || admission::lacks_memory(parsed, host) {
            self.alive.retain(own);
        }
    }

    /// The case's trial is over: whether its world lives, and whether the trial was made.
    pub(crate) fn left(&mut self, parsed: &dyn ParsedCase, lives: bool, made: bool, limit: Duration) {
        let case = parsed.case();
        let Some((_, owner)) = &self.last else { return };
        let Some(alive) = self.alive.iter_mut().find(|alive| alive.is_of(case, owner.as_ref())) else { return };
        alive.holds = (made && stays_prepared(case)).then(|| case.id.clone());
        // Ranks that have run a case are not new any more.
        let lives = lives && !parsed.needs_new_ranks();
        // What a failed case holds is given back before others are visited.
        let lives = lives && (made || alive.world.as_mut().is_some_and(|world| world.finish(limit).is_ok()));
        if !lives {
            (alive.world, alive.holds) = (None, None);
        }
    }

    /// The case needs no further trial: what it holds prepared is given back.
    pub(crate) fn release(&mut self, id: &str, limit: Duration) {
        for alive in self.alive.iter_mut().filter(|alive| alive.holds.as_deref() == Some(id)) {
            alive.holds = None;
            if alive.world.as_mut().is_some_and(|world| world.finish(limit).is_err()) {
                alive.world = None;
            }
        }
        // A world that was for this case alone ends with it.
        self.alive.retain(|alive| alive.owner.as_deref() != Some(id));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use measure::{Command, Reply, Verdict};

    use super::*;

    /// Counts the cases that it gave back.
    struct Holding(Rc<Cell<u32>>);

    impl World for Holding {
        fn command(&mut self, command: &Command, _limit: Duration) -> Result<Vec<Reply>, Verdict> {
            self.0.set(self.0.get() + u32::from(*command == Command::Finish));
            Ok(Vec::new())
        }
    }

    fn parsed(name: &str, fields: &[(&str, &str)]) -> Box<dyn ParsedCase> {
        let plan = record::plan::from_flags(benchmark(name).unwrap().about(), fields, &[]).unwrap();
        benchmarks::parse(&plan.cases[0]).unwrap()
    }

    fn training(device: &str, batch: &str) -> Box<dyn ParsedCase> {
        parsed("training", &[("model", "mlp"), ("runtime", "pytorch"), ("device", device), ("batch", batch)])
    }

    fn startup(start: &str, backend: &str) -> Box<dyn ParsedCase> {
        parsed("startup", &[("stage", "first_call"), ("start", start), ("backend", backend)])
    }

    #[test]
    fn ranks_are_new_for_each_trial_of_a_case_that_needs_it() {
        let limit = Duration::from_secs(1);
        for starts in [Starts { several: true, quickly: true }, Starts { several: false, quickly: false }] {
            let mut worlds = Worlds::default();
            let (cold, warm) = (startup("cold", "shm"), startup("warm", "shm"));
            // What other cases of the same ranks run in is not new.
            *worlds.place(&*warm, starts, limit).world = Some(Box::new(Holding(Rc::default())));
            worlds.left(&*warm, true, true, limit);
            assert!(worlds.place(&*warm, starts, limit).world.is_some());
            for _ in 0..2 {
                let place = worlds.place(&*cold, starts, limit);
                assert!(place.world.is_none() && place.fresh && !place.keep);
                *place.world = Some(Box::new(Holding(Rc::default())));
                worlds.left(&*cold, true, true, limit);
            }
        }
    }

    #[test]
    fn ranks_that_can_join_once_have_no_cold_start_under_a_launcher() {
        let says = |start, backend, several| can_renew(&*startup(start, backend), several);
        assert!(says("cold", "mpi", false).unwrap_err().contains("without the launcher, on one host"));
        for (start, backend, several) in [("cold", "mpi", true), ("cold", "shm", false), ("warm", "mpi", false)] {
            assert_eq!(says(start, backend, several), Ok(()), "{start} {backend} {several}");
        }
        let once = [("stage", "first_call"), ("start", "cold"), ("backend", "mpi"), ("trials", "1")];
        assert_eq!(can_renew(&*parsed("startup", &once), false), Ok(()), "the ranks of its start are new");
    }

    #[test]
    fn one_case_at_a_time_holds_memory_of_gpus() {
        let host = Host { spread: None, cores: 2, available_memory: || None, virtualised: false, launched: None };
        let given_back = |held: &dyn ParsedCase, wanted: &dyn ParsedCase| {
            let count = Rc::new(Cell::new(0));
            let mut worlds = Worlds::default();
            let limit = Duration::from_secs(1);
            *worlds.place(held, Starts { several: true, quickly: true }, limit).world =
                Some(Box::new(Holding(Rc::clone(&count))));
            worlds.left(held, true, true, limit);
            assert!(worlds.hold(held.case()));
            worlds.make_room(wanted, &host, true, limit);
            assert_eq!(worlds.hold(held.case()), count.get() == 0);
            count.get()
        };
        let (gpu, other) = (training("cuda", "2"), training("cuda", "4"));
        let (cpu, another) = (training("cpu", "2"), training("cpu", "4"));
        assert_eq!(given_back(&*gpu, &*other), 1);
        assert_eq!(given_back(&*gpu, &*gpu), 0, "it is prepared already");
        assert_eq!([given_back(&*cpu, &*another), given_back(&*cpu, &*gpu), given_back(&*gpu, &*cpu)], [0; 3]);
    }
}
