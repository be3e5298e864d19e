// One broken plan for each rule of the checker, which VerifyPlan accepts; and unusual valid plans.
#include "formats/plan/check/checker.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "formats/plan/check/footprint.h"
#include "tests/plan/plan_maker.h"
#include "tests/plan/sample_plan.h"

namespace rondo {
namespace {

TEST(Checker, ReportsLifetimesAndPeaks) {
  Sample s = MakeSample();
  Arena arena;
  CheckReport report;
  const Status status = CheckPlan(s.data, DefaultHostAllocator(), arena, &report);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(report.lifetimes[kG].first, 1u);
  EXPECT_EQ(report.lifetimes[kG].last, 3u);
  EXPECT_EQ(report.lifetimes[kIn0].last, 1u) << "in flight until its wait";
  // Step 5: x 128, ids 32, p 256, cat 512, y 512.
  EXPECT_EQ(report.programs[0].arena_lower_bound, 1440u);
  EXPECT_EQ(report.programs[0].fullest_step, 5u);
  EXPECT_EQ(report.programs[0].arena_bytes, 2048u);
}

TEST(Checker, LifetimesMustBeExact) {
  for (int64_t change : {-1, 1}) {
    Sample s = MakeSample();
    BufferOf(s, kCat).last_step = static_cast<uint32_t>(5 + change);
    const Status status = CheckPlan(s.data);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find("matter from step 3 to 5"), std::string::npos)
        << status.message();
    Sample t = MakeSample();
    BufferOf(t, kCat).first_step = static_cast<uint32_t>(3 + change);
    EXPECT_FALSE(CheckPlan(t.data).ok());
  }
}

TEST(Checker, LowerBoundMustNotBeUnderstated) {
  Sample s = MakeSample();
  ProgramOf(s, 0).arena_lower_bound = 1439;
  EXPECT_FALSE(CheckPlan(s.data).ok());
}

TEST(Checker, AnInputIsWrittenOnlyWhereItBecomesAnOutput) {
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kUpdatedInput}) {
    Maker m;
    m.buffers[m.kIn].kind = kind;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 512);
    m.Copy(m.kIn, a);
    m.Copy(a, m.kIn);
    m.Copy(a, m.kOut);
    if (kind == BufferKind::kInput) EXPECT_BROKEN(m, "which is input and never to be written");
    if (kind == BufferKind::kUpdatedInput) EXPECT_GOOD(m);
  }
}

TEST(Checker, AnInputThatBecomesAnOutputKeepsItsMemoryToTheEnd) {
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kUpdatedInput}) {
    Maker m;
    m.buffers[m.kIn].kind = kind;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 0);
    m.Copy(m.kIn, m.kOut);
    m.Copy(m.kOut, a);
    if (kind == BufferKind::kInput) EXPECT_GOOD(m);
    if (kind == BufferKind::kUpdatedInput) EXPECT_BROKEN(m, "in use at once and overlap");
  }
}

TEST(Checker, BuffersLiveAtOnceMustNotOverlap) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 512 + 192);
  m.Copy(m.kIn, a);
  m.Copy(m.kIn, b);
  m.Copy(a, m.kOut, 32);
  m.Copy(b, m.kOut, 32, 0, 32);
  EXPECT_BROKEN(m, "in use at once and overlap");
}

TEST(Checker, MemoryIsReusedAfterTheLastReader) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 512);
  m.Copy(m.kIn, a);
  m.Copy(a, m.kOut, 32);
  m.Copy(m.kIn, b);
  m.Copy(b, m.kOut, 32, 0, 32);
  EXPECT_GOOD(m);
}

TEST(Checker, InputsBeginBeforeAllSteps) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 0);
  m.Copy(a, a, 1, 0, 8);  // some use before the input's first reader
  m.Copy(m.kIn, m.kOut);
  EXPECT_BROKEN(m, "overlap");
}

TEST(Checker, OutputsLastBeyondAllSteps) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 256);
  m.Copy(m.kIn, m.kOut);
  m.Copy(m.kIn, a);
  EXPECT_BROKEN(m, "overlap");
}

TEST(Checker, MemoryOfAnInputIsReusedAfterItsLastReader) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 0);
  m.Copy(m.kIn, a);
  m.Copy(a, b);
  m.Copy(b, m.kOut);
  EXPECT_GOOD(m);
}

