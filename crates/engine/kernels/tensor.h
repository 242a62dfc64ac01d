// What sm_80 has for a warp: products of tiles of 16-bit numbers by tensor cores, their registers loaded from shared memory, and copies
// into that memory that run beside other work. The tests' emulation has the same functions (tests/fakes/warp.h).
#pragma once

#ifdef __CUDACC_RTC__

#define INSTRUCTION __device__ __forceinline__

// The same number, from which nothing is computed before it is needed: that would take registers for a whole loop.
INSTRUCTION u32 again(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

// 2^x, with results below the least normal number as zero.
INSTRUCTION float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two numbers in one register, the first in its lower half.
template <class E>
INSTRUCTION u32 pack(float low, float high);
template <>
INSTRUCTION u32 pack<Bf16>(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
template <>
INSTRUCTION u32 pack<F16>(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// d += a b: a has 16 rows of 16, b 16 rows of 8.
#define PRODUCT(type)                                                                                                        \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <class E>
INSTRUCTION void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
template <>
INSTRUCTION void multiply<Bf16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { PRODUCT("bf16"); }
template <>
INSTRUCTION void multiply<F16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { PRODUCT("f16"); }

// Shared memory of which the launch says how much there is: a text's own has 48 KiB at most.
extern __shared__ __align__(256) unsigned char of_launch[];
INSTRUCTION void *memory_of_launch() { return of_launch; }

INSTRUCTION u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }

// Four matrices of 8 x 8. Lane l says where row l%8 of matrix l/8 lies, and receives elements 2 (l%4) of row l/4 of each: of column
// l/4 where they are turned. `flip` numbers are flipped in the place: here, since to keep a place of each would take many registers.
#define MATRICES(turned)                                                                                                     \
    asm volatile("{ .reg .u32 place; xor.b32 place, %4, %5; ldmatrix.sync.aligned.m8n8.x4" turned                            \
                 ".shared.b16 {%0,%1,%2,%3}, [place]; }"                                                                     \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)), "r"(2 * flip) : "memory")
INSTRUCTION void load_matrices(u32 (&to)[4], const u16 *row, u32 flip) { MATRICES(""); }
INSTRUCTION void load_turned(u32 (&to)[4], const u16 *row, u32 flip) { MATRICES(".trans"); }

// 16 bytes into shared memory; zeros where there is nothing, and then nothing is read.
INSTRUCTION void begin_copy(u16 *to, const u16 *from, bool has) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(has ? 16 : 0) : "memory");
}
// One number of 4 bytes, likewise.
INSTRUCTION void begin_copy_of_four(float *to, const float *from, bool has) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(has ? 4 : 0) : "memory");
}
// Until all that this thread began has been copied.
INSTRUCTION void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif
