// Attention by tensor cores: bf16 and f16, heads of 64 or 128 features, sm_80 and later (Dao, 2023). Sums are f32; probabilities and
// the gradients of scores are rounded to 16 bits where they are multiplied. Nothing is atomic: one pass over blocks of queries gives
// their gradients, another over blocks of keys gives those of keys and values.
//
// A block has 8 warps of 16 rows each. Its rows stay in registers. The rows that they are multiplied with go through shared memory in
// tiles, two of each matrix: one is computed with while the next is on its way.
#include "attention.h"
#include "tensor.h"

#define INLINE __device__ __forceinline__
// Rows of a warp and of a block.
#define OWN 16
#define ROWS 128
// Rows of a tile that queries meet: 64 of 64 numbers, or 32 of 128.
#define TILE_ROWS (4096 / D)
// Of one that keys meet: their values take the rest of 48 KiB.
#define KEYS_TILE_ROWS (16 * (128 / D) * (128 / D))
#define LOG2_E 1.4426950408889634f

INLINE u32 least(u32 a, u32 b) { return a < b ? a : b; }

// What each kernel is given, and where heads lie: a row of qkv is q | k | v.
struct Problem {
    u32 batch, sequence, heads, kv_heads, causal;
    INLINE u32 blocks() const { return (sequence + ROWS - 1) / ROWS; }
    INLINE u32 packed() const { return heads + 2 * kv_heads; }
};
template <class T, int D>
struct Head {
    T *at;
    u32 stride;
    INLINE T *row(u32 index) const { return at + index * stride; }
};
// Head `index` of a sample, of rows that have `heads` of them.
template <int D, class T>
INLINE Head<T, D> head_of(T *matrix, const Problem &problem, u32 sample, u32 index, u32 heads) {
    Head<T, D> head = {matrix + (u64)sample * problem.sequence * heads * D + index * D, heads * D};
    return head;
}

// Where 8 numbers of a row of a tile lie. The same ones of 8 rows lie in all banks. Those of `eight ^ i` are at `place ^ 8 i`.
template <int D>
INLINE u32 place(u32 row, u32 eight) { return row * D + (eight ^ row % 8) * 8; }

// Begins to copy the rows of a tile. Those from `end` on become zero.
template <int TILE, int D>
INLINE void begin_tile(u16 *tile, const Head<const u16, D> &from, u32 first, u32 end) {
#pragma unroll
    for (u32 i = 0; i < TILE * D / 8 / 256; i++) {
        u32 at = again(threadIdx.x) + 256 * i, row = at / (D / 8), eight = at % (D / 8);
        bool has = first + row < end;
        begin_copy(tile + place<D>(row, eight), from.row(has ? first + row : 0) + eight * 8, has);
    }
}
// Gives the tiles of rows [first, end) of two matrices to `work`, with the number of their first row. `stage` says which of the shared
// tiles comes next: everybody is done with it, since all have passed the barrier after it was computed with.
template <int TILE, int D, class Work>
INLINE void through_tiles(u32 &stage, const Head<const u16, D> &one, const Head<const u16, D> &other, u32 first, u32 end, Work work) {
    __shared__ __align__(256) u16 tiles[2][2][TILE * D];
    begin_tile<TILE>(tiles[stage][0], one, first, end);
    begin_tile<TILE>(tiles[stage][1], other, first, end);
    for (u32 row = first; row < end; row += TILE) {
        wait_for_copies();
        __syncthreads();
        u32 now = stage;
        stage ^= 1;
        if (row + TILE < end) {
            begin_tile<TILE>(tiles[stage][0], one, row + TILE, end);
            begin_tile<TILE>(tiles[stage][1], other, row + TILE, end);
        }
        work(tiles[now][0], tiles[now][1], row);
    }
}

