// consumer PLAN: an embedder's C++ program, in C++17 and in C++20, that runs the plan that make_plan writes.
#include <rondo/rondo_host.h>

#include <cstdio>
#include <rondo/rondo.hpp>
#include <vector>

static_assert(__cplusplus == CONSUMER_STANDARD, "linking Rondo has changed the program's standard");

namespace {

int Complain(const rondo::Error& error) {
  std::fprintf(stderr, "%s\n", error.message());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rondo::Plan plan;
  if (rondo::Error e = rondo::Plan::Open(argv[1], &plan)) return Complain(e);
  rondo_runtime_options options = RONDO_INIT(rondo_runtime_options);
  options.async_workers = 1;
  rondo::Runtime runtime;
  if (rondo::Error e = rondo::Runtime::Create(rondo_host_driver_create(2, 1), &runtime, &options))
    return Complain(e);
  rondo::Session session;
  if (rondo::Error e = rondo::Session::Create(runtime, plan, &session)) return Complain(e);
  const float x[] = {10, 20, 30, 40};
  std::vector<float> y(4), total(4);
  if (rondo::Error e = session.Run(0, {rondo::In("x", x, {4})}, {rondo::Out("y", y)})) return Complain(e);
  bool failed = true;
  auto done = [](void* user, rondo_error* error) {
    *static_cast<bool*>(user) = rondo::Error(error) ? true : false;
  };
  rondo_metrics metrics;
  if (rondo::Error e =
          session.RunAsync(0, {rondo::In("x", x, {4})}, {rondo::Out("total_out", total)}, done, &failed)) {
    return Complain(e);
  }
  if (rondo::Error e = session.Wait()) return Complain(e);
  session = rondo::Session();
  if (rondo::Error e = runtime.GetMetrics(&metrics)) return Complain(e);
  runtime = rondo::Runtime();  // the worker has ended now, and with it the completion
  std::printf("y[3] = %g, total[3] = %g after %d runs\n", y[3], total[3], static_cast<int>(metrics.runs));
  return y[3] == 160 && total[3] == 320 && metrics.runs == 2 && !failed ? 0 : 1;
}
