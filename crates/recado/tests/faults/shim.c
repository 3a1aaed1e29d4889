/* Steps the wall clock of a process and stalls its disk. Loaded with LD_PRELOAD by tests (see mod.rs), together with
 * disk.c.
 *
 * In the directory $RECADO_FAULTS:
 *   clock  milliseconds that are added to CLOCK_REALTIME
 *   stall  while this file exists, fsync and fdatasync do not return (60 s at most)
 *   fired  a line for each fault that struck: the assertion of a test
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STALL_MAX_MS 60000

static const char *file(char *path, size_t size, const char *name) {
    const char *dir = getenv("RECADO_FAULTS");
    if (!dir) return NULL;
    snprintf(path, size, "%s/%s", dir, name);
    return path;
}

void fired(const char *what) {
    char path[512];
    if (!file(path, sizeof path, "fired")) return;
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) return;
    (void)!write(log, what, strlen(what));
    close(log);
}

static long long offset_ms(void) {
    static long long last;
    char path[512], text[32];
    if (!file(path, sizeof path, "clock")) return 0;
    int in = open(path, O_RDONLY | O_CLOEXEC);
    if (in < 0) return 0;
    ssize_t length = read(in, text, sizeof text - 1);
    close(in);
    if (length <= 0) return last;
    text[length] = 0;
    long long now = atoll(text);
    if (now != last) {
        last = now;
        fired("step\n");
    }
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (failed || clock != CLOCK_REALTIME) return failed;
    long long ns = at->tv_nsec + offset_ms() % 1000 * 1000000;
    at->tv_sec += offset_ms() / 1000 + (ns < 0 ? -1 : ns / 1000000000);
    at->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

void stall_disk(void) {
    char path[512];
    if (!file(path, sizeof path, "stall") || access(path, F_OK)) return;
    fired("stall\n");
    for (int ms = 0; ms < STALL_MAX_MS && !access(path, F_OK); ms += 10) usleep(10000);
}
