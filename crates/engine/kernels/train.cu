// What a training step does row by row and element by element, its loss, and what changes parameters, as the host's kernels do it
// (crates/engine/src/kernels/{rows,update}). No sum is atomic: each is added in an order that follows from the sizes alone.
// One text for NVRTC (`cargo xtask ptx`) and for the tests' emulation. Where threads of a block wait for each other, the block has
// 256 threads and works on one row at a time.
#include "pack.h"

#define ROWS(rows) for (u64 row = blockIdx.x; row < (rows); row += gridDim.x)
#define COLUMNS(columns) for (u32 column = threadIdx.x; column < (columns); column += 256)
#define INLINE __device__ __forceinline__

INLINE float root(float x) { return sqrtf(x); }
INLINE double root(double x) { return sqrt(x); }
INLINE float exponential(float x) { return expf(x); }
INLINE double exponential(double x) { return exp(x); }
INLINE float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
INLINE double fma_of(double a, double b, double c) { return fma(a, b, c); }
// The standard normal distribution up to x, and its density there.
INLINE float cumulative(float x) { return 0.5f * erfcf(x * -0.70710678118654752f); }
INLINE double cumulative(double x) { return 0.5 * erfc(x * -0.70710678118654752); }
template <class W>
INLINE W density(W x) { return exponential((W)-0.5 * x * x) * (W)0.39894228040143268; }
template <class W>
INLINE W sigmoid(W x) { return 1 / (1 + exponential(-x)); }

struct Sum {
    template <class W>
    static INLINE W join(W a, W b) { return a + b; }
};
struct Largest {
    template <class W>
    static INLINE W join(W a, W b) { return a > b ? a : b; }
};
// Joins a number of each thread, always in the same order, and gives it to all of them. A second call of it needs no further
// barrier: what it overwrites first was read before the second barrier, and the rest is overwritten behind its own first one.
template <class How, class W>
INLINE W of_block(W mine) {
    __shared__ W parts[256];
    __shared__ W groups[16];
    u32 own = threadIdx.x;
    parts[own] = mine;
    __syncthreads();
    if (own < 16) {
        W all = parts[own];
        for (u32 at = own + 16; at < 256; at += 16) all = How::join(all, parts[at]);
        groups[own] = all;
    }
    __syncthreads();
    W all = groups[0];
    for (u32 at = 1; at < 16; at++) all = How::join(all, groups[at]);
    return all;
}

// ---- Element by element

template <class A, class B>
struct Convert {
    static INLINE typename B::Kept of(typename A::Kept x) { return B::narrow(A::widen(x)); }
};
template <class B>
struct Convert<F64, B> {
    static INLINE typename B::Kept of(double x) { return nearest<B>(x); }
};
template <class A, class B>
INLINE void convert(typename B::Kept *y, const typename A::Kept *x, u64 count) {
    EACH(count) y[i] = Convert<A, B>::of(x[i]);
}

// 2 sqrt(2 / pi), and the same times the weight of the cube.
#define TANH 1.5957691216057308
#define CUBE (TANH * 0.044715)
// (1 + tanh(u)) / 2 as a sigmoid, which does not cancel far below zero.
template <class W>
INLINE W tanh_gate(W x) { return sigmoid(x * fma_of(x * x, (W)CUBE, (W)TANH)); }

struct GeluTanh {
    template <class W>
    static INLINE W value(W x) { return x * tanh_gate(x); }
    template <class W>
    static INLINE W gradient(W x, W dy) {
        W gate = tanh_gate(x), slope = fma_of(x * x, (W)(3 * CUBE), (W)TANH);
        return dy * fma_of(x * slope, gate * (1 - gate), gate);
    }
};
struct GeluErf {
    template <class W>
    static INLINE W value(W x) { return x * cumulative(x); }
    template <class W>
    static INLINE W gradient(W x, W dy) { return dy * fma_of(x, density(x), cumulative(x)); }
};
// NaN stays NaN. The gradient is taken at the result.
struct Relu {
    template <class W>
    static INLINE W value(W x) { return x <= 0 ? 0 : x; }
    template <class W>
    static INLINE W gradient(W y, W dy) { return y > 0 ? dy : 0; }
};
template <class E, class How>
INLINE void forward(typename E::Kept *y, const typename E::Kept *x, u64 count) {
    EACH(count) y[i] = E::narrow(How::value(E::widen(x[i])));
}
template <class E, class How>
INLINE void backward(typename E::Kept *dx, const typename E::Kept *x, const typename E::Kept *dy, u64 count) {
    EACH(count) dx[i] = E::narrow(How::gradient(E::widen(x[i]), E::widen(dy[i])));
}

