// The backward pass of attention.cu, in one pass over blocks of keys (Dao, 2023, algorithm 2): five products a tile. A block of threads
// sums the gradients of its keys and values in registers. What its keys add to the gradients of queries it writes apart, as f32, and to
// that it adds what the next block of keys does, where a part has several; a second kernel sums the parts in the order of the keys.
// Nothing is atomic: results have the same bits every time.
//
// A block has 4 warps, each with 32 keys, and two blocks fit a multiprocessor. Keys and values stay in shared memory, through which
// queries go in tiles. Rows are keys, and columns queries. Where heads have 128 features, two warps have the same keys: each has the
// scores of half of the queries, and the sums of half of the features.
#include "attention_tiles.h"
#include "pack.h"

#define THREADS 128
// Keys of a warp, and queries that it multiplies them with at a time.
#define OWN 32
#define STEP (32 / PARTS)
// Features whose sums a warp has.
#define SUMMED 64
#define PARTS (D / SUMMED)
#define KEYS (128 / PARTS)
#define TILE (64 / PARTS)

// The memory that a block shares: the launch says how much (shared_bytes in attention.rs).
template <int D>
struct Shared {
    u16 keys[KEYS * D], values[KEYS * D];
    // Two stages of queries and of gradients of outputs.
    u16 tiles[2][2][TILE * D];
    // Gradients of scores; and, where two warps have the same keys, probabilities.
    u16 weights[PARTS][KEYS * TILE];
    // Two stages of the logarithm of each query's sum, and of its delta.
    float numbers[2][2][TILE];
};
static_assert(sizeof(Shared<64>) == 82944 && sizeof(Shared<128>) == 74240, "as in attention.rs");

// What each block of threads adds to the gradients of queries: a part has so many blocks of keys, one after the other, and rows from the
// first query on that sees one of them.
struct Parts {
    u32 joined;
    INLINE u32 count(const Problem &problem, u32 keys) const { return problem.blocks_of(keys * joined); }
    // Rows of the parts of a head that lie before one.
    INLINE u64 rows_before(const Problem &problem, u32 keys, u32 part) const {
        u64 hidden = (u64)part * (part - 1) / 2 * joined * keys;
        return (u64)part * problem.sequence - (problem.causal && part ? hidden : 0);
    }
    // Where a row of a head lies in a part.
    INLINE u64 row(const Problem &problem, u32 keys, u32 head, u32 part, u32 row) const {
        u64 before = head * rows_before(problem, keys, count(problem, keys)) + rows_before(problem, keys, part);
        return before + row - (problem.causal ? part * joined * keys : 0);
    }
};

// A thread's places are computed where they are needed (`again`): there are no registers to keep them for a whole loop.

