// Plans whose programs have variants: a session takes the fastest that fits, and gives the same results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/buckets/bucket_session.h"
#include "tests/e2e/bucket_models.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr int64_t kRows = 64, kWidth = 32, kHidden = 512;
constexpr uint64_t kPage = 4096;

uint64_t Paged(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// y = Relu(x up) down, of kRows rows: what is between the matmuls is far larger than x and y.
class Mlp : public DynamicModel {
 public:
  explicit Mlp(const std::string& rows) {
    Port("x", onnx::TensorProto::FLOAT, {rows, std::to_string(kWidth)});
    Add("MatMul", {"x", Weight("up", {kWidth, kHidden})}, "wide");
    Add("Relu", {"wide"}, "cut");
    Add("MatMul", {"cut", Weight("down", {kHidden, kWidth})}, "y");
    Outputs({"y"});
  }
};

// Memory for a device that refuses blocks of `most` bytes and more.
struct SmallMemory {
  uint64_t most = ~uint64_t{0};
  HostAllocator allocator() {
    HostAllocator small = DefaultHostAllocator();
    small.user = this;
    small.allocate = [](void* self, size_t bytes, size_t alignment) -> void* {
      if (bytes >= static_cast<SmallMemory*>(self)->most) return nullptr;
      const HostAllocator any = DefaultHostAllocator();
      return any.allocate(any.user, bytes, alignment);
    };
    small.deallocate = [](void*, void* block, size_t bytes) {
      const HostAllocator any = DefaultHostAllocator();
      any.deallocate(any.user, block, bytes);
    };
    return small;
  }
};

class Variants : public testing::Test {
 protected:
  CompileOptions Options(Variant variant, const std::string& rows = std::to_string(kRows)) {
    CompileOptions options;
    options.models = {{"main", folder_.File("m.onnx")}};
    Mlp(rows).Write(options.models[0].path);
    options.variant = variant;
    options.check_passes = true;
    return options;
  }
  // The bytes of y for x = 0, 1/64, 2/64, ...
  static std::vector<uint8_t> Run(LiveModel& model, Session& session) {
    LiveModel::Buffers buffers = model.MakeBuffers(0);
    for (size_t i = 0; i < buffers.input_bytes[0].size() / sizeof(float); ++i) {
      const float value = static_cast<float>(i % 61) / 64;
      std::memcpy(buffers.input_bytes[0].data() + i * sizeof value, &value, sizeof value);
    }
    const Status status = session.Run(0, buffers.inputs, buffers.outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return buffers.output_bytes[0];
  }

  TemporaryFolder folder_;
};

bool Says(const Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST_F(Variants, ShareWeightsAndTakeLessMemory) {
  LiveModel one(Options(Variant::kFastest), HostOptions()), both(Options(Variant::kSmallest), HostOptions());
  ASSERT_EQ(CountPrograms(both.data()), 1u);
  ASSERT_EQ(both.data().programs.size(), 2u);
  const Program &fastest = both.data().programs[0], &smallest = both.data().programs[1];
  EXPECT_EQ(smallest.name, "main (smallest)");
  EXPECT_EQ(smallest.variant_of, 0u);
  EXPECT_LT(smallest.arena_bytes * 2, fastest.arena_bytes);
  EXPECT_EQ(fastest.arena_bytes, one.data().programs[0].arena_bytes);
  EXPECT_EQ(both.data().weights_bytes, one.data().weights_bytes);
  EXPECT_EQ(both.data().requirements.devices[0].weights, one.data().requirements.devices[0].weights);
}

TEST_F(Variants, ALimitDecidesWhichRuns) {
  LiveModel model(Options(Variant::kSmallest), HostOptions());
  const uint64_t small = Paged(model.data().programs[1].arena_bytes);
  EXPECT_EQ(model.session().chosen(0), 0u);
  EXPECT_TRUE(model.session().why_smaller().ok());
  EXPECT_EQ(model.session().chosen(1), kNone);
  const std::vector<uint8_t> expected = Run(model, model.session());

  SessionOptions options;
  options.memory_limit = small;
  auto limited = Session::Create(model.runtime(), model.plan(), options);
  ASSERT_TRUE(limited.ok()) << limited.status().message();
  EXPECT_EQ(limited->chosen(0), 1u);
  EXPECT_EQ(limited->chosen(1), 1u);
  EXPECT_EQ(limited->arena(0).bytes, small);
  EXPECT_TRUE(Says(limited->why_smaller(), "the limit is " + std::to_string(small)))
      << limited->why_smaller().message();
  EXPECT_EQ(Run(model, *limited), expected);

  options.memory_limit = small - 1;
  const Status refused = Session::Create(model.runtime(), model.plan(), options).status();
  EXPECT_EQ(refused.code(), Code::kOutOfMemory);
  for (const std::string& text : {std::string("\"main (smallest)\""), std::to_string(small),
                                  std::to_string(small - 1), std::string("--variants")})
    EXPECT_TRUE(Says(refused, text)) << refused.message();
}

TEST_F(Variants, FreeMemoryDecidesWithoutALimit) {
  SmallMemory memory;
  HostOptions host;
  host.allocator = memory.allocator();
  LiveModel model(Options(Variant::kSmallest), host);
  const std::vector<uint8_t> expected = Run(model, model.session());
  memory.most = Paged(model.data().programs[0].arena_bytes);
  const uint64_t before = model.runtime().metrics().arena_bytes;
  {
    auto session = Session::Create(model.runtime(), model.plan());
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ(session->chosen(0), 1u);
    EXPECT_TRUE(Says(session->why_smaller(), "no memory")) << session->why_smaller().message();
    EXPECT_EQ(model.runtime().metrics().arena_bytes - before, Paged(model.data().programs[1].arena_bytes));
    EXPECT_EQ(Run(model, *session), expected);
  }
  memory.most = Paged(model.data().programs[1].arena_bytes);
  const Status refused = Session::Create(model.runtime(), model.plan()).status();
  EXPECT_EQ(refused.code(), Code::kOutOfMemory);
  EXPECT_TRUE(Says(refused, "arena and state of")) << refused.message();
  EXPECT_EQ(model.runtime().metrics().arena_bytes, before);
  EXPECT_EQ(model.runtime().session_count(), 1u);
}

// One of two devices has too little memory: both run the smaller variant.
TEST_F(Variants, DevicesChooseTheSame) {
  CompileOptions options = Options(Variant::kSmallest);
  options.tensor_parallel = 2;
  SmallMemory memory;
  HostOptions host;
  host.devices = 2;
  host.allocator = memory.allocator();
  LiveModel model(options, host);
  ASSERT_EQ(model.data().programs.size(), 2u);
  const std::vector<uint8_t> expected = Run(model, model.session());
  memory.most = Paged(model.data().programs[0].arena_bytes);
  auto session = Session::Create(model.runtime(), model.plan());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(session->chosen(0), 1u);
  for (uint32_t d = 0; d < 2; ++d)
    EXPECT_LE(session->arena(d).bytes, Paged(model.data().programs[1].arena_bytes));
  EXPECT_EQ(Run(model, *session), expected);
}

TEST_F(Variants, BucketsHaveThemToo) {
  CompileOptions options = Options(Variant::kSmallest, "rows");
  options.lengths = {{"rows", {16, 64}}};
  LiveModel model(options, HostOptions());
  EXPECT_EQ(CountPrograms(model.data()), 2u);
  ASSERT_EQ(model.data().programs.size(), 4u);
  SessionOptions limit;
  for (const Program& program : model.data().programs) {
    if (program.variant_of != kNone)
      limit.memory_limit = std::max(limit.memory_limit, Paged(program.arena_bytes));
  }
  auto limited = Session::Create(model.runtime(), model.plan(), limit);
  ASSERT_TRUE(limited.ok()) << limited.status().message();
  auto all = BucketSession::Create(&model.session()), small = BucketSession::Create(&*limited);
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_TRUE(small.ok()) << small.status().message();
  std::vector<float> x(40 * kWidth, 0.5f), expected(x.size()), found(x.size());
  const Input in = {"x", kNone, DType::kF32, Shape({40, kWidth}), x.data(), x.size() * sizeof(float)};
  const Output out = {"y", kNone, DType::kF32, expected.data(), x.size() * sizeof(float)};
  Output other = out;
  other.data = found.data();
  ASSERT_TRUE((*all)->Run({&in, 1}, {&out, 1}).ok());
  ASSERT_TRUE((*small)->Run({&in, 1}, {&other, 1}).ok());
  EXPECT_EQ(found, expected);
}

TEST_F(Variants, PlanFilesKeepThem) {
  auto bytes = CompileToBytes(Options(Variant::kSmallest));
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto plan = Plan::Open({bytes->data(), bytes->size()});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->data().programs[1].variant_of, 0u);
}

TEST_F(Variants, OneThatIsNotSmallerIsDropped) {
  CompileOptions options = Options(Variant::kSmallest, "1");
  LiveModel model(options, HostOptions());
  EXPECT_EQ(model.data().programs.size(), 1u);
  const auto& passes = model.report().passes;
  const auto kept = std::find_if(passes.begin(), passes.end(),
                                 [](const PassReport& pass) { return pass.pass == "keep_variants"; });
  ASSERT_NE(kept, passes.end());
  EXPECT_NE(kept->text.find("so it is dropped"), std::string::npos) << kept->text;
}

}  // namespace
}  // namespace rondo
