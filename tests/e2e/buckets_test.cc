// Plans with buckets: a run with its true shape gives the results of a plan for that shape alone.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "core/scalar.h"
#include "runtime/buckets/bucket_session.h"
#include "tests/e2e/bucket_models.h"
#include "tests/e2e/harness.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

using Lengths = std::map<std::string, int64_t>;

// Outputs of a run, by name.
struct Results {
  std::map<std::string, Shape> shapes;
  std::map<std::string, std::vector<uint8_t>> bytes;
};

// A model compiled with buckets, and compiled separately for each shape that a test runs.
class Pair {
 public:
  Pair(const DynamicModel& model, const std::map<std::string, std::vector<int64_t>>& lengths)
      : path_(folder_.File("model.onnx")) {
    model.Write(path_);
    CompileOptions options;
    options.models = {{"main", path_}};
    options.lengths = lengths;
    bucketed_ = std::make_unique<LiveModel>(options, HostOptions());
    auto made = BucketSession::Create(&bucketed_->session());
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) buckets_ = made.Take();
  }
  LiveModel& bucketed() { return *bucketed_; }
  BucketSession& buckets() { return *buckets_; }

  LiveModel& Exact(const Lengths& lengths) {
    if (exact_.size() >= kMostKept && exact_.count(lengths) == 0) exact_.clear();
    std::unique_ptr<LiveModel>& model = exact_[lengths];
    if (model == nullptr) {
      CompileOptions options;
      options.models = {{"main", path_}};
      for (const auto& [name, value] : lengths) options.shapes[name] = {value};
      model = std::make_unique<LiveModel>(options, HostOptions());
    }
    return *model;
  }

  // Runs both on the same random inputs. Returns "" or the difference.
  std::string Compare(const Lengths& lengths, std::mt19937* random) {
    LiveModel& exact = Exact(lengths);
    LiveModel::Buffers buffers = exact.MakeBuffers(0);
    for (size_t i = 0; i < buffers.inputs.size(); ++i)
      Fill(buffers.inputs[i], &buffers.input_bytes[i], random);
    Status status = exact.session().Run(0, buffers.inputs, buffers.outputs);
    if (!status.ok()) return status.message();
    std::vector<std::vector<uint8_t>> bytes;
    std::vector<Output> outputs = buffers.outputs;
    for (Output& output : outputs) {
      bytes.emplace_back(output.bytes);
      output.data = bytes.back().data();
    }
    status = buckets_->Run(buffers.inputs, outputs);
    if (!status.ok()) return status.message();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string differs = Differ(outputs[i], buffers.outputs[i]);
      if (!differs.empty()) return std::string(outputs[i].name) + differs;
    }
    return "";
  }

 private:
  static constexpr size_t kMostKept = 64;  // plans for one shape that are kept

  static void Fill(const Input& input, std::vector<uint8_t>* bytes, std::mt19937* random) {
    for (int64_t i = 0; i < input.shape.elements(); ++i) {
      const double value = IsFloat(input.dtype) ? std::uniform_real_distribution<>(-1, 1)(*random)
                           : input.name == "ids"
                               ? std::uniform_int_distribution<>(0, 49)(*random)
                               : std::uniform_int_distribution<>(0, 3)(*random) > 0 || i == 0;
      scalar::Store<double>(input.dtype, bytes->data(), i, value);
    }
    // Every text keeps its first word.
    const int64_t row = input.shape.rank > 1 ? input.shape[1] : 1;
    for (int64_t i = 0; !IsFloat(input.dtype) && i < input.shape.elements(); i += row)
      scalar::Store<double>(input.dtype, bytes->data(), i, 1);
  }

  static std::string Differ(const Output& got, const Output& want) {
    const int64_t count = static_cast<int64_t>(want.bytes) / ByteSize(want.dtype);
    for (int64_t i = 0; i < count; ++i) {
      const auto a = scalar::Load<double>(got.dtype, static_cast<const uint8_t*>(got.data), i);
      const auto b = scalar::Load<double>(want.dtype, static_cast<const uint8_t*>(want.data), i);
      if (!(std::abs(a - b) <= 2e-5 + 2e-5 * std::abs(b)))
        return " " + std::to_string(i) + ": " + std::to_string(a) + " for " + std::to_string(b);
    }
    return "";
  }

  TemporaryFolder folder_;
  std::string path_;
  std::unique_ptr<LiveModel> bucketed_;
  std::unique_ptr<BucketSession> buckets_;
  std::map<Lengths, std::unique_ptr<LiveModel>> exact_;
};