TEST(Checker, InPlaceNeedsTheAlias) {
  for (bool declared : {true, false}) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 512),
                   b = m.AddBuffer("b", kTemp, 64, 512, declared ? a : kNone);
    m.Copy(m.kIn, a);
    m.Launch(m.AddKernel(Elementwise(m.arena), 2), {{a, 0}, {b, 0}});
    m.Copy(b, m.kOut);
    if (declared) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "overlap");
    }
  }
}

TEST(Checker, InPlaceNeedsTheLastReader) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 512, a);
  m.Copy(m.kIn, a);
  m.Launch(m.AddKernel(Elementwise(m.arena), 2), {{a, 0}, {b, 0}});
  m.Copy(a, m.kOut, 32);
  m.Copy(b, m.kOut, 32, 0, 32);
  EXPECT_BROKEN(m, "overlap");
}

TEST(Checker, InPlaceNeedsTheSameElements) {
  for (int variant = 0; variant < 2; ++variant) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 128, 512), b = m.AddBuffer("b", kTemp, 128, 512, a);
    m.Copy(m.kIn, a);
    m.Copy(m.kIn, a, 64, 0, 64);
    const uint32_t kernel = m.AddKernel(Elementwise(m.arena, variant == 0 ? -1 : 1), 2);
    m.Launch(kernel, {{a, 0}, {b, variant == 0 ? 0u : 4u}});
    m.Copy(b, m.kOut, 64, variant);
    EXPECT_BROKEN(m, "not element by element");
  }
}

TEST(Checker, InPlaceNeedsLoadsBeforeStores) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 512, a);
  m.Copy(m.kIn, a);
  Part p = Elementwise(m.arena);
  p.operands = List<Operand>(m.arena, {p.operands[0], p.operands[1], Access(m.arena, 2, Mode::kWrite, {1})});
  p.body = List<TapeInst>(m.arena, {Load(0), Store(0, 1), Load(0), Store(2, 2)});
  m.Launch(m.AddKernel(p, 3), {{a, 0}, {b, 0}, {m.kOut, 0}});
  m.Copy(b, m.kOut);
  EXPECT_BROKEN(m, "not element by element");
}

// Other points may have combined into the cell before a point loads it, whatever the order within the tape.
TEST(Checker, WhatPointsCombineIntoIsNotLoadedBesideThat) {
  Sample s = MakeSample();
  Part part = PartOf(s, 5);
  part.operands = List<Operand>(s.arena, {OperandOf(s, 5, 0), Access(s.arena, 1, Mode::kReadWrite, {0, 0}),
                                          Access(s.arena, 1, Mode::kRead, {0, 0})});
  const auto loads_first = [&](TapeInst effect) {
    part.body = List<TapeInst>(s.arena, {Load(0), Load(2), effect});
    return check::LoadedBeforeStored(part, 2, 1);
  };
  EXPECT_TRUE(loads_first(Store(0, 1)));
  EXPECT_FALSE(loads_first(Slot(TapeOp::kCombineMax, 1, 0)));
  EXPECT_FALSE(loads_first(Slot(TapeOp::kCombineMin, 1, 0)));
}

TEST(Checker, ARoleIsNeverReadInPlace) {
  Sample s = MakeSample();
  // X[4, 8] W -> H, with H over X: the matmul reads X while it writes H.
  BufferOf(s, kH).offset = BufferOf(s, kP).offset = 0;
  BufferOf(s, kH).aliases = kX;
  const Status status = CheckPlan(s.data);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("not element by element"), std::string::npos)
      << status.message();
}

TEST(Checker, PartsOfAKernelAreNotInOrder) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512);
  m.Copy(m.kIn, a);
  // Part 0 copies a to out, part 1 writes a.
  Kernel kernel = CopyKernel(m.arena, "", 64, 0, 0);
  Part second = kernel.parts[0];
  second.operands =
      List<Operand>(m.arena, {Access(m.arena, 2, Mode::kRead, {1}), Access(m.arena, 0, Mode::kWrite, {1})});
  kernel.parts = List<Part>(m.arena, {kernel.parts[0], second});
  kernel.num_params = 3;
  m.Launch(m.AddKernel(kernel), {{a, 0}, {m.kOut, 0}, {m.kIn, 0}});
  EXPECT_BROKEN(m, "not element by element");
}

