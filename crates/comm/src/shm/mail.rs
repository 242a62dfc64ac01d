//! Messages between two ranks: `send_recv` and `ping_pong`, in which the other ranks take no part.
//!
//! Message m from one rank to another uses the flag and the header of parity m mod 2 of that pair. The receiver counts
//! what it took; the sender writes a header or slot again only when what it held was taken. Data travels in the header,
//! through a slot, or is read by the receiver where it lies (registered, or across processes); then the sender returns
//! only when it was taken.

use terms::{Collective, Direction};

use super::area::{INLINE, MAIL_SLOT};
use super::cross::Cross;
use super::endpoint::Endpoint;
use super::flag::{Flag, Futex, Looks};
use super::kernels::{copy, copy_in};
use super::plan::{describe, signature};
use crate::{Call, Error, Result};

/// Up to here a registered message is copied through a slot, since that does not keep the sender waiting.
const EAGER: usize = 4 << 10;

/// What a rank remembers of its messages.
#[derive(Debug)]
pub(crate) struct Mail {
    sent: Vec<u32>,
    received: Vec<u32>,
    /// Which message (receiver, count) last used a slot: `[direction][turn]`.
    slots: [[Option<(usize, u32)>; 2]; 2],
    turns: [usize; 2],
}

/// How a message's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MailKind {
    Inline,
    Slot,
    Registered,
    Cross,
}

/// The header of a message.
#[derive(Clone, Copy)]
#[repr(C)]
struct Letter {
    /// A [`MailKind`] as a number: what a peer wrote is not trusted to be one.
    kind: u32,
    key: u32,
    /// Offset of the slot (direction * 2 + turn), offset in the registered part, or address.
    place: u64,
    len: u64,
}

/// Bytes that travel in the header.
const SHORT: usize = INLINE - size_of::<Letter>();

/// One half of a transfer: bytes to or from a peer, and how many have gone.
#[derive(Clone, Copy)]
struct Flow {
    peer: usize,
    /// From the beginning of the call's input or output.
    offset: usize,
    len: usize,
    done: usize,
    /// Which slots a sender uses.
    direction: usize,
    /// The last message, if it must have been taken before the sender returns.
    pending: Option<u32>,
    begun: bool,
}

impl Flow {
    fn new(peer: usize, offset: usize, len: usize, direction: usize) -> Self {
        Self { peer, offset, len, done: 0, direction, pending: None, begun: false }
    }

    /// An empty message is sent too: the receiver waits for one.
    fn remains(&self) -> bool {
        !self.begun || self.done < self.len
    }
}

/// How messages reach peers: by what ranks share, or across processes where the system lets them.
#[derive(Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) cross: Option<&'a Cross>,
}

impl Ways<'_> {
    fn kind(self, call: &Call, len: usize) -> (MailKind, u32) {
        if len <= SHORT {
            return (MailKind::Inline, 0);
        }
        let key = || self.endpoint.registry.allocation(&call.input, &self.endpoint.members).map(|views| views.key);
        match () {
            () if len <= EAGER => (MailKind::Slot, 0),
            () => match key() {
                Some(key) => (MailKind::Registered, key),
                None if self.cross.is_some_and(|cross| cross.takes_message(self.endpoint, call, len)) => {
                    (MailKind::Cross, 0)
                }
                None => (MailKind::Slot, 0),
            },
        }
    }

    pub(super) fn path(self, call: &Call) -> &'static str {
        let halves = if call.op == Collective::SendRecv && call.direction == Direction::BothWays { 2 } else { 1 };
        match self.kind(call, call.input.len() / halves) {
            (MailKind::Inline, _) => "eager",
            (MailKind::Slot, _) if call.input.len() / halves <= MAIL_SLOT => "eager",
            (MailKind::Slot, _) => "staged",
            (MailKind::Registered, _) => "direct",
            (MailKind::Cross, _) => "cross",
        }
    }

    fn await_flag(self, flag: Flag, count: u32) -> Result<()> {
        if flag.look(count, self.endpoint.spin_policy, Looks::Tight) {
            return Ok(());
        }
        flag.wait(count, self.endpoint.spin_policy, &self.endpoint.abort, &Futex)
    }

    /// Waits until `peer` has taken message `count` of this rank's.
    fn wait_taken(self, peer: usize, count: u32) -> Result<()> {
        self.await_flag(self.endpoint.areas[peer].taken_flag(self.endpoint.rank()), count)
    }

    /// Where the bytes of a message lie. What the letter says is checked.
    fn locate(self, from: usize, letter: &Letter, len: usize, header: *mut u8) -> Result<*const u8> {
        let found = match letter.kind {
            kind if kind == MailKind::Inline as u32 && len <= SHORT => {
                // SAFETY: the header goes on for SHORT bytes after the letter.
                Some(unsafe { header.add(8 + size_of::<Letter>()) })
            }
            kind if kind == MailKind::Slot as u32 && len <= MAIL_SLOT && letter.place < 4 => {
                Some(self.endpoint.areas[from].mail_slot(letter.place as usize / 2, letter.place as usize % 2))
            }
            kind if kind == MailKind::Registered as u32 => {
                let views = self.endpoint.registry.resolve(letter.key, &self.endpoint.members);
                views.and_then(|views| views.at(self.endpoint.members[from], letter.place, len))
            }
            _ => None,
        };
        let found = found.map(<*mut u8>::cast_const);
        found.ok_or_else(|| Error::Mismatch(format!("rank {from} names {len} bytes that are not in its memory")))
    }
}

