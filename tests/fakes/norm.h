// The kernels of engine/kernels/norm.cu for the emulated driver: what each may touch, by its arguments. Rows must lie at multiples of 16
// bytes, as on a device.
#pragma once

#include "warp.h"

#include "engine/kernels/pack.h"

// It has names of its own for the same things as the other texts.
namespace norms {
#undef INLINE
#undef KERNEL
#undef WARP
#undef OF_TYPE
#include "engine/kernels/norm.cu"
} // namespace norms

namespace {

template <class E> size_t bytes_of(Sixteen<E> *, u64 count) { return count * sizeof(typename E::Kept); }
template <class E> size_t bytes_of(const Sixteen<E> *, u64 count) { return count * sizeof(typename E::Kept); }
template <class P> size_t row_bytes_if(P *at, u64 count) { return at ? bytes_of(at, count) : 0; }

auto row_norm_of = [](auto *y, auto *statistics, auto *total, auto *x, auto *residual, auto *gain, auto *bias, u64 rows, u32 columns,
                      u64) {
    u64 all = rows * columns;
    return Extents{bytes_of(y, all),           bytes_of(statistics, 2 * rows), row_bytes_if(total, all), bytes_of(x, all),
                   row_bytes_if(residual, all), bytes_of(gain, columns),        row_bytes_if(bias, columns)};
};
// Chunks leave their sums: one a column each.
auto row_gradient_of = [](auto *gain_sums, auto *bias_sums, auto *x, auto *dy, auto *statistics, auto *dx, auto *gain, u64 rows, u32 columns,
                          u32 chunks, u32, u32) {
    u64 all = rows * columns, sums = u64(columns) * chunks;
    return Extents{bytes_of(gain_sums, sums),      bytes_if(bias_sums, sums), bytes_of(x, all),         bytes_of(dy, all),
                   bytes_of(statistics, 2 * rows), bytes_of(dx, all),         bytes_of(gain, columns)};
};

std::map<std::string, Kernel> norm_kernels() {
    return {
#define OF_ROWS(type) {"norm_" #type, make_block_kernel(norms::norm_##type, row_norm_of)}, \
    {"norm_gradient_" #type, make_block_kernel(norms::norm_gradient_##type, row_gradient_of)},
        OF_ROWS(warp_f32) OF_ROWS(warp_bf16) OF_ROWS(warp_f16) OF_ROWS(block_f32) OF_ROWS(block_bf16) OF_ROWS(block_f16)
    };
}

} // namespace
