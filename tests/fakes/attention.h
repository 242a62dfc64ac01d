// The kernels of engine/kernels/attention.cu, attention_gradient.cu and attention_plain.cu for the emulated driver: what each may touch, by its arguments.
#pragma once

#include "warp.h"

#include "engine/kernels/attention.h"
#include "engine/kernels/pack.h"

// Both texts have names of their own for the same things, and of train.cu's.
namespace by_tensor_cores {
#undef INLINE
#undef KERNEL
#undef ROWS
#undef THREADS
#include "engine/kernels/attention.cu"
#undef OWN
#undef THREADS
#undef SIZES
#undef OF_HEADS
#include "engine/kernels/attention_gradient.cu"
} // namespace by_tensor_cores
namespace plain {
#undef INLINE
#undef KERNEL
#undef SIZES
#undef LOWEST
#undef THREADS
#undef PARTS
#undef KEYS
#undef TILE
#undef STEP
#undef OWN
#include "engine/kernels/attention_plain.cu"
} // namespace plain

namespace {

// Numbers of qkv, of an output, and of one number a row of each head.
struct Lengths { u64 packed, output, rows; };
Lengths lengths_of(u64 batch, u64 sequence, u64 heads, u64 kv_heads, u64 width) {
    u64 rows = batch * sequence;
    return {rows * (heads + 2 * kv_heads) * width, rows * heads * width, rows * heads};
}
Extents forward_extents(size_t kept, size_t wide, Lengths of) { return {kept * of.output, wide * of.rows, kept * of.packed}; }
Extents delta_extents(size_t kept, size_t wide, Lengths of) { return {wide * of.rows, kept * of.output, kept * of.output}; }
Extents gradient_extents(size_t kept, size_t wide, Lengths of) {
    return {kept * of.packed, kept * of.packed, kept * of.output, wide * of.rows, wide * of.rows};
}
template <u64 WIDTH> auto tensor_forward = [](u16 *, float *, const u16 *, u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32) {
    return forward_extents(2, 4, lengths_of(batch, sequence, heads, kv_heads, WIDTH));
};
template <u64 WIDTH> auto tensor_delta = [](float *, const u16 *, const u16 *, u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32) {
    return delta_extents(2, 4, lengths_of(batch, sequence, heads, kv_heads, WIDTH));
};
template <u64 WIDTH> auto tensor_queries = [](u16 *, const u16 *, const u16 *, const float *, const float *, u32 batch,
                                               u32 sequence, u32 heads, u32 kv_heads, u32) {
    return gradient_extents(2, 4, lengths_of(batch, sequence, heads, kv_heads, WIDTH));
};
// Rows of the parts of all heads: of so many blocks of keys each, from the first query on that sees one of them.
u64 rows_of_parts(u32 batch, u32 sequence, u32 heads, u32 causal, u32 keys) {
    u64 rows = 0;
    for (u32 first = 0; first < sequence; first += keys) rows += sequence - (causal ? first : 0);
    return (u64)batch * heads * rows;
}
// Without memory for parts, none are written.
template <u64 WIDTH> auto tensor_gradient = [](u16 *, float *parts, const u16 *, const u16 *, const float *, const float *, u32 batch,
                                               u32 sequence, u32 heads, u32 kv_heads, u32 causal, u32 joined) {
    auto of = lengths_of(batch, sequence, heads, kv_heads, WIDTH);
    u64 rows = parts ? rows_of_parts(batch, sequence, heads, causal, joined * 8192 / WIDTH) : 0;
    return Extents{2 * of.packed, 4 * rows * WIDTH, 2 * of.packed, 2 * of.output, 4 * of.rows, 4 * of.rows};
};
template <u64 WIDTH> auto tensor_sum = [](u16 *, const float *, u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 causal, u32 joined) {
    auto of = lengths_of(batch, sequence, heads, kv_heads, WIDTH);
    return Extents{2 * of.packed, 4 * rows_of_parts(batch, sequence, heads, causal, joined * 8192 / WIDTH) * WIDTH};
};
auto plain_forward = [](auto *output, auto *log_sum, auto *, u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 width, u32, u64) {
    return forward_extents(sizeof *output, sizeof *log_sum, lengths_of(batch, sequence, heads, kv_heads, width));
};
auto plain_gradient = [](auto *d_qkv, auto *, auto *, auto *log_sum, auto *, u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 width,
                         u32, u64) {
    return gradient_extents(sizeof *d_qkv, sizeof *log_sum, lengths_of(batch, sequence, heads, kv_heads, width));
};
auto plain_delta = [](auto *delta, auto *output, auto *, u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 width, u32) {
    return delta_extents(sizeof *output, sizeof *delta, lengths_of(batch, sequence, heads, kv_heads, width));
};

std::map<std::string, Kernel> attention_kernels() {
    return {
#define OF_TENSOR_CORES(name, width) \
    {"attention_" #name, make_block_kernel(by_tensor_cores::attention_##name, tensor_forward<width>)}, \
    {"attention_delta_" #name, make_block_kernel(by_tensor_cores::attention_delta_##name, tensor_delta<width>)}, \
    {"attention_queries_" #name, make_block_kernel(by_tensor_cores::attention_queries_##name, tensor_queries<width>)}, \
    {"attention_gradient_" #name, make_block_kernel(by_tensor_cores::attention_gradient_##name, tensor_gradient<width>)}, \
    {"attention_sum_" #name, make_kernel(by_tensor_cores::attention_sum_##name, tensor_sum<width>)},
        OF_TENSOR_CORES(bf16_64, 64) OF_TENSOR_CORES(bf16_128, 128) OF_TENSOR_CORES(f16_64, 64) OF_TENSOR_CORES(f16_128, 128)
#define OF_PLAIN(name) \
    {"attention_" #name, make_block_kernel(plain::attention_##name, plain_forward)}, \
    {"attention_delta_" #name, make_block_kernel(plain::attention_delta_##name, plain_delta)}, \
    {"attention_queries_" #name, make_block_kernel(plain::attention_queries_##name, plain_gradient)}, \
    {"attention_keys_" #name, make_block_kernel(plain::attention_keys_##name, plain_gradient)},
        OF_PLAIN(f64) OF_PLAIN(f32) OF_PLAIN(bf16) OF_PLAIN(f16)
    };
}

} // namespace
