// Ranges of whole tensors: computed by all threads, used in the rest of the same kernel, or computed while
// the tensor is written.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <string>

#include "tests/host/driver_case.h"
#include "tests/host/kernel_plan.h"
#include "tests/host/random_layout.h"
#include "tests/host/stages.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

constexpr float kStrange[] = {NAN, HUGE_VALF, -HUGE_VALF};

// Begins a reduction over all loops of the tensor, with two scalars: minimum and maximum.
void BeginRange(PartMaker& maker) {
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.reduced = static_cast<uint8_t>(maker.loops.size());
  maker.part.scalars = 4;
}

void StoreScalar(PartMaker& maker, TapeMaker& tape, uint16_t slot) {
  const uint16_t to = maker.Operand(DType::kF32, Mode::kWrite, {});
  tape.Store(to, DType::kF32, tape.Add(TapeOp::kScalar, TapeType::kF32, slot));
}

void PutFloat(Memory* memory, size_t param, int64_t at, float x) {
  std::memcpy(&memory->params[param][static_cast<size_t>(4 * at)], &x, sizeof(x));
}

// Where the numbers come from: memory, sums of two tensors, or memory that the kernel also writes.
enum class Numbers { kMemory, kSums, kWritten };

TEST(Ranges, WhatFollowsFromItQuantisesTheSameNumbers) {
  for (uint32_t seed = 0; seed < 96; ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {Between(random, 1, 4), Between(random, 1, 40), Between(random, 1, 150)};
    BeginRange(maker);
    const DType byte = kBytes[seed % 2];
    const Numbers numbers = static_cast<Numbers>(seed / 2 % 3);
    const std::vector<int> order = RandomOrder(random, {0, 1, 2});
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, order);
    const uint16_t other = numbers == Numbers::kSums ? maker.Operand(DType::kF32, Mode::kRead, order) : in;
    const uint16_t out = maker.Operand(byte, Mode::kWrite, Between(random, 0, 3) == 0 ? Range(0, 3) : order);
    const auto value = [&](TapeMaker& tape) {
      const uint16_t x = tape.Load(in, DType::kF32);
      return numbers == Numbers::kSums ? tape.Binary(TapeOp::kAdd, x, tape.Load(other, DType::kF32)) : x;
    };
    TapeMaker range, row, store;
    const uint16_t x = value(range);
    if (numbers == Numbers::kWritten)
      range.Store(maker.Operand(DType::kF32, Mode::kWrite, RandomOrder(random, {0, 1, 2})), DType::kF32, x);
    const bool both = Between(random, 0, 2) != 0;
    if (both) range.Add(TapeOp::kReduceMin, TapeType::kF32, 0, x);
    range.Add(TapeOp::kReduceMax, TapeType::kF32, 1, x);
    if (both) StoreScalar(maker, row, 0);
    StoreScalar(maker, row, 1);
    // With a scale of a quarter, the numbers of Randomise become halves.
    const uint16_t most = row.Add(TapeOp::kScalar, TapeType::kF32, 1);
    const uint16_t scale =
        Between(random, 0, 1) == 0
            ? row.Binary(TapeOp::kAdd, row.Binary(TapeOp::kSub, most, most), row.Const(0.25f))
            : row.Binary(TapeOp::kDiv, most, row.Const(Between(random, 0, 1) == 0 ? 255 : 3));
    row.Add(TapeOp::kSetScalar, TapeType::kF32, 2, scale);
    row.Add(TapeOp::kSetScalar, TapeType::kF32, 3, row.Const(byte == DType::kU8 ? 7 : -5));
    const uint16_t divisor = store.Add(TapeOp::kScalar, TapeType::kF32, 2);
    uint16_t y = store.Unary(TapeOp::kRound, store.Binary(TapeOp::kDiv, value(store), divisor));
    y = store.Binary(TapeOp::kAdd, y, store.Add(TapeOp::kScalar, TapeType::kF32, 3));
    store.Store(out, byte, Clamped(store, y, byte));
    KeepStages(maker, {{false, range}, {true, row}, {false, store}});
    Memory memory;
    memory.Randomise(maker, random);
    const int64_t count = maker.sizes[in];
    if (seed % 4 == 0) PutFloat(&memory, in, Between(random, 0, count - 1), kStrange[seed / 4 % 3]);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
    if (HasFatalFailure()) return;
  }
}

