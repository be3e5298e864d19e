// Outputs whose size depends on data, loops that data end, and the bounds that users give for them.
#include <algorithm>
#include <limits>
#include <optional>

#include "tests/import/imported.h"

namespace rondo {
namespace {

using Doubles = std::vector<double>;
using Shapes = std::vector<int64_t>;

std::shared_ptr<const ir::ConstantData> Values(DType dtype, const Shape& shape, const Doubles& values) {
  std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(ByteSize(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    scalar::Store(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  return ir::ConstantData::Own(dtype, shape, std::move(bytes));
}

Result<ir::Graph> Bounded(ModelMaker& m, const std::string& node, int64_t bound,
                          ImportReport* report = nullptr) {
  ImportOptions options;
  options.bounds[node] = bound;
  return Import(m, options, report);
}

// All numbers of each output; nullopt if the run has a fault.
std::optional<std::vector<Doubles>> RunOf(const Result<ir::Graph>& graph,
                                          const std::vector<Doubles>& inputs) {
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return std::nullopt;
  ir::Values values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Node& node = graph->node(graph->inputs[i].node);
    values.push_back(Values(node.dtype, node.shape, inputs[i]));
  }
  auto out = ir::EvaluateGraph(*graph, values);
  if (!out.ok()) return std::nullopt;
  std::vector<Doubles> numbers;
  for (const auto& value : *out) {
    Doubles& all = numbers.emplace_back();
    for (int64_t i = 0; i < value->shape.elements(); ++i)
      all.push_back(scalar::Load<double>(value->dtype, value->bytes.data(), i));
  }
  return numbers;
}

std::vector<std::string> Names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::GraphOutput& output : graph.outputs) names.push_back(output.name);
  return names;
}

TEST(DataSizes, WhatIsThereComesFirstAndItsNumberIsAnOutput) {
  ModelMaker m;
  m.Input("x", {2, 3});
  m.Floats("zero", {1}, {0});
  m.Node("Greater", {"x", "zero"}, {"positive"});
  m.Node("NonZero", {"positive"}, {"places"});
  m.Node("Compress", {"x", "flat"}, {"kept"});
  m.Ints("all", {-1});
  m.Node("Reshape", {"positive", "all"}, {"flat"});
  m.Node("Shape", {"places"}, {"shape"});
  for (const char* name : {"places", "kept", "shape"}) m.Output(name);
  // Put the nodes into topological order.
  m.graph()->mutable_node()->SwapElements(2, 3);
  const auto graph = Import(m);
  const auto out = RunOf(graph, {{-1, 5, -2, 7, 8, -3}});
  ASSERT_TRUE(out);
  EXPECT_EQ(Names(*graph),
            (std::vector<std::string>{"places", "places.size1", "kept", "kept.size0", "shape"}));
  EXPECT_EQ((*out)[0], (Doubles{0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ((*out)[1], Doubles{3});
  EXPECT_EQ((*out)[2], (Doubles{5, 7, 8, 0, 0, 0}));
  EXPECT_EQ((*out)[3], Doubles{3});
  EXPECT_EQ((*out)[4], (Doubles{2, 3}));
}

// Two classes; the second box overlaps the first, and the fourth the third by 60 %.
TEST(DataSizes, BoxesThatLieOverBetterOnesGo) {
  // The boxes as corners; and as centres with width and height, x before y.
  const Doubles corners = {0, 0, 2, 2, 2, 2, 0, 0, 5, 5, 9, 9, 5, 6, 9, 10},
                centres = {1, 1, 2, 2, 1, 1, 2, 2, 7, 7, 4, 4, 8, 7, 4, 4};
  const std::vector<std::pair<int64_t, bool>> cases = {{1, false}, {4, false}, {99, false}, {99, true}};
  for (const auto& [most, as_centres] : cases) {
    ModelMaker m;
    m.Input("boxes", {1, 4, 4});
    m.Input("scores", {1, 2, 4});
    m.Ints("most", {most});
    m.Floats("overlap", {1}, {0.5f});
    m.Floats("least", {1}, {0.3f});
    SetInt(m.Node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"selected"}),
           "center_point_box", as_centres ? 1 : 0);
    m.Output("selected");
    const auto out = RunOf(Import(m), {as_centres ? centres : corners, {.4, .9, .8, .7, .5, .1, .2, .6}});
    ASSERT_TRUE(out);
    const size_t found = static_cast<size_t>((*out)[1][0]);
    Doubles expected = {0, 0, 1, 0, 0, 2, 0, 1, 3, 0, 1, 0};
    if (most == 1) expected = {0, 0, 1, 0, 1, 3};
    EXPECT_EQ(Doubles((*out)[0].begin(), (*out)[0].begin() + static_cast<int64_t>(3 * found)), expected)
        << most;
  }
}

// The operator's definition: greedy, box after box. Boxes are corners, in rows of 4; a row of scores has a
// number for each box.
Doubles Suppressed(const Doubles& boxes, const Doubles& scores, int64_t classes, int64_t number, int64_t most,
                   float overlap, float least) {
  const auto at = [&](int64_t box, int k) {
    return static_cast<float>(boxes[static_cast<size_t>(4 * box + k)]);
  };
  const auto lies_over = [&](int64_t a, int64_t b) {
    float shared = 1, areas[2] = {1, 1};
    for (int k = 0; k < 2; ++k) {
      shared *= std::max(0.0f, std::min(at(a, k + 2), at(b, k + 2)) - std::max(at(a, k), at(b, k)));
      areas[0] *= at(a, k + 2) - at(a, k);
      areas[1] *= at(b, k + 2) - at(b, k);
    }
    return shared / (areas[0] + areas[1] - shared) > overlap;
  };
  Doubles selected;
  for (int64_t c = 0; c < classes; ++c) {
    std::vector<int64_t> order, kept;
    const auto score = [&](int64_t box) { return scores[static_cast<size_t>(c * number + box)]; };
    for (int64_t box = 0; box < number; ++box) {
      if (static_cast<float>(score(box)) > least) order.push_back(box);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    for (const int64_t box : order) {
      if (static_cast<int64_t>(kept.size()) < most &&
          std::none_of(kept.begin(), kept.end(), [&](int64_t other) { return lies_over(box, other); })) {
        kept.push_back(box);
        selected.insert(selected.end(), {0, static_cast<double>(c), static_cast<double>(box)});
      }
    }
  }
  return selected;
}

// If few of many boxes are above the threshold, these are compacted first; if a class has more, all are
// examined.
TEST(DataSizes, BoxesAboveTheThresholdAreTheSameHoweverManyThereAre) {
  constexpr int64_t kBoxes = 2100, kClasses = 2, kMost = 12;
  ModelMaker m;
  m.Input("boxes", {1, kBoxes, 4});
  m.Input("scores", {1, kClasses, kBoxes});
  m.Ints("most", {kMost});
  m.Floats("overlap", {1}, {0.5f});
  m.Floats("least", {1}, {0.5f});
  m.Node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"selected"});
  m.Output("selected");
  const auto all = Import(m), five = Bounded(m, "NonMaxSuppression_selected", 5);
  uint64_t state = 1;
  const auto draw = [&](int64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state >> 33) % below;
  };
  for (const int64_t above : {0, 3, 63, 64, 65, 700}) {
    Doubles boxes, scores(kClasses * kBoxes);
    for (int64_t i = 0; i < kBoxes; ++i) {
      const auto y = static_cast<double>(draw(12)), x = static_cast<double>(draw(3));
      boxes.insert(boxes.end(), {y, x, y + 4 + static_cast<double>(draw(3)), x + 4});
    }
    for (double& score : scores) score = static_cast<double>(draw(8)) / 16;  // below the threshold
    for (int64_t i = 0; i < above; ++i)  // as many of the second class are above; ties are frequent
      scores[static_cast<size_t>(kBoxes + (i * 37 + 5) % kBoxes)] =
          0.5 + static_cast<double>(1 + draw(6)) / 16;
    if (above > 0) scores[0] = 0.75;
    const Doubles expected = Suppressed(boxes, scores, kClasses, kBoxes, kMost, 0.5f, 0.5f);
    const auto out = RunOf(all, {boxes, scores});
    ASSERT_TRUE(out);
    ASSERT_EQ((*out)[1][0] * 3, static_cast<double>(expected.size())) << above;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), (*out)[0].begin())) << above;
    EXPECT_EQ(RunOf(five, {boxes, scores}).has_value(), expected.size() <= 3 * 6) << above;
  }
}

