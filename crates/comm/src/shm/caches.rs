//! What is known of the third cache.
//!
//! On Intel's servers it takes in what the second gives up, at a rate near that of memory, and is shared with all other processes on
//! the processor, so that what counts is the second. On AMD's it is nearly as fast as the second, and belongs to the few cores
//! of a complex. (Zen 5 with 32 MiB, `all_gather` of 4 MiB: 2 ranks 44 us through it and 102 past it, 4 ranks 100 and 309.)

/// Bytes of the third cache of this core, where it may be counted on: AMD's.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn third() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const EXTENDED: u32 = 0x8000_0000;
    const TOPOLOGY: u32 = 0x8000_001d;
    let vendor = __cpuid(0);
    let is_amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD";
    if !is_amd || __cpuid(EXTENDED).eax < TOPOLOGY {
        return None;
    }
    let leaf = __cpuid_count(TOPOLOGY, 3);
    described(leaf.eax, leaf.ebx, leaf.ecx)
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn third() -> Option<usize> {
    None
}

/// From the registers of the leaf of cache topology (AMD64 Architecture Programmer's Manual, volume 3, appendix E,
/// Fn8000_001D): each number less one, but kind and level.
#[cfg_attr(any(not(target_arch = "x86_64"), miri), allow(dead_code))]
fn described(eax: u32, ebx: u32, ecx: u32) -> Option<usize> {
    let field = |word: u32, from: u32, bits: u32| (word >> from & ((1 << bits) - 1)) as usize;
    let (kind, level) = (field(eax, 0, 5), field(eax, 5, 3));
    let (line, partitions, ways) = (field(ebx, 0, 12) + 1, field(ebx, 12, 10) + 1, field(ebx, 22, 10) + 1);
    (kind != 0 && level == 3).then_some(line * partitions * ways * (ecx as usize + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 ways of 32,768 sets of lines of 64 bytes.
    #[test]
    fn registers_are_read_as_the_manual_says() {
        let (eax, ebx) = (3 | 3 << 5 | 15 << 14, 63 | 15 << 22);
        assert_eq!(described(eax, ebx, 32_767), Some(32 << 20));
        assert_eq!(described(eax & !0x1f, ebx, 32_767), None, "no such cache");
        assert_eq!(described(3 | 2 << 5, ebx, 1), None, "another level");
    }
}
