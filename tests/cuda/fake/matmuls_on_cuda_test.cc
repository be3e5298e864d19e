// A library's matmuls on the cuda driver, over a libcuda and a libcublasLt without a GPU; the driver finds
// the latter by its search path.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/cuda/fake/fake_cublaslt.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/cuda/make_cubin.h"
#include "tests/plan/matmul_plan.h"

namespace rondo {
namespace {

constexpr int64_t kRows = 4, kColumns = 16, kDepth = 8;

// Small numbers, some of them negative.
std::vector<float> Numbers(int64_t count, int seed) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>((i * 7 + seed) % 11 - 5) / 4);
  return numbers;
}

// The driver's threads: how many were started and joined, and the contexts of GPUs when each started.
struct Threads {
  std::atomic<int> started{0}, joined{0};
  std::atomic<int64_t> contexts[8] = {};

  ThreadHooks Hooks() {
    ThreadHooks hooks;
    hooks.user = this;
    hooks.start = [](void* user, void* (*entry)(void*), void* argument, void** thread) {
      auto* const self = static_cast<Threads*>(user);
      const int number = self->started++;
      if (number < 8) self->contexts[number] = fake_cuda::Held().contexts;
      return DefaultThreadHooks().start(nullptr, entry, argument, thread);
    };
    hooks.join = [](void* user, void* thread) {
      ++static_cast<Threads*>(user)->joined;
      DefaultThreadHooks().join(nullptr, thread);
    };
    return hooks;
  }
};

class ProductsOnCuda : public testing::Test {
 protected:
  ProductsOnCuda() : sample_(MakeProductSample()) {
    fake_cuda::SetMachine({});
    const LibraryMatmul matmul = MatmulOf(sample_);
    gpu_ = std::make_unique<FakeGpu>(&sample_.data);
    binary_.kind = BinaryKind::kLibraryMatmul;
    binary_.matmul = sample_.arena.Copy(std::vector<LibraryMatmul>{matmul}).data();
    module_ = sample_.data.modules[0];
    generated_ = module_.binaries[0];
    module_.binaries = Span<const KernelBinary>(&binary_, 1);
    sample_.data.modules = Span<const CodeModule>(&module_, 1);
    Matmul().algorithm = kNone;
    s_.library_path = RONDO_FAKE_CUBLASLT_FOLDER;
    s_.thread_hooks = threads_.Hooks();
    for (const auto& [numbers, buffer] : {std::pair(&w_, kProductW), std::pair(&b_, kProductB)}) {
      const Buffer& b = sample_.data.buffers[buffer];
      *numbers = Numbers(static_cast<int64_t>(b.bytes / 4), static_cast<int>(buffer));
      weights_.resize(sample_.data.weights_bytes);
      std::memcpy(weights_.data() + b.file_offset, numbers->data(), b.bytes);
    }
  }
  ~ProductsOnCuda() override {
    s_.Close();
    gpu_.reset();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
    EXPECT_EQ(threads_.started, threads_.joined);
    if (counts() == nullptr) return;
    EXPECT_EQ(counts()->handles, 0);
    EXPECT_EQ(counts()->objects, 0);
    EXPECT_EQ(counts()->bad_scratch, 0);
    counts()->on_create = nullptr;
  }
  LibraryMatmul& Matmul() { return const_cast<LibraryMatmul&>(*binary_.matmul); }
  Status Open() {
    sample_.data.modules = Span<const CodeModule>(&module_, 1);
    SealBinaries(&sample_.data, sample_.arena);
    return s_.Open(sample_.data, weights_);
  }
  // The library's counts; null until it is open, which `open` does.
  static fake_cublaslt::Counts* counts(bool open = false) {
    void* library =
        dlopen(RONDO_FAKE_CUBLASLT_FOLDER "/libcublasLt.so.13", RTLD_NOW | (open ? 0 : RTLD_NOLOAD));
    if (library == nullptr) return nullptr;
    return reinterpret_cast<fake_cublaslt::Counts* (*)()>(dlsym(library, "RondoFakeCublasLtCounts"))();
  }

  void ExpectRight(bool stepwise, int seed) {
    const std::vector<float> x = Numbers(kRows * kDepth, seed), r = Numbers(kRows * kColumns, seed + 3);
    std::vector<float> y(kRows * kColumns), want = r;
    const Input inputs[] = {{"x", kNone, DType::kF32, {kRows, kDepth}, x.data(), x.size() * 4},
                            {"r", kNone, DType::kF32, {kRows, kColumns}, r.data(), r.size() * 4}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y.data(), y.size() * 4}};
    RunOptions options;
    options.stepwise = stepwise;
    const Status run = s_.sessions[0].Run(0, inputs, outputs, options);
    ASSERT_TRUE(run.ok()) << run.message();
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        float& sum = want[static_cast<size_t>(row * kColumns + column)];
        sum += b_[static_cast<size_t>(column)];
        for (int64_t k = 0; k < kDepth; ++k)
          sum += x[static_cast<size_t>(row * kDepth + k)] * w_[static_cast<size_t>(column * kDepth + k)];
        sum = std::max(sum, 0.0f);
      }
    }
    EXPECT_EQ(y, want);
  }

  Sample sample_;
  KernelBinary binary_, generated_;
  CodeModule module_;
  std::vector<float> w_, b_;
  std::vector<uint8_t> weights_;
  std::unique_ptr<FakeGpu> gpu_;
  Threads threads_;
  FakeSession s_;
};

