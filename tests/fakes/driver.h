// What the emulated driver holds: devices, memory, streams and what is queued in them. cuda.cpp puts its calls on top.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulate.h"

#define CODES(X) \
    X(0, SUCCESS, "no error") \
    X(1, INVALID_VALUE, "invalid argument") \
    X(2, OUT_OF_MEMORY, "out of memory") \
    X(3, NOT_INITIALIZED, "initialization error") \
    X(100, NO_DEVICE, "no CUDA-capable device is detected") \
    X(101, INVALID_DEVICE, "invalid device ordinal") \
    X(200, INVALID_IMAGE, "device kernel image is invalid") \
    X(201, INVALID_CONTEXT, "invalid device context") \
    X(214, ECC_UNCORRECTABLE, "uncorrectable ECC error encountered") \
    X(400, INVALID_HANDLE, "invalid resource handle") \
    X(401, ILLEGAL_STATE, "the operation cannot be performed in the present state") \
    X(500, NOT_FOUND, "named symbol not found") \
    X(600, NOT_READY, "device not ready") \
    X(700, ILLEGAL_ADDRESS, "an illegal memory access was encountered") \
    X(709, CONTEXT_IS_DESTROYED, "context is destroyed") \
    X(712, HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped") \
    X(713, HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region") \
    X(716, MISALIGNED_ADDRESS, "misaligned address") \
    X(719, LAUNCH_FAILED, "unspecified launch failure") \
    X(801, NOT_SUPPORTED, "operation not supported") \
    X(900, STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing") \
    X(901, STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture") \
    X(902, STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences") \
    X(903, STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began") \
    X(904, STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work") \
    X(905, STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream") \
    X(907, CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream") \
    X(908, STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread") \
    X(999, UNKNOWN, "unknown error")

namespace {

#define X(number, name, text) name = number,
enum Code { CODES(X) };
#undef X
/// Thrown by all below; a call of the driver returns it.
void refuse_if(bool condition, int code) { if (condition) throw code; }

using Address = uint64_t;
using Lock = std::unique_lock<std::mutex>;
using Clock = std::chrono::steady_clock;
template <class T> using Shared = std::shared_ptr<T>;
struct Stream;
struct Capture;

/// One record of an event.
struct Mark {
    Shared<Stream> stream;
    Shared<Capture> capture;
    long turn = 0; // in the capture
    bool is_done = false;
    Clock::time_point at = {};
};
/// What a stream does next: waits for a mark, works, or sets a mark.
struct Piece {
    std::function<void()> work;
    Shared<Mark> until = nullptr, sets = nullptr;
    bool may_block = false; // it waits for other ranks: a caller that polls must not wait for it
};
struct Object {
    int device;
    virtual ~Object() = default;
};
struct Stream : Object {
    std::deque<Piece> queue;
    long issued = 0, finished = 0;
    bool is_busy = false;
    Shared<Capture> capture;
    long last_turn = 0, joined_turn = 0; // in the capture
};
/// Pieces of a stream and of those that join it. The order of the calls satisfies every dependency.
struct Capture {
    unsigned mode;
    std::vector<Shared<Stream>> streams; // the first began it
    std::vector<Piece> pieces = {};
    std::thread::id thread = std::this_thread::get_id();
    bool is_active = true, is_invalid = false;
    long turns = 0;
};
struct Event : Object { unsigned flags; Shared<Mark> mark; };
struct Graph : Object { std::vector<Piece> pieces; };
struct GraphExec : Object { std::vector<Piece> pieces; };
struct Module : Object { std::string text; };
struct Link : Object { std::string code; };
struct Function : Object { void *module; const Kernel *kernel; unsigned shared = 48 << 10; };

struct Allocation { char *view; size_t bytes; int file, device; bool is_imported; };
struct Pinned { size_t bytes; int device; };
struct Device {
    int number; // before CUDA_VISIBLE_DEVICES
    int retained = 0;
    size_t used = 0;
    Shared<Stream> stream = nullptr; // the default one: like any other, it orders no other stream
};

/// What the lock guards. Never destroyed: threads may be in it when the process ends.
struct Driver {
    std::mutex mutex;
    std::condition_variable changed;
    Clock::time_point moved = Clock::now();
    std::vector<Device> devices;
    std::map<uintptr_t, Shared<Object>> objects;
    std::map<Address, Allocation> allocations;
    std::map<Address, Pinned> pinned;
    std::map<Address, Pinned> registered; // memory of the caller's own
    uintptr_t last_handle = 0x1000;
    size_t memory = size_t(1) << 30;
    bool is_initialized = false, is_eager = false;
    int sticky = SUCCESS, failing_code = 0;
    char failing[64] = "";
    long failing_from = 0, failing_calls = 0;

