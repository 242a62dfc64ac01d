//! Blocks that go around the ring of ranks: each rank computes with one while the next is on its way.

use comm::{Call, Communicator};
use measure::Failure;
use terms::Collective;

use crate::gathering::{self, PanelPiece, Panels};
use crate::implementation::CallStep;
use crate::machine::Moving;
use crate::product::Operands;
use crate::site::Site;
use crate::sum;
use crate::task::Scheme;

enum Ring {
    /// Panels: this rank's own, and those that arrive.
    Panels { shifts: Vec<Call>, panels: Box<[Panels; 2]> },
    /// Sums: each rank adds its part to a block and passes it on.
    Sums { shifts: Vec<Call>, operands: Operands },
}

/// Makes a ring ready.
pub(super) fn prepare(site: &Site) -> Box<dyn CallStep> {
    let (ranks, rank) = (site.task.ranks, site.task.rank);
    // The block that a rank has after so many steps came from so many ranks before it.
    let block = |step: usize| (rank + ranks - step % ranks) % ranks;
    if site.task.scheme == Scheme::ScatterLast {
        let len = site.task.rows() * site.task.n;
        // The last block is the rank's own, so the first is that of the rank before it.
        let shift = |step: usize| {
            let from = site.part(&site.wide, block(step + 1) * len, len);
            site.call(Collective::SendRecv, from, site.block.clone())
        };
        let shifts = (0..ranks - 1).map(shift).collect();
        return Box::new(Ring::Sums { shifts, operands: site.operands([&site.own, &site.other, &site.wide]) });
    }
    let len = gathering::panel_elements(site);
    let gathered = |step: usize| site.part(&site.wide, block(step) * len, len);
    let shift = |step: usize| {
        let from = if step == 0 { site.own.clone() } else { gathered(step) };
        site.call(Collective::SendRecv, from, gathered(step + 1))
    };
    let shifts = (0..ranks - 1).map(shift).collect();
    let panels = Box::new([gathering::panels(site, &site.own), gathering::panels(site, &site.wide)]);
    Box::new(Ring::Panels { shifts, panels })
}

impl CallStep for Ring {
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let (ranks, rank) = (site.task.ranks, site.task.rank);
        match self {
            Self::Panels { shifts, panels } => {
                let [own, arrived] = &**panels;
                let len = gathering::panel_elements(site);
                gathering::begin(site)?;
                for step in 0..ranks {
                    let mut moving = shifts.get(step).map(|call| site.machine().start(comm, call)).transpose()?;
                    let from = (rank + ranks - step) % ranks;
                    let (panels, at) = if step == 0 { (own, 0) } else { (arrived, from * len) };
                    // SAFETY: the panel has arrived; what is on its way goes elsewhere.
                    unsafe { gathering::see(site, panels, PanelPiece::whole(at, from))? };
                    site.machine().poll(comm, moving.as_mut())?;
                    moving.map_or(Ok(()), |moving| site.machine().wait(comm, moving))?;
                }
                gathering::end(site)
            }
            Self::Sums { shifts, operands } => {
                let rows = site.task.rows();
                let mut moving: Option<Moving> = None;
                for step in 0..ranks {
                    let to = (rank + 2 * ranks - 1 - step) % ranks;
                    // SAFETY: rows of a block that no operation has begun to send.
                    unsafe { site.multiply(operands, to * rows, to * rows, rows)? };
                    site.machine().poll(comm, moving.as_mut())?;
                    moving.take().map_or(Ok(()), |moving| site.machine().wait(comm, moving))?;
                    let own = site.part(&site.wide, to * rows * site.task.n, rows * site.task.n);
                    if step > 0 {
                        sum::add(site, &site.block, &own)?;
                    }
                    moving = shifts.get(step).map(|call| site.machine().start(comm, call)).transpose()?;
                    if step + 1 == ranks {
                        sum::copy(site, &own, &site.output)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        let (Self::Panels { shifts, .. } | Self::Sums { shifts, .. }) = self;
        shifts.first().map_or(String::new(), |call| comm.path(call).to_owned())
    }
}