// Makes `runs` runs of random lengths up to `most`.
void ExpectEqualRuns(Pair* pair, const Lengths& most, int runs) {
  std::mt19937 random(7);
  testing::Test::RecordProperty("runs", runs);
  for (int run = 0; run < runs; ++run) {
    Lengths lengths;
    std::string text;
    for (const auto& [name, value] : most) {
      lengths[name] = std::uniform_int_distribution<int64_t>(1, value)(random);
      text += name + "=" + std::to_string(lengths[name]) + " ";
    }
    ASSERT_EQ(pair->Compare(lengths, &random), "") << text;
  }
}

TEST(BucketsTest, AConvolutionNetworkRunsAnyBatch) {
  Pair pair(PictureModel(), {{"batch", {1, 4, 9}}});
  ExpectEqualRuns(&pair, {{"batch", 9}}, 30);
}

TEST(BucketsTest, ConvolutionsAndPoolsRunAnyPictureSize) {
  Pair pair(PictureModel(true), {{"batch", {2}}, {"height", {8, 20}}, {"width", {16}}});
  ExpectEqualRuns(&pair, {{"batch", 2}, {"height", 20}, {"width", 16}}, 40);
}

// Upsampling by transposed convolution and by Resize, with interpolated and with repeated elements.
TEST(BucketsTest, WhatMakesSignalsLongerRunsAnyLength) {
  DynamicModel model;
  model.Port("x", onnx::TensorProto::FLOAT, {"1", "4", "length"});
  model.Add("ConvTranspose", {"x", model.Weight("wide", {4, 4, 8})}, "up");
  model.With("strides", std::vector<int64_t>{4}).With("pads", {2, 2});
  model.Add("ConvTranspose", {"up", model.Weight("odd", {4, 4, 3})}, "more");
  model.With("strides", std::vector<int64_t>{2}).With("pads", {1, 0});
  model.Floats("scales", {3}, {1, 1, 2});
  model.Add("Resize", {"x", "", "scales"}, "repeated");
  model.Floats("parts", {3}, {1, 1, 1.5f});
  model.Add("Resize", {"x", "", "parts"}, "between");
  model.Add("Conv", {"more", model.Weight("w", {2, 4, 3})}, "y");
  model.With("pads", std::vector<int64_t>{1, 1});
  model.Add("GlobalAveragePool", {"more"}, "mean");
  model.Outputs({"up", "more", "repeated", "between", "y", "mean"});
  Pair pair(model, {{"length", {1, 4, 16}}});
  ExpectEqualRuns(&pair, {{"length", 16}}, 40);
}

TEST(BucketsTest, AnEncoderRunsAnyBatchAndLength) {
  Pair pair(EncoderModel(true), {{"batch", {1, 4, 6}}, {"sequence", {8, 16, 40}}});
  ExpectEqualRuns(&pair, {{"batch", 6}, {"sequence", 40}}, 1000);
}

// It takes minutes; `tests/ort/run reach` runs it.
TEST(BucketsTest, DISABLED_AnEncoderOfManySizesRunsAnyOfThem) {
  Pair pair(EncoderModel(true), {{"batch", {1, 8, 32}}, {"sequence", {16, 32, 64, 128, 256, 512}}});
  ExpectEqualRuns(&pair, {{"batch", 32}, {"sequence", 512}}, 1000);
}

TEST(BucketsTest, AnEncoderWithoutAMaskOfItsOwnSeesNoPadding) {
  Pair pair(EncoderModel(false), {{"batch", {1, 3}}, {"sequence", {8, 16, 40}}});
  ExpectEqualRuns(&pair, {{"batch", 3}, {"sequence", 40}}, 100);
}

TEST(BucketsTest, APrefillRunsAnyLength) {
  Pair pair(PrefillModel(), {{"batch", {1, 2}}, {"sequence", {8, 32}}});
  ExpectEqualRuns(&pair, {{"batch", 2}, {"sequence", 32}}, 100);
}

// A model with input x [batch, sequence, 4] and a few nodes.
struct RowsModel : DynamicModel {
  RowsModel() {
    Port("x", onnx::TensorProto::FLOAT, {"batch", "sequence", "4"});
    for (const int64_t value : {-1000, -1, 0, 1, 2}) Index(value);
  }
};