// A warp's rows as a left operand. Those from `end` on become zero.
template <int D>
INLINE void read_rows(u32 (&rows)[D / 16][4], const Head<const u16, D> &from, u32 first, u32 end) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 row = first + lane / 4 + i % 2 * 8;
            rows[k][i] = row < end ? *(const u32 *)(from.row(row) + k * 16 + i / 2 * 8 + lane % 4 * 2) : 0;
        }
    }
}
// Rounds sums times a factor for each of a lane's two rows.
template <class E, int D>
INLINE void write_rows(const Head<u16, D> &to, const float (&sums)[D / 8][4], const float (&factor)[2], u32 first, u32 end) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 row = first + lane / 4 + half * 8;
        if (row >= end) continue;
#pragma unroll
        for (u32 n = 0; n < D / 8; n++) {
            u32 both = pack<E>(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
            *(u32 *)(to.row(row) + n * 8 + lane % 4 * 2) = both;
        }
    }
}

// sums = a warp's rows times 16 rows of a tile, from row `first` on.
template <class E, int D>
INLINE void times_rows(float (&sums)[2][4], const u32 (&rows)[D / 16][4], const u16 *tile, u32 first) {
    u32 lane = threadIdx.x % 32;
    const u16 *own = tile + first * D + place<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (u32 i = 0; i < 8; i++) sums[i / 4][i % 4] = 0;
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        u32 b[4];
        load_matrices(b, own, 16 * k);
        multiply<E>(sums[0], rows[k], b[0], b[1]);
        multiply<E>(sums[1], rows[k], b[2], b[3]);
    }
}
// sums += weights, of a warp's rows for 16 rows of a tile, times these rows.
template <class E, int D>
INLINE void add_weighted(float (&sums)[D / 8][4], const float (&weights)[2][4], const u16 *tile, u32 first) {
    u32 lane = threadIdx.x % 32, a[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) a[i] = pack<E>(weights[i / 2][i % 2 * 2], weights[i / 2][i % 2 * 2 + 1]);
    const u16 *own = tile + first * D + place<D>(lane % 16, lane / 16);
#pragma unroll
    for (u32 n = 0; n < D / 16; n++) {
        u32 b[4];
        load_turned(b, own, 16 * n);
        multiply<E>(sums[2 * n], a, b[0], b[1]);
        multiply<E>(sums[2 * n + 1], a, b[2], b[3]);
    }
}

// How many columns a row sees.
INLINE u32 seen_by(const Problem &problem, u32 row) { return problem.causal ? least(row + 1, problem.sequence) : problem.sequence; }
// A column of a score of a lane, of 16 columns.
INLINE u32 column_of(u32 i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

// A lane's share of the softmax of its two rows. Sums are its own until the end; the largest score is the row's.
template <class E, int D>
struct Softmax {
    float largest[2], sum[2], output[D / 8][4];

    INLINE void begin() {
        largest[0] = largest[1] = -3.40282347e+38f;
        sum[0] = sum[1] = 0;
#pragma unroll
        for (u32 i = 0; i < D / 2; i++) output[i / 4][i % 4] = 0;
    }
    // `seen` says how many columns of the tile each row sees: at least one.
    INLINE void add(const u32 (&rows)[D / 16][4], const u16 *keys, const u16 *values, const u32 (&seen)[2], float factor) {
        float scores[TILE_ROWS / 16][2][4], top[2] = {largest[0], largest[1]};
#pragma unroll
        for (u32 n = 0; n < TILE_ROWS / 16; n++) {
            times_rows<E, D>(scores[n], rows, keys, n * 16);
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                float &score = scores[n][i / 4][i % 4];
                if (n * 16 + column_of(i) >= seen[i % 4 / 2]) score = bits_as<float>(0xff800000); // minus infinity
                top[i % 4 / 2] = fmaxf(top[i % 4 / 2], score);
            }
        }
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            top[half] = fmaxf(top[half], __shfl_xor_sync(0xffffffff, top[half], 1));
            top[half] = fmaxf(top[half], __shfl_xor_sync(0xffffffff, top[half], 2));
            float fade = exp2_of((largest[half] - top[half]) * factor);
            largest[half] = top[half];
            sum[half] *= fade;
#pragma unroll
            for (u32 n = 0; n < D / 8; n++) {
                output[n][2 * half] *= fade;
                output[n][2 * half + 1] *= fade;
            }
        }
#pragma unroll
        for (u32 n = 0; n < TILE_ROWS / 16; n++) {
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                float &score = scores[n][i / 4][i % 4];
                score = exp2_of(fmaf(score, factor, -(top[i % 4 / 2] * factor)));
                sum[i % 4 / 2] += score;
            }
            add_weighted<E, D>(output, scores[n], values, n * 16);
        }
    }
    INLINE void end() {
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 1);
            sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 2);
        }
    }
};