// sums = 32 rows of one tile times 8 N rows of another, from the first of both on.
template <class E, int D, int N>
INLINE void times_rows(float (&sums)[2][N][4], const u16 *rows, const u16 *columns) {
    u32 lane = again(threadIdx.x) % 32;
    const u16 *row = rows + place<D>(lane % 16, lane / 16), *column = columns + place<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (u32 i = 0; i < 8 * N; i++) sums[i / 4 / N][i / 4 % N][i % 4] = 0;
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        u32 a[2][4], b[4];
#pragma unroll
        for (u32 m = 0; m < 2; m++) load_matrices(a[m], row + m * 16 * D, 16 * k);
#pragma unroll
        for (u32 n = 0; n < N / 2; n++) {
            load_matrices(b, column + n * 16 * D, 16 * k);
#pragma unroll
            for (u32 m = 0; m < 2; m++) {
                multiply<E>(sums[m][2 * n], a[m], b[0], b[1]);
                multiply<E>(sums[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}
// sums += weights, of 32 rows for 16 rows of a tile, times N features of these, from `feature` on.
template <class E, int N, int D>
INLINE void add_weighted(float (&sums)[2][N / 8][4], const u32 (&weights)[2][4], const u16 *rows, u32 feature) {
    u32 lane = again(threadIdx.x) % 32;
    const u16 *own = rows + place<D>(lane % 16, lane / 16);
#pragma unroll
    for (u32 n = 0; n < N / 16; n++) {
        u32 b[4];
        load_turned(b, own, feature + 16 * n);
#pragma unroll
        for (u32 m = 0; m < 2; m++) {
            multiply<E>(sums[m][2 * n], weights[m], b[0], b[1]);
            multiply<E>(sums[m][2 * n + 1], weights[m], b[2], b[3]);
        }
    }
}
// Weights of 32 rows and 16 columns, from a column on, rounded, as a left operand.
template <class E, int N>
INLINE void round_weights(u32 (&to)[2][4], const float (&weights)[2][N][4], u32 column) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const float *two = &weights[i / 4][column / 8 + i % 4 / 2][i % 2 * 2];
        to[i / 4][i % 4] = pack<E>(two[0], two[1]);
    }
}
// Keeps such an operand in a tile, from a row and a column on.
template <int N>
INLINE void keep_weights(u16 *tile, const u32 (&weights)[2][4], u32 row, u32 column) {
    u32 lane = again(threadIdx.x) % 32;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        u32 at = place<N>(row + i / 4 * 16 + i % 2 * 8 + lane / 4, column / 8 + i % 4 / 2);
        *(u32 *)(tile + at + lane % 4 * 2) = weights[i / 4][i % 4];
    }
}

// What a warp computes of a tile of queries, from row `query` on. `first` is the block's first key.
template <class E, int D>
struct Tile {
    Shared<D> &shared;
    const Problem &problem;
    u32 first, query, stage;

    INLINE u32 own_row() const { return again(threadIdx.x) / 32 % (KEYS / OWN) * OWN; }
    INLINE u32 part() const { return threadIdx.x / 32 / (KEYS / OWN); }
    INLINE const u16 *queries() const { return shared.tiles[stage][0]; }
    INLINE const u16 *d_outputs() const { return shared.tiles[stage][1]; }

    // A number of a query: the logarithm of its sum, or its delta.
    INLINE float number(u32 which, u32 column) const { return shared.numbers[stage][which][column]; }
    // Probabilities of the queries of a step.
    INLINE void weigh(float (&weights)[2][STEP / 8][4], u32 key, u32 column) const {
        times_rows<E, D>(weights, shared.keys + own_row() * D, queries() + column * D);
        // Only at an edge, or at the diagonal, is anything masked.
        bool is_whole = key + OWN <= problem.sequence && (!problem.causal || key + OWN <= query + column + 1);
        if (!is_whole) {
#pragma unroll
            for (u32 i = 0; i < STEP; i++) {
                u32 row = key + i / 4 % 2 * 16 + i % 4 / 2 * 8 + threadIdx.x % 32 / 4;
                bool is_seen = row < seen_by(problem, query + column + i / 8 * 8 + column_of(i % 2));
                if (!is_seen) weights[i / 4 % 2][i / 8][i % 4] = bits_as<float>(0xff800000); // minus infinity
            }
        }
#pragma unroll
        for (u32 n = 0; n < STEP / 8; n++) {
            float logs[2] = {number(0, column + n * 8 + column_of(0)) * -LOG2_E, number(0, column + n * 8 + column_of(1)) * -LOG2_E};
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                float &weight = weights[i / 4][n][i % 4];
                weight = exp2_of(fmaf(weight, scale_of<D>() * LOG2_E, logs[i % 2]));
            }
        }
    }
    // Gradients of the scores of these queries, without their scale: `p (dp - delta)`.
    INLINE void derive(float (&d_scores)[2][STEP / 8][4], const float (&weights)[2][STEP / 8][4], u32 column) const {
        times_rows<E, D>(d_scores, shared.values + own_row() * D, d_outputs() + column * D);
#pragma unroll
        for (u32 n = 0; n < STEP / 8; n++) {
            float delta[2] = {number(1, column + n * 8 + column_of(0)), number(1, column + n * 8 + column_of(1))};
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                float &d_score = d_scores[i / 4][n][i % 4];
                d_score = weights[i / 4][n][i % 4] * (d_score - delta[i % 2]);
            }
        }
    }
    // Keeps gradients of scores in shared memory, and adds to those of keys and values. Where two warps have the same keys, probabilities
    // are kept, too, for add_shared.
    INLINE void add_own(float (&d_key)[2][SUMMED / 8][4], float (&d_value)[2][SUMMED / 8][4]) const {
        u32 key = first + own_row();
#pragma unroll 1
        for (u32 column = part() * STEP; column < TILE; column += PARTS * STEP) {
            u32 rounded[2][4] = {};
            // None of these keys is there, or seen by one of these queries.
            if (key >= problem.sequence || (problem.causal && query + column + STEP <= key)) {
                for (u32 i = 0; i < PARTS * STEP; i += 16) {
                    keep_weights<TILE>(shared.weights[i / STEP], rounded, own_row(), column + i % STEP);
                }
                continue;
            }
            float weights[2][STEP / 8][4], d_scores[2][STEP / 8][4];
            weigh(weights, key, column);
#pragma unroll
            for (u32 i = 0; i < STEP; i += 16) {
                round_weights<E>(rounded, weights, i);
                if (PARTS == 1) add_weighted<E, SUMMED, D>(d_value, rounded, d_outputs() + (column + i) * D, 0);
                else keep_weights<TILE>(shared.weights[PARTS - 1], rounded, own_row(), column + i);
            }
            derive(d_scores, weights, column);
#pragma unroll
            for (u32 i = 0; i < STEP; i += 16) {
                round_weights<E>(rounded, d_scores, i);
                keep_weights<TILE>(shared.weights[0], rounded, own_row(), column + i);
                if (PARTS == 1) add_weighted<E, SUMMED, D>(d_key, rounded, queries() + (column + i) * D, 0);
            }
        }
    }
    // The same from shared memory, for half of the features.
    INLINE void add_shared(float (&d_key)[2][SUMMED / 8][4], float (&d_value)[2][SUMMED / 8][4]) const {
        u32 lane = threadIdx.x % 32, from = own_row() * TILE + place<TILE>(lane % 16, lane / 16);
#pragma unroll
        for (u32 column = 0; column < TILE; column += 16) {
            u32 weights[2][4];
#pragma unroll
            for (u32 m = 0; m < 2; m++) load_matrices(weights[m], shared.weights[PARTS - 1] + from + m * 16 * TILE, column);
            add_weighted<E, SUMMED, D>(d_value, weights, d_outputs() + column * D, part() * SUMMED);
#pragma unroll
            for (u32 m = 0; m < 2; m++) load_matrices(weights[m], shared.weights[0] + from + m * 16 * TILE, column);
            add_weighted<E, SUMMED, D>(d_key, weights, queries() + column * D, part() * SUMMED);
        }
    }
    // Writes what the block's keys add to the gradients of queries: 32 queries and 32 features a warp, from row `to` on. Behind the first
    // block of a part it adds to what the same thread wrote.
    INLINE void write_queries(float *to, bool adds) const {
        u32 thread = again(threadIdx.x), lane = thread % 32, warp = thread / 32;
        u32 column = warp % (TILE / 32) * 32, feature = warp / (TILE / 32) * 32;
        to += (column + lane / 4) * D + feature + lane % 4 * 2;
        u32 rows = problem.sequence - least(problem.sequence, query + column + lane / 4);
        float sums[2][4][4];
#pragma unroll
        for (u32 i = 0; i < 16; i++) {
            u64 both = adds && i / 4 * 8 < rows ? *(const u64 *)(to + i / 4 * 8 * D + i % 4 * 8) : 0;
            sums[i / 8][i % 4][i / 4 % 2 * 2] = bits_as<float>((u32)both);
            sums[i / 8][i % 4][i / 4 % 2 * 2 + 1] = bits_as<float>((u32)(both >> 32));
        }
        const u16 *from = shared.weights[0] + place<TILE>(lane / 16 * 8 + lane % 8, column / 8 + lane / 8 % 2);
#pragma unroll 2
        for (u32 key = 0; key < KEYS; key += 16) {
            u32 weights[2][4];
#pragma unroll
            for (u32 m = 0; m < 2; m++) load_turned(weights[m], from + key * TILE, 16 * m);
            add_weighted<E, 32, D>(sums, weights, shared.keys + key * D, feature);
        }
#pragma unroll
        for (u32 i = 0; i < 16; i++) {
            const float *two = &sums[i / 8][i % 4][i / 4 % 2 * 2];
            // At once, which the compiler does not do by itself everywhere.
            u64 both = (u64)bits_as<u32>(two[1]) << 32 | bits_as<u32>(two[0]);
            if (i / 4 * 8 < rows) *(u64 *)(to + i / 4 * 8 * D + i % 4 * 8) = both;
        }
    }
};