TEST(DataSizes, EqualElementsAreOne) {
  for (const bool sorted : {true, false}) {
    ModelMaker m;
    m.Input("x", {2, 3});
    SetInt(m.Node("Unique", {"x"}, {"y", "first", "which", "count"}), "sorted", sorted ? 1 : 0);
    for (const char* name : {"y", "first", "which", "count"}) m.Output(name);
    const auto graph = Import(m);
    const auto out = RunOf(graph, {{7, 2, 7, -1, 2, 7}});
    ASSERT_TRUE(out);
    EXPECT_EQ(Names(*graph), (std::vector<std::string>{"y", "y.size0", "first", "first.size0", "which",
                                                       "count", "count.size0"}));
    const auto some = [&](size_t output) {
      return Doubles((*out)[output].begin(), (*out)[output].begin() + static_cast<int64_t>((*out)[1][0]));
    };
    EXPECT_EQ(some(0), sorted ? (Doubles{-1, 2, 7}) : (Doubles{7, 2, -1}));
    EXPECT_EQ(some(2), sorted ? (Doubles{3, 1, 0}) : (Doubles{0, 1, 3}));
    EXPECT_EQ((*out)[4], sorted ? (Doubles{2, 1, 2, 0, 1, 2}) : (Doubles{0, 1, 0, 2, 1, 0}));
    EXPECT_EQ(some(5), sorted ? (Doubles{1, 2, 3}) : (Doubles{3, 2, 1}));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto nans = RunOf(graph, {{nan, 1, nan, 1, 2, std::numeric_limits<double>::infinity()}});
    ASSERT_TRUE(nans);
    EXPECT_EQ((*nans)[1], Doubles{5}) << "a NaN is equal to itself alone";
  }
}

