/* The plain loop that Rankmark's measurement of an MPI library is held against: all_reduce of f32, in place, calls one
 * after another between two barriers, the slowest rank's time. mpirun -n RANKS loop SECONDS BYTES...
 * prints, for each size, "BYTES NANOSECONDS", the median over samples of the time of a call. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Neither zeros, with which 16 MiB take 5% less (220 pairs, 2.8 to 6.5%), nor denormal numbers. */
static void fill(float *data, int count) {
    for (int i = 0; i < count; i++) data[i] = 1e-30f * (float)(1 + rand() % 64);
}

/* Whole pages of a mapping of their own, as our buffers are. On some machines a process that takes 64 KiB from the heap
 * needs twice the time in every second start. They stay mapped to the end. */
static float *pages(size_t room, size_t page) {
    char *at = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : (float *)(at + (page - (size_t)at % page) % page);
}

/* The slowest rank's seconds of `calls` calls, begun together. */
static double sample(float *data, int count, long calls) {
    static long since;
    double slowest, own;
    /* Sums grow, and after 100 calls of a few ranks they are not infinite yet. Not before each sample: data written anew lie in
     * the caches as no call leaves them, and calls would seem up to a third faster than they are one after another. */
    if ((since += calls) > 100) fill(data, count), since = calls;
    MPI_Barrier(MPI_COMM_WORLD);
    own = -MPI_Wtime();
    for (long i = 0; i < calls; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    own += MPI_Wtime();
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv) {
    int rank;
    cpu_set_t all, one;
    if (argc < 3) return fprintf(stderr, "usage: loop SECONDS BYTES...\n"), 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0, left = rank % CPU_COUNT(&all); cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
    for (int arg = 2; arg < argc; arg++) {
        static double times[10000];
        /* Pages as our buffers have them, and as other programs do: huge ones from their own size up. With huge pages for
         * 1 MiB, too, both libraries copy a tenth faster between processes. */
        size_t huge = 2 << 20, bytes = strtoull(argv[arg], NULL, 10), page = bytes >= huge ? huge : 4096;
        size_t room = (bytes + page - 1) / page * page;
        float *data = pages(room, page);
        int count = (int)(bytes / sizeof *data), samples = 0;
        long calls = 1;
        double spent = 0, time, limit = atof(argv[1]);
        if (!data) MPI_Abort(MPI_COMM_WORLD, 1);
        if (bytes >= huge) madvise(data, room, MADV_HUGEPAGE);
        fill(data, count);
        while ((time = sample(data, count, calls)) < 1e-4 && calls < 1 << 20) calls *= 2; /* warms up, too */
        for (int i = 0; i < 5; i++) sample(data, count, calls);
        while (spent < limit && samples < 10000) spent += time = sample(data, count, calls), times[samples++] = time / calls;
        qsort(times, samples, sizeof *times, by_value);
        if (rank == 0) printf("%zu %.1f\n", bytes, times[samples / 2] * 1e9), fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
