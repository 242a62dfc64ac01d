// Batch norm and pooling over images whose channels lie next to each other (NHWC), as the host's kernels do them
// (crates/engine/src/kernels/spatial). No sum is atomic: each is added in an order that follows from the sizes alone.
// One text for NVRTC (`cargo xtask ptx`) and for the tests' emulation. All of it waits for memory: a thread takes N channels at once
// (16 bytes, 8 of 16-bit types), neighbouring threads take neighbouring channels, and several rows are loaded before the first is used.
#include "pack.h"

#define INLINE __device__ __forceinline__

INLINE float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
INLINE double fma_of(double a, double b, double c) { return fma(a, b, c); }

#define EACH_CHANNEL _Pragma("unroll") for (u32 c = 0; c < N; c++)

// Rows that a thread adds up in the type of the arithmetic before it carries their sum to f64, as the host does it.
#define SHORT 16

// Every step-th row from `row` on, AHEAD of which are loaded before the first is used: as many as registers allow without fewer threads.
// Behind the end, the first is loaded again and not used.
template <u32 AHEAD, class Held, class Load, class Use>
INLINE void each_row(u64 row, u64 end, u64 step, Load load, Use use) {
    for (; row < end; row += AHEAD * step) {
        Held held[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) held[k] = load(row + k * step < end ? row + k * step : row);
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (row + k * step < end) use(row + k * step, held[k]);
        }
    }
}
template <class P>
struct Two {
    P a, b;
};
template <class P>
struct Three {
    P a, b, c;
};

// ---- Two sums a channel: each block leaves those of a chunk of rows and a tile of channels, and the chunks' are then added in order

INLINE u64 first_of(u64 chunk, u64 rows, u32 chunks) { return rows * chunk / chunks; }

// A tile has `width` groups of N channels, a power of two and at most 32, and 256 / width rows at a time. `add` adds to two sums of
// each channel of a group those of every step-th row.
template <class W, u32 N, class Add>
INLINE void column_sums(double *partials, u64 rows, u32 channels, u32 chunks, u32 width, Add add) {
    __shared__ double parts[2 * N][256];
    u32 groups = channels / N, tiles = (groups + width - 1) / width, lanes = 256 / width;
    u32 own = threadIdx.x % width, lane = threadIdx.x / width;
    for (u64 unit = blockIdx.x; unit < (u64)tiles * chunks; unit += gridDim.x) {
        u64 chunk = unit / tiles, end = first_of(chunk + 1, rows, chunks), group = unit % tiles * width + own;
        double totals[2 * N] = {};
        for (u64 row = first_of(chunk, rows, chunks) + lane; row < end && group < groups; row += SHORT * lanes) {
            u64 stop = row + SHORT * lanes;
            W sums[N] = {}, products[N] = {};
            add((u32)group, row, stop < end ? stop : end, lanes, sums, products);
            EACH_CHANNEL {
                totals[c] += sums[c];
                totals[N + c] += products[c];
            }
        }
#pragma unroll
        for (u32 k = 0; k < 2 * N; k++) parts[k][threadIdx.x] = totals[k];
        __syncthreads();
        // A thread for each sum of the tile: there are at least 2 N lanes.
        if (lane < 2 * N && group < groups) {
            double all = 0;
            for (u32 each = 0; each < lanes; each++) all += parts[lane][each * width + own];
            partials[(2 * chunk + lane / N) * channels + group * N + lane % N] = all;
        }
        __syncthreads();
    }
}
// Adds the chunks' sums, 8 columns a block. With `deviations` the second sums are then multiplied by them.
template <class S>
INLINE void add_chunks(double *sums, const double *partials, const S *deviations, u32 channels, u32 chunks) {
    __shared__ double parts[256];
    u64 columns = 2 * (u64)channels;
    u32 own = threadIdx.x % 8, lane = threadIdx.x / 8;
    for (u64 first = 8 * (u64)blockIdx.x; first < columns; first += 8 * (u64)gridDim.x) {
        u64 column = first + own;
        double all = 0;
        if (column < columns) {
#pragma unroll 4
            for (u64 chunk = lane; chunk < chunks; chunk += 32) all += partials[chunk * columns + column];
        }
        parts[threadIdx.x] = all;
        __syncthreads();
        if (lane == 0 && column < columns) {
            for (u32 each = 1; each < 32; each++) all += parts[8 * each + own];
            sums[column] = deviations && column >= channels ? all * deviations[column - channels] : all;
        }
        __syncthreads();
    }
}

// ---- Batch norm. Statistics are a mean of each channel, then one over its deviation.

