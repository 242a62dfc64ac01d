//! The cross-memory path: the kernel copies between the private memories of processes (process_vm_readv, writev). Needs
//! the right to trace peers; probed when the communicator opens.

use device::HUGE_PAGE;
use terms::{Collective, Rank};

use super::area::SLOT;
use super::buffers::Buffers;
use super::endpoint::Endpoint;
use super::kernels::{Manner, copy, kernel};
use super::plan::{CallPlan, share};
use crate::{Call, Error, Result};

/// From here on the kernel's cost per call is small against the copying, with 2 ranks. (Intel, Emerald Rapids: `all_gather` of 8 KiB
/// takes longer than by slots and of 16 KiB less; of 64 KiB it takes 3.9 us against 7.5, and `broadcast` 3.0 against 11. AMD of
/// Zen 5, far cores: `all_to_all` in place with blocks of 16 KiB 4.8 us against 4.7, of 32 KiB 6.4 and 8.3.)
const LEAST: usize = 16 << 10;
/// Bytes from which on the kernel's cost per call is small against the copying, for two ranks with near cores or one core, and
/// for up to 8 ranks. Buffers must have huge pages, too, because the kernel looks at every page it copies from and to. With more
/// ranks, each reads too many others. (Zen 5, this way and by slots in us. 2 ranks with near cores: `all_reduce` of 1 MiB 88 and
/// 51, of 2 MiB 76 and 104. 4 ranks on 2 cores: `broadcast` of 1 MiB 136 and 77, of 2 MiB 71 and 131. Without huge pages, 4
/// ranks: `all_gather` of 4 MiB 847 and 455. `cargo bench -p rankmark-comm --bench shm`.)
const LEAST_SEVERAL: usize = 256 << 10;
/// As [`LEAST`], of a message.
const LEAST_MESSAGE: usize = 1 << 20;
/// Bytes of one system call: a block stays in the second-level cache until it is reduced. (256 MiB, 2 ranks: 32.9 ms with
/// 256 KiB, 34.8 with 512, 42.7 with 1 MiB.)
const BLOCK: usize = 256 << 10;
/// [`BLOCK`] of an exchange. (4 MiB, 6 ranks on 2 cores: 0.77 ms, with 256 KiB 0.87, with 64 KiB 1.1.)
const SWAP_BLOCK: usize = 512 << 10;
const _: () = assert!(SWAP_BLOCK <= SLOT);

/// Ranks that each tries to read from, itself among them, where one name of a process means the same to all.
const TRIED: usize = 16;

/// The cross-memory path of one rank: how to reach peers' private memory.
#[derive(Debug)]
pub struct Cross {
    /// Process of each rank.
    processes: Vec<i32>,
    /// Whether private memory has huge pages where it is long enough, on all ranks.
    huge: bool,
    /// Filled again for each block: kept, so that no call allocates.
    sources: Vec<*const u8>,
}

#[derive(Clone, Copy)]
enum Way {
    Read,
    Write,
}

impl Cross {
    /// `processes`: of each rank; `huge`: whether private memory has huge pages where it is long enough, on all ranks.
    pub fn new(processes: Vec<i32>, huge: bool) -> Self {
        let sources = Vec::with_capacity(processes.len());
        Self { processes, huge, sources }
    }

    /// Reads 16 bytes of peers' memory and compares them with what they must be: process numbers may mean other processes
    /// in a container. With `same_names` they mean the same to all ranks, and a few peers tell for all: every rank tries
    /// its next ones, so that each is tried by several.
    pub(crate) fn works(&self, rank: usize, secrets: &[(u64, [u8; 16])], same_names: bool) -> bool {
        let ranks = secrets.len();
        let tried = if same_names { ranks.min(TRIED) } else { ranks };
        (0..tried).map(|distance| (rank + distance) % ranks).all(|peer| {
            let (address, secret) = secrets[peer];
            let mut seen = [0u8; 16];
            self.transfer(Way::Read, peer, seen.as_mut_ptr(), address, seen.len()).is_ok() && seen == secret
        })
    }

    /// A [`Cross`] for the ranks of a smaller group.
    pub(crate) fn for_members(&self, members: &[u32]) -> Self {
        Self::new(members.iter().map(|member| self.processes[*member as usize]).collect(), self.huge)
    }

    /// Reads a peer's memory into this rank's.
    pub(crate) fn read(&self, rank: usize, to: *mut u8, address: u64, len: usize) -> Result<()> {
        self.transfer(Way::Read, rank, to, address, len)
    }

