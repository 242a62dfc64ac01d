//! The inner kernel: 32 rows by 32 columns of sums, in four tiles.

use std::arch::asm;

use super::super::ahead::Stream;
use super::super::{Start, amx};
use super::{SIDE, STEP_WORDS};

/// A line of each stream, between multiplications, which leave the time for it.
macro_rules! fetch {
    () => {
        "prefetcht1 [{first}]\nprefetcht1 [{second}]\nadd {first}, {line}\nadd {second}, {line}"
    };
}

/// One call of the kernel: 32 rows by 32 columns.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) a: *const u32,
    pub(super) b: *const u32,
    pub(super) steps: usize,
    /// Rows `stride` apart.
    pub(super) c: *mut f32,
    pub(super) stride: usize,
    pub(super) start: Start,
    /// The first call for these results is the only one, and they go to memory.
    pub(super) far: bool,
    pub(super) ahead: [Stream; 2],
}

impl Call {
    /// Of a tile of which `rows` and `columns` are there; where it is not whole, by way of a whole one.
    pub(super) unsafe fn run(&self, rows: usize, columns: usize) {
        // SAFETY: the tile's memory; copies are as large as what is there.
        unsafe {
            if (rows, columns) == (SIDE, SIDE) {
                return self.whole();
            }
            let mut whole = [0.0f32; SIDE * SIDE];
            if let Start::Add = self.start {
                for i in 0..rows {
                    let to = whole.as_mut_ptr().add(i * SIDE);
                    std::ptr::copy_nonoverlapping(self.c.add(i * self.stride), to, columns);
                }
            }
            Self { c: whole.as_mut_ptr(), stride: SIDE, far: false, ..*self }.whole();
            for i in 0..rows {
                std::ptr::copy_nonoverlapping(whole.as_ptr().add(i * SIDE), self.c.add(i * self.stride), columns);
            }
        }
    }

    /// The largest products last.
    unsafe fn whole(&self) {
        // SAFETY: the caller's; what is only fetched may lie anywhere.
        unsafe {
            amx::begin(self.start, self.c, self.stride);
            let [first, second] = self.ahead;
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {row}*1]",
                "tileloadd tmm6, [{b} + {row}*1 + 4096]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row}*1 + 5120]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                fetch!(),
                "tileloadd tmm6, [{b} + {row}*1 + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row}*1 + 3072]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                fetch!(),
                "tileloadd tmm4, [{a} + {row}*1 + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 3072]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                fetch!(),
                "tileloadd tmm6, [{b} + {row}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row}*1 + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                fetch!(),
                "tileloadd tmm4, [{a} + {row}*1 + 4096]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 5120]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                fetch!(),
                "tileloadd tmm4, [{a} + {row}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                fetch!(),
                "add {a}, {step}",
                "add {b}, {step}",
                "dec {steps}",
                "jnz 2b",
                a = inout(reg) self.a => _,
                b = inout(reg) self.b => _,
                steps = inout(reg) self.steps => _,
                row = in(reg) 64usize,
                step = const STEP_WORDS * 4,
                first = inout(reg) first.at => _,
                second = inout(reg) second.at => _,
                line = in(reg) first.step,
                options(nostack)
            );
            amx::end(self.c, self.stride, self.far);
        }
    }
}
