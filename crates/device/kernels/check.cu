// Writes patterns into device memory and compares them there, element by element and bit by bit: no buffer crosses the bus.
// Element i of a buffer is table[(phase + i) % period]. One text for NVRTC (`cargo xtask ptx`) and for the tests' emulation.
typedef unsigned long long u64;
typedef unsigned int u32;

// Elements that differ, and the indices of up to eight of them, in no order.
struct Found {
    u64 wrong;
    u32 kept;
    u32 unused;
    u64 index[8];
};

template <class T>
__device__ __forceinline__ void fill(T *to, const T *table, u64 count, u32 period, u32 phase) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x;
    u32 at = (u32)((phase + i) % period), hop = (u32)(step % period);
    for (; i < count; i += step) {
        to[i] = table[at];
        at += hop;
        if (at >= period) at -= period;
    }
}

template <class T>
__device__ __forceinline__ void compare(const T *held, const T *table, u64 count, u32 period, u32 phase, Found *found) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x;
    u32 at = (u32)((phase + i) % period), hop = (u32)(step % period);
    u64 wrong = 0;
    for (; i < count; i += step) {
        if (held[i] != table[at]) {
            wrong++;
            u32 place = atomicAdd(&found->kept, 1u);
            if (place < 8) found->index[place] = i;
        }
        at += hop;
        if (at >= period) at -= period;
    }
    if (wrong) atomicAdd(&found->wrong, wrong);
}

#define OF_WIDTH(T, bits)                                                                                               \
    extern "C" __global__ void fill_##bits(T *to, const T *table, u64 count, u32 period, u32 phase) {                   \
        fill(to, table, count, period, phase);                                                                          \
    }                                                                                                                   \
    extern "C" __global__ void compare_##bits(const T *held, const T *table, u64 count, u32 period, u32 phase,          \
                                              Found *found) {                                                           \
        compare(held, table, count, period, phase, found);                                                              \
    }
OF_WIDTH(unsigned char, 8)
OF_WIDTH(unsigned short, 16)
OF_WIDTH(u32, 32)
OF_WIDTH(u64, 64)
