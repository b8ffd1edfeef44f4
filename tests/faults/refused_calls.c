/* Fail the n-th system call on a file in a folder; tests/faults/engine.py sets it as LD_PRELOAD.
 *
 *     arm("/tmp/out", 7, "", ENOSPC, 0);    the 7th call from now fails with ENOSPC
 *     arm("/tmp/in", 7, "", EIO, 2);        the 7th and 8th, counting calls that stat, list and read too
 *     arm("", 7, "MEMORY", 4096, 1);        the 7th allocation of 4096 bytes or more
 *     disarm();                             return the number of calls
 *
 * "SHORT" makes a write accept half of its data, "KILL" ends the process before the call.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long calls, refused_call, last_refused;
static int refusal, is_short, is_kill, is_of_inputs;
static volatile size_t least; /* minimum size of an allocation to count; 0: count none */
static volatile int is_armed;
static int syncs; /* the file for the inodes of synced files */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void arm(const char *where, long number, const char *fate, int error, long times) {
  snprintf(folder, sizeof folder, "%s", where);
  calls = 0;
  refused_call = number;
  is_of_inputs = times > 0;
  last_refused = number + (times > 0 ? times - 1 : 0);
  is_short = !strcmp(fate, "SHORT");
  is_kill = !strcmp(fate, "KILL");
  refusal = error;
  is_armed = strcmp(fate, "MEMORY") != 0;
  least = is_armed ? 0 : error;
}

void log_syncs(const char *path) { syncs = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600); }

long disarm(void) {
  is_armed = least = 0;
  return calls;
}

static int is_below(const char *path) { return path && !strncmp(path, folder, strlen(folder)); }

static int is_file_below(int descriptor) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return is_below(path);
}

static int is_at_below(int at, const char *path) {
  return is_below(path) || (at != AT_FDCWD && path && path[0] != '/' && is_file_below(at));
}

/* Return 1 if this is the call to fail. */
static int is_turn(void) {
  pthread_mutex_lock(&lock);
  int is_it = ++calls >= refused_call && calls <= last_refused && refused_call;
  pthread_mutex_unlock(&lock);
  if (is_it && is_kill) kill(0, SIGKILL);
  return is_it;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))
#define REFUSE(below)                             \
  if (is_armed && (below) && is_turn() && !is_short) { \
    errno = refusal;                              \
    return -1;                                    \
  }

#define OPEN(name)                                   \
  int name(const char *path, int flags, ...) {       \
    va_list rest;                                    \
    va_start(rest, flags);                           \
    mode_t mode = va_arg(rest, mode_t);              \
    va_end(rest);                                    \
    REFUSE(is_below(path))                           \
    return REAL(name)(path, flags, mode);            \
  }
#define OPENAT(name)                                     \
  int name(int at, const char *path, int flags, ...) {   \
    va_list rest;                                        \
    va_start(rest, flags);                               \
    mode_t mode = va_arg(rest, mode_t);                  \
    va_end(rest);                                        \
    REFUSE(is_at_below(at, path))                        \
    return REAL(name)(at, path, flags, mode);            \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int descriptor, const void *data, size_t size) {
  if (is_armed && is_file_below(descriptor) && is_turn()) {
    if (!is_short) {
      errno = refusal;
      return -1;
    }
    size = size > 1 ? size / 2 : size;
  }
  return REAL(write)(descriptor, data, size);
}

ssize_t read(int descriptor, void *data, size_t size) {
  if (is_armed && is_file_below(descriptor) && is_turn()) {
    if (!is_short) {
      errno = refusal;
      return -1;
    }
    size = size > 1 ? size / 2 : size;
  }
  return REAL(read)(descriptor, data, size);
}

/* Calls that only stat, list and read at an offset. */
#define LOOK(below, failed)                             \
  if (is_armed && is_of_inputs && (below) && is_turn()) { \
    errno = refusal;                                    \
    return failed;                                      \
  }
DIR *opendir(const char *path) {
  LOOK(is_below(path), NULL)
  return REAL(opendir)(path);
}
struct dirent *readdir(DIR *folder_read) {
  LOOK(is_file_below(dirfd(folder_read)), NULL)
  return REAL(readdir)(folder_read);
}
struct dirent64 *readdir64(DIR *folder_read) {
  LOOK(is_file_below(dirfd(folder_read)), NULL)
  return REAL(readdir64)(folder_read);
}
#define STAT(name, type)                       \
  int name(const char *path, struct type *to) { \
    LOOK(is_below(path), -1)                   \
    return REAL(name)(path, to);               \
  }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)
#define STATAT(name, type)                                            \
  int name(int at, const char *path, struct type *to, int flags) { \
    LOOK(is_at_below(at, path), -1)                                \
    return REAL(name)(at, path, to, flags);                        \
  }
STATAT(fstatat, stat)
STATAT(fstatat64, stat64)
#define PREAD(name, data, size)                             \
  ssize_t name(int descriptor, data, size, off_t offset) { \
    LOOK(is_file_below(descriptor), -1)                     \
    return REAL(name)(descriptor, to, count, offset);       \
  }
PREAD(pread, void *to, size_t count)
PREAD(pread64, void *to, size_t count)
PREAD(preadv, const struct iovec *to, int count)
PREAD(preadv64, const struct iovec *to, int count)

int fsync(int descriptor) {
  REFUSE(is_file_below(descriptor))
  int failed = REAL(fsync)(descriptor);
  struct stat found;
  if (!failed && syncs && !fstat(descriptor, &found)) dprintf(syncs, "%lu\n", (long)found.st_ino);
  return failed;
}
int rename(const char *from, const char *to) {
  REFUSE(is_below(to))
  return REAL(rename)(from, to);
}
int unlink(const char *path) {
  REFUSE(is_below(path))
  return REAL(unlink)(path);
}
int unlinkat(int at, const char *path, int flags) {
  REFUSE(is_at_below(at, path))
  return REAL(unlinkat)(at, path, flags);
}
int mkdir(const char *path, mode_t mode) {
  REFUSE(is_below(path))
  return REAL(mkdir)(path, mode);
}
int rmdir(const char *path) {
  REFUSE(is_below(path))
  return REAL(rmdir)(path);
}

/* Allocations by numpy, Arrow (with the system's pool), Pillow, OpenCV and Python. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
#define ALLOCATE(size, call) \
  if (least && (size) >= least && is_turn()) { \
    errno = ENOMEM; \
    return NULL; \
  } \
  return call;
void *malloc(size_t size) { ALLOCATE(size, __libc_malloc(size)) }
void *calloc(size_t count, size_t size) { ALLOCATE(count * size, __libc_calloc(count, size)) }
void *realloc(void *old, size_t size) { ALLOCATE(size, __libc_realloc(old, size)) }
void *aligned_alloc(size_t to, size_t size) { ALLOCATE(size, __libc_memalign(to, size)) }
int posix_memalign(void **found, size_t to, size_t size) {
  void *made = aligned_alloc(to, size);
  if (made) *found = made;
  return made ? 0 : ENOMEM;
}
