// libcudnn.so.9 for machines without a GPU, as far as graphs of attention and convolutions go, on the streams and memory of the emulated
// libcuda.so.1:
//
//     c++ -std=c++17 -O2 -shared -fPIC -pthread -I CRATES -Wl,-soname,libcudnn.so.9 -o libcudnn.so.9 cudnn.cpp -ldl
//
// A graph is computed operation by operation, in f64 that is rounded to the type of each tensor. It is strict: attributes have the types
// of cudnn_graph.h, descriptors are finished before others refer to them, an operation's inputs are there before it, and a run names each
// tensor of memory, aligned and inside an allocation. The first choice of the heuristics is always refused. Sums of type f32 that a product
// leaves in memory are added to what is there, as the library does with the gradients of queries. Of a convolution, further choices are
// noted as what users may not want (bits that change, tensor cores for f32), and give wrong numbers; one wants too much memory. Where the
// count of input channels is odd, only the second mode has choices. Where a sequence is odd, no engine takes attention as one operation.
// Graphs and plans name a handle, or none of them does: heuristics and plans then name a device. -DVERSION=90100 is an older library:
// without the descriptor of a device before 9.8, without attention as one operation before 9.13, and without a mask inside of it before
// 9.21. FAKE_CUDNN_REFUSES=1: no handle is made. A plan that names no handle is not run.
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#define __device__
#define __forceinline__ inline
#include "engine/kernels/number.h"

#ifndef VERSION
#define VERSION 92600
#endif

