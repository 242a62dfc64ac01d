// Attention for every type and heads of up to 256 features, on any GPU: what tensor cores do not do (attention.cu). Sums are of the
// type that E computes in; nothing is rounded to E but results. Nothing is atomic, as there.
//
// A block has a tile of 32 rows by 32 columns. Thread t has rows t/16 and 16 more, and columns t%16 and 16 more; of results, columns
// t%16 and every 16th from there. Matrices go through shared memory, 32 features at a time.
#include "attention.h"

#define INLINE __device__ __forceinline__
#define SIDE 32
// Most features of a head.
#define WIDEST 256

INLINE float exponential(float x) { return expf(x); }
INLINE double exponential(double x) { return exp(x); }
INLINE float logarithm(float x) { return logf(x); }
INLINE double logarithm(double x) { return log(x); }
INLINE float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
INLINE double fma_of(double a, double b, double c) { return fma(a, b, c); }
// Lower than any score but minus infinity, whose difference to another would be NaN.
#define LOWEST ((W)-3.40282347e+38f)

INLINE u32 row_of(u32 i) { return threadIdx.x / 16 + 16 * i; }
INLINE u32 column_of(u32 j) { return threadIdx.x % 16 + 16 * j; }

// Of the 16 threads of a row.
template <class W>
INLINE W largest_of_row(W x) {
#pragma unroll
    for (int distance = 1; distance < 16; distance *= 2) {
        W other = __shfl_xor_sync(0xffffffff, x, distance);
        x = x > other ? x : other;
    }
    return x;
}

struct Problem {
    u32 batch, sequence, heads, kv_heads, width, causal;
    INLINE u32 blocks() const { return (sequence + SIDE - 1) / SIDE; }
    INLINE u32 packed() const { return heads + 2 * kv_heads; }
    INLINE bool sees(u32 query, u32 key) const { return query < sequence && key < sequence && (!causal || key <= query); }
};
// Rows of a head.
template <class T>
struct Head {
    T *at;
    u64 stride;
};
template <class T>
INLINE Head<T> head_of(T *matrix, const Problem &problem, u64 sample, u32 index, u32 heads) {
    Head<T> head = {matrix + (sample * problem.sequence * heads + index) * problem.width, (u64)heads * problem.width};
    return head;
}

// What a block shares. Rows are one number longer than needed, so that a column's lie in all banks.
template <class W>
struct Tiles {
    W left[SIDE][SIDE + 1], right[SIDE][SIDE + 1];
};
// 32 features of 32 rows. What is not there is zero.
template <class E>
INLINE void fetch(typename E::Wide (&to)[SIDE][SIDE + 1], const Head<const typename E::Kept> &from, u32 first, u32 feature,
                  const Problem &problem) {
#pragma unroll 2
    for (u32 i = 0; i < SIDE * SIDE / 256; i++) {
        u32 at = threadIdx.x + 256 * i, row = at / SIDE, column = at % SIDE;
        bool has = first + row < problem.sequence && feature + column < problem.width;
        to[row][column] = has ? E::widen(from.at[(first + row) * from.stride + feature + column]) : 0;
    }
}
// scores = 32 rows of one head times 32 rows of another.
template <class E>
INLINE void times_rows(typename E::Wide (&scores)[2][2], Tiles<typename E::Wide> &tiles, const Head<const typename E::Kept> &one,
                       u32 row, const Head<const typename E::Kept> &other, u32 column, const Problem &problem) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) scores[i / 2][i % 2] = 0;
    for (u32 feature = 0; feature < problem.width; feature += SIDE) {
        __syncthreads();
        fetch<E>(tiles.left, one, row, feature, problem);
        fetch<E>(tiles.right, other, column, feature, problem);
        __syncthreads();
#pragma unroll 4
        for (u32 k = 0; k < SIDE; k++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                scores[i / 2][i % 2] = fma_of(tiles.left[row_of(i / 2)][k], tiles.right[column_of(i % 2)][k], scores[i / 2][i % 2]);
            }
        }
    }
}
// sums += weights of 32 rows for 32 rows of a head, times these.
template <class E>
INLINE void add_weighted(typename E::Wide (&sums)[2][WIDEST / 16], Tiles<typename E::Wide> &tiles,
                         const typename E::Wide (&weights)[2][2], const Head<const typename E::Kept> &head, u32 row,
                         const Problem &problem) {
#pragma unroll
    for (u32 part = 0; part < WIDEST / SIDE; part++) {
        if (part * SIDE >= problem.width) continue;
        __syncthreads();
        if (part == 0) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) tiles.left[row_of(i / 2)][column_of(i % 2)] = weights[i / 2][i % 2];
        }
        fetch<E>(tiles.right, head, row, part * SIDE, problem);
        __syncthreads();
