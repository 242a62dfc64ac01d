//! Elements are counted past 32 bits. The kernels' text runs in a program of its own, over memory that is mapped and hardly touched: only
//! the blocks run that reach its far end.

use std::process::Command;

use crate::emulation::compiled;
use crate::skip;

const PROGRAM: &str = r#"
#include "emulate.h"
#include "engine/kernels/spatial.cu"
#include <cstdio>
#include <sys/mman.h>

typedef Pack<u16, 1> Half;
template <class T> T *far(u64 count) {
    void *made = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) { printf("no memory to map\n"); exit(0); }
    return (T *)made;
}
Half half(float value) { return {{F16::narrow(value)}}; }
// One block of so many.
template <class Kernel> void block(u64 number, u64 of, Kernel kernel) {
    gridDim = {unsigned(of), 1, 1}, blockDim = {256, 1, 1}, blockIdx = {unsigned(number), 0, 0};
    block_of_threads().run(kernel);
}
void is(const char *what, float found, float wanted) {
    if (found != wanted) printf("%s: %g, not %g\n", what, found, wanted);
}
float at(Half *from, u64 place) { return F16::widen(from[place].of[0]); }

const u64 PAST = u64(1) << 32, ROWS = PAST + 3;

void norms() {
    Half *x = far<Half>(ROWS), *y = far<Half>(ROWS), *dy = far<Half>(ROWS), *dx = far<Half>(ROWS), *residual = far<Half>(ROWS);
    x[ROWS - 1] = half(5), x[ROWS - 2] = half(3), dy[ROWS - 1] = half(2), dy[ROWS - 2] = half(7), residual[ROWS - 1] = half(1);
    float statistics[2] = {1, 2}, means[2] = {0.5, 0.25};
    u16 gain = F16::narrow(1), bias = F16::narrow(0.5);
    // As many threads as 2^32: the first block has the first rows, and those past them.
    const u64 BLOCKS = PAST / 256;
    block(0, BLOCKS, [&] { batch_norm_f16_1(y, x, residual, statistics, &gain, &bias, ROWS, 1, 1); });
    is("y", at(y, ROWS - 1), 9.5);
    is("y before", at(y, 2), 0);
    block(0, BLOCKS, [&] { batch_norm_gradient_f16_1(dx, x, dy, statistics, &gain, means, ROWS, 1); });
    is("dx", at(dx, ROWS - 1), 1);
    const u32 CHUNKS = 1 << 20;
    double *partials = far<double>(2 * CHUNKS);
    block(CHUNKS - 1, CHUNKS, [&] { batch_norm_sums_f16_1(partials, x, ROWS, 1, CHUNKS, 1); });
    is("sum", partials[2 * CHUNKS - 2], 8);
    is("sum of squares", partials[2 * CHUNKS - 1], 34);
    y[ROWS - 2] = half(0);
    block(CHUNKS - 1, CHUNKS, [&] { batch_norm_gradient_sums_f16_1(partials, dy, x, y, statistics, ROWS, 1, CHUNKS, 1); });
    is("sum of dy", partials[2 * CHUNKS - 2], 2);
    is("sum of dy (x - mean)", partials[2 * CHUNKS - 1], 8);
    is("masked", at(dy, ROWS - 2), 0);
}
// Images of 2^30 pixels, four of which are in a window.
void pools() {
    const u64 SIDE = 1 << 15, STEP = 1 << 14, IMAGE = SIDE * SIDE, BATCH = 5, PIXEL = STEP * SIDE, FAR = 4 * IMAGE + PIXEL;
    Half *x = far<Half>(BATCH * IMAGE), *dx = far<Half>(BATCH * IMAGE), y[20], dy[20];
    Pack<int, 1> index[20];
    x[FAR] = half(3), dy[18] = half(7);
#define SHAPE BATCH, 1, SIDE, SIDE, 2, 2, 1, STEP, 0
    block(4, BATCH, [&] { max_pool_f16_1(y, index, x, SHAPE); });
    is("largest", at(y, 18), 3);
    is("its place", float(index[18].of[0]), float(PIXEL));
    block(4, BATCH, [&] { average_pool_f16_1(y, x, SHAPE); });
    is("mean", at(y, 18), 3);
    const u64 BLOCKS = IMAGE / 256;
    auto last = [&](auto kernel) { block(4 * BLOCKS + PIXEL / 256, BATCH * BLOCKS, kernel); };
    last([&] { max_pool_gradient_f16_1(dx, dy, index, SHAPE); });
    is("gradient of the largest", at(dx, FAR), 7);
    dx[FAR] = half(0);
    last([&] { average_pool_gradient_f16_1(dx, dy, SHAPE); });
    is("gradient of the mean", at(dx, FAR), 7);
}
int main() {
    norms();
    pools();
    printf("done\n");
}
"#;

#[test]
#[allow(clippy::disallowed_methods, reason = "it runs what it compiled")]
fn elements_are_counted_past_32_bits() {
    const NAME: &str = "elements_are_counted_past_32_bits";
    let Some(program) = compiled(NAME, PROGRAM) else { return };
    let ran = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    match said.trim() {
        "no memory to map" => skip::skip(NAME, "this system maps no 9 GB that are never touched"),
        said => assert_eq!(said, "done"),
    }
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
}
