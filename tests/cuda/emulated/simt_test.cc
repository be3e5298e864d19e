// The emulator's promises beside right results: it reports wrong kernels, or at least one of its two orders
// gives a different result for them.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/nvrtc.h"
#include "tests/cuda/emulated/compiled_kernels.h"
#include "tests/cuda/emulated/simt_machine.h"

namespace rondo::emulated {
namespace {

// A kernel k(const int* from, int* to) with a body of device code.
class Kernel {
 public:
  explicit Kernel(const std::string& body, const std::string& attributes = "") {
    const std::string text =
        "#include \"compiler/codegen/cuda/device/async_copy.cuh\"\n"
        "#include \"compiler/codegen/cuda/device/cluster.cuh\"\n"
        "#include \"compiler/codegen/cuda/device/mbarrier.cuh\"\n"
        "#include \"compiler/codegen/cuda/device/shared_memory.cuh\"\n"
        "#include \"compiler/codegen/cuda/device/tma.cuh\"\n"
        "extern \"C\" __global__ void " +
        attributes + " k(const int* from, int* to) {\n" + body + "}\n";
    Result<std::vector<uint8_t>> code = CompileCuda(text, "sm_90a", RONDO_EMULATED_LIBRARIES);
    if (!code.ok()) {
      ADD_FAILURE() << code.status().message();
      return;
    }
    const char* path = PathBehind(code->data());
    void* handle = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) library_ = static_cast<const simt::Library*>(dlsym(handle, "simt_library"));
    EXPECT_NE(library_, nullptr);
  }

  // Runs it on from = 0, 1, 2, ... and `to`, which is -1 everywhere before. Returns "" or the fault.
  std::string Run(Order order, uint32_t blocks, uint32_t threads, uint32_t shared,
                  std::vector<int>* to) const {
    if (library_ == nullptr) return "it does not compile";
    alignas(16) static int from[1024];
    for (int k = 0; k < 1024; ++k) from[k] = k;
    to->assign(1024, -1);
    const int* from_address = from;
    int* to_address = to->data();
    void* params[] = {&from_address, &to_address};
    LaunchShape launch;
    launch.grid[0] = blocks;
    launch.block[0] = threads;
    launch.shared_bytes = shared;
    launch.cluster = library_->kernels[0].cluster;
    SimtMachine machine(order);
    return machine.Run(*library_, library_->kernels[0], launch, params);
  }