// 1 / sqrt(D), and the same for powers of two.
template <int D>
INLINE float scale_of() { return D == 64 ? 0.125f : 0.08838834764831845f; }

template <class E, int D>
INLINE void forward(u16 *output, float *log_sum, const u16 *qkv, const Problem &problem) {
    u32 stage = 0, sequence = problem.sequence, heads = problem.heads, lane = threadIdx.x % 32;
    u32 all_heads = problem.batch * heads;
    for (u32 item = blockIdx.x; item < all_heads * problem.blocks(); item += gridDim.x) {
        // Later rows see more, where they see only what came before: they begin first.
        u32 block = problem.blocks() - 1 - item / all_heads, head = item % heads, kv = head / (heads / problem.kv_heads);
        u32 sample = item % all_heads / heads;
        u32 first = block * ROWS + threadIdx.x / 32 * OWN, end = seen_by(problem, block * ROWS + ROWS - 1);
        u32 own_end = first < sequence ? seen_by(problem, first + OWN - 1) : 0, rows[D / 16][4];
        read_rows<D>(rows, head_of<D>(qkv, problem, sample, head, problem.packed()), first, sequence);
        Softmax<E, D> softmax;
        softmax.begin();
        Head<const u16, D> key = head_of<D>(qkv, problem, sample, heads + kv, problem.packed());
        Head<const u16, D> value = head_of<D>(qkv, problem, sample, heads + problem.kv_heads + kv, problem.packed());
        through_tiles<TILE_ROWS>(stage, key, value, 0, end, [&](const u16 *keys, const u16 *values, u32 column) {
            if (column >= own_end) return;
            u32 row = first + lane / 4, seen[2] = {seen_by(problem, row) - column, seen_by(problem, row + 8) - column};
            softmax.add(rows, keys, values, seen, scale_of<D>() * LOG2_E);
        });
        softmax.end();
        float factor[2] = {1 / softmax.sum[0], 1 / softmax.sum[1]};
        write_rows<E, D>(head_of<D>(output, problem, sample, head, heads), softmax.output, factor, first, sequence);
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 row = first + lane / 4 + half * 8;
            float value = softmax.largest[half] * scale_of<D>() + logf(softmax.sum[half]);
            if (lane % 4 == 0 && row < sequence) log_sum[(u64)(sample * heads + head) * sequence + row] = value;
        }
    }
}

