// Every op and dtype, in place and not, on 1 to 8 devices: compared with a plain reference, with the same
// bits on all ranks.
#include <cstring>
#include <tuple>

#include "core/scalar.h"
#include "tests/collectives/mesh.h"

namespace rondo {
namespace {

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                                 CollectiveOp::kReduceScatter, CollectiveOp::kBroadcast,
                                 CollectiveOp::kSend,          CollectiveOp::kAllToAll};

struct Case {
  CollectiveOp op;
  DType dtype;
  uint32_t devices;
  int64_t elements;  // of one rank's share; for an all-to-all, of each part
  bool in_place;

  uint64_t part() const { return static_cast<uint64_t>(elements * ByteSize(dtype)); }
  uint64_t share() const { return op == CollectiveOp::kAllToAll ? part() * devices : part(); }
  bool Exists() const {
    if (op == CollectiveOp::kSend) return devices == 2;
    return op != CollectiveOp::kAllToAll || !in_place;
  }
  int64_t reads() const {
    const bool all = op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllToAll;
    return all ? elements * devices : elements;
  }
  int64_t writes() const {
    const bool all = op == CollectiveOp::kAllGather || op == CollectiveOp::kAllToAll;
    return all ? elements * devices : elements;
  }
};

// One collective between inputs "in<d>" and outputs "out<d>". In place it works on a temporary, with copies
// before and after.
void Build(const Case& c, MeshPlan* plan) {
  const uint32_t point = plan->AddSyncPoint(c.op, c.dtype, c.share(), 0, plan->AllDevices(), "only");
  const int64_t most = std::max(c.reads(), c.writes());
  const uint64_t size = static_cast<uint64_t>(ByteSize(c.dtype));
  for (uint32_t d = 0; d < c.devices; ++d) {
    const std::string number = std::to_string(d);
    const uint32_t in = plan->Add(BufferKind::kInput, d, "in" + number, c.reads(), c.dtype);
    const uint32_t out = plan->Add(BufferKind::kOutput, d, "out" + number, c.writes(), c.dtype);
    Binding from{in, 0}, to{out, 0};
    if (c.in_place) {
      const uint32_t work = plan->Add(BufferKind::kTemporary, d, "work" + number, most, c.dtype);
      from = {work, c.op == CollectiveOp::kAllGather ? d * c.share() : 0};
      to = {work, c.op == CollectiveOp::kReduceScatter ? d * c.share() : 0};
      plan->Copy(d, {in, 0}, from, static_cast<uint64_t>(c.reads()) * size);
    }
    // In a send one rank writes nothing, and the other reads nothing.
    const bool sends = c.op == CollectiveOp::kSend && d == 0, takes = c.op == CollectiveOp::kSend && d == 1;
    plan->Start(d, point, takes ? to : from, sends ? from : to);
    plan->Wait(d, point);
    if (sends && !c.in_place) plan->Copy(d, from, {out, 0}, c.share());
    if (c.in_place) plan->Copy(d, to, {out, 0}, static_cast<uint64_t>(c.writes()) * size);
  }
  plan->Finish();
}

using Bytes = std::vector<uint8_t>;

// Small numbers whose sums are not exact in 16 bits and so depend on the order.
Bytes Fill(const Case& c, uint32_t rank) {
  Bytes bytes(static_cast<size_t>(c.reads() * ByteSize(c.dtype)));
  uint32_t state = 77 + rank;
  for (int64_t i = 0; i < c.reads(); ++i) {
    state = state * 1664525u + 1013904223u;
    const double value = static_cast<double>(state >> 8) / (1 << 20) - 8;
    if (IsFloat(c.dtype)) {
      scalar::Store<double>(c.dtype, bytes.data(), i, value);
    } else if (c.dtype == DType::kBool) {
      scalar::Store<int64_t>(c.dtype, bytes.data(), i, state >> 31);
    } else {
      scalar::Store<int64_t>(c.dtype, bytes.data(), i, static_cast<int64_t>(state) * 0x10001);
    }
  }
  return bytes;
}

template <typename T>
void SumElement(const Case& c, const std::vector<Bytes>& in, int64_t at, void* out, int64_t i) {
  T sum = scalar::Load<T>(c.dtype, in[0].data(), at);
  for (size_t r = 1; r < in.size(); ++r) {
    const T more = scalar::Load<T>(c.dtype, in[r].data(), at);
    if constexpr (scalar::kIsInt<T>) {
      sum = scalar::WrapAdd(sum, more);
    } else {
      sum += more;
    }
  }
  scalar::Store<T>(c.dtype, out, i, sum);
}

Bytes Expected(const Case& c, const std::vector<Bytes>& in, uint32_t rank) {
  Bytes out(static_cast<size_t>(c.writes() * ByteSize(c.dtype)));
  if (c.op == CollectiveOp::kBroadcast || c.op == CollectiveOp::kSend) return in[0];
  if (c.op == CollectiveOp::kAllToAll) {
    for (size_t r = 0; r < in.size(); ++r) std::memcpy(&out[r * c.part()], &in[r][rank * c.part()], c.part());
    return out;
  }
  if (c.op == CollectiveOp::kAllGather) {
    for (size_t r = 0; r < in.size(); ++r) std::memcpy(&out[r * c.share()], in[r].data(), c.share());
    return out;
  }
  const int64_t first = c.op == CollectiveOp::kReduceScatter ? rank * c.elements : 0;
  for (int64_t i = 0; i < c.elements; ++i) {
    switch (NaturalType(c.dtype)) {
      case TapeType::kF32: SumElement<float>(c, in, first + i, out.data(), i); break;
      case TapeType::kF64: SumElement<double>(c, in, first + i, out.data(), i); break;
      case TapeType::kI64: SumElement<int64_t>(c, in, first + i, out.data(), i); break;
    }
  }
  return out;
}

void Check(const Mesh& mesh, const Case& c) {
  if (!c.Exists()) return;
  SCOPED_TRACE(testing::Message() << Name(c.op) << " of " << c.elements << " " << Name(c.dtype) << " on "
                                  << c.devices << (c.in_place ? ", in place" : ""));
  MeshPlan plan(c.devices);
  Build(c, &plan);
  Plan opened = Mesh::Open(plan);
  ASSERT_TRUE(opened.valid());
  Session session = mesh.MakeSession(opened);
  ASSERT_TRUE(session.valid());
  std::vector<Bytes> in, out;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  for (uint32_t d = 0; d < c.devices; ++d) {
    in.push_back(Fill(c, d));
    out.emplace_back(static_cast<size_t>(c.writes() * ByteSize(c.dtype)), uint8_t{0xee});
  }
  for (uint32_t d = 0; d < c.devices; ++d) {
    inputs.push_back({"", d, c.dtype, {c.reads()}, in[d].data(), in[d].size()});
    outputs.push_back({"", d, c.dtype, out[d].data(), out[d].size()});
  }
  for (bool stepwise : {false, true}) {
    RunOptions options;
    options.stepwise = stepwise;
    for (Bytes& bytes : out) std::fill(bytes.begin(), bytes.end(), uint8_t{0xee});
    Status status = session.Run(0, inputs, outputs, options);
    ASSERT_TRUE(status.ok()) << status.message();
    for (uint32_t d = 0; d < c.devices; ++d) {
      EXPECT_EQ(out[d], Expected(c, in, d)) << "rank " << d;
      if (c.op != CollectiveOp::kReduceScatter && c.op != CollectiveOp::kAllToAll) {
        EXPECT_EQ(out[d], out[0]) << "rank " << d;
      }
    }
  }
}

class OpsTest : public testing::TestWithParam<uint32_t> {};

TEST_P(OpsTest, EveryOpAndDtypeGivesTheReferencesBitsOnEveryRank) {
  const Mesh mesh(MeshOptions(GetParam()));
  for (CollectiveOp op : kOps) {
    for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
      for (bool in_place : {false, true}) {
        Check(mesh, {op, static_cast<DType>(dtype), GetParam(), 33, in_place});
      }
    }
  }
}

