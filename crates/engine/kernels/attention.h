// What both texts of attention have.
#pragma once
#include "number.h"

// Sums over 16 lanes of a warp, always in the same order, and gives the sum to all of them.
template <class W>
__device__ __forceinline__ W sum_of_sixteen(W x) {
#pragma unroll
    for (int distance = 1; distance < 16; distance *= 2) x += __shfl_xor_sync(0xffffffff, x, distance);
    return x;
}

// delta = rowsum(d_output output), of each row of each head: 16 lanes a row.
template <class E>
__device__ __forceinline__ void delta_of(typename E::Wide *delta, const typename E::Kept *output, const typename E::Kept *d_output,
                                         u64 samples, u64 sequence, u64 heads, u32 width) {
    u64 rows = samples * sequence * heads;
    for (u64 first = (u64)blockIdx.x * 16; first < rows; first += (u64)gridDim.x * 16) {
        // In the order of the output's: row by row of a sample, all heads of each.
        u64 row = first + threadIdx.x / 16;
        typename E::Wide sum = 0;
        if (row < rows) {
            for (u32 at = threadIdx.x % 16; at < width; at += 16) {
                sum += E::widen(output[row * width + at]) * E::widen(d_output[row * width + at]);
            }
        }
        sum = sum_of_sixteen(sum);
        u64 in_all = row / heads, sample = in_all / sequence;
        if (threadIdx.x % 16 == 0 && row < rows) delta[(sample * heads + row % heads) * sequence + in_all % sequence] = sum;
    }
}