// The gradient of a score, without its scale: `p (dp - delta)`.
template <class E, int D>
INLINE void queries(u16 *d_qkv, const u16 *qkv, const u16 *d_output, const float *log_sum, const float *delta, const Problem &problem) {
    u32 stage = 0, sequence = problem.sequence, heads = problem.heads, lane = threadIdx.x % 32;
    u32 all_heads = problem.batch * heads;
    for (u32 item = blockIdx.x; item < all_heads * problem.blocks(); item += gridDim.x) {
        u32 block = problem.blocks() - 1 - item / all_heads, head = item % heads, kv = head / (heads / problem.kv_heads);
        u32 sample = item % all_heads / heads;
        u32 first = block * ROWS + threadIdx.x / 32 * OWN, end = seen_by(problem, block * ROWS + ROWS - 1);
        u32 own_end = first < sequence ? seen_by(problem, first + OWN - 1) : 0;
        u32 rows[D / 16][4], d_rows[D / 16][4];
        read_rows<D>(rows, head_of<D>(qkv, problem, sample, head, problem.packed()), first, sequence);
        read_rows<D>(d_rows, head_of<D>(d_output, problem, sample, head, heads), first, sequence);
        // A thread's own: there are no registers for them.
        __shared__ float kept_along[2][256];
        float logs[2], sums[D / 8][4];
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 row = first + lane / 4 + half * 8;
            u64 at = (u64)(sample * heads + head) * sequence + row;
            logs[half] = row < sequence ? log_sum[at] * LOG2_E : 0;
            kept_along[half][threadIdx.x] = row < sequence ? delta[at] : 0;
        }
#pragma unroll
        for (u32 i = 0; i < D / 2; i++) sums[i / 4][i % 4] = 0;
        Head<const u16, D> key = head_of<D>(qkv, problem, sample, heads + kv, problem.packed());
        Head<const u16, D> value = head_of<D>(qkv, problem, sample, heads + problem.kv_heads + kv, problem.packed());
        through_tiles<TILE_ROWS>(stage, key, value, 0, end, [&](const u16 *keys, const u16 *values, u32 column) {
#pragma unroll 1
            for (u32 n = 0; n < TILE_ROWS; n += 16) {
                if (column + n >= own_end) continue;
                float scores[2][4], d_scores[2][4];
                times_rows<E, D>(scores, rows, keys, n);
                times_rows<E, D>(d_scores, d_rows, values, n);
                float along[2] = {kept_along[0][threadIdx.x], kept_along[1][threadIdx.x]};
#pragma unroll
                for (u32 i = 0; i < 8; i++) {
                    u32 half = i % 4 / 2;
                    bool is_seen = column + n + column_of(i) < seen_by(problem, first + lane / 4 + half * 8);
                    float p = exp2_of(fmaf(scores[i / 4][i % 4], scale_of<D>() * LOG2_E, -logs[half]));
                    scores[i / 4][i % 4] = is_seen ? p * (d_scores[i / 4][i % 4] - along[half]) : 0;
                }
                add_weighted<E, D>(sums, scores, keys, n);
            }
        });
        float factor[2] = {scale_of<D>(), scale_of<D>()};
        write_rows<E, D>(head_of<D>(d_qkv, problem, sample, head, problem.packed()), sums, factor, first, sequence);
    }
}

