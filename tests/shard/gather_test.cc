// Weights that are gathered before use: in every order of the steps at most two units are whole at a time,
// one gather serves neighbouring readers, and each device keeps only its share.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "compiler/codegen/lowered_rules.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/schedule/gather_weights.h"
#include "compiler/schedule/least_memory.h"
#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

constexpr int64_t kSmall = 100, kLarge = 300;  // elements of a layer's two weights

std::vector<float> Numbers(int64_t count, int first) {
  std::vector<float> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), static_cast<float>(first));
  return numbers;
}

// x + s0 + l0 + s1 + l1 ...: each layer has two steps with one weight each.
LoweredProgram Layers(int layers) {
  HandMade made;
  int at = made.Input("x", kSmall);
  for (int l = 0; l < layers; ++l) {
    for (const int64_t elements : {kSmall, kLarge}) {
      const std::string name = (elements == kSmall ? "s" : "l") + std::to_string(l);
      const int weight = made.Constant(name, Numbers(elements, 1000 * l));
      const bool last = l + 1 == layers && elements == kLarge;
      const int to = last ? made.Output("y", kSmall) : made.Temporary(kSmall);
      made.Sum({at, weight}, to, "add_" + name);
      at = to;
    }
  }
  return made.Take();
}

constexpr int64_t kLayer = (kSmall + kLarge) * 4;

int GathersOf(const LoweredProgram& program, const std::string& weight) {
  int count = 0;
  for (const LoweredOp& op : program.ops)
    count += op.kind == LoweredKind::kCollectiveStart &&
             op.sources[0].rfind("AllGather of the shares of weight \"" + weight + "\"", 0) == 0;
  return count;
}

// The most gathered bytes that are alive at once in the current order.
int64_t MostAtOnce(const GatheredWeights& gathered, const LoweredProgram& program) {
  const std::vector<Life> lives = Lifetimes(program);
  int64_t most = 0;
  for (int i = 0; i < static_cast<int>(program.ops.size()); ++i) {
    int64_t now = 0;
    for (const GatheredUnit& unit : gathered.units) {
      for (int v : unit.values) {
        const Life& life = lives[static_cast<size_t>(v)];
        if (life.first <= i && i <= life.last) now += program.values[static_cast<size_t>(v)].bytes;
      }
    }
    most = std::max(most, now);
  }
  return most;
}

// A random order that the dependences allow. `eager`: collectives start as early as they can.
void Shuffle(uint32_t seed, bool eager, LoweredProgram* program) {
  std::mt19937 random(seed);
  std::vector<int> order, ready;
  std::vector<bool> done(program->ops.size(), false);
  while (order.size() < done.size()) {
    ready.clear();
    for (size_t i = 0; i < done.size(); ++i) {
      const auto& deps = program->ops[i].deps;
      const bool may =
          std::all_of(deps.begin(), deps.end(), [&](int d) { return done[static_cast<size_t>(d)]; });
      if (!done[i] && may) ready.push_back(static_cast<int>(i));
    }
    int next = ready[random() % ready.size()];
    for (int op : ready) {
      if (eager && program->ops[static_cast<size_t>(op)].kind == LoweredKind::kCollectiveStart) next = op;
    }
    done[static_cast<size_t>(next)] = true;
    order.push_back(next);
  }
  Reorder(order, program);
}

TEST(GatherTest, ADeviceHoldsItsShareOfEveryWeightAndNoMore) {
  for (int64_t devices : {2, 3, 4, 7}) {
    LoweredProgram program = Layers(6);
    const GatheredWeights gathered = GatherWeights({devices, devices - 1, {}}, &program);
    ASSERT_EQ(LoweredRulesBroken(program), "");
    int64_t bound = 0;
    std::vector<bool> seen(program.values.size(), false);
    for (const LoweredOp& op : program.ops) {
      for (const LoweredBinding& param : op.params) {
        const LoweredValue& value = program.values[static_cast<size_t>(param.value)];
        if (value.kind != BufferKind::kConstant || seen[static_cast<size_t>(param.value)]) continue;
        seen[static_cast<size_t>(param.value)] = true;
        bound += value.bytes;
      }
    }
    EXPECT_EQ(bound, gathered.held);
    EXPECT_LE(bound, 6 * kLayer / devices + 12 * 4) << devices << " devices";
    EXPECT_GE(gathered.at_once, 2 * kLayer);
    EXPECT_LE(gathered.at_once, 2 * kLayer + 4 * 4 * devices);
  }
}

