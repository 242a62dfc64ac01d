//! Worlds that stay alive while the cases of others run.

use std::time::Duration;

use measure::{VerdictKind, World};
use record::Case;
use serde_json::{Map, Value};

use crate::admission::{self, Host};

/// A world's fields, and the world if it could be started and lives.
type Alive<'c> = (&'c Map<String, Value>, Option<Box<dyn World>>);

/// The worlds of one meeting of cases.
#[derive(Default)]
pub(crate) struct Worlds<'c> {
    alive: Vec<Alive<'c>>,
    /// Whose case ran last.
    last: Option<&'c Map<String, Value>>,
}

impl<'c> Worlds<'c> {
    /// Ends all of them.
    pub(crate) fn end(&mut self) {
        self.alive.clear();
    }

    /// The world of this case, if it is there and lives, and why it does not if it died meanwhile: that is none of this
    /// case's doing, which gets a new one. Others end if memory is what the case lacks.
    pub(crate) fn of(
        &mut self,
        case: &'c Case,
        host: &Host,
        limit: Duration,
    ) -> (&mut Option<Box<dyn World>>, Option<String>) {
        let waited = self.last.replace(&case.world).is_some_and(|last| *last != case.world);
        let own = |fields: &Map<String, Value>| *fields == case.world;
        if self.alive.iter().any(|(fields, _)| !own(fields)) && admission::lacks_memory(case, host) {
            self.alive.retain(|(fields, _)| own(fields));
        }
        let known = self.alive.iter().position(|(fields, _)| own(fields));
        let place = known.unwrap_or_else(|| {
            self.alive.push((&case.world, None));
            self.alive.len() - 1
        });
        let world = &mut self.alive[place].1;
        let died = world.as_mut().filter(|_| waited).and_then(|world| world.finish(limit).err());
        // An interruption ends the run; the case hears of it by itself.
        let died = died.filter(|verdict| verdict.kind != VerdictKind::Interrupted);
        if died.is_some() {
            *world = None;
        }
        (world, died.map(|verdict| verdict.message))
    }
}