// Rows are keys here, and columns queries: of all heads that read these keys, one after the other.
template <class E, int D>
INLINE void keys(u16 *d_qkv, const u16 *qkv, const u16 *d_output, const float *log_sum, const float *delta, const Problem &problem) {
    u32 stage = 0, sequence = problem.sequence, heads = problem.heads, lane = threadIdx.x % 32, group = heads / problem.kv_heads;
    u32 all_heads = problem.batch * problem.kv_heads;
    for (u32 item = blockIdx.x; item < all_heads * problem.blocks(); item += gridDim.x) {
        u32 block = item / all_heads, kv = item % problem.kv_heads;
        u32 sample = item % all_heads / problem.kv_heads;
        u32 first = block * ROWS + threadIdx.x / 32 * OWN, rows[D / 16][4], values[D / 16][4];
        // A thread's own: there are no registers for them.
        __shared__ __align__(16) u32 kept_values[D / 16][256][4];
        u32 of_key = heads + kv, of_value = heads + problem.kv_heads + kv;
        read_rows<D>(rows, head_of<D>(qkv, problem, sample, of_key, problem.packed()), first, sequence);
        read_rows<D>(values, head_of<D>(qkv, problem, sample, of_value, problem.packed()), first, sequence);
#pragma unroll
        for (u32 i = 0; i < D / 4; i++) kept_values[i / 4][threadIdx.x][i % 4] = values[i / 4][i % 4];
        float d_key[D / 8][4], d_value[D / 8][4];
#pragma unroll
        for (u32 i = 0; i < D / 2; i++) d_key[i / 4][i % 4] = d_value[i / 4][i % 4] = 0;
        for (u32 head = kv * group; head < kv * group + group; head++) {
            u64 of_head = (u64)(sample * heads + head) * sequence;
            Head<const u16, D> query = head_of<D>(qkv, problem, sample, head, problem.packed());
            Head<const u16, D> d_row = head_of<D>(d_output, problem, sample, head, heads);
            u32 begin = problem.causal ? block * ROWS : 0;
            through_tiles<KEYS_TILE_ROWS>(stage, query, d_row, begin, sequence, [&](const u16 *queries, const u16 *d_rows, u32 column) {
#pragma unroll 1
                for (u32 n = 0; n < KEYS_TILE_ROWS; n += 16) {
                    // None of these queries is there, or sees a key of this warp.
                    if (first >= sequence || column + n >= sequence || (problem.causal && column + n + 15 < first)) continue;
                    float logs[4], along[4], weights[2][4], d_scores[2][4];
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        u32 at = column + n + column_of(i / 2 * 4 + i % 2);
                        logs[i] = at < sequence ? log_sum[of_head + at] * LOG2_E : 0;
                        along[i] = at < sequence ? delta[of_head + at] : 0;
                    }
                    times_rows<E, D>(weights, rows, queries, n);
#pragma unroll
                    for (u32 i = 0; i < 8; i++) {
                        u32 at = column + n + column_of(i), key = first + lane / 4 + i % 4 / 2 * 8;
                        bool is_seen = at < sequence && key < seen_by(problem, at);
                        float p = exp2_of(fmaf(weights[i / 4][i % 4], scale_of<D>() * LOG2_E, -logs[i / 4 * 2 + i % 2]));
                        weights[i / 4][i % 4] = is_seen ? p : 0;
                    }
                    add_weighted<E, D>(d_value, weights, d_rows, n);
#pragma unroll
                    for (u32 i = 0; i < D / 4; i++) values[i / 4][i % 4] = kept_values[i / 4][threadIdx.x][i % 4];
                    times_rows<E, D>(d_scores, values, d_rows, n);
#pragma unroll
                    for (u32 i = 0; i < 8; i++) {
                        float d = d_scores[i / 4][i % 4] - along[i / 4 * 2 + i % 2];
                        d_scores[i / 4][i % 4] = weights[i / 4][i % 4] * d;
                    }
                    add_weighted<E, D>(d_key, d_scores, queries, n);
                }
            });
        }
        float factor[2] = {scale_of<D>(), scale_of<D>()}, one[2] = {1, 1};
        write_rows<E, D>(head_of<D>(d_qkv, problem, sample, of_key, problem.packed()), d_key, factor, first, sequence);
        write_rows<E, D>(head_of<D>(d_qkv, problem, sample, of_value, problem.packed()), d_value, one, first, sequence);
    }
}

// Two blocks fit a multiprocessor where heads have 64 features: 128 registers a thread.
#define KERNEL(blocks) extern "C" __global__ void __launch_bounds__(256, blocks)
#define SIZES u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 causal
#define OF_HEADS(E, name, D)                                                                                                           \
    KERNEL(128 / D) attention_##name##_##D(u16 *output, float *log_sum, const u16 *qkv, SIZES) {                                       \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        forward<E, D>(output, log_sum, qkv, problem);                                                                                  \
    }                                                                                                                                  \
    KERNEL(1) attention_delta_##name##_##D(float *delta, const u16 *output, const u16 *d_output, SIZES) {                              \
        delta_of<E>(delta, output, d_output, batch, sequence, heads, D);                                                               \
    }                                                                                                                                  \
    KERNEL(128 / D) attention_queries_##name##_##D(u16 *d_qkv, const u16 *qkv, const u16 *d_output, const float *log_sum,              \
                                                   const float *delta, SIZES) {                                                        \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        queries<E, D>(d_qkv, qkv, d_output, log_sum, delta, problem);                                                                  \
    }                                                                                                                                  \
    KERNEL(1) attention_keys_##name##_##D(u16 *d_qkv, const u16 *qkv, const u16 *d_output, const float *log_sum, const float *delta,   \
                                          SIZES) {                                                                                     \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        keys<E, D>(d_qkv, qkv, d_output, log_sum, delta, problem);                                                                     \
    }
OF_HEADS(Bf16, bf16, 64)
OF_HEADS(Bf16, bf16, 128)
OF_HEADS(F16, f16, 64)
OF_HEADS(F16, f16, 128)