// Sums, and sums of squares.
template <class E, u32 N>
INLINE void batch_norm_sums(double *partials, const Pack<typename E::Kept, N> *x, u64 rows, u32 channels, u32 chunks, u32 width) {
    typedef Pack<typename E::Kept, N> P;
    typedef typename E::Wide W;
    u32 groups = channels / N;
    column_sums<W, N>(partials, rows, channels, chunks, width, [&](u32 group, u64 row, u64 end, u32 step, W (&sums)[N], W (&squares)[N]) {
        auto load = [&](u64 at) { return x[at * groups + group]; };
        each_row<4, P>(row, end, step, load, [&](u64, const P &held) {
            EACH_CHANNEL {
                W value = wide<E>(held.of[c]);
                sums[c] += value;
                squares[c] = fma_of(value, value, squares[c]);
            }
        });
    });
}
// Sums of dy and of dy (x - mean). Where there is a y, dy becomes zero first where y is not above zero.
template <class E, u32 N>
INLINE void batch_norm_gradient_sums(double *partials, Pack<typename E::Kept, N> *dy, const Pack<typename E::Kept, N> *x,
                                     const Pack<typename E::Kept, N> *y, const typename E::Wide *statistics, u64 rows, u32 channels,
                                     u32 chunks, u32 width) {
    typedef Pack<typename E::Kept, N> P;
    typedef typename E::Wide W;
    u32 groups = channels / N;
    // Loaded again rather than in a branch, which would keep loads apart.
    const P *mask = y ? y : dy;
    column_sums<W, N>(partials, rows, channels, chunks, width, [&](u32 group, u64 row, u64 end, u32 step, W (&sums)[N], W (&products)[N]) {
        W mean[N];
        EACH_CHANNEL mean[c] = statistics[group * N + c];
        auto load = [&](u64 at) {
            u64 place = at * groups + group;
            return Three<P>{x[place], mask[place], dy[place]};
        };
        each_row<2, Three<P>>(row, end, step, load, [&](u64 at, const Three<P> &held) {
            P masked;
            EACH_CHANNEL {
                W d = !y || wide<E>(held.b.of[c]) > 0 ? wide<E>(held.c.of[c]) : 0;
                masked.of[c] = narrow<E>(d);
                sums[c] += d;
                products[c] = fma_of(d, wide<E>(held.a.of[c]) - mean[c], products[c]);
            }
            if (y) dy[at * groups + group] = masked;
        });
    });
}
// From sums over `count` rows. `epsilon` are the bits of an f64.
template <class S>
INLINE void batch_norm_statistics(S *statistics, const double *sums, u64 count, u32 channels, u64 epsilon) {
    EACH(channels) {
        double mean = sums[i] / (double)count, square = sums[channels + i] / (double)count;
        statistics[i] = (S)mean;
        // Rounding may leave less than nothing of a channel that never changes.
        statistics[channels + i] = (S)(1 / sqrt(fmax(square - mean * mean, 0.0) + bits_as<double>(epsilon)));
    }
}
// What is the same for all rows of a gradient, by few threads: f64 is slow on many devices.
template <class S>
INLINE void batch_norm_means(S *means, const double *sums, const S *statistics, u64 count, u32 channels) {
    EACH(channels) {
        means[i] = (S)(sums[i] / (double)count);
        means[channels + i] = (S)(sums[channels + i] / (double)count * (double)statistics[channels + i]);
    }
}
template <class S>
INLINE void batch_norm_parameters(S *d_gain, S *d_bias, const double *sums, u32 channels, u32 accumulate) {
    EACH(channels) {
        d_gain[i] = (S)sums[channels + i] + (accumulate ? d_gain[i] : 0);
        d_bias[i] = (S)sums[i] + (accumulate ? d_bias[i] : 0);
    }
}