impl Mail {
    pub(crate) fn new(ranks: usize) -> Self {
        Self { sent: vec![0; ranks], received: vec![0; ranks], slots: [[None; 2]; 2], turns: [0; 2] }
    }

    pub(super) fn send_recv(&mut self, ways: Ways<'_>, call: &Call) -> Result<()> {
        let (rank, ranks, len) = (ways.endpoint.rank(), ways.endpoint.ranks(), call.input.len());
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        if call.direction == Direction::OneWay {
            return self.transfer(ways, call, &mut [Flow::new(next, 0, len, 0)], &mut [Flow::new(last, 0, len, 0)]);
        }
        let half = len / 2;
        let mut sends = [Flow::new(next, 0, half, 0), Flow::new(last, half, half, 1)];
        let mut receives = [Flow::new(last, 0, half, 0), Flow::new(next, half, half, 1)];
        self.transfer(ways, call, &mut sends, &mut receives)
    }

    pub(super) fn ping_pong(&mut self, ways: Ways<'_>, call: &Call) -> Result<()> {
        let (rank, peer) = (ways.endpoint.rank(), call.peer as usize);
        let other = match rank {
            0 => peer,
            _ if rank == peer => 0,
            _ => return Ok(()),
        };
        let mut send = [Flow::new(other, 0, call.input.len(), 0)];
        let mut receive = [Flow::new(other, 0, call.output.len(), 0)];
        if rank == 0 {
            self.transfer(ways, call, &mut send, &mut [])?;
            self.transfer(ways, call, &mut [], &mut receive)
        } else {
            self.transfer(ways, call, &mut [], &mut receive)?;
            self.transfer(ways, call, &mut send, &mut [])
        }
    }

    /// Sends and receives message by message, in lock step, so that no rank waits for a slot that its receiver can only
    /// free after receiving from it.
    fn transfer(&mut self, ways: Ways<'_>, call: &Call, sends: &mut [Flow], receives: &mut [Flow]) -> Result<()> {
        let signature = signature(call, call.input.len() as u64 / call.dtype.bytes());
        while sends.iter().chain(receives.iter()).any(Flow::remains) {
            for flow in sends.iter_mut().filter(|flow| flow.remains()) {
                self.post(ways, call, flow, signature)?;
            }
            for flow in receives.iter_mut().filter(|flow| flow.remains()) {
                self.collect(ways, call, flow, signature)?;
            }
        }
        for flow in sends.iter() {
            if let Some(count) = flow.pending {
                ways.wait_taken(flow.peer, count)?;
            }
        }
        Ok(())
    }