// What a block of threads computes: a part, of a head of keys. Earlier keys are seen by more queries, where these see only what came
// before: they begin first.
struct Item {
    u32 part, kv, sample;
    INLINE Item(const Problem &problem, u32 number) {
        u32 all_heads = problem.batch * problem.kv_heads;
        part = number / all_heads;
        kv = number % all_heads % problem.kv_heads;
        sample = number % all_heads / problem.kv_heads;
    }
};

template <class E, int D>
INLINE void gradients(u16 *d_qkv, float *parts, const u16 *qkv, const u16 *d_output, const float *log_sum, const float *delta,
                      const Problem &problem, const Parts &of) {
    Shared<D> &shared = *(Shared<D> *)memory_of_launch();
    u32 stage = 0, sequence = problem.sequence, heads = problem.heads;
    for (u32 block = 0; block < of.joined; block++) {
        u32 first = (Item(problem, again(blockIdx.x)).part * of.joined + block) * KEYS;
        if (first >= sequence) break;
        // All are done with the keys before.
        __syncthreads();
        for (u32 i = 0; i < 2; i++) {
            Item own(problem, again(blockIdx.x));
            u32 index = heads + own.kv + i * problem.kv_heads;
            begin_tile<KEYS, THREADS>(i ? shared.values : shared.keys, head_of<D>(qkv, problem, own.sample, index, problem.packed()), first,
                                      sequence);
        }
        float d_key[2][SUMMED / 8][4], d_value[2][SUMMED / 8][4];
#pragma unroll
        for (u32 i = 0; i < SUMMED; i++) d_key[i / 32][i / 4 % 8][i % 4] = d_value[i / 32][i / 4 % 8][i % 4] = 0;
        for (u32 of_group = 0; of_group < again(heads) / problem.kv_heads; of_group++) {
            auto begin = [&](u32 at, u32 row) {
                Item own(problem, again(blockIdx.x));
                u32 head = own.kv * (heads / problem.kv_heads) + of_group, sample = own.sample;
                u32 which = again(threadIdx.x) / TILE, column = again(threadIdx.x) % TILE;
                begin_tile<TILE, THREADS>(shared.tiles[at][0], head_of<D>(qkv, problem, sample, head, problem.packed()), row, sequence);
                begin_tile<TILE, THREADS>(shared.tiles[at][1], head_of<D>(d_output, problem, sample, head, heads), row, sequence);
                bool has = row + column < sequence;
                const float *numbers = (which ? delta : log_sum) + (u64)(sample * heads + head) * sequence;
                if (which < 2) begin_copy_of_four(shared.numbers[at][which] + column, numbers + (has ? row + column : 0), has);
            };
            through_tiles<TILE>(stage, problem.causal ? first : 0, sequence, begin, [&](u32 at, u32 query) {
                Tile<E, D> tile = {shared, problem, first, query, at};
                tile.add_own(d_key, d_value);
                // All gradients of scores are there.
                __syncthreads();
                if (PARTS > 1) tile.add_shared(d_key, d_value);
                Item own(problem, again(blockIdx.x));
                u64 row = of.row(problem, KEYS, own.sample * heads + own.kv * (heads / problem.kv_heads) + of_group, own.part, query);
                if (parts) tile.write_queries(parts + row * D, block > 0);
            });
        }
        Item own(problem, again(blockIdx.x));
        u32 of_key = heads + own.kv, of_value = of_key + problem.kv_heads;
        float factor[2] = {scale_of<D>(), scale_of<D>()}, one[2] = {1, 1};
        u32 warp = threadIdx.x / 32, row = first + warp % (KEYS / OWN) * OWN, feature = warp / (KEYS / OWN) * SUMMED;
        Head<u16, D> key = head_of<D>(d_qkv, problem, own.sample, of_key, problem.packed());
        Head<u16, D> value = head_of<D>(d_qkv, problem, own.sample, of_value, problem.packed());
        key.at += feature;
        value.at += feature;
#pragma unroll
        for (u32 m = 0; m < 2; m++) {
            write_rows<E>(key, d_key[m], factor, row + 16 * m, sequence);
            write_rows<E>(value, d_value[m], one, row + 16 * m, sequence);
        }
    }
}