 private:
  const simt::Library* library_ = nullptr;
};

void ExpectRight(const Kernel& kernel, uint32_t blocks, uint32_t threads, uint32_t shared,
                 const std::vector<int>& begins) {
  for (Order order : {Order::kEarly, Order::kLate}) {
    std::vector<int> to;
    EXPECT_EQ(kernel.Run(order, blocks, threads, shared, &to), "");
    EXPECT_TRUE(std::equal(begins.begin(), begins.end(), to.begin()));
  }
}
// Expects that in at least one order the result differs or the launch fails.
void ExpectSeen(const Kernel& kernel, uint32_t blocks, uint32_t threads, uint32_t shared,
                const std::vector<int>& begins) {
  bool seen = false;
  for (Order order : {Order::kEarly, Order::kLate}) {
    std::vector<int> to;
    seen = !kernel.Run(order, blocks, threads, shared, &to).empty() || seen;
    seen = !std::equal(begins.begin(), begins.end(), to.begin()) || seen;
  }
  EXPECT_TRUE(seen);
}
void ExpectSaid(const Kernel& kernel, uint32_t blocks, uint32_t threads, uint32_t shared,
                const std::string& words) {
  for (Order order : {Order::kEarly, Order::kLate}) {
    std::vector<int> to;
    const std::string said = kernel.Run(order, blocks, threads, shared, &to);
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

std::vector<int> Reversed(int count) {
  std::vector<int> values(count);
  for (int k = 0; k < count; ++k) values[k] = count - 1 - k;
  return values;
}

std::string ReverseByShared(const std::string& barrier) {
  return "__shared__ int turned[128];\n"
         "turned[threadIdx.x] = from[threadIdx.x];\n" +
         barrier + "to[threadIdx.x] = turned[127 - threadIdx.x];\n";
}

TEST(Simt, ABarrierThatIsMissingIsSeen) {
  ExpectRight(Kernel(ReverseByShared("__syncthreads();\n")), 3, 128, 0, Reversed(128));
  ExpectSeen(Kernel(ReverseByShared("")), 1, 128, 0, Reversed(128));
  ExpectSeen(Kernel(ReverseByShared("__syncwarp();\n")), 1, 128, 0, Reversed(128));
}

std::string CopyThenRead(const std::string& wait) {
  return "copy_async<16>(shared_address(shared_memory) + threadIdx.x * 16, (const char*)from + threadIdx.x * "
         "16, true);\n"
         "commit_copies();\n" +
         wait +
         "__syncthreads();\n"
         "to[threadIdx.x] = ((const int*)shared_memory)[31 - threadIdx.x];\n";
}

TEST(Simt, ACopyThatNobodyWaitsForIsSeen) {
  ExpectRight(Kernel(CopyThenRead("wait_copies<0>();\n")), 1, 32, 512, Reversed(32));
  ExpectSeen(Kernel(CopyThenRead("wait_copies<1>();\n")), 1, 32, 512, Reversed(32));
}

// A body that reads bytes copied by TMA and counted by a barrier; `wait` comes before the read.
std::string BulkThenRead(const std::string& wait) {
  return "__shared__ __align__(8) u64 here;\n"
         "if (threadIdx.x == 0) mbarrier_init(shared_address(&here), 1);\n"
         "__syncthreads();\n"
         "if (threadIdx.x == 0) {\n"
         "  mbarrier_expect(shared_address(&here), 128);\n"
         "  copy_bulk(shared_address(shared_memory), (const char*)from, 128, shared_address(&here));\n"
         "}\n" +
         wait + "to[threadIdx.x] = ((const int*)shared_memory)[31 - threadIdx.x];\n";
}

TEST(Simt, BytesOfABulkCopyAreCountedByItsBarrier) {
  ExpectRight(Kernel(BulkThenRead("mbarrier_wait(shared_address(&here), 0);\n")), 1, 32, 128, Reversed(32));
  ExpectSeen(Kernel(BulkThenRead("__syncthreads();\n")), 1, 32, 128, Reversed(32));
  ExpectSaid(Kernel(BulkThenRead(
                 "mbarrier_wait(shared_address(&here), 0);\nmbarrier_wait(shared_address(&here), 1);\n")),
             1, 32, 128,
             "no thread can go on:\n  block 0 of the cluster, warp 0: 32 lanes at mbarrier.try_wait");
}

// A body in which each block reads another block's static shared memory in its cluster.
std::string FromOtherBlock(const std::string& first, const std::string& second) {
  return "__shared__ int own[32];\n"
         "own[threadIdx.x] = from[blockIdx.x * 32 + threadIdx.x];\n" +
         first +
         "u32 word;\n"
         "const u32 far = remote_shared(shared_address(own + threadIdx.x), 3 - blockIdx.x);\n"
         "asm volatile(\"ld.shared::cluster.u32 %0, [%1];\" : \"=r\"(word) : \"r\"(far) : \"memory\");\n"
         "to[blockIdx.x * 32 + threadIdx.x] = (int)word;\n" +
         second;
}

TEST(Simt, BlocksOfAClusterSeeOneAnother) {
  std::vector<int> turned;
  for (int block = 3; block >= 0; --block) {
    for (int k = 0; k < 32; ++k) turned.push_back(block * 32 + k);
  }
  const std::string four = "__cluster_dims__(4, 1, 1)";
  ExpectRight(Kernel(FromOtherBlock("cluster_barrier();\n", "cluster_barrier();\n"), four), 4, 32, 0, turned);
  ExpectSeen(Kernel(FromOtherBlock("", ""), four), 4, 32, 0, turned);
}

TEST(Simt, WhatCannotGoOnIsSaid) {
  ExpectSaid(Kernel("if (threadIdx.x < 32) asm volatile(\"bar.sync 1, 64;\" ::: \"memory\");\n"), 1, 64, 0,
             "warp 0: 32 lanes at bar.sync;");
  ExpectSaid(Kernel("if (threadIdx.x % 2 == 0) to[0] = __shfl_xor_sync(~0u, 1, 2);\n"), 1, 32, 0,
             "16 lanes at __shfl_xor_sync; 16 are done");
  ExpectSaid(Kernel("if (threadIdx.x % 2 == 0) __syncwarp(); else to[0] = __shfl_sync(~0u, 1, 2);\n"), 1, 32,
             0, "while other lanes of the warp are at another instruction");
}

TEST(Simt, SharedMemoryBeyondTheLaunchIsSaid) {
  const Kernel kernel("to[0] = (int)shared_16(shared_address(shared_memory) + 16).x;\n");
  ExpectSaid(kernel, 1, 32, 16, "is not the launch's: 128 static and 16 dynamic bytes");
  std::vector<int> to;
  EXPECT_EQ(kernel.Run(Order::kEarly, 1, 32, 32, &to), "");
}

TEST(Simt, FaultsOfMemoryAreSaid) {
  ExpectSaid(Kernel("if (threadIdx.x == 5) to[0] = *(const int*)4096;\n"), 1, 32, 0,
             "block 0, thread 5: there is no memory at address 0x1000");
  ExpectSaid(Kernel("if (threadIdx.x == 7) *(int4*)(to + 1) = make_int4(1, 2, 3, 4);\n"), 1, 32, 0,
             "thread 7: a vector is at an address that is not a multiple of its size");
}

TEST(Simt, AnInstructionThatIsNotKnownIsNamed) {
  ExpectSaid(Kernel("asm volatile(\"tcgen05.alloc.sync %0;\" :: \"r\"(1));\n"), 1, 32, 0,
             "does not know the instruction tcgen05.alloc.sync");
}

}  // namespace
}  // namespace rondo::emulated
