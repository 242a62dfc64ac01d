// Several numbers by one load or store, for kernels that wait for memory.
#pragma once
#include "number.h"

// f16 by the device's own conversions: those of number.h take so many instructions that kernels which wait for memory would wait for them.
template <class E>
__device__ __forceinline__ typename E::Wide wide(typename E::Kept kept) { return E::widen(kept); }
template <class E>
__device__ __forceinline__ typename E::Kept narrow(typename E::Wide value) { return E::narrow(value); }
#ifdef __CUDACC_RTC__
template <>
__device__ __forceinline__ float wide<F16>(u16 kept) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(kept));
    return value;
}
template <>
__device__ __forceinline__ u16 narrow<F16>(float value) {
    u16 kept;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(kept) : "f"(value));
    return kept;
}
#endif

// Numbers that a thread loads and stores at once.
template <class T, u32 N>
struct alignas(N * sizeof(T)) Pack {
    T of[N];
};

// 16 bytes of f32 or of 16-bit numbers: as words, since there is no load of eight 16-bit numbers.
template <class E>
struct alignas(16) Sixteen {
    typedef typename E::Kept Kept;
    enum { N = 16 / sizeof(Kept) };
    u32 words[4];
    __device__ __forceinline__ float at(u32 c) const {
        if constexpr (N == 4) return bits_as<float>(words[c]);
        else return wide<E>((Kept)(words[c / 2] >> c % 2 * 16));
    }
    // Each number once, where all were zero.
    __device__ __forceinline__ void put(u32 c, float value) {
        if constexpr (N == 4) words[c] = bits_as<u32>(value);
        else words[c / 2] |= (u32)narrow<E>(value) << c % 2 * 16;
    }
};
