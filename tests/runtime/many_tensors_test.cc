// Runs of rondo.hpp with any number of tensors: up to 32 allocate nothing, and no array is written beyond its
// end. Every array of this program is followed by a guard.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "runtime/rondo.hpp"
#include "tests/runtime/tiny_c.h"

namespace {

constexpr size_t kHead = 16, kGuard = 256;  // the head: the array's bytes
constexpr char kGuardByte = 0x5a;
std::atomic<int> arrays{0}, overrun{0};

void* MakeGuarded(size_t bytes) {
  auto* block = static_cast<char*>(std::malloc(kHead + bytes + kGuard));
  if (block == nullptr) std::abort();
  ++arrays;
  std::memcpy(block, &bytes, sizeof(bytes));
  std::memset(block + kHead + bytes, kGuardByte, kGuard);
  return block + kHead;
}

void FreeGuarded(void* array) {
  if (array == nullptr) return;
  char* block = static_cast<char*>(array) - kHead;
  size_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  const char* guard = block + kHead + bytes;
  for (size_t i = 0; i < kGuard; ++i) {
    if (guard[i] == kGuardByte) continue;
    ++overrun;
    break;
  }
  std::free(block);
}

}  // namespace

void* operator new[](size_t bytes) { return MakeGuarded(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return MakeGuarded(bytes); }
void operator delete[](void* array) noexcept { FreeGuarded(array); }
void operator delete[](void* array, size_t) noexcept { FreeGuarded(array); }
void operator delete[](void* array, const std::nothrow_t&) noexcept { FreeGuarded(array); }

namespace rondo {
namespace {

TEST(CppWrapper, TakesAnyNumberOfTensorsAndAllocatesBeyond32Alone) {
  api::Plan plan;
  api::Runtime runtime;
  api::Session session;
  ASSERT_FALSE(api::Plan::Open(std::as_bytes(std::span(PlanBytes())), &plan));
  ASSERT_FALSE(api::Runtime::Create(FakeHandle(), &runtime));
  ASSERT_FALSE(api::Session::Create(runtime, plan, &session));
  const float x[] = {1, 2, 3, 4};
  const api::Tensor first = api::In("x", x, {4}), unknown = api::In("unknown", x, {4});
  for (const size_t count : {1, 2, 31, 32, 33, 34, 64, 65, 1000}) {
    std::vector<api::Tensor> tensors(count, first);
    tensors.back() = unknown;
    const int before = arrays;
    const api::Error error = session.Run(0, tensors, {});
    EXPECT_EQ(arrays - before, count > 32 ? 1 : 0) << count;
    EXPECT_TRUE(error);
    EXPECT_EQ(overrun, 0) << count;
  }
}

}  // namespace
}  // namespace rondo
