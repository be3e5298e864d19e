// Every collective that a model can contain, on 2 and 4 virtual devices, with one model file for each: the
// results on each device are those of plain loops over the devices' values.
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

using Values = std::vector<float>;
using Expected = std::function<Values(const std::vector<Values>& in, size_t device)>;

constexpr int64_t kRows = 8, kColumns = 3;

struct Attribute {
  std::string name, text;
  std::vector<int64_t> numbers = {};
  bool list = false;
};
struct Case {
  std::string op, domain;
  std::vector<Attribute> attributes;
  Expected expected;
};

Attribute Text(const std::string& name, const std::string& text) { return {name, text}; }
Attribute Number(const std::string& name, int64_t value) { return {name, "", {value}}; }
Attribute List(const std::string& name, std::vector<int64_t> values) {
  return {name, "", std::move(values), true};
}

// Writes y = OP(x * w), where each device has a different w.
void Write(const Case& c, uint32_t device, const std::string& path) {
  ModelMaker model;
  model.Input("x", {kRows, kColumns});
  model.Floats("w", {1}, {static_cast<float>(device) * 0.5f - 0.75f});
  model.Node("Mul", {"x", "w"}, {"v"});
  onnx::NodeProto* node = model.Node(c.op, {"v"}, {"y"});
  node->set_domain(c.domain);
  for (const Attribute& a : c.attributes) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(a.name);
    if (a.list) {
      attribute->set_type(onnx::AttributeProto::INTS);
      for (int64_t n : a.numbers) attribute->add_ints(n);
    } else if (a.numbers.empty()) {
      attribute->set_type(onnx::AttributeProto::STRING);
      attribute->set_s(a.text);
    } else {
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(a.numbers[0]);
    }
  }
  auto* domain = model.proto.add_opset_import();
  domain->set_domain("com.microsoft");
  domain->set_version(1);
  model.Output("y");
  std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
}

class CollectiveOpsTest : public testing::TestWithParam<uint32_t> {
 protected:
  CompileOptions Model(const Case& c) const {
    for (uint32_t d = 0; d < GetParam(); ++d) Write(c, d, folder_.File("m" + std::to_string(d) + ".onnx"));
    CompileOptions options;
    options.devices = GetParam();
    options.models = {{"main", folder_.File("m{rank}.onnx")}};
    return options;
  }

  void Check(const Case& c) {
    SCOPED_TRACE(c.op + " " + (c.attributes.empty() ? "" : c.attributes[0].text) + " on " +
                 std::to_string(GetParam()));
    LiveModel model(Model(c), {});
    auto buffers = model.MakeBuffers(0);
    Values x(kRows * kColumns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11) - 4.5f;
    std::memcpy(buffers.input_bytes[0].data(), x.data(), x.size() * 4);
    const Status status =
        model.session().Run(0, Span<const Input>(buffers.inputs), Span<const Output>(buffers.outputs));
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<Values> in(GetParam(), x);
    for (size_t d = 0; d < in.size(); ++d) {
      for (float& value : in[d]) value *= static_cast<float>(d) * 0.5f - 0.75f;
    }
    ASSERT_EQ(buffers.output_bytes.size(), GetParam());
    for (size_t d = 0; d < in.size(); ++d) {
      Values got(buffers.output_bytes[d].size() / 4);
      std::memcpy(got.data(), buffers.output_bytes[d].data(), got.size() * 4);
      EXPECT_EQ(got, c.expected(in, d)) << "device " << d;
    }
  }

  void Refuses(const Case& c, std::initializer_list<const char*> says) {
    EXPECT_TRUE(Says(CompileToMemory(Model(c)).status(), says));
  }

  TemporaryFolder folder_;
};

