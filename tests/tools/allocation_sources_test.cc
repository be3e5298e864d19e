// The origin of an allocation: the program itself, also through the language's libraries, or an opened
// library.
#include "tools/bench/allocation_sources.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace rondo::tools {
namespace {

// Keeps the compiler from removing the allocation.
void* volatile kept = nullptr;

TEST(AllocationSources, OwnAreTheProgramsThroughTheLanguagesLibrariesToo) {
  BeginAllocationSources();
  kept = std::malloc(10);
  AllocationSources counted = EndAllocationSources();
  std::free(kept);
  EXPECT_EQ(counted.own, 1u);
  EXPECT_EQ(counted.others, 0u);

  BeginAllocationSources();
  kept = new std::string(100, 'x');  // operator new and std::string are in libstdc++
  counted = EndAllocationSources();
  delete static_cast<std::string*>(kept);
  EXPECT_EQ(counted.own, 2u);
  EXPECT_EQ(counted.others, 0u);

  BeginAllocationSources();
  char* path = realpath("/", nullptr);  // the C library allocates
  counted = EndAllocationSources();
  std::free(path);
  EXPECT_GE(counted.own, 1u);
  EXPECT_EQ(counted.others, 0u);
}

TEST(AllocationSources, OthersAreThoseOfOpenedLibrariesOnAnyThread) {
  void* library = dlopen(RONDO_ALLOCATING_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* take = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "Take"));
  ASSERT_NE(take, nullptr);
  std::vector<void*> blocks(3);
  BeginAllocationSources();
  for (void*& block : blocks) block = take(100);
  AllocationSources counted = EndAllocationSources();
  for (void* block : blocks) std::free(block);
  EXPECT_EQ(counted.own, 0u);
  EXPECT_EQ(counted.others, 3u);

  BeginAllocationSources();
  std::thread other([&] {
    for (void*& block : blocks) block = take(100);
  });
  other.join();
  counted = EndAllocationSources();
  for (void* block : blocks) std::free(block);
  EXPECT_EQ(counted.others, 3u);
  dlclose(library);
}

TEST(AllocationSources, NothingIsCountedOutside) {
  BeginAllocationSources();
  EndAllocationSources();
  std::free(std::malloc(10));
  BeginAllocationSources();
  const AllocationSources counted = EndAllocationSources();
  EXPECT_EQ(counted.own + counted.others, 0u);
}

}  // namespace
}  // namespace rondo::tools
