//! What the emulation of kernels (tests/fakes/block.h, warp.h) refuses: mistakes after which a device hangs, or reads what is not there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// Kernels, the right ones first. The program prints the name of each and the error that its block ends with, or 0.
const PROGRAM: &str = r#"
#include "emulate.h"
#include "warp.h"
#include <cstdio>

#define MINE (threadIdx.x % 32)
#define WHOLE 0xffffffffu
static int result[64];
static u16 numbers[64] __attribute__((aligned(256)));

void sums() {
    int sum = int(threadIdx.x);
    for (int distance = 1; distance < 32; distance *= 2) sum += __shfl_xor_sync(WHOLE, sum, distance);
    result[threadIdx.x] = sum;
}
// a (16 x 16) and b (8 rows of 16, turned: 16 x 8) from shared memory, as attention.cu loads them.
void product() {
    __shared__ u16 a[16 * 16] __align__(256);
    __shared__ u16 b[8 * 16] __align__(256);
    for (u32 i = MINE; i < 256; i += 32) a[i] = Bf16::narrow(float(int(i * 7 % 11) - 5));
    for (u32 i = MINE; i < 128; i += 32) b[i] = Bf16::narrow(float(int(i * 5 % 13) - 6));
    __syncthreads();
    u32 left[4], right[4];
    load_matrices(left, a + (MINE / 8 % 2 * 8 + MINE % 8) * 16 + MINE / 16 * 8, 0);
    load_matrices(right, b + MINE % 8 * 16 + MINE / 8 % 2 * 8, 0);
    float d[4] = {1, 1, 1, 1};
    multiply<Bf16>(d, left, right[0], right[1]);
    for (u32 i = 0; i < 4; i++) {
        u32 row = MINE / 4 + i / 2 * 8, column = MINE % 4 * 2 + i % 2;
        float wanted = 1;
        for (u32 k = 0; k < 16; k++) wanted += Bf16::widen(a[row * 16 + k]) * Bf16::widen(b[column * 16 + k]);
        if (d[i] != wanted) throw 1;
    }
    u32 turned[4];
    load_turned(turned, b + MINE % 8 * 16 + MINE / 8 % 2 * 8, 0);
    for (u32 i = 0; i < 2; i++) {
        u32 row = MINE % 4 * 2, column = MINE / 4 + 8 * i;
        if (turned[i] != (b[row * 16 + column] | u32(b[(row + 1) * 16 + column]) << 16)) throw 2;
    }
}
void copy() {
    __shared__ u16 held[32 * 8] __align__(16);
    begin_copy(held + 8 * MINE, numbers, MINE % 2);
    held[8 * MINE + 1] = 77;
    if (held[8 * MINE] == 7) throw 1; // too early
    wait_for_copies();
    for (u32 i = 0; i < 8; i++) if (held[8 * MINE + i] != (MINE % 2 ? 7 : 0)) throw 2;
}
void leaves_early() { if (threadIdx.x != 5) __shfl_xor_sync(WHOLE, 1, 1); }
void leaves_late() {
    __shfl_xor_sync(WHOLE, 1, 1);
    if (threadIdx.x == 40) return;
    __shfl_xor_sync(WHOLE, 1, 1);
}
void other_place() {
    if (threadIdx.x % 2) __shfl_xor_sync(WHOLE, 1, 1);
    else __shfl_xor_sync(WHOLE, 2, 1);
}
void at_barrier() {
    if (threadIdx.x == 7) __syncthreads();
    else __shfl_xor_sync(WHOLE, 1, 1);
}
void part_of_warp() { __shfl_xor_sync(0xffffu, 1, 1); }
void never_waits() { __shared__ u16 held[8] __align__(16); begin_copy(held, numbers, true); }
void crooked_copy() { __shared__ u16 held[16] __align__(16); begin_copy(held + 1, numbers, true); wait_for_copies(); }
void crooked_rows() { u32 to[4]; load_matrices(to, numbers + 4, 0); }

int run(const char *name, unsigned threads, void (*kernel)()) {
    int code = 0;
    gridDim = {1, 1, 1}, blockDim = {threads, 1, 1};
    try { block_of_threads().run(kernel); } catch (int thrown) { code = thrown; }
    printf("%s %d\n", name, code);
    return code;
}
int main() {
    std::fill(std::begin(numbers), std::end(numbers), 7);
    if (!run("sums", 64, sums))
        for (int i = 0; i < 64; i++) if (result[i] != (i < 32 ? 496 : 1520)) printf("%d: %d\n", i, result[i]);
    run("product", 32, product);
    run("copy", 32, copy);
    run("leaves_early", 64, leaves_early);
    run("leaves_late", 64, leaves_late);
    run("other_place", 64, other_place);
    run("at_barrier", 64, at_barrier);
    run("part_of_warp", 32, part_of_warp);
    run("half_a_warp", 48, sums);
    run("never_waits", 32, never_waits);
    run("crooked_copy", 32, crooked_copy);
    run("crooked_rows", 32, crooked_rows);
    run("sums", 64, sums);
}
"#;

/// 719 is a launch that failed, 716 an address that is not a multiple of what it should be.
const WANTED: &str = "\
sums 0
product 0
copy 0
leaves_early 719
leaves_late 719
other_place 719
at_barrier 719
part_of_warp 719
half_a_warp 719
never_waits 719
crooked_copy 716
crooked_rows 716
sums 0
";

/// A program with the emulation and kernels, in a folder of its own; None where there is no compiler of C++, which is then listed as skipped.
#[allow(clippy::disallowed_methods, reason = "a test finds a compiler by itself")]
pub(crate) fn compiled(test: &str, text: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("kernels.cpp"), folder.join("kernels"));
    std::fs::write(&source, text).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-I"]).arg(crates);
    compiler.arg("-I").arg(crates.parent().unwrap().join("tests/fakes")).arg("-o").args([&program, &source]);
    let Ok(built) = compiler.output() else {
        skip::skip(test, "no compiler of C++ (c++)");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "it runs what it compiled")]
fn what_hangs_on_a_device_is_an_error() {
    let Some(program) = compiled("what_hangs_on_a_device_is_an_error", PROGRAM) else { return };
    for order in 0..4 {
        let ran = Command::new(&program).env("FAKE_CUDA_ORDER", order.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said == WANTED, "order {order}: {said}");
    }
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
}
