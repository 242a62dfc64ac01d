/* The loops of STREAM (McCalpin 1995) over arrays of double, to compare `rankmark hardware` with a C compiler's code.
 *
 * Arguments: test (copy, scale, add, triad), bytes of all arrays together, seconds, pages (small or huge).
 * Prints the median time of one pass in nanoseconds. Exits with 1 if an element is wrong.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *array(size_t bytes, int huge) {
    size_t page = 2 << 20, whole = (bytes + 2 * page) & ~(page - 1);
    char *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) exit(2);
    madvise(base, whole, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return (double *)base;
}

/* Not inlined, so that no pass is left out because the one before it did the same. */
__attribute__((noinline)) static void pass(char test, double *restrict a, double *restrict b, double *restrict c, long n) {
    const double factor = 3.0;
    switch (test) {
    case 'c': for (long i = 0; i < n; i++) c[i] = a[i]; break;
    case 's': for (long i = 0; i < n; i++) c[i] = factor * a[i]; break;
    case 'a': for (long i = 0; i < n; i++) c[i] = a[i] + b[i]; break;
    default: for (long i = 0; i < n; i++) c[i] = a[i] + factor * b[i];
    }
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    char test = arguments[1][0];
    int huge = strcmp(arguments[4], "huge") == 0, arrays = test == 'c' || test == 's' ? 2 : 3;
    long n = atol(arguments[2]) / 8 / arrays;
    double seconds = atof(arguments[3]);
    double *a = array(n * 8, huge), *b = array(n * 8, huge), *c = array(n * 8, huge);
    for (long i = 0; i < n; i++) a[i] = i % 1021, b[i] = i % 509, c[i] = -1;
    static double times[1 << 16];
    int taken = 0;
    for (double begin = now(); taken < 3 || (now() - begin < seconds && taken < 1 << 16); taken++) {
        double start = now();
        pass(test, a, b, c, n);
        times[taken] = now() - start;
    }
    for (long i = 0; i < n; i++) {
        double expected = test == 'c' ? a[i] : test == 's' ? 3 * a[i] : test == 'a' ? a[i] + b[i] : a[i] + 3 * b[i];
        if (c[i] != expected) return 1;
    }
    qsort(times, taken, sizeof times[0], compare);
    printf("%.1f\n", times[taken / 2] * 1e9);
    return 0;
}
