// Numbers as they lie in memory, for the kernels of this folder: their bits, and what arithmetic on them is done in.
#pragma once

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;

template <class To, class From>
__device__ __forceinline__ To bits_as(From from) {
    union { From from; To to; } bits;
    bits.from = from;
    return bits.to;
}

// Element types by the bits that they are kept in. Numbers are rounded to the nearest, and to the even of two.
struct F64 {
    typedef double Kept;
    typedef double Wide;
    static __device__ __forceinline__ double narrow(double value) { return value; }
    static __device__ __forceinline__ double widen(double kept) { return kept; }
};
struct F32 {
    typedef float Kept;
    typedef float Wide;
    static __device__ __forceinline__ float narrow(float value) { return value; }
    static __device__ __forceinline__ float widen(float kept) { return kept; }
};
struct Bf16 {
    typedef u16 Kept;
    typedef float Wide;
    static __device__ __forceinline__ u16 narrow(float value) {
        u32 bits = bits_as<u32>(value);
        if ((bits & 0x7fffffff) > 0x7f800000) return (u16)(bits >> 16 | 0x40); // a NaN stays one
        return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static __device__ __forceinline__ float widen(u16 kept) { return bits_as<float>((u32)kept << 16); }
};
// Floats of fewer bits: exponents from 1 - BIAS on, below which steps stay equal. Where INFINITE, the largest exponent is that of
// infinity and NaN; else only all ones are a NaN, and what is too large becomes one.
template <class K, int EXPONENT, int MANTISSA, bool INFINITE>
struct Small {
    typedef K Kept;
    typedef float Wide;
    enum { BIAS = (1 << (EXPONENT - 1)) - 1, SIGN = 1 << (EXPONENT + MANTISSA), ONE = 1 << MANTISSA };
    enum { ALL = SIGN - 1, INFINITY_BITS = ALL - (ONE - 1), LARGEST = INFINITE ? INFINITY_BITS - 1 : ALL - 1 };
    static __device__ __forceinline__ K narrow(float value) {
        u32 bits = bits_as<u32>(value), sign = bits >> 31 ? (u32)SIGN : 0, size = bits & 0x7fffffff;
        if (size > 0x7f800000) return (K)(sign | (INFINITE ? INFINITY_BITS | ONE >> 1 : ALL));
        int exponent = (int)(size >> 23) - 127;
        u32 mantissa = (size & 0x7fffff) | (size >> 23 ? 0x800000 : 0);
        // Bits that do not fit: more of them below the least exponent.
        int lost = 23 - MANTISSA + (exponent < 1 - BIAS ? 1 - BIAS - exponent : 0);
        u32 kept = 0;
        if (lost < 26) {
            u32 half = 1u << (lost - 1), rest = mantissa & ((1u << lost) - 1);
            kept = mantissa >> lost;
            if (rest > half || (rest == half && (kept & 1))) kept++;
        }
        // A carry goes into the exponent, as it must.
        u32 whole = exponent < 1 - BIAS ? kept : ((u32)(exponent + BIAS) << MANTISSA) + kept - ONE;
        if (whole > (u32)LARGEST) whole = INFINITE ? (u32)INFINITY_BITS : (u32)ALL;
        return (K)(sign | whole);
    }
    static __device__ __forceinline__ float widen(K kept) {
        u32 size = kept & ALL, sign = kept & SIGN ? 0x80000000u : 0, exponent = size >> MANTISSA;
        if (INFINITE ? size >= INFINITY_BITS : size == ALL) {
            return bits_as<float>(sign | 0x7f800000 | (INFINITE ? (size - INFINITY_BITS) << (23 - MANTISSA) : 0x400000));
        }
        if (exponent) return bits_as<float>(sign | ((size << (23 - MANTISSA)) + ((127 - BIAS) << 23)));
        float step = bits_as<float>((u32)(127 + 1 - BIAS - MANTISSA) << 23);
        return bits_as<float>(bits_as<u32>((float)size * step) | sign);
    }
};
typedef Small<u16, 5, 10, true> F16;
typedef Small<unsigned char, 4, 3, false> F8E4M3;

// To f32 so that rounding the result again gives what rounding once would: truncated, with the last bit set if anything was cut off.
__device__ __forceinline__ float round_to_odd(double value) {
    float near = (float)value;
    u32 inexact = (double)near != value, above = fabs((double)near) > fabs(value);
    return bits_as<float>((bits_as<u32>(near) - above) | inexact);
}
// The nearest of a type, rounded once.
template <class E>
__device__ __forceinline__ typename E::Kept nearest(double value) { return E::narrow(round_to_odd(value)); }
template <>
__device__ __forceinline__ double nearest<F64>(double value) { return value; }
template <>
__device__ __forceinline__ float nearest<F32>(double value) { return (float)value; }

#define EACH(count)                                                                                                     \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, step_of_all = (u64)gridDim.x * blockDim.x; i < (count);    \
         i += step_of_all)