#pragma unroll 4
        for (u32 k = 0; k < SIDE; k++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                typename E::Wide &sum = sums[i / 2][2 * part + i % 2];
                sum = fma_of(tiles.left[row_of(i / 2)][k], tiles.right[k][column_of(i % 2)], sum);
            }
        }
    }
}
template <class E>
INLINE void write_rows(const Head<typename E::Kept> &to, const typename E::Wide (&sums)[2][WIDEST / 16],
                       const typename E::Wide (&factor)[2], u32 first, const Problem &problem) {
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        u32 row = first + row_of(i);
        if (row >= problem.sequence) continue;
#pragma unroll
        for (u32 j = 0; j < WIDEST / 16; j++) {
            if (column_of(j) < problem.width) to.at[row * to.stride + column_of(j)] = E::narrow(sums[i][j] * factor[i]);
        }
    }
}
template <class W>
INLINE void clear(W (&sums)[2][WIDEST / 16]) {
#pragma unroll
    for (u32 i = 0; i < WIDEST / 8; i++) sums[i % 2][i / 2] = 0;
}

template <class E>
INLINE void forward(typename E::Kept *output, typename E::Wide *log_sum, const typename E::Kept *qkv, const Problem &problem,
                    u64 scale) {
    typedef typename E::Wide W;
    __shared__ Tiles<W> tiles;
    W factor = (W)bits_as<double>(scale);
    u64 all_heads = (u64)problem.batch * problem.heads;
    for (u64 item = blockIdx.x; item < all_heads * problem.blocks(); item += gridDim.x) {
        // Later rows see more, where they see only what came before: they begin first.
        u32 first = (problem.blocks() - 1 - (u32)(item / all_heads)) * SIDE, head = (u32)(item % problem.heads);
        u32 kv = problem.heads + head / (problem.heads / problem.kv_heads);
        u64 sample = item % all_heads / problem.heads;
        Head<const typename E::Kept> query = head_of(qkv, problem, sample, head, problem.packed());
        Head<const typename E::Kept> key = head_of(qkv, problem, sample, kv, problem.packed());
        Head<const typename E::Kept> value = head_of(qkv, problem, sample, kv + problem.kv_heads, problem.packed());
        W largest[2] = {LOWEST, LOWEST}, sum[2] = {0, 0}, sums[2][WIDEST / 16];
        clear(sums);
        for (u32 column = 0; column < problem.sequence && (!problem.causal || column <= first); column += SIDE) {
            W scores[2][2];
            times_rows<E>(scores, tiles, query, first, key, column, problem);
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                W top = largest[i];
#pragma unroll
                for (u32 j = 0; j < 2; j++) {
                    scores[i][j] *= factor;
                    if (problem.sees(first + row_of(i), column + column_of(j)) && scores[i][j] > top) top = scores[i][j];
                }
                top = largest_of_row(top);
                W fade = exponential(largest[i] - top);
                largest[i] = top;
                sum[i] *= fade;
#pragma unroll
                for (u32 j = 0; j < WIDEST / 16; j++) sums[i][j] *= fade;
#pragma unroll
                for (u32 j = 0; j < 2; j++) {
                    bool is_seen = problem.sees(first + row_of(i), column + column_of(j));
                    scores[i][j] = is_seen ? exponential(scores[i][j] - top) : 0;
                    sum[i] += scores[i][j];
                }
            }
            add_weighted<E>(sums, tiles, scores, value, column, problem);
        }
        W shares[2];
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            sum[i] = sum_of_sixteen(sum[i]);
            shares[i] = 1 / sum[i];
            u32 row = first + row_of(i);
            bool is_one = threadIdx.x % 16 == 0 && row < problem.sequence;
            if (is_one) log_sum[(sample * problem.heads + head) * problem.sequence + row] = largest[i] + logarithm(sum[i]);
        }
        write_rows<E>(head_of(output, problem, sample, head, problem.heads), sums, shares, first, problem);
    }
}