TEST(DataSizes, ASliceMayEndWhereDataSay) {
  for (const int64_t step : {1, 3, -1, -2}) {
    ModelMaker m;
    m.Input("x", {2, 7});
    m.Input("start", {1}, onnx::TensorProto::INT64);
    m.Input("end", {1}, onnx::TensorProto::INT64);
    m.Ints("axes", {1});
    m.Ints("steps", {step});
    m.Node("Slice", {"x", "start", "end", "axes", "steps"}, {"cut"});
    m.Node("Neg", {"cut"}, {"y"});
    m.Output("y");
    const auto graph = Import(m);
    Doubles x;
    for (int i = 0; i < 14; ++i) x.push_back(i);
    for (const int64_t start : {-9, -7, -3, 0, 2, 6, 7, 50}) {
      for (const int64_t end : {-100, -8, -7, -2, 0, 4, 7, 99}) {
        const auto within = [&](int64_t at, int64_t least, int64_t most) {
          return std::clamp<int64_t>(at < 0 ? at + 7 : at, least, most);
        };
        const bool forward = step > 0;
        const int64_t first = within(start, forward ? 0 : -1, forward ? 7 : 6),
                      last = within(end, forward ? 0 : -1, 7);
        Doubles expected;
        for (int64_t row = 0; row < 2; ++row) {
          for (int64_t i = first; forward ? i < last : i > last; i += step)
            expected.push_back(-static_cast<double>(row * 7 + i));
          while (expected.size() % 7 != 0) expected.push_back(0);
        }
        const size_t rest = expected.empty() ? 14 : 0;
        expected.resize(expected.size() + rest);
        const auto out = RunOf(graph, {x, {static_cast<double>(start)}, {static_cast<double>(end)}});
        ASSERT_TRUE(out);
        EXPECT_EQ((*out)[0], expected) << start << " to " << end << " by " << step;
      }
    }
  }
}

