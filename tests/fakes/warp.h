// What engine/kernels/tensor.h and shuffles do, emulated: the lanes of a warp meet, and one does the work of all as the manual of PTX
// lays out their registers. Each is named by the line of its caller.
#pragma once

#include "block.h"
#include "engine/kernels/number.h"

inline u32 again(u32 x) { return x; }
inline float exp2_of(float x) { return exp2f(x); }

template <class T> T __shfl_xor_sync(unsigned mask, T value, int distance, int line = __builtin_LINE()) {
    struct Part { T value, other; int distance; } mine{value, value, distance};
    if (mask != ~0u) throw ILLEGAL_USE;
    meet(mine, line, [](void *const *brought) {
        auto lane = [&](unsigned i) { return (Part *)brought[i]; };
        for (unsigned i = 0; i < LANES; i++) lane(i)->other = lane((i ^ lane(i)->distance) % LANES)->value;
    });
    return mine.other;
}

/// Two numbers in one register, the first in its lower half.
template <class E> u32 pack(float low, float high) { return E::narrow(low) | (u32)E::narrow(high) << 16; }

/// d += a b: a has 16 rows of 16, b 16 rows of 8. Lane l has, of a, rows l/4 and l/4 + 8 and columns 2 (l%4) and 8 more; of b, the
/// same columns as rows, and column l/4; of d, the rows of a, and columns 2 (l%4).
template <class E> void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, int line = __builtin_LINE()) {
    struct Part { float *d; const u32 *a; u32 b[2]; } mine{d, a, {b0, b1}};
    meet(mine, line, [](void *const *brought) {
        float a[16][16], b[8][16];
        auto number = [](u32 two, unsigned which) { return E::widen(u16(two >> 16 * which)); };
        for (unsigned l = 0; l < LANES; l++) {
            auto &of = *(Part *)brought[l];
            unsigned group = l / 4, at = l % 4 * 2;
            for (unsigned i = 0; i < 4; i++)
                for (unsigned w = 0; w < 2; w++) a[group + i % 2 * 8][at + i / 2 * 8 + w] = number(of.a[i], w);
            for (unsigned i = 0; i < 2; i++)
                for (unsigned w = 0; w < 2; w++) b[group][at + i * 8 + w] = number(of.b[i], w);
        }
        for (unsigned l = 0; l < LANES; l++)
            for (unsigned i = 0; i < 4; i++) {
                const float *row = a[l / 4 + i / 2 * 8], *column = b[l % 4 * 2 + i % 2];
                float sum = ((Part *)brought[l])->d[i];
                for (unsigned k = 0; k < 16; k++) sum += row[k] * column[k];
                ((Part *)brought[l])->d[i] = sum;
            }
    });
}

/// Four matrices of 8 x 8. Lane l says where row l%8 of matrix l/8 lies, and receives elements 2 (l%4) of row l/4 of each: of column
/// l/4 where they are turned. `flip` numbers are flipped in the place.
template <bool TURNED> void fetch_matrices(u32 (&to)[4], const u16 *row, u32 flip, int line) {
    row = (const u16 *)((uintptr_t)row ^ 2 * flip);
    struct Part { u32 *to; const u16 *row; } mine{to, row};
    if ((uintptr_t)row % 16) throw UNALIGNED;
    meet(mine, line, [](void *const *brought) {
        for (unsigned l = 0; l < LANES; l++)
            for (unsigned matrix = 0; matrix < 4; matrix++) {
                auto at = [&](unsigned i, unsigned j) { return ((Part *)brought[matrix * 8 + i])->row[j]; };
                unsigned i = l / 4, j = l % 4 * 2;
                u32 low = TURNED ? at(j, i) : at(i, j), high = TURNED ? at(j + 1, i) : at(i, j + 1);
                ((Part *)brought[l])->to[matrix] = low | high << 16;
            }
    });
}
inline void load_matrices(u32 (&to)[4], const u16 *row, u32 flip, int line = __builtin_LINE()) {
    fetch_matrices<false>(to, row, flip, line);
}
inline void load_turned(u32 (&to)[4], const u16 *row, u32 flip, int line = __builtin_LINE()) {
    fetch_matrices<true>(to, row, flip, line);
}

/// 16 bytes into shared memory; zeros where there is nothing.
inline void begin_copy(u16 *to, const u16 *from, bool has) {
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16) throw UNALIGNED;
    waiting_block().running->copies.push_back({to, has ? from : nullptr, 16});
}
/// 4 bytes, likewise.
inline void begin_copy_of_four(float *to, const float *from, bool has) {
    if ((uintptr_t)to % 4 || (uintptr_t)from % 4) throw UNALIGNED;
    waiting_block().running->copies.push_back({to, has ? from : nullptr, 4});
}
/// Until all that this thread began has been copied.
inline void finish_copies(int line) {
    if (line == skipped_barrier) return;
    auto &copies = waiting_block().running->copies;
    for (auto &copy : copies) copy.from ? memcpy(copy.to, copy.from, copy.bytes) : memset(copy.to, 0, copy.bytes);
    copies.clear();
}
#define wait_for_copies() finish_copies(__LINE__)
