// Norms of rows that are whole groups of 16 bytes, at most 8192 numbers, and their gradients. Others take the kernels of train.cu.
// A row is read once, 16 bytes a load, and kept in registers between its sums and its result: by a warp where it has at most 1024
// numbers, else by a block. Sums are added in an order that follows from the sizes alone. Blocks have 256 threads.
// One text for NVRTC (`cargo xtask ptx`) and for the tests' emulation.
#include "pack.h"

#define INLINE __device__ __forceinline__
#define THREADS 256
#define WARP 32

// What a thread has of a row: at most 32 numbers. `SHARING` threads share a row: those of a warp, or of a block.
#define HELD 32
template <class E>
struct Held {
    enum { N = Sixteen<E>::N, PACKS = HELD / N };
    Sixteen<E> of[PACKS];
};
#define NAMES enum { N = Held<E>::N, PACKS = Held<E>::PACKS }
#define EACH_PACK _Pragma("unroll") for (u32 k = 0; k < PACKS; k++)
#define EACH_NUMBER _Pragma("unroll") for (u32 c = 0; c < N; c++)
// Which pack of its row it is, and whether the row is so long.
#define PLACE (k * SHARING + threadIdx.x % SHARING)
#define HAS_PLACE (PLACE < packs)

// Without a branch, so that all loads begin at once: where the row has ended, its first pack is loaded again and not used.
template <class E, u32 SHARING>
INLINE Held<E> load(const Sixteen<E> *row, u32 packs) {
    NAMES;
    Held<E> held;
    EACH_PACK held.of[k] = row[HAS_PLACE ? PLACE : 0];
    return held;
}

// Adds K numbers of all threads that share a row, and gives the sums to each of them. `turn` changes with each call: a thread that is
// ahead then writes where nobody still reads, since all have read that before the barrier of the call between.
template <u32 SHARING, u32 K>
INLINE void add_up(float (&sums)[K], u32 &turn) {
#pragma unroll
    for (u32 which = 0; which < K; which++) {
#pragma unroll
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            sums[which] += __shfl_xor_sync(0xffffffff, sums[which], distance);
        }
    }
    if constexpr (SHARING > WARP) {
        __shared__ float parts[2][SHARING / WARP][K];
        float(*own)[K] = parts[turn];
        turn ^= 1;
        if (threadIdx.x % WARP == 0) {
            for (u32 which = 0; which < K; which++) own[threadIdx.x / WARP][which] = sums[which];
        }
        __syncthreads();
#pragma unroll
        for (u32 which = 0; which < K; which++) {
            sums[which] = own[0][which];
#pragma unroll
            for (u32 warp = 1; warp < SHARING / WARP; warp++) sums[which] += own[warp][which];
        }
    }
}

// ---- Forward. `bias` is null for RMS norms, whose mean is zero. `epsilon` are the bits of an f64.