TEST(Checker, PartsMayWriteInterleavedPieces) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 128, 512);
  std::vector<Part> parts;
  for (int64_t half = 0; half < 2; ++half) {
    Part p;
    p.outer = 2;
    p.loops = List<int64_t>(m.arena, {8, 8});
    p.operands = List<Operand>(m.arena, {Access(m.arena, 0, Mode::kRead, {8, 1}),
                                         Access(m.arena, 1, Mode::kWrite, {16, 1}, half * 8)});
    p.body = List<TapeInst>(m.arena, {Load(0), Store(0, 1)});
    parts.push_back(p);
  }
  Kernel kernel;
  kernel.num_params = 2;
  kernel.parts = ListOf(m.arena, parts);
  m.Launch(m.AddKernel(kernel), {{m.kIn, 0}, {a, 0}});
  m.Copy(a, m.kOut, 64, 64);
  EXPECT_GOOD(m);
}

TEST(Checker, ConstantsAreNeverWritten) {
  Maker m;
  const uint32_t c = m.AddBuffer("c", BufferKind::kConstant, 64, 0);
  m.Copy(m.kIn, c);
  m.Copy(c, m.kOut);
  EXPECT_BROKEN(m, "never to be written");
}

TEST(Checker, InputsAreNeverWritten) {
  Maker m;
  m.Copy(m.kIn, m.kOut);
  m.Copy(m.kOut, m.kIn);
  EXPECT_BROKEN(m, "never to be written");
}

TEST(Checker, InputsMayBeTakenOver) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 0, m.kIn);
  m.Launch(m.AddKernel(Elementwise(m.arena), 2), {{m.kIn, 0}, {a, 0}});
  m.Copy(a, m.kOut);
  EXPECT_GOOD(m);
}

TEST(Checker, ConstantsShareMemoryOnlyWithTheirBytes) {
  for (uint64_t at : {0, 256}) {
    Maker m;
    const uint32_t c = m.AddBuffer("c", BufferKind::kConstant, 64, 0),
                   d = m.AddBuffer("d", BufferKind::kConstant, 64, 0);
    m.buffers[d].file_offset = at;
    m.Copy(c, m.kOut, 32);
    m.Copy(d, m.kOut, 32, 0, 32);
    if (at == 0) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "are both constant and overlap");
    }
  }
}

TEST(Checker, StateIsNotShared) {
  Maker m;
  m.AddBuffer("s", BufferKind::kState, 64, 0);
  m.AddBuffer("t", BufferKind::kState, 64, 128);
  m.Copy(m.kIn, m.kOut);
  EXPECT_BROKEN(m, "are both state and overlap");
}

TEST(Checker, StateIsReadAsItWas) {
  Maker m;
  const uint32_t s = m.AddBuffer("s", BufferKind::kState, 64, 0);
  m.Copy(s, m.kOut);
  m.Copy(m.kIn, s);
  EXPECT_GOOD(m);
}

TEST(Checker, ReadsSeeAWrite) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512);
  m.Copy(a, m.kOut);
  m.Copy(m.kIn, a);
  EXPECT_BROKEN(m, "which no step before it has written");
}

TEST(Checker, ReadsAreCoveredByPieces) {
  for (int64_t missing = -1; missing < 4; ++missing) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 512);
    for (int64_t piece = 0; piece < 4; ++piece) {
      if (piece != missing) m.Copy(m.kIn, a, 16, 0, piece * 16);
    }
    m.Copy(a, m.kOut);
    if (missing < 0) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "it reads byte " + std::to_string(missing * 64) + " of buffer 2");
    }
  }
}

TEST(Checker, ReadsAreCoveredByColumns) {
  for (int64_t missing = -1; missing < 4; ++missing) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 512);
    for (int64_t column = 0; column < 4; ++column) {
      if (column == missing) continue;
      Part p;
      p.outer = 2;
      p.loops = List<int64_t>(m.arena, {4, 4});
      p.operands = List<Operand>(m.arena, {Access(m.arena, 0, Mode::kRead, {4, 1}),
                                           Access(m.arena, 1, Mode::kWrite, {16, 1}, column * 4)});
      p.body = List<TapeInst>(m.arena, {Load(0), Store(0, 1)});
      m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {a, 0}});
    }
    m.Copy(a, m.kOut);
    if (missing < 0) {
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "of buffer 2");
    }
  }
}

TEST(Checker, OutputsAreWrittenWhole) {
  Maker m;
  m.Copy(m.kIn, m.kOut, 63);
  EXPECT_BROKEN(m, "it reads byte 252 of buffer 1");
}

