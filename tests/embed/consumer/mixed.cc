// consumer_mixed PLAN: a program in C++17 that passes a session and tensors to a file in C++20, and back.
#include "mixed.h"

#include <rondo/rondo_host.h>

#include <cstdio>
#include <vector>

static_assert(__cplusplus == CONSUMER_STANDARD);

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rondo::Session session;
  rondo::Runtime runtime;
  float y[4] = {};
  rondo::Error error = Open(argv[1], &runtime, &session);
  if (!error) {
    const std::vector<float> x = {10, 20, 30, 40};
    const std::vector<rondo::Tensor> inputs = {rondo::In("x", x, {4})};
    const rondo::Tensor outputs[] = {rondo::Out("y", y)};
    error = Run(&session, inputs, outputs);
  }
  // State is read as bytes, into any container.
  std::vector<float> total(4);
  if (!error) error = session.ReadState("total", rondo::AsWritableBytes(total));
  if (!error) error = session.WriteState("total", rondo::AsBytes(total));
  if (error) std::fprintf(stderr, "%s\n", error.message());
  session = rondo::Session();
  std::printf("y[3] = %g, total[3] = %g\n", y[3], total[3]);
  return !error && y[3] == 160 && total[3] == 160 ? 0 : 1;
}