namespace {

enum Status { SUCCESS, BAD_PARAM = 2000, NOT_INITIALIZED = 1001, NOT_SUPPORTED = 3000, ARCH_MISMATCH = 3007, UNKNOWN_KIND = 4003, EXECUTION_FAILED = 5000 };
enum Kind { POINTWISE, CONVOLUTION, ENGINE, CHOICE = 3, WISH, PLAN, FORWARD = 10, WEIGHT, INPUT, POINTWISE_OPERATION = 13, GRAPH = 15, PACK, TENSOR, PRODUCT, PRODUCT_OPERATION,
            REDUCTION = 21, REDUCTION_OPERATION, RESHAPE_OPERATION = 31, DEVICE = 38, ATTENTION = 41 };
enum Element { FLOAT, DOUBLE, HALF = 2, INT32 = 4, BFLOAT16 = 9, BOOLEAN = 11 };
using std::vector;
void need(bool condition, int code = BAD_PARAM) { if (!condition) throw code; }

/// f32 or f64, as sums are.
const int FACTOR = -1;
/// Attributes of a kind: their types, and whether one must be set.
struct Attribute { int type; bool is_needed; };
const std::map<int, std::map<int, Attribute>> &attributes = *new std::map<int, std::map<int, Attribute>>{
    {POINTWISE, {{0, {14, true}}, {1, {1, true}}, {9, {3, false}}}},
    {CHOICE, {}},
    {ENGINE, {}},
    {CONVOLUTION, {{100, {1, true}}, {101, {7, true}}, {102, {3, true}}, {103, {3, true}}, {104, {3, true}}, {105, {3, true}}, {106, {3, true}}}},
    {FORWARD, {{700, {FACTOR, true}}, {701, {FACTOR, true}}, {702, {15, true}}, {703, {15, true}}, {704, {15, true}}, {705, {15, true}}}},
    {INPUT, {{706, {FACTOR, true}}, {707, {FACTOR, true}}, {708, {15, true}}, {709, {15, true}}, {710, {15, true}}, {711, {15, true}}}},
    {WEIGHT, {{712, {FACTOR, true}}, {713, {FACTOR, true}}, {714, {15, true}}, {715, {15, true}}, {716, {15, true}}, {717, {15, true}}}},
#if VERSION >= 90800
    {WISH, {{200, {8, true}}, {201, {15, true}}, {204, {15, false}}}},
    {PLAN, {{400, {0, false}}, {401, {15, true}}, {407, {15, false}}}},
    {GRAPH, {{800, {0, false}}, {801, {15, true}}}},
    {DEVICE, {{2701, {0, false}}, {2702, {24, false}}}},
#else
    {WISH, {{200, {8, true}}, {201, {15, true}}}},
    {PLAN, {{400, {0, true}}, {401, {15, true}}}},
    {GRAPH, {{800, {0, true}}, {801, {15, true}}}},
#endif
    {POINTWISE_OPERATION, {{750, {15, true}}, {751, {15, true}}, {752, {15, false}}, {753, {15, true}}, {758, {15, false}}}},
    {PACK, {{1000, {3, true}}, {1001, {6, true}}, {1003, {6, true}}}},
    {TENSOR, {{900, {3, true}}, {901, {1, true}}, {902, {3, true}}, {903, {3, true}}, {906, {3, true}}, {907, {2, false}}, {908, {2, false}}}},
    {PRODUCT, {{1500, {1, true}}}},
    {PRODUCT_OPERATION, {{1520, {15, true}}, {1521, {15, true}}, {1522, {15, true}}, {1523, {15, true}}}},
    {REDUCTION, {{1600, {18, true}}, {1601, {1, true}}}},
    {REDUCTION_OPERATION, {{1610, {15, true}}, {1611, {15, true}}, {1612, {15, true}}}},
    {RESHAPE_OPERATION, {{2200, {15, true}}, {2201, {15, true}}}},
#if VERSION >= 91300
    {ATTENTION, {{2800, {15, true}}, {2801, {15, true}}, {2802, {15, true}}, {2803, {15, true}}, {2804, {15, true}}, {2805, {15, true}},
#if VERSION >= 92100
                 {2811, {15, false}}, {2812, {3, false}}, {2813, {3, false}},
#endif
                 }},
#endif
};
size_t bytes_of(int type) { return type == 2 || type == 24 ? 1 : type == 0 || type == 3 || type == 5 || type == 6 || type == 15 ? 8 : 4; }
bool is_of(int type, int known) { return known == FACTOR ? type == 4 || type == 5 : type == known; }
bool is_convolution(int kind) { return kind == FORWARD || kind == INPUT || kind == WEIGHT; }
/// The first attribute of a convolution's operation.
int first_of(int kind) { return kind == FORWARD ? 700 : kind == INPUT ? 706 : 712; }

/// Never freed: one that was destroyed is told from one that never was.
struct Descriptor {
    int kind;
    bool is_alive = true, is_finished = false, is_taken = true;
    std::map<int, vector<char>> set = {};
    Descriptor *graph = nullptr;
    /// Of a choice: what the library says of it, and bytes that a run takes.
    vector<int> notes = {};
    int64_t workspace = 256;
    template <class T> vector<T> all(int attribute) const {
        auto found = set.find(attribute);
        if (found == set.end()) return {};
        vector<T> values(found->second.size() / sizeof(T));
        memcpy(values.data(), found->second.data(), found->second.size());
        return values;
    }
    template <class T> T get(int attribute, T otherwise = {}) const {
        auto values = all<T>(attribute);
        return values.empty() ? otherwise : values[0];
    }
    Descriptor *refer(int attribute) const { return get<Descriptor *>(attribute); }
};
struct Session { void *stream = nullptr; bool is_alive = true; };
std::mutex &lock = *new std::mutex;
vector<Descriptor *> &descriptors = *new vector<Descriptor *>;
vector<Session *> &sessions = *new vector<Session *>;
thread_local const char *last_error = "";

Descriptor *find(void *handle) {
    for (auto *each : descriptors) if (each == handle && each->is_alive) return each;
    throw int(BAD_PARAM);
}
Session *session(void *handle) {
    for (auto *each : sessions) if (each == handle && each->is_alive) return each;
    throw int(NOT_INITIALIZED);
}
template <class Body> int call(const char *function, Body body) {
    std::lock_guard<std::mutex> guard(lock);
    last_error = "";
    try { body(); } catch (int code) { return last_error = function, code; }
    return SUCCESS;
}

/// A tensor, and its numbers in the order of its dimensions.
struct Values {
    Descriptor *of;
    vector<int64_t> sizes, strides;
    int element;
    vector<double> numbers;
    explicit Values(Descriptor *of) : of(of), sizes(of->all<int64_t>(902)), strides(of->all<int64_t>(903)), element(of->get<int>(901)) {
        numbers.resize(count());
    }
    size_t count() const { size_t all = 1; for (auto size : sizes) all *= size; return all; }
    int64_t id() const { return of->get<int64_t>(906); }
    bool is_between() const { return of->get<char>(907); }
    bool is_of_host() const { return of->get<char>(908); }
    size_t width() const { return element == HALF || element == BFLOAT16 ? 2 : element == DOUBLE ? 8 : 4; }
    size_t bytes() const { size_t last = 0; for (int i = 0; i < 4; i++) last += (sizes[i] - 1) * strides[i]; return (last + 1) * width(); }
    /// Calls `each` with the number's place, its index and its offset.
    template <class Each> void walk(Each each) const {
        size_t place = 0;
        int64_t at[4];
        for (at[0] = 0; at[0] < sizes[0]; at[0]++)
            for (at[1] = 0; at[1] < sizes[1]; at[1]++)
                for (at[2] = 0; at[2] < sizes[2]; at[2]++)
                    for (at[3] = 0; at[3] < sizes[3]; at[3]++, place++)
                        each(place, at, at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]);
    }
    /// The number there: of the only one along a dimension; fewer heads are shared evenly.
    double at(const int64_t (&index)[4], int64_t heads) const {
        size_t place = 0;
        for (int i = 0; i < 4; i++) {
            int64_t own = sizes[i] == 1 ? 0 : i == 1 && sizes[1] != heads ? index[1] / (heads / sizes[1]) : index[i];
            place = place * sizes[i] + own;
        }
        return numbers[place];
    }
    double rounded(double value) const {
        switch (element) {
        case HALF: return F16::widen(nearest<F16>(value));
        case BFLOAT16: return Bf16::widen(nearest<Bf16>(value));
        case FLOAT: return float(value);
        default: return value;
        }
    }
    void load(const char *from) {
        walk([&](size_t place, auto &, int64_t offset) {
            if (element == FLOAT) numbers[place] = ((const float *)from)[offset];
            else if (element == DOUBLE) numbers[place] = ((const double *)from)[offset];
            else numbers[place] = element == HALF ? F16::widen(((const u16 *)from)[offset]) : Bf16::widen(((const u16 *)from)[offset]);
        });
    }
    void store(char *to) const {
        walk([&](size_t place, auto &, int64_t offset) {
            double value = numbers[place];
            if (element == FLOAT) ((float *)to)[offset] = float(value);
            else if (element == DOUBLE) ((double *)to)[offset] = value;
            else ((u16 *)to)[offset] = element == HALF ? nearest<F16>(value) : nearest<Bf16>(value);
        });
    }
};