// A row is gate | up.
template <class E>
INLINE void swiglu(typename E::Kept *y, const typename E::Kept *x, u64 rows, u32 width) {
    EACH(rows * width) {
        const typename E::Kept *own = x + i / width * width + i;
        typename E::Wide gate = E::widen(own[0]);
        y[i] = E::narrow(gate * sigmoid(gate) * E::widen(own[width]));
    }
}
template <class E>
INLINE void swiglu_gradient(typename E::Kept *dx, const typename E::Kept *x, const typename E::Kept *dy, u64 rows, u32 width) {
    EACH(rows * width) {
        u64 place = i / width * width + i;
        typename E::Wide gate = E::widen(x[place]), d = E::widen(dy[i]), s = sigmoid(gate);
        dx[place] = E::narrow(d * E::widen(x[place + width]) * (s * fma_of(gate, 1 - s, (typename E::Wide)1)));
        dx[place + width] = E::narrow(d * gate * s);
    }
}

// Turns queries and keys by angles whose cosine and sine the table has, [sequence][half][2].
template <class E>
INLINE void rotary(typename E::Kept *qkv, const typename E::Wide *table, u64 rows, u32 sequence, u32 heads, u32 columns, u32 half,
                   u32 inverse) {
    EACH(rows * heads * half) {
        u64 row = i / half / heads, pair = i % half;
        const typename E::Wide *angle = table + 2 * (row % sequence * half + pair);
        typename E::Wide cosine = angle[0], sine = inverse ? -angle[1] : angle[1];
        typename E::Kept *left = qkv + row * columns + i / half % heads * 2 * half + pair, *right = left + half;
        typename E::Wide a = E::widen(*left), b = E::widen(*right);
        *left = E::narrow(fma_of(a, cosine, -(b * sine)));
        *right = E::narrow(fma_of(b, cosine, a * sine));
    }
}

