// Plans with a library's matmuls on machines with that library, and on machines without it.
#include <gtest/gtest.h>

#include "drivers/cuda/library_matmuls.h"
#include "drivers/library/shared_library.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/cuda/make_cubin.h"
#include "tests/plan/matmul_plan.h"

namespace rondo {
namespace {

TEST(LibraryOnCuda, ThatIsMissingIsASentence) {
  static constexpr const char* kSonames[] = {"libno_such_library.so.13", "libno_such_library.so.12"};
  const SharedLibrary none = {"cuBLASLt", kSonames, {}, "that of CUDA 12.0"};
  const Status missing = OpenLibrary(none, "/no/such/folder:/nor/this", nullptr);
  const Sample sample = MakeProductSample();
  const Status status = cuda::NeedsLibrary(sample.data, sample.data.modules[0], missing);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  const std::string message = status.message();
  for (const char* part : {"Gemm \"mm\" is computed by cuBLASLt", "--matmuls generated",
                           "libno_such_library.so.13", "/no/such/folder:/nor/this"})
    EXPECT_NE(message.find(part), message.npos) << message;
  EXPECT_STREQ(status.source_node(), "Gemm \"mm\"");
}

TEST(LibraryOnCuda, OnlyPlansWithItsProductsNeedIt) {
  Sample sample = MakeProductSample();
  KernelBinary& binary = BinaryOf(sample);
  binary.kind = BinaryKind::kFunction;
  binary.matmul = nullptr;
  binary.entry = "function";
  const Status missing = Status::Error(Code::kUnsupported, "not there");
  EXPECT_TRUE(cuda::NeedsLibrary(sample.data, sample.data.modules[0], missing).ok());
}

TEST(LibraryOnCuda, IsLookedForBeforeAnythingIsLoaded) {
  fake_cuda::SetMachine({});
  Sample sample = MakeProductSample();
  Result<Driver*> driver = CreateCudaDriver();
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  const Status status = (*driver)->Supports(sample.data);
  DestroyCudaDriver(*driver);
  if (cublaslt::OpenApi("").ok()) {
    EXPECT_TRUE(status.ok()) << status.message();
    return;
  }
  EXPECT_SAYS(status, "Gemm \"mm\" is computed by cuBLASLt");
  // Create, which has a thread open it, says the same.
  const std::vector<uint8_t> weights(sample.data.weights_bytes);
  FakeSession s;
  SealBinaries(&sample.data, sample.arena);
  EXPECT_STREQ(s.Open(sample.data, weights).message(), status.message());
}

}  // namespace
}  // namespace rondo
