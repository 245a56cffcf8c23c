/* Loaded into a process by LD_PRELOAD: writes down what it does to the files under one folder.

   POWER_ROOT is the folder, an absolute path without links; POWER_LOG is the file that gets the record, see
   power.py. A call that fails is not recorded. What is written through a mapping is not seen: that is only
   SQLite's index of its log, which no crash outlives. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int inside(const char *path) {
    const char *root = getenv("POWER_ROOT");
    size_t n = root ? strlen(root) : 0;
    return n && !strncmp(path, root, n) && (path[n] == '/' || !path[n]);
}

/* The absolute path of a name whose last part may not exist, or be a link; 0 if it is not ours. */
static int whole(int at, const char *name, char *path) {
    char folder[PATH_MAX], link[64], real[PATH_MAX];
    const char *slash = strrchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) : 0;
    if (n >= PATH_MAX) return 0;
    memcpy(folder, name, n);
    folder[n] = 0;
    if (!slash) strcpy(folder, ".");
    else if (!n) strcpy(folder, "/");
    if (name[0] != '/' && at != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t size = readlink(link, real, sizeof real - 1);
        if (size < 0 || (size_t)size + n + 2 > sizeof real) return 0;
        real[size] = '/';
        strcpy(real + size + 1, folder);
        strcpy(folder, real);
    }
    if (!realpath(folder, real)) return 0;
    if (snprintf(path, PATH_MAX, "%s/%s", real, slash ? slash + 1 : name) >= PATH_MAX) return 0;
    return inside(path);
}

static int ours(int fd, struct stat *status) {
    char link[64], path[PATH_MAX];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = before;
    if (n < 0) return 0;
    path[n] = 0;
    return inside(path) && !fstat(fd, status) && (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode));
}

static void record(const void *data, size_t size, const char *format, ...) {
    static int log = -1;
    char head[3 * PATH_MAX];
    va_list arguments;
    int before = errno;
    va_start(arguments, format);
    int n = vsnprintf(head, sizeof head, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&mutex);
    if (log < 0) log = syscall(SYS_openat, AT_FDCWD, getenv("POWER_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct iovec parts[2] = {{head, n}, {(void *)data, size}};
    if (syscall(SYS_writev, log, parts, size ? 2 : 1) != (ssize_t)(n + size)) abort();
    pthread_mutex_unlock(&mutex);
    errno = before;
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define ID(status) (unsigned long)(status).st_dev, (unsigned long)(status).st_ino

static void opened(int fd, int flags, int existed, const char *path) {
    struct stat status;
    if (fd < 0 || !path[0] || fstat(fd, &status) || !S_ISREG(status.st_mode)) return;
    if (!existed) record(0, 0, "create %lu:%lu %s\n", ID(status), path);
    else if (flags & O_TRUNC) record(0, 0, "truncate %lu:%lu 0\n", ID(status));
}

#define OPEN(name, at, signature, call)                                             \
    int name signature {                                                            \
        char path[PATH_MAX];                                                        \
        mode_t mode = 0;                                                            \
        if (flags & (O_CREAT | O_TMPFILE)) {                                        \
            va_list arguments;                                                      \
            va_start(arguments, flags);                                             \
            mode = va_arg(arguments, mode_t);                                       \
            va_end(arguments);                                                      \
        }                                                                           \
        int before = errno;                                                         \
        if (!(flags & (O_CREAT | O_TRUNC)) || !whole(at, file, path)) path[0] = 0;  \
        int existed = path[0] && !access(path, F_OK);                               \
        errno = before;                                                             \
        NEXT(name);                                                                 \
        int fd = next call;                                                         \
        opened(fd, flags, existed, path);                                           \
        return fd;                                                                  \
    }
OPEN(open, AT_FDCWD, (const char *file, int flags, ...), (file, flags, mode))
OPEN(open64, AT_FDCWD, (const char *file, int flags, ...), (file, flags, mode))
OPEN(openat, at, (int at, const char *file, int flags, ...), (at, file, flags, mode))
OPEN(openat64, at, (int at, const char *file, int flags, ...), (at, file, flags, mode))

static void wrote(int fd, const void *data, ssize_t n, off_t offset) {
    struct stat status;
    if (n <= 0 || !ours(fd, &status)) return;
    if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - n;
    record(data, n, "write %lu:%lu %lld %zd\n", ID(status), (long long)offset, n);
}

ssize_t write(int fd, const void *data, size_t size) {
    NEXT(write);
    ssize_t n = next(fd, data, size);
    wrote(fd, data, n, -1);
    return n;
}

#define PWRITE(name, type)                                              \
    ssize_t name(int fd, const void *data, size_t size, type offset) {  \
        NEXT(name);                                                     \
        ssize_t n = next(fd, data, size, offset);                       \
        wrote(fd, data, n, offset);                                     \
        return n;                                                       \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int n_parts) {
    ssize_t total = 0;
    for (int i = 0; i < n_parts; i++) {
        ssize_t n = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (n < 0) return total ? total : n;
        total += n;
        if ((size_t)n < parts[i].iov_len) break;
    }
    return total;
}

static int cut(int fd, int result, long long size) {
    struct stat status;
    if (!result && ours(fd, &status)) record(0, 0, "truncate %lu:%lu %lld\n", ID(status), size);
    return result;
}

int ftruncate(int fd, off_t size) {
    NEXT(ftruncate);
    return cut(fd, next(fd, size), size);
}

int ftruncate64(int fd, off64_t size) {
    NEXT(ftruncate64);
    return cut(fd, next(fd, size), size);
}

static int synced(int fd, int result) {
    struct stat status;
    if (!result && ours(fd, &status)) record(0, 0, "sync %lu:%lu\n", ID(status));
    return result;
}

int fsync(int fd) {
    NEXT(fsync);
    return synced(fd, next(fd));
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    return synced(fd, next(fd));
}

static int removed(int at, const char *name, int result) {
    char path[PATH_MAX];
    if (!result && whole(at, name, path)) record(0, 0, "unlink %s\n", path);
    return result;
}

int unlink(const char *name) {
    NEXT(unlink);
    return removed(AT_FDCWD, name, next(name));
}

int unlinkat(int at, const char *name, int flags) {
    NEXT(unlinkat);
    return removed(at, name, next(at, name, flags));
}

static int renamed(int from, const char *old, int to, const char *new, int result) {
    char before[PATH_MAX], after[PATH_MAX];
    if (!result && whole(from, old, before) && whole(to, new, after))
        record(0, 0, "rename %s\n%s\n", before, after);
    return result;
}

int rename(const char *old, const char *new) {
    NEXT(rename);
    return renamed(AT_FDCWD, old, AT_FDCWD, new, next(old, new));
}

int renameat(int from, const char *old, int to, const char *new) {
    NEXT(renameat);
    return renamed(from, old, to, new, next(from, old, to, new));
}