// Sums the parts of each query in the order of the keys, 4 features a thread, and rounds.
template <class E, int D>
INLINE void sum_parts(u16 *d_qkv, const float *parts, const Problem &problem, const Parts &of) {
    typedef Pack<float, 4> Four;
    EACH((u64)problem.batch * problem.heads * problem.sequence * (D / 4)) {
        u32 feature = i % (D / 4) * 4, row = i / (D / 4) % problem.sequence, head = i / (D / 4) / problem.sequence;
        u32 seen = problem.causal ? row / (KEYS * of.joined) + 1 : of.count(problem, KEYS);
        Four sum = {};
#pragma unroll 4
        for (u32 part = 0; part < seen; part++) {
            Four add = *(const Four *)(parts + of.row(problem, KEYS, head, part, row) * D + feature);
            for (u32 c = 0; c < 4; c++) sum.of[c] += add.of[c];
        }
        Head<u16, D> to = head_of<D>(d_qkv, problem, head / problem.heads, head % problem.heads, problem.packed());
        u64 low = pack<E>(sum.of[0] * scale_of<D>(), sum.of[1] * scale_of<D>());
        u64 high = pack<E>(sum.of[2] * scale_of<D>(), sum.of[3] * scale_of<D>());
        *(u64 *)(to.row(row) + feature) = high << 32 | low;
    }
}

