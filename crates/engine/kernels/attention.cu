// Attention by tensor cores: bf16 and f16, heads of 64 or 128 features, sm_80 and later (Dao, 2023). Sums are f32; probabilities are
// rounded to 16 bits where they are multiplied. attention_gradient.cu has the backward pass,
// but for gradients of queries where memory is short: these are here.
//
// A block has 128 rows, which stay in registers: 4 warps of 32 where heads have 64 features, so that what they read of shared memory serves
// two products, and 8 warps of 16 otherwise. The rows that they are multiplied with go through shared memory in tiles, two of each matrix:
// one is computed with while the next is on its way.
#include "attention_tiles.h"

// Rows of a block; rows of a warp and threads of a block, in the pass over queries alone.
#define ROWS 128
#define OWN 16
#define THREADS 256
// Rows of a tile that queries meet: 64 of 64 numbers, or 32 of 128.
#define TILE_ROWS (4096 / D)

// A warp's rows as left operands, of 16 rows each. Those from `end` on become zero.
template <int M, int D>
INLINE void read_rows(u32 (&rows)[M][D / 16][4], const Head<const u16, D> &from, u32 first, u32 end) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 k = 0; k < M * D / 16; k++) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 row = first + k / (D / 16) * 16 + lane / 4 + i % 2 * 8;
            const u16 *at = from.row(row) + k % (D / 16) * 16 + i / 2 * 8 + lane % 4 * 2;
            rows[k / (D / 16)][k % (D / 16)][i] = row < end ? *(const u32 *)at : 0;
        }
    }
}