// Gives each thread a group of channels and every step-th row, so that what threads load together lies together.
template <class Visit>
INLINE void share_rows(u32 groups, Visit visit) {
    u64 threads = (u64)gridDim.x * blockDim.x, step = threads < groups ? 1 : threads / groups;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < step * groups; i += threads) visit((u32)(i % groups), i / groups, step);
}
// y may be the residual, which may be null.
template <class E, u32 N>
INLINE void batch_norm(Pack<typename E::Kept, N> *y, const Pack<typename E::Kept, N> *x, const Pack<typename E::Kept, N> *residual,
                       const typename E::Wide *statistics, const typename E::Kept *gain, const typename E::Kept *bias, u64 rows,
                       u32 channels, u32 relu) {
    typedef Pack<typename E::Kept, N> P;
    typedef typename E::Wide W;
    u32 groups = channels / N;
    const P *added = residual ? residual : x;
    share_rows(groups, [&](u32 group, u64 row, u64 step) {
        W mean[N], scale[N], shift[N];
        EACH_CHANNEL {
            u64 channel = (u64)group * N + c;
            mean[c] = statistics[channel];
            scale[c] = statistics[channels + channel] * wide<E>(gain[channel]);
            shift[c] = wide<E>(bias[channel]);
        }
        auto load = [&](u64 at) { return Two<P>{x[at * groups + group], added[at * groups + group]}; };
        each_row<4, Two<P>>(row, rows, step, load, [&](u64 at, const Two<P> &held) {
            P to;
            EACH_CHANNEL {
                W value = fma_of(wide<E>(held.a.of[c]) - mean[c], scale[c], shift[c]);
                if (residual) value += wide<E>(held.b.of[c]);
                // NaN stays NaN.
                to.of[c] = narrow<E>(relu && value <= 0 ? 0 : value);
            }
            y[at * groups + group] = to;
        });
    });
}
// dx may be dy. `means` are those of dy, then those of dy x_hat times one over the deviation.
template <class E, u32 N>
INLINE void batch_norm_gradient(Pack<typename E::Kept, N> *dx, const Pack<typename E::Kept, N> *x, const Pack<typename E::Kept, N> *dy,
                                const typename E::Wide *statistics, const typename E::Kept *gain, const typename E::Wide *means,
                                u64 rows, u32 channels) {
    typedef Pack<typename E::Kept, N> P;
    typedef typename E::Wide W;
    u32 groups = channels / N;
    share_rows(groups, [&](u32 group, u64 row, u64 step) {
        W mean[N], scale[N], shift[N], slope[N];
        EACH_CHANNEL {
            u64 channel = (u64)group * N + c;
            mean[c] = statistics[channel];
            scale[c] = statistics[channels + channel] * wide<E>(gain[channel]);
            shift[c] = means[channel];
            slope[c] = means[channels + channel];
        }
        auto load = [&](u64 at) { return Two<P>{x[at * groups + group], dy[at * groups + group]}; };
        each_row<4, Two<P>>(row, rows, step, load, [&](u64 at, const Two<P> &held) {
            P to;
            EACH_CHANNEL {
                W off = wide<E>(held.a.of[c]) - mean[c];
                to.of[c] = narrow<E>(fma_of(-off, slope[c], wide<E>(held.b.of[c]) - shift[c]) * scale[c]);
            }
            dx[at * groups + group] = to;
        });
    });
}

// ---- Pooling. Gradients are gathered: a thread looks at the windows that hold its pixel, in their order.

struct Pooled {
    u32 batch, groups, height, width, out_height, out_width, kernel, stride, padding;
};
struct Range {
    u32 from, end;
};
// The pixels of a window along one axis of so many pixels.
INLINE Range pixels_of(const Pooled &of, u32 window, u32 size) {
    u32 first = window * of.stride, end = first + of.kernel - of.padding;
    return {first > of.padding ? first - of.padding : 0, end < size ? end : size};
}
// The windows that hold a pixel along one axis of so many windows.
INLINE Range windows_of(const Pooled &of, u32 pixel, u32 count) {
    u32 at = pixel + of.padding, end = at / of.stride + 1;
    return {at < of.kernel ? 0 : (at - of.kernel) / of.stride + 1, end < count ? end : count};
}
// Where a group of channels lies: its place among all of them, its image, row and column, and itself.
struct Place {
    u64 at, image;
    u32 y, x, group;
};
// Calls for each group of images of so many pixels. A block takes 256 of one image: so no division has 64 bits, which are slow.
template <class Visit>
INLINE void each_place(const Pooled &of, u32 height, u32 width, Visit visit) {
    u32 groups = height * width * of.groups, blocks = (groups + 255) / 256;
    for (u64 block = blockIdx.x; block < (u64)of.batch * blocks; block += gridDim.x) {
        u32 image = (u32)block / blocks, own = (u32)block % blocks * 256 + threadIdx.x, pixel = own / of.groups;
        if (own < groups) visit(Place{(u64)image * groups + own, image, pixel / width, pixel % width, own % of.groups});
    }
}
// Calls for each pixel of a thread's window, in their order, with its number in its image.
template <class Visit>
INLINE void each_pixel(const Pooled &of, Range rows, Range columns, Visit visit) {
    for (u32 y = rows.from; y < rows.end; y++) {
        for (u32 x = columns.from; x < columns.end; x++) visit(y * of.width + x);
    }
}
// Calls for each window that holds a thread's pixel, in their order, with its place among all groups of windows.
template <class Visit>
INLINE void each_window(const Pooled &of, const Place &at, Visit visit) {
    Range rows = windows_of(of, at.y, of.out_height), columns = windows_of(of, at.x, of.out_width);
    for (u32 y = rows.from; y < rows.end; y++) {
        for (u32 x = columns.from; x < columns.end; x++) {
            visit(((at.image * of.out_height + y) * of.out_width + x) * of.groups + at.group, y, x);
        }
    }
}

