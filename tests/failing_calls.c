/* Calls by which files below a folder are changed: counted, written to a log, and one of them fails or kills the process.

   Loaded before the C library (LD_PRELOAD), so that it sees the calls of every library, and idle until captau_watch is called.
   A line of the log is "call <tab> path <tab> other path <tab> offset <tab> length"; paths are relative to the folder, and the
   bytes of a recorded write follow its line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char watched[PATH_MAX];
static size_t watched_length;
static int log_file = -1;
static int is_recording;
static long failing = -1;
static int failure;
static long n_calls;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Watch a folder from now on. The call with the number `number` fails with `error`; 0 kills the process. */
int captau_watch(const char *folder, const char *log, int records, long number, int error) {
    if (!realpath(folder, watched)) return -1;
    watched_length = strlen(watched);
    is_recording = records;
    failing = number;
    failure = error;
    n_calls = 0;
    log_file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    return log_file < 0 ? -1 : 0;
}

static void log_bytes(const void *bytes, size_t length) {
    const char *next = bytes;
    while (length > 0) {
        ssize_t written = syscall(SYS_write, log_file, next, length);
        if (written <= 0) abort();
        next += written;
        length -= (size_t)written;
    }
}

static void log_line(const char *call, const char *path, const char *other, long offset, long length) {
    char line[3 * PATH_MAX];
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%ld\n", call, path, other, offset, length);
    log_bytes(line, (size_t)n);
}

/* Write a line of the caller's own, such as that something was acknowledged. */
void captau_mark(const char *text) {
    pthread_mutex_lock(&mutex);
    log_line("mark", text, "", 0, 0);
    pthread_mutex_unlock(&mutex);
}

/* The path of a name relative to the watched folder, or NULL where it is elsewhere. */
static const char *relative(int folder, const char *name, char *buffer) {
    char joined[2 * PATH_MAX], parent[2 * PATH_MAX];
    if (log_file < 0 || !name) return NULL;
    if (name[0] == '/') {
        snprintf(joined, sizeof joined, "%s", name);
    } else {
        char base[PATH_MAX], link[64];
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return NULL;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t n = readlink(link, base, sizeof base - 1);
            if (n < 0) return NULL;
            base[n] = 0;
        }
        snprintf(joined, sizeof joined, "%s/%s", base, name);
    }
    /* The last part may not be there yet; the folders before it are. */
    if (!realpath(joined, buffer)) {
        size_t length = strlen(joined);
        while (length > 1 && joined[length - 1] == '/') joined[--length] = 0;
        char *slash = strrchr(joined, '/');
        if (!slash) return NULL;
        snprintf(parent, sizeof parent, "%.*s", (int)(slash - joined), joined);
        char real[PATH_MAX];
        if (!realpath(parent[0] ? parent : "/", real)) return NULL;
        if (strlen(real) + strlen(slash) >= PATH_MAX) return NULL;
        strcpy(buffer, real);
        strcat(buffer, slash);
    }
    if (strncmp(buffer, watched, watched_length)) return NULL;
    if (!buffer[watched_length]) return ".";
    return buffer[watched_length] == '/' ? buffer + watched_length + 1 : NULL;
}

/* The same of an open file; a file without a name is elsewhere. */
static const char *relative_of_file(int file, char *buffer) {
    char link[64];
    if (log_file < 0 || file == log_file) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, buffer, PATH_MAX - 1);
    if (n < 0) return NULL;
    buffer[n] = 0;
    if (strncmp(buffer, watched, watched_length) || strstr(buffer, " (deleted)")) return NULL;
    if (!buffer[watched_length]) return ".";
    return buffer[watched_length] == '/' ? buffer + watched_length + 1 : NULL;
}

/* Count a call; return 1 where it has to fail, with errno set. */
static int fails(const char *call, const char *path) {
    if (!path || is_recording) return 0;
    pthread_mutex_lock(&mutex);
    log_line(call, path, "", 0, 0);
    long number = n_calls++;
    pthread_mutex_unlock(&mutex);
    if (number != failing) return 0;
    if (!failure) {
        kill(getpid(), SIGKILL);
        pause();
    }
    errno = failure;
    return 1;
}

