/* libnccl.so.2 for machines without a GPU. Its ranks are threads, processes, or both, of one machine:

       cc -shared -fPIC -O1 -pthread -fwrapv -Wl,-soname,libnccl.so.2 -o libnccl.so.2 nccl.c -ldl

   With the emulated libcuda.so.1, operations run on its streams and move its device memory. Without it they run at once on
   memory of the host. It is strict: ranks that disagree about an operation are an error, and a send ends only when it is
   received. Ranks meet in a file that all map; its name is the unique id.

   Environment: FAKE_NCCL_STUCK=N (the Nth operation of a process ends only by abort), FAKE_NCCL_WRONG=N (the Nth operation
   flips bit 6 of the last byte of its output), FAKE_NCCL_FAIL=FUNCTION:CALL:CODE. FAKE_NCCL_RANK limits all three to the
   process whose first communicator has that rank. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 16, SLOT = 256 << 10, MAIL = 64 << 10, OPS = 256, PATIENCE = 60 /* seconds */ };
enum { SUCCESS, UNHANDLED_CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR };
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, SEND, RECV };
enum { SUM, PROD, MAX, MIN, AVG };

typedef struct { char internal[128]; } Id;
typedef struct { size_t count; int kind, type, op, root; } Call;
typedef struct { int is_full, type; size_t count, bytes, length; } Channel;
/* Of all its ranks. Mutex and futex survive a rank that dies; a condition variable would not. */
typedef struct {
    pthread_mutex_t lock;
    uint32_t changes;
    int is_ready, size, joined, arrived, generation;
    int has_joined[RANKS], has_left[RANKS];
    Call calls[RANKS];                     /* between two barriers */
    int color[RANKS], key[RANKS];
    char made[RANKS][128];
    Channel channels[RANKS][RANKS];        /* [from][to] */
    char slots[RANKS][SLOT];
    char mail[RANKS][RANKS][MAIL];
} World;
typedef struct { /* Never freed: queued work may name it after its end. */
    World *world;
    int file, rank, size, home; /* home: the rank in the first communicator */
    int has_ended, error;
    int registered; /* buffers; what is registered must be given back before the end */
    pthread_mutex_t running;
    const struct Cuda *cuda;
} Comm;
typedef struct { Call call; const void *from; void *to; Comm *comm; void *stream; int is_stuck, is_wrong; } Op;
typedef struct { int count; Op ops[]; } Batch; /* of one communicator and stream, run together */

/* ---- The process */

static struct Cuda {
    int (*enqueue)(void *stream, void (*work)(void *), void *argument);
    void *(*reach)(const void *address, size_t bytes);
    int (*current)(void **context), (*alloc)(uint64_t *address, size_t bytes), (*release)(uint64_t address);
} driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[256], failing[64];
static int aborts, destroys, trouble, ids, operations, failing_at, failing_code, failing_calls;
static int process_rank = -1, only_rank = -1, stuck_at, wrong_at;
static __thread Op ops[OPS];
static __thread int count_of_ops, depth;

int fake_aborts(void) { return aborts; }
int fake_destroys(void) { return destroys; }
static int fail(int code, const char *why) {
    pthread_mutex_lock(&lock);
    snprintf(last, sizeof last, "%s", why);
    pthread_mutex_unlock(&lock);
    return code;
}
static int wrong(const char *why) { return fail(INVALID_ARGUMENT, why); }
void fake_trouble(int code) {
    char why[64];
    snprintf(why, sizeof why, "planted\ntrouble %d", code);
    trouble = fail(code, why);
}