INLINE u64 mixed(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
// Philox4x32-10. A thread takes one counter, whose four numbers belong to columns that are 64 apart. `step` has the step's number and
// the seed; `scale` are the bits of an f64.
template <class E>
INLINE void dropout(typename E::Kept *y, const typename E::Kept *x, const u64 *step, u64 rows, u32 columns, u64 first_row, u32 node,
                    u32 threshold, u64 scale) {
    typename E::Wide factor = (typename E::Wide)bits_as<double>(scale);
    u64 seed = mixed(step[1] ^ mixed(step[0] + 0x9e3779b97f4a7c15));
    u64 counters = ((u64)columns + 255) / 256 * 64;
    EACH(rows * counters) {
        u64 row = i / counters, global = first_row + row;
        u32 number = (u32)(i % counters);
        u32 counter[4] = {number, (u32)global, (u32)(global >> 32), node}, key[2] = {(u32)seed, (u32)(seed >> 32)};
        for (u32 round = 0; round < 10; round++) {
            u64 a = (u64)0xd2511f53 * counter[0], b = (u64)0xcd9e8d57 * counter[2];
            counter[0] = (u32)(b >> 32) ^ counter[1] ^ key[0];
            counter[1] = (u32)b;
            counter[2] = (u32)(a >> 32) ^ counter[3] ^ key[1];
            counter[3] = (u32)a;
            key[0] += 0x9e3779b9;
            key[1] += 0xbb67ae85;
        }
        for (u32 each = 0; each < 4; each++) {
            u32 column = number / 64 * 256 + 64 * each + number % 64;
            if (column >= columns) continue;
            u64 at = row * columns + column;
            y[at] = counter[each] < threshold ? E::narrow(0) : E::narrow(E::widen(x[at]) * factor);
        }
    }
}

// ---- Sums over rows, column by column: each chunk of rows leaves its own, which are then added in their order

INLINE u64 first_of(u64 chunk, u64 rows, u32 chunks) { return rows * chunk / chunks; }

template <class E>
INLINE void column_partials(typename E::Wide *partials, const typename E::Kept *x, u64 rows, u32 columns, u32 chunks) {
    EACH((u64)chunks * columns) {
        u64 chunk = i / columns, column = i % columns, end = first_of(chunk + 1, rows, chunks);
        typename E::Wide sum = 0;
        for (u64 row = first_of(chunk, rows, chunks); row < end; row++) sum += E::widen(x[row * columns + column]);
        partials[i] = sum;
    }
}
template <class W>
INLINE void add_partials(W *y, const W *partials, u32 columns, u32 chunks, u32 accumulate) {
    EACH(columns) {
        W sum = accumulate ? y[i] : 0;
        for (u64 chunk = 0; chunk < chunks; chunk++) sum += partials[chunk * columns + i];
        y[i] = sum;
    }
}
// The same of many chunks, by blocks of 32 columns: eight threads of a column add every eighth chunk, and then these sums in their order.
// A thread that is ahead writes where nobody still reads: all have read that before the barrier of the turn between.
template <class W>
INLINE void add_many_partials(W *y, const W *partials, u32 columns, u32 chunks, u32 accumulate) {
    __shared__ W parts[2][8][32];
    u32 lane = threadIdx.x % 32, part = threadIdx.x / 32, turn = 0;
    ROWS(((u64)columns + 31) / 32) {
        u64 column = row * 32 + lane;
        bool is_there = column < columns;
        W sum = 0;
        for (u64 chunk = part; is_there && chunk < chunks; chunk += 8) sum += partials[chunk * columns + column];
        parts[turn][part][lane] = sum;
        __syncthreads();
        if (part == 0 && is_there) {
            sum = accumulate ? y[column] : 0;
            for (u32 each = 0; each < 8; each++) sum += parts[turn][each][lane];
            y[column] = sum;
        }
        turn ^= 1;
    }
}

// ---- Norms, a block a row. `bias` is null for RMS norms, whose mean is zero. `epsilon` are the bits of an f64.

// The mean of a row and one over its deviation, of what `at` gives for a column.
template <class W, class At>
INLINE void measure(u32 columns, double epsilon, bool centred, W &mean, W &scale, At at) {
    W share = (W)1 / (W)columns, sum = 0;
    mean = 0;
    if (centred) {
        COLUMNS(columns) sum += at(column);
        mean = of_block<Sum>(sum) * share;
        sum = 0;
    }
    COLUMNS(columns) {
        W off = at(column) - mean;
        sum = fma_of(off, off, sum);
    }
    scale = 1 / root(of_block<Sum>(sum) * share + (W)epsilon);
}
// With a residual: `total = x + residual` is what is normalised.
template <class E>
INLINE void norm(typename E::Kept *y, typename E::Wide *statistics, typename E::Kept *total, const typename E::Kept *x,
                 const typename E::Kept *residual, const typename E::Kept *gain, const typename E::Kept *bias, u64 rows, u32 columns,
                 u64 epsilon) {
    typedef typename E::Wide W;
    ROWS(rows) {
        u64 first = row * columns;
        const typename E::Kept *from = residual ? total : x;
        // Each thread reads back only what it wrote.
        if (residual) COLUMNS(columns) total[first + column] = E::narrow(E::widen(x[first + column]) + E::widen(residual[first + column]));
        W mean, scale;
        measure(columns, bits_as<double>(epsilon), bias != 0, mean, scale, [&](u32 column) { return E::widen(from[first + column]); });
        if (threadIdx.x == 0) {
            statistics[2 * row] = mean;
            statistics[2 * row + 1] = scale;
        }
        COLUMNS(columns) {
            W hat = (E::widen(from[first + column]) - mean) * scale, weight = E::widen(gain[column]);
            y[first + column] = E::narrow(bias ? fma_of(hat, weight, E::widen(bias[column])) : hat * weight);
        }
    }
}
// dx may be dy: each thread reads what it overwrites.
template <class E>
INLINE void norm_gradient(typename E::Kept *dx, const typename E::Kept *x, const typename E::Kept *dy,
                          const typename E::Wide *statistics, const typename E::Kept *gain, u64 rows, u32 columns, u32 centred,
                          u32 accumulate) {
    typedef typename E::Wide W;
    ROWS(rows) {
        u64 first = row * columns;
        W mean = statistics[2 * row], scale = statistics[2 * row + 1], one = 0, along = 0;
        COLUMNS(columns) {
            W hat = (E::widen(x[first + column]) - mean) * scale, weighted = E::widen(dy[first + column]) * E::widen(gain[column]);
            one += weighted;
            along = fma_of(weighted, hat, along);
        }
        W share = scale / (W)columns;
        one = centred ? of_block<Sum>(one) * share : 0;
        along = of_block<Sum>(along) * share;
        COLUMNS(columns) {
            u64 at = first + column;
            W hat = (E::widen(x[at]) - mean) * scale;
            W value = fma_of(E::widen(dy[at]) * E::widen(gain[column]), scale, -fma_of(hat, along, one));
            dx[at] = E::narrow(accumulate ? E::widen(dx[at]) + value : value);
        }
    }
}
// `dy x_hat` of the gain, and dy of the bias where there is one.
template <class E>
INLINE void norm_partials(typename E::Wide *of_gain, typename E::Wide *of_bias, const typename E::Kept *x,
                          const typename E::Kept *dy, const typename E::Wide *statistics, u64 rows, u32 columns, u32 chunks) {
    typedef typename E::Wide W;
    EACH((u64)chunks * columns) {
        u64 chunk = i / columns, column = i % columns, end = first_of(chunk + 1, rows, chunks);
        W gain = 0, bias = 0;
        for (u64 row = first_of(chunk, rows, chunks); row < end; row++) {
            W d = E::widen(dy[row * columns + column]);
            gain = fma_of(d, (E::widen(x[row * columns + column]) - statistics[2 * row]) * statistics[2 * row + 1], gain);
            bias += d;
        }
        of_gain[i] = gain;
        if (of_bias) of_bias[i] = bias;
    }
}

// ---- Embedding. Tokens of another part's table count as zero. Rows with the same token were sorted together by the host: those of
// entry s are rows[starts[s]] to rows[starts[s + 1] - 1], in their order, and targets[s] is their row of the table.

template <class E>
INLINE void embed(typename E::Kept *y, const int *tokens, const typename E::Kept *table, const typename E::Kept *positions,
                  const typename E::Kept *segments, u64 rows, u32 width, u32 sequence, u64 first, u64 count) {
    EACH(rows * width) {
        u64 row = i / width, column = i % width;
        long long token = tokens[row];
        typename E::Wide sum = 0;
        // What is before the first becomes a large number.
        bool has = token >= 0 && (u64)token - first < count;
        if (has) sum = E::widen(table[((u64)token - first) * width + column]);
        if (positions) sum = has ? sum + E::widen(positions[row % sequence * width + column]) : E::widen(positions[row % sequence * width + column]);
        has |= positions != 0;
        if (segments) sum = has ? sum + E::widen(segments[column]) : E::widen(segments[column]);
        y[i] = E::narrow(sum);
    }
}
template <class E>
INLINE void embed_gradient(typename E::Wide *d_table, const typename E::Kept *dy, const u32 *starts, const u32 *targets,
                           const u32 *rows_of, u64 entries, u32 width) {
    EACH(entries * width) {
        u64 entry = i / width, column = i % width;
        u32 at = starts[entry], end = starts[entry + 1];
        if (at == end) continue;
        typename E::Wide *to = d_table + (u64)targets[entry] * width + column, sum = *to;
        for (; at < end; at++) sum += E::widen(dy[(u64)rows_of[at] * width + column]);
        *to = sum;
    }
}
// Rows of the same position, in their order.
template <class E>
INLINE void position_gradient(typename E::Wide *d_positions, const typename E::Kept *dy, u64 rows, u32 width, u32 sequence) {
    EACH((u64)sequence * width) {
        typename E::Wide sum = d_positions[i];
        for (u64 row = i / width; row < rows; row += sequence) sum += E::widen(dy[row * width + i % width]);
        d_positions[i] = sum;
    }
}

// ---- Rows by loads of 16 bytes. A row may begin anywhere: the numbers before its first multiple of 16 bytes, and those behind its last,
// are single. Which thread has which follows from the row's address and length. f64 is always single.

template <class E>
struct Cut {
    u32 head, packs;
    INLINE Cut(const typename E::Kept *row, u32 columns) {
        u32 before = (u32)(-(u64)row % 16 / sizeof(typename E::Kept));
        head = sizeof(typename E::Kept) == 8 ? columns : before < columns ? before : columns;
        packs = (columns - head) * sizeof(typename E::Kept) / 16;
    }
};
#define PACKS(packs) for (u32 pack = threadIdx.x; pack < (packs); pack += 256)
#define SINGLES(from, to) for (u32 column = (from) + threadIdx.x; column < (to); column += 256)
// Gives `work` each number and its column.
template <class E, class Work>
INLINE void each_of_row(const typename E::Kept *row, u32 columns, Work work) {
    Cut<E> cut(row, columns);
    u32 end = cut.head;
    SINGLES(0, cut.head) work(wide<E>(row[column]), column);
    if constexpr (sizeof(typename E::Kept) < 8) {
        const Sixteen<E> *packs = (const Sixteen<E> *)(row + cut.head);
        PACKS(cut.packs) {
            Sixteen<E> held = packs[pack];
#pragma unroll
            for (u32 c = 0; c < Sixteen<E>::N; c++) work(held.at(c), cut.head + pack * Sixteen<E>::N + c);
        }
        end += cut.packs * Sixteen<E>::N;
    }
    SINGLES(end, columns) work(wide<E>(row[column]), column);
}
// The same, and writes what it gives.
template <class E, class Work>
INLINE void change_row(typename E::Kept *row, u32 columns, Work work) {
    Cut<E> cut(row, columns);
    u32 end = cut.head;
    SINGLES(0, cut.head) row[column] = narrow<E>(work(wide<E>(row[column]), column));
    if constexpr (sizeof(typename E::Kept) < 8) {
        Sixteen<E> *packs = (Sixteen<E> *)(row + cut.head);
        PACKS(cut.packs) {
            Sixteen<E> held = packs[pack], made = {};
#pragma unroll
            for (u32 c = 0; c < Sixteen<E>::N; c++) made.put(c, work(held.at(c), cut.head + pack * Sixteen<E>::N + c));
            packs[pack] = made;
        }
        end += cut.packs * Sixteen<E>::N;
    }
    SINGLES(end, columns) row[column] = narrow<E>(work(wide<E>(row[column]), column));
}

// ---- Cross-entropy, a block a row. A row with a negative target is ignored. The loss scale is control[0]; `scale` are the bits of an
// f64. Losses of rows go to `losses`, and are then added in their order. A row has `stride` numbers: those behind the classes are
// padding, which nothing reads, and which becomes zero with the gradient.

// Below any logit but minus infinity, whose difference to another would be NaN.
#define LOWEST ((W)-3.40282347e+38f)

template <class W>
INLINE W entropy_gradient(W logit, bool is_target, W largest, double sum, double factor) {
    W power = exponential(logit - largest);
    return is_target ? (W)(factor * ((double)power / sum - 1)) : power * (W)(factor / sum);
}
// A target that is no class makes the loss NaN.
template <class E>
INLINE void entropy(typename E::Kept *logits, const int *targets, double *losses, const double *control, u64 rows, u32 classes,
                    u32 stride, u64 scale) {
    typedef typename E::Wide W;
    double factor = bits_as<double>(scale) * control[0];
    ROWS(rows) {
        typename E::Kept *own = logits + row * stride;
        int target = targets[row];
        SINGLES(classes, stride) own[column] = narrow<E>((W)0);
        if (target < 0) {
            change_row<E>(own, classes, [](W, u32) { return (W)0; });
            if (threadIdx.x == 0) losses[row] = 0;
            continue;
        }
        // Online: what a thread has added is scaled down where it meets a larger logit.
        W most = LOWEST, added = 0;
        each_of_row<E>(own, classes, [&](W x, u32) {
            if (x > most) {
                added *= exponential(most - x);
                most = x;
            }
            added += exponential(x - most);
        });
        W largest = of_block<Largest>(most);
        double sum = of_block<Sum>((double)added * exp((double)most - (double)largest));
        if (threadIdx.x == 0 && (u32)target >= classes) losses[row] = bits_as<double>((u64)0x7ff8000000000000);
        change_row<E>(own, classes, [&](W x, u32 column) {
            bool is_target = column == (u32)target;
            if (is_target) losses[row] = log(sum) - ((double)x - (double)largest);
            return entropy_gradient(x, is_target, largest, sum, factor);
        });
    }
}
template <class E>
INLINE void entropy_largest(typename E::Wide *largest, const typename E::Kept *logits, u64 rows, u32 classes, u32 stride) {
    typedef typename E::Wide W;
    ROWS(rows) {
        W most = LOWEST;
        each_of_row<E>(logits + row * stride, classes, [&](W x, u32) { most = Largest::join(x, most); });
        most = of_block<Largest>(most);
        if (threadIdx.x == 0) largest[row] = most;
    }
}
// sums[rows + row]: the target's logit minus the largest, where it is of this part of the classes.
template <class E>
INLINE void entropy_sum(typename E::Wide *sums, const typename E::Kept *logits, const int *targets, const typename E::Wide *largest,
                        u64 rows, u32 classes, u32 stride, u64 first) {
    typedef typename E::Wide W;
    ROWS(rows) {
        const typename E::Kept *own = logits + row * stride;
        W added = 0, most = largest[row];
        each_of_row<E>(own, classes, [&](W x, u32) { added += exponential(x - most); });
        double sum = of_block<Sum>((double)added);
        if (threadIdx.x == 0) {
            long long target = (long long)targets[row] - (long long)first;
            bool has = targets[row] >= 0 && target >= 0 && target < (long long)classes;
            sums[row] = (W)sum;
            sums[rows + row] = has ? E::widen(own[target]) - most : 0;
        }
    }
}
template <class E>
INLINE void entropy_finish(typename E::Kept *logits, double *losses, const int *targets, const typename E::Wide *largest,
                           const typename E::Wide *sums, const double *control, u64 rows, u32 classes, u32 stride, u64 first, u64 scale) {
    double factor = bits_as<double>(scale) * control[0];
    ROWS(rows) {
        typename E::Kept *own = logits + row * stride;
        int target = targets[row];
        typename E::Wide most = largest[row];
        double sum = (double)sums[row];
        if (threadIdx.x == 0) losses[row] = target < 0 ? 0 : log(sum) - (double)sums[rows + row];
        change_row<E>(own, classes, [&](typename E::Wide x, u32 column) {
            return target < 0 ? 0 : entropy_gradient(x, (u64)target == first + column, most, sum, factor);
        });
        SINGLES(classes, stride) own[column] = narrow<E>((typename E::Wide)0);
    }
}
// to[0] += scale * sum, by one block. `scale` are the bits of an f64.
extern "C" __global__ void add_sum(double *to, const double *terms, u64 count, u64 scale) {
    double sum = 0;
    for (u64 i = threadIdx.x; i < count; i += 256) sum += terms[i];
    sum = of_block<Sum>(sum);
    if (threadIdx.x == 0) to[0] += bits_as<double>(scale) * sum;
}

// ---- Updates. `control`: loss scale, good steps since it changed, sum of squares of all gradients, whether the update is skipped.

// A block leaves the sum of its squares; how many blocks there are, follows from the count.
template <class W>
INLINE void squares(double *partials, const W *x, u64 count) {
    double sum = 0;
    EACH(count) sum = fma_of((double)x[i], (double)x[i], sum);
    sum = of_block<Sum>(sum);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}
// The same of parts of several arrays, a block each.
struct Part {
    u64 first, count;
};
template <class W>
INLINE void squares_of_parts(double *partials, const W *x, const Part *parts, u64 count) {
    ROWS(count) {
        double sum = 0;
        for (u64 i = threadIdx.x; i < parts[row].count; i += 256) {
            double each = x[parts[row].first + i];
            sum = fma_of(each, each, sum);
        }
        sum = of_block<Sum>(sum);
        if (threadIdx.x == 0) partials[row] = sum;
    }
}
extern "C" __global__ void begin_norm(double *control) { control[2] = 0; }
extern "C" __global__ void judge(double *control, u32 dynamic) {
    // Infinity minus itself is NaN.
    bool bad = dynamic && !(control[2] - control[2] == 0);
    control[3] = bad;
    control[1] = bad || !dynamic ? 0 : control[1] + 1;
}
extern "C" __global__ void end_step(double *control) {
    if (control[3] == 1) {
        control[0] *= 0.5;
    } else if (control[1] >= 2000) {
        control[0] *= 2;
        control[1] = 0;
    }
}

// What gradients are multiplied by: the loss scale is taken out, and their norm is at most `clip`.
INLINE double factor_of(const double *control, double clip) {
    double size = sqrt(control[2]) / control[0];
    return fmin(clip / size, 1.0) / control[0];
}
struct Adam {
    double factor, shrink, weight1, beta2, weight2, correction2, epsilon, rate;
};
// The numbers of AdamW that are the same for all elements of a step, by one thread. All of it are bits of f64 but `step`.
extern "C" __global__ void adam_numbers(Adam *to, const double *control, const u64 *step, u64 rate, u64 beta1, u64 beta2, u64 epsilon,
                                        u64 decay, u64 clip) {
    double first = bits_as<double>(beta1), second = bits_as<double>(beta2), by = bits_as<double>(rate), at = (double)step[0];
    to->factor = factor_of(control, bits_as<double>(clip));
    to->shrink = 1 - by * bits_as<double>(decay);
    to->weight1 = 1 - first;
    to->beta2 = second;
    to->weight2 = 1 - second;
    to->correction2 = 1 / sqrt(1 - pow(second, at));
    to->epsilon = bits_as<double>(epsilon);
    to->rate = by / (1 - pow(first, at));
}
// Masters are of the type that E computes in. `copy` may be null.
template <class E>
struct Updated {
    typedef typename E::Wide W;
    W factor, shrink, weight1, beta2, weight2, correction2, epsilon, rate;
    INLINE Updated(const Adam *numbers)
        : factor((W)numbers->factor), shrink((W)numbers->shrink), weight1((W)numbers->weight1), beta2((W)numbers->beta2),
          weight2((W)numbers->weight2), correction2((W)numbers->correction2), epsilon((W)numbers->epsilon), rate((W)numbers->rate) {}
    INLINE void at(u64 i, W *parameters, const W *gradients, W *first, W *second, typename E::Kept *copy) const {
        W g = gradients[i] * factor;
        W m = fma_of(weight1, g - first[i], first[i]), v = fma_of(weight2 * g, g, beta2 * second[i]);
        W p = parameters[i] * shrink - rate * m / fma_of(root(v), correction2, epsilon);
        first[i] = m;
        second[i] = v;
        parameters[i] = p;
        if (copy) copy[i] = E::narrow(p);
    }
};
template <class E>
INLINE void adam(typename E::Wide *parameters, const typename E::Wide *gradients, typename E::Wide *first, typename E::Wide *second,
                 typename E::Kept *copy, const Adam *numbers, const double *control, u64 count) {
    if (control[3] == 1) return;
    Updated<E> updated(numbers);
    EACH(count) updated.at(i, parameters, gradients, first, second, copy);
}
// The same of parts of several tensors, a block each: their first elements in each array.
struct AdamPart {
    u64 parameters, gradients, first, second, copy, count;
};
template <class E>
INLINE void adam_of_parts(typename E::Wide *parameters, const typename E::Wide *gradients, typename E::Wide *first,
                          typename E::Wide *second, typename E::Kept *copy, const Adam *numbers, const double *control,
                          const AdamPart *parts, u64 count) {
    if (control[3] == 1) return;
    Updated<E> updated(numbers);
    ROWS(count) {
        AdamPart part = parts[row];
        for (u64 i = threadIdx.x; i < part.count; i += blockDim.x) {
            updated.at(i, parameters + part.parameters, gradients + part.gradients, first + part.first, second + part.second,
                       copy ? copy + part.copy : copy);
        }
    }
}
// `velocity` is null without momentum. The numbers are bits of f64.
template <class E>
INLINE void sgd(typename E::Wide *parameters, const typename E::Wide *gradients, typename E::Wide *velocity, typename E::Kept *copy,
                const double *control, u64 count, u64 rate, u64 momentum, u64 clip) {
    typedef typename E::Wide W;
    if (control[3] == 1) return;
    W factor = (W)factor_of(control, bits_as<double>(clip)), by = (W)bits_as<double>(rate), kept = (W)bits_as<double>(momentum);
    EACH(count) {
        W step = gradients[i] * factor;
        if (velocity) velocity[i] = step = fma_of(kept, velocity[i], step);
        W p = fma_of(-by, step, parameters[i]);
        parameters[i] = p;
        if (copy) copy[i] = E::narrow(p);
    }
}

// ---- The kernels, by the types that they are for

#define KERNEL extern "C" __global__ void
#define OF_BLOCK KERNEL __launch_bounds__(256)
#define OF_FLOAT_TYPE(E, name)                                                                                                               \
    KERNEL fill_##name(E::Kept *y, u64 value, u64 count) {                                                                             \
        E::Kept kept = nearest<E>(bits_as<double>(value));                                                                             \
        EACH(count) y[i] = kept;                                                                                                       \
    }                                                                                                                                  \
    KERNEL to_f64_##name(double *y, const E::Kept *x, u64 count) { convert<E, F64>(y, x, count); }                              \
    KERNEL to_f32_##name(float *y, const E::Kept *x, u64 count) { convert<E, F32>(y, x, count); }                               \
    KERNEL to_bf16_##name(u16 *y, const E::Kept *x, u64 count) { convert<E, Bf16>(y, x, count); }                               \
    KERNEL to_f16_##name(u16 *y, const E::Kept *x, u64 count) { convert<E, F16>(y, x, count); }                                 \
    KERNEL add_##name(E::Kept *y, const E::Kept *a, const E::Kept *b, u64 count) {                                                     \
        EACH(count) y[i] = E::narrow(E::widen(a[i]) + E::widen(b[i]));                                                                 \
    }                                                                                                                                  \
    KERNEL add_bias_##name(E::Kept *x, const E::Kept *bias, u64 rows, u32 columns) {                                                   \
        EACH(rows * columns) x[i] = E::narrow(E::widen(x[i]) + E::widen(bias[i % columns]));                                           \
    }                                                                                                                                  \
    KERNEL gelu_tanh_##name(E::Kept *y, const E::Kept *x, u64 count) { forward<E, GeluTanh>(y, x, count); }                            \
    KERNEL gelu_erf_##name(E::Kept *y, const E::Kept *x, u64 count) { forward<E, GeluErf>(y, x, count); }                              \
    KERNEL relu_##name(E::Kept *y, const E::Kept *x, u64 count) { forward<E, Relu>(y, x, count); }                                     \
    KERNEL gelu_tanh_gradient_##name(E::Kept *dx, const E::Kept *x, const E::Kept *dy, u64 count) {                                    \
        backward<E, GeluTanh>(dx, x, dy, count);                                                                                       \
    }                                                                                                                                  \
    KERNEL gelu_erf_gradient_##name(E::Kept *dx, const E::Kept *x, const E::Kept *dy, u64 count) {                                     \
        backward<E, GeluErf>(dx, x, dy, count);                                                                                        \
    }                                                                                                                                  \
    KERNEL relu_gradient_##name(E::Kept *dx, const E::Kept *y, const E::Kept *dy, u64 count) {                                         \
        backward<E, Relu>(dx, y, dy, count);                                                                                           \
    }                                                                                                                                  \
    KERNEL swiglu_##name(E::Kept *y, const E::Kept *x, u64 rows, u32 width) { swiglu<E>(y, x, rows, width); }                          \
    KERNEL swiglu_gradient_##name(E::Kept *dx, const E::Kept *x, const E::Kept *dy, u64 rows, u32 width) {                             \
        swiglu_gradient<E>(dx, x, dy, rows, width);                                                                                    \
    }                                                                                                                                  \
    KERNEL rotary_##name(E::Kept *qkv, const E::Wide *table, u64 rows, u32 sequence, u32 heads, u32 columns, u32 half, u32 inverse) {  \
        rotary<E>(qkv, table, rows, sequence, heads, columns, half, inverse);                                                          \
    }                                                                                                                                  \
    KERNEL dropout_##name(E::Kept *y, const E::Kept *x, const u64 *step, u64 rows, u32 columns, u64 first_row, u32 node,               \
                          u32 threshold, u64 scale) {                                                                                  \
        dropout<E>(y, x, step, rows, columns, first_row, node, threshold, scale);                                                      \
    }                                                                                                                                  \
    KERNEL column_partials_##name(E::Wide *partials, const E::Kept *x, u64 rows, u32 columns, u32 chunks) {                            \
        column_partials<E>(partials, x, rows, columns, chunks);                                                                        \
    }                                                                                                                                  \
    OF_BLOCK norm_##name(E::Kept *y, E::Wide *statistics, E::Kept *total, const E::Kept *x, const E::Kept *residual,                   \
                         const E::Kept *gain, const E::Kept *bias, u64 rows, u32 columns, u64 epsilon) {                               \
        norm<E>(y, statistics, total, x, residual, gain, bias, rows, columns, epsilon);                                                \
    }                                                                                                                                  \
    OF_BLOCK norm_gradient_##name(E::Kept *dx, const E::Kept *x, const E::Kept *dy, const E::Wide *statistics, const E::Kept *gain,    \
                                  u64 rows, u32 columns, u32 centred, u32 accumulate) {                                                \
        norm_gradient<E>(dx, x, dy, statistics, gain, rows, columns, centred, accumulate);                                             \
    }                                                                                                                                  \
    KERNEL norm_partials_##name(E::Wide *of_gain, E::Wide *of_bias, const E::Kept *x, const E::Kept *dy, const E::Wide *statistics,    \
                                u64 rows, u32 columns, u32 chunks) {                                                                   \
        norm_partials<E>(of_gain, of_bias, x, dy, statistics, rows, columns, chunks);                                                  \
    }                                                                                                                                  \
    KERNEL embed_##name(E::Kept *y, const int *tokens, const E::Kept *table, const E::Kept *positions, const E::Kept *segments,        \
                        u64 rows, u32 width, u32 sequence, u64 first, u64 count) {                                                     \
        embed<E>(y, tokens, table, positions, segments, rows, width, sequence, first, count);                                          \
    }                                                                                                                                  \
    KERNEL embed_gradient_##name(E::Wide *d_table, const E::Kept *dy, const u32 *starts, const u32 *targets, const u32 *rows_of,       \
                                 u64 entries, u32 width) {                                                                             \
        embed_gradient<E>(d_table, dy, starts, targets, rows_of, entries, width);                                                      \
    }                                                                                                                                  \
    KERNEL position_gradient_##name(E::Wide *d_positions, const E::Kept *dy, u64 rows, u32 width, u32 sequence) {                      \
        position_gradient<E>(d_positions, dy, rows, width, sequence);                                                                  \
    }                                                                                                                                  \
    OF_BLOCK entropy_##name(E::Kept *logits, const int *targets, double *losses, const double *control, u64 rows, u32 classes,         \
                            u32 stride, u64 scale) {                                                                                   \
        entropy<E>(logits, targets, losses, control, rows, classes, stride, scale);                                                    \
    }                                                                                                                                  \
    OF_BLOCK entropy_largest_##name(E::Wide *largest, const E::Kept *logits, u64 rows, u32 classes, u32 stride) {                      \
        entropy_largest<E>(largest, logits, rows, classes, stride);                                                                    \
    }                                                                                                                                  \
    OF_BLOCK entropy_sum_##name(E::Wide *sums, const E::Kept *logits, const int *targets, const E::Wide *largest, u64 rows,            \
                                u32 classes, u32 stride, u64 first) {                                                                  \
        entropy_sum<E>(sums, logits, targets, largest, rows, classes, stride, first);                                                  \
    }                                                                                                                                  \
    OF_BLOCK entropy_finish_##name(E::Kept *logits, double *losses, const int *targets, const E::Wide *largest, const E::Wide *sums,   \
                                   const double *control, u64 rows, u32 classes, u32 stride, u64 first, u64 scale) {                   \
        entropy_finish<E>(logits, losses, targets, largest, sums, control, rows, classes, stride, first, scale);                       \
    }                                                                                                                                  \
    KERNEL adam_##name(E::Wide *parameters, const E::Wide *gradients, E::Wide *first, E::Wide *second, E::Kept *copy,                  \
                       const Adam *numbers, const double *control, u64 count) {                                                        \
        adam<E>(parameters, gradients, first, second, copy, numbers, control, count);                                                  \
    }                                                                                                                                  \
    KERNEL adam_of_parts_##name(E::Wide *parameters, const E::Wide *gradients, E::Wide *first, E::Wide *second, E::Kept *copy,         \
                                const Adam *numbers, const double *control, const AdamPart *parts, u64 count) {                        \
        adam_of_parts<E>(parameters, gradients, first, second, copy, numbers, control, parts, count);                                  \
    }                                                                                                                                  \
    KERNEL sgd_##name(E::Wide *parameters, const E::Wide *gradients, E::Wide *velocity, E::Kept *copy, const double *control,          \
                      u64 count, u64 rate, u64 momentum, u64 clip) {                                                                   \
        sgd<E>(parameters, gradients, velocity, copy, control, count, rate, momentum, clip);                                           \
    }