// The probabilities of a tile, and the gradients of its scores but for their scale: `p (dp - delta)`. Rows are queries, or columns are.
template <class E>
struct Gradients {
    typedef typename E::Wide W;
    W p[2][2], d[2][2];
    INLINE void weigh(const W *log_sum, const W *delta, u32 first, u32 column, bool rows_are_keys, W factor, const Problem &problem) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 row = first + row_of(i / 2), other = column + column_of(i % 2);
            u32 query = rows_are_keys ? other : row, key = rows_are_keys ? row : other;
            bool is_seen = problem.sees(query, key);
            W weight = is_seen ? exponential(p[i / 2][i % 2] * factor - log_sum[query]) : 0;
            p[i / 2][i % 2] = weight;
            d[i / 2][i % 2] = is_seen ? weight * (d[i / 2][i % 2] - delta[query]) : 0;
        }
    }
};
template <class E>
INLINE void queries(typename E::Kept *d_qkv, const typename E::Kept *qkv, const typename E::Kept *d_output,
                    const typename E::Wide *log_sum, const typename E::Wide *delta, const Problem &problem, u64 scale) {
    typedef typename E::Wide W;
    __shared__ Tiles<W> tiles;
    W factor = (W)bits_as<double>(scale);
    u64 all_heads = (u64)problem.batch * problem.heads;
    for (u64 item = blockIdx.x; item < all_heads * problem.blocks(); item += gridDim.x) {
        u32 first = (problem.blocks() - 1 - (u32)(item / all_heads)) * SIDE, head = (u32)(item % problem.heads);
        u32 kv = problem.heads + head / (problem.heads / problem.kv_heads);
        u64 sample = item % all_heads / problem.heads, of_head = (sample * problem.heads + head) * problem.sequence;
        Head<const typename E::Kept> query = head_of(qkv, problem, sample, head, problem.packed());
        Head<const typename E::Kept> key = head_of(qkv, problem, sample, kv, problem.packed());
        Head<const typename E::Kept> value = head_of(qkv, problem, sample, kv + problem.kv_heads, problem.packed());
        Head<const typename E::Kept> d_row = head_of(d_output, problem, sample, head, problem.heads);
        W sums[2][WIDEST / 16], factors[2] = {factor, factor};
        clear(sums);
        for (u32 column = 0; column < problem.sequence && (!problem.causal || column <= first); column += SIDE) {
            Gradients<E> tile;
            times_rows<E>(tile.p, tiles, query, first, key, column, problem);
            times_rows<E>(tile.d, tiles, d_row, first, value, column, problem);
            tile.weigh(log_sum + of_head, delta + of_head, first, column, false, factor, problem);
            add_weighted<E>(sums, tiles, tile.d, key, column, problem);
        }
        write_rows<E>(head_of(d_qkv, problem, sample, head, problem.packed()), sums, factors, first, problem);
    }
}
// Rows are keys here, and columns queries: of all heads that read these keys, one after the other.
template <class E>
INLINE void keys(typename E::Kept *d_qkv, const typename E::Kept *qkv, const typename E::Kept *d_output,
                 const typename E::Wide *log_sum, const typename E::Wide *delta, const Problem &problem, u64 scale) {
    typedef typename E::Wide W;
    __shared__ Tiles<W> tiles;
    W factor = (W)bits_as<double>(scale);
    u64 all_heads = (u64)problem.batch * problem.kv_heads;
    u32 group = problem.heads / problem.kv_heads;
    for (u64 item = blockIdx.x; item < all_heads * problem.blocks(); item += gridDim.x) {
        u32 first = (u32)(item / all_heads) * SIDE, kv = (u32)(item % problem.kv_heads);
        u64 sample = item % all_heads / problem.kv_heads;
        u32 of_key = problem.heads + kv, of_value = of_key + problem.kv_heads;
        Head<const typename E::Kept> key = head_of(qkv, problem, sample, of_key, problem.packed());
        Head<const typename E::Kept> value = head_of(qkv, problem, sample, of_value, problem.packed());
        W d_key[2][WIDEST / 16], d_value[2][WIDEST / 16], factors[2] = {factor, factor}, ones[2] = {1, 1};
        clear(d_key);
        clear(d_value);
        for (u32 head = kv * group; head < kv * group + group; head++) {
            u64 of_head = (sample * problem.heads + head) * problem.sequence;
            Head<const typename E::Kept> query = head_of(qkv, problem, sample, head, problem.packed());
            Head<const typename E::Kept> d_row = head_of(d_output, problem, sample, head, problem.heads);
            for (u32 column = problem.causal ? first : 0; column < problem.sequence; column += SIDE) {
                Gradients<E> tile;
                times_rows<E>(tile.p, tiles, key, first, query, column, problem);
                times_rows<E>(tile.d, tiles, value, first, d_row, column, problem);
                tile.weigh(log_sum + of_head, delta + of_head, first, column, true, factor, problem);
                add_weighted<E>(d_value, tiles, tile.p, d_row, column, problem);
                add_weighted<E>(d_key, tiles, tile.d, query, column, problem);
            }
        }
        write_rows<E>(head_of(d_qkv, problem, sample, of_key, problem.packed()), d_key, factors, first, problem);
        write_rows<E>(head_of(d_qkv, problem, sample, of_value, problem.packed()), d_value, ones, first, problem);
    }
}