TEST_P(OpsTest, SizesAroundATileAndSplitOverThreads) {
  HostOptions options = MeshOptions(GetParam());
  options.threads = 3;
  const Mesh mesh(options);
  for (CollectiveOp op : kOps) {
    for (int64_t elements : {1, 256, 257, 70001}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        Check(mesh, {op, dtype, GetParam(), elements, op != CollectiveOp::kAllToAll});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OpsTest, testing::Values(1u, 2u, 4u, 8u),
                         [](const auto& info) { return std::to_string(info.param); });

// A send goes from its first participant to its second, here from device 2 to device 0.
TEST(OpsTest, ASendGoesFromItsFirstParticipantToItsSecond) {
  const Mesh mesh(MeshOptions(3));
  MeshPlan plan(3);
  const uint32_t point = plan.AddSyncPoint(CollectiveOp::kSend, DType::kF32, 8, 0, {2, 0}, "back");
  const uint32_t in = plan.Add(BufferKind::kInput, 2, "in", 2),
                 out = plan.Add(BufferKind::kOutput, 0, "out", 2);
  plan.Start(0, point, {out, 0}, {out, 0});
  plan.Wait(0, point);
  plan.Start(2, point, {in, 0}, {in, 0});
  plan.Wait(2, point);
  plan.Finish();
  Session session = mesh.MakeSession(Mesh::Open(plan));
  ASSERT_TRUE(session.valid());
  const float sent[] = {3, 4};
  float got[] = {0, 0};
  const Input inputs[] = {{"in", kNone, DType::kF32, {2}, sent, 8}};
  const Output outputs[] = {{"out", kNone, DType::kF32, got, 8}};
  for (bool stepwise : {false, true}) {
    RunOptions options;
    options.stepwise = stepwise;
    got[0] = got[1] = 0;
    const Status status = session.Run(0, inputs, outputs, options);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(got[0], 3);
    EXPECT_EQ(got[1], 4);
  }
}

// The sum of 1, 2^-11 and 2^-11 in f16 is 1 + 2^-10 if it is computed in f32 and rounded once, and 1 if each
// step is rounded.
TEST(OpsTest, HalfPrecisionIsRoundedOnce) {
  const Mesh mesh(MeshOptions(3));
  MeshPlan plan(3);
  const Case c{CollectiveOp::kAllReduce, DType::kF16, 3, 1, false};
  Build(c, &plan);
  Session session = mesh.MakeSession(Mesh::Open(plan));
  const uint16_t in[] = {FloatToF16(1), FloatToF16(1.0f / 2048), FloatToF16(1.0f / 2048)};
  uint16_t out = 0;
  const Input inputs[] = {{"in0", kNone, DType::kF16, {1}, &in[0], 2},
                          {"in1", kNone, DType::kF16, {1}, &in[1], 2},
                          {"in2", kNone, DType::kF16, {1}, &in[2], 2}};
  const Output outputs[] = {{"out2", kNone, DType::kF16, &out, 2}};
  ASSERT_TRUE(session.Run(0, inputs, outputs).ok());
  EXPECT_EQ(F16ToFloat(out), 1 + 1.0f / 1024);
}

}  // namespace
}  // namespace rondo