// Writes `total = x + residual`, and gives it.
template <class E, u32 SHARING>
INLINE Held<E> add_residual(Sixteen<E> *total, const Held<E> &x, const Sixteen<E> *residual, u32 packs) {
    NAMES;
    Held<E> added = load<E, SHARING>(residual, packs), held;
    EACH_PACK {
        Sixteen<E> sums = {};
        EACH_NUMBER sums.put(c, x.of[k].at(c) + added.of[k].at(c));
        held.of[k] = sums;
        if (HAS_PLACE) total[PLACE] = sums;
    }
    return held;
}
// The mean of a row and one over its deviation.
template <class E, u32 SHARING>
INLINE void measure(const Held<E> &held, u32 packs, float epsilon, bool centred, u32 &turn, float &mean, float &scale) {
    NAMES;
    float share = 1 / (float)(packs * N), sum[1] = {0};
    mean = 0;
    if (centred) {
        EACH_PACK {
            if (!HAS_PLACE) continue;
            EACH_NUMBER sum[0] += held.of[k].at(c);
        }
        add_up<SHARING>(sum, turn);
        mean = sum[0] * share;
        sum[0] = 0;
    }
    EACH_PACK {
        if (!HAS_PLACE) continue;
        EACH_NUMBER {
            float off = held.of[k].at(c) - mean;
            sum[0] = fmaf(off, off, sum[0]);
        }
    }
    add_up<SHARING>(sum, turn);
    scale = 1 / sqrtf(sum[0] * share + epsilon);
}
// With a residual: `total = x + residual` is what is normalised.
template <class E, u32 SHARING>
INLINE void norm(Sixteen<E> *y, float *statistics, Sixteen<E> *total, const Sixteen<E> *x, const Sixteen<E> *residual,
                 const Sixteen<E> *gain, const Sixteen<E> *bias, u64 rows, u32 columns, u64 epsilon) {
    NAMES;
    u32 packs = columns / N, turn = 0;
    u64 step = (u64)gridDim.x * (THREADS / SHARING);
    for (u64 row = ((u64)blockIdx.x * THREADS + threadIdx.x) / SHARING; row < rows; row += step) {
        u64 first = row * packs;
        Held<E> held = load<E, SHARING>(x + first, packs);
        if (residual) held = add_residual<E, SHARING>(total + first, held, residual + first, packs);
        float mean, scale;
        measure<E, SHARING>(held, packs, (float)bits_as<double>(epsilon), bias != 0, turn, mean, scale);
        if (threadIdx.x % SHARING == 0) {
            statistics[2 * row] = mean;
            statistics[2 * row + 1] = scale;
        }
        EACH_PACK {
            if (!HAS_PLACE) continue;
            Sixteen<E> by = gain[PLACE], shift = {}, result = {};
            if (bias) shift = bias[PLACE];
            EACH_NUMBER result.put(c, fmaf((held.of[k].at(c) - mean) * scale, by.at(c), shift.at(c)));
            y[first + PLACE] = result;
        }
    }
}

// ---- Backward: a block takes a chunk of the rows. It leaves the chunk's sums of columns, which are then added in the chunks' order.

INLINE u64 first_of(u64 chunk, u64 rows, u32 chunks) { return rows * chunk / chunks; }