template <class E, u32 N>
INLINE void max_pool(Pack<typename E::Kept, N> *y, Pack<int, N> *index, const Pack<typename E::Kept, N> *x, const Pooled &of) {
    typedef Pack<typename E::Kept, N> P;
    each_place(of, of.out_height, of.out_width, [&](const Place &at) {
        Range rows = pixels_of(of, at.y, of.height), columns = pixels_of(of, at.x, of.width);
        const P *image = x + at.image * of.height * of.width * of.groups + at.group;
        u32 first = rows.from * of.width + columns.from;
        P best = image[(u64)first * of.groups];
        Pack<int, N> where;
        EACH_CHANNEL where.of[c] = (int)first;
        each_pixel(of, rows, columns, [&](u32 pixel) {
            P held = image[(u64)pixel * of.groups];
            EACH_CHANNEL {
                // What is larger, or not a number; the first of equals stays.
                typename E::Wide value = wide<E>(held.of[c]);
                if (value > wide<E>(best.of[c]) || value != value) {
                    best.of[c] = held.of[c];
                    where.of[c] = (int)pixel;
                }
            }
        });
        y[at.at] = best;
        index[at.at] = where;
    });
}
template <class E, u32 N>
INLINE void max_pool_gradient(Pack<typename E::Kept, N> *dx, const Pack<typename E::Kept, N> *dy, const Pack<int, N> *index,
                              const Pooled &of) {
    typedef Pack<typename E::Kept, N> P;
    each_place(of, of.height, of.width, [&](const Place &at) {
        int pixel = (int)(at.y * of.width + at.x);
        typename E::Wide sums[N] = {};
        each_window(of, at, [&](u64 window, u32, u32) {
            P held = dy[window];
            Pack<int, N> where = index[window];
            EACH_CHANNEL sums[c] += where.of[c] == pixel ? wide<E>(held.of[c]) : 0;
        });
        P to;
        EACH_CHANNEL to.of[c] = narrow<E>(sums[c]);
        dx[at.at] = to;
    });
}
// One over the pixels of a window: a border is not counted.
template <class W>
INLINE W share_of(Range rows, Range columns) { return (W)1 / (W)((rows.end - rows.from) * (columns.end - columns.from)); }
template <class E, u32 N>
INLINE void average_pool(Pack<typename E::Kept, N> *y, const Pack<typename E::Kept, N> *x, const Pooled &of) {
    typedef Pack<typename E::Kept, N> P;
    each_place(of, of.out_height, of.out_width, [&](const Place &at) {
        Range rows = pixels_of(of, at.y, of.height), columns = pixels_of(of, at.x, of.width);
        const P *image = x + at.image * of.height * of.width * of.groups + at.group;
        typename E::Wide sums[N] = {};
        each_pixel(of, rows, columns, [&](u32 pixel) {
            P held = image[(u64)pixel * of.groups];
            EACH_CHANNEL sums[c] += wide<E>(held.of[c]);
        });
        typename E::Wide share = share_of<typename E::Wide>(rows, columns);
        P to;
        EACH_CHANNEL to.of[c] = narrow<E>(sums[c] * share);
        y[at.at] = to;
    });
}
template <class E, u32 N>
INLINE void average_pool_gradient(Pack<typename E::Kept, N> *dx, const Pack<typename E::Kept, N> *dy, const Pooled &of) {
    typedef Pack<typename E::Kept, N> P;
    each_place(of, of.height, of.width, [&](const Place &at) {
        typename E::Wide sums[N] = {};
        each_window(of, at, [&](u64 window, u32 y, u32 x) {
            typename E::Wide share = share_of<typename E::Wide>(pixels_of(of, y, of.height), pixels_of(of, x, of.width));
            P held = dy[window];
            EACH_CHANNEL sums[c] = fma_of(wide<E>(held.of[c]), share, sums[c]);
        });
        P to;
        EACH_CHANNEL to.of[c] = narrow<E>(sums[c]);
        dx[at.at] = to;
    });
}

