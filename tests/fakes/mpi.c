/* An MPI library that takes memory of the emulated libcuda.so.1, before Debian's Open MPI, which does the rest:

       cc -shared -fPIC -O1 -o libmpi-gpu.so mpi.c -ldl -Wl,--no-as-needed -l:libmpi.so.40

   It says that it knows of GPUs, finds what lies behind their addresses, and runs the call on that. Handles are words. As such a
   library, it waits for no stream of the caller. Environment: FAKE_MPI_CALLS=FILE (a line for each call on memory of a GPU). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *H; /* a handle */
typedef const int *Ints;

int MPIX_Query_cuda_support(void) { return 1; }

/* What lies behind an address of the device; any other address as it is. */
static void *reach(const void *at, const char *call) {
    static void *(*look)(const void *, size_t);
    if (!look) {
        void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
        if (library) *(void **)&look = dlsym(library, "fake_cuda_reach");
    }
    void *found = look ? look(at, 1) : NULL;
    const char *file = getenv("FAKE_MPI_CALLS");
    int to = found && file ? open(file, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (to >= 0) {
        dprintf(to, "%s\n", call);
        close(to);
    }
    return found ? found : (void *)at;
}

static void *next(const char *name) {
    static void *library;
    if (!library) library = dlopen("libmpi.so.40", RTLD_LAZY);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) abort();
    return found;
}

#define R(at) reach(at, __func__)
#define FORWARD(types, ...) return ((int (*) types)next(__func__))(__VA_ARGS__)

int MPI_Bcast(void *data, int n, H type, int root, H comm) { FORWARD((void *, int, H, int, H), R(data), n, type, root, comm); }
int MPI_Allreduce(const void *from, void *to, int n, H type, H op, H comm) {
    FORWARD((const void *, void *, int, H, H, H), R(from), R(to), n, type, op, comm);
}
int MPI_Reduce(const void *from, void *to, int n, H type, H op, int root, H comm) {
    FORWARD((const void *, void *, int, H, H, int, H), R(from), R(to), n, type, op, root, comm);
}
int MPI_Reduce_scatter_block(const void *from, void *to, int n, H type, H op, H comm) {
    FORWARD((const void *, void *, int, H, H, H), R(from), R(to), n, type, op, comm);
}
int MPI_Allgather(const void *from, int n, H type, void *to, int m, H type2, H comm) {
    FORWARD((const void *, int, H, void *, int, H, H), R(from), n, type, R(to), m, type2, comm);
}
int MPI_Alltoall(const void *from, int n, H type, void *to, int m, H type2, H comm) {
    FORWARD((const void *, int, H, void *, int, H, H), R(from), n, type, R(to), m, type2, comm);
}
int MPI_Gather(const void *from, int n, H type, void *to, int m, H type2, int root, H comm) {
    FORWARD((const void *, int, H, void *, int, H, int, H), R(from), n, type, R(to), m, type2, root, comm);
}
int MPI_Scatter(const void *from, int n, H type, void *to, int m, H type2, int root, H comm) {
    FORWARD((const void *, int, H, void *, int, H, int, H), R(from), n, type, R(to), m, type2, root, comm);
}
int MPI_Alltoallv(const void *from, Ints n, Ints at, H type, void *to, Ints m, Ints at2, H type2, H comm) {
    FORWARD((const void *, Ints, Ints, H, void *, Ints, Ints, H, H), R(from), n, at, type, R(to), m, at2, type2, comm);
}
int MPI_Send(const void *from, int n, H type, int rank, int tag, H comm) {
    FORWARD((const void *, int, H, int, int, H), R(from), n, type, rank, tag, comm);
}
int MPI_Recv(void *to, int n, H type, int rank, int tag, H comm, void *status) {
    FORWARD((void *, int, H, int, int, H, void *), R(to), n, type, rank, tag, comm, status);
}
int MPI_Sendrecv(const void *from, int n, H type, int rank, int tag, void *to, int m, H type2, int rank2, int tag2, H comm,
                 void *status) {
    FORWARD((const void *, int, H, int, int, void *, int, H, int, int, H, void *), R(from), n, type, rank, tag, R(to), m, type2,
            rank2, tag2, comm, status);
}
