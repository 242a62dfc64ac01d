// libcuda.so.1 for machines without a GPU. Tests build it with the product's own kernels (in CRATES, the folder of all crates):
//
//     c++ -std=c++17 -O1 -U_FORTIFY_SOURCE -shared -fPIC -pthread -I CRATES -Wl,-soname,libcuda.so.1 -o libcuda.so.1 cuda.cpp -ldl
//
// Three rules make it find bugs that a GPU hides:
// * Device memory faults when the host touches it. The device reaches it through a second mapping.
// * Streams make the least progress that a caller can rely on: queued work runs when a caller waits for it or polls, so
//   the result of a forgotten wait is wrong every time.
// * Handles, addresses and sizes are checked. No handle or address is given out twice.
//
// Environment: FAKE_CUDA_DEVICES, FAKE_CUDA_MEMORY (bytes a device, counted per process), FAKE_CUDA_FAIL
// (FUNCTION:FIRST_CALL:CODE), FAKE_CUDA_VERSION (12040), FAKE_CUDA_CAPABILITY (90), CUDA_VISIBLE_DEVICES (numbers),
// FAKE_CUDA_EAGER (streams that nobody waits for go first, as far as nothing holds them: a forgotten wait the other way),
// FAKE_CUDA_ORDER and FAKE_CUDA_SKIP_BARRIER (how the threads of a kernel run: emulate.h).
#include <sys/stat.h>

#include "driver.h"

#include "device/kernels/check.cu"
#include "device/kernels/loops.cu"
#include "engine/kernels/rows.cu"
#include "train.h"

#include "attention.h"
#include "spatial.h"
#include "norm.h"

