/* Refuses the n-th system call on a file below a folder: LD_PRELOAD of tests/faults/engine.py.
 *
 *     arm("/tmp/out", 7, "ENOSPC");    the 7th call from now on fails so
 *     disarm();                        how many calls there were
 *
 * "SHORT" lets a write take half of what it is given, "KILL" ends the process before the call.
 */
#define _GNU_SOURCE
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
#include <unistd.h>

static char folder[PATH_MAX];
static long calls, refused_call;
static int refusal, is_short, is_kill;
static volatile int is_armed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void arm(const char *where, long number, const char *fate) {
  snprintf(folder, sizeof folder, "%s", where);
  calls = 0;
  refused_call = number;
  is_short = !strcmp(fate, "SHORT");
  is_kill = !strcmp(fate, "KILL");
  refusal = !strcmp(fate, "ENOSPC")   ? ENOSPC
            : !strcmp(fate, "EACCES") ? EACCES
            : !strcmp(fate, "EMFILE") ? EMFILE
                                      : EIO;
  is_armed = 1;
}

long disarm(void) {
  is_armed = 0;
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

/* 1: this call is the one. */
static int is_turn(void) {
  pthread_mutex_lock(&lock);
  int is_it = ++calls == refused_call;
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

int fsync(int descriptor) {
  REFUSE(is_file_below(descriptor))
  return REAL(fsync)(descriptor);
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
