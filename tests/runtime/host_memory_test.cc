// A program that embeds Rondo keeps its own malloc; Rondo uses the program's allocator if it names one.
#include "runtime/host_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "core/sanitized.h"
#include "runtime/session.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

TEST(HostMemory, TheProcessKeepsItsMalloc) {
  void* before = dlsym(RTLD_DEFAULT, "malloc");
  const HostAllocator& allocator = RuntimeHostAllocator();
  void* ours = allocator.allocate(allocator.user, 100, 64);
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(ours) % 64, 0u);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "malloc"), before);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "mi_malloc"), nullptr) << "mimalloc is to be seen by the library only";
  allocator.deallocate(allocator.user, ours, 100);

  if (std::string_view(RuntimeHostAllocatorName()) != "mimalloc") GTEST_SKIP() << "no mimalloc here";
  void* library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  auto owns = reinterpret_cast<bool (*)(const void*)>(dlsym(library, "mi_is_in_heap_region"));
  ASSERT_NE(owns, nullptr);
  ours = allocator.allocate(allocator.user, 100, 64);
  void* theirs = std::malloc(100);
  int* fresh = new int;
  EXPECT_TRUE(kSanitized || owns(ours));
  EXPECT_FALSE(owns(theirs));
  EXPECT_FALSE(owns(fresh));
  delete fresh;
  std::free(theirs);
  allocator.deallocate(allocator.user, ours, 100);
  dlclose(library);
}

struct Counting {
  int calls = 0;
  int64_t live = 0;
  static void* Allocate(void* user, size_t bytes, size_t alignment) {
    auto* self = static_cast<Counting*>(user);
    ++self->calls;
    self->live += static_cast<int64_t>(bytes);
    return DefaultHostAllocator().allocate(nullptr, bytes, alignment);
  }
  static void Deallocate(void* user, void* block, size_t bytes) {
    static_cast<Counting*>(user)->live -= static_cast<int64_t>(bytes);
    DefaultHostAllocator().deallocate(nullptr, block, bytes);
  }
};

TEST(HostMemory, AnEmbeddersAllocatorGetsEveryBlockBack) {
  Counting counting;
  HostAllocator allocator{Counting::Allocate, Counting::Deallocate, &counting};
  TinyPlan tiny;
  FakeDriver driver;
  {
    PlanOptions plan_options;
    plan_options.allocator = &allocator;
    RuntimeOptions runtime_options;
    runtime_options.allocator = &allocator;
    Result<Plan> plan = Plan::FromData(tiny.data, tiny.weight_bytes(), plan_options);
    Result<Runtime> runtime = Runtime::Create(&driver, runtime_options);
    Result<Session> session = Session::Create(*runtime, *plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_GT(counting.live, 0);
  }
  EXPECT_GT(counting.calls, 3);
  EXPECT_EQ(counting.live, 0);
}

}  // namespace
}  // namespace rondo