OF_FLOAT_TYPE(F64, f64)
OF_FLOAT_TYPE(F32, f32)
OF_FLOAT_TYPE(Bf16, bf16)
OF_FLOAT_TYPE(F16, f16)
KERNEL fill_i32(int *y, u64 value, u64 count) { EACH(count) y[i] = (int)bits_as<double>(value); }
KERNEL add_partials_f64(double *y, const double *partials, u32 columns, u32 chunks, u32 accumulate) {
    add_partials(y, partials, columns, chunks, accumulate);
}
KERNEL add_partials_f32(float *y, const float *partials, u32 columns, u32 chunks, u32 accumulate) {
    add_partials(y, partials, columns, chunks, accumulate);
}
OF_BLOCK add_many_partials_f64(double *y, const double *partials, u32 columns, u32 chunks, u32 accumulate) {
    add_many_partials(y, partials, columns, chunks, accumulate);
}
OF_BLOCK add_many_partials_f32(float *y, const float *partials, u32 columns, u32 chunks, u32 accumulate) {
    add_many_partials(y, partials, columns, chunks, accumulate);
}
OF_BLOCK squares_f64(double *partials, const double *x, u64 count) { squares(partials, x, count); }
OF_BLOCK squares_f32(double *partials, const float *x, u64 count) { squares(partials, x, count); }
OF_BLOCK squares_of_parts_f64(double *partials, const double *x, const Part *parts, u64 count) {
    squares_of_parts(partials, x, parts, count);
}
OF_BLOCK squares_of_parts_f32(double *partials, const float *x, const Part *parts, u64 count) {
    squares_of_parts(partials, x, parts, count);
}
