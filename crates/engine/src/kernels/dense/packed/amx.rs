//! The inner kernel of AMX: tiles of 16 rows by 64 bytes, four of them sums. Rust has these instructions only as
//! assembly.
//!
//! Intel, "Architecture Instruction Set Extensions Programming Reference", chapter on AMX; Linux,
//! Documentation/arch/x86/xstate.rst, for the permission.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _mm_sfence, _mm512_load_ps, _mm512_stream_ps};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::pack::WIDTH;
use super::plan::STRIDE;
use super::{Start, Tile};

/// Rows of one call.
pub(super) const HEIGHT: usize = 32;

/// Whether the CPU has AMX for bf16 and the system lets this process use it. Asks once, which is also the permission.
pub(super) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let leaf = __cpuid_count(7, 0);
        let (bf16, tile) = (leaf.edx >> 22 & 1 == 1, leaf.edx >> 24 & 1 == 1);
        bf16 && tile && permitted()
    })
}

#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: asks for a register state; touches no memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The tile registers of this thread, in use while it lives.
pub(super) struct Configured(());

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Configured {
    /// All eight tiles as 16 rows of 64 bytes.
    ///
    /// # Safety
    /// `available` said yes.
    pub(super) unsafe fn new() -> Self {
        let mut configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        configuration.row_bytes[..8].fill(64);
        configuration.rows[..8].fill(16);
        // SAFETY: reads 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack)) };
        Self(())
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: there is a configuration, so there are the instructions.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// The sums of a tile of 32 rows and 32 columns.
///
/// # Safety
/// The thread's tiles are configured; the tile's memory is as its fields say, with 32 rows; units are a multiple of 16.
pub(super) unsafe fn run(tile: &Tile) {
    // SAFETY: the caller's.
    unsafe {
        begin(tile.start, tile.c, tile.stride);
        let a = tile.a.at.cast::<u8>();
        // The last two are of one part and go on alike: where there is no second, it runs along b, which is near.
        let [rows, first, second] = tile.ahead;
        asm!(
            "2:",
            "tileloadd tmm4, [{a} + {a_stride}*1]",
            "tileloadd tmm6, [{b} + {b_stride}*1]",
            "tileloadd tmm7, [{b} + {b_stride}*1 + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "prefetcht1 [{rows}]",
            "prefetcht1 [{first}]",
            "prefetcht1 [{second}]",
            "add {rows}, {rows_step}",
            "add {first}, {step}",
            "add {second}, {step}",
            "tileloadd tmm5, [{below} + {a_stride}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 64",
            "add {below}, 64",
            "add {b}, 2048",
            "dec {steps}",
            "jnz 2b",
            a = inout(reg) a => _,
            below = inout(reg) a.add(16 * STRIDE * 4) => _,
            b = inout(reg) tile.b => _,
            steps = inout(reg) tile.units / 16 => _,
            a_stride = in(reg) STRIDE * 4,
            b_stride = in(reg) 128usize,
            rows = inout(reg) rows.at => _,
            rows_step = in(reg) rows.step,
            first = inout(reg) first.at => _,
            second = inout(reg) second.at => _,
            step = in(reg) first.step,
            options(nostack)
        );
        end(tile.c, tile.stride, tile.far);
    }
}

/// Sums begin as what lies at `from`.
unsafe fn load(from: *const f32, stride: usize) {
    // SAFETY: 32 rows of 32 columns are readable.
    unsafe {
        asm!(
            "tileloadd tmm0, [{c} + {stride}*1]",
            "tileloadd tmm1, [{c} + {stride}*1 + 64]",
            "tileloadd tmm2, [{below} + {stride}*1]",
            "tileloadd tmm3, [{below} + {stride}*1 + 64]",
            c = in(reg) from,
            below = in(reg) from.add(16 * stride),
            stride = in(reg) stride * 4,
            options(nostack)
        );
    }
}

/// Sums begin so, in the first four tiles.
///
/// # Safety
/// The thread's tiles are configured; c has 32 rows of 32 columns, `stride` apart.
pub(super) unsafe fn begin(start: Start, c: *const f32, stride: usize) {
    // SAFETY: the caller's.
    unsafe {
        match start {
            Start::Zero => {
                asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem))
            }
            Start::Add => load(c, stride),
            Start::Row(row) => load(row, 0),
        }
    }
}

/// Results that went past the caches become visible to others before what this thread tells them next.
pub(super) fn fence_far_stores(far: bool) {
    if far {
        // SAFETY: every CPU of 64 bits has it.
        unsafe { _mm_sfence() };
    }
}

/// Sums become what c holds; `far`: past the caches.
///
/// # Safety
/// As `begin`; where it is far, the CPU has AVX-512 F and rows of c are whole lines.
pub(super) unsafe fn end(c: *mut f32, stride: usize, far: bool) {
    // SAFETY: the caller's; `sums` has room for all four tiles.
    unsafe {
        if !far {
            return store(c, stride);
        }
        let mut sums = MaybeUninit::<TileSums>::uninit();
        let from = sums.as_mut_ptr().cast::<f32>();
        store(from, WIDTH);
        stream(from, c, stride);
    }
}

/// Four tiles.
#[repr(C, align(64))]
struct TileSums([f32; HEIGHT * WIDTH]);

/// 32 rows of 32 sums past the caches.
#[target_feature(enable = "avx512f")]
unsafe fn stream(from: *const f32, to: *mut f32, stride: usize) {
    for row in 0..HEIGHT {
        // SAFETY: the caller's: both are whole lines.
        unsafe {
            let (from, to) = (from.add(row * WIDTH), to.add(row * stride));
            _mm512_stream_ps(to, _mm512_load_ps(from));
            _mm512_stream_ps(to.add(16), _mm512_load_ps(from.add(16)));
        }
    }
}

unsafe fn store(c: *mut f32, stride: usize) {
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "tilestored [{c} + {stride}*1], tmm0",
            "tilestored [{c} + {stride}*1 + 64], tmm1",
            "tilestored [{below} + {stride}*1], tmm2",
            "tilestored [{below} + {stride}*1 + 64], tmm3",
            c = in(reg) c,
            below = in(reg) c.add(16 * stride),
            stride = in(reg) stride * 4,
            options(nostack)
        );
    }
}