TEST(DataSizes, EqualSlicesAreOne) {
  const auto unique = [](int axis, bool sorted, const Doubles& x) {
    ModelMaker m;
    m.Input("x", {4, 3});
    onnx::NodeProto* node = m.Node("Unique", {"x"}, {"y", "first", "which", "count"});
    SetInt(node, "axis", axis);
    SetInt(node, "sorted", sorted ? 1 : 0);
    for (const char* name : {"y", "first", "which", "count"}) m.Output(name);
    return RunOf(Import(m), {x});
  };
  // Outputs: y and its length, first indices and their number, inverse indices, counts and their number.
  const Doubles rows = {1, 5, 2, 1, 0, 9, 1, 5, 2, 0, 7, 7};
  EXPECT_EQ(
      unique(0, true, rows),
      (std::vector<Doubles>{
          {0, 7, 7, 1, 0, 9, 1, 5, 2, 0, 0, 0}, {3}, {3, 1, 0, 0}, {3}, {2, 1, 2, 0}, {1, 1, 2, 0}, {3}}));
  EXPECT_EQ(
      unique(0, false, rows),
      (std::vector<Doubles>{
          {1, 5, 2, 1, 0, 9, 0, 7, 7, 0, 0, 0}, {3}, {0, 1, 3, 0}, {3}, {0, 1, 0, 2}, {2, 1, 1, 0}, {3}}));
  const Doubles columns = {4, 1, 4, 2, 3, 2, 4, 1, 4, 0, 0, 0};
  EXPECT_EQ(unique(-1, true, columns),
            (std::vector<Doubles>{
                {1, 4, 0, 3, 2, 0, 1, 4, 0, 0, 0, 0}, {2}, {1, 0, 0}, {2}, {1, 0, 1}, {1, 2, 0}, {2}}));
}

// A loop that doubles v while its sum is below `limit`, at most `trips` times; the sums are scan outputs.
void AddLoop(ModelMaker& m, const std::string& trips, const std::string& go) {
  onnx::NodeProto* loop = m.Node("Loop", {trips, go, "x"}, {"last", "sums"});
  onnx::AttributeProto* attribute = loop->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto* body = attribute->mutable_g();
  for (const char* name : {"i", "c", "v"}) body->add_input()->set_name(name);
  ModelMaker::Node(body, "Add", {"v", "v"}, {"next"});
  SetInt(ModelMaker::Node(body, "ReduceSum", {"next"}, {"sum"}), "keepdims", 0);
  ModelMaker::Node(body, "Less", {"sum", "limit"}, {"on"});
  for (const char* name : {"on", "next", "sum"}) body->add_output()->set_name(name);
  m.Output("last");
  m.Output("sums");
}

TEST(DataSizes, ALoopEndsWhereItsConditionDoes) {
  for (const int64_t bound : {8, 40}) {  // unrolled, and as a loop
    ModelMaker m;
    m.Input("x", {2});
    m.Input("limit", {});
    AddLoop(m, "", "");
    const auto graph = Bounded(m, "Loop_last", bound);
    const auto some = RunOf(graph, {{1, 2}, {20}});
    ASSERT_TRUE(some) << bound;
    EXPECT_EQ((*some)[0], (Doubles{8, 16}));
    EXPECT_EQ(Doubles((*some)[1].begin(), (*some)[1].begin() + 3), (Doubles{6, 12, 24}));
    EXPECT_EQ((*some)[2], Doubles{3});
    const auto one = RunOf(graph, {{1, 2}, {-5}});
    ASSERT_TRUE(one);
    EXPECT_EQ((*one)[2], Doubles{1}) << "a loop without a condition begins";
    EXPECT_FALSE(RunOf(graph, {{0, 0}, {1}})) << "more rounds than its bound are a fault, not a result";
    EXPECT_TRUE(RunOf(graph, {{1, 2}, {3.0 * static_cast<double>(int64_t{1} << bound)}}))
        << "as many are none";
  }
}