Expected Combined(const std::function<float(float, float)>& of) {
  return [of](const std::vector<Values>& in, size_t) {
    Values out = in[0];
    for (size_t d = 1; d < in.size(); ++d) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = of(out[i], in[d][i]);
    }
    return out;
  };
}
Expected Mean() {
  return [](const std::vector<Values>& in, size_t device) {
    Values out = Combined(std::plus<float>())(in, device);
    for (float& value : out) value /= static_cast<float>(in.size());
    return out;
  };
}
// Part `device` of the result of `whole`.
Expected Part(const Expected& whole) {
  return [whole](const std::vector<Values>& in, size_t device) {
    const Values all = whole(in, device);
    const auto size = static_cast<std::ptrdiff_t>(all.size() / in.size()),
               at = static_cast<std::ptrdiff_t>(device);
    return Values(all.begin() + at * size, all.begin() + (at + 1) * size);
  };
}
Values Joined(const std::vector<Values>& in, size_t) {
  Values out;
  for (const Values& values : in) out.insert(out.end(), values.begin(), values.end());
  return out;
}
// Part `device` of every device's values, one after another.
Values Exchanged(const std::vector<Values>& in, size_t device) {
  Values out;
  for (const Values& values : in) {
    const Values part = Part([&](const auto&, size_t) { return values; })(in, device);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}
// Each row joins the devices' shares of it.
Values JoinedInRows(const std::vector<Values>& in, size_t) {
  Values out;
  for (int64_t row = 0; row < kRows; ++row) {
    for (const Values& values : in)
      out.insert(out.end(), values.begin() + row * kColumns, values.begin() + (row + 1) * kColumns);
  }
  return out;
}
Expected Of(size_t device) {
  return [device](const std::vector<Values>& in, size_t) { return in[device]; };
}

TEST_P(CollectiveOpsTest, OfMicrosoft) {
  const Attribute size = Number("group_size", GetParam());
  Check({"AllReduce", "com.microsoft", {size}, Combined(std::plus<float>())});
  Check({"AllGather", "com.microsoft", {size}, Joined});
  Check({"AllGather", "com.microsoft", {size, Number("axis", 1)}, JoinedInRows});
  Check({"AllToAll", "com.microsoft", {size}, Exchanged});
}

TEST_P(CollectiveOpsTest, OfTensorRt) {
  const auto greater = [](float a, float b) { return std::max(a, b); };
  const auto less = [](float a, float b) { return std::min(a, b); };
  const std::pair<const char*, Expected> combinings[] = {{"sum", Combined(std::plus<float>())},
                                                         {"SUM", Combined(std::plus<float>())},
                                                         {"avg", Mean()},
                                                         {"prod", Combined(std::multiplies<float>())},
                                                         {"max", Combined(greater)},
                                                         {"min", Combined(less)}};
  const Attribute ranks = Number("nb_rank", GetParam()), all = Number("group_size", 0);
  for (const auto& [name, expected] : combinings) {
    const Attribute by = Text("reduce_op", name);
    Check({"DistCollective", "", {Text("collective_operation", "all_reduce"), by, ranks, all}, expected});
    Check({"DistCollective", "", {Text("collective_operation", "REDUCE"), by, Number("root", 1)}, expected});
    Check(
        {"DistCollective", "", {Text("collective_operation", "reduce_scatter"), by, ranks}, Part(expected)});
  }
  const Attribute none = Text("reduce_op", "none");
  Check({"DistCollective", "", {Text("collective_operation", "all_gather"), none, ranks}, Joined});
  Check({"DistCollective", "", {Text("collective_operation", "gather"), none, Number("root", 0)}, Joined});
  Check({"DistCollective", "", {Text("collective_operation", "all_to_all"), none}, Exchanged});
  for (const int64_t root : {0, 1}) {
    const auto of = static_cast<size_t>(root);
    Check({"DistCollective", "", {Text("collective_operation", "broadcast"), Number("root", root)}, Of(of)});
    Check({"DistCollective",
           "",
           {Text("collective_operation", "scatter"), Number("root", root)},
           Part(Of(of))});
  }
}

TEST_P(CollectiveOpsTest, ThatMakeNoSenseAreRefusedByNodeAndReason) {
  const Attribute reduce = Text("collective_operation", "all_reduce"), sum = Text("reduce_op", "sum");
  Refuses({"DistCollective", "", {reduce, Text("reduce_op", "none")}, {}},
          {"DistCollective_y", "says nothing of how all_reduce combines"});
  Refuses({"DistCollective", "", {reduce, Text("reduce_op", "xor")}, {}}, {"reduce_op \"xor\" is none of"});
  Refuses({"DistCollective", "", {Text("collective_operation", "sing"), sum}, {}}, {"\"sing\" is none of"});
  Refuses({"DistCollective", "", {reduce, sum, Number("nb_rank", 3)}, {}},
          {"its nb_rank is 3, but it is of"});
  Refuses({"DistCollective", "", {reduce, sum, List("groups", {1, 0})}, {}}, {"entry 1 is 0"});
  Refuses({"DistCollective", "", {reduce, sum, List("groups", {1})}, {}},
          {"device 0 is not among its groups", "{rank}"});
  Refuses({"DistCollective", "", {Text("collective_operation", "broadcast"), Number("root", 9)}, {}},
          {"its root is 9 of"});
  Refuses({"AllToAll", "com.microsoft", {Number("group_size", 3)}, {}},
          {"its group_size is 3, but the plan is for"});
  CompileOptions shared = Model({"AllReduce", "com.microsoft", {Number("group_size", GetParam())}, {}});
  shared.models[0].path = folder_.File("m0.onnx");
  shared.tensor_parallel = std::exchange(shared.devices, 0);
  EXPECT_TRUE(Says(CompileToMemory(shared).status(),
                   {"AllReduce_y", "say how many the plan is for (--devices ", "without --tp, --pp"}));
}

INSTANTIATE_TEST_SUITE_P(Devices, CollectiveOpsTest, testing::Values(2u, 4u));

// Devices 0 and 1 are one group, devices 2 and 3 another, each with its communicator.
TEST(CollectiveGroupsTest, EachMeetsByItself) {
  TemporaryFolder folder;
  for (uint32_t d = 0; d < 4; ++d) {
    const int64_t first = d / 2 * 2;
    Write({"DistCollective",
           "",
           {Text("collective_operation", "all_reduce"), Text("reduce_op", "sum"),
            List("groups", {first, first + 1})},
           {}},
          d, folder.File("m" + std::to_string(d) + ".onnx"));
  }
  CompileOptions options;
  options.devices = 4;
  options.models = {{"main", folder.File("m{rank}.onnx")}};
  LiveModel model(options, {});
  ASSERT_EQ(model.data().programs[0].sync_points.size(), 2u);
  EXPECT_EQ(model.data().programs[0].sync_points[1].communicator, 1u);
  auto buffers = model.MakeBuffers(0);
  const Values ones(kRows * kColumns, 1.0f);
  std::memcpy(buffers.input_bytes[0].data(), ones.data(), ones.size() * 4);
  ASSERT_TRUE(
      model.session().Run(0, Span<const Input>(buffers.inputs), Span<const Output>(buffers.outputs)).ok());
  for (size_t d = 0; d < 4; ++d) {
    float got = 0;
    std::memcpy(&got, buffers.output_bytes[d].data(), 4);
    EXPECT_EQ(got, d < 2 ? -1.0f : 1.0f);  // -0.75 - 0.25, 0.25 + 0.75
  }
}

}  // namespace
}  // namespace rondo
