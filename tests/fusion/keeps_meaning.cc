#include "tests/fusion/keeps_meaning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "compiler/codegen/emit_plan.h"
#include "compiler/ir/evaluate.h"
#include "compiler/schedule/expand_loops.h"
#include "core/scalar.h"
#include "core/synthetic.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "tests/host/reference.h"

namespace rondo {

std::shared_ptr<const ir::ConstantData> RandomTensor(DType dtype, const Shape& shape, std::mt19937* rng,
                                                     int64_t below) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements() * ByteSize(dtype)));
  for (int64_t i = 0; i < shape.elements(); ++i) {
    if (NaturalType(dtype) == TapeType::kI64) {
      scalar::Store<int64_t>(dtype, bytes.data(), i,
                             static_cast<int64_t>((*rng)() % static_cast<uint64_t>(below)));
    } else {
      float v = static_cast<float>(static_cast<int>((*rng)() % 2001) - 1000) / 500.0f;
      if (dtype == DType::kF64) {
        scalar::Store<double>(dtype, bytes.data(), i, v);
      } else {
        scalar::Store<float>(dtype, bytes.data(), i, v);
      }
    }
  }
  return ir::ConstantData::Own(dtype, shape, std::move(bytes));
}

namespace {

double Element(DType dtype, const void* data, int64_t i) {
  if (dtype == DType::kF64) return scalar::Load<double>(dtype, data, i);
  if (IsFloat(dtype)) return scalar::Load<float>(dtype, data, i);
  return static_cast<double>(scalar::Load<int64_t>(dtype, data, i));
}

// The same ops in another order: always the last of the ready ops comes next.
LoweredProgram LatestFirst(const LoweredProgram& program) {
  LoweredProgram out = program;
  out.ops.clear();
  const size_t n = program.ops.size();
  std::vector<std::vector<size_t>> feeds(n);
  std::vector<size_t> waiting(n);
  std::vector<int> place(n);
  std::set<size_t> ready;
  for (size_t i = 0; i < n; ++i) {
    waiting[i] = program.ops[i].deps.size();
    for (int from : program.ops[i].deps) feeds[static_cast<size_t>(from)].push_back(i);
    if (waiting[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    size_t at = *ready.rbegin();
    ready.erase(at);
    place[at] = static_cast<int>(out.ops.size());
    out.ops.push_back(program.ops[at]);
    for (int& from : out.ops.back().deps) from = place[static_cast<size_t>(from)];
    for (size_t next : feeds[at]) {
      if (--waiting[next] == 0) ready.insert(next);
    }
  }
  EXPECT_EQ(out.ops.size(), n) << "ops wait for each other";
  return out;
}

// One vector of bytes for each value. Constants are filled in; everything else is 0xcd until it is written.
using Memory = std::vector<std::vector<char>>;

Memory MakeMemory(const LoweredProgram& program) {
  Memory memory;
  for (const LoweredValue& value : program.values) {
    memory.emplace_back(static_cast<size_t>(value.bytes), '\xcd');
    if (!value.constant) continue;
    if (value.constant->synthetic) {
      const auto made = ir::WithBytes(value.constant);
      std::memcpy(memory.back().data(), made->bytes.data(), made->bytes.size());
    } else if (value.bytes > 0) {
      std::memcpy(memory.back().data(), value.constant->bytes.data(), static_cast<size_t>(value.bytes));
    }
  }
  return memory;
}

// Runs one op, in round `round` of its loop.
void RunOp(const LoweredOp& op, int64_t round, Memory* memory) {
  std::vector<Span<char>> params;
  for (const LoweredBinding& binding : op.params) {
    const Span<char> value = (*memory)[static_cast<size_t>(binding.value)];
    const size_t offset = binding.byte_offset + static_cast<size_t>(round * binding.stride);
    params.push_back(value.subspan(offset, value.size() - offset));
  }
  EXPECT_FALSE(test::RunReference(op.kernel, params)) << "an index out of range";
}

// Runs all kernels in order. The kernels of a loop are adjacent, and run once a round.
void Run(const LoweredProgram& program, Memory* memory) {
  for (size_t first = 0, end = 0; first < program.ops.size(); first = end) {
    const int loop = program.ops[first].loop;
    for (end = first + 1; loop >= 0 && end < program.ops.size() && program.ops[end].loop == loop;) ++end;
    const int64_t rounds = loop < 0 ? 1 : program.loops[static_cast<size_t>(loop)];
    for (int64_t round = 0; round < rounds; ++round) {
      for (size_t i = first; i < end; ++i) RunOp(program.ops[i], round, memory);
    }
  }
}

void ExpectSame(const LoweredProgram& program, const ir::Values& inputs, const ir::Values& expected,
                const std::string& what) {
  Memory memory = MakeMemory(program);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    auto& to = memory[static_cast<size_t>(program.inputs[i].value)];
    std::memcpy(to.data(), inputs[i]->bytes.data(), to.size());
  }
  Run(program, &memory);
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const auto& want = expected[o];
    const auto& got = memory[static_cast<size_t>(program.outputs[o].value)];
    for (int64_t i = 0; i < want->shape.elements(); ++i) {
      double a = Element(want->dtype, want->bytes.data(), i), b = Element(want->dtype, got.data(), i);
      bool close = std::isnan(a) ? std::isnan(b) : a == b || std::abs(a - b) <= 1e-4 + 1e-3 * std::abs(a);
      ASSERT_TRUE(close) << "output " << o << " element " << i << ": " << a << " became " << b << "; "
                         << what;
    }
  }
}

// The checker must prove which memory the kernels read and write.
void ExpectProven(const LoweredProgram& program, const std::string& what) {
  PlannedProgram planned;
  planned.lowered = program;
  planned.memory = PlanMemory(program);
  std::vector<std::string> found;
  planned.partitions = PartitionSteps(SeamSteps(program, {}, &found));
  std::vector<PlannedProgram> programs;
  programs.push_back(std::move(planned));
  auto emitted = EmitPlan(std::move(programs), {}, nullptr);
  ASSERT_TRUE(emitted.ok()) << emitted.status().message() << "; " << what;
  const Status verified = VerifyPlan(emitted->plan);
  ASSERT_TRUE(verified.ok()) << verified.message() << "; " << what;
  const Status checked = CheckPlan(emitted->plan);
  ASSERT_TRUE(checked.ok()) << checked.message() << "; " << what;
}

}  // namespace

