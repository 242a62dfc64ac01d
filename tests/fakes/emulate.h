// CUDA C as C++. A grid is a loop over its blocks and their threads, in one of four orders; a kernel whose threads wait for each
// other (make_block_kernel) has a stack for each thread of a block (block.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>
#include <cmath>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
/// Blocks run one after the other: a block finds what the last one left.
#define __shared__ static thread_local
/// Named by its line, so that a test can take it away.
#define __syncthreads() wait_for_block(__LINE__)

struct dim3 { unsigned x, y, z; };
struct double2 { double x, y; };
inline double2 make_double2(double x, double y) { return {x, y}; }

static thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

/// Kernels of several streams may run at the same time.
template <class T> T atomicAdd(T *to, T value) { return __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }

/// Thrown by work that fails, as cuda.h numbers it.
constexpr int ILLEGAL_USE = 719, UNALIGNED = 716, OUT_OF_REACH = 700;

/// Memory that each block shares, of which its launch says how much: NaN of every type at first. Nobody may write behind it.
struct LaunchedMemory {
    static constexpr size_t ALIGNMENT = 256, BEHIND = 4096;
    std::vector<char> held;
    size_t bytes = 0;
    char *at() { return (char *)((uintptr_t(held.data()) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT); }
    void begin(size_t of_launch) { bytes = of_launch, held.assign(bytes ? bytes + BEHIND + ALIGNMENT : 0, '\xff'); }
    void begin_block() { if (bytes) memset(at(), 0xff, bytes); }
    void end_block() {
        if (bytes && std::any_of(at() + bytes, at() + bytes + BEHIND, [](char behind) { return behind != '\xff'; })) throw OUT_OF_REACH;
    }
};
static thread_local LaunchedMemory launched_memory;
inline void *memory_of_launch() { return launched_memory.at(); }

inline int number_of(const char *variable) { const char *given = getenv(variable); return given ? atoi(given) : 0; }
/// FAKE_CUDA_ORDER: 0 ascending, 1 descending, 2 and 3 two shuffles. FAKE_CUDA_SKIP_BARRIER: the line of a barrier that does nothing.
static thread_local int order_of_threads = number_of("FAKE_CUDA_ORDER"), skipped_barrier = number_of("FAKE_CUDA_SKIP_BARRIER");

inline std::vector<unsigned> ordered(unsigned count) {
    std::vector<unsigned> all(count);
    for (unsigned i = 0; i < count; i++) all[i] = i;
    if (order_of_threads == 1) std::reverse(all.begin(), all.end());
    uint64_t state = uint64_t(order_of_threads) * 0x9e3779b97f4a7c15;
    for (unsigned left = order_of_threads > 1 ? count : 0; left > 1; left--) {
        state = state * 6364136223846793005 + 1442695040888963407;
        std::swap(all[left - 1], all[(state >> 33) % left]);
    }
    return all;
}
template <class Step> void for_each_index(dim3 size, dim3 &at, Step step) {
    for (unsigned i : ordered(size.x * size.y * size.z)) {
        at = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        step();
    }
}

#include "block.h"

/// Where the host finds that many bytes of the device, aligned so; throws what is wrong with them.
using Reach = std::function<char *(uint64_t at, size_t bytes, size_t alignment)>;
using Extents = std::vector<size_t>;

struct Kernel {
    std::vector<size_t> sizes; // of its arguments
    std::function<void(dim3 grid, dim3 block, size_t shared, const std::vector<std::vector<char>> &values, const Reach &reach)> run;
};

/// `extents` gives, from the arguments, the bytes that must be behind each pointer: none is read or written past them. Null stays null
/// where no byte is needed.
template <bool WAITS, class... A, class F> Kernel make_any_kernel(void (*function)(A...), F extents) {
    auto run = [=](dim3 grid, dim3 block, size_t shared, const std::vector<std::vector<char>> &values, const Reach &reach) {
        std::tuple<A...> arguments;
        auto value = values.begin();
        std::apply([&](auto &...argument) { (memcpy(&argument, (value++)->data(), sizeof argument), ...); }, arguments);
        Extents bytes = std::apply(extents, arguments);
        auto next = bytes.begin();
        auto translate = [&](auto &argument) {
            using T = std::decay_t<decltype(argument)>;
            if constexpr (std::is_pointer_v<T>) {
                size_t needed = *next++;
                if (argument || needed) argument = (T)reach(uint64_t(argument), needed, alignof(std::remove_pointer_t<T>));
            }
        };
        std::apply([&](auto &...argument) { (translate(argument), ...); }, arguments);
        gridDim = grid;
        blockDim = block;
        auto thread = [&] { std::apply(function, arguments); };
        if (WAITS && (block.y != 1 || block.z != 1)) throw ILLEGAL_USE;
        launched_memory.begin(shared);
        for_each_index(grid, blockIdx, [&] {
            launched_memory.begin_block();
            if constexpr (WAITS) block_of_threads().run(thread);
            else for_each_index(block, threadIdx, thread);
            launched_memory.end_block();
        });
    };
    return {{sizeof(A)...}, run};
}
template <class... A, class F> Kernel make_kernel(void (*function)(A...), F extents) {
    return make_any_kernel<false>(function, extents);
}
/// Threads of a block wait for each other, and share memory.
template <class... A, class F> Kernel make_block_kernel(void (*function)(A...), F extents) {
    return make_any_kernel<true>(function, extents);
}