double computed(int mode, double x, double b, bool t) {
    switch (mode) {
    case 0: return x + b;
    case 1: return x * b;
    case 6: return x / b;
    case 9: return x - b;
    case 13: return exp(x);
    case 15: return log(x);
    case 21: return x;
    case 303: return x >= b;
    case 601: return t ? x : b;
    }
    throw int(NOT_SUPPORTED);
}
/// Runs through all pairs of an output and an input that a weight joins, with their places in the numbers of output, input and weight.
template <class Each> void joined(const Values &x, const Values &w, const Values &y, int64_t stride, int64_t padding, Each each) {
    int64_t channels = x.sizes[1], height = x.sizes[2], width = x.sizes[3], kernel = w.sizes[2], rows = y.sizes[2], columns = y.sizes[3];
    for (int64_t n = 0; n < y.sizes[0]; n++)
        for (int64_t k = 0; k < y.sizes[1]; k++)
            for (int64_t p = 0; p < rows; p++)
                for (int64_t q = 0; q < columns; q++)
                    for (int64_t c = 0; c < channels; c++)
                        for (int64_t r = 0; r < kernel; r++)
                            for (int64_t s = 0; s < kernel; s++) {
                                int64_t h = p * stride - padding + r, v = q * stride - padding + s;
                                if (h < 0 || v < 0 || h >= height || v >= width) continue;
                                each(((n * y.sizes[1] + k) * rows + p) * columns + q, ((n * channels + c) * height + h) * width + v,
                                     ((k * channels + c) * kernel + r) * kernel + s);
                            }
}
/// A convolution's tensors: input, weight and output; all of one type, and as large as each other's sizes say.
vector<Descriptor *> tensors_of(Descriptor *operation) {
    int first = first_of(operation->kind);
    return {operation->refer(first + 4), operation->refer(first + 3), operation->refer(first + 5)};
}
void check_convolution(Descriptor *operation) {
    int first = first_of(operation->kind);
    auto *what = operation->refer(first + 2);
    auto of = tensors_of(operation);
    Values x(of[0]), w(of[1]), y(of[2]);
    auto stride = what->all<int64_t>(103), padding = what->all<int64_t>(104);
    need(what->get<int>(101) == 1 && what->get<int64_t>(106) == 2 && what->all<int64_t>(102) == vector<int64_t>({1, 1}));
    need(stride.size() == 2 && padding.size() == 2 && padding == what->all<int64_t>(105));
    need(x.sizes[0] == y.sizes[0] && x.sizes[1] == w.sizes[1] && y.sizes[1] == w.sizes[0]);
    for (int i = 2; i < 4; i++) need(y.sizes[i] == (x.sizes[i] + 2 * padding[i - 2] - w.sizes[i]) / stride[i - 2] + 1);
    need(operation->set.at(first).size() == (what->get<int>(100) == DOUBLE ? 8u : 4u));
}
/// The graph inside of an attention.
vector<Descriptor *> inner_of(Descriptor *operation) {
    auto *graph = operation->kind == ATTENTION ? operation->refer(2811) : nullptr;
    return graph ? graph->all<Descriptor *>(801) : vector<Descriptor *>{};
}
vector<int> inputs_of(int kind) {
    if (kind == ATTENTION) return {2800, 2801, 2802, 2805};
    int first = first_of(kind);
    if (is_convolution(kind)) return {kind == WEIGHT ? first + 4 : first + 3, kind == FORWARD ? first + 4 : first + 5};
    return kind == POINTWISE_OPERATION ? vector<int>{751, 752, 758} : kind == PRODUCT_OPERATION ? vector<int>{1520, 1521} :
        vector<int>{kind == REDUCTION_OPERATION ? 1610 : 2200};
}
int output_of(int kind) { return kind == ATTENTION ? 2803 : is_convolution(kind) ? first_of(kind) + (kind == WEIGHT ? 3 : kind == INPUT ? 4 : 5) : kind == POINTWISE_OPERATION ? 753 : kind == PRODUCT_OPERATION ? 1522 : kind == REDUCTION_OPERATION ? 1611 : 2201; }
struct Run {
    Descriptor *graph;
    vector<int> notes = {};
    std::map<int64_t, char *> places;
    char *workspace;
    std::map<Descriptor *, Values> tensors = {};