static int number_of(const char *name, int otherwise) { const char *text = getenv(name); return text ? atoi(text) : otherwise; }
__attribute__((constructor)) static void read_environment(void) {
    stuck_at = number_of("FAKE_NCCL_STUCK", 0);
    wrong_at = number_of("FAKE_NCCL_WRONG", 0);
    only_rank = number_of("FAKE_NCCL_RANK", -1);
    const char *text = getenv("FAKE_NCCL_FAIL");
    if (text) sscanf(text, "%63[^:]:%d:%d", failing, &failing_at, &failing_code);
}
static int is_planted_for(int rank) { return only_rank < 0 || only_rank == rank; }
static int planted(const char *function, int rank) {
    if (strcmp(function, failing) || !is_planted_for(rank)) return SUCCESS;
    return __sync_add_and_fetch(&failing_calls, 1) == failing_at ? fail(failing_code, "planted failure") : SUCCESS;
}
#define MAY_FAIL(rank) do { int planted_code = planted(__func__, rank); if (planted_code) return planted_code; } while (0)

/* The emulated driver, also once it is loaded later; null without one. */
static const struct Cuda *find_cuda(void) {
    pthread_mutex_lock(&lock);
    void *library = driver.enqueue ? NULL : dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!library && !driver.enqueue) library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library && dlsym(library, "fake_cuda_enqueue")) {
        *(void **)&driver.enqueue = dlsym(library, "fake_cuda_enqueue");
        *(void **)&driver.reach = dlsym(library, "fake_cuda_reach");
        *(void **)&driver.current = dlsym(library, "cuCtxGetCurrent");
        *(void **)&driver.alloc = dlsym(library, "cuMemAlloc_v2");
        *(void **)&driver.release = dlsym(library, "cuMemFree_v2");
    }
    pthread_mutex_unlock(&lock);
    return driver.enqueue ? &driver : NULL;
}

/* ---- Waiting for other ranks. A function that returns 0 was ended by an abort. */