TEST(BucketsTest, WhatIsJoinedBehindAPaddedDimensionFollowsItsRows) {
  RowsModel model;
  model.Add("Relu", {"x"}, "positive");
  model.Add("Concat", {"x", "positive", "x"}, "rows");
  model.With("axis", 1);
  model.Add("Softmax", {"rows"}, "y");
  model.With("axis", 1);
  model.Add("Concat", {"positive", "x"}, "texts");
  model.With("axis", 0);
  model.Outputs({"rows", "y", "texts"});
  Pair pair(model, {{"batch", {1, 3}}, {"sequence", {4, 8}}});
  ExpectEqualRuns(&pair, {{"batch", 3}, {"sequence", 8}}, 40);
}

// The error of compiling `model` with buckets over both lengths, and the node that it names.
std::pair<std::string, std::string> Refusal(const DynamicModel& model) {
  TemporaryFolder folder;
  model.Write(folder.File("model.onnx"));
  CompileOptions options;
  options.models = {{"main", folder.File("model.onnx")}};
  options.lengths = {{"batch", {2, 4}}, {"sequence", {4, 8}}};
  const Status status = CompileToMemory(options).status();
  return {status.message(), status.source_node()};
}

void ExpectRefused(const DynamicModel& model, const std::string& node, const std::string& why) {
  const auto [message, source] = Refusal(model);
  EXPECT_EQ(source, node) << message;
  EXPECT_NE(message.find(why), std::string::npos) << message;
}

TEST(BucketsTest, WhatMixesAlongAPaddedDimensionIsRefusedWithItsNode) {
  {
    RowsModel flipped;
    flipped.Add("Slice", {"x", "i-1", "i-1000", "i1", "i-1"}, "y");
    flipped.Output("y");
    ExpectRefused(flipped, "Slice \"Slice_y\"", "padd");
  }
  {
    RowsModel sums;
    sums.Add("Squeeze", {"i1", "i0"}, "axis");
    sums.Add("CumSum", {"x", "axis"}, "y");
    sums.With("reverse", 1);
    sums.Output("y");
    ExpectRefused(sums, "CumSum \"CumSum_y\"", "padd");
  }
  {
    RowsModel turned;  // the rows of all texts, mixed in the wrong order
    turned.Add("Transpose", {"x"}, "t");
    turned.With("perm", {1, 0, 2});
    turned.Reshape("t", {turned.Dim("x", 0), turned.Dim("x", 1), turned.Index(4)}, "y");
    turned.Output("y");
    ExpectRefused(turned, "Reshape \"Reshape_y\"", "padd");
  }
  {
    RowsModel fixed;
    fixed.Add("MatMul", {fixed.Weight("w", {3, 8}), "x"}, "y");
    fixed.Output("y");
    EXPECT_NE(Refusal(fixed).first, "");
  }
}

TEST(BucketsTest, ALengthThatIsReadAsANumberIsRefusedWithItsNode) {
  DynamicModel loss;
  loss.Port("x", onnx::TensorProto::FLOAT, {"batch", "5"});
  loss.Port("want", onnx::TensorProto::INT64, {"batch"});
  loss.Port("rows", onnx::TensorProto::FLOAT, {"batch", "sequence"});
  loss.Add("SoftmaxCrossEntropyLoss", {"x", "want"}, "loss");
  loss.Add("Relu", {"rows"}, "y");
  loss.Outputs({"loss", "y"});
  const auto [message, source] = Refusal(loss);
  EXPECT_EQ(source, "SoftmaxCrossEntropyLoss \"SoftmaxCrossEntropyLoss_loss\"") << message;
}

TEST(BucketsTest, OneValueIsAShapeAndSeveralAreBuckets) {
  TemporaryFolder folder;
  PictureModel().Write(folder.File("model.onnx"));
  CompileOptions options;
  options.models = {{"main", folder.File("model.onnx")}};
  options.shapes = {{"batch", {4}}};
  auto one = CompileToMemory(options);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->plan.programs.size(), 1u);
  EXPECT_EQ(one->plan.programs[0].name, "main");
  options.shapes = {{"batch", {16, 1, 4, 4}}};
  auto three = CompileToMemory(options);
  ASSERT_TRUE(three.ok()) << three.status().message();
  ASSERT_EQ(three->plan.programs.size(), 3u);
  EXPECT_EQ(three->plan.programs[0].name, "main[batch=1]");
  EXPECT_EQ(three->plan.programs[2].name, "main[batch=16]");
  EXPECT_EQ(three->report.weights_bytes, one->report.weights_bytes);
  EXPECT_EQ(three->plan.programs[2].inputs.size(), 1u) << "nothing asks for the length";
  options.lengths = {{"length", {1, 2}}};
  EXPECT_NE(std::string(CompileToMemory(options).status().message()).find("nearest: \"batch\""),
            std::string::npos);
}

}  // namespace
}  // namespace rondo
