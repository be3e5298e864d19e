/* own_process PLAN: a program with a malloc of its own embeds Rondo, runs a plan on several threads, meets
 * errors, and keeps what is the process's: malloc, signal handlers and masks, locale, standard streams,
 * environment, working folder, floating-point mode. Exits with 0, or says on the old stderr what has changed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/capi/rondo_host.h"
#include "runtime/rondo.h"

/* ------------------------------------------------------------------------------- the program's own malloc */

extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* block, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void* block);

static atomic_long taken, given;

static void* Take(void* block) {
  if (block != NULL) atomic_fetch_add(&taken, 1);
  return block;
}
void* malloc(size_t bytes) { return Take(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return Take(__libc_calloc(count, bytes)); }
void* realloc(void* block, size_t bytes) {
  return block == NULL ? Take(__libc_realloc(block, bytes)) : __libc_realloc(block, bytes);
}
void* memalign(size_t alignment, size_t bytes) { return Take(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == NULL ? ENOMEM : 0;
}
void free(void* block) {
  if (block != NULL) atomic_fetch_add(&given, 1);
  __libc_free(block);
}

/* -------------------------------------------------------------------------- what belongs to the process */

static void OwnHandler(int number) { (void)number; }

struct Process {
  struct sigaction actions[NSIG];
  sigset_t mask;
  char locale[256];
  char decimal_point[8];
  char folder[1024];
  char environment[65536];
  mode_t umask;
  int rounding;
  int exceptions;
};

static void Look(struct Process* p) {
  memset(p, 0, sizeof(*p));
  for (int i = 1; i < NSIG; ++i) sigaction(i, NULL, &p->actions[i]);
  sigprocmask(SIG_SETMASK, NULL, &p->mask);
  snprintf(p->locale, sizeof(p->locale), "%s", setlocale(LC_ALL, NULL));
  snprintf(p->decimal_point, sizeof(p->decimal_point), "%s", localeconv()->decimal_point);
  if (getcwd(p->folder, sizeof(p->folder)) == NULL) p->folder[0] = 0;
  size_t used = 0;
  extern char** environ;
  for (char** e = environ; *e != NULL && used + 1 < sizeof(p->environment); ++e) {
    used += (size_t)snprintf(p->environment + used, sizeof(p->environment) - used, "%s\n", *e);
    if (used > sizeof(p->environment)) used = sizeof(p->environment);
  }
  p->umask = umask(0);
  umask(p->umask);
  p->rounding = fegetround();
  p->exceptions = fegetexcept();
}

static const char* Changed(const struct Process* a, const struct Process* b) {
  for (int i = 1; i < NSIG; ++i) {
    if (a->actions[i].sa_handler != b->actions[i].sa_handler ||
        a->actions[i].sa_flags != b->actions[i].sa_flags) {
      return "a signal's handler";
    }
  }
  if (memcmp(&a->mask, &b->mask, sizeof(a->mask)) != 0) return "the signal mask";
  if (strcmp(a->locale, b->locale) != 0) return "the locale";
  if (strcmp(a->decimal_point, b->decimal_point) != 0) return "the decimal point";
  if (strcmp(a->folder, b->folder) != 0) return "the working folder";
  if (strcmp(a->environment, b->environment) != 0) return "the environment";
  if (a->umask != b->umask) return "the umask";
  if (a->rounding != b->rounding || a->exceptions != b->exceptions) return "the floating-point mode";
  return NULL;
}

/* ------------------------------------------------------------------------------------------ the embedding */

static atomic_int ended;
static void Done(void* user, rondo_error* error) {
  (void)user;
  if (error == NULL) atomic_fetch_add(&ended, 1);
  rondo_error_destroy(error);
}

static rondo_tensor Floats(const char* name, float* data, const int64_t* dims) {
  rondo_tensor tensor = RONDO_INIT(rondo_tensor);
  tensor.name = name;
  tensor.dtype = RONDO_F32;
  tensor.rank = dims == NULL ? 0 : 1;
  tensor.dims = dims;
  tensor.data = data;
  tensor.bytes = 16;
  return tensor;
}

#define TRY(expression)                                                            \
  do {                                                                             \
    rondo_error* try_error = (expression);                                         \
    if (try_error != NULL) {                                                       \
      snprintf(text, size, "%s: %s", #expression, rondo_error_message(try_error)); \
      return text;                                                                 \
    }                                                                              \
  } while (0)

/* Does everything that a service does, including mistakes. Returns NULL or what went wrong. */
static const char* Embed(const char* path, char* text, size_t size) {
  rondo_plan* plan = NULL;
  rondo_runtime* runtime = NULL;
  rondo_session* session = NULL;
  float x[4] = {10, 20, 30, 40}, y[4] = {0};
  const int64_t dims[1] = {4};
  static char page[65536];
  rondo_tensor in = Floats("x", x, dims), out = Floats("y", y, NULL);
  rondo_error_destroy(rondo_plan_open("nowhere.rondo", NULL, &plan));
  TRY(rondo_plan_open(path, NULL, &plan));
  rondo_runtime_options options = RONDO_INIT(rondo_runtime_options);
  options.async_workers = 2;
  TRY(rondo_runtime_create(rondo_host_driver_create(3, 1), &options, &runtime));
  TRY(rondo_session_create(runtime, plan, &session));
  rondo_error_destroy(rondo_session_run(session, 0, NULL, 0, NULL, 0, NULL));
  const long before = atomic_load(&taken) + atomic_load(&given);
  for (int i = 0; i < 50; ++i) {
    TRY(rondo_session_run(session, 0, &in, 1, &out, 1, NULL));
    TRY(rondo_session_run_async(session, 0, &in, 1, &out, 1, NULL, Done, NULL));
    TRY(rondo_session_wait(session));
  }
  if (rondo_runtime_write_metrics(runtime, page, sizeof(page)) >= sizeof(page))
    return "the metrics do not fit";
  if (atomic_load(&taken) + atomic_load(&given) != before) return "a run has called malloc or free";
  if (strstr(page, ",program=\"add\"} 100\n") == NULL) return "the metrics do not count the runs";
  if (strstr(page, "le=\"0.00005\"") == NULL) return "the metrics are written in the process's locale";
  TRY(rondo_session_destroy(session));
  TRY(rondo_runtime_destroy(runtime));
  rondo_plan_destroy(plan);
  if (y[3] != 160 || atomic_load(&ended) != 50) return "wrong results";
  return NULL;
}

/* Redirects fd to a new, empty file. Returns a duplicate of the old descriptor. */
static int Redirect(int fd, const char* path) {
  int old = dup(fd);
  int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
  dup2(file, fd);
  close(file);
  return old;
}

static long Size(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? (long)info.st_size : -1;
}

int main(int argc, char** argv) {
  static struct Process before, after;
  static char text[1024];
  if (argc != 3) return 2;
  char path[2][512];
  for (int i = 0; i < 2; ++i) snprintf(path[i], sizeof(path[i]), "%s.fd%d", argv[2], i + 1);

  for (const int* s = (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGPIPE, SIGINT, SIGTERM, SIGUSR1, 0}; *s != 0;
       ++s) {
    struct sigaction own = {0};
    own.sa_handler = OwnHandler;
    own.sa_flags = SA_RESTART;
    sigaction(*s, &own, NULL);
  }
  if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) setlocale(LC_ALL, "C.UTF-8");
  int out = Redirect(1, path[0]), err = Redirect(2, path[1]);
  void* own_malloc = dlsym(RTLD_DEFAULT, "malloc");
  Look(&before);
  const long used = atomic_load(&taken);
  const char* trouble = Embed(argv[1], text, sizeof(text));
  const long used_by_rondo = atomic_load(&taken) - used;
  Look(&after);
  if (trouble == NULL) trouble = Changed(&before, &after);
  fflush(stdout);
  fflush(stderr);
  if (trouble == NULL && (Size(1) != 0 || Size(2) != 0)) trouble = "something was printed";
  if (trouble == NULL && (fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0))
    trouble = "a standard stream was closed";
  dup2(out, 1);
  dup2(err, 2);
  if (trouble == NULL && (dlsym(RTLD_DEFAULT, "malloc") != own_malloc || own_malloc != (void*)malloc)) {
    trouble = "malloc is not the program's own any more";
  }
  if (trouble == NULL && dlsym(RTLD_DEFAULT, "mi_malloc") != NULL)
    trouble = "mimalloc is visible to the program";
  if (trouble == NULL && used_by_rondo == 0) trouble = "what the library took from malloc did not come here";
  for (int i = 0; i < 2; ++i) unlink(path[i]);
  if (trouble != NULL) {
    fprintf(stderr, "own_process: %s\n", trouble);
    return 1;
  }
  printf("own_process: kept malloc (%ld calls from Rondo, none in 100 runs), signals, locale %s, streams\n",
         used_by_rondo, after.locale);
  return 0;
}
