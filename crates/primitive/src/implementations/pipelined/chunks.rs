//! Collectives of chunks: one moves while another is computed.

use comm::{Call, Communicator};
use device::Slice;
use measure::Failure;
use terms::Collective;

use crate::exchange::TokenExchange;
use crate::gathering::{self, PanelPiece, Panels};
use crate::implementation::CallStep;
use crate::machine::Moving;
use crate::product::Operands;
use crate::site::{Left, Site};
use crate::sum;
use crate::task::Scheme;

/// What is done with each chunk.
enum Chunks {
    /// Gathered, then computed.
    Gather { calls: Vec<Call>, panels: Panels, offset: bool },
    /// Multiplied, gathered, and put where its rows belong.
    GatherLast { calls: Vec<Call>, operands: Operands },
    /// Multiplied and scattered; the blocks of a chunk lie together.
    Scatter { calls: Vec<Call>, operands: Operands, offset: bool },
    /// Multiplied and reduced.
    Reduce { calls: Vec<Call>, operands: Operands },
    /// Sent, multiplied, sent back.
    Exchange(TokenExchange),
}

/// Makes chunks ready.
///
/// # Errors
/// When counts do not fit.
pub(super) fn prepare(site: &Site, chunks: usize, offset: bool) -> Result<Box<dyn CallStep>, Failure> {
    let task = &site.task;
    let (rows, n, ranks) = (task.rows(), task.n, task.ranks);
    let each = rows / chunks;
    Ok(Box::new(match task.scheme {
        Scheme::GatherFirst | Scheme::Attention => {
            let len = gathering::panel_elements(site) / chunks;
            let call = |chunk: usize| {
                let to = site.part(&site.wide, chunk * ranks * len, ranks * len);
                site.call(Collective::AllGather, site.part(&site.own, chunk * len, len), to)
            };
            let calls = (0..chunks).map(call).collect();
            Chunks::Gather { calls, panels: gathering::panels(site, &site.wide), offset }
        }
        Scheme::GatherLast => {
            let len = each * n;
            let call = |chunk: usize| {
                let from = site.part(&site.output, (task.rank * rows + chunk * each) * n, len);
                site.call(Collective::AllGather, from, site.part(&site.wide, chunk * ranks * len, ranks * len))
            };
            let calls = (0..chunks).map(call).collect();
            Chunks::GatherLast { calls, operands: site.operands([&site.own, &site.other, &site.output]) }
        }
        Scheme::ScatterLast => {
            let len = each * n;
            let call = |chunk: usize| {
                let from = site.part(&site.wide, chunk * ranks * len, ranks * len);
                site.call(Collective::ReduceScatter, from, site.part(&site.output, chunk * len, len))
            };
            let calls = (0..chunks).map(call).collect();
            Chunks::Scatter { calls, operands: site.operands([&site.own, &site.other, &site.wide]), offset }
        }
        Scheme::ReduceLast => {
            let len = task.m / chunks * n;
            let part = |of: &Slice, chunk: usize| site.part(of, chunk * len, len);
            let call =
                |chunk: usize| site.call(Collective::AllReduce, part(&site.wide, chunk), part(&site.output, chunk));
            let calls = (0..chunks).map(call).collect();
            Chunks::Reduce { calls, operands: site.operands([&site.own, &site.other, &site.wide]) }
        }
        Scheme::Exchange => Chunks::Exchange(TokenExchange::new(site, chunks)?),
    }))
}

impl CallStep for Chunks {
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        match self {
            Self::Gather { calls, panels, offset } => gather(site, comm, calls, panels, *offset),
            Self::GatherLast { calls, operands } => gather_last(site, comm, calls, operands),
            Self::Scatter { calls, operands, offset } => scatter(site, comm, calls, operands, *offset),
            Self::Reduce { calls, operands } => {
                let rows = site.task.m / calls.len();
                products_then(site, comm, calls, |site, chunk, _| {
                    // SAFETY: rows of a chunk that no operation has begun to send.
                    unsafe { site.multiply(operands, chunk * rows, chunk * rows, rows) }
                })
            }
            Self::Exchange(exchange) => experts(site, comm, exchange),
        }
    }

    fn leaves(&self) -> &'static [Left] {
        match self {
            Self::Exchange(_) => &[Left::Gathered, Left::Result],
            _ => &[Left::Result],
        }
    }

    fn chunks(&self) -> usize {
        match self {
            Self::Exchange(exchange) => exchange.chunks.len(),
            _ => 1,
        }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        let (Self::Gather { calls, .. }
        | Self::GatherLast { calls, .. }
        | Self::Scatter { calls, .. }
        | Self::Reduce { calls, .. }) = self
        else {
            return if let Self::Exchange(exchange) = self { exchange.path(comm) } else { String::new() };
        };
        calls.first().map_or(String::new(), |call| comm.path(call).to_owned())
    }
}