    /// Sends one message of a flow.
    fn post(&mut self, ways: Ways<'_>, call: &Call, flow: &mut Flow, signature: u64) -> Result<()> {
        let (rank, to) = (ways.endpoint.rank(), flow.peer);
        let count = self.sent[to].wrapping_add(1);
        // The header of this parity is free once the message before the last was taken.
        ways.wait_taken(to, count.wrapping_sub(2))?;
        let (kind, key) = ways.kind(call, flow.len);
        let at = flow.offset + flow.done;
        let from = call.input.ptr().wrapping_add(at);
        let remaining = flow.len - flow.done;
        let (place, len) = match kind {
            MailKind::Inline => (0, remaining),
            MailKind::Registered => (call.input.offset() as u64 + at as u64, remaining),
            MailKind::Cross => (from as u64, remaining),
            MailKind::Slot => {
                let len = remaining.min(MAIL_SLOT);
                (self.fill_slot(ways, flow, count, from, len)?, len)
            }
        };
        let letter = Letter { kind: kind as u32, key, place, len: len as u64 };
        let (area, parity) = (&ways.endpoint.areas[rank], (count & 1) as usize);
        let header = area.mail_header(to, parity);
        // SAFETY: this rank's own header, which its reader has finished with; it holds signature, letter and SHORT bytes.
        unsafe {
            header.cast::<u64>().write(signature);
            header.add(8).cast::<Letter>().write(letter);
            if kind == MailKind::Inline {
                std::ptr::copy_nonoverlapping(from, header.add(8 + size_of::<Letter>()), len);
            }
        }
        let flag = area.sent_flag(to, parity);
        flag.raise(count, &Futex);
        self.sent[to] = count;
        flow.begun = true;
        flow.done += len;
        if matches!(kind, MailKind::Registered | MailKind::Cross) {
            flow.pending = Some(count);
        }
        Ok(())
    }

    /// Copies into the next slot of the flow's direction; returns which.
    fn fill_slot(&mut self, ways: Ways<'_>, flow: &Flow, count: u32, from: *const u8, len: usize) -> Result<u64> {
        let turn = self.turns[flow.direction];
        if let Some((peer, count)) = self.slots[flow.direction][turn] {
            ways.wait_taken(peer, count)?;
        }
        // SAFETY: the slot's last message was taken; `len` is at most MAIL_SLOT and lies inside the input.
        unsafe {
            copy_in(
                ways.endpoint.isa,
                from,
                ways.endpoint.areas[ways.endpoint.rank()].mail_slot(flow.direction, turn),
                len,
            )
        };
        self.slots[flow.direction][turn] = Some((flow.peer, count));
        self.turns[flow.direction] = turn ^ 1;
        Ok((flow.direction * 2 + turn) as u64)
    }

    /// Receives one message of a flow.
    fn collect(&mut self, ways: Ways<'_>, call: &Call, flow: &mut Flow, signature: u64) -> Result<()> {
        let (rank, from) = (ways.endpoint.rank(), flow.peer);
        let count = self.received[from].wrapping_add(1);
        let parity = (count & 1) as usize;
        ways.await_flag(ways.endpoint.areas[from].sent_flag(rank, parity), count)?;
        let header = ways.endpoint.areas[from].mail_header(rank, parity);
        // SAFETY: published by the flag, and not written again before this rank has counted it as taken; plain data.
        let (theirs, letter) = unsafe { (header.cast::<u64>().read(), header.add(8).cast::<Letter>().read()) };
        if theirs != signature {
            let text = format!("rank {rank} calls {}; rank {from} calls {}", describe(signature), describe(theirs));
            return Err(Error::Mismatch(text));
        }
        let to = call.output.ptr().wrapping_add(flow.offset + flow.done);
        let len = usize::try_from(letter.len).unwrap_or(usize::MAX);
        if len > flow.len - flow.done {
            return Err(Error::Mismatch(format!(
                "rank {from} sends {len} bytes where {} remain",
                flow.len - flow.done
            )));
        }
        if letter.kind == MailKind::Cross as u32 {
            let cross = ways.cross.ok_or_else(|| Error::Mismatch("a message across processes".to_owned()))?;
            cross.read(from, to, letter.place, len)?;
        } else {
            let source = ways.locate(from, &letter, len, header)?;
            let past_caches = letter.kind == MailKind::Registered as u32 && ways.endpoint.goes_past_caches(len);
            // SAFETY: the source was located inside the peer's memory; the output was validated, and is not the source.
            unsafe {
                if past_caches {
                    copy(ways.endpoint.isa, source, &[to], len, true)
                } else {
                    copy_in(ways.endpoint.isa, source, to, len)
                }
            }
        }
        self.received[from] = count;
        let taken = ways.endpoint.areas[rank].taken_flag(from);
        taken.raise(count, &Futex);
        flow.begun = true;
        flow.done += len;
        Ok(())
    }
}
