/* Strikes a process at one of its calls on the files of a directory: kills it there, or fails the call; and keeps a
 * journal of all calls, of which a test makes the directory that a power cut leaves behind (see power.rs).
 *
 * The directory is $RECADO_FAULTS_ON. In $RECADO_FAULTS:
 *   switches  numbers that a test and this library share (below, and in mod.rs)
 *   journal   a record for each call that changed something
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

void stall_disk(void);
void fired(const char *what);

enum switch_name { CALLS, KILL_AT, KILL_HOW, KEEP_JOURNAL, FAIL_WITH, FAIL_KINDS, FAIL_AFTER, STALL_NAMES, SWITCHES };
enum kill_how { BEFORE, AFTER, HALF };
enum kind { WRITE, TRUNCATE, SYNC, CREATE, UNLINK, RENAME, MAKE_DIR, SYNC_DIR };

static volatile int64_t *switches;
static int journal = -1;
static uint64_t sequence;
static char root[PATH_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int open_in_faults(const char *name, int flags) {
    const char *dir = getenv("RECADO_FAULTS");
    char path[PATH_MAX];
    if (!dir) return -1;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void load(void) {
    const char *on = getenv("RECADO_FAULTS_ON");
    int shared = open_in_faults("switches", O_RDWR);
    if (!on || shared < 0) return;
    snprintf(root, sizeof root, "%s", on);
    journal = open_in_faults("journal", O_WRONLY | O_CREAT | O_APPEND);
    void *map = mmap(NULL, SWITCHES * sizeof *switches, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    if (map != MAP_FAILED) switches = map;
    syscall(SYS_close, shared);
}

static int in_root(const char *path) {
    size_t length = strlen(root);
    return length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

/* The absolute path, if it is one of the directory's. */
static int path_in_root(int dir, const char *path, char *whole) {
    if (!switches || dir != AT_FDCWD) return 0;
    char here[PATH_MAX] = "";
    while (!strncmp(path, "./", 2)) path += 2;
    if (path[0] != '/' && !getcwd(here, sizeof here)) return 0;
    int length = snprintf(whole, PATH_MAX, "%s%s%s", here, *here ? "/" : "", path);
    return length < PATH_MAX && in_root(whole);
}

static int fd_in_root(int fd, struct stat *about) {
    if (!switches || fstat(fd, about) || !(S_ISREG(about->st_mode) || S_ISDIR(about->st_mode))) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return in_root(path);
}