/// Gathers chunk by chunk: the next one moves while one is computed.
fn gather(
    site: &mut Site,
    comm: &mut dyn Communicator,
    calls: &[Call],
    panels: &Panels,
    offset: bool,
) -> Result<(), Failure> {
    let (ranks, chunks) = (site.task.ranks, calls.len());
    let len = gathering::panel_elements(site) / chunks;
    let first = if offset { site.task.rank } else { 0 };
    gathering::begin(site)?;
    let mut moving = Some(site.machine().start(comm, &calls[0])?);
    for chunk in 0..chunks {
        let arrived = moving.take();
        // In the order of their numbers: the one that was started first ends first.
        moving = calls.get(chunk + 1).map(|call| site.machine().start(comm, call)).transpose()?;
        if let Some(arrived) = arrived {
            site.machine().wait(comm, arrived)?;
        }
        for step in 0..ranks {
            let from = (first + step) % ranks;
            let piece = PanelPiece { at: (chunk * ranks + from) * len, from, part: chunk, parts: chunks };
            // SAFETY: the chunk has arrived, and the next one goes elsewhere.
            unsafe { gathering::see(site, panels, piece)? };
            site.machine().poll(comm, moving.as_mut())?;
        }
    }
    gathering::end(site)
}

/// Multiplies chunk after chunk, and lets each go on its way.
fn products_then(
    site: &mut Site,
    comm: &mut dyn Communicator,
    calls: &[Call],
    mut multiply: impl FnMut(&Site, usize, &mut dyn FnMut(&Site) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut moving: Option<Moving> = None;
    for (chunk, call) in calls.iter().enumerate() {
        multiply(site, chunk, &mut |site| site.machine().poll(comm, moving.as_mut()))?;
        if let Some(before) = moving.take() {
            site.machine().leave(comm, before)?;
        }
        moving = Some(site.machine().start(comm, call)?);
    }
    moving.map_or(Ok(()), |last| site.machine().leave(comm, last))
}

fn scatter(
    site: &mut Site,
    comm: &mut dyn Communicator,
    calls: &[Call],
    operands: &Operands,
    offset: bool,
) -> Result<(), Failure> {
    let (ranks, rows) = (site.task.ranks, site.task.rows());
    let each = rows / calls.len();
    let first = if offset { site.task.rank } else { 0 };
    products_then(site, comm, calls, |site, chunk, poll| {
        for step in 0..ranks {
            let to = (first + step) % ranks;
            // SAFETY: rows of a chunk that no operation has begun to send.
            unsafe { site.multiply(operands, to * rows + chunk * each, (chunk * ranks + to) * each, each)? };
            poll(site)?;
        }
        Ok(())
    })
}

fn gather_last(
    site: &mut Site,
    comm: &mut dyn Communicator,
    calls: &[Call],
    operands: &Operands,
) -> Result<(), Failure> {
    let (rank, rows, chunks) = (site.task.rank, site.task.rows(), calls.len());
    let each = rows / chunks;
    let mut moving: Option<Moving> = None;
    for chunk in 0..=chunks {
        if chunk < chunks {
            // SAFETY: rows of a chunk that no operation has begun to send.
            unsafe { site.multiply(operands, chunk * each, rank * rows + chunk * each, each)? };
        }
        let before = moving.take();
        let has_arrived = before.is_some();
        before.map_or(Ok(()), |before| site.machine().wait(comm, before))?;
        moving = calls.get(chunk).map(|call| site.machine().start(comm, call)).transpose()?;
        if has_arrived {
            place(site, chunk - 1, chunks)?;
        }
    }
    Ok(())
}

/// Puts the rows of a chunk, gathered from all ranks, where they belong in the result.
fn place(site: &Site, chunk: usize, chunks: usize) -> Result<(), Failure> {
    let (ranks, rank, rows, n) = (site.task.ranks, site.task.rank, site.task.rows(), site.task.n);
    let each = rows / chunks;
    for from in (0..ranks).filter(|from| *from != rank) {
        let gathered = site.part(&site.wide, (chunk * ranks + from) * each * n, each * n);
        let to = site.part(&site.output, (from * rows + chunk * each) * n, each * n);
        sum::copy(site, &gathered, &to)?;
    }
    Ok(())
}

/// Tokens of a chunk are on their way while those of another are multiplied, in both directions.
fn experts(site: &Site, comm: &mut dyn Communicator, exchange: &TokenExchange) -> Result<(), Failure> {
    let (machine, chunks) = (site.machine(), &exchange.chunks);
    chunks[0].pack(site)?;
    let mut arriving = Some(machine.start(comm, &chunks[0].there)?);
    let mut returning: Option<Moving> = None;
    for (number, chunk) in chunks.iter().enumerate() {
        if let Some(arriving) = arriving.take() {
            machine.wait(comm, arriving)?;
        }
        if let Some(next) = chunks.get(number + 1) {
            next.pack(site)?;
            arriving = Some(machine.start(comm, &next.there)?);
        }
        chunk.sort(site)?;
        exchange.multiply_chunk(site, number)?;
        chunk.unsort(site)?;
        // Operations end in the order in which they were started.
        if let Some(returning) = returning.take() {
            machine.wait(comm, returning)?;
            chunks[number - 1].combine(site)?;
        }
        if let Some(arriving) = arriving.take() {
            machine.wait(comm, arriving)?;
        }
        returning = Some(machine.start(comm, &chunk.back)?);
    }
    if let (Some(returning), Some(last)) = (returning, chunks.last()) {
        machine.wait(comm, returning)?;
        last.combine(site)?;
    }
    Ok(())
}