// What a thread adds up over its rows: `dy x_hat` of the gain, and dy of the bias.
template <class E>
struct Sums {
    float of[2][Held<E>::PACKS][Held<E>::N];
};
// Adds those of the warps in their order, which leaves all of it with the last one.
template <class E>
INLINE void join_warps(Sums<E> &sums) {
    NAMES;
    __shared__ float parts[2][HELD][WARP];
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (u32 turn = 0; turn < THREADS / WARP; turn++) {
        if (turn == warp) {
#pragma unroll
            for (u32 which = 0; which < 2; which++) {
                EACH_PACK EACH_NUMBER {
                    float &part = parts[which][k * N + c][lane], &own = sums.of[which][k][c];
                    if (warp > 0) own = part + own;
                    part = own;
                }
            }
        }
        __syncthreads();
    }
}
template <class E, u32 SHARING>
INLINE void leave(float *of_gain, float *of_bias, Sums<E> &sums, u32 packs) {
    NAMES;
    if constexpr (SHARING == WARP) {
        join_warps<E>(sums);
        if (threadIdx.x / WARP != THREADS / WARP - 1) return;
    }
    EACH_PACK {
        if (!HAS_PLACE) continue;
        EACH_NUMBER of_gain[PLACE * N + c] = sums.of[0][k][c];
        if (!of_bias) continue;
        EACH_NUMBER of_bias[PLACE * N + c] = sums.of[1][k][c];
    }
}
// One row. dx may be dy: each thread writes where nobody else uses what it reads.
template <class E, u32 SHARING>
INLINE void norm_gradient_of_row(Sixteen<E> *dx, Sums<E> &sums, const Sixteen<E> *x, const Sixteen<E> *dy, const float *statistics,
                                 const Sixteen<E> *gain, u32 packs, bool centred, bool accumulate, u32 &turn) {
    NAMES;
    Held<E> held = load<E, SHARING>(x, packs), slopes = load<E, SHARING>(dy, packs);
    float mean = statistics[0], scale = statistics[1], of_row[2] = {0, 0};
    EACH_PACK {
        if (!HAS_PLACE) continue;
        Sixteen<E> by = gain[PLACE];
        EACH_NUMBER {
            float hat = (held.of[k].at(c) - mean) * scale, d = slopes.of[k].at(c), weighted = d * by.at(c);
            of_row[0] += weighted;
            of_row[1] = fmaf(weighted, hat, of_row[1]);
            sums.of[0][k][c] = fmaf(d, hat, sums.of[0][k][c]);
            sums.of[1][k][c] += d;
        }
    }
    add_up<SHARING>(of_row, turn);
    float share = scale / (float)(packs * N), one = centred ? of_row[0] * share : 0, along = of_row[1] * share;
    EACH_PACK {
        if (!HAS_PLACE) continue;
        Sixteen<E> by = gain[PLACE], before = {}, result = {};
        if (accumulate) before = dx[PLACE];
        EACH_NUMBER {
            float hat = (held.of[k].at(c) - mean) * scale;
            result.put(c, before.at(c) + fmaf(slopes.of[k].at(c) * by.at(c), scale, -fmaf(hat, along, one)));
        }
        dx[PLACE] = result;
    }
}
// `of_bias` is null where the bias needs no gradient.
template <class E, u32 SHARING>
INLINE void norm_gradient(float *of_gain, float *of_bias, const Sixteen<E> *x, const Sixteen<E> *dy, const float *statistics,
                          Sixteen<E> *dx, const Sixteen<E> *gain, u64 rows, u32 columns, u32 chunks, u32 centred, u32 accumulate) {
    u32 packs = columns / Sixteen<E>::N, turn = 0;
    for (u64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        Sums<E> sums = {};
        u64 row = first_of(chunk, rows, chunks) + threadIdx.x / SHARING, end = first_of(chunk + 1, rows, chunks);
        for (; row < end; row += THREADS / SHARING) {
            u64 first = row * packs;
            norm_gradient_of_row<E, SHARING>(dx + first, sums, x + first, dy + first, statistics + 2 * row, gain, packs, centred,
                                             accumulate, turn);
        }
        u64 place = chunk * columns;
        leave<E, SHARING>(of_gain + place, of_bias ? of_bias + place : of_bias, sums, packs);
    }
}

#define KERNEL extern "C" __global__ void
// `BLOCKS` of the backward pass on a multiprocessor: registers of a block are as many as that leaves.
#define OF_TYPE(E, name, SHARING, BLOCKS)                                                                                           \
    KERNEL __launch_bounds__(THREADS) norm_##name(Sixteen<E> *y, float *statistics, Sixteen<E> *total, const Sixteen<E> *x,         \
                                                  const Sixteen<E> *residual, const Sixteen<E> *gain, const Sixteen<E> *bias,       \
                                                  u64 rows, u32 columns, u64 epsilon) {                                             \
        norm<E, SHARING>(y, statistics, total, x, residual, gain, bias, rows, columns, epsilon);                                    \
    }                                                                                                                               \
    KERNEL __launch_bounds__(THREADS, BLOCKS)                                                                                       \
        norm_gradient_##name(float *of_gain, float *of_bias, const Sixteen<E> *x, const Sixteen<E> *dy, const float *statistics,    \
                             Sixteen<E> *dx, const Sixteen<E> *gain, u64 rows, u32 columns, u32 chunks, u32 centred,                \
                             u32 accumulate) {                                                                                      \
        norm_gradient<E, SHARING>(of_gain, of_bias, x, dy, statistics, dx, gain, rows, columns, chunks, centred, accumulate);       \
    }
OF_TYPE(F32, warp_f32, WARP, 1)
OF_TYPE(F32, block_f32, THREADS, 1)
OF_TYPE(Bf16, warp_bf16, WARP, 2)
OF_TYPE(Bf16, block_bf16, THREADS, 2)
OF_TYPE(F16, warp_f16, WARP, 2)
OF_TYPE(F16, block_f16, THREADS, 2)
