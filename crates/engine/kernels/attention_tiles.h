// What both texts of attention by tensor cores have: where heads lie, how tiles of their rows come into shared memory, what is masked.
#pragma once
#include "attention.h"
#include "tensor.h"

#define INLINE __device__ __forceinline__
#define LOG2_E 1.4426950408889634f

INLINE u32 least(u32 a, u32 b) { return a < b ? a : b; }

// What each kernel is given, and where heads lie: a row of qkv is q | k | v.
struct Problem {
    u32 batch, sequence, heads, kv_heads, causal;
    INLINE u32 blocks_of(u32 rows) const { return (sequence + rows - 1) / rows; }
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
INLINE u32 place(u32 row, u32 eight) { return row * D + (eight ^ (D < 64 ? row / 2 % 4 : row % 8)) * 8; }

// Begins to copy the rows of a tile. Those from `end` on become zero.
template <int TILE, int COUNT, int D>
INLINE void begin_tile(u16 *tile, const Head<const u16, D> &from, u32 first, u32 end) {
#pragma unroll
    for (u32 i = 0; i < TILE * D / 8 / COUNT; i++) {
        u32 at = again(threadIdx.x) + COUNT * i, row = at / (D / 8), eight = at % (D / 8);
        bool has = first + row < end;
        begin_copy(tile + place<D>(row, eight), from.row(has ? first + row : 0) + eight * 8, has);
    }
}
// Goes through rows [first, end) in tiles, of which two of each matrix are in shared memory: `begin` begins to copy those of a stage,
// and `work` gets the stage that has come, with the number of its first row. `stage` says which comes next: everybody is done with it,
// since all have passed the barrier after it was computed with.
template <int TILE, class Begin, class Work>
INLINE void through_tiles(u32 &stage, u32 first, u32 end, Begin begin, Work work) {
    begin(stage, first);
    for (u32 row = first; row < end; row += TILE) {
        wait_for_copies();
        __syncthreads();
        u32 now = stage;
        stage ^= 1;
        if (row + TILE < end) begin(stage, row + TILE);
        work(now, row);
    }
}

// Rounds a warp's 16 rows of sums times a factor for each of a lane's two rows.
template <class E, int N, int D>
INLINE void write_rows(const Head<u16, D> &to, const float (&sums)[N][4], const float (&factor)[2], u32 first, u32 end) {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 row = first + lane / 4 + half * 8;
        if (row >= end) continue;
#pragma unroll
        for (u32 n = 0; n < N; n++) {
            u32 both = pack<E>(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
            *(u32 *)(to.row(row) + n * 8 + lane % 4 * 2) = both;
        }
    }
}

// How many columns a row sees.
INLINE u32 seen_by(const Problem &problem, u32 row) { return problem.causal ? least(row + 1, problem.sequence) : problem.sequence; }
// A column of a score of a lane, of 16 columns.
INLINE u32 column_of(u32 i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

// 1 / sqrt(D), and the same for powers of two.
template <int D>
INLINE float scale_of() { return D == 64 ? 0.125f : 0.08838834764831845f; }
