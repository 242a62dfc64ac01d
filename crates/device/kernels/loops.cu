// Goes through memory as STREAM's loops do (McCalpin, 1995), 16 bytes a load, and from word to word of a chain; multiplies and adds in
// registers.
// One text for NVRTC (`cargo xtask ptx`) and for the tests' emulation.
typedef unsigned long long u64;

template <class Step>
__device__ __forceinline__ void in_pairs(u64 count, Step step) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, hop = (u64)gridDim.x * blockDim.x;
    for (; i < (count + 1) / 2; i += hop) step(i);
}

// c = f(a, b), element by element. The last of an odd count has no partner.
template <class F>
__device__ __forceinline__ void each(const double *a, const double *b, double *c, u64 count, F f) {
    in_pairs(count, [=](u64 i) {
        if (2 * i + 1 == count) {
            c[2 * i] = f(a[2 * i], b[2 * i]);
            return;
        }
        double2 x = ((const double2 *)a)[i], y = ((const double2 *)b)[i];
        ((double2 *)c)[i] = make_double2(f(x.x, y.x), f(x.y, y.y));
    });
}

extern "C" __global__ void loop_copy(const double *a, double *c, u64 count) {
    each(a, a, c, count, [](double x, double) { return x; });
}
extern "C" __global__ void loop_scale(const double *a, double *c, u64 count) {
    each(a, a, c, count, [](double x, double) { return 3.0 * x; });
}
extern "C" __global__ void loop_add(const double *a, const double *b, double *c, u64 count) {
    each(a, b, c, count, [](double x, double y) { return x + y; });
}
extern "C" __global__ void loop_triad(const double *a, const double *b, double *c, u64 count) {
    each(a, b, c, count, [](double x, double y) { return x + 3.0 * y; });
}

// One thread: each word of the chain says which comes next. Where it ends after so many steps is what it gives.
extern "C" __global__ void chase(const u64 *chain, u64 words, u64 steps, u64 *end) {
    u64 at = 0;
    for (u64 step = 0; step < steps && at < words; step++) at = ((const volatile u64 *)chain)[at];
    *end = at;
}

__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }

// Eight chains of multiplications and additions in registers for each thread, which begin at values of its number modulo 64; their sum
// is what it leaves.
template <class T> __device__ __forceinline__ void chains(T *sums, u64 count, unsigned rounds) {
    const T factor = T(1) - T(1) / 1024, term = T(1) / 1000;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, hop = (u64)gridDim.x * blockDim.x;
    for (; i < count; i += hop) {
        T at[8], sum = 0;
#pragma unroll
        for (int chain = 0; chain < 8; chain++) at[chain] = T(1) + T(i % 64) / 64 + T(chain) / 8;
#pragma unroll 4
        for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
            for (int chain = 0; chain < 8; chain++) at[chain] = fused(at[chain], factor, term);
        }
#pragma unroll
        for (int chain = 0; chain < 8; chain++) sum += at[chain];
        sums[i] = sum;
    }
}
extern "C" __global__ void fma_32(float *sums, u64 count, unsigned rounds) { chains(sums, count, rounds); }
extern "C" __global__ void fma_64(double *sums, u64 count, unsigned rounds) { chains(sums, count, rounds); }