/* Record a call that has succeeded. */
static void record(const char *call, const char *path, const char *other, long offset, const void *bytes, long length) {
    if (!path || !is_recording) return;
    int kept = errno;
    pthread_mutex_lock(&mutex);
    log_line(call, path, other ? other : "", offset, length);
    if (bytes) log_bytes(bytes, (size_t)length);
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static const char *existing(const char *path, const char *absolute) {
    return path && access(absolute, F_OK) == 0 ? "open" : "create";
}

#define OPEN_BODY(folder, name, flags, call_real) \
    char buffer[PATH_MAX]; \
    const char *path = NULL; \
    if (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC))) path = relative(folder, name, buffer); \
    const char *call = existing(path, buffer); \
    if (fails("open", path)) return -1; \
    int file = call_real; \
    if (file >= 0 && path) { \
        if (!strcmp(call, "create")) record("create", path, NULL, 0, NULL, 0); \
        else if ((flags) & O_TRUNC) record("truncate", path, NULL, 0, NULL, 0); \
    } \
    return file

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) { MODE_OF(flags) REAL(open); OPEN_BODY(AT_FDCWD, name, flags, real(name, flags, mode)); }
int open64(const char *name, int flags, ...) { MODE_OF(flags) REAL(open64); OPEN_BODY(AT_FDCWD, name, flags, real(name, flags, mode)); }
int openat(int folder, const char *name, int flags, ...) { MODE_OF(flags) REAL(openat); OPEN_BODY(folder, name, flags, real(folder, name, flags, mode)); }
int openat64(int folder, const char *name, int flags, ...) { MODE_OF(flags) REAL(openat64); OPEN_BODY(folder, name, flags, real(folder, name, flags, mode)); }
int creat(const char *name, mode_t mode) { return open(name, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return open64(name, O_WRONLY | O_CREAT | O_TRUNC, mode); }

static long place(int file) {
    if (fcntl(file, F_GETFL) & O_APPEND) {
        struct stat status;
        return fstat(file, &status) ? 0 : (long)status.st_size;
    }
    return (long)lseek(file, 0, SEEK_CUR);
}

ssize_t write(int file, const void *bytes, size_t length) {
    REAL(write);
    char buffer[PATH_MAX];
    const char *path = relative_of_file(file, buffer);
    if (fails("write", path)) return -1;
    long offset = path ? place(file) : 0;
    ssize_t written = real(file, bytes, length);
    if (written >= 0) record("write", path, NULL, offset, bytes, written);
    return written;
}

ssize_t writev(int file, const struct iovec *parts, int n_parts) {
    REAL(writev);
    char buffer[PATH_MAX];
    const char *path = relative_of_file(file, buffer);
    if (!path) return real(file, parts, n_parts);
    ssize_t sum = 0;
    for (int k = 0; k < n_parts; k++) {
        ssize_t written = write(file, parts[k].iov_base, parts[k].iov_len);
        if (written < 0) return sum ? sum : -1;
        sum += written;
    }
    return sum;
}

#define PWRITE_BODY \
    char buffer[PATH_MAX]; \
    const char *path = relative_of_file(file, buffer); \
    if (fails("write", path)) return -1; \
    ssize_t written = real(file, bytes, length, offset); \
    if (written >= 0) record("write", path, NULL, (long)offset, bytes, written); \
    return written

ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) { REAL(pwrite); PWRITE_BODY; }
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) { REAL(pwrite64); PWRITE_BODY; }

/* Programs copy by reading and writing where the system copies for them; that is how a copy is counted here. */
ssize_t sendfile(int out, int in, off_t *offset, size_t length) {
    REAL(sendfile);
    char buffer[PATH_MAX];
    if (!relative_of_file(out, buffer)) return real(out, in, offset, length);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t length) {
    REAL(sendfile64);
    char buffer[PATH_MAX];
    if (!relative_of_file(out, buffer)) return real(out, in, offset, length);
    errno = EINVAL;
    return -1;
}
ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t length, unsigned flags) {
    REAL(copy_file_range);
    char buffer[PATH_MAX];
    if (!relative_of_file(out, buffer)) return real(in, in_offset, out, out_offset, length, flags);
    errno = EXDEV;
    return -1;
}

#define FILE_BODY(call) \
    char buffer[PATH_MAX]; \
    const char *path = relative_of_file(file, buffer); \
    if (fails(call, path)) return -1; \
    int status = real(file); \
    if (!status) record(call, path, NULL, 0, NULL, 0); \
    return status

int fsync(int file) { REAL(fsync); FILE_BODY("fsync"); }
int fdatasync(int file) { REAL(fdatasync); FILE_BODY("fsync"); }

#define TRUNCATE_BODY \
    char buffer[PATH_MAX]; \
    const char *path = relative_of_file(file, buffer); \
    if (fails("truncate", path)) return -1; \
    int status = real(file, length); \
    if (!status) record("truncate", path, NULL, (long)length, NULL, 0); \
    return status

int ftruncate(int file, off_t length) { REAL(ftruncate); TRUNCATE_BODY; }
int ftruncate64(int file, off64_t length) { REAL(ftruncate64); TRUNCATE_BODY; }

#define RENAME_BODY(old_folder, new_folder, call_real) \
    char old_buffer[PATH_MAX], new_buffer[PATH_MAX], kept[PATH_MAX]; \
    const char *old_path = relative(old_folder, old, old_buffer); \
    const char *path = relative(new_folder, new, new_buffer); \
    if (old_path) snprintf(kept, sizeof kept, "%s", old_path); \
    if (fails("rename", path ? path : old_path)) return -1; \
    int status = call_real; \
    if (!status && old_path) record("rename", kept, path, 0, NULL, 0); \
    return status

int rename(const char *old, const char *new) { REAL(rename); RENAME_BODY(AT_FDCWD, AT_FDCWD, real(old, new)); }
int renameat(int from, const char *old, int to, const char *new) { REAL(renameat); RENAME_BODY(from, to, real(from, old, to, new)); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { REAL(renameat2); RENAME_BODY(from, to, real(from, old, to, new, flags)); }

#define NAME_BODY(call, folder, call_real) \
    char buffer[PATH_MAX]; \
    const char *path = relative(folder, name, buffer); \
    if (fails(call, path)) return -1; \
    int status = call_real; \
    if (!status) record(call, path, NULL, 0, NULL, 0); \
    return status

int mkdir(const char *name, mode_t mode) { REAL(mkdir); NAME_BODY("mkdir", AT_FDCWD, real(name, mode)); }
int mkdirat(int folder, const char *name, mode_t mode) { REAL(mkdirat); NAME_BODY("mkdir", folder, real(folder, name, mode)); }
int rmdir(const char *name) { REAL(rmdir); NAME_BODY("rmdir", AT_FDCWD, real(name)); }
int unlink(const char *name) { REAL(unlink); NAME_BODY("unlink", AT_FDCWD, real(name)); }
int unlinkat(int folder, const char *name, int flags) { REAL(unlinkat); NAME_BODY(flags & AT_REMOVEDIR ? "rmdir" : "unlink", folder, real(folder, name, flags)); }