TEST(DataSizes, ALoopRunsAsOftenAsAnInputSays) {
  for (const int64_t bound : {5, 30}) {
    ModelMaker m;
    m.Input("x", {2});
    m.Input("limit", {});
    m.Input("trips", {}, onnx::TensorProto::INT64);
    AddLoop(m, "trips", "");
    const auto graph = Bounded(m, "sums", bound);
    for (const double trips : {0.0, 1.0, 5.0}) {
      const auto out = RunOf(graph, {{1, 2}, {1e9}, {trips}});
      ASSERT_TRUE(out) << bound;
      EXPECT_EQ((*out)[0][0], std::exp2(trips));
      EXPECT_EQ((*out)[2], Doubles{trips});
    }
    EXPECT_TRUE(RunOf(graph, {{1, 2}, {7}, {1e6}})) << "its condition ends it first";
    EXPECT_FALSE(RunOf(graph, {{1, 2}, {1e18}, {static_cast<double>(bound) + 1}}));
  }
}

TEST(DataSizes, ARangeThatDataEndHasABound) {
  ModelMaker m;
  m.Input("start", {}, onnx::TensorProto::INT64);
  m.Input("end", {}, onnx::TensorProto::INT64);
  m.Ints("one", {1});
  m.graph()->mutable_initializer(0)->clear_dims();
  m.Node("Range", {"start", "end", "one"}, {"places"});
  m.Node("Mul", {"places", "places"}, {"squares"});
  m.Output("squares");
  const auto graph = Bounded(m, "places", 4);
  const auto out = RunOf(graph, {{3}, {6}}), none = RunOf(graph, {{6}, {3}});
  ASSERT_TRUE(out && none);
  EXPECT_EQ((*out)[0], (Doubles{9, 16, 25, 0}));
  EXPECT_EQ((*out)[1], Doubles{3});
  EXPECT_EQ((*none)[1], Doubles{0});
  EXPECT_FALSE(RunOf(graph, {{3}, {8}}));
}