TEST(GatherTest, SharesLaidEndToEndAreTheWeight) {
  for (int64_t devices : {2, 3, 7}) {
    std::map<std::string, std::vector<uint8_t>> joined;
    for (int64_t rank = 0; rank < devices; ++rank) {
      LoweredProgram program = Layers(3);
      GatherWeights({devices, rank, {}}, &program);
      for (const LoweredOp& op : program.ops) {
        if (op.kind != LoweredKind::kCollectiveStart) continue;
        const LoweredValue& share = program.values[static_cast<size_t>(op.params[0].value)];
        auto& bytes = joined[share.name];
        bytes.insert(bytes.end(), share.constant->bytes.begin(), share.constant->bytes.end());
        EXPECT_EQ(program.values[static_cast<size_t>(op.params[1].value)].bytes, devices * share.bytes);
      }
    }
    for (const LoweredValue& value : Layers(3).values) {
      if (value.kind != BufferKind::kConstant) continue;
      ASSERT_GE(joined[value.name].size(), value.constant->bytes.size()) << value.name;
      EXPECT_TRUE(
          std::equal(value.constant->bytes.begin(), value.constant->bytes.end(), joined[value.name].begin()))
          << value.name << " on " << devices;
    }
  }
}

TEST(GatherTest, NoOrderHasMoreThanTwoUnitsAtOnce) {
  int64_t most = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    LoweredProgram program = Layers(6);
    const GatheredWeights gathered = GatherWeights({2, 0, {}}, &program);
    EXPECT_EQ(gathered.layer, kLayer);
    ASSERT_EQ(gathered.units.size(), 6u);
    Shuffle(seed, seed % 2 == 0, &program);
    ASSERT_EQ(LoweredRulesBroken(program), "");
    EXPECT_EQ(GatheredBeyondTwoUnits(gathered, program), "") << "seed " << seed;
    EXPECT_LE(MostAtOnce(gathered, program), gathered.at_once) << "seed " << seed;
    most = std::max(most, MostAtOnce(gathered, program));
  }
  EXPECT_EQ(most, 2 * kLayer);  // one unit can be gathered while the one before is in use
}

TEST(GatherTest, AThirdUnitIsNoticed) {
  LoweredProgram program = Layers(6);
  const GatheredWeights gathered = GatherWeights({2, 0, {}}, &program);
  for (LoweredOp& op : program.ops) {
    if (op.kind != LoweredKind::kCollectiveStart) continue;
    std::erase_if(op.deps,
                  [&](int d) { return program.ops[static_cast<size_t>(d)].kind == LoweredKind::kKernel; });
  }
  Shuffle(1, true, &program);
  EXPECT_NE(GatheredBeyondTwoUnits(gathered, program).find("may still be in use when"), std::string::npos);
}

// A read on another stream counts until it has ended there.
TEST(GatherTest, AThirdUnitIsNoticedOnStreams) {
  LoweredProgram program = Layers(6);
  const GatheredWeights gathered = GatherWeights({2, 0, {}}, &program);
  EXPECT_EQ(GatheredBeyondTwoUnits(gathered, program), "");
  const int first = gathered.units[0].values[0];
  for (LoweredOp& op : program.ops) {
    const bool reads =
        std::any_of(op.params.begin(), op.params.end(), [&](const auto& p) { return p.value == first; });
    if (op.kind == LoweredKind::kKernel && reads) op.stream = 1;
    if (op.kind == LoweredKind::kKernel && !reads) op.deps.clear();  // nothing waits for that stream
    if (op.kind == LoweredKind::kCollectiveStart)
      std::erase_if(op.deps, [&](int d) { return program.ops[static_cast<size_t>(d)].stream == 1; });
  }
  EXPECT_NE(GatheredBeyondTwoUnits(gathered, program), "");
}

