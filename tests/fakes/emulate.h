// CUDA C as C++, for kernels whose threads do not wait for each other: a grid is a loop over its threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
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

struct dim3 { unsigned x, y, z; };
struct double2 { double x, y; };
inline double2 make_double2(double x, double y) { return {x, y}; }

static thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

/// Kernels of several streams may run at the same time.
template <class T> T atomicAdd(T *to, T value) { return __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }

template <class Step> void for_each_index(dim3 size, dim3 &at, Step step) {
    for (at.z = 0; at.z < size.z; at.z++)
        for (at.y = 0; at.y < size.y; at.y++)
            for (at.x = 0; at.x < size.x; at.x++) step();
}

/// Where the host finds that many bytes of the device, aligned so; throws what is wrong with them.
using Reach = std::function<char *(uint64_t at, size_t bytes, size_t alignment)>;
using Extents = std::vector<size_t>;

struct Kernel {
    std::vector<size_t> sizes; // of its arguments
    std::function<void(dim3 grid, dim3 block, const std::vector<std::vector<char>> &values, const Reach &reach)> run;
};

/// `extents` gives, from the arguments, the bytes that must be behind each pointer: none is read or written past them.
template <class... A, class F> Kernel make_kernel(void (*function)(A...), F extents) {
    auto run = [=](dim3 grid, dim3 block, const std::vector<std::vector<char>> &values, const Reach &reach) {
        std::tuple<A...> arguments;
        auto value = values.begin();
        std::apply([&](auto &...argument) { (memcpy(&argument, (value++)->data(), sizeof argument), ...); }, arguments);
        Extents bytes = std::apply(extents, arguments);
        auto next = bytes.begin();
        auto translate = [&](auto &argument) {
            using T = std::decay_t<decltype(argument)>;
            if constexpr (std::is_pointer_v<T>)
                argument = (T)reach(uint64_t(argument), *next++, alignof(std::remove_pointer_t<T>));
        };
        std::apply([&](auto &...argument) { (translate(argument), ...); }, arguments);
        gridDim = grid;
        blockDim = block;
        for_each_index(grid, blockIdx, [&] { for_each_index(block, threadIdx, [&] { std::apply(function, arguments); }); });
    };
    return {{sizeof(A)...}, run};
}
