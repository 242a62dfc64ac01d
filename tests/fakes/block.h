// The threads of a block, for emulate.h: each has a stack, and goes on when all of them wait at the same barrier. The lanes of a warp
// do some things together (warp.h): all 32 must come to the same place. A thread that ends while others wait for it, or waits
// elsewhere, is an error: on a device the kernel hangs there, or its result is undefined.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

constexpr unsigned LANES = 32;

/// A copy into shared memory that runs when its thread waits for it: not before, so that a forgotten wait is wrong every time.
struct LateCopy { void *to; const void *from; size_t bytes; };

struct Block {
    static constexpr size_t STACK = 128 << 10;
    enum State { FREE, AT_BARRIER, WITH_WARP, ENDED };
    /// What the lanes do together, on what each of them brought.
    using Join = void (*)(void *const *brought);
    struct Thread {
        ucontext_t start;
        jmp_buf place;
        std::unique_ptr<char[]> stack{new char[STACK]};
        bool has_begun;
        State state;
        int line; // where it waits
        Join join;
        void *brought;
        std::vector<LateCopy> copies;
    };
    jmp_buf scheduler;
    std::vector<Thread> threads{1024};
    std::vector<unsigned> order;
    std::function<void()> body;
    Thread *running = nullptr;
    int fault;

    void run(std::function<void()> of_thread) {
        body = std::move(of_thread);
        order = ordered(blockDim.x);
        fault = 0;
        for (unsigned i : order) prepare(threads[i]);
        do {
            for (unsigned i : order) {
                advance(i);
                // A warp goes on alone, as far as it can: nothing but a barrier holds it.
                if (threads[i].state == WITH_WARP) advance_warp(i / LANES);
            }
        } while (pass_barrier());
    }
    /// The running thread waits, until it is resumed.
    void wait(State state, int line) {
        running->state = state, running->line = line;
        if (!setjmp(running->place)) longjmp(scheduler, 1);
    }

private:
    void prepare(Thread &thread) {
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = thread.stack.get();
        thread.start.uc_stack.ss_size = STACK;
        makecontext(&thread.start, begin, 0);
        thread.has_begun = false, thread.state = FREE, thread.line = 0, thread.copies.clear();
    }
    void advance(unsigned i) {
        if (threads[i].state != FREE) return;
        threadIdx = {i, 0, 0};
        running = &threads[i];
        resume();
        running = nullptr;
        if (fault) throw fault;
    }
    /// Between threads that have begun, without a system call.
    void resume() {
        if (setjmp(scheduler)) return;
        if (running->has_begun) longjmp(running->place, 1);
        running->has_begun = true;
        setcontext(&running->start);
    }
    void advance_warp(unsigned warp) {
        if (blockDim.x % LANES) throw ILLEGAL_USE;
        Thread *lanes = &threads[warp * LANES];
        for (;;) {
            for (unsigned i : order) if (i / LANES == warp) advance(i);
            if (std::none_of(lanes, lanes + LANES, [](Thread &lane) { return lane.state == WITH_WARP; })) return;
            void *brought[LANES];
            for (unsigned i = 0; i < LANES; i++) {
                bool is_here = lanes[i].state == WITH_WARP && lanes[i].line == lanes->line && lanes[i].join == lanes->join;
                if (!is_here) throw ILLEGAL_USE;
                brought[i] = lanes[i].brought;
            }
            lanes->join(brought);
            for (unsigned i = 0; i < LANES; i++) lanes[i].state = FREE;
        }
    }
    /// False where all have ended.
    bool pass_barrier() {
        for (unsigned i : order) {
            if (threads[i].state != threads[0].state || threads[i].line != threads[0].line) throw ILLEGAL_USE;
            if (threads[i].state == AT_BARRIER) continue;
            // Nobody waited for what was copied.
            if (!threads[i].copies.empty() && !skipped_barrier) throw ILLEGAL_USE;
        }
        if (threads[0].state == ENDED) return false;
        for (unsigned i : order) threads[i].state = FREE;
        return true;
    }
    static void begin();
};
inline Block &block_of_threads() {
    static thread_local Block block;
    return block;
}
/// The running thread's, which is of a kernel made by make_block_kernel.
inline Block &waiting_block() {
    Block &block = block_of_threads();
    if (!block.running) throw ILLEGAL_USE;
    return block;
}
inline void Block::begin() {
    Block &block = block_of_threads();
    try {
        block.body();
    } catch (int code) {
        block.fault = code;
    }
    block.running->state = ENDED, block.running->line = 0;
    longjmp(block.scheduler, 1);
}
inline void wait_for_block(int line) {
    if (line != skipped_barrier) waiting_block().wait(Block::AT_BARRIER, line);
}
/// The warp's lanes join here, each with what it brought; `line` tells this place from others.
template <class Part> void meet(Part &mine, int line, Block::Join join) {
    Block &block = waiting_block();
    block.running->join = join;
    block.running->brought = &mine;
    block.wait(Block::WITH_WARP, line);
}