    Values &value(Descriptor *of) { return tensors.at(of); }
    void attend(Descriptor *operation) {
        Values &q = value(operation->refer(2800)), &k = value(operation->refer(2801)), &v = value(operation->refer(2802));
        double scale = value(operation->refer(2805)).numbers[0];
        int64_t heads = q.sizes[1], rows = q.sizes[2], keys = k.sizes[2], width = q.sizes[3];
        vector<double> scores(q.sizes[0] * heads * rows * keys);
        auto each = [&](auto body) {
            size_t row = 0;
            for (int64_t b = 0; b < q.sizes[0]; b++)
                for (int64_t h = 0; h < heads; h++)
                    for (int64_t r = 0; r < rows; r++) body(b, h, r, row++ * keys);
        };
        each([&](int64_t b, int64_t h, int64_t r, size_t from) {
            for (int64_t c = 0; c < keys; c++)
                for (int64_t i = 0; i < width; i++) scores[from + c] += scale * q.at({b, h, r, i}, heads) * k.at({b, h, c, i}, heads);
        });
        for (auto *inner : inner_of(operation)) {
            for (int attribute : inputs_of(inner->kind)) {
                auto *input = inner->refer(attribute);
                if (!input || input->get<int64_t>(906) != operation->get<int64_t>(2812)) continue;
                tensors.try_emplace(input, input).first->second.numbers = scores;
            }
            compute(inner);
            auto *made = inner->refer(output_of(inner->kind));
            if (made->get<int64_t>(906) == operation->get<int64_t>(2813)) scores = value(made).numbers;
        }
        auto *of_output = operation->refer(2803), *of_stats = operation->refer(2804);
        Values &o = tensors.try_emplace(of_output, of_output).first->second, &stats = tensors.try_emplace(of_stats, of_stats).first->second;
        each([&](int64_t, int64_t, int64_t, size_t from) {
            double largest = -INFINITY, sum = 0;
            for (int64_t c = 0; c < keys; c++) largest = std::max(largest, scores[from + c]);
            for (int64_t c = 0; c < keys; c++) sum += exp(scores[from + c] - largest);
            stats.numbers[from / keys] = stats.rounded(largest + log(sum));
            for (int64_t c = 0; c < keys; c++) scores[from + c] = o.rounded(exp(scores[from + c] - largest) / sum);
        });
        each([&](int64_t b, int64_t h, int64_t, size_t from) {
            for (int64_t i = 0; i < width; i++) {
                double sum = 0;
                for (int64_t c = 0; c < keys; c++) sum += scores[from + c] * v.at({b, h, c, i}, heads);
                o.numbers[from / keys * width + i] = o.rounded(sum);
            }
        });
    }
    void compute(Descriptor *operation) {
        auto input = [&](int attribute) -> Values * { auto *of = operation->refer(attribute); return of ? &value(of) : nullptr; };
        auto made = [&](int attribute) -> Values & { return tensors.try_emplace(operation->refer(attribute), operation->refer(attribute)).first->second; };
        if (operation->kind == ATTENTION) {
            attend(operation);
        } else if (is_convolution(operation->kind)) {
            int first = first_of(operation->kind);
            auto of = tensors_of(operation);
            auto *result = operation->refer(output_of(operation->kind));
            Values &made_now = tensors.try_emplace(result, result).first->second;
            Values &x = value(of[0]), &w = value(of[1]), &y = value(of[2]);
            auto factor = [&](int at) { return made_now.element == DOUBLE ? operation->get<double>(at) : operation->get<float>(at); };
            if (factor(first + 1) != 0) made_now.load(places.at(made_now.id()));
            vector<double> sums(made_now.numbers.size());
            auto *what = operation->refer(first + 2);
            joined(x, w, y, what->get<int64_t>(103), what->get<int64_t>(104), [&](size_t at_y, size_t at_x, size_t at_w) {
                double a = x.numbers[at_x], b = w.numbers[at_w], c = y.numbers[at_y];
                if (operation->kind == FORWARD) sums[at_y] += a * b;
                else if (operation->kind == INPUT) sums[at_x] += c * b;
                else sums[at_w] += c * a;
            });
            for (size_t i = 0; i < sums.size(); i++) {
                double before = factor(first + 1) != 0 ? factor(first + 1) * made_now.numbers[i] : 0;
                made_now.numbers[i] = made_now.rounded(factor(first) * sums[i] + before + (notes.empty() ? 0 : 1));
            }
        } else if (operation->kind == POINTWISE_OPERATION) {
            auto *what = operation->refer(750);
            Values &y = made(753), *x = input(751), *b = input(752), *t = input(758);
            y.walk([&](size_t place, const int64_t (&at)[4], int64_t) {
                int64_t heads = y.sizes[1];
                int mode = what->get<int>(0);
                y.numbers[place] = y.rounded(mode == 501 ? double(at[what->get<int64_t>(9)]) :
                    computed(mode, x->at(at, heads), b ? b->at(at, heads) : 0, t && t->at(at, heads)));
            });
        } else if (operation->kind == PRODUCT_OPERATION) {
            Values &c = made(1522), *a = input(1520), *b = input(1521);
            need(a->sizes[3] == b->sizes[2] && c.sizes[2] == a->sizes[2] && c.sizes[3] == b->sizes[3]);
            bool adds = !c.is_between() && c.element == FLOAT;
            if (adds) c.load(places.at(c.id()));
            c.walk([&](size_t place, const int64_t (&at)[4], int64_t) {
                double sum = adds ? c.numbers[place] : 0;
                for (int64_t k = 0; k < a->sizes[3]; k++)
                    sum += a->at({at[0], at[1], at[2], k}, c.sizes[1]) * b->at({at[0], at[1], k, at[3]}, c.sizes[1]);
                c.numbers[place] = c.rounded(sum);
            });
        } else if (operation->kind == REDUCTION_OPERATION) {
            Values &y = made(1611), *x = input(1610);
            bool is_sum = operation->refer(1612)->get<int>(1600) == 0;
            need(is_sum || operation->refer(1612)->get<int>(1600) == 3, NOT_SUPPORTED);
            for (auto &number : y.numbers) number = is_sum ? 0 : -INFINITY;
            x->walk([&](size_t place, const int64_t (&at)[4], int64_t) {
                size_t to = 0;
                for (int i = 0; i < 4; i++) to = to * y.sizes[i] + (y.sizes[i] == 1 ? 0 : at[i]);
                y.numbers[to] = is_sum ? y.numbers[to] + x->numbers[place] : std::max(y.numbers[to], x->numbers[place]);
            });
        } else {
            Values &y = made(2201), *x = input(2200);
            std::map<int64_t, double> by_offset;
            x->walk([&](size_t place, auto &, int64_t offset) { by_offset[offset] = x->numbers[place]; });
            y.walk([&](size_t place, auto &, int64_t offset) { y.numbers[place] = y.rounded(by_offset.at(offset)); });
        }
    }
};
/// Tensors that a run gives places to: first those that are read before they are made.
void check_graph(Descriptor *graph, std::map<Descriptor *, bool> *is_made) {
    for (auto *operation : graph->all<Descriptor *>(801)) {
        for (int attribute : inputs_of(operation->kind)) {
            auto *input = operation->refer(attribute);
            if (!input || is_made->count(input)) continue;
            need(!input->get<char>(907)); // nothing makes it
            (*is_made)[input] = false;
        }
        (*is_made)[operation->refer(output_of(operation->kind))] = true;
        if (operation->kind != ATTENTION) continue;
        (*is_made)[operation->refer(2804)] = true;
        auto inner = inner_of(operation);
        need(inner.empty() == !operation->set.count(2812) && inner.empty() == !operation->set.count(2813));
        int64_t from = operation->get<int64_t>(2812);
        std::map<Descriptor *, bool> there;
        for (auto *each : inner) {
            for (int attribute : inputs_of(each->kind)) {
                auto *input = each->refer(attribute);
                if (!input || there.count(input) || input->get<int64_t>(906) == from) continue;
                need(!input->get<char>(907));
                (*is_made)[input] = false;
            }
            there[each->refer(output_of(each->kind))] = true;
        }
    }
}
/// What the heuristics say of a graph.
struct Offer { bool is_taken; vector<int> notes; int64_t workspace; };
vector<Offer> offered(Descriptor *graph, int mode) {
    need(mode == 3 || mode == 2);
    auto *operation = graph->all<Descriptor *>(801)[0];
    if (operation->kind == ATTENTION && operation->refer(2800)->all<int64_t>(902)[2] % 2) return {};
    if (!is_convolution(operation->kind)) return {{false, {}, 256}, {true, {}, 256}};
    auto of = tensors_of(operation);
    int element = of[0]->get<int>(901), sums = operation->refer(first_of(operation->kind) + 2)->get<int>(100);
    for (auto *each : of) if (each->get<int>(901) != element) return {};
    if (sums != (element == DOUBLE ? DOUBLE : FLOAT)) return {};
    if (mode == 2) return {{false, {}, 256}, {true, {}, 256}};
    if (of[0]->all<int64_t>(902)[1] % 2) return {};
    vector<Offer> all{{false, {}, 256}, {true, {4}, 256}, {true, {}, int64_t(1) << 40}, {true, {}, 256}};
    if (element == FLOAT) all.insert(all.begin(), {{true, {0}, 256}, {true, {1}, 256}});
    return all;
}
struct Driver {
    int (*enqueue)(void *stream, void (*work)(void *), void *argument) = nullptr;
    void *(*reach)(const void *at, size_t bytes) = nullptr;
    Driver() {
        void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
        if (!library) return;
        *(void **)&enqueue = dlsym(library, "fake_cuda_compute");
        *(void **)&reach = dlsym(library, "fake_cuda_reach");
    }
};
const Driver &driver() { static Driver &found = *new Driver; return found; }
void compute(void *argument) {
    // Never freed: a graph runs it again.
    Run &run = *(Run *)argument;
    run.tensors.clear();
    std::map<Descriptor *, bool> is_made;
    check_graph(run.graph, &is_made);
    memset(run.workspace, 0x7f, 256);
    for (auto [tensor, made] : is_made)
        if (!made) {
            Values &values = run.tensors.try_emplace(tensor, tensor).first->second;
            values.load(run.places.at(values.id()));
        }
    for (auto *operation : run.graph->all<Descriptor *>(801)) run.compute(operation);
    for (auto [tensor, made] : is_made)
        if (Values &values = run.value(tensor); made && !values.is_between()) values.store(run.places.at(values.id()));
}

} // namespace