static void die(void) {
    fired("kill\n");
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts a call. Answers how the process dies at it, or -1. Called with the lock held, as what follows is, so that no
 * other call comes between. */
static int count_call(void) {
    int64_t nth = __sync_add_and_fetch(&switches[CALLS], 1);
    if (switches[KILL_AT] != nth) return -1;
    if (switches[KILL_HOW] == BEFORE) die();
    return (int)switches[KILL_HOW];
}

static int is_failed(enum kind kind) {
    if (!switches[FAIL_WITH] || !(switches[FAIL_KINDS] & (1 << kind))) return 0;
    if (__sync_fetch_and_sub(&switches[FAIL_AFTER], 1) > 0) return 0;
    fired("fail\n");
    errno = (int)switches[FAIL_WITH];
    return 1;
}

/* Writes a record: kind, number, inode, two numbers, the lengths of path and data, path, data. */
static void record(enum kind kind, uint64_t inode, uint64_t a, uint64_t b, const char *path, const void *data, size_t length) {
    uint64_t number = sequence++;
    if (!switches[KEEP_JOURNAL] || journal < 0) return;
    uint64_t head[] = {kind, number, inode, a, b, path ? strlen(path) : 0, length};
    struct iovec parts[] = {{head, sizeof head}, {(void *)path, head[5]}, {(void *)data, length}};
    syscall(SYS_writev, journal, parts, 3);
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t at, int is_positioned) {
    struct stat about;
    if (!fd_in_root(fd, &about) || !S_ISREG(about.st_mode))
        return is_positioned ? syscall(SYS_pwrite64, fd, data, length, at) : syscall(SYS_write, fd, data, length);
    pthread_mutex_lock(&lock);
    ssize_t written = -1;
    int how = count_call();
    if (!is_failed(WRITE)) {
        if (how == HALF) length /= 2;
        fstat(fd, &about);
        off_t from = is_positioned ? at : fcntl(fd, F_GETFL) & O_APPEND ? about.st_size : lseek(fd, 0, SEEK_CUR);
        written = is_positioned ? syscall(SYS_pwrite64, fd, data, length, at) : syscall(SYS_write, fd, data, length);
        if (written > 0) record(WRITE, about.st_ino, (uint64_t)from, 0, NULL, data, (size_t)written);
    }
    if (how >= 0) die();
    int failure = errno;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return written;
}

ssize_t write(int fd, const void *data, size_t length) { return write_at(fd, data, length, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return write_at(fd, data, length, at, 1); }
ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) { return write_at(fd, data, length, at, 1); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    struct stat about;
    if (!fd_in_root(fd, &about)) return syscall(SYS_writev, fd, parts, count);
    ssize_t sum = 0;
    for (int nth = 0; nth < count; nth++) {
        ssize_t written = write(fd, parts[nth].iov_base, parts[nth].iov_len);
        if (written < 0) return sum ? sum : -1;
        sum += written;
        if ((size_t)written < parts[nth].iov_len) break;
    }
    return sum;
}

int ftruncate(int fd, off_t size) {
    struct stat about;
    if (!fd_in_root(fd, &about)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int how = count_call();
    int failed = is_failed(TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
    if (!failed) record(TRUNCATE, about.st_ino, (uint64_t)size, 0, NULL, NULL, 0);
    if (how >= 0) die();
    int failure = errno;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return failed;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

static int force(int fd, long call) {
    stall_disk();
    struct stat about;
    if (!fd_in_root(fd, &about)) return (int)syscall(call, fd);
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    pthread_mutex_lock(&lock);
    int how = count_call();
    enum kind kind = S_ISDIR(about.st_mode) ? SYNC_DIR : SYNC;
    int failed = is_failed(kind) ? -1 : 0;
    int failure = errno;
    /* Only what was written before the call is sure to be on disk after it. */
    uint64_t before = sequence;
    pthread_mutex_unlock(&lock);
    if (!failed) failed = (int)syscall(call, fd), failure = errno;
    pthread_mutex_lock(&lock);
    if (!failed) record(kind, about.st_ino, before, 0, path, NULL, 0);
    if (how >= 0) die();
    pthread_mutex_unlock(&lock);
    errno = failure;
    return failed;
}

int fsync(int fd) { return force(fd, SYS_fsync); }
int fdatasync(int fd) { return force(fd, SYS_fdatasync); }

static int open_at(int dir, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || !path_in_root(dir, path, whole))
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before, about;
    int was_there = !stat(whole, &before), fd = -1, how = -1;
    int changes = !was_there || ((flags & O_TRUNC) && before.st_size > 0);
    if (changes) how = count_call();
    if (!changes || !is_failed(CREATE)) {
        fd = (int)syscall(SYS_openat, dir, path, flags, mode);
        if (fd >= 0 && changes && !fstat(fd, &about)) {
            if (was_there) record(TRUNCATE, about.st_ino, 0, 0, NULL, NULL, 0);
            else record(CREATE, about.st_ino, 0, 0, whole, NULL, 0);
        }
    }
    if (how >= 0) die();
    int failure = errno;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(name, before, dir)                        \
    int name(before const char *path, int flags, ...) { \
        va_list rest;                                  \
        va_start(rest, flags);                         \
        mode_t mode = mode_of(flags, rest);            \
        va_end(rest);                                  \
        return open_at(dir, path, flags, mode);        \
    }
#define AT int dir,
OPEN(open, , AT_FDCWD)
OPEN(open64, , AT_FDCWD)
OPEN(openat, AT, dir)
OPEN(openat64, AT, dir)

int unlinkat(int dir, const char *path, int flags) {
    char whole[PATH_MAX];
    if (!path_in_root(dir, path, whole)) return (int)syscall(SYS_unlinkat, dir, path, flags);
    pthread_mutex_lock(&lock);
    int how = count_call();
    int failed = is_failed(UNLINK) ? -1 : (int)syscall(SYS_unlinkat, dir, path, flags);
    if (!failed) record(UNLINK, 0, 0, 0, whole, NULL, 0);
    if (how >= 0) die();
    int failure = errno;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return failed;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int rename(const char *from, const char *to) {
    char whole[PATH_MAX], target[PATH_MAX];
    if (!path_in_root(AT_FDCWD, from, whole) || !path_in_root(AT_FDCWD, to, target))
        return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    pthread_mutex_lock(&lock);
    int how = count_call();
    int failed = is_failed(RENAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!failed) record(RENAME, 0, 0, 0, whole, target, strlen(target));
    if (how >= 0) die();
    int failure = errno;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return failed;
}

int mkdir(const char *path, mode_t mode) {
    char whole[PATH_MAX];
    if (!path_in_root(AT_FDCWD, path, whole)) return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&lock);
    int how = count_call();
    int failed = is_failed(MAKE_DIR) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (!failed) record(MAKE_DIR, 0, 0, 0, whole, NULL, 0);
    if (how >= 0) die();
    int failure = errno;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return failed;
}

/* A resolver that does not answer, as long as the switch is set. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (switches && switches[STALL_NAMES]) {
        fired("names\n");
        while (switches[STALL_NAMES]) usleep(10000);
    }
    return real(name, service, hints, found);
}