TEST_F(ProductsOnCuda, GiveWhatTheContractSaysFromGraphsAndStepByStep) {
  const Status opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(counts()->matmuls, 0);  // the capture loads it, but does not run it
  for (int seed = 0; seed < 3; ++seed) {
    ExpectRight(false, seed);
    ExpectRight(true, seed);
  }
  EXPECT_EQ(counts()->algorithm, 0);
  EXPECT_EQ(counts()->matmuls, 6);
  counts()->matmuls = 0;
}

TEST_F(ProductsOnCuda, TakeTheAlgorithmThatThePlanNames) {
  Matmul().algorithm = 1;  // launches two kernels, with scratch
  const Status opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.message();
  ExpectRight(false, 1);
  ExpectRight(true, 2);
  EXPECT_EQ(counts()->algorithm, 1);
}

TEST_F(ProductsOnCuda, HaveNoAlgorithmThatWantsMoreScratchThanThePlanGives) {
  Matmul().algorithm = 2;  // 64 KiB of scratch
  const Status opened = Open();
  EXPECT_EQ(opened.code(), Code::kUnsupported);
  EXPECT_SAYS(opened, "Gemm \"mm\"");
  EXPECT_SAYS(opened, "has 2 algorithms");
  EXPECT_SAYS(opened, "within 3840 bytes of workspace, and number 3 is asked for");
  EXPECT_SAYS(opened, "--matmuls generated");
}

// The library's start waits for a copy of weights, which would never begin if the copies waited for it.
TEST_F(ProductsOnCuda, TheLibraryStartsWhileWeightsAreCopied) {
  static std::atomic<bool> copied;
  static fake_cuda::HostCopies before;
  copied = false;
  before = fake_cuda::CountHostCopies();
  counts(true)->on_create = [] {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!copied && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
      copied = fake_cuda::CountHostCopies() != before;
    }
    return 0;
  };
  const Status opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_TRUE(copied);
  ExpectRight(false, 1);
}

TEST_F(ProductsOnCuda, TheLibraryIsOpenedWhileTheGpuStarts) {
  const Status opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(threads_.started, 2);      // one opens it, one prepares the matmuls
  EXPECT_EQ(threads_.contexts[0], 0);  // before the GPU is opened
  EXPECT_EQ(threads_.contexts[1], 1);
  EXPECT_EQ(threads_.joined, 2);
  const Result<Session> another = Session::Create(s_.runtime, s_.plan);
  EXPECT_TRUE(another.ok());
  EXPECT_EQ(threads_.started, 2);
}

// Sessions of the first plan may run while the second plan's weights are copied, and loading code could hold
// them up.
TEST_F(ProductsOnCuda, ASecondPlanIsPreparedBeforeItsWeightsAreCopied) {
  ASSERT_TRUE(Open().ok());
  const Plan second = Plan::FromData(sample_.data, weights_).Take();
  const Result<Session> session = Session::Create(s_.runtime, second);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(threads_.started, 2);
}

TEST_F(ProductsOnCuda, ALibraryThatDoesNotStartFailsCreate) {
  counts(true)->on_create = [] { return 7; };
  const Status opened = Open();
  EXPECT_EQ(opened.code(), Code::kInternal);
  EXPECT_STREQ(opened.message(), "cuda device 0: cublasLtCreate: a failure of the fake (7)");
  EXPECT_EQ(s_.runtime.session_count(), 0u);
  counts()->on_create = nullptr;
  const Result<Session> later = Session::Create(s_.runtime, s_.plan);
  EXPECT_TRUE(later.ok()) << later.status().message();
}

// In a process of its own, since libraries stay open.
TEST_F(ProductsOnCuda, APlanWithoutThemNeverOpensTheLibrary) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open = [&] {
    binary_ = generated_;
    const Status opened = Open();
    const bool library = counts() != nullptr;
    std::fprintf(stderr, "[%s] %s\n", opened.message(), library ? "open" : "not open");
    std::exit(opened.ok() ? 0 : 1);
  };
  EXPECT_EXIT(open(), testing::ExitedWithCode(0), "\\[\\] not open");
}

// Fails each call of the driver that can fail, once.
TEST_F(ProductsOnCuda, AFailureAnywhereLeavesNothingBehind) {
  constexpr int kOutOfMemory = 2;
  bool in_library = false;
  for (uint64_t fail = 0;; ++fail) {
    fake_cuda::Arm(fail, kOutOfMemory);
    const Status opened = Open();
    const fake_cuda::Count count = fake_cuda::Disarm();
    s_.Close();
    fake_cuda::Heal();
    if (!count.fired) break;
    in_library |= std::string(opened.message()).find("cublasLt") != std::string::npos;
    ASSERT_LT(fail, 1000u);
  }
  EXPECT_TRUE(in_library);
}

}  // namespace
}  // namespace rondo