#define KERNEL extern "C" __global__ void __launch_bounds__(256, 1)
#define SIZES u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 width, u32 causal
#define PROBLEM                                                                                                                        \
    { batch, sequence, heads, kv_heads, width, causal }
#define OF_ELEMENT(E, name)                                                                                                               \
    KERNEL attention_##name(E::Kept *output, E::Wide *log_sum, const E::Kept *qkv, SIZES, u64 scale) {                                 \
        Problem problem = PROBLEM;                                                                                                     \
        forward<E>(output, log_sum, qkv, problem, scale);                                                                              \
    }                                                                                                                                  \
    KERNEL attention_delta_##name(E::Wide *delta, const E::Kept *output, const E::Kept *d_output, SIZES) {                             \
        delta_of<E>(delta, output, d_output, batch, sequence, heads, width);                                                           \
    }                                                                                                                                  \
    KERNEL attention_queries_##name(E::Kept *d_qkv, const E::Kept *qkv, const E::Kept *d_output, const E::Wide *log_sum,               \
                                    const E::Wide *delta, SIZES, u64 scale) {                                                          \
        Problem problem = PROBLEM;                                                                                                     \
        queries<E>(d_qkv, qkv, d_output, log_sum, delta, problem, scale);                                                              \
    }                                                                                                                                  \
    KERNEL attention_keys_##name(E::Kept *d_qkv, const E::Kept *qkv, const E::Kept *d_output, const E::Wide *log_sum,                  \
                                 const E::Wide *delta, SIZES, u64 scale) {                                                             \
        Problem problem = PROBLEM;                                                                                                     \
        keys<E>(d_qkv, qkv, d_output, log_sum, delta, problem, scale);                                                                 \
    }
OF_ELEMENT(F64, f64)
OF_ELEMENT(F32, f32)
OF_ELEMENT(Bf16, bf16)
OF_ELEMENT(F16, f16)