// ---- The kernels, by the types that they are for, and by the channels that a thread takes at once

#define KERNEL extern "C" __global__ void __launch_bounds__(256)
// At least three blocks a multiprocessor: ptxas is then free to take 80 registers, where else it spills some to have 48.
#define POOL extern "C" __global__ void __launch_bounds__(256, 3)
#define POOLED u32 batch, u32 groups, u32 height, u32 width, u32 out_height, u32 out_width, u32 kernel, u32 stride, u32 padding
#define AS_POOLED Pooled{batch, groups, height, width, out_height, out_width, kernel, stride, padding}
#define OF_PACK(E, N, name)                                                                                                          \
    typedef Pack<E::Kept, N> Of_##name;                                                                                              \
    KERNEL batch_norm_sums_##name(double *partials, const Of_##name *x, u64 rows, u32 channels, u32 chunks, u32 width) {             \
        batch_norm_sums<E, N>(partials, x, rows, channels, chunks, width);                                                           \
    }                                                                                                                                \
    KERNEL batch_norm_gradient_sums_##name(double *partials, Of_##name *dy, const Of_##name *x, const Of_##name *y,                  \
                                           const E::Wide *statistics, u64 rows, u32 channels, u32 chunks, u32 width) {               \
        batch_norm_gradient_sums<E, N>(partials, dy, x, y, statistics, rows, channels, chunks, width);                               \
    }                                                                                                                                \
    KERNEL batch_norm_##name(Of_##name *y, const Of_##name *x, const Of_##name *residual, const E::Wide *statistics,                 \
                             const E::Kept *gain, const E::Kept *bias, u64 rows, u32 channels, u32 relu) {                           \
        batch_norm<E, N>(y, x, residual, statistics, gain, bias, rows, channels, relu);                                              \
    }                                                                                                                                \
    KERNEL batch_norm_gradient_##name(Of_##name *dx, const Of_##name *x, const Of_##name *dy, const E::Wide *statistics,             \
                                      const E::Kept *gain, const E::Wide *means, u64 rows, u32 channels) {                           \
        batch_norm_gradient<E, N>(dx, x, dy, statistics, gain, means, rows, channels);                                               \
    }                                                                                                                                \
    POOL max_pool_##name(Of_##name *y, Pack<int, N> *index, const Of_##name *x, POOLED) {                                            \
        max_pool<E, N>(y, index, x, AS_POOLED);                                                                                      \
    }                                                                                                                                \
    POOL max_pool_gradient_##name(Of_##name *dx, const Of_##name *dy, const Pack<int, N> *index, POOLED) {                           \
        max_pool_gradient<E, N>(dx, dy, index, AS_POOLED);                                                                           \
    }                                                                                                                                \
    POOL average_pool_##name(Of_##name *y, const Of_##name *x, POOLED) { average_pool<E, N>(y, x, AS_POOLED); }                      \
    POOL average_pool_gradient_##name(Of_##name *dx, const Of_##name *dy, POOLED) { average_pool_gradient<E, N>(dx, dy, AS_POOLED); }
#define OF_STATE(S, name)                                                                                                            \
    KERNEL batch_norm_add_##name(double *sums, const double *partials, const S *deviations, u32 channels, u32 chunks) {              \
        add_chunks(sums, partials, deviations, channels, chunks);                                                                    \
    }                                                                                                                                \
    KERNEL batch_norm_statistics_##name(S *statistics, const double *sums, u64 count, u32 channels, u64 epsilon) {                   \
        batch_norm_statistics(statistics, sums, count, channels, epsilon);                                                           \
    }                                                                                                                                \
    KERNEL batch_norm_means_##name(S *means, const double *sums, const S *statistics, u64 count, u32 channels) {                     \
        batch_norm_means(means, sums, statistics, count, channels);                                                                  \
    }                                                                                                                                \
    KERNEL batch_norm_parameters_##name(S *d_gain, S *d_bias, const double *sums, u32 channels, u32 accumulate) {                    \
        batch_norm_parameters(d_gain, d_bias, sums, channels, accumulate);                                                           \
    }
OF_PACK(F64, 1, f64_1)
OF_PACK(F64, 2, f64_2)
OF_PACK(F32, 1, f32_1)
OF_PACK(F32, 4, f32_4)
OF_PACK(Bf16, 1, bf16_1)
OF_PACK(Bf16, 4, bf16_4)
OF_PACK(F16, 1, f16_1)
OF_PACK(F16, 4, f16_4)
OF_STATE(double, f64)
OF_STATE(float, f32)
