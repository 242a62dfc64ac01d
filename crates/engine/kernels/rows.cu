// Fills rows of matrices, compares them element by element, adds, gathers and combines them, where they lie. An element of a
// filled row is one of a table of values: values[base + (start + step * column) % period], with base and start of the row.
// One text for NVRTC (`cargo xtask ptx`) and for the tests' emulation: no thread waits for another.
#include "number.h"

// Where the values of a row begin.
struct Line {
    u32 base;
    u32 start;
};

// Elements that differ, and the indices of up to eight of them, in no order.
struct FoundRows {
    u64 wrong;
    u32 kept;
    u32 unused;
    u64 index[8];
};

struct I8 {
    typedef signed char Kept;
    typedef double Wide;
    static __device__ __forceinline__ signed char narrow(double value) { return (signed char)value; }
    static __device__ __forceinline__ double widen(signed char kept) { return kept; }
};
struct I32 {
    typedef int Kept;
    typedef double Wide;
    static __device__ __forceinline__ int narrow(double value) { return (int)value; }
    static __device__ __forceinline__ double widen(int kept) { return kept; }
};

__device__ __forceinline__ double value_at(const double *values, Line line, u32 column, u32 step, u32 period) {
    return values[line.base + (u32)((line.start + (u64)step * column) % period)];
}

template <class E>
__device__ __forceinline__ void fill_rows(typename E::Kept *to, const double *values, const Line *lines, u64 rows, u32 columns,
                                          u32 step, u32 period) {
    EACH(rows * columns) {
        double value = value_at(values, lines[i / columns], (u32)(i % columns), step, period);
        to[i] = E::narrow((typename E::Wide)value);
    }
}

// Not a number is within no tolerance. `tolerance` are the bits of an f64.
template <class E>
__device__ __forceinline__ void compare_rows(const typename E::Kept *held, const double *values, const Line *lines, u64 rows,
                                             u32 columns, u32 step, u32 period, u64 tolerance, FoundRows *found) {
    double most = bits_as<double>(tolerance);
    u64 wrong = 0;
    EACH(rows * columns) {
        double off = (double)E::widen(held[i]) - value_at(values, lines[i / columns], (u32)(i % columns), step, period);
        if (off >= -most && off <= most) continue;
        wrong++;
        u32 place = atomicAdd(&found->kept, 1u);
        if (place < 8) found->index[place] = i;
    }
    if (wrong) atomicAdd(&found->wrong, wrong);
}

template <class E>
__device__ __forceinline__ void add_rows(typename E::Kept *to, const typename E::Kept *from, u64 count) {
    EACH(count) to[i] = E::narrow(E::widen(to[i]) + E::widen(from[i]));
}

// Rows of the result, by their numbers in `targets`: each is the sum of `each` rows, by their places, each with its weight; sums
// are f64.
template <class E>
__device__ __forceinline__ void combine_rows(typename E::Kept *to, const typename E::Kept *from, const u32 *targets,
                                             const u32 *places, const double *weights, u64 rows, u32 columns, u32 each) {
    EACH(rows * columns) {
        u64 row = i / columns, column = i % columns;
        double sum = 0;
        for (u32 at = 0; at < each; at++) {
            u64 place = row * each + at;
            sum += weights[place] * (double)E::widen(from[(u64)places[place] * columns + column]);
        }
        to[(u64)targets[row] * columns + column] = E::narrow((typename E::Wide)sum);
    }
}

#define OF_TYPE(E, name)                                                                                                \
    extern "C" __global__ void fill_rows_##name(E::Kept *to, const double *values, const Line *lines, u64 rows,         \
                                                u32 columns, u32 step, u32 period) {                                    \
        fill_rows<E>(to, values, lines, rows, columns, step, period);                                                   \
    }                                                                                                                   \
    extern "C" __global__ void compare_rows_##name(const E::Kept *held, const double *values, const Line *lines,        \
                                                   u64 rows, u32 columns, u32 step, u32 period, u64 tolerance,          \
                                                   FoundRows *found) {                                                  \
        compare_rows<E>(held, values, lines, rows, columns, step, period, tolerance, found);                            \
    }
#define OF_FLOAT(E, name)                                                                                               \
    OF_TYPE(E, name)                                                                                                    \
    extern "C" __global__ void add_rows_##name(E::Kept *to, const E::Kept *from, u64 count) {                           \
        add_rows<E>(to, from, count);                                                                                   \
    }                                                                                                                   \
    extern "C" __global__ void combine_rows_##name(E::Kept *to, const E::Kept *from, const u32 *targets,                \
                                                   const u32 *places, const double *weights, u64 rows, u32 columns,     \
                                                   u32 each) {                                                          \
        combine_rows<E>(to, from, targets, places, weights, rows, columns, each);                                       \
    }
OF_FLOAT(F64, f64)
OF_FLOAT(F32, f32)
OF_FLOAT(Bf16, bf16)
OF_FLOAT(F16, f16)
OF_TYPE(F8E4M3, f8e4m3)
OF_TYPE(I8, i8)
OF_TYPE(I32, i32)

// Row i of the result is row index[i] of another matrix, of so many words.
template <class T>
__device__ __forceinline__ void gather_rows(T *to, const T *from, const u32 *index, u64 rows, u32 words) {
    EACH(rows * words) to[i] = from[(u64)index[i / words] * words + i % words];
}
#define OF_WORDS(T, bits)                                                                                               \
    extern "C" __global__ void gather_rows_##bits(T *to, const T *from, const u32 *index, u64 rows, u32 words) {        \
        gather_rows(to, from, index, rows, words);                                                                      \
    }
OF_WORDS(u16, 16)
OF_WORDS(u32, 32)
OF_WORDS(u64, 64)

// Softmax online over panels of keys, a thread a query. Scores lie [head][key][query], so that threads side by side read words
// side by side; they become weights relative to the largest score so far. `state` has that and the sum of weights of each query;
// `kept` becomes what is left of the weights before. `scale` are the bits of an f32.
extern "C" __global__ void weigh(float *scores, float *state, float *kept, u64 heads, u32 queries, u32 keys, u32 scale) {
    float factor = bits_as<float>(scale);
    EACH(heads * queries) {
        u64 head = i / queries, query = i % queries;
        float *own = scores + head * keys * queries + query;
        float largest = state[2 * i], most = largest, added = 0;
        for (u32 key = 0; key < keys; key++) {
            float score = own[(u64)key * queries] * factor;
            most = score > most ? score : most;
        }
        for (u32 key = 0; key < keys; key++) {
            float weight = expf(own[(u64)key * queries] * factor - most);
            own[(u64)key * queries] = weight;
            added += weight;
        }
        float left = expf(largest - most);
        kept[i] = left;
        state[2 * i] = most;
        state[2 * i + 1] = state[2 * i + 1] * left + added;
    }
}

// Multiplies each row by its own factor; `divides`: by one over the sum of weights in its state.
extern "C" __global__ void scale_rows(float *rows, const float *factors, u64 count, u32 columns, u32 divides) {
    EACH(count * columns) {
        u64 row = i / columns;
        rows[i] *= divides ? 1 / factors[2 * row + 1] : factors[row];
    }
}

// No query has seen a key.
extern "C" __global__ void begin_states(float *state, u64 queries) {
    EACH(queries) {
        state[2 * i] = -3.0e38f;
        state[2 * i + 1] = 0;
    }
}
