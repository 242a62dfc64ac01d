// libcublasLt.so.12 for machines without a GPU, on the streams and memory of the emulated libcuda.so.1:
//
//     c++ -std=c++17 -O2 -shared -fPIC -pthread -Wl,-soname,libcublasLt.so.12 -o libcublasLt.so.12 cublaslt.cpp -ldl
//
// Matrices are by columns. Sums are in f64 and rounded once, so that a result is right or wrong and never close. It is strict:
// descriptions are checked for their kind and their life, sizes and types for what the library takes, an algorithm for the
// description that it was given for, the workspace for its length, an epilogue's matrices for multiples of 16 bytes. A product overwrites its workspace before it computes.
//
// Environment: FAKE_CUBLAS_FAIL=FUNCTION:CALL:STATUS, FAKE_CUBLAS_WRONG=N (the Nth product of a process changes its last element),
// FAKE_CUBLAS_SLOW=1 (the first choice takes two milliseconds more), FAKE_CUBLAS_VERSION (120901), FAKE_CUBLAS_NONE=TYPE (the
// number of an operand's type that no algorithm takes).
#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace {

enum Status { SUCCESS, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Type { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14, R_8F_E4M3 = 28 };
enum Compute { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72, COMPUTE_32F_FAST_TF32 = 77 };
enum Epilogue { DEFAULT = 1, BIAS = 4, GELU = 32, GELU_AUX_BIAS = 32 | 128 | 4, DGELU = 64 | 128, DGELU_BGRAD = 64 | 128 | 16, BGRADB = 512 };
using std::vector;
struct Algo { uint64_t data[8]; };
struct Candidate { Algo algo; size_t workspace; int state; float waves; int reserved[4]; };

struct Driver {
    int (*enqueue)(void *stream, void (*work)(void *), void *argument) = nullptr;
    void *(*reach)(const void *at, size_t bytes) = nullptr;
    int (*current)(void **context) = nullptr;
    Driver() {
        void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
        if (!library) library = dlopen("libcuda.so.1", RTLD_LAZY);
        if (!library) return;
        *(void **)&enqueue = dlsym(library, "fake_cuda_compute");
        *(void **)&reach = dlsym(library, "fake_cuda_reach");
        *(void **)&current = dlsym(library, "cuCtxGetCurrent");
    }
};
const Driver &driver() { static Driver &found = *new Driver; return found; }

enum Kind { LIBRARY = 1, LAYOUT, FORM, WISH };
/// What a handle stands for. Never freed: one that was destroyed is told from one that never was.
struct Object {
    Kind kind;
    bool is_alive = true;
    int type = 0, compute = 0, scale = 0;
    uint64_t rows = 0, columns = 0;
    int64_t ld = 0;
    std::map<int, vector<char>> set = {};
    template <class T> T get(int attribute, T otherwise) const {
        auto found = set.find(attribute);
        T value = otherwise;
        if (found != set.end()) memcpy(&value, found->second.data(), sizeof value);
        return value;
    }
};
std::mutex &lock = *new std::mutex;
vector<Object *> &objects = *new vector<Object *>;
int products = 0;
long calls_of_failing = 0;

Object *find(void *handle, Kind kind) {
    for (auto *object : objects)
        if (object == handle) return object->is_alive && object->kind == kind ? object : throw int(INVALID_VALUE);
    throw int(INVALID_VALUE);
}
template <class Body> int call(const char *function, Body body) {
    std::lock_guard<std::mutex> guard(lock);
    char failing[64] = "";
    long at = 0;
    int code = 0;
    const char *planted = getenv("FAKE_CUBLAS_FAIL");
    if (planted && sscanf(planted, "%63[^:]:%ld:%d", failing, &at, &code) == 3 && !strcmp(failing, function) &&
        ++calls_of_failing >= at)
        return code;
    try {
        body();
    } catch (int status) {
        return status;
    }
    return SUCCESS;
}
void need(bool condition, int status = INVALID_VALUE) { if (!condition) throw status; }
int create(const char *function, void **to, Object object) {
    return call(function, [&] { need(to), objects.push_back(new Object(object)), *to = objects.back(); });
}
int destroy(const char *function, void *handle, Kind kind) {
    return call(function, [&] { find(handle, kind)->is_alive = false; });
}
int set(const char *function, void *handle, Kind kind, const std::map<int, size_t> &sizes, int attribute, const void *value, size_t size) {
    return call(function, [&] {
        auto known = sizes.find(attribute);
        need(known != sizes.end() && known->second == size && value);
        find(handle, kind)->set[attribute] = vector<char>((const char *)value, (const char *)value + size);
    });
}

size_t size_of(int type) {
    switch (type) {
    case R_64F: return 8;
    case R_32F: case R_32I: return 4;
    case R_16F: case R_16BF: return 2;
    default: return 1;
    }
}
/// To the nearest number with so many bits behind the first, and to the even of two; `least`: the exponent of the smallest step.
double round_to(double value, int bits, int least) {
    if (value == 0 || !std::isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent);
    double step = ldexp(1, std::max(exponent - 1 - bits, least));
    return nearbyint(value / step) * step;
}
double read(const void *at, int type, size_t index) {
    switch (type) {
    case R_64F: return ((const double *)at)[index];
    case R_32F: return ((const float *)at)[index];
    case R_32I: return ((const int32_t *)at)[index];
    case R_8I: return ((const int8_t *)at)[index];
    case R_16BF: {
        uint32_t bits = uint32_t(((const uint16_t *)at)[index]) << 16;
        float value;
        memcpy(&value, &bits, 4);
        return value;
    }
    case R_16F: {
        uint16_t bits = ((const uint16_t *)at)[index];
        int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        double size = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        return bits >> 15 ? -size : size;
    }
    default: { // R_8F_E4M3
        uint8_t bits = ((const uint8_t *)at)[index];
        int exponent = bits >> 3 & 15, mantissa = bits & 7;
        double size = (bits & 127) == 127 ? NAN : exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
        return bits >> 7 ? -size : size;
    }
    }
}
void write(void *at, int type, size_t index, double value) {
    switch (type) {
    case R_64F: ((double *)at)[index] = value; return;
    case R_32F: ((float *)at)[index] = float(value); return;
    case R_32I: ((int32_t *)at)[index] = int32_t(value); return;
    case R_16BF: {
        float rounded = float(round_to(value, 7, -133));
        uint32_t bits;
        memcpy(&bits, &rounded, 4);
        ((uint16_t *)at)[index] = uint16_t(bits >> 16);
        return;
    }
    default: { // R_16F
        double rounded = fabs(round_to(value, 10, -24));
        uint16_t sign = std::signbit(value) ? 0x8000 : 0, size;
        if (std::isnan(value)) size = 0x7e00;
        else if (rounded >= 65536) size = 0x7c00;
        else if (rounded < ldexp(1, -14)) size = uint16_t(ldexp(rounded, 24));
        else {
            int exponent;
            double part = frexp(rounded, &exponent);
            size = uint16_t((exponent + 14) << 10) + uint16_t(ldexp(part, 11) - 1024);
        }
        ((uint16_t *)at)[index] = sign | size;
    }
    }
}
const double ROOT = sqrt(2 / M_PI), CUBE = 0.044715;
double gelu(double x) { return 0.5 * x * (1 + tanh(ROOT * (x + CUBE * x * x * x))); }
double gelu_gradient(double x) {
    double t = tanh(ROOT * (x + CUBE * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * CUBE * x * x);
}

/// A product, as far as its descriptions say.
struct Product {
    uint64_t m, n, k;
    int type, result, compute, epilogue;
    bool transposes_a, transposes_b;
    int64_t lda, ldb, ldd, ld_auxiliary;
    int batch;
    int64_t strides[3];
    uint64_t bias = 0, auxiliary = 0;
    double alpha = 1, beta = 0;
    uint64_t at[4] = {}; // A, B, C, D
    uint64_t workspace = 0;
    size_t workspace_bytes = 0;
    bool is_wrong = false;
    int id = 0;
};
/// What an algorithm is for: it multiplies nothing else.
uint64_t signature(const Product &p) {
    uint64_t sum = 1469598103934665603u;
    for (uint64_t part : {p.m, p.n, p.k, uint64_t(p.type), uint64_t(p.compute), uint64_t(p.epilogue), uint64_t(p.transposes_a),
                          uint64_t(p.transposes_b), uint64_t(p.batch)})
        sum = (sum ^ part) * 1099511628211u;
    return sum;
}
Product described(void *form_handle, void *a_handle, void *b_handle, void *c_handle, void *d_handle) {
    auto *form = find(form_handle, FORM), *a = find(a_handle, LAYOUT), *b = find(b_handle, LAYOUT);
    auto *c = find(c_handle, LAYOUT), *d = find(d_handle, LAYOUT);
    Product p;
    p.transposes_a = form->get<int32_t>(3, 0), p.transposes_b = form->get<int32_t>(4, 0);
    p.m = p.transposes_a ? a->columns : a->rows, p.k = p.transposes_a ? a->rows : a->columns;
    p.n = p.transposes_b ? b->rows : b->columns;
    need((p.transposes_b ? b->columns : b->rows) == p.k && d->rows == p.m && d->columns == p.n);
    need(c->rows == d->rows && c->columns == d->columns && c->type == d->type && a->type == b->type);
    for (auto *layout : {a, b, c, d}) need(layout->ld >= int64_t(layout->rows));
    p.lda = a->ld, p.ldb = b->ld, p.ldd = d->ld;
    need(c->ld == d->ld);
    p.type = a->type, p.result = d->type, p.compute = form->compute;
    p.epilogue = form->get<int32_t>(7, DEFAULT);
    p.bias = form->get<uint64_t>(8, 0), p.auxiliary = form->get<uint64_t>(11, 0), p.ld_auxiliary = form->get<int64_t>(12, 0);
    p.batch = d->get<int32_t>(5, 1);
    const Object *layouts[] = {a, b, d};
    for (int i = 0; i < 3; i++) need(layouts[i]->get<int32_t>(5, 1) == p.batch), p.strides[i] = layouts[i]->get<int64_t>(6, 0);
    struct { int type, result, compute, scale; } known[] = {
        {R_64F, R_64F, COMPUTE_64F, R_64F}, {R_32F, R_32F, COMPUTE_32F, R_32F}, {R_32F, R_32F, COMPUTE_32F_FAST_TF32, R_32F},
        {R_16F, R_16F, COMPUTE_32F, R_32F}, {R_16BF, R_16BF, COMPUTE_32F, R_32F}, {R_8F_E4M3, R_16BF, COMPUTE_32F, R_32F},
        {R_16F, R_32F, COMPUTE_32F, R_32F}, {R_16BF, R_32F, COMPUTE_32F, R_32F},
        {R_8I, R_32I, COMPUTE_32I, R_32I}};
    bool is_known = false;
    for (auto &each : known)
        is_known |= each.type == p.type && each.result == p.result && each.compute == p.compute && each.scale == form->scale;
    need(is_known, NOT_SUPPORTED);
    uint64_t multiple = p.type == R_8F_E4M3 ? 16 : p.type == R_8I ? 4 : 1;
    need(p.m % multiple == 0 && p.k % multiple == 0, NOT_SUPPORTED);
    need(multiple == 1 || (p.transposes_a && !p.transposes_b), NOT_SUPPORTED);
    bool has_bias = p.epilogue & (BIAS | 16 | BGRADB), has_auxiliary = p.epilogue & 128;
    need(has_bias == bool(p.bias) || !has_bias);
    need(!has_bias || p.bias), need(!has_auxiliary || (p.auxiliary && p.ld_auxiliary >= int64_t(p.m)));
    switch (p.epilogue) {
    case DEFAULT: case BIAS: case GELU: case GELU_AUX_BIAS: case DGELU: case DGELU_BGRAD: case BGRADB: break;
    default: throw int(NOT_SUPPORTED);
    }
    return p;
}
void *reach(uint64_t at, size_t bytes) { return bytes ? driver().reach((const void *)at, bytes) : nullptr; }
size_t extent(int64_t ld, uint64_t rows, uint64_t columns, int64_t stride, int batch, int type) {
    return (size_t(stride) * (batch - 1) + size_t(ld) * (columns - 1) + rows) * size_of(type);
}
/// What each pointer must lead to: null where it does not.
vector<void *> places(const Product &p) {
    uint64_t a_rows = p.transposes_a ? p.k : p.m, b_rows = p.transposes_b ? p.n : p.k;
    uint64_t a_columns = p.transposes_a ? p.m : p.k, b_columns = p.transposes_b ? p.k : p.n;
    size_t a = extent(p.lda, a_rows, a_columns, p.strides[0], p.batch, p.type);
    size_t b = extent(p.ldb, b_rows, b_columns, p.strides[1], p.batch, p.type);
    size_t d = extent(p.ldd, p.m, p.n, p.strides[2], p.batch, p.result);
    vector<void *> all = {reach(p.at[0], a), reach(p.at[1], b), reach(p.at[2], d), reach(p.at[3], d)};
    if (p.epilogue & (BIAS | 16 | BGRADB)) all.push_back(reach(p.bias, (p.epilogue == BGRADB ? p.n : p.m) * size_of(p.result)));
    else all.push_back(&all);
    if (p.epilogue & 128) all.push_back(reach(p.auxiliary, (p.ld_auxiliary * (p.n - 1) + p.m) * size_of(p.result)));
    else all.push_back(&all);
    all.push_back(p.workspace_bytes ? reach(p.workspace, p.workspace_bytes) : &all);
    return all;
}
void multiply(void *argument) {
    // Never freed: a graph that captured it runs it again.
    const Product &p = *(const Product *)argument;
    auto all = places(p);
    for (void *place : all) if (!place) fprintf(stderr, "cublasLtMatmul ran on memory that was freed\n"), abort();
    if (p.workspace_bytes) memset(all[6], 0xA5, p.workspace_bytes);
    if (p.id == 11 && getenv("FAKE_CUBLAS_SLOW")) usleep(2000);
    bool rounds = p.compute == COMPUTE_32F_FAST_TF32;
    vector<double> left(p.m * p.k), right(p.k * p.n), sums(p.m);
    for (int number = 0; number < p.batch; number++) {
        auto of = [&](void *at, int64_t stride, int type) { return (char *)at + number * stride * size_of(type); };
        char *a = of(all[0], p.strides[0], p.type), *b = of(all[1], p.strides[1], p.type);
        char *c = of(all[2], p.strides[2], p.result), *d = of(all[3], p.strides[2], p.result);
        auto rounded = [&](double value) { return rounds ? round_to(value, 10, -149) : value; };
        for (uint64_t i = 0; i < p.m; i++)
            for (uint64_t q = 0; q < p.k; q++)
                left[i * p.k + q] = rounded(read(a, p.type, p.transposes_a ? q + i * p.lda : i + q * p.lda));
        for (uint64_t j = 0; j < p.n; j++)
            for (uint64_t q = 0; q < p.k; q++)
                right[j * p.k + q] = rounded(read(b, p.type, p.transposes_b ? j + q * p.ldb : q + j * p.ldb));
        if (p.epilogue == BGRADB)
            for (uint64_t j = 0; j < p.n; j++) {
                double sum = 0;
                for (uint64_t q = 0; q < p.k; q++) sum += right[j * p.k + q];
                write(all[4], p.result, j, sum);
            }
        sums.assign(p.m, 0);
        for (uint64_t j = 0; j < p.n; j++)
            for (uint64_t i = 0; i < p.m; i++) {
                double sum = 0;
                const double *x = &left[i * p.k], *y = &right[j * p.k];
                for (uint64_t q = 0; q < p.k; q++) sum += x[q] * y[q];
                double z = p.alpha * sum + (p.beta ? p.beta * read(c, p.result, i + j * p.ldd) : 0);
                if (p.epilogue & BIAS) z += read(all[4], p.result, i);
                size_t at_auxiliary = i + j * p.ld_auxiliary;
                if (p.epilogue == GELU_AUX_BIAS) write(all[5], p.result, at_auxiliary, z);
                if (p.epilogue & GELU) z = gelu(z);
                if (p.epilogue & 64) z *= gelu_gradient(read(all[5], p.result, at_auxiliary));
                sums[i] += z;
                if (p.is_wrong && i + 1 == p.m && j + 1 == p.n) z = z == 1 ? 2 : 1;
                write(d, p.result, i + j * p.ldd, z);
            }
        if (p.epilogue == DGELU_BGRAD) for (uint64_t i = 0; i < p.m; i++) write(all[4], p.result, i, sums[i]);
    }
}
double factor(const void *at, int scale) { return scale == R_64F ? *(const double *)at : scale == R_32I ? *(const int32_t *)at : *(const float *)at; }
unsigned version() { const char *given = getenv("FAKE_CUBLAS_VERSION"); return given ? atoi(given) : 120901; }

} // namespace

extern "C" {

/// Handles and descriptions that were not destroyed.
int fake_cublas_alive() {
    std::lock_guard<std::mutex> guard(lock);
    int count = 0;
    for (auto *object : objects) count += object->is_alive;
    return count;
}

int cublasLtCreate(void **handle) {
    void *context = nullptr;
    if (!driver().current || driver().current(&context) || !context) return NOT_INITIALIZED;
    return create(__func__, handle, {LIBRARY});
}
int cublasLtDestroy(void *handle) { return destroy(__func__, handle, LIBRARY); }
size_t cublasLtGetVersion() { return version(); }
size_t cublasLtGetCudartVersion() { return version() / 10000 * 1000 + version() / 100 % 100 * 10; }
const char *cublasLtGetStatusName(int status) {
    switch (status) {
    case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return nullptr;
    }
}
const char *cublasLtGetStatusString(int status) { return status == NOT_SUPPORTED ? "the requested functionality is not supported" : "planted or found by the fake"; }

int cublasLtMatrixLayoutCreate(void **to, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    Object made{LAYOUT};
    made.type = type, made.rows = rows, made.columns = columns, made.ld = ld;
    return create(__func__, to, made);
}
int cublasLtMatrixLayoutDestroy(void *handle) { return destroy(__func__, handle, LAYOUT); }
int cublasLtMatrixLayoutSetAttribute(void *handle, int attribute, const void *value, size_t size) {
    return set(__func__, handle, LAYOUT, {{5, 4}, {6, 8}}, attribute, value, size);
}
int cublasLtMatmulDescCreate(void **to, int compute, int scale) {
    Object made{FORM};
    made.compute = compute, made.scale = scale;
    return create(__func__, to, made);
}
int cublasLtMatmulDescDestroy(void *handle) { return destroy(__func__, handle, FORM); }
int cublasLtMatmulDescSetAttribute(void *handle, int attribute, const void *value, size_t size) {
    return set(__func__, handle, FORM, {{3, 4}, {4, 4}, {7, 4}, {8, 8}, {11, 8}, {12, 8}}, attribute, value, size);
}
int cublasLtMatmulPreferenceCreate(void **to) { return create(__func__, to, {WISH}); }
int cublasLtMatmulPreferenceDestroy(void *handle) { return destroy(__func__, handle, WISH); }
int cublasLtMatmulPreferenceSetAttribute(void *handle, int attribute, const void *value, size_t size) {
    return set(__func__, handle, WISH, {{1, 8}, {3, 4}, {5, 4}, {6, 4}, {7, 4}, {8, 4}}, attribute, value, size);
}

/// Four: a plain one, one with a workspace, one that fails when it runs, one that says at once that it cannot.
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *form, void *a, void *b, void *c, void *d, void *wish, int asked,
                                   Candidate *to, int *found) {
    return call(__func__, [&] {
        find(handle, LIBRARY);
        Product p = described(form, a, b, c, d);
        auto *wished = find(wish, WISH);
        const char *none = getenv("FAKE_CUBLAS_NONE");
        need(!none || atoi(none) != p.type, NOT_SUPPORTED);
        uint64_t room = wished->get<uint64_t>(1, 0), aligned = 256;
        // Parts of a sum that are kept as 16 bits would be rounded twice: 2 is the one scheme that does not.
        bool is_narrow = p.result == R_16F || p.result == R_16BF;
        need(!is_narrow || wished->get<uint32_t>(3, 7) == 2);
        for (int attribute : {5, 6, 7, 8}) aligned = std::min<uint64_t>(aligned, wished->get<uint32_t>(attribute, 256));
        // What an epilogue writes by vectors of 16 bytes must lie so; a bias alone may lie anywhere.
        auto *formed = find(form, FORM);
        int epilogue = formed->get<int>(7, DEFAULT);
        bool joins = epilogue != DEFAULT && epilogue != BIAS && epilogue != GELU;
        need(!joins || aligned >= 16, NOT_SUPPORTED);
        for (int attribute : {8, 11}) need(!joins || formed->get<uint64_t>(attribute, 0) % 16 == 0, NOT_SUPPORTED);
        *found = 0;
        auto offer = [&](uint64_t id, size_t workspace, int state) {
            if (*found >= asked || workspace > room) return;
            to[(*found)++] = {{{id, signature(p), aligned, workspace}}, workspace, state, 1.0f, {}};
        };
        offer(11, 0, SUCCESS), offer(12, 4 << 20, SUCCESS), offer(13, 0, SUCCESS), offer(14, 0, NOT_SUPPORTED);
        need(*found, NOT_SUPPORTED);
    });
}
int cublasLtMatmulAlgoConfigGetAttribute(const Algo *algo, int attribute, void *value, size_t size, size_t *written) {
    if (attribute < 0 || attribute > 8 || size != 4) return INVALID_VALUE;
    uint32_t number = attribute == 0 ? uint32_t(algo->data[0]) : attribute == 1 ? 20 : attribute == 2 ? 1 : attribute == 6 ? 8 : 0;
    memcpy(value, &number, 4);
    if (written) *written = 4;
    return SUCCESS;
}
int cublasLtMatmul(void *handle, void *form, const void *alpha, uint64_t a, void *a_layout, uint64_t b, void *b_layout,
                   const void *beta, uint64_t c, void *c_layout, uint64_t d, void *d_layout, const Algo *algo, uint64_t workspace,
                   size_t workspace_bytes, void *stream) {
    return call(__func__, [&] {
        find(handle, LIBRARY);
        Product p = described(form, a_layout, b_layout, c_layout, d_layout);
        need(alpha && beta && algo);
        int scale = find(form, FORM)->scale;
        p.alpha = factor(alpha, scale), p.beta = factor(beta, scale);
        need(algo->data[1] == signature(p));
        p.id = int(algo->data[0]);
        need(p.id != 13, NOT_SUPPORTED);
        need(workspace_bytes >= algo->data[3]);
        uint64_t at[] = {a, b, c, d};
        for (int i = 0; i < 4; i++) need(at[i] % algo->data[2] == 0), p.at[i] = at[i];
        p.workspace = workspace, p.workspace_bytes = algo->data[3];
        for (void *place : places(p)) need(place);
        const char *wrong = getenv("FAKE_CUBLAS_WRONG");
        p.is_wrong = ++products == (wrong ? atoi(wrong) : 0);
        need(!driver().enqueue(stream, multiply, new Product(p)), EXECUTION_FAILED);
    });
}

} // extern "C"
