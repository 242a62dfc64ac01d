//! From registers to the addresses of frames: by the unwind tables of the modules, or by frame pointers where a module has none.

use std::sync::Arc;
use std::time::Instant;

use framehop::{CacheNative, FrameAddress, Unwinder as _, UnwinderNative};

use super::memory::ProcessMemory;
use super::modules::Modules;
use super::registers::Registers;

/// Bytes of an unwind table; shared by the ranges that have it.
pub(super) type Bytes = Arc<[u8]>;

/// Unwinds the threads of one process.
pub(super) struct Unwinder {
    native: UnwinderNative<Bytes, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

impl Unwinder {
    pub(super) fn new() -> Self {
        Self { native: UnwinderNative::new(), cache: CacheNative::new() }
    }

    /// The addresses of at most so many frames, innermost first. Those of callers are inside the call, not after it.
    pub(super) fn walk(
        &mut self,
        registers: Registers,
        memory: &mut ProcessMemory,
        modules: &mut Modules,
        most: usize,
        deadline: Instant,
    ) -> Vec<u64> {
        let Registers { pc, mut native, .. } = registers;
        let mut at = FrameAddress::from_instruction_pointer(pc);
        let mut frames = Vec::new();
        while frames.len() < most && Instant::now() < deadline {
            let address = at.address_for_lookup();
            frames.push(address);
            if let Some(module) = modules.unwind_tables(address) {
                self.native.add_module(module);
            }
            let mut word = |address| memory.word(address).ok_or(());
            let Ok(Some(caller)) = self.native.unwind_frame(at, &mut native, &mut self.cache, &mut word) else { break };
            let Some(next) = FrameAddress::from_return_address(caller) else { break };
            at = next;
        }
        frames
    }
}
