// Goes through memory as STREAM's loops do (McCalpin, 1995), 16 bytes a load, and from word to word of a chain.
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