TEST(Checker, ScatterOverACopyIsCovered) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), ids = m.AddBuffer("ids", kTemp, 64, 1024);
  m.buffers[ids].dtype = DType::kI32;
  m.Copy(m.kIn, a);
  Part fill;
  fill.outer = 1;
  fill.loops = List<int64_t>(m.arena, {64});
  fill.operands = List<Operand>(m.arena, {Access(m.arena, 0, Mode::kWrite, {1}, 0, DType::kI32)});
  TapeInst index = Slot(TapeOp::kIndex, 0);
  index.type = TapeType::kI64;
  fill.body = List<TapeInst>(m.arena, {index, Store(0, 0)});
  m.Launch(m.AddKernel(fill, 1), {{ids, 0}});
  Part scatter = Elementwise(m.arena);
  Operand to = Access(m.arena, 1, Mode::kWrite, {0});
  Indirect by;
  by.operand = 2;
  by.stride = 1;
  by.extent = 64;
  to.indirects = List<Indirect>(m.arena, {by});
  scatter.operands =
      List<Operand>(m.arena, {scatter.operands[0], to, Access(m.arena, 2, Mode::kRead, {1}, 0, DType::kI32)});
  m.Launch(m.AddKernel(scatter, 3), {{m.kIn, 0}, {a, 0}, {ids, 0}});
  m.Copy(a, m.kOut);
  EXPECT_GOOD(m);
}

TEST(Checker, AnUpdateInPlaceKeepsTheRest) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 512, a);
  m.Copy(m.kIn, a);
  Part p;
  p.outer = 1;
  p.loops = List<int64_t>(m.arena, {8});
  p.operands =
      List<Operand>(m.arena, {Access(m.arena, 0, Mode::kRead, {1}), Access(m.arena, 1, Mode::kWrite, {1})});
  p.body = List<TapeInst>(m.arena, {Load(0), Apply(TapeOp::kNeg, 0), Store(1, 1)});
  m.Launch(m.AddKernel(p, 2), {{a, 0}, {b, 0}});  // the first 8 of 64
  m.Copy(b, m.kOut);
  EXPECT_GOOD(m);
}

// The memory must already have been written before the part, because the checker does not prove at which of
// its points the part reads it.
TEST(Checker, ASequentialPartMayReadWhatItWritesOverWhatWasWritten) {
  for (const bool sequential : {true, false}) {
    for (const bool written : {true, false}) {
      SCOPED_TRACE(testing::Message() << "sequential " << sequential << ", written " << written);
      Maker m;
      Part p;  // out[i + 1] = out[i] + in[i + 1], out[0] = absent
      p.outer = 1;
      p.sequential = sequential;
      p.loops = List<int64_t>(m.arena, {64});
      Operand before = Access(m.arena, 1, Mode::kRead, {0});
      Guard guard;
      guard.stride = 1;
      guard.offset = -1;
      guard.extent = 64;
      guard.strides = List<int64_t>(m.arena, {1});
      before.guards = List<Guard>(m.arena, {guard});
      p.operands = List<Operand>(
          m.arena, {Access(m.arena, 0, Mode::kRead, {1}), Access(m.arena, 1, Mode::kWrite, {1}), before});
      p.body = List<TapeInst>(m.arena, {Load(0), Load(2), Apply(TapeOp::kAdd, 0, 1), Store(2, 1)});
      if (written) m.Copy(m.kIn, m.kOut);
      m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
      if (!sequential) {
        EXPECT_BROKEN(m, "not element by element");
      } else if (written) {
        EXPECT_GOOD(m);
      } else {
        EXPECT_BROKEN(m, "which no step before it has written");
      }
    }
  }
}

// Fuzzing with the undefined-behaviour sanitizer found this.
TEST(Checker, ALoopOfOneRoundMayStateAnyStride) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  Maker m;
  Part p;
  p.outer = 2;
  p.loops = List<int64_t>(m.arena, {64, 1});
  p.operands = List<Operand>(
      m.arena, {Access(m.arena, 0, Mode::kRead, {1, kLeast}), Access(m.arena, 1, Mode::kWrite, {1, kLeast})});
  p.body = List<TapeInst>(m.arena, {Load(0), Store(0, 1)});
  m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
  EXPECT_GOOD(m);
}

TEST(Checker, CopiesMustNotOverlapThemselves) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 128, 512);
  m.Copy(m.kIn, a);
  Step& copy = m.Copy(a, a);
  copy.kind = StepKind::kCopy;
  copy.kernel = kNone;
  copy.bytes = 256;
  copy.bindings = List<Binding>(m.arena, {{a, 0}, {a, 128}});
  m.Copy(a, m.kOut);
  EXPECT_BROKEN(m, "not element by element");
}

}  // namespace
}  // namespace rondo
