// Programs on several streams whose values reuse each other's memory. The offsets of all values and the
// arena's lower bound are compared with explicit definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "compiler/memory/arena_problem.h"
#include "compiler/memory/plan_memory.h"
#include "tests/compile/hand_made.h"
#include "tests/memory/numbers.h"

namespace rondo {
namespace {

// Random sums on up to three streams. An op may compute an output in a donated input that it reads, and a
// temporary in any operand.
HandMade RandomProgram(uint64_t seed) {
  Numbers numbers(seed);
  HandMade made;
  LoweredProgram& program = made.program();
  std::vector<int> known;
  for (int i = 0; i < 3; ++i) {
    known.push_back(made.Input("x" + std::to_string(i), int64_t{16} << numbers.Below(2)));
    program.values.back().donated = numbers.Below(3) != 0;
  }
  const uint32_t streams = 1 + static_cast<uint32_t>(numbers.Below(3));
  for (int i = 0; i < 9; ++i) {
    const int64_t elements = int64_t{16} << numbers.Below(2);
    const bool output = i % 3 == 2;
    const int next = output ? made.Output("y" + std::to_string(i), elements) : made.Temporary(elements);
    const size_t among =
        output && numbers.Below(2) == 0 ? 3 : known.size();  // among the inputs, or among all values
    const int from = known[static_cast<size_t>(numbers.Below(static_cast<int64_t>(among)))];
    made.Sum({from}, next);
    program.ops.back().stream = static_cast<uint32_t>(numbers.Below(streams));
    const LoweredValue& read = program.values[static_cast<size_t>(from)];
    if (output && read.donated && read.bytes == program.values.back().bytes)
      program.values.back().takes = from;
    known.push_back(next);
  }
  return made;
}

// before[b][a]: op a is complete before op b begins, by streams and deps.
std::vector<std::vector<bool>> Complete(const LoweredProgram& program) {
  const size_t count = program.ops.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (size_t b = 0; b < count; ++b) {
    for (size_t a = 0; a < b; ++a) {
      const std::vector<int>& deps = program.ops[b].deps;
      const bool follows = program.ops[a].stream == program.ops[b].stream ||
                           std::count(deps.begin(), deps.end(), static_cast<int>(a)) != 0;
      if (!follows) continue;
      before[b][a] = true;
      for (size_t c = 0; c < a; ++c) before[b][c] = before[b][c] || before[a][c];
    }
  }
  return before;
}

// Values that share one place in memory, from the first use of any of them to the last.
struct Place {
  bool from_the_start = false, to_the_end = false;
  std::vector<size_t> users;  // ops
  int64_t offset = 0, bytes = 0;
};

std::vector<Place> Places(const LoweredProgram& program, const MemoryPlan& plan) {
  std::vector<Place> places(program.values.size());
  for (size_t v = 0; v < program.values.size(); ++v) {
    size_t root = v;
    while (plan.takes_over[root] >= 0) root = static_cast<size_t>(plan.takes_over[root]);
    EXPECT_EQ(plan.offsets[v], plan.offsets[root]);
    Place& place = places[root];
    place.from_the_start |= program.values[v].kind == BufferKind::kInput;
    place.to_the_end |= program.values[v].kind == BufferKind::kOutput;
    for (size_t op = 0; op < program.ops.size(); ++op) {
      for (const LoweredBinding& param : program.ops[op].params) {
        if (param.value == static_cast<int>(v)) place.users.push_back(op);
      }
    }
    place.offset = plan.offsets[v];
    place.bytes = std::max(
        place.bytes, (program.values[v].bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment);
  }
  std::erase_if(places,
                [](const Place& p) { return p.bytes == 0 || (p.users.empty() && !p.from_the_start); });
  return places;
}

// Whether all uses of `a` end before `b` begins. An input that no op reads is in use when the first op
// begins.
bool Over(const Place& a, const Place& b, const std::vector<std::vector<bool>>& before) {
  if (a.to_the_end || b.from_the_start) return false;
  const std::vector<size_t> first = {0};
  for (size_t x : a.users.empty() ? first : a.users) {
    for (size_t y : b.users) {
      if (!before[y][x]) return false;
    }
  }
  return true;
}

// The largest number of bytes in places of which no two are ordered, by trying all sets.
int64_t MostAtOnce(const std::vector<Place>& places, const std::vector<std::vector<bool>>& before) {
  std::vector<uint32_t> beside(places.size(), 0);
  for (size_t a = 0; a < places.size(); ++a) {
    for (size_t b = 0; b < places.size(); ++b) {
      if (!Over(places[a], places[b], before) && !Over(places[b], places[a], before)) beside[a] |= 1u << b;
    }
  }
  int64_t most = 0;
  for (uint32_t set = 0; set < 1u << places.size(); ++set) {
    int64_t bytes = 0;
    bool together = true;
    for (size_t a = 0; a < places.size(); ++a) {
      if ((set >> a & 1) == 0) continue;
      bytes += places[a].bytes;
      together = together && (beside[a] & set) == set;
    }
    if (together) most = std::max(most, bytes);
  }
  return most;
}

TEST(MergedLives, WhatTakesOverIsInUseWhereverItsPartsAre) {
  int on_streams = 0, taken_inputs = 0, temporaries = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    HandMade made = RandomProgram(seed);
    const LoweredProgram& program = made.program();
    const MemoryPlan plan = PlanMemory(program);
    const auto before = Complete(program);
    const std::vector<Place> places = Places(program, plan);
    for (size_t a = 0; a < places.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const Place &x = places[a], &y = places[b];
        const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
        ASSERT_TRUE(apart || Over(x, y, before) || Over(y, x, before)) << "seed " << seed;
      }
    }
    ASSERT_GE(plan.arena_bytes, plan.lower_bound) << "seed " << seed;
    ASSERT_EQ(plan.lower_bound, MostAtOnce(places, before)) << "seed " << seed;
    bool several = false;
    for (const LoweredOp& op : program.ops) several |= op.stream != 0;
    if (!several) continue;
    ++on_streams;
    for (size_t v = 0; v < plan.takes_over.size(); ++v) {
      if (plan.takes_over[v] < 0) continue;
      ++(program.values[v].kind == BufferKind::kOutput ? taken_inputs : temporaries);
    }
  }
  EXPECT_GT(on_streams, 100);
  EXPECT_GT(taken_inputs, 50);
  EXPECT_GT(temporaries, 50);
}

// An output that is computed in a donated input keeps that memory to the end, even if the input's readers
// have ended and another stream continues.
TEST(MergedLives, AnOutputInADonatedInputStaysToTheEnd) {
  HandMade made;
  const int x = made.Input("x", 16), z = made.Input("z", 16);
  made.program().values[static_cast<size_t>(x)].donated = true;
  const int y = made.Output("y", 16);
  made.program().values[static_cast<size_t>(y)].takes = x;
  made.Sum({x}, y);  // 0, stream 0
  const int a = made.Temporary(32), b = made.Temporary(16);
  made.Sum({z}, a);  // 1 to 3, stream 1
  made.Sum({a}, b);
  made.Sum({b}, made.Output("w", 16));
  for (size_t i = 1; i < 4; ++i) made.program().ops[i].stream = 1;
  const MemoryPlan plan = PlanMemory(made.program());
  EXPECT_EQ(plan.takes_over[static_cast<size_t>(y)], x);
  EXPECT_EQ(plan.lower_bound,
            4 * 64);  // x with y (1), z (1) and a (2); later b and w replace z and a
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound);
  for (int v : {a, b}) EXPECT_NE(plan.offsets[static_cast<size_t>(v)], plan.offsets[static_cast<size_t>(y)]);
}

}  // namespace
}  // namespace rondo