TEST(DataSizes, BranchesMayDifferInOneLength) {
  ModelMaker m;
  m.Input("x", {4, 2});
  m.Input("all", {}, onnx::TensorProto::BOOL);
  m.Ints("from", {1});
  m.Ints("to", {3});
  onnx::NodeProto* pick = m.Node("If", {"all"}, {"picked"});
  const auto branch = [&](const char* name) {
    onnx::AttributeProto* attribute = pick->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    return attribute->mutable_g();
  };
  onnx::GraphProto *yes = branch("then_branch"), *no = branch("else_branch");
  ModelMaker::Node(yes, "Neg", {"x"}, {"negative"});
  yes->add_output()->set_name("negative");
  ModelMaker::Node(no, "Slice", {"x", "from", "to"}, {"middle"});
  no->add_output()->set_name("middle");
  m.Node("Add", {"picked", "picked"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  const Doubles x = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto all = RunOf(graph, {x, {1}}), some = RunOf(graph, {x, {0}});
  ASSERT_TRUE(all && some);
  EXPECT_EQ((*all)[0], (Doubles{-2, -4, -6, -8, -10, -12, -14, -16}));
  EXPECT_EQ((*all)[1], Doubles{4});
  EXPECT_EQ((*some)[0], (Doubles{6, 8, 10, 12, 0, 0, 0, 0}));
  EXPECT_EQ((*some)[1], Doubles{2});
}

// The positive elements of a vector.
void Positive(ModelMaker* m, const std::string& x, const std::string& to) {
  m->Node("Greater", {x, "zero"}, {to + "_above"});
  m->Node("NonZero", {to + "_above"}, {to + "_at"});
  m->Ints(to + "_first", {0});
  m->Node("Squeeze", {to + "_at", to + "_first"}, {to + "_places"});
  m->Node("Gather", {x, to + "_places"}, {to});
}

TEST(DataSizes, WhatStandsBehindALengthThatDataDecideFollowsWhatIsThere) {
  ModelMaker m;
  m.Input("x", {5});
  m.Input("y", {4});
  m.Floats("zero", {}, {0});
  m.Floats("last", {2}, {100, 200});
  m.Floats("pad", {}, {-1});
  m.Ints("pads", {1, 2});
  Positive(&m, "x", "some");
  Positive(&m, "y", "others");
  SetInt(m.Node("Concat", {"some", "last", "others", "last"}, {"joined"}), "axis", 0);
  m.Node("Pad", {"some", "pads", "pad"}, {"padded"});
  m.Output("joined");
  m.Output("padded");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (const auto& [x, y] : {std::pair(Doubles{-1, 2, -3, 4, 5}, Doubles{6, -7, -8, -9}),
                             std::pair(Doubles{-1, -2, -3, -4, -5}, Doubles{6, 7, 8, 9}),
                             std::pair(Doubles{1, 2, 3, 4, 5}, Doubles{-6, -7, -8, -9})}) {
    const auto positive = [](const Doubles& all, Doubles* to) {
      std::copy_if(all.begin(), all.end(), std::back_inserter(*to), [](double each) { return each > 0; });
    };
    Doubles joined, padded = {-1};
    positive(x, &joined);
    positive(x, &padded);
    joined.insert(joined.end(), {100, 200});
    padded.insert(padded.end(), {-1, -1});
    positive(y, &joined);
    joined.insert(joined.end(), {100, 200});
    const auto out = RunOf(graph, {x, y});
    ASSERT_TRUE(out);
    const std::vector<Doubles> expected = {joined, padded};
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ((*out)[2 * i + 1], Doubles{static_cast<double>(expected[i].size())});
      const Doubles& got = (*out)[2 * i];
      EXPECT_EQ(Doubles(got.begin(), got.begin() + std::ssize(expected[i])), expected[i]);
    }
  }
}

TEST(DataSizes, WhatIsFoundIsSearchedAgain) {
  ModelMaker m;
  m.Input("x", {6});
  m.Floats("zero", {}, {0});
  m.Floats("three", {}, {3});
  Positive(&m, "x", "some");
  m.Node("Greater", {"some", "three"}, {"large"});
  m.Node("NonZero", {"large"}, {"at"});
  m.Output("at");
  const auto out = RunOf(Import(m), {{4, -5, 2, -6, 9, 5}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[1], Doubles{3});  // of 4, 2, 9 and 5
  EXPECT_EQ(Doubles((*out)[0].begin(), (*out)[0].begin() + 3), (Doubles{0, 2, 3}));
}

TEST(DataSizes, OnlyWhatIsThereIsScattered) {
  ModelMaker m;
  m.Input("x", {5});
  m.Input("places", {5}, onnx::TensorProto::INT64);
  m.Input("data", {3});
  m.Floats("zero", {}, {0});
  m.Floats("one", {1}, {1});
  m.Ints("there", {0});
  Positive(&m, "x", "some");
  m.Node("Gather", {"places", "some_places"}, {"chosen"});
  SetInt(m.Node("Concat", {"some", "one"}, {"numbers"}), "axis", 0);
  SetInt(m.Node("Concat", {"chosen", "there"}, {"all"}), "axis", 0);
  onnx::AttributeProto* reduction =
      m.Node("ScatterElements", {"data", "all", "numbers"}, {"y"})->add_attribute();
  reduction->set_name("reduction");
  reduction->set_type(onnx::AttributeProto::STRING);
  reduction->set_s("add");
  m.Output("y");
  const auto out = RunOf(Import(m), {{4, -5, 2, -6, 9}, {2, 0, 1, 0, 2}, {10, 20, 30}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0], (Doubles{11, 22, 43}));
}

TEST(DataSizes, WithoutABoundTheSentenceNamesTheOption) {
  ModelMaker m;
  m.Input("x", {2});
  m.Input("limit", {});
  AddLoop(m, "", "");
  EXPECT_TRUE(
      Says(Import(m).status(), {"Loop \"Loop_last\"", "data decide how often it runs", "--bound NODE=N"}));
  ImportReport report;
  EXPECT_TRUE(Bounded(m, "Loop_last", 3, &report).ok());
  EXPECT_EQ(report.bounds_used, std::set<std::string>{"Loop_last"});
  EXPECT_FALSE(Bounded(m, "loop", 3, &report).ok());
}

}  // namespace
}  // namespace rondo
