// The kernels of engine/kernels/train.cu for the emulated driver: what each may touch, by its arguments.
#pragma once

#include "engine/kernels/train.cu"

namespace {

template <class T> size_t bytes_of(T *, u64 count) { return count * sizeof(T); }
/// Null takes no byte.
template <class T> size_t bytes_if(T *at, u64 count) { return at ? count * sizeof(T) : 0; }

auto fill_one = [](auto *y, u64, u64 count) { return Extents{bytes_of(y, count)}; };
auto map_one = [](auto *y, auto *x, u64 count) { return Extents{bytes_of(y, count), bytes_of(x, count)}; };
auto map_two = [](auto *y, auto *, auto *, u64 count) { return Extents(3, bytes_of(y, count)); };
auto bias_of = [](auto *x, auto *bias, u64 rows, u32 columns) {
    return Extents{bytes_of(x, rows * columns), bytes_of(bias, columns)};
};
auto swiglu_of = [](auto *y, auto *, u64 rows, u32 width) {
    return Extents{bytes_of(y, rows * width), bytes_of(y, 2 * rows * width)};
};
auto swiglu_gradient_of = [](auto *x, auto *, auto *, u64 rows, u32 width) {
    return Extents{bytes_of(x, 2 * rows * width), bytes_of(x, 2 * rows * width), bytes_of(x, rows * width)};
};
auto rotary_of = [](auto *qkv, auto *table, u64 rows, u32 sequence, u32, u32 columns, u32 half, u32) {
    return Extents{bytes_of(qkv, rows * columns), bytes_of(table, 2 * sequence * half)};
};
auto dropout_of = [](auto *y, auto *, auto *step, u64 rows, u32 columns, u64, u32, u32, u64) {
    return Extents{bytes_of(y, rows * columns), bytes_of(y, rows * columns), bytes_of(step, 2)};
};
auto column_partials_of = [](auto *partials, auto *x, u64 rows, u32 columns, u32 chunks) {
    return Extents{bytes_of(partials, columns * chunks), bytes_of(x, rows * columns)};
};
auto norm_of = [](auto *y, auto *statistics, auto *total, auto *, auto *residual, auto *, auto *bias, u64 rows, u32 columns, u64) {
    u64 all = rows * columns;
    return Extents{bytes_of(y, all),       bytes_of(statistics, 2 * rows), bytes_if(total, all), bytes_of(y, all),
                   bytes_if(residual, all), bytes_of(y, columns),           bytes_if(bias, columns)};
};
auto norm_gradient_of = [](auto *dx, auto *, auto *, auto *statistics, auto *, u64 rows, u32 columns, u32, u32) {
    size_t all = bytes_of(dx, rows * columns);
    return Extents{all, all, all, bytes_of(statistics, 2 * rows), bytes_of(dx, columns)};
};
auto norm_partials_of = [](auto *gain, auto *bias, auto *x, auto *, auto *statistics, u64 rows, u32 columns, u32 chunks) {
    u64 partials = columns * chunks, all = bytes_of(x, rows * columns);
    return Extents{bytes_of(gain, partials), bytes_if(bias, partials), all, all, bytes_of(statistics, 2 * rows)};
};
auto embed_of = [](auto *y, auto *tokens, auto *table, auto *positions, auto *segments, u64 rows, u32 width, u32 sequence, u64,
                   u64 count) {
    return Extents{bytes_of(y, rows * width), bytes_of(tokens, rows), bytes_of(table, count * width),
                   bytes_if(positions, (rows < sequence ? rows : sequence) * width), bytes_if(segments, width)};
};
// The rows of the table, and those of dy, are the caller's promise: at least one.
auto embed_gradient_of = [](auto *table, auto *dy, auto *starts, auto *targets, auto *rows, u64 entries, u32 width) {
    return Extents{bytes_of(table, width), bytes_of(dy, entries * width), bytes_of(starts, entries + 1),
                   bytes_of(targets, entries), bytes_of(rows, entries)};
};
auto position_gradient_of = [](auto *positions, auto *dy, u64 rows, u32 width, u32 sequence) {
    return Extents{bytes_of(positions, sequence * width), bytes_of(dy, rows * width)};
};
auto entropy_of = [](auto *logits, auto *targets, auto *losses, auto *control, u64 rows, u32, u32 stride, u64) {
    return Extents{bytes_of(logits, rows * stride), bytes_of(targets, rows), bytes_of(losses, rows), bytes_of(control, 1)};
};
auto entropy_largest_of = [](auto *largest, auto *logits, u64 rows, u32, u32 stride) {
    return Extents{bytes_of(largest, rows), bytes_of(logits, rows * stride)};
};
auto entropy_sum_of = [](auto *sums, auto *logits, auto *targets, auto *largest, u64 rows, u32, u32 stride, u64) {
    return Extents{bytes_of(sums, 2 * rows), bytes_of(logits, rows * stride), bytes_of(targets, rows), bytes_of(largest, rows)};
};
auto entropy_finish_of = [](auto *logits, auto *losses, auto *targets, auto *largest, auto *sums, auto *control, u64 rows,
                            u32, u32 stride, u64, u64) {
    return Extents{bytes_of(logits, rows * stride),  bytes_of(losses, rows),   bytes_of(targets, rows),
                   bytes_of(largest, rows),          bytes_of(sums, 2 * rows), bytes_of(control, 1)};
};
auto adam_of = [](auto *p, auto *g, auto *m, auto *v, auto *copy, auto *, auto *control, u64 count) {
    return Extents{bytes_of(p, count), bytes_of(g, count),    bytes_of(m, count),  bytes_of(v, count),
                   bytes_if(copy, count), sizeof(Adam), bytes_of(control, 4)};
};
// Where the parts lie is the caller's promise.
auto adam_of_parts_of = [](auto *p, auto *g, auto *m, auto *v, auto *copy, auto *, auto *control, auto *parts, u64 count) {
    return Extents{bytes_of(p, 1),     bytes_of(g, 1), bytes_of(m, 1),       bytes_of(v, 1),
                   bytes_if(copy, 1), sizeof(Adam),   bytes_of(control, 4), bytes_of(parts, count)};
};
auto sgd_of = [](auto *p, auto *g, auto *v, auto *copy, auto *control, u64 count, u64, u64, u64) {
    return Extents{bytes_of(p, count), bytes_of(g, count), bytes_if(v, count), bytes_if(copy, count), bytes_of(control, 4)};
};
auto adam_numbers_of = [](auto *, auto *control, auto *step, u64, u64, u64, u64, u64, u64) {
    return Extents{sizeof(Adam), bytes_of(control, 4), bytes_of(step, 1)};
};
auto add_partials_of = [](auto *y, auto *partials, u32 columns, u32 chunks, u32) {
    return Extents{bytes_of(y, columns), bytes_of(partials, columns * chunks)};
};
auto add_sum_of = [](auto *to, auto *terms, u64 count, u64) { return Extents{bytes_of(to, 1), bytes_of(terms, count)}; };
// How many partial sums there are is the grid's: at least one.
auto squares_of = [](auto *partials, auto *x, u64 count) { return Extents{bytes_of(partials, 1), bytes_of(x, count)}; };
// Where the parts lie is the caller's promise.
auto squares_of_parts_of = [](auto *partials, auto *x, auto *parts, u64 count) {
    return Extents{bytes_of(partials, count), bytes_of(x, 1), bytes_of(parts, count)};
};
auto control_of = [](auto *control, auto...) { return Extents{bytes_of(control, 4)}; };

std::map<std::string, Kernel> train_kernels() {
    return {
#define ONE(name, extents) {#name, make_kernel(name, extents)},
#define BLOCK(name, extents) {#name, make_block_kernel(name, extents)},
#define OF_EACH(type) \
    ONE(fill_##type, fill_one) ONE(to_f64_##type, map_one) ONE(to_f32_##type, map_one) \
    ONE(to_bf16_##type, map_one) ONE(to_f16_##type, map_one) ONE(add_##type, map_two) ONE(add_bias_##type, bias_of) \
    ONE(gelu_tanh_##type, map_one) ONE(gelu_erf_##type, map_one) ONE(relu_##type, map_one) \
    ONE(gelu_tanh_gradient_##type, map_two) ONE(gelu_erf_gradient_##type, map_two) ONE(relu_gradient_##type, map_two) \
    ONE(swiglu_##type, swiglu_of) ONE(swiglu_gradient_##type, swiglu_gradient_of) ONE(rotary_##type, rotary_of) \
    ONE(dropout_##type, dropout_of) ONE(column_partials_##type, column_partials_of) BLOCK(norm_##type, norm_of) \
    BLOCK(norm_gradient_##type, norm_gradient_of) ONE(norm_partials_##type, norm_partials_of) ONE(embed_##type, embed_of) \
    ONE(embed_gradient_##type, embed_gradient_of) ONE(position_gradient_##type, position_gradient_of) \
    BLOCK(entropy_##type, entropy_of) BLOCK(entropy_largest_##type, entropy_largest_of) \
    BLOCK(entropy_sum_##type, entropy_sum_of) BLOCK(entropy_finish_##type, entropy_finish_of) \
    ONE(adam_##type, adam_of) ONE(adam_of_parts_##type, adam_of_parts_of) ONE(sgd_##type, sgd_of)
        OF_EACH(f64) OF_EACH(f32) OF_EACH(bf16) OF_EACH(f16)
        ONE(fill_i32, fill_one) ONE(add_partials_f64, add_partials_of) ONE(add_partials_f32, add_partials_of)
        BLOCK(add_many_partials_f64, add_partials_of) BLOCK(add_many_partials_f32, add_partials_of)
        BLOCK(squares_f64, squares_of) BLOCK(squares_f32, squares_of)
        BLOCK(squares_of_parts_f64, squares_of_parts_of) BLOCK(squares_of_parts_f32, squares_of_parts_of) BLOCK(add_sum, add_sum_of)
        ONE(begin_norm, control_of) ONE(judge, control_of) ONE(end_step, control_of) ONE(adam_numbers, adam_numbers_of)
    };
}

} // namespace