TEST(GatherTest, NeighboursShareAGatherAndOthersAskAgain) {
  HandMade made;
  const int tied = made.Constant("tied", Numbers(kLarge, 7));
  int at = made.Input("x", kSmall);
  const auto add = [&](int weight) {
    const int to = made.Temporary(kSmall);
    made.Sum({at, weight}, to);
    at = to;
  };
  add(tied);
  add(tied);
  for (int l = 0; l < 5; ++l) {
    add(made.Constant("s" + std::to_string(l), Numbers(kSmall, l)));
    add(made.Constant("l" + std::to_string(l), Numbers(kLarge, l)));
    if (l == 0) add(tied);
  }
  add(tied);
  made.Sum({at}, made.Output("y", 1));
  LoweredProgram program = made.Take();
  const GatheredWeights gathered = GatherWeights({2, 1, {}}, &program);
  EXPECT_EQ(GathersOf(program, "tied"), 2) << Dump(program);
  EXPECT_EQ(GathersOf(program, "l3"), 1);
  EXPECT_EQ(GatheredBeyondTwoUnits(gathered, program), "");
  for (uint32_t seed = 0; seed < 50; ++seed) {
    LoweredProgram shuffled = program;
    Shuffle(seed, true, &shuffled);
    EXPECT_EQ(GatheredBeyondTwoUnits(gathered, shuffled), "");
    EXPECT_LE(MostAtOnce(gathered, shuffled), gathered.at_once);
  }
}

// Layers that share all their weights are one repeated layer, which is gathered once.
TEST(GatherTest, LayersThatShareTheirWeightsAreGatheredOnce) {
  HandMade made;
  const int small = made.Constant("s", Numbers(kSmall, 1)), large = made.Constant("l", Numbers(kLarge, 2));
  int at = made.Input("x", kSmall);
  for (int l = 0; l < 12; ++l) {
    const int to = l == 11 ? made.Output("y", kSmall) : made.Temporary(kSmall);
    made.Sum({at, l % 2 == 0 ? small : large}, to);
    at = to;
  }
  LoweredProgram program = made.Take();
  const GatheredWeights gathered = GatherWeights({2, 1, {}}, &program);
  EXPECT_EQ(program.collectives.size(), 2u);
  EXPECT_EQ(gathered.at_once, kLayer);
}

// The program's own collectives keep their places among the gathers.
TEST(GatherTest, CollectivesOfTheProgramKeepTheirOrder) {
  HandMade made;
  int at = made.Input("x", kSmall);
  for (int l = 0; l < 4; ++l) {
    const int sum = made.Temporary(kSmall), all = made.Temporary(kSmall);
    made.Sum({at, made.Constant("l" + std::to_string(l), Numbers(kLarge, l))}, sum);
    made.Wait(made.Start(CollectiveOp::kAllReduce, sum, all));
    at = all;
  }
  made.Sum({at}, made.Output("y", 1));
  LoweredProgram program = made.Take();
  GatherWeights({2, 0, {0, 1}}, &program);
  ASSERT_EQ(LoweredRulesBroken(program), "");
  ASSERT_EQ(program.collectives.size(), 8u);
  int next = 0, last = -1;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    if (op.kind != LoweredKind::kCollectiveStart) continue;
    EXPECT_EQ(op.collective, next++);
    if (last >= 0) {
      EXPECT_EQ(std::count(op.deps.begin(), op.deps.end(), last), 1);
    }
    last = static_cast<int>(i);
    const LoweredCollective& c = program.collectives[static_cast<size_t>(op.collective)];
    EXPECT_EQ(c.op, next % 2 == 1 ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce);
    if (c.op == CollectiveOp::kAllGather) {
      EXPECT_EQ(c.group, std::vector<uint32_t>({0, 1}));
    }
  }
}

// With as many bytes as `each` and `total` allow.
WeightSharing Together(int64_t devices, int64_t rank, int64_t each, int64_t total) {
  WeightSharing sharing{devices, rank, {}};
  sharing.together = {each, total};
  return sharing;
}