    Driver() {
        const char *count = getenv("FAKE_CUDA_DEVICES"), *visible = getenv("CUDA_VISIBLE_DEVICES");
        int all = count ? atoi(count) : 8;
        for (int i = 0; i < all && !visible; i++) devices.push_back({i});
        while (visible && *visible) { // as in CUDA, the first that does not exist hides those after it
            char *end;
            long number = strtol(visible, &end, 10);
            if (end == visible || number < 0 || number >= all) break;
            devices.push_back({int(number)});
            visible = *end == ',' ? end + 1 : "";
        }
        if (const char *bytes = getenv("FAKE_CUDA_MEMORY")) memory = strtoull(bytes, nullptr, 10);
        is_eager = getenv("FAKE_CUDA_EAGER");
        if (const char *fail = getenv("FAKE_CUDA_FAIL")) sscanf(fail, "%63[^:]:%ld:%d", failing, &failing_from, &failing_code);
    }
};
Driver &driver = *new Driver;
thread_local int current = -1; // index of the device whose context is current

void refuse_planted(const char *function) {
    refuse_if(driver.sticky, driver.sticky);
    if (strcmp(driver.failing, function) || ++driver.failing_calls < driver.failing_from) return;
    if (driver.failing_code == ILLEGAL_ADDRESS || driver.failing_code == LAUNCH_FAILED) driver.sticky = driver.failing_code;
    throw driver.failing_code;
}
enum Need { NOTHING, INITIALIZED, CONTEXT };
/// Every call of the driver: `body` has the lock, and what it throws is the result.
template <class Body> int call(const char *function, Need need, Body body) {
    Lock lock(driver.mutex);
    try {
        refuse_planted(function);
        refuse_if(need >= INITIALIZED && !driver.is_initialized, NOT_INITIALIZED);
        refuse_if(need == CONTEXT && current < 0, INVALID_CONTEXT);
        refuse_if(need == CONTEXT && !driver.devices[current].retained, CONTEXT_IS_DESTROYED);
        if constexpr (std::is_invocable_v<Body, Lock &>) body(lock);
        else body();
    } catch (int code) {
        return code;
    }
    return SUCCESS;
}
template <class Body> int call_device(const char *function, int device, Body body) {
    return call(function, INITIALIZED, [&] {
        refuse_if(device < 0 || size_t(device) >= driver.devices.size(), INVALID_DEVICE);
        body(driver.devices[device]);
    });
}

template <class T> Shared<T> add(void **handle, Shared<T> object = std::make_shared<T>()) {
    refuse_if(!handle, INVALID_VALUE);
    object->device = current;
    driver.objects[driver.last_handle += 16] = object;
    *handle = (void *)driver.last_handle;
    return object;
}
template <class T> Shared<T> find(void *handle) {
    auto found = driver.objects.find(uintptr_t(handle));
    auto object = found == driver.objects.end() ? nullptr : std::dynamic_pointer_cast<T>(found->second);
    refuse_if(!object, INVALID_HANDLE);
    return object;
}
template <class T> void remove(void *handle) {
    find<T>(handle);
    driver.objects.erase(uintptr_t(handle));
}
Shared<Stream> find_stream(void *handle) { return handle ? find<Stream>(handle) : driver.devices[current].stream; }

// ---- Memory

size_t pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
/// Addresses that were given out fault from now on, and are not given out again.
void retire(Address at, size_t bytes) {
    mmap((void *)at, pages(bytes), PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
Address map_allocation(int file, size_t bytes, bool is_imported) {
    void *host = mmap(nullptr, pages(bytes), PROT_NONE, MAP_SHARED, file, 0);
    void *view = mmap(nullptr, pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    refuse_if(host == MAP_FAILED || view == MAP_FAILED, OUT_OF_MEMORY);
    driver.allocations[Address(host)] = {(char *)view, bytes, file, current, is_imported};
    return Address(host);
}
void unmap_allocation(Address base) {
    Allocation &old = driver.allocations[base];
    munmap(old.view, pages(old.bytes));
    retire(base, old.bytes);
    close(old.file);
    if (!old.is_imported) driver.devices[old.device].used -= old.bytes;
    driver.allocations.erase(base);
}
/// The allocation that begins there.
Allocation &find_allocation(Address base, bool is_imported) {
    auto found = driver.allocations.find(base);
    refuse_if(found == driver.allocations.end() || found->second.is_imported != is_imported, INVALID_VALUE);
    return found->second;
}
/// Null if not all of it lies in one allocation.
char *reach(Address at, size_t bytes) {
    auto next = driver.allocations.upper_bound(at);
    if (next == driver.allocations.begin()) return nullptr;
    auto &[base, found] = *std::prev(next);
    return bytes <= found.bytes && at - base <= found.bytes - bytes ? found.view + (at - base) : nullptr;
}
/// The same in pinned memory of the host.
char *reach_pinned(Address at, size_t bytes) {
    auto next = driver.pinned.upper_bound(at);
    if (next == driver.pinned.begin()) return nullptr;
    auto &[base, found] = *std::prev(next);
    return bytes <= found.bytes && at - base <= found.bytes - bytes ? (char *)at : nullptr;
}
/// For work that runs: memory may have been freed since the call.
char *reach_or_fault(Address at, size_t bytes, size_t alignment = 1) {
    refuse_if(at % alignment, MISALIGNED_ADDRESS);
    Lock lock(driver.mutex);
    char *found = reach(at, bytes);
    if (!found) found = reach_pinned(at, bytes);
    refuse_if(!found, ILLEGAL_ADDRESS);
    return found;
}

// ---- Streams

void push(Stream &stream, Piece piece) {
    auto &queue = stream.queue;
    if (!stream.capture) return queue.push_back(std::move(piece)), (void)stream.issued++;
    stream.capture->pieces.push_back(std::move(piece));
    stream.last_turn = ++stream.capture->turns;
}
void finish(Stream &stream, int fault) {
    driver.moved = Clock::now();
    if (auto mark = stream.queue.front().sets) mark->at = driver.moved, mark->is_done = true;
    stream.queue.pop_front();
    stream.finished++;
    stream.is_busy = false;
    if (fault && !driver.sticky) driver.sticky = fault;
    driver.changed.notify_all();
}
/// Runs one piece of the stream, or of the one that it waits for. False if there is none that could begin.
bool step(Lock &lock, Shared<Stream> stream) {
    if (driver.sticky || stream->is_busy || stream->queue.empty()) return false;
    Piece &head = stream->queue.front();
    if (head.until && !head.until->is_done) return step(lock, head.until->stream);
    stream->is_busy = true;
    auto run = [stream, work = head.work](Lock lock) {
        int fault = SUCCESS;
        lock.unlock();
        try {
            if (work) work();
        } catch (int code) {
            fault = code;
        }
        lock.lock();
        finish(*stream, fault);
        return lock;
    };
    if (head.may_block) std::thread([run] { run(Lock(driver.mutex)); }).detach();
    else lock = run(std::move(lock));
    return true;
}
/// Other streams go as far as nothing holds them: what a caller forgot to put behind another stream comes before it.
void run_ahead(Lock &lock, Shared<Stream> stream) {
    for (auto [handle, object] : std::map(driver.objects)) {
        auto other = std::dynamic_pointer_cast<Stream>(object);
        while (other && other != stream && !other->is_busy && !other->queue.empty() && !driver.sticky) {
            Piece &head = other->queue.front();
            // What waits for other ranks begins, too, and ends when they come.
            if ((head.until && !head.until->is_done) || !step(lock, other)) break;
        }
    }
}
/// If nothing moves, the other streams go on too, as on a GPU: two ranks may each wait for what the other does next.
bool progress(Lock &lock, Shared<Stream> stream) {
    if (driver.is_eager) run_ahead(lock, stream);
    if (step(lock, stream)) return true;
    if (Clock::now() - driver.moved < std::chrono::milliseconds(50)) return false;
    driver.moved = Clock::now();
    bool has_moved = false;
    for (auto [handle, object] : std::map(driver.objects))
        if (auto other = std::dynamic_pointer_cast<Stream>(object)) has_moved |= step(lock, other);
    return has_moved;
}
template <class Done> void wait_until(Lock &lock, Shared<Stream> stream, Done is_done) {
    while (!is_done() && !driver.sticky)
        if (!progress(lock, stream)) driver.changed.wait_for(lock, std::chrono::milliseconds(10));
    refuse_if(driver.sticky, driver.sticky);
}
/// Runs one piece and is not ready even if that was the last: a caller that polls always polls again. One that polls without
/// a pause leaves its core to the threads and processes that it waits for.
void poll(Lock &lock, Shared<Stream> stream) {
    if (!progress(lock, stream)) driver.changed.wait_for(lock, std::chrono::microseconds(100));
    throw driver.sticky ? driver.sticky : int(NOT_READY);
}
/// To wait for captured work is an error, also of the capture.
void refuse_in_capture(Stream &stream) {
    if (stream.capture) stream.capture->is_invalid = true;
    refuse_if(bool(stream.capture), STREAM_CAPTURE_UNSUPPORTED);
}
/// So are calls that may synchronize the device, unless the capture is relaxed (2) or of another thread alone (1).
void refuse_while_capturing() {
    for (auto &[handle, object] : driver.objects) {
        auto stream = std::dynamic_pointer_cast<Stream>(object);
        if (!stream || !stream->capture || stream->capture->mode == 2) continue;
        if (stream->capture->mode == 0 || stream->capture->thread == std::this_thread::get_id()) refuse_in_capture(*stream);
    }
}
/// The host's side of a copy is read or written when the copy runs.
template <class Work> int copy(const char *function, Address device, Address host, size_t bytes, void *handle, Work work) {
    return call(function, CONTEXT, [&] {
        auto stream = find_stream(handle);
        refuse_if(!reach(device, bytes) || !host || reach(host, 1), INVALID_VALUE);
        push(*stream, {[=] { work(reach_or_fault(device, bytes), (char *)host); }});
    });
}

} // namespace
