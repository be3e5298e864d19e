// Arenas: blocks that they take from their allocator, memory that they give out, and blocks that they return.
#include "core/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

namespace rondo {
namespace {

// Counts the memory that it gives, and refuses after `left` requests.
struct Counted {
  std::map<void*, size_t> blocks;
  size_t bytes = 0;
  int left = 1000;
  HostAllocator allocator() {
    HostAllocator made;
    made.allocate = [](void* user, size_t bytes, size_t alignment) -> void* {
      Counted& self = *static_cast<Counted*>(user);
      if (self.left-- <= 0) return nullptr;
      void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      self.blocks[block] = bytes;
      self.bytes += bytes;
      return block;
    };
    made.deallocate = [](void* user, void* block, size_t bytes) {
      Counted& self = *static_cast<Counted*>(user);
      EXPECT_EQ(self.blocks.at(block), bytes);
      self.blocks.erase(block);
      self.bytes -= bytes;
      std::free(block);
    };
    made.user = this;
    return made;
  }
};

TEST(Arena, GivesMemoryThatNobodyElseHas) {
  Counted counted;
  {
    Arena arena(counted.allocator());
    std::vector<std::pair<uintptr_t, uintptr_t>> given;
    for (size_t i = 1; i < 400; ++i) {
      const size_t bytes = i * 7 % 300 + (i % 100 == 0 ? 20'000 : 0), alignment = size_t{1} << i % 8;
      auto* block = static_cast<unsigned char*>(arena.Allocate(bytes, alignment));
      ASSERT_NE(block, nullptr);
      const auto at = reinterpret_cast<uintptr_t>(block);
      EXPECT_EQ(at % alignment, 0u);
      bool inside = false;
      for (const auto& [start, size] : counted.blocks) {
        const auto first = reinterpret_cast<uintptr_t>(start);
        inside |= at >= first && at + bytes <= first + size;
      }
      EXPECT_TRUE(inside);
      for (const auto& [first, end] : given) EXPECT_TRUE(at + bytes <= first || at >= end);
      given.push_back({at, at + bytes});
    }
    EXPECT_EQ(arena.bytes(), counted.bytes);
    EXPECT_LT(counted.blocks.size(), 20u);  // one block serves many requests
  }
  EXPECT_TRUE(counted.blocks.empty());
}

TEST(Arena, TakesNoMoreThanItsLimit) {
  for (size_t limit : {0u, 100u, 1000u, 20'000u, 40'000u}) {
    Counted counted;
    Arena arena(counted.allocator(), limit);
    size_t given = 0;
    for (int i = 0; i < 1000; ++i) {
      if (arena.Allocate(64, 8) != nullptr) given += 64;
    }
    EXPECT_LE(arena.bytes(), limit);
    EXPECT_EQ(arena.bytes(), counted.bytes);
    EXPECT_GE(given + limit / 2 + 128, limit);  // and most of the limit can be used
    EXPECT_EQ(arena.Allocate(limit + 1, 8), nullptr);
    EXPECT_EQ(arena.Allocate(~size_t{0}, 8), nullptr);
  }
}

TEST(Arena, IsNullWithoutMemory) {
  Counted counted;
  counted.left = 0;
  Arena arena(counted.allocator());
  EXPECT_EQ(arena.Allocate(1, 1), nullptr);
  EXPECT_EQ(arena.New<int>(3).data(), nullptr);
  EXPECT_EQ(arena.Copy(std::vector<int>{1, 2}).data(), nullptr);
  EXPECT_EQ(arena.CopyText("text").data(), nullptr);
  counted.left = 1;
  EXPECT_NE(arena.Allocate(1, 1), nullptr);
  EXPECT_EQ(arena.New<int64_t>(~size_t{0} / 4).data(), nullptr);
}

TEST(Arena, MovesWithWhatItHolds) {
  Counted counted, other;
  Arena arena(counted.allocator());
  const Span<const int> numbers = arena.Copy(std::vector<int>{1, 2, 3});
  const size_t bytes = arena.bytes();
  Arena moved(std::move(arena));
  EXPECT_EQ(moved.bytes(), bytes);
  EXPECT_EQ(arena.bytes(), 0u);  // NOLINT: a moved-from arena is empty
  Arena assigned(other.allocator());
  ASSERT_NE(assigned.Allocate(10, 8), nullptr);
  assigned = std::move(moved);
  EXPECT_TRUE(other.blocks.empty());
  EXPECT_EQ(assigned.bytes(), bytes);
  EXPECT_EQ(moved.bytes(), 0u);  // NOLINT
  EXPECT_EQ((std::vector<int>(numbers.begin(), numbers.end())), (std::vector<int>{1, 2, 3}));
  EXPECT_NE(moved.Allocate(10, 8), nullptr);
  EXPECT_EQ(counted.bytes, assigned.bytes() + moved.bytes());
}

TEST(Arena, CopiesEndWithAZero) {
  Arena arena;
  for (const std::string& text : {std::string(), std::string("a"), std::string(40'000, 'x')}) {
    const std::string_view copy = arena.CopyText(text);
    EXPECT_EQ(copy, text);
    EXPECT_EQ(copy.data()[copy.size()], '\0');
  }
  EXPECT_NE(arena.New<int>(0).data(), nullptr);
  EXPECT_EQ(arena.New<int>(0).size(), 0u);
  const Span<int> zeros = arena.New<int>(5);
  for (int zero : zeros) EXPECT_EQ(zero, 0);
}

}  // namespace
}  // namespace rondo