#define SIZES u32 batch, u32 sequence, u32 heads, u32 kv_heads, u32 causal
#define OF_HEADS(E, name, D)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(256, 1)                                                                               \
        attention_delta_##name##_##D(float *delta, const u16 *output, const u16 *d_output, SIZES) {                                    \
        delta_of<E>(delta, output, d_output, batch, sequence, heads, D);                                                               \
    }                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                                           \
        attention_gradient_##name##_##D(u16 *d_qkv, float *parts, const u16 *qkv, const u16 *d_output, const float *log_sum,           \
                                        const float *delta, SIZES, u32 joined) {                                                       \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        Parts of = {joined};                                                                                                           \
        gradients<E, D>(d_qkv, parts, qkv, d_output, log_sum, delta, problem, of);                                                     \
    }                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256, 1)                                                                               \
        attention_sum_##name##_##D(u16 *d_qkv, const float *parts, SIZES, u32 joined) {                                                \
        Problem problem = {batch, sequence, heads, kv_heads, causal};                                                                  \
        Parts of = {joined};                                                                                                           \
        sum_parts<E, D>(d_qkv, parts, problem, of);                                                                                    \
    }
OF_HEADS(Bf16, bf16, 64)
OF_HEADS(Bf16, bf16, 128)
OF_HEADS(F16, f16, 64)
OF_HEADS(F16, f16, 128)