// An index selects the tensor's columns, as in a resized image; lanes share an index.
TEST(Ranges, OfWhatAnIndexReadsQuantisesTheSameNumbers) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {Between(random, 1, 20), Between(random, 2, 40), Between(random, 2, 70)};
    BeginRange(maker);
    const int64_t extent = 13, channels = maker.loops[2];
    const uint16_t index = maker.Operand(DType::kI64, Mode::kRead, {1}),
                   in = maker.Operand(DType::kF32, Mode::kRead, {0, 2}),
                   factor = maker.Operand(DType::kF32, Mode::kRead, {1}),
                   out = maker.Operand(DType::kU8, Mode::kWrite, RandomOrder(random, {0, 1, 2}));
    Indirect indirect;
    indirect.operand = index;
    indirect.stride = channels;
    indirect.extent = extent;
    maker.operands[in].strides = arena.Copy(std::vector<int64_t>{extent * channels, 0, 1});
    maker.operands[in].indirects = arena.Copy(std::vector<Indirect>{indirect});
    maker.sizes[in] = maker.loops[0] * extent * channels;
    const auto value = [&](TapeMaker& tape) {
      return tape.Binary(TapeOp::kMul, tape.Load(in, DType::kF32), tape.Load(factor, DType::kF32));
    };
    TapeMaker range, row, store;
    const uint16_t x = value(range);
    range.Add(TapeOp::kReduceMax, TapeType::kF32, 1, x);
    StoreScalar(maker, row, 1);
    const uint16_t most = row.Add(TapeOp::kScalar, TapeType::kF32, 1);
    row.Add(TapeOp::kSetScalar, TapeType::kF32, 2, row.Binary(TapeOp::kDiv, most, row.Const(255)));
    uint16_t y = store.Binary(TapeOp::kDiv, value(store), store.Add(TapeOp::kScalar, TapeType::kF32, 2));
    y = store.Binary(TapeOp::kAdd, store.Unary(TapeOp::kRound, y), store.Const(3));
    store.Store(out, DType::kU8, Clamped(store, y, DType::kU8));
    KeepStages(maker, {{false, range}, {true, row}, {false, store}});
    Memory memory;
    memory.Randomise(maker, random);
    for (int64_t i = 0; i < maker.loops[1]; ++i)
      scalar::Store<int64_t>(DType::kI64, memory.params[index].data(), i, Between(random, 0, extent - 1));
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
    if (HasFatalFailure()) return;
  }
}

// ------------------------------------------------------------------- of what the launch before writes