static int has_ended(const Comm *comm) { return __atomic_load_n(&comm->has_ended, __ATOMIC_SEQ_CST); }
static void lock_world(World *world) {
    if (pthread_mutex_lock(&world->lock) == EOWNERDEAD) pthread_mutex_consistent(&world->lock);
}
static void announce(World *world) {
    __sync_fetch_and_add(&world->changes, 1);
    syscall(SYS_futex, &world->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
static time_t deadline(void) { return time(NULL) + PATIENCE; }
static int wait_for_change(Comm *comm, time_t limit) { /* the lock is held */
    struct timespec pause = {0, 100000000};
    uint32_t seen = __atomic_load_n(&comm->world->changes, __ATOMIC_SEQ_CST);
    if (has_ended(comm)) return 0;
    pthread_mutex_unlock(&comm->world->lock);
    syscall(SYS_futex, &comm->world->changes, FUTEX_WAIT, seen, &pause, NULL, 0);
    if (time(NULL) > limit) {
        fprintf(stderr, "fake nccl: rank %d of %d has waited for %d s\n", comm->rank, comm->size, PATIENCE);
        abort();
    }
    lock_world(comm->world);
    return !has_ended(comm);
}
static int barrier(Comm *comm) {
    World *world = comm->world;
    time_t limit = deadline();
    lock_world(world);
    int generation = world->generation, goes_on = 1;
    if (++world->arrived == world->size) {
        world->arrived = 0;
        world->generation++;
        announce(world);
    }
    while (goes_on && world->generation == generation) goes_on = wait_for_change(comm, limit);
    pthread_mutex_unlock(&world->lock);
    return goes_on && !has_ended(comm);
}

/* ---- Numbers */

static int bytes_of(int type) {
    static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; /* FP8 is moved as bytes: 10 and 11 are refused */
    return type >= 0 && type < 10 ? bytes[type] : 0;
}
enum { F16 = 6, F32 = 7, BF16 = 9 };
static uint32_t bits_of(float number) { uint32_t bits; memcpy(&bits, &number, 4); return bits; }
static float float_of(uint32_t bits) { float number; memcpy(&number, &bits, 4); return number; }
static float of_half(uint16_t half, int type) {
    if (type == BF16) return float_of((uint32_t)half << 16);
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
    if (!exponent) return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    return float_of(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}
static uint16_t to_half(float number, int type) { /* to nearest, ties to even */
    uint32_t bits = bits_of(number), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (type == BF16) return rest > 0x7f800000 ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    if (rest > 0x7f800000) return 0x7e00;
    if (rest >= 0x477ff000) return sign | 0x7c00;
    if (rest < 0x38800000) return sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f));
    return sign | (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
}

#define TYPES(X) X(0, int8_t, uint8_t) X(1, uint8_t, uint8_t) X(2, int32_t, uint32_t) X(3, uint32_t, uint32_t) \
    X(4, int64_t, uint64_t) X(5, uint64_t, uint64_t) X(7, float, float) X(8, double, double)
#define FOLD(number, T, WRAPPING) case number: { \
    T *a = into; const T *b = with; \
    for (size_t i = 0; i < n; i++) switch (op) { \
    case PROD: a[i] = (T)((WRAPPING)a[i] * (WRAPPING)b[i]); break; \
    case MAX: if (b[i] > a[i]) a[i] = b[i]; break; \
    case MIN: if (b[i] < a[i]) a[i] = b[i]; break; \
    default: a[i] = (T)((WRAPPING)a[i] + (WRAPPING)b[i]); \
    } \
    break; }
static void fold(void *into, const void *with, size_t n, int type, int op) { switch (type) { TYPES(FOLD) } }
#define DIVIDE(number, T, WRAPPING) case number: for (size_t i = 0; i < n; i++) ((T *)into)[i] /= (T)by; break;
static void divide(void *into, size_t n, int type, int by) { switch (type) { TYPES(DIVIDE) } }

/* `n` elements that all ranks have at `offset` of their slots. Halves are reduced as floats and rounded once. */
static void reduce(const Comm *comm, char *to, size_t offset, size_t n, int type, int op) {
    enum { SOME = 256 };
    float total[SOME], other[SOME];
    int is_half = type == F16 || type == BF16, wide = is_half ? F32 : type, width = bytes_of(type);
    for (size_t at = 0, some; at < n; at += some) {
        some = is_half && n - at > SOME ? SOME : n - at;
        void *into = is_half ? (void *)total : to + at * width;
        for (int rank = 0; rank < comm->size; rank++) {
            const void *from = comm->world->slots[rank] + offset + at * width;
            if (is_half) {
                for (size_t i = 0; i < some; i++) other[i] = of_half(((const uint16_t *)from)[i], type);
                from = other;
            }
            if (rank) fold(into, from, some, wide, op);
            else memcpy(into, from, some * bytes_of(wide));
        }
        if (op == AVG) divide(into, some, wide, comm->size);
        for (size_t i = 0; is_half && i < some; i++) ((uint16_t *)to)[at + i] = to_half(total[i], type);
    }
}

/* ---- Operations, in pieces that a slot holds. Aborted ones touch no memory. */

/* Blocks of `count` elements that a rank gives. */
static size_t blocks_read(const Op *op) {
    int kind = op->call.kind;
    return kind == REDUCE_SCATTER || kind == ALL_TO_ALL || kind == SCATTER ? op->comm->size : 1;
}
static size_t bytes_read(const Op *op) {
    const Call *call = &op->call;
    size_t bytes = call->count * bytes_of(call->type);
    if (call->kind == RECV) return 0;
    if ((call->kind == BROADCAST || call->kind == SCATTER) && call->root != op->comm->rank) return 0;
    return blocks_read(op) * bytes;
}
static size_t bytes_written(const Op *op) {
    const Call *call = &op->call;
    size_t bytes = call->count * bytes_of(call->type);
    if (call->kind == SEND) return 0;
    if ((call->kind == REDUCE || call->kind == GATHER) && call->root != op->comm->rank) return 0;
    int is_wide = call->kind == ALL_GATHER || call->kind == ALL_TO_ALL || call->kind == GATHER;
    return is_wide ? bytes * op->comm->size : bytes;
}
static char *reach(const Comm *comm, const void *address, size_t bytes) {
    if (!bytes || !comm->cuda) return (char *)address;
    char *found = comm->cuda->reach(address, bytes);
    if (!found) {
        fprintf(stderr, "fake nccl: an operation of rank %d runs on memory that was freed\n", comm->rank);
        abort();
    }
    return found;
}
static int collective(const Op *op) {
    Comm *comm = op->comm;
    World *world = comm->world;
    const Call *call = &op->call;
    size_t width = bytes_of(call->type), blocks = blocks_read(op), at = 0, n;
    const char *from = reach(comm, op->from, bytes_read(op));
    char *to = reach(comm, op->to, bytes_written(op));
    do {
        n = SLOT / width / blocks;
        if (n > call->count - at) n = call->count - at;
        for (size_t block = 0; block < blocks && bytes_read(op); block++)
            memcpy(world->slots[comm->rank] + block * n * width, from + (block * call->count + at) * width, n * width);
        world->calls[comm->rank] = *call;
        if (!barrier(comm)) return INTERNAL_ERROR;
        int agree = 1;
        for (int rank = 0; rank < comm->size; rank++) agree &= !memcmp(&world->calls[rank], call, sizeof *call);
        char *here = to + at * width;
        if (agree && bytes_written(op)) switch (call->kind) {
        case BROADCAST: memcpy(here, world->slots[call->root], n * width); break;
        case ALL_TO_ALL:
            for (int rank = 0; rank < comm->size; rank++)
                memcpy(here + rank * call->count * width, world->slots[rank] + comm->rank * n * width, n * width);
            break;
        case SCATTER: memcpy(here, world->slots[call->root] + comm->rank * n * width, n * width); break;
        case GATHER:
        case ALL_GATHER:
            for (int rank = 0; rank < comm->size; rank++) memcpy(here + rank * call->count * width, world->slots[rank], n * width);
            break;
        case REDUCE_SCATTER: reduce(comm, here, comm->rank * n * width, n, call->type, call->op); break;
        default: reduce(comm, here, 0, n, call->type, call->op);
        }
        if (!barrier(comm)) return INTERNAL_ERROR; /* all have read the slots */
        if (!agree) return wrong("ranks disagree");
        at += n;
    } while (at < call->count);
    return SUCCESS;
}

typedef struct { const Op *op; char *memory; size_t done; int has_begun, is_complete; } Transfer;
static int step(Transfer *own, int *result) { /* whether it went on; the lock is held */
    const Op *op = own->op;
    World *world = op->comm->world;
    int here = op->comm->rank, peer = op->call.root, is_send = op->call.kind == SEND;
    Channel *channel = is_send ? &world->channels[here][peer] : &world->channels[peer][here];
    char *mail = is_send ? world->mail[here][peer] : world->mail[peer][here];
    if (is_send == channel->is_full) return 0;
    if (is_send) {
        size_t bytes = bytes_read(op), rest = bytes - own->done;
        own->is_complete = own->has_begun && !rest;
        if (own->is_complete) return 1;
        *channel = (Channel){1, op->call.type, op->call.count, bytes, rest < MAIL ? rest : MAIL};
        memcpy(mail, own->memory + own->done, channel->length);
    } else {
        channel->is_full = 0;
        if (channel->count != op->call.count || channel->type != op->call.type) *result = wrong("a send does not match its receive");
        else memcpy(own->memory + own->done, mail, channel->length);
        own->is_complete = own->done + channel->length == channel->bytes;
    }
    own->has_begun = 1;
    own->done += channel->length;
    return 1;
}
static int exchange(const Batch *batch) {
    Comm *comm = batch->ops[0].comm;
    Transfer all[OPS] = {0};
    int result = SUCCESS, left = batch->count, goes_on = 1;
    for (int i = 0; i < batch->count; i++) {
        const Op *op = all[i].op = &batch->ops[i];
        all[i].memory = reach(comm, op->call.kind == SEND ? op->from : op->to, bytes_read(op) + bytes_written(op));
    }
    time_t limit = deadline();
    lock_world(comm->world);
    while (goes_on && left) {
        int has_moved = 0, is_open[2][RANKS] = {0}; /* between two ranks, one after the other */
        for (int i = 0; i < batch->count; i++) {
            int *before = &is_open[all[i].op->call.kind == SEND][all[i].op->call.root];
            if (all[i].is_complete || *before) continue;
            has_moved |= step(&all[i], &result);
            left -= all[i].is_complete;
            *before = !all[i].is_complete;
        }
        if (has_moved) announce(comm->world);
        else goes_on = wait_for_change(comm, limit);
        if (has_ended(comm)) goes_on = 0;
    }
    pthread_mutex_unlock(&comm->world->lock);
    return goes_on ? result : INTERNAL_ERROR;
}

static int run(Batch *batch) {
    Comm *comm = batch->ops[0].comm;
    int result = SUCCESS, n = batch->count;
    pthread_mutex_lock(&comm->running);
    time_t limit = deadline();
    lock_world(comm->world);
    for (int i = 0; i < n; i++)
        while (batch->ops[i].is_stuck && wait_for_change(comm, limit)) {}
    pthread_mutex_unlock(&comm->world->lock);
    if (has_ended(comm)) result = INTERNAL_ERROR;
    else if (batch->ops[0].call.kind >= SEND) result = exchange(batch);
    else for (int i = 0; i < n && !result; i++) result = collective(&batch->ops[i]);
    for (int i = 0; i < n && !result; i++) {
        size_t bytes = bytes_written(&batch->ops[i]);
        if (batch->ops[i].is_wrong && bytes) reach(comm, batch->ops[i].to, bytes)[bytes - 1] ^= 64;
    }
    if (result) comm->error = result;
    pthread_mutex_unlock(&comm->running);
    return result;
}
static void run_on_stream(void *batch) { run(batch); } /* a graph may run it again: it is never freed */

/* Takes the first operation's batch out of the group. */
static Batch *take_batch(void) {
    Batch *batch = malloc(sizeof(Batch) + count_of_ops * sizeof(Op));
    int rest = 0;
    batch->count = 0;
    const Op first = ops[0];
    for (int i = 0; i < count_of_ops; i++) {
        if (ops[i].comm == first.comm && ops[i].stream == first.stream) batch->ops[batch->count++] = ops[i];
        else ops[rest++] = ops[i];
    }
    count_of_ops = rest;
    return batch;
}
static int submit(void) {
    int result = SUCCESS;
    while (count_of_ops) {
        Batch *batch = take_batch();
        const struct Cuda *cuda = batch->ops[0].comm->cuda;
        int code = SUCCESS, sends = 0;
        for (int i = 0; i < batch->count; i++) sends += batch->ops[i].call.kind >= SEND;
        if (sends && sends != batch->count) code = wrong("this fake does not mix collectives and sends");
        else if (!cuda) code = run(batch), free(batch);
        else if (cuda->enqueue(batch->ops[0].stream, run_on_stream, batch)) code = fail(UNHANDLED_CUDA_ERROR, "the stream takes no work");
        result = code ? code : result;
    }
    return result;
}
static int add(const char *function, Call call, const void *from, void *to, Comm *comm, void *stream) {
    if (!comm || has_ended(comm) || !bytes_of(call.type) || call.op < SUM || call.op > AVG || call.root < 0 || call.root >= comm->size)
        return wrong("invalid argument");
    int code = planted(function, comm->home);
    if (code) return code;
    Op op = {call, from, to, comm, stream, 0, 0};
    size_t in = bytes_read(&op), out = bytes_written(&op);
    if ((in && !from) || (out && !to)) return wrong("no buffer");
    if (comm->cuda && ((in && !comm->cuda->reach(from, in)) || (out && !comm->cuda->reach(to, out))))
        return wrong("not memory of the device, or too little");
    if (count_of_ops == OPS) return wrong("too many calls in a group");
    int number = is_planted_for(comm->home) ? __sync_add_and_fetch(&operations, 1) : -1;
    op.is_stuck = number == stuck_at;
    op.is_wrong = number == wrong_at;
    ops[count_of_ops++] = op;
    return depth ? SUCCESS : submit();
}

/* ---- Communicators */

/* A rank holds the lock of its byte through its own open file, so it ends with its process. */
static struct flock byte_of(int rank) { return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1}; }
static int is_alive(const Comm *comm, int rank) {
    struct flock byte = byte_of(rank);
    return fcntl(comm->file, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
}
static int has_dead_rank(const Comm *comm) {
    const int *has_left = comm->world->has_left;
    for (int rank = 0; rank < comm->size; rank++)
        if (rank != comm->rank && !has_left[rank] && !is_alive(comm, rank) && !has_left[rank]) return 1;
    return 0;
}
static int name_world(char name[128]) {
    const char *folder = access("/dev/shm", W_OK) ? getenv("TMPDIR") : "/dev/shm";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int number = __sync_add_and_fetch(&ids, 1);
    memset(name, 0, 128);
    int length = snprintf(name, 128, "world %s/fake-nccl-%d-%d-%ld", folder ? folder : "/tmp", getpid(), number, now.tv_nsec);
    return length < 128 ? SUCCESS : fail(SYSTEM_ERROR, "TMPDIR is too long");
}
static void begin(World *world, int size) {
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&world->lock, &shared);
    world->size = size;
    world->is_ready = 1;
}
static int join(Comm **made, int size, const char *name, int rank, int home, const struct Cuda *cuda) {
    const char *path = name + strlen("world ");
    if (strncmp(name, "world ", 6) || rank < 0 || rank >= size || size > RANKS) return wrong("no such world");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    World *world = MAP_FAILED;
    if (file >= 0 && !flock(file, LOCK_EX) && !ftruncate(file, sizeof(World)))
        world = mmap(NULL, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (world == MAP_FAILED) return close(file), fail(SYSTEM_ERROR, strerror(errno));
    if (!world->is_ready) begin(world, size);
    int fits = world->size == size && !world->has_joined[rank];
    if (fits) {
        world->has_joined[rank] = 1;
        struct flock byte = byte_of(rank);
        fcntl(file, F_OFD_SETLK, &byte);
        if (++world->joined == size) unlink(path);
    }
    flock(file, LOCK_UN);
    if (!fits) return munmap(world, sizeof *world), close(file), wrong("another size, or a rank that has joined");
    Comm *comm = *made = calloc(1, sizeof *comm);
    *comm = (Comm){.world = world, .file = file, .rank = rank, .size = size, .home = home, .cuda = cuda};
    pthread_mutex_init(&comm->running, NULL);
    barrier(comm);
    return SUCCESS;
}
static int end(Comm *comm, int *counter) {
    if (!comm || __atomic_exchange_n(&comm->has_ended, 1, __ATOMIC_SEQ_CST)) return wrong("invalid argument");
    if (comm->registered && counter == &destroys) {
        fprintf(stderr, "a communicator ends with %d registered buffers\n", comm->registered);
        abort();
    }
    __sync_fetch_and_add(counter, 1);
    announce(comm->world);
    pthread_mutex_lock(&comm->running); /* what runs has touched its buffers for the last time */
    comm->world->has_left[comm->rank] = 1;
    close(comm->file);
    pthread_mutex_unlock(&comm->running);
    return SUCCESS;
}

int ncclGetVersion(int *version) { MAY_FAIL(process_rank); *version = 29903; return SUCCESS; }
const char *ncclGetErrorString(int code) {
    static const char *const said[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage", "remote process exited", "operation in progress"};
    return code >= 0 && code < 8 ? said[code] : "unknown result code";
}
const char *ncclGetLastError(Comm *comm) { (void)comm; return last; }
int ncclGetUniqueId(Id *id) { MAY_FAIL(process_rank); return name_world(id->internal); }
int ncclGroupStart(void) { MAY_FAIL(process_rank); depth++; return SUCCESS; }
int ncclGroupEnd(void) {
    if (!depth) return fail(INVALID_USAGE, "no group was started");
    int code = planted(__func__, process_rank);
    if (--depth) return code;
    if (code) return count_of_ops = 0, code;
    return submit();
}
static int init(const char *function, Comm **comm, int size, Id id, int rank) {
    const struct Cuda *cuda = find_cuda();
    void *context = NULL;
    int code = planted(function, rank);
    if (code) return code;
    if (cuda && (cuda->current(&context) || !context)) return fail(UNHANDLED_CUDA_ERROR, "no current device");
    __sync_bool_compare_and_swap(&process_rank, -1, rank);
    // What a library takes of the device for itself.
    uint64_t taken = 0;
    int bytes = number_of("FAKE_NCCL_TAKES", 0);
    if (cuda && bytes && cuda->alloc(&taken, bytes)) return fail(UNHANDLED_CUDA_ERROR, "out of memory");
    return join(comm, size, id.internal, rank, rank, cuda);
}
int ncclCommInitRank(Comm **comm, int size, Id id, int rank) { return init(__func__, comm, size, id, rank); }
int ncclCommInitRankConfig(Comm **comm, int size, Id id, int rank, void *config) { (void)config; return init(__func__, comm, size, id, rank); }
int ncclCommSplit(Comm *comm, int color, int key, Comm **made, void *config) {
    (void)config;
    World *world = comm->world;
    if (has_ended(comm)) return wrong("invalid argument");
    MAY_FAIL(comm->home);
    world->color[comm->rank] = color;
    world->key[comm->rank] = key;
    if (!barrier(comm)) return INTERNAL_ERROR;
    int rank = 0, size = 0, first = -1;
    char name[128];
    for (int r = 0; r < comm->size; r++) {
        if (world->color[r] != color) continue;
        if (first < 0) first = r;
        size++;
        rank += world->key[r] < key || (world->key[r] == key && r < comm->rank);
    }
    if (first == comm->rank) name_world(world->made[first]);
    if (!barrier(comm)) return INTERNAL_ERROR;
    memcpy(name, world->made[first], sizeof name);
    if (!barrier(comm)) return INTERNAL_ERROR;
    *made = NULL;
    return color < 0 ? SUCCESS : join(made, size, name, rank, comm->home, comm->cuda);
}
int ncclCommUserRank(Comm *comm, int *rank) { MAY_FAIL(comm->home); *rank = comm->rank; return SUCCESS; }
int ncclCommCount(Comm *comm, int *size) { MAY_FAIL(comm->home); *size = comm->size; return SUCCESS; }
int ncclCommDestroy(Comm *comm) { MAY_FAIL(comm->home); return end(comm, &destroys); }
int ncclCommAbort(Comm *comm) { MAY_FAIL(comm->home); return end(comm, &aborts); }
int ncclCommGetAsyncError(Comm *comm, int *code) {
    MAY_FAIL(comm->home);
    if (has_ended(comm)) return wrong("invalid argument");
    *code = trouble ? trouble : comm->error;
    if (!*code && has_dead_rank(comm)) *code = fail(REMOTE_ERROR, "a process of this communicator has died");
    return SUCCESS;
}
/* Addresses that ncclMemAlloc gave, newest first. */
static void *made_here[4096];
static int count_of_made;
static int allocated(const void *memory) {
    for (int i = __atomic_load_n(&count_of_made, __ATOMIC_SEQ_CST); i--;) if (made_here[i % 4096] == memory) return 1;
    return 0;
}
int ncclMemAlloc(void **made, size_t bytes) {
    MAY_FAIL(process_rank);
    const struct Cuda *cuda = find_cuda();
    uint64_t address = 0;
    if (cuda && cuda->alloc(&address, bytes)) return fail(UNHANDLED_CUDA_ERROR, "out of memory");
    *made = cuda ? (void *)(uintptr_t)address : malloc(bytes);
    made_here[__sync_fetch_and_add(&count_of_made, 1) % 4096] = *made;
    return SUCCESS;
}
int ncclMemFree(void *memory) {
    MAY_FAIL(process_rank);
    const struct Cuda *cuda = find_cuda();
    if (!cuda) free(memory);
    return cuda && cuda->release((uintptr_t)memory) ? fail(UNHANDLED_CUDA_ERROR, "not an allocation") : SUCCESS;
}
int ncclCommRegister(Comm *comm, void *memory, size_t bytes, void **handle) {
    MAY_FAIL(comm->home);
    if (comm->cuda && !comm->cuda->reach(memory, bytes)) return wrong("not memory of the device");
    *handle = malloc(1);
    comm->registered++;
    return SUCCESS;
}
int ncclCommDeregister(Comm *comm, void *handle) { MAY_FAIL(comm->home); free(handle); comm->registered--; return SUCCESS; }
#ifndef OLD /* before 2.27 */
/* A window is made by all ranks together, of memory that the library allocated; FAKE_NCCL_WINDOWS=0: by no library or device. */
int ncclCommWindowRegister(Comm *comm, void *memory, size_t bytes, void **handle, int flags) {
    MAY_FAIL(comm->home);
    if (flags != 1 || !allocated(memory)) return wrong("a window needs memory of ncclMemAlloc");
    if (!barrier(comm)) return INTERNAL_ERROR;
    *handle = NULL;
    return number_of("FAKE_NCCL_WINDOWS", 1) ? ncclCommRegister(comm, memory, bytes, handle) : SUCCESS;
}
int ncclCommWindowDeregister(Comm *comm, void *handle) { return ncclCommDeregister(comm, handle); }
#endif

#define ADD(from, to, ...) add(__func__, (Call){__VA_ARGS__}, from, to, comm, stream)
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, Comm *comm, void *stream) { return ADD(from, to, n, ALL_REDUCE, type, op, 0); }
int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, Comm *comm, void *stream) { return ADD(from, to, n, REDUCE, type, op, root); }
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, Comm *comm, void *stream) { return ADD(from, to, n, BROADCAST, type, 0, root); }
int ncclAllGather(const void *from, void *to, size_t n, int type, Comm *comm, void *stream) { return ADD(from, to, n, ALL_GATHER, type, 0, 0); }
int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, Comm *comm, void *stream) { return ADD(from, to, n, REDUCE_SCATTER, type, op, 0); }
#ifndef OLD /* libraries before 2.28 have none of these */
int ncclAlltoAll(const void *from, void *to, size_t n, int type, Comm *comm, void *stream) { return ADD(from, to, n, ALL_TO_ALL, type, 0, 0); }
int ncclGather(const void *from, void *to, size_t n, int type, int root, Comm *comm, void *stream) { return ADD(from, to, n, GATHER, type, 0, root); }
int ncclScatter(const void *from, void *to, size_t n, int type, int root, Comm *comm, void *stream) { return ADD(from, to, n, SCATTER, type, 0, root); }
#endif
int ncclSend(const void *from, size_t n, int type, int peer, Comm *comm, void *stream) { return ADD(from, NULL, n, SEND, type, 0, peer); }
int ncclRecv(void *to, size_t n, int type, int peer, Comm *comm, void *stream) { return ADD(NULL, to, n, RECV, type, 0, peer); }