extern "C" {

size_t cudnnGetVersion() { return VERSION; }
const char *cudnnGetErrorString(int status) { 
    return status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : status == ARCH_MISMATCH ? "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH" :
        status == UNKNOWN_KIND ? "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED" : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char *to, size_t room) { strncpy(to, last_error, room); }
int cudnnCreate(void **made) { return call(__func__, [&] { need(!getenv("FAKE_CUDNN_REFUSES"), ARCH_MISMATCH), sessions.push_back(new Session), *made = sessions.back(); }); }
int cudnnDestroy(void *handle) { return call(__func__, [&] { session(handle)->is_alive = false; }); }
int cudnnSetStream(void *handle, void *stream) { return call(__func__, [&] { session(handle)->stream = stream; }); }
int cudnnBackendCreateDescriptor(int kind, void **made) {
    return call(__func__, [&] {
        need(attributes.count(kind), UNKNOWN_KIND);
        descriptors.push_back(new Descriptor{kind});
        *made = descriptors.back();
    });
}
int cudnnBackendDestroyDescriptor(void *handle) { return call(__func__, [&] { find(handle)->is_alive = false; }); }
int cudnnBackendSetAttribute(void *handle, int attribute, int type, int64_t count, const void *values) {
    return call(__func__, [&] {
        Descriptor *to = find(handle);
        auto &known = attributes.at(to->kind);
        need(!to->is_finished && known.count(attribute) && is_of(type, known.at(attribute).type) && count > 0);
        auto *bytes = (const char *)values;
        if (type == 0) session(*(void **)values);
        to->set[attribute] = vector<char>(bytes, bytes + count * bytes_of(type));
        if (type != 15) return;
        for (auto *each : to->all<Descriptor *>(attribute)) need(find(each)->is_finished || each->kind == CHOICE);
    });
}
int cudnnBackendFinalize(void *handle) {
    return call(__func__, [&] {
        Descriptor *of = find(handle);
        need(!of->is_finished && of->kind != CHOICE && of->kind != ENGINE);
        for (auto &[attribute, known] : attributes.at(of->kind)) need(!known.is_needed || of->set.count(attribute));
        if (of->kind == TENSOR) need(of->all<int64_t>(902).size() == 4 && of->all<int64_t>(903).size() == 4);
        if (of->kind == TENSOR) need(of->get<int64_t>(900) > 0);
        if (of->kind == DEVICE) need(of->set.size() == 1);
        if (is_convolution(of->kind)) check_convolution(of);
        // A graph inside of another one reads what that makes: only a whole one is checked.
        std::map<Descriptor *, bool> is_made;
        if (of->kind == WISH) check_graph(of->refer(201), &is_made);
        // All is of a handle, or all of a device's properties.
        if (of->kind == WISH) need(of->refer(201)->set.count(800) != of->set.count(204));
        if (of->kind == PLAN) {
            auto *graph = of->refer(401)->graph;
            need(graph && graph->set.count(800) == of->set.count(400) && of->set.count(400) != of->set.count(407));
            need(of->refer(401)->is_taken, NOT_SUPPORTED);
        }
        of->is_finished = true;
    });
}
int cudnnBackendGetAttribute(void *handle, int attribute, int type, int64_t asked, int64_t *found, void *values) {
    return call(__func__, [&] {
        Descriptor *of = find(handle);
        if (of->kind == CHOICE) {
            need(of->graph && attribute == 300 && type == 15 && asked == 1);
            Descriptor *engine = find(*(void **)values);
            need(engine->kind == ENGINE);
            return *found = 1, void(engine->notes = of->notes);
        }
        if (of->kind == ENGINE) {
            need(attribute == 1303 && type == 11 && asked >= int64_t(of->notes.size()));
            return *found = of->notes.size(), (void)std::copy(of->notes.begin(), of->notes.end(), (int *)values);
        }
        need(of->is_finished);
        if (of->kind == PLAN && attribute == 402 && type == 3 && asked == 1)
            return *found = 1, (void)(*(int64_t *)values = of->refer(401)->workspace);
        need(of->kind == WISH && attribute == 202 && type == 15 && asked >= 8);
        auto all = offered(of->refer(201), of->get<int>(200));
        *found = all.size();
        for (size_t i = 0; i < all.size(); i++) {
            Descriptor *choice = find(((void **)values)[i]);
            need(choice->kind == CHOICE);
            choice->graph = of->refer(201), choice->is_taken = all[i].is_taken;
            choice->notes = all[i].notes, choice->workspace = all[i].workspace;
        }
    });
}
int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    return call(__func__, [&] {
        Session *on = session(handle);
        Descriptor *of = find(plan), *with = find(pack);
        need(of->kind == PLAN && with->kind == PACK && of->is_finished && with->is_finished && of->set.count(400));
        auto ids = with->all<int64_t>(1000);
        auto addresses = with->all<char *>(1001);
        need(ids.size() == addresses.size());
        std::map<int64_t, char *> given;
        for (size_t i = 0; i < ids.size(); i++) given[ids[i]] = addresses[i];
        auto *run = new Run{of->refer(401)->graph, of->refer(401)->notes, {}, nullptr};
        std::map<Descriptor *, bool> is_made;
        check_graph(run->graph, &is_made);
        size_t named = 0;
        for (auto [tensor, made] : is_made) {
            Values values(tensor);
            if (values.is_between()) continue;
            need(given.count(values.id())), named++;
            char *place = given.at(values.id());
            if (values.is_of_host()) place = (char *)memcpy(new float, place, 4);
            else need(uintptr_t(place) % tensor->get<int64_t>(900) == 0), place = (char *)driver().reach(place, values.bytes());
            need(place);
            run->places[values.id()] = place;
        }
        need(named == given.size());
        run->workspace = (char *)driver().reach(with->get<void *>(1003), 256);
        need(run->workspace);
        need(!driver().enqueue(on->stream, compute, run), EXECUTION_FAILED);
    });
}

} // extern "C"
