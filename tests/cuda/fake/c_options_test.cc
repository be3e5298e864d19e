// The cuda driver made by C programs: its options, and the errors for wrong ones.
#include <gtest/gtest.h>

#include <string>

#include "drivers/capi/rondo_cuda.h"
#include "runtime/rondo.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace rondo {
namespace {

// The error of making a runtime of the driver; "" if it works.
std::string Create(rondo_driver* driver) {
  rondo_runtime* runtime = nullptr;
  rondo_error* error = rondo_runtime_create(driver, nullptr, &runtime);
  const std::string message = rondo_error_message(error);
  rondo_error_destroy(error);
  if (runtime != nullptr) {
    EXPECT_EQ(rondo_runtime_ready(runtime), nullptr);
    EXPECT_EQ(rondo_runtime_destroy(runtime), nullptr);
  }
  return message;
}

TEST(CudaOptionsInC, HaveDefaultsAndRefuseHalves) {
  fake_cuda::Heal();
  fake_cuda::SetMachine({});
  EXPECT_EQ(Create(rondo_cuda_driver_create(nullptr)), "");
  EXPECT_EQ(Create(rondo_cuda_driver_create_with(nullptr)), "");
  rondo_cuda_options options = RONDO_INIT(rondo_cuda_options);
  EXPECT_EQ(Create(rondo_cuda_driver_create_with(&options)), "");
  options.size = 0;
  EXPECT_NE(Create(rondo_cuda_driver_create_with(&options)).find("its size is not set"), std::string::npos);
  // An older program knows only the first fields; the others count as 0.
  options.size = offsetof(rondo_cuda_options, op_libraries);
  options.num_op_libraries = 7;
  EXPECT_EQ(Create(rondo_cuda_driver_create_with(&options)), "");
  options.size = sizeof(options);
  EXPECT_EQ(Create(rondo_cuda_driver_create_with(&options)),
            "rondo_cuda_options: 7 op_libraries, but path 0 is NULL");
  const char* paths[] = {"/nowhere/libops.so"};
  options.op_libraries = paths;
  options.num_op_libraries = 1;
  EXPECT_NE(Create(rondo_cuda_driver_create_with(&options)).find("/nowhere/libops.so"), std::string::npos);
  options.num_op_libraries = 0;
  for (const char* collectives : {"nccl", "small", "fused", "auto"}) {
    options.collectives = collectives;
    EXPECT_EQ(Create(rondo_cuda_driver_create_with(&options)), "");
  }
  options.collectives = "big";
  EXPECT_EQ(Create(rondo_cuda_driver_create_with(&options)),
            "rondo_cuda_options: collectives \"big\" are none of nccl, small, fused and auto");
  options.collectives = nullptr;
  options.join_thread = [](void*, void*) {};
  EXPECT_EQ(Create(rondo_cuda_driver_create_with(&options)),
            "rondo_cuda_options: one function of a pair is NULL; give both or none");
}

}  // namespace
}  // namespace rondo
