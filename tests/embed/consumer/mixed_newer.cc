#include <rondo/rondo_host.h>

#include "mixed.h"

static_assert(__cplusplus == CONSUMER_STANDARD);

rondo::Error Open(const char* path, rondo::Runtime* runtime, rondo::Session* session) {
  rondo::Plan plan;
  rondo::Error error = rondo::Plan::Open(path, &plan);
  if (!error) error = rondo::Runtime::Create(rondo_host_driver_create(1, 1), runtime);
  if (!error) error = rondo::Session::Create(*runtime, plan, session);
  return error;
}

rondo::Error Run(rondo::Session* session, rondo::span<const rondo::Tensor> inputs,
                 rondo::span<const rondo::Tensor> outputs) {
  const std::span<const rondo::Tensor> in(inputs.begin(), inputs.size()), out(outputs.data(), outputs.size());
  return session->Run(0, in, out);  // the standard library's span works too
}