namespace {

auto fill_bytes = [](auto *to, auto *table, u64 count, u32 period, u32) {
    return Extents{count * sizeof *to, period * sizeof *table};
};
auto compare_bytes = [](auto *held, auto *table, u64 count, u32 period, u32, Found *) {
    return Extents{count * sizeof *held, period * sizeof *table, sizeof(Found)};
};
auto two_arrays = [](auto *, auto *, u64 count) { return Extents(2, count * sizeof(double)); };
auto three_arrays = [](auto *, auto *, auto *, u64 count) { return Extents(3, count * sizeof(double)); };
auto two_vectors = [](auto *to, auto *, u64 count) { return Extents(2, count * sizeof *to); };
// Values have at least a period; rows of another matrix, at least one.
auto fill_rows_bytes = [](auto *to, auto *, auto *, u64 rows, u32 columns, u32, u32 period) {
    return Extents{rows * columns * sizeof *to, 8 * period, 8 * rows};
};
auto compare_rows_bytes = [](auto *held, auto *, auto *, u64 rows, u32 columns, u32, u32 period, u64, FoundRows *) {
    return Extents{rows * columns * sizeof *held, 8 * period, 8 * rows, sizeof(FoundRows)};
};
auto gather_bytes = [](auto *to, auto *, auto *, u64 rows, u32 words) {
    return Extents{rows * words * sizeof *to, words * sizeof *to, 4 * rows};
};
auto combine_bytes = [](auto *to, auto *, auto *, auto *, auto *, u64 rows, u32 columns, u32 each) {
    return Extents{columns * sizeof *to, columns * sizeof *to, 4 * rows, 4 * rows * each, 8 * rows * each};
};
auto weigh_bytes = [](auto *, auto *, auto *, u64 heads, u32 queries, u32 keys, u32) {
    return Extents{4 * heads * queries * keys, 8 * heads * queries, 4 * heads * queries};
};
auto scale_bytes = [](auto *, auto *, u64 count, u32 columns, u32 divides) {
    return Extents{4 * count * columns, (divides ? 8 : 4) * count};
};
auto sums_bytes = [](auto *sums, u64 count, u32) { return Extents(1, count * sizeof *sums); };
auto chain_bytes = [](auto *, u64 words, u64, auto *) { return Extents{words * sizeof(u64), sizeof(u64)}; };
const std::map<std::string, Kernel> &kernels = *new std::map<std::string, Kernel>{
    {"fill_8", make_kernel(fill_8, fill_bytes)},    {"compare_8", make_kernel(compare_8, compare_bytes)},
    {"fill_16", make_kernel(fill_16, fill_bytes)},  {"compare_16", make_kernel(compare_16, compare_bytes)},
    {"fill_32", make_kernel(fill_32, fill_bytes)},  {"compare_32", make_kernel(compare_32, compare_bytes)},
    {"fill_64", make_kernel(fill_64, fill_bytes)},  {"compare_64", make_kernel(compare_64, compare_bytes)},
    {"loop_copy", make_kernel(loop_copy, two_arrays)},    {"loop_scale", make_kernel(loop_scale, two_arrays)},
    {"loop_add", make_kernel(loop_add, three_arrays)},    {"loop_triad", make_kernel(loop_triad, three_arrays)},
    {"chase", make_kernel(chase, chain_bytes)},
    {"fma_32", make_kernel(fma_32, sums_bytes)},          {"fma_64", make_kernel(fma_64, sums_bytes)},
    {"gather_rows_16", make_kernel(gather_rows_16, gather_bytes)},
    {"gather_rows_32", make_kernel(gather_rows_32, gather_bytes)},
    {"gather_rows_64", make_kernel(gather_rows_64, gather_bytes)},
    {"weigh", make_kernel(weigh, weigh_bytes)},
    {"scale_rows", make_kernel(scale_rows, scale_bytes)},
    {"begin_states", make_kernel(begin_states, [](auto *, u64 queries) { return Extents{8 * queries}; })},
#define OF(type) \
    {"fill_rows_" #type, make_kernel(fill_rows_##type, fill_rows_bytes)}, \
    {"compare_rows_" #type, make_kernel(compare_rows_##type, compare_rows_bytes)},
#define OF_SUMS(type) \
    OF(type) {"add_rows_" #type, make_kernel(add_rows_##type, two_vectors)}, \
    {"combine_rows_" #type, make_kernel(combine_rows_##type, combine_bytes)},
    OF_SUMS(f64) OF_SUMS(f32) OF_SUMS(bf16) OF_SUMS(f16) OF(f8e4m3) OF(i8) OF(i32)
};
const std::map<std::string, Kernel> &of_training = *new std::map<std::string, Kernel>(train_kernels());
const std::map<std::string, Kernel> &of_attention = *new std::map<std::string, Kernel>(attention_kernels());
const std::map<std::string, Kernel> &of_images = *new std::map<std::string, Kernel>(spatial_kernels());
const std::map<std::string, Kernel> &of_norms = *new std::map<std::string, Kernel>(norm_kernels());
const Kernel *find_kernel(const std::string &name) {
    for (auto *all : {&kernels, &of_training, &of_attention, &of_images, &of_norms})
        if (auto found = all->find(name); found != all->end()) return &found->second;
    return nullptr;
}

} // namespace

extern "C" {

// ---- For the other fakes

/// Runs `work` in the stream's order, and again with each launch of a graph that captured it. A CUresult.
int fake_cuda_enqueue(void *stream, void (*work)(void *), void *argument) {
    return call(__func__, CONTEXT, [&] { push(*find_stream(stream), {[=] { work(argument); }, nullptr, nullptr, true}); });
}
/// The same for work that waits for nobody.
int fake_cuda_compute(void *stream, void (*work)(void *), void *argument) {
    return call(__func__, CONTEXT, [&] { push(*find_stream(stream), {[=] { work(argument); }}); });
}
/// Where the device reaches memory; null outside an allocation.
void *fake_cuda_reach(const void *at, size_t bytes) {
    Lock lock(driver.mutex);
    return reach(Address(at), bytes);
}

/// How kernels run that this thread waits for: as the variables FAKE_CUDA_ORDER and FAKE_CUDA_SKIP_BARRIER say it.
void fake_cuda_run_as(int order, int barrier) { order_of_threads = order, skipped_barrier = barrier; }

// ---- As cuda.h declares them

int cuDriverGetVersion(int *version) {
    const char *given = getenv("FAKE_CUDA_VERSION");
    return *version = given ? atoi(given) : 12040, SUCCESS;
}
#define X(number, name, text) case number: return *said = number ? "CUDA_ERROR_" #name : "CUDA_SUCCESS", SUCCESS;
int cuGetErrorName(int code, const char **said) { switch (code) { CODES(X) } return *said = nullptr, INVALID_VALUE; }
#undef X
#define X(number, name, text) case number: return *said = text, SUCCESS;
int cuGetErrorString(int code, const char **said) { switch (code) { CODES(X) } return *said = nullptr, INVALID_VALUE; }
#undef X
int cuInit(unsigned flags) {
    return call(__func__, NOTHING, [&] {
        refuse_if(flags, INVALID_VALUE);
        refuse_if(driver.devices.empty(), NO_DEVICE);
        driver.is_initialized = true;
    });
}

int cuDeviceGetCount(int *count) { return call(__func__, INITIALIZED, [&] { *count = int(driver.devices.size()); }); }
int cuDeviceGet(int *device, int ordinal) { return call_device(__func__, ordinal, [&](Device &) { *device = ordinal; }); }
int cuDeviceGetName(char *name, int length, int device) {
    return call_device(__func__, device, [&](Device &) { snprintf(name, length, "Emulated GPU"); });
}
int cuDeviceGetUuid_v2(char *uuid, int device) {
    return call_device(__func__, device, [&](Device &of) { memcpy(uuid, "emulated device", 15), uuid[15] = char(of.number); });
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return call_device(__func__, device, [&](Device &) { *bytes = driver.memory; }); }
int cuDeviceGetPCIBusId(char *name, int length, int device) {
    return call_device(__func__, device, [&](Device &of) {
        refuse_if(length < 13, INVALID_VALUE);
        snprintf(name, length, "0000:%02x:00.0", (of.number + 1) & 255);
    });
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const std::map<int, int> &values = *new std::map<int, int>{
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64},           // threads of a block; its three sizes
        {5, 0x7fffffff}, {6, 65535}, {7, 65535},            // the three sizes of a grid
        {8, 49152}, {10, 32}, {12, 65536}, {13, 1000000},   // shared memory, warp, registers, clock in kHz
        {16, 4}, {19, 1}, {31, 1}, {36, 1000000}, {37, 64}, // multiprocessors, maps host memory, memory's clock and width
        {38, 1 << 20}, {39, 2048}, {40, 2}, {41, 1},        // L2, threads of a multiprocessor, copy engines, one address space
        {75, 9}, {76, 0}, {81, 233472}, {82, 65536}, {97, 232448}, // compute capability; a multiprocessor's memory
    };
    return call_device(__func__, device, [&](Device &of) {
        refuse_if(attribute < 1 || attribute > 150, INVALID_VALUE);
        auto known = values.find(attribute);
        const int PCI_BUS = 33, MAJOR = 75, MINOR = 76;
        const char *capability = getenv("FAKE_CUDA_CAPABILITY");
        if (capability && (attribute == MAJOR || attribute == MINOR))
            return void(*value = attribute == MAJOR ? atoi(capability) / 10 : atoi(capability) % 10);
        *value = attribute == PCI_BUS ? of.number + 1 : known == values.end() ? 0 : known->second;
    });
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    return call_device(__func__, device, [&](Device &of) {
        *context = &of;
        if (of.retained++) return;
        void *handle;
        of.stream = add<Stream>(&handle);
        of.stream->device = device;
    });
}
/// The last release destroys all that was made in the context.
int cuDevicePrimaryCtxRelease_v2(int device) {
    return call_device(__func__, device, [&](Device &of) {
        refuse_if(!of.retained, INVALID_CONTEXT);
        if (--of.retained) return;
        for (auto [handle, object] : std::map(driver.objects)) if (object->device == device) driver.objects.erase(handle);
        for (auto [base, old] : std::map(driver.allocations)) if (old.device == device) unmap_allocation(base);
        for (auto [base, old] : std::map(driver.pinned)) if (old.device == device) retire(base, old.bytes), driver.pinned.erase(base);
        for (auto [base, old] : std::map(driver.registered)) if (old.device == device) driver.registered.erase(base);
    });
}
int cuCtxSetCurrent(void *context) {
    return call(__func__, INITIALIZED, [&] {
        int index = context ? int((Device *)context - driver.devices.data()) : -1;
        refuse_if(index < -1 || index >= int(driver.devices.size()), INVALID_CONTEXT);
        refuse_if(context && (context != &driver.devices[index] || !driver.devices[index].retained), INVALID_CONTEXT);
        current = index;
    });
}
int cuCtxGetCurrent(void **context) {
    return call(__func__, INITIALIZED, [&] { *context = current < 0 ? nullptr : &driver.devices[current]; });
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    return call(__func__, CONTEXT, [&] { *total = driver.memory, *free = driver.memory - driver.devices[current].used; });
}
int cuMemAlloc_v2(Address *at, size_t bytes) {
    return call(__func__, CONTEXT, [&] {
        refuse_if(!at || !bytes, INVALID_VALUE);
        refuse_while_capturing();
        auto &device = driver.devices[current];
        refuse_if(bytes > driver.memory - device.used, OUT_OF_MEMORY);
        int file = memfd_create("fake-cuda", MFD_CLOEXEC);
        refuse_if(file < 0 || ftruncate(file, off_t(pages(bytes))), OUT_OF_MEMORY);
        *at = map_allocation(file, bytes, false);
        device.used += bytes;
        // A GPU's memory is not zeroed. Its start is enough to show that, and keeps large buffers cheap.
        memset(reach(*at, bytes), 0xff, std::min(bytes, size_t(1) << 20));
    });
}
/// Does not wait for queued work, which then faults: the caller must have waited.
int cuMemFree_v2(Address at) {
    return call(__func__, CONTEXT, [&] {
        refuse_while_capturing();
        if (at) find_allocation(at, false), unmap_allocation(at);
    });
}
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    return call(__func__, CONTEXT, [&] {
        refuse_if(!at || !bytes || flags > 7, INVALID_VALUE);
        refuse_while_capturing();
        void *made = mmap(nullptr, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        refuse_if(made == MAP_FAILED, OUT_OF_MEMORY);
        driver.pinned[Address(*at = made)] = {bytes, current};
    });
}
int cuMemFreeHost(void *at) {
    return call(__func__, CONTEXT, [&] {
        auto found = driver.pinned.find(Address(at));
        refuse_if(found == driver.pinned.end(), INVALID_VALUE);
        refuse_while_capturing();
        retire(found->first, found->second.bytes);
        driver.pinned.erase(found);
    });
}
/// Memory that the caller still has: it is touched.
int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    return call(__func__, CONTEXT, [&] {
        refuse_if(!at || !bytes || flags > 15, INVALID_VALUE);
        refuse_while_capturing();
        auto next = driver.registered.lower_bound(Address(at) + bytes);
        bool overlaps = next != driver.registered.begin() && std::prev(next)->first + std::prev(next)->second.bytes > Address(at);
        refuse_if(overlaps, HOST_MEMORY_ALREADY_REGISTERED);
        for (size_t i = 0; i < bytes; i += 4096) (void)((volatile char *)at)[i];
        driver.registered[Address(at)] = {bytes, current};
    });
}
int cuMemHostUnregister(void *at) {
    return call(__func__, CONTEXT, [&] {
        auto found = driver.registered.find(Address(at));
        refuse_if(found == driver.registered.end(), HOST_MEMORY_NOT_REGISTERED);
        refuse_while_capturing();
        for (size_t i = 0; i < found->second.bytes; i += 4096) (void)((volatile char *)at)[i];
        driver.registered.erase(found);
    });
}
int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) {
    return copy(__func__, to, Address(from), bytes, stream, [=](char *device, char *host) { memcpy(device, host, bytes); });
}
int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) {
    return copy(__func__, from, Address(to), bytes, stream, [=](char *device, char *host) { memcpy(host, device, bytes); });
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream) {
    return call(__func__, CONTEXT, [&] {
        auto on = find_stream(stream);
        refuse_if(!reach(to, bytes) || !reach(from, bytes), INVALID_VALUE);
        push(*on, {[=] { memmove(reach_or_fault(to, bytes), reach_or_fault(from, bytes), bytes); }});
    });
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void *stream) {
    return call(__func__, CONTEXT, [&] {
        auto on = find_stream(stream);
        refuse_if(!reach(to, bytes), INVALID_VALUE);
        push(*on, {[=] { memset(reach_or_fault(to, bytes), value, bytes); }});
    });
}

/// CUipcMemHandle: an open file of another process of this user.
struct IpcHandle { long process, file, inode; size_t bytes; char reserved[32]; };
int cuIpcGetMemHandle(IpcHandle *handle, Address at) {
    return call(__func__, CONTEXT, [&] {
        auto &of = find_allocation(at, false);
        struct stat file;
        fstat(of.file, &file);
        *handle = {getpid(), of.file, long(file.st_ino), of.bytes, {}};
    });
}
int cuIpcOpenMemHandle_v2(Address *at, IpcHandle handle, unsigned flags) {
    return call(__func__, CONTEXT, [&] {
        refuse_if(flags != 1, INVALID_VALUE);
        refuse_if(handle.process == getpid(), INVALID_CONTEXT);
        std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
        int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
        struct stat found;
        refuse_if(file < 0 || fstat(file, &found) || long(found.st_ino) != handle.inode, INVALID_HANDLE);
        *at = map_allocation(file, handle.bytes, true);
    });
}
int cuIpcCloseMemHandle(Address at) { return call(__func__, CONTEXT, [&] { find_allocation(at, true), unmap_allocation(at); }); }

int cuStreamCreate(void **stream, unsigned flags) {
    return call(__func__, CONTEXT, [&] { refuse_if(flags > 1, INVALID_VALUE), add<Stream>(stream); });
}
int cuStreamDestroy_v2(void *stream) { return call(__func__, CONTEXT, [&] { remove<Stream>(stream); }); }
int cuStreamSynchronize(void *handle) {
    return call(__func__, CONTEXT, [&](Lock &lock) {
        auto stream = find_stream(handle);
        refuse_in_capture(*stream);
        wait_until(lock, stream, [&, last = stream->issued] { return stream->finished >= last; });
    });
}
int cuStreamQuery(void *handle) {
    return call(__func__, CONTEXT, [&](Lock &lock) {
        auto stream = find_stream(handle);
        refuse_in_capture(*stream);
        if (!stream->queue.empty()) poll(lock, stream);
    });
}
int cuStreamWaitEvent(void *handle, void *event, unsigned flags) {
    return call(__func__, CONTEXT, [&] {
        auto stream = find_stream(handle);
        auto mark = find<Event>(event)->mark;
        refuse_if(flags > 1, INVALID_VALUE);
        if (!mark) return;
        auto capture = mark->capture;
        if (!capture) return refuse_if(bool(stream->capture), STREAM_CAPTURE_ISOLATION), push(*stream, {nullptr, mark});
        refuse_if(!capture->is_active, CAPTURED_EVENT);
        refuse_if(stream->capture && stream->capture != capture, STREAM_CAPTURE_MERGE);
        mark->stream->joined_turn = std::max(mark->stream->joined_turn, mark->turn);
        if (!stream->capture) capture->streams.push_back(stream);
        stream->capture = capture;
        stream->last_turn = ++capture->turns;
    });
}

int cuEventCreate(void **event, unsigned flags) {
    return call(__func__, CONTEXT, [&] { refuse_if(flags > 7, INVALID_VALUE), add<Event>(event)->flags = flags; });
}
int cuEventDestroy_v2(void *event) { return call(__func__, CONTEXT, [&] { remove<Event>(event); }); }
int cuEventRecord(void *handle, void *on) {
    return call(__func__, CONTEXT, [&] {
        auto event = find<Event>(handle);
        auto stream = find_stream(on);
        refuse_if(event->device != stream->device, INVALID_HANDLE);
        auto mark = event->mark = std::make_shared<Mark>(Mark{stream, stream->capture});
        if (mark->capture) mark->turn = ++mark->capture->turns;
        else push(*stream, {nullptr, nullptr, mark});
    });
}
int cuEventQuery(void *event) {
    return call(__func__, CONTEXT, [&](Lock &lock) {
        auto mark = find<Event>(event)->mark;
        refuse_if(mark && mark->capture, CAPTURED_EVENT);
        if (mark && !mark->is_done) poll(lock, mark->stream);
    });
}
int cuEventSynchronize(void *event) {
    return call(__func__, CONTEXT, [&](Lock &lock) {
        auto mark = find<Event>(event)->mark;
        refuse_if(mark && mark->capture, CAPTURED_EVENT);
        if (mark) wait_until(lock, mark->stream, [&] { return mark->is_done; });
    });
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    return call(__func__, CONTEXT, [&] {
        auto start = find<Event>(from), end = find<Event>(to);
        const unsigned DISABLE_TIMING = 2;
        refuse_if((start->flags | end->flags) & DISABLE_TIMING || !start->mark || !end->mark, INVALID_HANDLE);
        refuse_if(start->mark->capture || end->mark->capture, CAPTURED_EVENT);
        refuse_if(!start->mark->is_done || !end->mark->is_done, NOT_READY);
        *milliseconds = std::chrono::duration<float, std::milli>(end->mark->at - start->mark->at).count();
    });
}

// Code of the emulated device: a byte that no text begins with, and the text.
const char CODE = '\x7f';
int cuLinkCreate_v2(unsigned options, int *, void **, void **link) {
    return call(__func__, CONTEXT, [&] { refuse_if(options, INVALID_VALUE), add<Link>(link); });
}
int cuLinkAddData_v2(void *link, int type, void *data, size_t size, const char *name, unsigned options, int *, void **) {
    return call(__func__, CONTEXT, [&] {
        const int PTX = 1;
        auto text = (const char *)data;
        auto &code = find<Link>(link)->code;
        refuse_if(type != PTX || !data || !size || text[size - 1] || !name || options || !code.empty(), INVALID_VALUE);
        refuse_if(!strstr(text, ".version"), INVALID_IMAGE);
        if (auto ms = getenv("FAKE_CUDA_COMPILE_MS")) usleep(1000 * atoi(ms));
        code = CODE + std::string(text, size); // its zero, too
    });
}
int cuLinkComplete(void *link, void **code, size_t *size) {
    return call(__func__, CONTEXT, [&] {
        auto &made = find<Link>(link)->code;
        refuse_if(made.empty(), INVALID_VALUE);
        *code = made.data(), *size = made.size();
    });
}
int cuLinkDestroy(void *link) { return call(__func__, CONTEXT, [&] { remove<Link>(link); }); }

int cuModuleLoadData(void **module, const char *image) {
    return call(__func__, CONTEXT, [&] {
        refuse_if(!image, INVALID_VALUE);
        refuse_if(!strstr(image, ".version"), INVALID_IMAGE);
        refuse_while_capturing(); // it takes memory
        add<Module>(module)->text = image;
    });
}
int cuModuleUnload(void *module) {
    return call(__func__, CONTEXT, [&] {
        remove<Module>(module);
        for (auto [handle, object] : std::map(driver.objects)) {
            auto function = std::dynamic_pointer_cast<Function>(object);
            if (function && function->module == module) driver.objects.erase(handle);
        }
    });
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    return call(__func__, CONTEXT, [&] {
        auto known = find_kernel(name);
        refuse_if(find<Module>(module)->text.find(name) == std::string::npos || !known, NOT_FOUND);
        auto made = add<Function>(function);
        made->module = module, made->kernel = known;
    });
}
int cuFuncSetAttribute(void *handle, int attribute, int value) {
    return call(__func__, CONTEXT, [&] {
        auto function = find<Function>(handle);
        const int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, MOST = 227 << 10; // of sm_90
        refuse_if(attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > MOST, INVALID_VALUE);
        function->shared = std::max(48 << 10, value);
    });
}
int cuLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void *on, void **arguments, void **extra) {
    return call(__func__, CONTEXT, [&] {
        auto function = find<Function>(handle);
        auto stream = find_stream(on);
        refuse_if(function->device != stream->device, INVALID_HANDLE);
        dim3 grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
        auto in = [](unsigned size, unsigned most) { return size >= 1 && size <= most; };
        refuse_if(!in(grid.x, 0x7fffffff) || !in(grid.y, 65535) || !in(grid.z, 65535), INVALID_VALUE);
        refuse_if(!in(block.x, 1024) || !in(block.y, 1024) || !in(block.z, 64), INVALID_VALUE);
        refuse_if(block.x * block.y * block.z > 1024 || shared > function->shared || !arguments || extra, INVALID_VALUE);
        std::vector<std::vector<char>> values;
        for (size_t bytes : function->kernel->sizes) {
            auto value = (const char *)arguments[values.size()];
            refuse_if(!value, INVALID_VALUE);
            values.emplace_back(value, value + bytes);
        }
        push(*stream, {[=, kernel = function->kernel] { kernel->run(grid, block, shared, values, reach_or_fault); }});
    });
}

