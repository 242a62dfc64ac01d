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

/// A multiplication of two tiles into a third, and four lines of b of the next step, which come from the second cache: the
/// loads of tiles wait for them otherwise. (Those of a instead gain less.)
macro_rules! multiply {
    ($sum:literal, $a:literal, $b:literal, $next:literal) => {
        concat!(
            "tdpbf16ps tmm",
            $sum,
            ", tmm",
            $a,
            ", tmm",
            $b,
            "\n",
            "prefetcht0 [{b} + ",
            $next,
            "]\n",
            "prefetcht0 [{b} + ",
            $next,
            " + 64]\n",
            "prefetcht0 [{b} + ",
            $next,
            " + 128]\n",
            "prefetcht0 [{b} + ",
            $next,
            " + 192]"
        )
    };
}

/// One call of the kernel: 32 rows by 32 columns.
#[derive(Clone, Copy)]
pub(super) struct KernelCall {
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

impl KernelCall {
    /// Computes a tile with only `rows` and `columns` in use. A partial tile goes through a copy that is whole.
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
                multiply!(0, 4, 6, 10240),
                "tileloadd tmm7, [{b} + {row}*1 + 5120]",
                multiply!(1, 4, 7, 10496),
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                multiply!(2, 5, 6, 10752),
                multiply!(3, 5, 7, 11008),
                fetch!(),
                "tileloadd tmm6, [{b} + {row}*1 + 2048]",
                multiply!(0, 4, 6, 11264),
                "tileloadd tmm7, [{b} + {row}*1 + 3072]",
                multiply!(1, 4, 7, 11520),
                multiply!(2, 5, 6, 11776),
                multiply!(3, 5, 7, 12032),
                fetch!(),
                "tileloadd tmm4, [{a} + {row}*1 + 2048]",
                multiply!(0, 4, 6, 8192),
                multiply!(1, 4, 7, 8448),
                "tileloadd tmm5, [{a} + {row}*1 + 3072]",
                multiply!(2, 5, 6, 8704),
                multiply!(3, 5, 7, 8960),
                fetch!(),
                "tileloadd tmm6, [{b} + {row}*1]",
                multiply!(0, 4, 6, 9216),
                "tileloadd tmm7, [{b} + {row}*1 + 1024]",
                multiply!(1, 4, 7, 9472),
                multiply!(2, 5, 6, 9728),
                multiply!(3, 5, 7, 9984),
                fetch!(),
                "tileloadd tmm4, [{a} + {row}*1 + 4096]",
                multiply!(0, 4, 6, 6144),
                multiply!(1, 4, 7, 6400),
                "tileloadd tmm5, [{a} + {row}*1 + 5120]",
                multiply!(2, 5, 6, 6656),
                multiply!(3, 5, 7, 6912),
                fetch!(),
                "tileloadd tmm4, [{a} + {row}*1]",
                multiply!(0, 4, 6, 7168),
                multiply!(1, 4, 7, 7424),
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                multiply!(2, 5, 6, 7680),
                multiply!(3, 5, 7, 7936),
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
