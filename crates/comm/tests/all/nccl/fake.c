/* A library with the interface of NCCL. Its ranks are threads, and its device is this process. Where there is no GPU,
   tests use it to check what the `nccl` backend passes across the interface. Streams do everything at once. It is strict:
   lengths and types that do not match are errors. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { char internal[128]; } Id;
typedef struct World World;
typedef struct { World *world; int rank, size; } Comm;
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };
typedef struct { int kind; const char *from; char *to; size_t count; int type, op, root; Comm *comm; } Op;

#define RANKS 16
struct World {
    char name[128];
    int size, joined, arrived, generation;
    const Op *slot[RANKS];                 /* what each rank called, between two barriers */
    int color[RANKS], key[RANKS];
    World *made[RANKS];
    const Op *mail[RANKS][RANKS][8];       /* [from][to]: sends that nobody has received yet, in order */
    int mails[RANKS][RANKS];
    World *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static World *worlds;
static int ids, aborts, destroys, trouble;
static char last[256];
static __thread Op ops[64];
static __thread int count_of_ops, depth;

static void wait_for_others(void) { /* a test that is stuck ends */
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    if (pthread_cond_timedwait(&changed, &lock, &limit)) abort();
}

int fake_aborts(void) { return aborts; }
int fake_destroys(void) { return destroys; }
void fake_trouble(int code) { trouble = code; snprintf(last, sizeof last, "planted\ntrouble %d", code); }

static int bytes_of(int type) {
    static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < 10 ? bytes[type] : 0;
}

static int wrong(const char *what) { snprintf(last, sizeof last, "%s", what); return 4; }

static void barrier(World *world) { /* the lock is held */
    int generation = world->generation;
    if (++world->arrived == world->size) {
        world->arrived = 0;
        world->generation++;
        pthread_cond_broadcast(&changed);
    } else {
        while (world->generation == generation) wait_for_others();
    }
}

#define FOLD(T, N) { T *a = (T *)into; const T *b = (const T *)with; for (size_t i = 0; i < n; i++) switch (op) { \
    case 0: case 4: a[i] = (T)((N)a[i] + (N)b[i]); break; case 1: a[i] = (T)((N)a[i] * (N)b[i]); break; \
    case 2: if (b[i] > a[i]) a[i] = b[i]; break; case 3: if (b[i] < a[i]) a[i] = b[i]; break; } } break
static int fold(char *into, const char *with, size_t n, int type, int op) {
    switch (type) {
    case 1: FOLD(uint8_t, uint8_t);
    case 2: FOLD(int32_t, uint32_t);
    case 4: FOLD(int64_t, uint64_t);
    case 7: FOLD(float, float);
    case 8: FOLD(double, double);
    default: return wrong("this fake does not reduce this type");
    }
    return 0;
}
static void divide(char *into, size_t n, int type, int by) {
    for (size_t i = 0; i < n; i++) {
        switch (type) {
        case 1: ((uint8_t *)into)[i] /= by; break;
        case 2: ((int32_t *)into)[i] /= by; break;
        case 4: ((int64_t *)into)[i] /= by; break;
        case 7: ((float *)into)[i] /= by; break;
        case 8: ((double *)into)[i] /= by; break;
        }
    }
}

static int collective(const Op *own) {
    World *world = own->comm->world;
    int rank = own->comm->rank, size = own->comm->size, result = 0;
    size_t bytes = own->count * bytes_of(own->type);
    pthread_mutex_lock(&lock);
    world->slot[rank] = own;
    barrier(world);
    for (int r = 0; r < size; r++) {
        const Op *other = world->slot[r];
        if (other->kind != own->kind || other->count != own->count || other->type != own->type
            || other->root != own->root || other->op != own->op)
            result = wrong("ranks disagree");
    }
    char *into = calloc(1, bytes * size + 1);
    size_t length = bytes;
    switch (result ? -1 : own->kind) {
    case BROADCAST: memcpy(into, world->slot[own->root]->from, bytes); break;
    case ALL_GATHER:
        length = bytes * size;
        for (int r = 0; r < size; r++) memcpy(into + r * bytes, world->slot[r]->from, bytes);
        break;
    case ALL_REDUCE: case REDUCE: case REDUCE_SCATTER: {
        size_t at = own->kind == REDUCE_SCATTER ? rank * bytes : 0;
        memcpy(into, world->slot[0]->from + at, bytes);
        for (int r = 1; r < size && !result; r++)
            result = fold(into, world->slot[r]->from + at, own->count, own->type, own->op);
        if (own->op == 4) divide(into, own->count, own->type, size);
    }
    }
    barrier(world); /* all have read: now buffers in place may be written */
    if (!result && (own->kind != REDUCE || rank == own->root)) memcpy(own->to, into, length);
    free(into);
    barrier(world);
    pthread_mutex_unlock(&lock);
    return result;
}