// The bytes that each kernel of Layers reads as its weight, from the shares of all devices laid end to end.
std::map<std::string, std::vector<uint8_t>> ReadByKernels(int layers, int64_t devices,
                                                          const shard::CombineLimits& limits) {
  std::map<std::string, std::vector<uint8_t>> read;
  std::map<std::pair<std::string, uint64_t>, std::vector<uint8_t>> joined;  // by kernel, and its offset
  for (int64_t rank = 0; rank < devices; ++rank) {
    LoweredProgram program = Layers(layers);
    GatherWeights(Together(devices, rank, limits.each, limits.total), &program);
    std::map<int, std::vector<uint8_t>> shares;  // by the whole
    for (const LoweredOp& op : program.ops) {
      if (op.kind == LoweredKind::kCollectiveStart) {
        const auto& share = program.values[static_cast<size_t>(op.params[0].value)].constant->bytes;
        shares[op.params[1].value].assign(share.begin(), share.end());
      }
      if (op.kind != LoweredKind::kKernel) continue;
      const LoweredBinding& weight = op.params[1];
      EXPECT_EQ(weight.byte_offset % 64, 0u);
      auto& bytes = joined[{op.sources[0], weight.byte_offset}];
      const auto& share = shares.at(weight.value);
      bytes.insert(bytes.end(), share.begin(), share.end());
    }
  }
  for (auto& [of, bytes] : joined)
    read[of.first].assign(bytes.begin() + static_cast<int64_t>(of.second), bytes.end());
  return read;
}

TEST(GatherTest, SmallWeightsOfAUnitAreOneGatherAndReadersFindThem) {
  for (int64_t devices : {2, 3, 4, 7}) {
    LoweredProgram program = Layers(6);
    const GatheredWeights gathered = GatherWeights(Together(devices, 0, 4096, 4096), &program);
    EXPECT_EQ(program.collectives.size(), 6u);
    ASSERT_EQ(LoweredRulesBroken(program), "");
    EXPECT_EQ(GatheredBeyondTwoUnits(gathered, program), "");
    EXPECT_LE(MostAtOnce(gathered, program), gathered.at_once);
    const auto read = ReadByKernels(3, devices, {4096, 4096});
    const LoweredProgram plain = Layers(3);
    for (const LoweredOp& op : plain.ops) {
      const auto& weight = plain.values[static_cast<size_t>(op.params[1].value)].constant->bytes;
      const std::vector<uint8_t>& got = read.at(op.sources[0]);
      ASSERT_GE(got.size(), weight.size());
      EXPECT_TRUE(std::equal(weight.begin(), weight.end(), got.begin())) << op.sources[0];
    }
  }
}

TEST(GatherTest, WeightsAreTogetherWithinTheirBudgets) {
  // Shares of 200 and 600 bytes.
  const auto gathers = [](int64_t each, int64_t total) {
    LoweredProgram program = Layers(6);
    GatherWeights(Together(2, 0, each, total), &program);
    return program.collectives.size();
  };
  EXPECT_EQ(gathers(0, 0), 12u);
  EXPECT_EQ(gathers(599, 4096), 12u) << "one of each unit is too large";
  EXPECT_EQ(gathers(600, 799), 12u) << "two are too large";
  EXPECT_EQ(gathers(600, 900), 6u);
}

// Another program reads the large weights of a layer alone: shares are held once, so they stay apart.
TEST(GatherTest, ProgramsOfADeviceGatherAlike) {
  LoweredProgram both = Layers(2), same = Layers(2);
  HandMade made;
  made.Sum({made.Input("x", kSmall), made.Constant("l1", Numbers(kLarge, 1000))}, made.Output("y", kSmall));
  LoweredProgram one = made.Take();
  for (LoweredProgram* program : {&both, &same, &one}) {
    for (LoweredValue& value : program->values) {
      if (value.constant == nullptr) continue;
      auto named = std::make_shared<ir::ConstantData>(*value.constant);
      named->name = value.name;
      value.constant = named;
    }
  }
  WeightSharing a = Together(2, 0, 4096, 4096), b = a, c = a;
  GatherAlike({&a, &b}, {&both, &same});
  GatherAlike({&c}, {&both});
  LoweredProgram alike = both;
  GatherWeights(a, &alike);
  EXPECT_EQ(alike.collectives.size(), 2u);
  GatherAlike({&a, &b, &c}, {&both, &same, &one});
  LoweredProgram apart = both;
  GatherWeights(a, &apart);
  EXPECT_EQ(apart.collectives.size(), 3u) << "s0 with l0; s1; l1";
}

}  // namespace
}  // namespace rondo
