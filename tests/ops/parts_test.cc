// Calls that change parts of one tensor: disjoint parts are changed where they lie, with nothing copied; all
// else has the right results.
#include <algorithm>
#include <map>
#include <random>

#include "runtime/verify/lifecycle_verifier.h"
#include "tests/how_many.h"
#include "tests/ops/compiled_calls.h"

namespace rondo {
namespace {

constexpr int64_t kRow = 16;  // floats: one unit of the alignment of calls

class ChangedParts : public CompiledCalls {
 protected:
  void SetUp() override { g_elements = 2 * kRow; }
  void TearDown() override { g_elements = 4; }

  // Rows [begin, end) of `from`.
  void Rows(const std::string& name, const std::string& from, int64_t begin, int64_t end) {
    model_.Ints(name + "_begin", {begin});
    model_.Ints(name + "_end", {end});
    model_.Node("Slice", {from, name + "_begin", name + "_end"}, {name});
  }
  void Join(const std::string& name, const std::vector<std::string>& pieces, int64_t axis = 0) {
    onnx::AttributeProto* a = model_.Node("Concat", pieces, {name})->add_attribute();
    a->set_name("axis");
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(axis);
  }
  void StateOf(int64_t rows) { model_.Input("total", {rows, kRow}); }

  Floats Total() {
    const Shape shape = ShapeOf(compiled_->plan.programs[0].inputs, "total");
    Floats values(static_cast<size_t>(shape.elements()));
    const Status status = session_->ReadState("total", values.data(), 4 * values.size());
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  void SetTotal(const Floats& values) {
    const Status status = session_->WriteState("total", values.data(), 4 * values.size());
    EXPECT_TRUE(status.ok()) << status.message();
  }
  void Clear() {
    session_.reset();
    model_.proto.clear_graph();
  }
  size_t Steps() const { return compiled_->plan.programs[0].steps.size(); }
  // Steps that are no calls.
  size_t Others() const { return Steps() - StepsOf(StepKind::kCustom); }
  std::string Reasons() const {
    std::string text;
    for (const Step& step : compiled_->plan.programs[0].steps)
      text += std::string(step.source == kNone ? "?" : compiled_->plan.sources[step.source]) + "\n";
    return text;
  }
  void ExpectVerified() {
    Result<Plan> plan = Plan::FromData(compiled_->plan, weights_);
    ASSERT_TRUE(plan.ok());
    const Result<VerifyReport> report = VerifyLifecycle(*plan, driver_);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report->ok());
  }
};

Floats Counting(size_t count) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}
// Rows `at` and the next, reversed.
void ReverseAt(Floats* values, size_t row) {
  const auto from = values->begin() + static_cast<int64_t>(row) * kRow;
  std::reverse(from, from + 2 * kRow);
}

TEST_F(ChangedParts, HalvesOfAStateAreChangedThere) {
  StateOf(4);
  Rows("a", "total", 0, 2);
  Rows("b", "total", 2, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  Join("total_out", {"ar", "br"});
  model_.Output("total_out");
  ASSERT_MADE();
  EXPECT_EQ(Others(), 0u) << Reasons();
  for (const Step& step : compiled_->plan.programs[0].steps)
    EXPECT_EQ(compiled_->plan.buffers[step.bindings[0].buffer].kind, BufferKind::kState);
  Floats wanted = Counting(64);
  SetTotal(wanted);
  Run({});
  ReverseAt(&wanted, 0);
  ReverseAt(&wanted, 2);
  EXPECT_EQ(Total(), wanted);
  ExpectVerified();
}

TEST_F(ChangedParts, APartOfAStateThatNothingChangesStays) {
  for (const size_t kept : {0u, 1u, 2u}) {
    Clear();
    StateOf(6);
    std::vector<std::string> pieces;
    for (size_t i = 0; i < 3; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      Rows(name, "total", static_cast<int64_t>(2 * i), static_cast<int64_t>(2 * i + 2));
      if (i != kept) Call("Reverse", {name}, {name + "r"});
      pieces.push_back(i == kept ? name : name + "r");
    }
    Join("total_out", pieces);
    model_.Output("total_out");
    ASSERT_MADE();
    EXPECT_EQ(Others(), 0u) << Reasons();
    Floats wanted = Counting(96);
    SetTotal(wanted);
    Run({});
    for (size_t i = 0; i < 3; ++i) {
      if (i != kept) ReverseAt(&wanted, 2 * i);
    }
    EXPECT_EQ(Total(), wanted);
  }
}

TEST_F(ChangedParts, OneCallChangesTwoPartsOfAState) {
  StateOf(4);
  Rows("a", "total", 0, 2);
  Rows("b", "total", 2, 4);
  Call("Swap", {"a", "b"}, {"as", "bs"});
  Join("total_out", {"as", "bs"});
  model_.Output("total_out");
  ASSERT_MADE();
  EXPECT_EQ(Steps(), 1u) << Reasons();
  const Floats before = Counting(64);
  SetTotal(before);
  Run({});
  Floats wanted = before;
  std::rotate(wanted.begin(), wanted.begin() + 32, wanted.end());
  EXPECT_EQ(Total(), wanted);
}

TEST_F(ChangedParts, CallsInTurnAndOnTheWholeChangeOneState) {
  StateOf(4);
  model_.Input("x", {4, kRow});
  Call("Accumulate", {"total", "x"}, {"whole"});
  Rows("a", "whole", 0, 2);
  Rows("b", "whole", 2, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Accumulate", {"ar", "xb"}, {"ax"});
  Rows("xb", "x", 2, 4);
  std::swap(*model_.graph()->mutable_node(4), *model_.graph()->mutable_node(5));
  Call("Reverse", {"b"}, {"br"});
  Join("total_out", {"ax", "br"});
  model_.Output("total_out");
  ASSERT_MADE();
  EXPECT_EQ(Others(), 0u) << Reasons();
  SetTotal(Counting(64));
  Run({{"x", Counting(64)}});
  Floats wanted = Counting(64);
  for (float& w : wanted) w *= 2;
  ReverseAt(&wanted, 0);
  for (size_t i = 0; i < 32; ++i) wanted[i] += static_cast<float>(33 + i);
  ReverseAt(&wanted, 2);
  EXPECT_EQ(Total(), wanted);
}

// The third part is computed anew: that is written, and the calls still copy nothing.
TEST_F(ChangedParts, APartThatIsComputedAnewIsWrittenBesideThem) {
  StateOf(6);
  model_.Input("x", {2, kRow});
  Rows("a", "total", 0, 2);
  Rows("b", "total", 2, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  model_.Node("Neg", {"x"}, {"n"});
  Join("total_out", {"ar", "n", "br"});
  Rows("c", "total", 4, 6);
  Call("Reverse", {"c"}, {"cr"});
  model_.Node("Neg", {"cr"}, {"y"});
  model_.Output("total_out");
  model_.Output("y");
  ASSERT_MADE();
  Floats before = Counting(96);
  SetTotal(before);
  const Floats y = Run({{"x", Counting(32)}})[0];
  Floats wanted = before;
  ReverseAt(&wanted, 0);
  Floats b(before.begin() + 32, before.begin() + 64);
  std::reverse(b.begin(), b.end());
  for (size_t i = 0; i < 32; ++i) wanted[32 + i] = -static_cast<float>(i + 1), wanted[64 + i] = b[i];
  EXPECT_EQ(Total(), wanted);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], -before[64 + 31 - i]);
}

TEST_F(ChangedParts, PartsOfAStateInAnotherOrderAreRight) {
  StateOf(4);
  Rows("a", "total", 0, 2);
  Rows("b", "total", 2, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  Join("total_out", {"br", "ar"});
  model_.Output("total_out");
  ASSERT_MADE();
  Floats wanted = Counting(64);
  SetTotal(wanted);
  Run({});
  std::reverse(wanted.begin(), wanted.end());
  EXPECT_EQ(Total(), wanted);
  ExpectVerified();
}

TEST_F(ChangedParts, PartsOfAStateThatOverlapAreRight) {
  StateOf(4);
  Rows("a", "total", 0, 2);
  Rows("b", "total", 1, 3);
  Rows("c", "total", 3, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  Rows("bl", "br", 1, 2);
  Join("total_out", {"ar", "bl", "c"});
  model_.Output("total_out");
  ASSERT_MADE();
  const Floats before = Counting(64);
  SetTotal(before);
  Run({});
  Floats wanted = before, b = before;
  ReverseAt(&wanted, 0);
  ReverseAt(&b, 1);
  std::copy(b.begin() + 32, b.begin() + 48, wanted.begin() + 32);
  EXPECT_EQ(Total(), wanted);
  ExpectVerified();
}

// What reads a part as it was, and needs the new one, reads a copy: the state is still changed there.
TEST_F(ChangedParts, OldContentsOfAPartAreCopiedOnce) {
  StateOf(4);
  Rows("a", "total", 0, 2);
  Rows("b", "total", 2, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  model_.Node("Sub", {"ar", "a"}, {"y"});
  Join("total_out", {"ar", "br"});
  model_.Output("total_out");
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_LE(Others(), 2u) << "a copy of one part, and Sub\n" << Reasons();
  const Floats before = Counting(64);
  SetTotal(before);
  const Floats y = Run({})[0];
  Floats wanted = before;
  ReverseAt(&wanted, 0);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], wanted[i] - before[i]);
  ReverseAt(&wanted, 2);
  EXPECT_EQ(Total(), wanted);
}

// Columns do not lie one after another: they are copied for the calls.
TEST_F(ChangedParts, ColumnsAreCopied) {
  g_elements = 4 * kRow;
  model_.Input("total", {4, 2 * kRow});
  model_.Ints("one", {1});
  for (const char* name : {"a", "b"}) {
    const int64_t begin = *name == 'a' ? 0 : kRow;
    model_.Ints(std::string(name) + "0", {begin});
    model_.Ints(std::string(name) + "1", {begin + kRow});
    model_.Node("Slice", {"total", std::string(name) + "0", std::string(name) + "1", "one"}, {name});
    Call("Reverse", {name}, {std::string(name) + "r"});
  }
  Join("total_out", {"ar", "br"}, 1);
  model_.Output("total_out");
  ASSERT_MADE();
  const Floats before = Counting(128);
  SetTotal(before);
  Run({});
  const Floats after = Total();
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 32; ++c) {
      const size_t half = c / 16 * 16;
      EXPECT_EQ(after[32 * r + c], before[32 * (3 - r) + half + 15 - (c - half)]);
    }
  }
}

TEST_F(ChangedParts, OfWhatIsComputedAPartStays) {
  model_.Input("x", {6, kRow});
  model_.Node("Neg", {"x"}, {"n"});
  for (const char* name : {"a", "b", "c"}) Rows(name, "n", 2 * (*name - 'a'), 2 * (*name - 'a') + 2);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"c"}, {"cr"});
  Join("joined", {"ar", "b", "cr"});
  model_.Node("Abs", {"joined"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(Steps(), 4u) << "Neg, two calls, Abs\n" << Reasons();
  Floats wanted = Counting(96);
  const Floats y = Run({{"x", wanted}})[0];
  ReverseAt(&wanted, 0);
  ReverseAt(&wanted, 4);
  EXPECT_EQ(y, wanted);
  ExpectVerified();
}

// The caller's tensor is copied before the first call, and all that follows is changed in the copy.
TEST_F(ChangedParts, PartsOfWhatACallHasChangedAreChangedThere) {
  model_.Input("x", {4, kRow});
  Call("Accumulate", {"x", "x"}, {"whole"});
  Rows("a", "whole", 0, 2);
  Rows("b", "whole", 2, 4);
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  Join("y", {"ar", "br"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(Others(), 1u) << Reasons();
  Floats wanted = Counting(64);
  const Floats y = Run({{"x", wanted}})[0];
  ReverseAt(&wanted, 0);
  ReverseAt(&wanted, 2);
  for (float& w : wanted) w *= 2;
  EXPECT_EQ(y, wanted);
}

// A part of the new state is as it was, while a call has changed the whole: that is another tensor.
TEST_F(ChangedParts, APartThatStaysBesideAChangedWholeIsRight) {
  StateOf(4);
  model_.Input("x", {4, kRow});
  Call("Accumulate", {"total", "x"}, {"whole"});
  Rows("a", "whole", 0, 2);
  Rows("b", "total", 2, 4);
  Join("total_out", {"a", "b"});
  model_.Output("total_out");
  ASSERT_MADE();
  Floats wanted = Counting(64);
  SetTotal(wanted);
  Run({{"x", wanted}});
  for (size_t i = 0; i < 32; ++i) wanted[i] *= 2;
  EXPECT_EQ(Total(), wanted);
}

// Annotations of calls hold in place. What is annotated to run, runs.
TEST_F(ChangedParts, WithAnnotationsAreRight) {
  const auto note = [](onnx::NodeProto* node, const char* key, const char* value) {
    onnx::StringStringEntryProto* entry = node->add_metadata_props();
    entry->set_key(std::string("rondo.") + key);
    entry->set_value(value);
  };
  struct Case {
    const char *of, *key, *value;
    size_t others;  // steps that are no calls
  };
  for (const Case& c : {Case{"call", "graph", "off", 0}, Case{"call", "region", "r", 0},
                        Case{"concat", "fuse", "off", 3}, Case{"concat", "assert", "finite", 2}}) {
    SCOPED_TRACE(std::string(c.of) + ": " + c.key);
    Clear();
    StateOf(4);
    Rows("a", "total", 0, 2);
    Rows("b", "total", 2, 4);
    onnx::NodeProto* call = Call("Reverse", {"a"}, {"ar"});
    if (c.of == std::string("call")) note(call, c.key, c.value);
    Call("Reverse", {"b"}, {"br"});
    Join("total_out", {"ar", "br"});
    if (c.of == std::string("concat")) note(model_.graph()->mutable_node(4), c.key, c.value);
    model_.Output("total_out");
    ASSERT_MADE();
    EXPECT_EQ(Others(), c.others) << Reasons();
    Floats wanted = Counting(64);
    SetTotal(wanted);
    Run({});
    ReverseAt(&wanted, 0);
    ReverseAt(&wanted, 2);
    EXPECT_EQ(Total(), wanted);
  }
}

// Whether a test has a copy, or several, nothing of what is read is ever wrong.
class RandomParts : public ChangedParts {
 protected:
  static constexpr int64_t kRows = 6;
  struct Value {
    std::string name;
    Floats is;  // two rows, or kRows
  };

  void Build(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
    Clear();
    states_ = {{"total", "total_out"}};
    StateOf(kRows);
    model_.Input("x", {2, kRow});
    before_ = Counting(kRows * kRow);
    x_ = Counting(2 * kRow);
    wholes_ = {{"total", before_}};
    if (below(3) == 0) {
      Floats n = before_;
      for (float& v : n) v = -v;
      model_.Node("Neg", {"total"}, {"computed"});
      wholes_.push_back({"computed", n});
    }
    parts_ = {{"x", x_}};
    const size_t steps = 4 + below(8);
    for (size_t i = 0; i < steps; ++i) Add(below, "v" + std::to_string(i));
    JoinSome(below, "last", below(2) == 0);
    // The state, and everything that is left, are outputs.
    model_.Node("Identity", {"last"}, {"total_out"});
    model_.Output("total_out");
    outputs_.clear();
    for (size_t i = parts_.size() > 3 ? parts_.size() - 3 : 0; i < parts_.size(); ++i) {
      model_.Node("Abs", {parts_[i].name}, {parts_[i].name + "_abs"});
      model_.Output(parts_[i].name + "_abs");
      outputs_.push_back(parts_[i].is);
      for (float& v : outputs_.back()) v = std::abs(v);
    }
  }

  template <typename Below>
  void Add(const Below& below, const std::string& name) {
    switch (below(7)) {
      case 0:
      case 1: {  // a part, mostly at an even row
        const Value whole = wholes_[below(wholes_.size())];
        const size_t row = below(4) == 0 ? below(kRows - 1) : 2 * below(kRows / 2);
        Rows(name, whole.name, static_cast<int64_t>(row), static_cast<int64_t>(row) + 2);
        const auto from = whole.is.begin() + static_cast<int64_t>(row) * kRow;
        parts_.push_back({name, Floats(from, from + 2 * kRow)});
        return;
      }
      case 2:
      case 3: {
        Value v{name, parts_[below(parts_.size())].is};
        const size_t of = below(parts_.size());
        v.is = parts_[of].is;
        Call("Reverse", {parts_[of].name}, {name});
        std::reverse(v.is.begin(), v.is.end());
        parts_.push_back(v);
        return;
      }
      case 4: {
        const size_t a = below(parts_.size()), b = below(parts_.size());
        Call("Accumulate", {parts_[a].name, parts_[b].name}, {name});
        Value v{name, parts_[a].is};
        for (size_t i = 0; i < v.is.size(); ++i) v.is[i] += parts_[b].is[i];
        parts_.push_back(v);
        return;
      }
      case 5: {
        const size_t a = below(parts_.size()), b = below(parts_.size());
        Call("Swap", {parts_[a].name, parts_[b].name}, {name, name + "s"});
        const Floats first = parts_[a].is, second = parts_[b].is;
        parts_.push_back({name, second});
        parts_.push_back({name + "s", first});
        return;
      }
      default: JoinSome(below, name, true);
    }
  }

  // A whole: parts of the newest whole in their places, or any.
  template <typename Below>
  void JoinSome(const Below& below, const std::string& name, bool in_place) {
    const Value whole = wholes_.back();
    std::vector<std::string> pieces;
    Value joined{name, {}};
    for (size_t i = 0; i < kRows / 2; ++i) {
      Value piece = parts_[below(parts_.size())];
      if (in_place || below(3) == 0) {
        const std::string part = name + "p" + std::to_string(i);
        Rows(part, whole.name, static_cast<int64_t>(2 * i), static_cast<int64_t>(2 * i + 2));
        const auto from = whole.is.begin() + static_cast<int64_t>(2 * i) * kRow;
        piece = {part, Floats(from, from + 2 * kRow)};
        if (below(3) != 0) {
          Call("Reverse", {part}, {part + "r"});
          piece.name = part + "r";
          std::reverse(piece.is.begin(), piece.is.end());
        }
        if (below(3) == 0) parts_.push_back(piece);
      }
      pieces.push_back(piece.name);
      joined.is.insert(joined.is.end(), piece.is.begin(), piece.is.end());
    }
    Join(name, pieces);
    wholes_.push_back(joined);
  }

  std::vector<Value> wholes_, parts_;
  Floats before_, x_;
  std::vector<Floats> outputs_;
};

TEST_F(RandomParts, HaveTheResultsOfTheirDefinition) {
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(HowMany("RONDO_RANDOM_PARTS", 60)); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Build(seed);
    ASSERT_MADE();
    SetTotal(before_);
    EXPECT_EQ(Run({{"x", x_}}), outputs_);
    EXPECT_EQ(Total(), wholes_.back().is);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace rondo