    fn transfer(&self, way: Way, rank: usize, local: *mut u8, remote: u64, len: usize) -> Result<()> {
        let mut done = 0;
        while done < len {
            let own = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: len - done };
            let theirs = libc::iovec { iov_base: (remote as usize + done) as *mut _, iov_len: len - done };
            let process = self.processes[rank];
            // SAFETY: the kernel checks the peer's range; the own one is valid, as the callers in this module see to.
            let moved = unsafe {
                match way {
                    Way::Read => libc::process_vm_readv(process, &raw const own, 1, &raw const theirs, 1, 0),
                    Way::Write => libc::process_vm_writev(process, &raw const own, 1, &raw const theirs, 1, 0),
                }
            };
            if moved <= 0 {
                let error = std::io::Error::last_os_error();
                if error.raw_os_error() == Some(libc::ESRCH) {
                    return Err(Error::PeerGone(Rank(rank as u32)));
                }
                return Err(Error::System { what: format!("copy from the memory of rank {rank}"), source: error });
            }
            done += moved as usize;
        }
        Ok(())
    }

    /// Whether a call with private buffers goes this way. Only after the first round do ranks know that all are in place, or none.
    pub(super) fn takes(&self, endpoint: &Endpoint, plan: &CallPlan) -> bool {
        self.takes_as(endpoint, plan, plan.op == Collective::AllToAll && plan.in_place)
    }

    /// Whether it would if it were not in place: what ranks do before the first round they decide alike, though some may be in
    /// place and some not.
    pub(super) fn may_take(&self, endpoint: &Endpoint, plan: &CallPlan) -> bool {
        self.takes_as(endpoint, plan, false)
    }

    fn takes_as(&self, endpoint: &Endpoint, plan: &CallPlan, swaps: bool) -> bool {
        let least = match plan.ranks {
            // Blocks that go through a third place take longer this way than by slots (32 MiB 1.26 ms, 0.93).
            _ if endpoint.near && swaps => return false,
            _ if endpoint.two_far() => LEAST,
            2..=8 if self.has_huge_pages(plan.bytes) => LEAST_SEVERAL,
            _ => return false,
        };
        plan.longest_piece() >= least
    }

    /// Whether a message of `len` bytes of a call, from a private buffer, does. (AMD of Zen 5, near cores, this way and by slots
    /// in us: `ping_pong` of 1 MiB 74 and 37, of 2 MiB 43 and 72; 4 ranks on 2 cores, `send_recv` of 1 MiB 158 and 99, of 2 MiB 96
    /// and 228.)
    pub(super) fn takes_message(&self, endpoint: &Endpoint, call: &Call, len: usize) -> bool {
        let least = match () {
            () if self.has_huge_pages(call.input.len()) => LEAST_SEVERAL,
            () if endpoint.two_far() => LEAST_MESSAGE,
            () => return false,
        };
        len >= least
    }

    /// Whether private buffers of so many bytes have huge pages, on all ranks.
    fn has_huge_pages(&self, bytes: usize) -> bool {
        bytes >= HUGE_PAGE && self.huge
    }

    /// To be called after the round that exchanges all buffers. Addresses of unregistered buffers are valid then.
    pub(super) fn run(&mut self, endpoint: &mut Endpoint, plan: &CallPlan, turn: usize) -> Result<()> {
        let done = match plan.op {
            _ if plan.reduces() => self.reduce(endpoint, plan, turn),
            Collective::AllToAll if plan.in_place => self.swap(endpoint, plan, turn),
            _ => self.move_pieces(endpoint, plan, turn),
        };
        // Peers see an error here as this rank's absence, until the world is aborted: another call of it would let them go on
        // with what is half done.
        if let Err(error) = &done {
            endpoint.broken = Some(format!("this one failed halfway in an operation before: {error}"));
        }
        done?;
        endpoint.rounds.pass()
    }

    /// Every rank reduces its share: reads it from all, writes it to all who get it.
    fn reduce(&mut self, endpoint: &Endpoint, plan: &CallPlan, turn: usize) -> Result<()> {
        let scattered = plan.op == Collective::ReduceScatter;
        let (begin, len, output) = if scattered {
            let piece = plan.piece(plan.rank, plan.rank);
            (piece.input, piece.len, 0)
        } else {
            let (begin, end) = share(plan.bytes, plan.rank, plan.ranks);
            (begin, end - begin, begin)
        };
        // The slots are free in this operation: room for a block of each peer, and for a result that is not ours.
        let room = 2 * SLOT / plan.ranks / 128 * 128;
        for offset in (0..len).step_by(room.min(BLOCK)) {
            let part = (len - offset).min(room.min(BLOCK));
            self.reduce_block(endpoint, plan, turn, (begin + offset, output + offset, part), room)?;
        }
        Ok(())
    }

    fn reduce_block(
        &mut self,
        endpoint: &Endpoint,
        plan: &CallPlan,
        turn: usize,
        (input, output, len): (usize, usize, usize),
        room: usize,
    ) -> Result<()> {
        let scratch = endpoint.areas[plan.rank].slot(0);
        self.sources.clear();
        for from in 0..plan.ranks {
            if from == plan.rank {
                self.sources.push(plan.input.wrapping_add(input));
                continue;
            }
            let read_header: Buffers = endpoint.read_header(from, turn);
            let place = scratch.wrapping_add(from * room);
            self.transfer(Way::Read, from, place, read_header.input_address + input as u64, len)?;
            self.sources.push(place);
        }
        let to = if plan.gets(plan.rank) {
            plan.output.wrapping_add(output)
        } else {
            scratch.wrapping_add(plan.rank * room)
        };
        let kernel = kernel(endpoint.isa, plan.dtype, plan.reduce);
        // SAFETY: sources are this rank's input and its own slots, which peers leave alone in this operation; the
        // destination is its output or the slots' part that no source uses.
        unsafe { kernel(&self.sources, &[to], len / plan.element, plan.ranks, Manner::default()) };
        let scattered = plan.op == Collective::ReduceScatter;
        for peer in (0..plan.ranks).filter(|peer| !scattered && *peer != plan.rank && plan.gets(*peer)) {
            let read_header: Buffers = endpoint.read_header(peer, turn);
            self.transfer(Way::Write, peer, to, read_header.output_address + output as u64, len)?;
        }
        Ok(())
    }

    /// In place, the blocks of each pair of ranks change places, through a slot that the cache holds: each of the two does half
    /// of the exchange.
    fn swap(&self, endpoint: &Endpoint, plan: &CallPlan, turn: usize) -> Result<()> {
        let (rank, scratch) = (plan.rank, endpoint.areas[plan.rank].slot(0));
        for distance in 1..plan.ranks {
            // Each rank begins with another peer.
            let peer = (rank + distance) % plan.ranks;
            let theirs = endpoint.read_header::<Buffers>(peer, turn).input_address;
            let own_piece = plan.piece(rank, peer);
            let (begin, end) = share(own_piece.len, usize::from(rank > peer), 2);
            for at in (begin..end).step_by(SWAP_BLOCK) {
                let len = (end - at).min(SWAP_BLOCK);
                let own = plan.input.wrapping_add(own_piece.input + at);
                let remote = theirs + (plan.piece(peer, rank).input + at) as u64;
                self.transfer(Way::Read, peer, scratch, remote, len)?;
                self.transfer(Way::Write, peer, own, remote, len)?;
                // SAFETY: the slot holds as much and is free in this operation; the peer leaves this half of this rank's
                // block alone.
                unsafe { copy(endpoint.isa, scratch, &[own], len, false) };
            }
        }
        Ok(())
    }

    /// Every rank reads what it gets, but for what the giver writes.
    fn move_pieces(&self, endpoint: &mut Endpoint, plan: &CallPlan, turn: usize) -> Result<()> {
        let rank = plan.rank;
        if plan.gets(rank) && plan.gives(rank) {
            let piece = plan.piece(rank, rank);
            let (own, to) = (plan.input.wrapping_add(piece.input), plan.output.wrapping_add(piece.output));
            if own != to {
                let past_caches = endpoint.goes_past_caches(plan.bytes);
                // SAFETY: inside input and output, as validated, which do not overlap here.
                unsafe { copy(endpoint.isa, own, &[to], piece.len, past_caches) };
            }
        }
        let by_outputs = self.reads_outputs(endpoint, plan, turn);
        if by_outputs {
            endpoint.rounds.pass()?;
        }
        // Each rank begins with another peer: the kernel counts who uses a page in the page itself.
        for peer in (1..plan.ranks).map(|distance| (rank + distance) % plan.ranks) {
            let read_header: Buffers = endpoint.read_header(peer, turn);
            if plan.gives(peer) && plan.gets(rank) {
                let piece = plan.piece(peer, rank);
                let (to, input) =
                    (plan.output.wrapping_add(piece.output), read_header.input_address + piece.input as u64);
                let from = if by_outputs { read_header.output_address + piece.output as u64 } else { input };
                self.transfer(Way::Read, peer, to, from, read_part(plan, piece.len))?;
            }
            if plan.gives(rank) && plan.gets(peer) {
                let piece = plan.piece(rank, peer);
                let read = read_part(plan, piece.len);
                let (from, to) = (plan.input.wrapping_add(piece.input + read), piece.output + read);
                self.transfer(Way::Write, peer, from, read_header.output_address + to as u64, piece.len - read)?;
            }
        }
        Ok(())
    }

    /// Whether peers' blocks are read where they have put them in their outputs, after one more round: outputs of an `all_gather`
    /// may have huge pages where inputs are too short for them.
    fn reads_outputs(&self, endpoint: &Endpoint, plan: &CallPlan, turn: usize) -> bool {
        let out_of_place = |peer: usize| {
            let read_header: Buffers = endpoint.read_header(peer, turn);
            read_header.input_address != read_header.output_address + plan.piece(peer, peer).output as u64
        };
        plan.op == Collective::AllGather
            && self.has_huge_pages(plan.bytes)
            && plan.longest_piece() < HUGE_PAGE
            && (0..plan.ranks).any(out_of_place)
    }
}

/// Bytes of a piece that its receiver reads; the giver writes the rest. Where one rank gives to all, or gets from all, it
/// does as much as each of the others.
fn read_part(plan: &CallPlan, len: usize) -> usize {
    match plan.op {
        Collective::Broadcast | Collective::Scatter => share(len, plan.ranks - 1, plan.ranks).0,
        Collective::Gather => share(len, 0, plan.ranks).1,
        _ => len,
    }
}
