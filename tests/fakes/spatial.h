// The kernels of engine/kernels/spatial.cu for the emulated driver: what each may touch, by its arguments. Packs of channels must lie at
// multiples of their bytes, as on a device.
#pragma once

#include "engine/kernels/pack.h"

// It has names of its own for the same things as the other texts.
namespace spatial {
#undef INLINE
#undef KERNEL
#include "engine/kernels/spatial.cu"
} // namespace spatial

namespace {

/// Bytes of so many elements, of which a pack has several; null takes none.
template <class P> size_t packed(P *, u64 elements) { return elements * sizeof(P) / (sizeof(P::of) / sizeof(*P::of)); }
template <class P> size_t packed_if(P *at, u64 elements) { return at ? packed(at, elements) : 0; }
size_t chunk_bytes(u32 channels, u32 chunks) { return 16 * size_t(channels) * chunks; }

auto norm_sums_of = [](auto *, auto *x, u64 rows, u32 channels, u32 chunks, u32) {
    return Extents{chunk_bytes(channels, chunks), packed(x, rows * channels)};
};
auto norm_gradient_sums_of = [](auto *, auto *dy, auto *x, auto *y, auto *statistics, u64 rows, u32 channels, u32 chunks, u32) {
    u64 all = rows * channels;
    return Extents{chunk_bytes(channels, chunks), packed(dy, all), packed(x, all), packed_if(y, all), bytes_of(statistics, 2 * channels)};
};
auto batch_norm_of = [](auto *y, auto *x, auto *residual, auto *statistics, auto *gain, auto *bias, u64 rows, u32 channels, u32) {
    u64 all = rows * channels;
    return Extents{packed(y, all),           packed(x, all), packed_if(residual, all), bytes_of(statistics, 2 * channels),
                   bytes_of(gain, channels), bytes_of(bias, channels)};
};
auto batch_norm_gradient_of = [](auto *dx, auto *x, auto *dy, auto *statistics, auto *gain, auto *means, u64 rows, u32 channels) {
    u64 all = rows * channels;
    return Extents{packed(dx, all),          packed(x, all), packed(dy, all), bytes_of(statistics, 2 * channels),
                   bytes_of(gain, channels), bytes_of(means, 2 * channels)};
};
auto norm_add_of = [](auto *sums, auto *, auto *deviations, u32 channels, u32 chunks) {
    return Extents{bytes_of(sums, 2 * channels), chunk_bytes(channels, chunks), bytes_if(deviations, channels)};
};
auto norm_statistics_of = [](auto *statistics, auto *sums, u64, u32 channels, u64) {
    return Extents{bytes_of(statistics, 2 * channels), bytes_of(sums, 2 * channels)};
};
auto norm_means_of = [](auto *means, auto *sums, auto *statistics, u64, u32 channels) {
    return Extents{bytes_of(means, 2 * channels), bytes_of(sums, 2 * channels), bytes_of(statistics, 2 * channels)};
};
auto norm_parameters_of = [](auto *gain, auto *bias, auto *sums, u32 channels, u32) {
    return Extents{bytes_of(gain, channels), bytes_of(bias, channels), bytes_of(sums, 2 * channels)};
};

// Packs of an input, and of an output.
u64 pooled_in(u32 batch, u32 groups, u32 height, u32 width) { return u64(batch) * groups * height * width; }
#define POOLED_ARGUMENTS                                                                                                          \
    u32 batch, u32 groups, u32 height, u32 width, u32 out_height, u32 out_width, u32, u32, u32
#define INPUT pooled_in(batch, groups, height, width)
#define OUTPUT pooled_in(batch, groups, out_height, out_width)
auto max_pool_of = [](auto *y, auto *index, auto *x, POOLED_ARGUMENTS) {
    return Extents{bytes_of(y, OUTPUT), bytes_of(index, OUTPUT), bytes_of(x, INPUT)};
};
auto max_pool_gradient_of = [](auto *dx, auto *dy, auto *index, POOLED_ARGUMENTS) {
    return Extents{bytes_of(dx, INPUT), bytes_of(dy, OUTPUT), bytes_of(index, OUTPUT)};
};
auto average_pool_of = [](auto *y, auto *x, POOLED_ARGUMENTS) { return Extents{bytes_of(y, OUTPUT), bytes_of(x, INPUT)}; };
auto average_pool_gradient_of = [](auto *dx, auto *dy, POOLED_ARGUMENTS) {
    return Extents{bytes_of(dx, INPUT), bytes_of(dy, OUTPUT)};
};

std::map<std::string, Kernel> spatial_kernels() {
    return {
#define SPATIAL(make, name, extents) {#name, make(spatial::name, extents)},
#define OF_PACKED(type)                                                                                                           \
    SPATIAL(make_block_kernel, batch_norm_sums_##type, norm_sums_of)                                                              \
    SPATIAL(make_block_kernel, batch_norm_gradient_sums_##type, norm_gradient_sums_of)                                            \
    SPATIAL(make_kernel, batch_norm_##type, batch_norm_of) SPATIAL(make_kernel, batch_norm_gradient_##type, batch_norm_gradient_of) \
    SPATIAL(make_kernel, max_pool_##type, max_pool_of) SPATIAL(make_kernel, max_pool_gradient_##type, max_pool_gradient_of)       \
    SPATIAL(make_kernel, average_pool_##type, average_pool_of)                                                                    \
    SPATIAL(make_kernel, average_pool_gradient_##type, average_pool_gradient_of)
        OF_PACKED(f64_1) OF_PACKED(f64_2) OF_PACKED(f32_1) OF_PACKED(f32_4)
        OF_PACKED(bf16_1) OF_PACKED(bf16_4) OF_PACKED(f16_1) OF_PACKED(f16_4)
#define OF_STATISTICS(type)                                                                                                       \
    SPATIAL(make_block_kernel, batch_norm_add_##type, norm_add_of) SPATIAL(make_kernel, batch_norm_statistics_##type, norm_statistics_of) \
    SPATIAL(make_kernel, batch_norm_means_##type, norm_means_of) SPATIAL(make_kernel, batch_norm_parameters_##type, norm_parameters_of)
        OF_STATISTICS(f64) OF_STATISTICS(f32)
    };
}

} // namespace