static int pairs(Op *all, int n) {
    int result = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) {
        if (all[i].kind != SEND) continue;
        int from = all[i].comm->rank, to = all[i].root;
        World *world = all[i].comm->world;
        world->mail[from][to][world->mails[from][to]++] = &all[i];
    }
    pthread_cond_broadcast(&changed);
    for (int i = 0; i < n; i++) {
        if (all[i].kind != RECV) continue;
        int from = all[i].root, to = all[i].comm->rank;
        World *world = all[i].comm->world;
        while (!world->mails[from][to]) wait_for_others();
        const Op *sent = world->mail[from][to][0];
        if (sent->count != all[i].count || sent->type != all[i].type) result = wrong("a send does not match its receive");
        else memcpy(all[i].to, sent->from, sent->count * bytes_of(sent->type));
        memmove(world->mail[from][to], world->mail[from][to] + 1, 7 * sizeof(Op *));
        world->mails[from][to]--;
        pthread_cond_broadcast(&changed);
    }
    for (int i = 0; i < n; i++) {
        if (all[i].kind != SEND) continue;
        World *world = all[i].comm->world;
        while (world->mails[all[i].comm->rank][all[i].root]) wait_for_others();
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int run(void) {
    int result = 0, n = count_of_ops, sends = 0;
    count_of_ops = 0;
    for (int i = 0; i < n; i++) {
        if (ops[i].kind >= SEND) sends++;
        else { int code = collective(&ops[i]); result = code ? code : result; }
    }
    if (sends && sends != n) return wrong("this fake does not mix collectives and sends");
    if (sends) result = pairs(ops, n);
    return result;
}

static int add(Op op) {
    if (!op.comm || !bytes_of(op.type) || op.root < 0 || op.root >= op.comm->size) return wrong("invalid argument");
    if (count_of_ops == 64) return wrong("too many calls in a group");
    ops[count_of_ops++] = op;
    return depth ? 0 : run();
}

int ncclGetVersion(int *version) { *version = 29903; return 0; }
const char *ncclGetErrorString(int code) { return code == 0 ? "no error" : code == 4 ? "invalid argument" : "remote process exited"; }
const char *ncclGetLastError(Comm *comm) { return last; }
int ncclGetUniqueId(Id *id) { pthread_mutex_lock(&lock); memset(id, 0, sizeof *id); sprintf(id->internal, "world %d", ++ids); pthread_mutex_unlock(&lock); return 0; }
int ncclGroupStart(void) { depth++; return 0; }
int ncclGroupEnd(void) { return --depth ? 0 : run(); }

static World *world_of(const char *name, int size) { /* the lock is held */
    World *world = worlds;
    while (world && memcmp(world->name, name, 128)) world = world->next;
    if (!world) {
        world = calloc(1, sizeof *world);
        memcpy(world->name, name, 128);
        world->size = size;
        world->next = worlds;
        worlds = world;
    }
    return world;
}
static Comm *comm_of(World *world, int rank) {
    Comm *comm = calloc(1, sizeof *comm);
    comm->world = world; comm->rank = rank; comm->size = world->size;
    return comm;
}
int ncclCommInitRank(Comm **comm, int size, Id id, int rank) {
    if (strncmp(id.internal, "world ", 6) || rank < 0 || rank >= size || size > RANKS) return wrong("no such world");
    pthread_mutex_lock(&lock);
    World *world = world_of(id.internal, size);
    barrier(world);
    pthread_mutex_unlock(&lock);
    *comm = comm_of(world, rank);
    return 0;
}
int ncclCommSplit(Comm *comm, int color, int key, Comm **made, void *config) {
    World *world = comm->world;
    pthread_mutex_lock(&lock);
    world->color[comm->rank] = color;
    world->key[comm->rank] = key;
    barrier(world);
    int rank = 0, size = 0, first = -1;
    for (int r = 0; r < comm->size; r++) {
        if (world->color[r] != color) continue;
        if (first < 0) first = r;
        size++;
        rank += world->key[r] < key || (world->key[r] == key && r < comm->rank);
    }
    if (first == comm->rank && color >= 0) {
        char name[128] = {0};
        sprintf(name, "split %d", ++ids);
        world->made[first] = world_of(name, size);
    }
    barrier(world);
    *made = color < 0 ? NULL : comm_of(world->made[first], rank);
    barrier(world);
    pthread_mutex_unlock(&lock);
    return 0;
}
int ncclCommUserRank(Comm *comm, int *rank) { *rank = comm->rank; return 0; }
int ncclCommCount(Comm *comm, int *size) { *size = comm->size; return 0; }
int ncclCommDestroy(Comm *comm) { __sync_fetch_and_add(&destroys, 1); free(comm); return 0; }
int ncclCommAbort(Comm *comm) { __sync_fetch_and_add(&aborts, 1); free(comm); return 0; }
int ncclCommGetAsyncError(Comm *comm, int *code) { *code = trouble; return 0; }

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, Comm *comm, void *stream) { return add((Op){ALL_REDUCE, from, to, n, type, op, 0, comm}); }
int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, Comm *comm, void *stream) { return add((Op){REDUCE, from, to, n, type, op, root, comm}); }
int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, Comm *comm, void *stream) { return add((Op){BROADCAST, from, to, n, type, 0, root, comm}); }
int ncclAllGather(const void *from, void *to, size_t n, int type, Comm *comm, void *stream) { return add((Op){ALL_GATHER, from, to, n, type, 0, 0, comm}); }
int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, Comm *comm, void *stream) { return add((Op){REDUCE_SCATTER, from, to, n, type, op, 0, comm}); }
int ncclSend(const void *from, size_t n, int type, int peer, Comm *comm, void *stream) { return add((Op){SEND, from, 0, n, type, 0, peer, comm}); }
int ncclRecv(void *to, size_t n, int type, int peer, Comm *comm, void *stream) { return add((Op){RECV, 0, to, n, type, 0, peer, comm}); }