// sums = a warp's rows times 16 rows of a tile, from row `first` on.
template <class E, int M, int D>
INLINE void times_rows(float (&sums)[M][2][4], const u32 (&rows)[M][D / 16][4], const u16 *tile, u32 first) {
    u32 lane = threadIdx.x % 32;
    const u16 *own = tile + first * D + place<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (u32 i = 0; i < M * 8; i++) sums[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        u32 b[4];
        load_matrices(b, own, 16 * k);
#pragma unroll
        for (u32 m = 0; m < M; m++) {
            multiply<E>(sums[m][0], rows[m][k], b[0], b[1]);
            multiply<E>(sums[m][1], rows[m][k], b[2], b[3]);
        }
    }
}
// sums += weights, of a warp's rows for 16 rows of a tile, times these rows.
template <class E, int M, int D>
INLINE void add_weighted(float (&sums)[M][D / 8][4], const float (&weights)[M][2][4], const u16 *tile, u32 first) {
    u32 lane = threadIdx.x % 32, a[M][4];
#pragma unroll
    for (u32 i = 0; i < M * 4; i++) {
        const float *two = &weights[i / 4][i % 4 / 2][i % 2 * 2];
        a[i / 4][i % 4] = pack<E>(two[0], two[1]);
    }
    const u16 *own = tile + first * D + place<D>(lane % 16, lane / 16);
#pragma unroll
    for (u32 n = 0; n < D / 16; n++) {
        u32 b[4];
        load_turned(b, own, 16 * n);
#pragma unroll
        for (u32 m = 0; m < M; m++) {
            multiply<E>(sums[m][2 * n], a[m], b[0], b[1]);
            multiply<E>(sums[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

// A lane's share of the softmax of its two rows of each 16. Sums are its own until the end; the largest score is the row's.
template <class E, int M, int D>
struct Softmax {
    float largest[M][2], sum[M][2], output[M][D / 8][4];

    INLINE void begin() {
#pragma unroll
        for (u32 i = 0; i < 2 * M; i++) {
            largest[i / 2][i % 2] = -3.40282347e+38f;
            sum[i / 2][i % 2] = 0;
        }
#pragma unroll
        for (u32 i = 0; i < M * D / 2; i++) output[i / (D / 2)][i / 4 % (D / 8)][i % 4] = 0;
    }
    // `seen` says how many columns of the tile each row sees: of the first tile, at least one.
    INLINE void add(const u32 (&rows)[M][D / 16][4], const u16 *keys, const u16 *values, const u32 (&seen)[M][2], float factor) {
        float scores[TILE_ROWS / 16][M][2][4], top[M][2];
#pragma unroll
        for (u32 i = 0; i < 2 * M; i++) top[i / 2][i % 2] = largest[i / 2][i % 2];
#pragma unroll
        for (u32 n = 0; n < TILE_ROWS / 16; n++) {
            times_rows<E, M, D>(scores[n], rows, keys, n * 16);
#pragma unroll
            for (u32 i = 0; i < M * 8; i++) {
                float &score = scores[n][i / 8][i / 4 % 2][i % 4];
                if (n * 16 + column_of(i % 8) >= seen[i / 8][i % 4 / 2]) score = bits_as<float>(0xff800000); // minus infinity
                top[i / 8][i % 4 / 2] = fmaxf(top[i / 8][i % 4 / 2], score);
            }
        }
#pragma unroll
        for (u32 i = 0; i < 2 * M; i++) {
            u32 m = i / 2, half = i % 2;
            top[m][half] = fmaxf(top[m][half], __shfl_xor_sync(0xffffffff, top[m][half], 1));
            top[m][half] = fmaxf(top[m][half], __shfl_xor_sync(0xffffffff, top[m][half], 2));
            float fade = exp2_of((largest[m][half] - top[m][half]) * factor);
            largest[m][half] = top[m][half];
            sum[m][half] *= fade;
#pragma unroll
            for (u32 n = 0; n < D / 8; n++) {
                output[m][n][2 * half] *= fade;
                output[m][n][2 * half + 1] *= fade;
            }
        }
#pragma unroll
        for (u32 n = 0; n < TILE_ROWS / 16; n++) {
#pragma unroll
            for (u32 i = 0; i < M * 8; i++) {
                float &score = scores[n][i / 8][i / 4 % 2][i % 4];
                score = exp2_of(fmaf(score, factor, -(top[i / 8][i % 4 / 2] * factor)));
                sum[i / 8][i % 4 / 2] += score;
            }
            add_weighted<E, M, D>(output, scores[n], values, n * 16);
        }
    }
    INLINE void end() {
#pragma unroll
        for (u32 i = 0; i < 2 * M; i++) {
            float &all = sum[i / 2][i % 2];
            all += __shfl_xor_sync(0xffffffff, all, 1);
            all += __shfl_xor_sync(0xffffffff, all, 2);
        }
    }
};

template <class E, int M, int D>
INLINE void forward(u16 *output, float *log_sum, const u16 *qkv, const Problem &problem) {
    __shared__ __align__(256) u16 tiles[2][2][TILE_ROWS * D];
    u32 stage = 0, sequence = problem.sequence, heads = problem.heads, lane = threadIdx.x % 32;
    u32 all_heads = problem.batch * heads;
    for (u32 item = blockIdx.x; item < all_heads * problem.blocks_of(ROWS); item += gridDim.x) {
        // Later rows see more, where they see only what came before: they begin first.
        u32 block = problem.blocks_of(ROWS) - 1 - item / all_heads, head = item % heads, kv = head / (heads / problem.kv_heads);
        u32 sample = item % all_heads / heads;
        u32 first = block * ROWS + threadIdx.x / 32 * 16 * M, end = seen_by(problem, block * ROWS + ROWS - 1);
        u32 own_end = first < sequence ? seen_by(problem, first + 16 * M - 1) : 0, rows[M][D / 16][4];
        read_rows<M, D>(rows, head_of<D>(qkv, problem, sample, head, problem.packed()), first, sequence);
        Softmax<E, M, D> softmax;
        softmax.begin();
        Head<const u16, D> key = head_of<D>(qkv, problem, sample, heads + kv, problem.packed());
        Head<const u16, D> value = head_of<D>(qkv, problem, sample, heads + problem.kv_heads + kv, problem.packed());
        auto begin = [&](u32 at, u32 row) {
            begin_tile<TILE_ROWS, 256 / M>(tiles[at][0], key, row, end);
            begin_tile<TILE_ROWS, 256 / M>(tiles[at][1], value, row, end);
        };
        through_tiles<TILE_ROWS>(stage, 0, end, begin, [&](u32 at, u32 column) {
            if (column >= own_end) return;
            u32 row = first + lane / 4, seen[M][2];
#pragma unroll
            for (u32 i = 0; i < 2 * M; i++) {
                u32 all = seen_by(problem, row + i * 8);
                seen[i / 2][i % 2] = all - least(all, column);
            }
            softmax.add(rows, tiles[at][0], tiles[at][1], seen, scale_of<D>() * LOG2_E);
        });
        softmax.end();
#pragma unroll
        for (u32 m = 0; m < M; m++) {
            float factor[2] = {1 / softmax.sum[m][0], 1 / softmax.sum[m][1]};
            write_rows<E>(head_of<D>(output, problem, sample, head, heads), softmax.output[m], factor, first + 16 * m, sequence);
        }
#pragma unroll
        for (u32 i = 0; i < 2 * M; i++) {
            u32 row = first + lane / 4 + i * 8;
            float value = softmax.largest[i / 2][i % 2] * scale_of<D>() + logf(softmax.sum[i / 2][i % 2]);
            if (lane % 4 == 0 && row < sequence) log_sum[(u64)(sample * heads + head) * sequence + row] = value;
        }
    }
}

// Gradients of queries in a pass of their own, where there is no memory for their parts (attention_gradient.cu): scores and their
// gradients, `p (dp - delta)` without a scale, are computed once more.
template <class E, int D>
INLINE void queries(u16 *d_qkv, const u16 *qkv, const u16 *d_output, const float *log_sum, const float *delta, const Problem &problem) {
    __shared__ __align__(256) u16 tiles[2][2][TILE_ROWS * D];
    u32 stage = 0, sequence = problem.sequence, heads = problem.heads, lane = threadIdx.x % 32;
    u32 all_heads = problem.batch * heads;
    for (u32 item = blockIdx.x; item < all_heads * problem.blocks_of(ROWS); item += gridDim.x) {
        u32 block = problem.blocks_of(ROWS) - 1 - item / all_heads, head = item % heads, kv = head / (heads / problem.kv_heads);
        u32 sample = item % all_heads / heads;
        u32 first = block * ROWS + threadIdx.x / 32 * OWN, end = seen_by(problem, block * ROWS + ROWS - 1);
        u32 own_end = first < sequence ? seen_by(problem, first + OWN - 1) : 0;
        u32 rows[1][D / 16][4], d_rows[1][D / 16][4];
        read_rows<1, D>(rows, head_of<D>(qkv, problem, sample, head, problem.packed()), first, sequence);
        read_rows<1, D>(d_rows, head_of<D>(d_output, problem, sample, head, heads), first, sequence);
        // A thread's own: there are no registers for them.
        __shared__ float kept_along[2][THREADS];
        float logs[2], sums[1][D / 8][4];
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 row = first + lane / 4 + half * 8;
            u64 at = (u64)(sample * heads + head) * sequence + row;
            logs[half] = row < sequence ? log_sum[at] * LOG2_E : 0;
            kept_along[half][threadIdx.x] = row < sequence ? delta[at] : 0;
        }
#pragma unroll
        for (u32 i = 0; i < D / 2; i++) sums[0][i / 4][i % 4] = 0;
        Head<const u16, D> key = head_of<D>(qkv, problem, sample, heads + kv, problem.packed());
        Head<const u16, D> value = head_of<D>(qkv, problem, sample, heads + problem.kv_heads + kv, problem.packed());
        auto begin = [&](u32 at, u32 row) {
            begin_tile<TILE_ROWS, THREADS>(tiles[at][0], key, row, end);
            begin_tile<TILE_ROWS, THREADS>(tiles[at][1], value, row, end);
        };
        through_tiles<TILE_ROWS>(stage, 0, end, begin, [&](u32 at, u32 column) {
            const u16 *keys = tiles[at][0], *values = tiles[at][1];
#pragma unroll 1
            for (u32 n = 0; n < TILE_ROWS; n += 16) {
                if (column + n >= own_end) continue;
                float scores[1][2][4], d_scores[1][2][4];
                times_rows<E, 1, D>(scores, rows, keys, n);
                times_rows<E, 1, D>(d_scores, d_rows, values, n);
                float along[2] = {kept_along[0][threadIdx.x], kept_along[1][threadIdx.x]};
#pragma unroll
                for (u32 i = 0; i < 8; i++) {
                    u32 half = i % 4 / 2;
                    bool is_seen = column + n + column_of(i) < seen_by(problem, first + lane / 4 + half * 8);
                    float p = exp2_of(fmaf(scores[0][i / 4][i % 4], scale_of<D>() * LOG2_E, -logs[half]));
                    scores[0][i / 4][i % 4] = is_seen ? p * (d_scores[0][i / 4][i % 4] - along[half]) : 0;
                }
                add_weighted<E, 1, D>(sums, scores, keys, n);
            }
        });
        float factor[2] = {scale_of<D>(), scale_of<D>()};
        write_rows<E>(head_of<D>(d_qkv, problem, sample, head, problem.packed()), sums[0], factor, first, sequence);
    }
}

// Two blocks fit a multiprocessor where heads have 64 features: 256 registers a thread of 128, or 128 of 256.
#define KERNEL(blocks) extern "C" __global__ void __launch_bounds__(THREADS, blocks)
#define SIZES u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 causal
#define OF_HEADS(E, name, D)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(D == 64 ? 128 : 256, 128 / D)                                                         \
        attention_##name##_##D(u16 *output, float *log_sum, const u16 *qkv, SIZES) {                                                   \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        forward<E, 128 / D, D>(output, log_sum, qkv, problem);                                                                         \
    }                                                                                                                                  \
    KERNEL(128 / D) attention_queries_##name##_##D(u16 *d_qkv, const u16 *qkv, const u16 *d_output, const float *log_sum,              \
                                                   const float *delta, SIZES) {                                                        \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        queries<E, D>(d_qkv, qkv, d_output, log_sum, delta, problem);                                                                  \
    }
OF_HEADS(Bf16, bf16, 64)
OF_HEADS(Bf16, bf16, 128)
OF_HEADS(F16, f16, 64)
OF_HEADS(F16, f16, 128)