int cuStreamBeginCapture_v2(void *handle, unsigned mode) {
    return call(__func__, CONTEXT, [&] {
        refuse_if(!handle, STREAM_CAPTURE_UNSUPPORTED);
        auto stream = find<Stream>(handle);
        refuse_if(mode > 2, INVALID_VALUE);
        refuse_if(bool(stream->capture), ILLEGAL_STATE);
        stream->capture = std::make_shared<Capture>(Capture{mode, {stream}});
    });
}
int cuStreamEndCapture(void *handle, void **graph) {
    return call(__func__, CONTEXT, [&] {
        auto stream = find_stream(handle);
        auto capture = stream->capture;
        refuse_if(!capture, ILLEGAL_STATE);
        refuse_if(capture->streams[0] != stream, STREAM_CAPTURE_UNMATCHED);
        refuse_if(capture->mode != 2 && capture->thread != std::this_thread::get_id(), STREAM_CAPTURE_WRONG_THREAD);
        bool is_joined = true;
        for (auto &member : capture->streams) {
            is_joined &= member == stream || member->joined_turn > member->last_turn;
            member->capture = nullptr;
            member->joined_turn = member->last_turn = 0;
        }
        capture->streams.clear();
        capture->is_active = false;
        *graph = nullptr;
        refuse_if(capture->is_invalid, STREAM_CAPTURE_INVALIDATED);
        refuse_if(!is_joined, STREAM_CAPTURE_UNJOINED);
        add<Graph>(graph)->pieces = capture->pieces;
    });
}
int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long) {
    return call(__func__, CONTEXT, [&] { auto from = find<Graph>(graph); add<GraphExec>(made)->pieces = from->pieces; });
}
int cuGraphLaunch(void *graph, void *stream) {
    return call(__func__, CONTEXT, [&] {
        auto on = find_stream(stream);
        for (auto &piece : find<GraphExec>(graph)->pieces) push(*on, piece);
    });
}
int cuGraphDestroy(void *graph) { return call(__func__, CONTEXT, [&] { remove<Graph>(graph); }); }
int cuGraphExecDestroy(void *graph) { return call(__func__, CONTEXT, [&] { remove<GraphExec>(graph); }); }

} // extern "C"
