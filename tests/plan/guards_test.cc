// The elements that a part may touch by its guards and by indices from data. Everything that may be read must
// have been written.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "formats/plan/check/footprint.h"
#include "tests/plan/plan_maker.h"

namespace rondo {
namespace {

Guard MakeGuard(Arena& a, int64_t stride, int64_t offset, int64_t extent, std::vector<int64_t> strides) {
  Guard guard;
  guard.stride = stride;
  guard.offset = offset;
  guard.extent = extent;
  guard.strides = a.Copy(strides);
  return guard;
}

// ------------------------------------------------------------------------------------ footprints

// The existing elements, point by point.
std::set<int64_t> Touched(const Part& part, const Operand& operand) {
  std::set<int64_t> elements;
  std::vector<int64_t> at(part.loops.size(), 0);
  for (;;) {
    int64_t address = operand.offset;
    bool exists = true;
    for (size_t d = 0; d < at.size(); ++d) address += operand.strides[d] * at[d];
    for (const Guard& guard : operand.guards) {
      int64_t c = guard.offset;
      for (size_t d = 0; d < at.size(); ++d) c += guard.strides[d] * at[d];
      exists &= c >= 0 && c < guard.extent;
      address += guard.stride * c;
    }
    if (exists) elements.insert(address);
    size_t d = 0;
    while (d < at.size() && ++at[d] == part.loops[d]) at[d++] = 0;
    if (d == at.size()) return elements;
  }
}

std::set<int64_t> InPieces(const Part& part, uint16_t operand) {
  std::set<int64_t> bytes;
  Work work((PlanData()));
  const check::Footprint print = check::FootprintOf(part, operand);
  const bool all = check::ForPieces(print, work, [&](const check::Box& piece) {
    std::set<int64_t> of_piece = {piece.base};
    for (int d = 0; d < piece.rank; ++d) {
      std::set<int64_t> next;
      for (int64_t byte : of_piece) {
        for (int64_t i = 0; i < piece.dims[d].extent; ++i) next.insert(byte + i * piece.dims[d].stride);
      }
      of_piece = next;
    }
    bytes.insert(of_piece.begin(), of_piece.end());
    return piece.exact;
  });
  EXPECT_TRUE(all);
  return bytes;
}

TEST(Guards, PiecesAreThePointsThatExist) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 3000; ++round) {
    Arena a;
    Part part;
    const size_t loops = 1 + random() % 4;
    std::vector<int64_t> extents, strides;
    for (size_t d = 0; d < loops; ++d) {
      extents.push_back(1 + below(5));
      strides.push_back(below(3) == 0 ? 7 * below(4) : 0);
    }
    part.loops = a.Copy(extents);
    part.outer = static_cast<uint8_t>(loops);
    std::vector<Guard> guards;
    for (int64_t g = below(4); g > 0; --g) {
      std::vector<int64_t> of_guard;
      for (size_t d = 0; d < loops; ++d) of_guard.push_back(below(2) == 0 ? 0 : below(7) - 3);
      guards.push_back(MakeGuard(a, below(4) * 11 - 11, below(9) - 4, 1 + below(8), of_guard));
    }
    Operand operand;
    operand.dtype = DType::kU8;
    operand.offset = 1000;
    operand.strides = a.Copy(strides);
    operand.guards = a.Copy(guards);
    part.operands = List<Operand>(a, {operand});
    std::set<int64_t> touched = Touched(part, operand);
    if (!check::FootprintOf(part, 0).box.empty()) {
      ASSERT_EQ(InPieces(part, 0), touched) << "round " << round;
    } else {
      ASSERT_TRUE(touched.empty());
    }
  }
}

// ----------------------------------------------------------------------------------------- reads

// out[i] = sum over k of the existing a[step * i + dilation * k - pad]; `a` has `size` elements.
Part Window(Arena& a, int64_t size, int64_t rounds, int64_t step, int64_t window, int64_t dilation,
            int64_t pad) {
  Part p;
  p.skeleton = Skeleton::kReduction;
  p.outer = p.reduced = 1;
  p.loops = List<int64_t>(a, {rounds, window});
  Operand from = Access(a, 0, Mode::kRead, {0, 0});
  from.guards = List<Guard>(a, {MakeGuard(a, 1, -pad, size, {step, dilation})});
  p.operands = List<Operand>(a, {from, Access(a, 1, Mode::kWrite, {1, 0})});
  Stage sum, store;
  sum.tape = List<TapeInst>(a, {Load(0), Slot(TapeOp::kReduceSum, 0, 0)});
  store.per_row = true;
  store.tape = List<TapeInst>(a, {Slot(TapeOp::kScalar, 0), Store(0, 1)});
  p.stages = List<Stage>(a, {sum, store});
  p.scalars = 1;
  return p;
}

// Reads a concatenation of three values, of which one may be missing, through a window.
Status Concatenated(int64_t missing, int64_t step, int64_t window, int64_t dilation, int64_t pad) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 96, 512);
  for (int64_t piece = 0; piece < 3; ++piece) {
    if (piece != missing) m.Copy(m.kIn, a, 32, 0, 32 * piece);
  }
  const int64_t rounds = (96 + 2 * pad - dilation * (window - 1) - 1) / step + 1;
  m.Launch(m.AddKernel(Window(m.arena, 96, rounds, step, window, dilation, pad), 2), {{a, 0}, {m.kOut, 0}});
  for (int64_t i = rounds; i < 64; i += 32) m.Copy(m.kIn, m.kOut, std::min<int64_t>(32, 64 - i), 0, i);
  m.buffers[m.kOut].shape = Shape{std::max<int64_t>(rounds, 64)};
  m.buffers[m.kOut].bytes = static_cast<uint64_t>(std::max<int64_t>(rounds, 64)) * 4;
  m.buffers[a].offset = 1024;
  return m.Check();
}