LoweredProgram ExpectFusionKeepsMeaning(const ir::Graph& graph, uint32_t seed, const FuseOptions& options,
                                        int64_t index_below) {
  std::mt19937 rng(seed);
  ir::Values inputs;
  for (const ir::GraphInput& input : graph.inputs) {
    const ir::Node& node = graph.node(input.node);
    inputs.push_back(RandomTensor(node.dtype, node.shape, &rng, index_below));
  }
  auto expected = ir::EvaluateGraph(graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  auto fused = Fuse(graph, options, nullptr);
  EXPECT_TRUE(fused.ok()) << fused.status().message() << "\n" << ir::Dump(graph);
  if (!fused.ok() || !expected.ok()) return {};
  LoweredProgram program = fused.Take();
  const std::string what = "seed " + std::to_string(seed) + "\n" + ir::Dump(graph);
  std::set<const ir::ConstantData*> constants;  // each constant is stored once
  for (const LoweredValue& value : program.values) {
    EXPECT_TRUE(value.constant == nullptr || constants.insert(value.constant.get()).second)
        << value.name << "; " << what;
  }
  const bool has_loops = std::any_of(program.ops.begin(), program.ops.end(),
                                     [](const LoweredOp& op) { return op.kind == LoweredKind::kLoop; });
  if (has_loops) {
    LoweredProgram expanded = program;
    ExpandLoops(&expanded);
    ExpectSame(expanded, inputs, *expected, what);
    ExpectProven(expanded, what);
    if (expanded.loops.empty())
      ExpectSame(LatestFirst(expanded), inputs, *expected, "latest ops first, " + what);
    return program;  // the ops of a kept loop have no other order
  }
  ExpectSame(program, inputs, *expected, what);
  ExpectProven(program, what);
  const LoweredProgram latest = LatestFirst(program);
  ExpectSame(latest, inputs, *expected, "latest ops first, " + what);
  ExpectProven(latest, "latest ops first, " + what);
  return program;
}

}  // namespace rondo
