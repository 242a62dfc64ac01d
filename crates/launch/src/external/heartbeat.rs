//! Signs of life of a coordinator. Its host's kernel answers for it while it is stopped, its control group is frozen, or it waits for
//! swapped memory, so the kernels of other hosts do not notice it. Agents do, by what the coordinator says itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use control::{Lost, STANDSTILL, ToRank};

use crate::remote::{Agents, locked};

/// Between two signs of life.
pub(super) const PERIOD: Duration = Duration::from_secs(5);

/// An agent gives up a coordinator that has said nothing for so long.
const LIMIT: Duration = Duration::from_secs(STANDSTILL as u64);

/// Sends each agent a sign of life now and then, for as long as somebody has the agents. From a thread of its own, because the
/// coordinator may write a report for minutes.
pub(super) fn start(agents: &Agents, period: Duration) -> io::Result<()> {
    let agents = Arc::downgrade(agents);
    let beat = move || {
        while let Some(agents) = agents.upgrade() {
            for agent in locked(&agents).iter_mut().filter(|agent| agent.lost.is_none()) {
                let connection = &mut agent.connection;
                let sent = if connection.is_sending() { connection.flush() } else { connection.send(&ToRank::Alive) };
                // The kernel tells once that a host is silent. Of one that closed its connection, last words may not be read yet.
                agent.lost = sent.err().filter(|lost| *lost == Lost::Silent);
            }
            drop(agents);
            std::thread::sleep(period);
        }
    };
    std::thread::Builder::new().name("heartbeat".to_owned()).stack_size(128 << 10).spawn(beat).map(drop)
}

/// For how long an agent has waited for its coordinator in vain.
pub(super) struct Silence {
    limit: Duration,
    /// None before the first sign of life: a coordinator whose agents are all on its own host sends none.
    so_far: Option<Duration>,
}

impl Silence {
    /// That of a coordinator which has sent no sign of life yet. `limit`: when the agent gives it up.
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, so_far: None }
    }

    /// The coordinator sends signs of life from now on.
    pub(super) fn expect_signs(&mut self) {
        self.so_far = Some(Duration::ZERO);
    }

    /// The coordinator said something.
    pub(super) fn end(&mut self) {
        self.so_far = self.so_far.map(|_| Duration::ZERO);
    }

    /// How long to wait for the coordinator at a time.
    pub(super) fn step(&self) -> Option<Duration> {
        const STEPS: u32 = 12;
        self.so_far.map(|_| self.limit / STEPS)
    }

    /// Adds a wait in which the coordinator said nothing; true when the agent is to give it up. A wait counts as one step at most:
    /// in a longer one this process itself was stopped, and the coordinator maybe with it.
    pub(super) fn add(&mut self, waited: Duration) -> bool {
        let (Some(so_far), Some(step)) = (self.so_far, self.step()) else { return false };
        let so_far = so_far + waited.min(step);
        self.so_far = Some(so_far);
        so_far >= self.limit
    }
}

impl Default for Silence {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_agent_was_stopped_does_not_count() {
        let mut silence = Silence::default();
        assert_eq!((silence.step(), silence.add(Duration::from_secs(3600))), (None, false), "no sign is expected");
        silence.expect_signs();
        assert_eq!(silence.step(), Some(PERIOD));
        assert!((0..11).all(|_| !silence.add(Duration::from_secs(3600))));
        silence.end();
        assert!((0..11).all(|_| !silence.add(PERIOD)) && silence.add(PERIOD));
    }
}