TEST(Guards, APaddedWindowReadsAllOfAConcatenation) {
  const struct {
    int64_t step, window, dilation, pad;
  } cases[] = {{1, 3, 1, 1}, {2, 3, 1, 1}, {1, 3, 2, 2}, {3, 2, 1, 1}, {4, 2, 3, 5}, {1, 31, 1, 15}};
  for (const auto& c : cases) {
    for (int64_t missing = -1; missing < 3; ++missing) {
      const Status status = Concatenated(missing, c.step, c.window, c.dilation, c.pad);
      EXPECT_EQ(status.ok(), missing < 0) << c.step << " " << c.window << ": " << status.message();
      if (missing < 0) continue;
      EXPECT_NE(std::string(status.message()).find("of buffer 2 \"a\", which no step before it has written"),
                std::string::npos)
          << status.message();
    }
  }
}

TEST(Guards, WhatNoPointReadsNeedNotBeWritten) {
  for (int64_t written : {0, 1}) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 128, 1024);
    // Writes only every second element.
    m.Launch(m.AddKernel(Elementwise(m.arena, 1, 2), 2),
             {{m.kIn, 0}, {a, static_cast<uint64_t>(4 * written)}});
    m.Launch(m.AddKernel(Window(m.arena, 127, 66, 2, 1, 1, 2), 2), {{a, 0}, {m.kOut, 0}});
    m.buffers[m.kOut].shape = Shape{66};
    m.buffers[m.kOut].bytes = 264;
    if (written == 0) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "it reads byte 0 of buffer 2");
    }
  }
}

TEST(Guards, AWriteThroughAGuardCoversNoMoreThanExists) {
  for (int64_t extent : {64, 63}) {
    Maker m;
    Part p = Elementwise(m.arena);
    p.loops = List<int64_t>(m.arena, {66});
    Operand from = Access(m.arena, 0, Mode::kRead, {0}), to = Access(m.arena, 1, Mode::kWrite, {0});
    from.guards = List<Guard>(m.arena, {MakeGuard(m.arena, 1, -1, 64, {1})});
    to.guards = List<Guard>(m.arena, {MakeGuard(m.arena, 1, -1, extent, {1})});
    p.operands = List<Operand>(m.arena, {from, to});
    m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
    if (extent == 64) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "it reads byte 252 of buffer 1");
    }
  }
}

// out[i] = table[ids[i]] or table[ids[i]] = in[i], over 64.
Part Indexed(Arena& a, bool gather) {
  Part p = Elementwise(a);
  Indirect by;
  by.operand = 2;
  by.stride = 1;
  by.extent = 64;
  Operand from = p.operands[0], to = p.operands[1];
  (gather ? from : to).strides = List<int64_t>(a, {0});
  (gather ? from : to).indirects = List<Indirect>(a, {by});
  p.operands = List<Operand>(a, {from, to, Access(a, 2, Mode::kRead, {1}, 0, DType::kI32)});
  return p;
}

TEST(Guards, AGatherMayReadAllOfItsTable) {
  for (int64_t written : {64, 63}) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), ids = m.AddBuffer("ids", BufferKind::kState, 64, 0);
    m.buffers[ids].dtype = DType::kI32;
    m.Copy(m.kIn, a, written);
    m.Launch(m.AddKernel(Indexed(m.arena, true), 3), {{a, 0}, {m.kOut, 0}, {ids, 0}});
    if (written == 64) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "it reads byte 252 of buffer 2");
    }
  }
}

TEST(Guards, AScatterAloneWritesNothingThatIsKnown) {
  for (bool below : {true, false}) {
    Maker m;
    const uint32_t ids = m.AddBuffer("ids", BufferKind::kState, 64, 0);
    m.buffers[ids].dtype = DType::kI32;
    if (below) m.Copy(m.kIn, m.kOut);
    m.Launch(m.AddKernel(Indexed(m.arena, false), 3), {{m.kIn, 0}, {m.kOut, 0}, {ids, 0}});
    if (below) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "which no step before it has written");
    }
  }
}

// A matrix written in rows of 12 and read in rows of 16: neither stride divides the other.
TEST(Guards, PiecesOfAnotherShapeCoverExactly) {
  for (int64_t missing = -1; missing < 2; ++missing) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 192, 1024);
    for (int64_t half = 0; half < 2; ++half) {
      if (half == missing) continue;
      Part p;
      p.outer = 2;
      p.loops = List<int64_t>(m.arena, {16, 6});
      p.operands = List<Operand>(m.arena, {Access(m.arena, 0, Mode::kRead, {1, 1}),
                                           Access(m.arena, 1, Mode::kWrite, {12, 1}, 6 * half)});
      p.body = List<TapeInst>(m.arena, {Load(0), Store(0, 1)});
      m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {a, 0}});
    }
    Part p;
    p.outer = 2;
    p.loops = List<int64_t>(m.arena, {12, 5});
    p.operands = List<Operand>(
        m.arena, {Access(m.arena, 0, Mode::kRead, {16, 1}, 11), Access(m.arena, 1, Mode::kWrite, {5, 1})});
    p.body = List<TapeInst>(m.arena, {Load(0), Store(0, 1)});
    m.Launch(m.AddKernel(p, 2), {{a, 0}, {m.kOut, 0}});
    m.Copy(m.kIn, m.kOut, 4, 0, 60);
    if (missing < 0) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "of buffer 2 \"a\", which no step before it has written");
    }
  }
}

}  // namespace
}  // namespace rondo
