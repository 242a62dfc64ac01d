//! The registers that a walk begins with, by architecture.

/// What the kernel gives for `NT_PRSTATUS`.
#[cfg(target_arch = "x86_64")]
#[derive(Default)]
#[repr(C)]
pub(super) struct Raw {
    // r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags, rsp, ...
    words: [u64; 27],
}

/// What the kernel gives for `NT_PRSTATUS`.
#[cfg(target_arch = "aarch64")]
#[derive(Default)]
#[repr(C)]
pub(super) struct Raw {
    // x0 to x30
    general: [u64; 31],
    sp: u64,
    pc: u64,
    state: u64,
}

/// Where a thread is, and what the unwinder needs of its registers.
pub(super) struct Registers {
    pub(super) pc: u64,
    pub(super) sp: u64,
    pub(super) native: framehop::UnwindRegsNative,
}

/// Takes what the unwinder needs.
#[cfg(target_arch = "x86_64")]
pub(super) fn taken(raw: &Raw) -> Registers {
    let [_, _, _, _, rbp, _, _, _, _, _, _, _, _, _, _, _, rip, _, _, rsp, ..] = raw.words;
    Registers { pc: rip, sp: rsp, native: framehop::x86_64::UnwindRegsX86_64::new(rip, rsp, rbp) }
}

/// Takes what the unwinder needs.
#[cfg(target_arch = "aarch64")]
pub(super) fn taken(raw: &Raw) -> Registers {
    use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64};
    // Signed return addresses: Linux's user space has 48 bits of address.
    let mask = PtrAuthMask::from_max_known_address((1 << 48) - 1);
    let native = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, raw.general[30], raw.sp, raw.general[29]);
    Registers { pc: raw.pc, sp: raw.sp, native }
}
