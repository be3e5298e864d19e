/* consumer.c PLAN: an embedder's C program that runs the plan that make_plan writes. */
#include <rondo/rondo.h>
#include <rondo/rondo_host.h>
#include <stdio.h>

static int Check(rondo_error* error) {
  if (error == NULL) return 1;
  fprintf(stderr, "%s\n", rondo_error_message(error));
  rondo_error_destroy(error);
  return 0;
}

int main(int argc, char** argv) {
  rondo_plan* plan = NULL;
  rondo_runtime* runtime = NULL;
  rondo_session* session = NULL;
  float x[4] = {10, 20, 30, 40}, y[4] = {0};
  const int64_t dims[1] = {4};
  rondo_tensor in = RONDO_INIT(rondo_tensor), out = RONDO_INIT(rondo_tensor);
  if (argc != 2) return 2;
  if (rondo_version() >> 16 != RONDO_VERSION_MAJOR) return 1;
  if (!Check(rondo_plan_open(argv[1], NULL, &plan))) return 1;
#ifdef CONSUMER_OPS
  const char* ops[1] = {CONSUMER_OPS};
  rondo_host_options host = RONDO_INIT(rondo_host_options);
  host.threads = 2;
  host.op_libraries = ops;
  host.num_op_libraries = 1;
  if (!Check(rondo_runtime_create(rondo_host_driver_create_with(&host), NULL, &runtime))) return 1;
#else
  if (!Check(rondo_runtime_create(rondo_host_driver_create(2, 1), NULL, &runtime))) return 1;
#endif
  if (!Check(rondo_session_create(runtime, plan, &session))) return 1;
  in.name = "x";
  in.dtype = RONDO_F32;
  in.rank = 1;
  in.dims = dims;
  in.data = x;
  in.bytes = sizeof(x);
  out.name = "y";
  out.dtype = RONDO_F32;
  out.data = y;
  out.bytes = sizeof(y);
  if (!Check(rondo_session_run(session, 0, &in, 1, &out, 1, NULL))) return 1;
  if (!Check(rondo_session_destroy(session))) return 1;
  if (!Check(rondo_runtime_destroy(runtime))) return 1;
  rondo_plan_destroy(plan);
  printf("rondo %s: y = %g %g %g %g\n", rondo_version_string(), y[0], y[1], y[2], y[3]);
  return y[3] == 160 ? 0 : 1;
}