// Two launches: sums of bytes as floats [m, n], scaled by column; then the range of all of them.
struct Pair {
  explicit Pair(uint32_t seed) : random(seed) {
    PartMaker& product = makers.emplace_back(&plan.arena);
    BeginProduct(product.part);
    product.loops = {Between(random, 1, 200), Between(random, 1, 600), Between(random, 1, 40)};
    product.part.lhs = product.Operand(DType::kU8, Mode::kRead, {0, 2});
    product.part.rhs =
        plan.arena.Copy(std::vector<uint16_t>{product.Operand(DType::kI8, Mode::kRead, {1, 2})});
    const uint16_t scale = product.Operand(DType::kF32, Mode::kRead, {1});
    written = product.Operand(DType::kF32, Mode::kWrite,
                              seed % 5 == 0 ? std::vector<int>{1, 0} : std::vector<int>{0, 1});
    TapeMaker epilogue;
    const uint16_t sum =
        epilogue.Cast(epilogue.Add(TapeOp::kAcc, TapeType::kI64, 0), TapeType::kF32, DType::kF32);
    epilogue.Store(written, DType::kF32,
                   epilogue.Binary(TapeOp::kMul, sum, epilogue.Load(scale, DType::kF32)));
    product.part.epilogue = product.Keep(epilogue);

    PartMaker& range = makers.emplace_back(&plan.arena);
    range.loops = {product.loops[0] * product.loops[1]};
    BeginRange(range);
    TapeMaker reduce, row;
    const uint16_t x = reduce.Load(range.Operand(DType::kF32, Mode::kRead, {0}), DType::kF32);
    if (seed % 3 != 0) reduce.Add(TapeOp::kReduceMin, TapeType::kF32, 0, x);
    if (seed % 3 != 1) reduce.Add(TapeOp::kReduceMax, TapeType::kF32, 1, x);
    if (seed % 3 != 0) StoreScalar(range, row, 0);
    if (seed % 3 != 1) StoreScalar(range, row, 1);
    KeepStages(range, {{false, reduce}, {true, row}});
    memory.resize(2);
    for (size_t k = 0; k < 2; ++k) plan.Add(makers[k]);
    FillBytes(product, random, &memory[0]);
    memory[1].Randomise(range, random);
    if (seed % 4 == 0)
      PutFloat(&memory[0], scale, Between(random, 0, product.loops[1] - 1), kStrange[seed / 4 % 3]);
  }

  // The second launch reads the first one's output or, if `own`, separate memory.
  std::vector<DeviceAddress> Addresses(size_t k, bool own) {
    std::vector<DeviceAddress> addresses;
    for (auto& param : memory[k].params) addresses.push_back(reinterpret_cast<DeviceAddress>(param.data()));
    if (k == 1 && !own) addresses[0] = reinterpret_cast<DeviceAddress>(memory[0].params[written].data());
    return addresses;
  }
  std::vector<std::vector<char>> Results() const {
    return {memory[1].params.begin() + 1, memory[1].params.end()};
  }

  Random random;
  KernelPlan plan;
  std::deque<PartMaker> makers;
  std::vector<Memory> memory;
  uint16_t written = 0;
};

TEST(Ranges, IsThatOfWhatTheLaunchBeforeHasWritten) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    for (uint32_t threads : {1u, 3u}) {
      Pair pair(seed);
      HostOptions options;
      options.threads = threads;
      options.work_per_thread = 1;
      HostFixture host(options);
      Module* module = host.device->LoadModule(pair.plan.data).Take();
      const auto launch = [&](bool own) {
        for (uint32_t k = 0; k < 2; ++k)
          ASSERT_TRUE(host.device->Launch(module, k, pair.Addresses(k, own), host.stream, k).ok());
      };
      const std::string what = "seed " + std::to_string(seed) + ", threads " + std::to_string(threads);
      ASSERT_TRUE(host.device->BeginRecord(host.stream).ok());
      launch(false);
      Graph* graph = host.device->EndRecord(host.stream).Take();
      for (const bool own : {false, true, false}) {
        launch(own);  // one launch at a time
        const auto want = pair.Results();
        for (auto& bytes : pair.memory[1].params) {
          if (&bytes != &pair.memory[1].params[0]) std::fill(bytes.begin(), bytes.end(), char{0});
        }
        ASSERT_TRUE(host.device->SetAddresses(graph, 1, pair.Addresses(1, own)).ok());
        ASSERT_TRUE(host.device->LaunchGraph(graph, host.stream).ok());
        EXPECT_TRUE(pair.Results() == want) << what << (own ? ", another tensor" : "");
      }
      host.device->DestroyGraph(graph);
      host.device->DestroyModule(module);
    }
  }
}

}  // namespace
}  // namespace rondo::test
