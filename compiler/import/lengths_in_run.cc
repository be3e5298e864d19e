#include "compiler/import/lengths_in_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "compiler/import/moved_places.h"
#include "compiler/import/three_imports.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/walk.h"

namespace rondo::importer {
namespace {

// What an operator does with numbers that depend on the number of positions.
enum class Kind : uint8_t {
  kMoves,     // shows or arranges them
  kAffine,    // rises evenly where they do
  kCompares,  // asks which of two is greater
  kCast,
  kMultiplies,
  kDivides,
  kChooses,   // Where
  kLooksUp,   // the last input says which elements of the first
  kAdds,      // affine, and over all positions if it is asked to
  kUpTo,      // each depends on itself and those before
  kOverAll,   // its result depends on all positions at once
  kControls,  // its graphs are imported by what its inputs are
  kEach,      // element by element, nothing more is known
  kOther,     // anything
};

struct Row {
  std::string_view op;
  Kind kind;
};
constexpr Row kKinds[] = {
    {"Abs", Kind::kEach},
    {"Acos", Kind::kEach},
    {"Acosh", Kind::kEach},
    {"Add", Kind::kAffine},
    {"And", Kind::kEach},
    {"ArgMax", Kind::kOverAll},
    {"ArgMin", Kind::kOverAll},
    {"Asin", Kind::kEach},
    {"Asinh", Kind::kEach},
    {"Atan", Kind::kEach},
    {"Atanh", Kind::kEach},
    {"BitShift", Kind::kEach},
    {"BitwiseAnd", Kind::kEach},
    {"BitwiseNot", Kind::kEach},
    {"BitwiseOr", Kind::kEach},
    {"BitwiseXor", Kind::kEach},
    {"Cast", Kind::kCast},
    {"CastLike", Kind::kCast},
    {"Ceil", Kind::kEach},
    {"Celu", Kind::kEach},
    {"Clip", Kind::kCompares},
    {"Concat", Kind::kMoves},
    {"ConstantOfShape", Kind::kMoves},
    {"Cos", Kind::kEach},
    {"Cosh", Kind::kEach},
    {"CumProd", Kind::kUpTo},
    {"CumSum", Kind::kUpTo},
    {"Div", Kind::kDivides},
    {"Einsum", Kind::kOverAll},
    {"Elu", Kind::kEach},
    {"Equal", Kind::kCompares},
    {"Erf", Kind::kEach},
    {"Exp", Kind::kEach},
    {"Expand", Kind::kMoves},
    {"EyeLike", Kind::kMoves},
    {"Flatten", Kind::kMoves},
    {"Floor", Kind::kEach},
    {"Gather", Kind::kLooksUp},
    {"GatherElements", Kind::kLooksUp},
    {"GatherND", Kind::kLooksUp},
    {"Gelu", Kind::kEach},
    {"Gemm", Kind::kOverAll},
    {"Greater", Kind::kCompares},
    {"GreaterOrEqual", Kind::kCompares},
    {"HardSigmoid", Kind::kEach},
    {"HardSwish", Kind::kEach},
    {"Identity", Kind::kMoves},
    {"If", Kind::kControls},
    {"IsInf", Kind::kEach},
    {"IsNaN", Kind::kEach},
    {"LeakyRelu", Kind::kEach},
    {"Less", Kind::kCompares},
    {"LessOrEqual", Kind::kCompares},
    {"Log", Kind::kEach},
    {"LogSoftmax", Kind::kOverAll},
    {"Loop", Kind::kControls},
    {"MatMul", Kind::kOverAll},
    {"Max", Kind::kCompares},
    {"Mean", Kind::kEach},
    {"Min", Kind::kCompares},
    {"Mish", Kind::kEach},
    {"Mod", Kind::kEach},
    {"Mul", Kind::kMultiplies},
    {"Neg", Kind::kAffine},
    {"Not", Kind::kEach},
    {"Or", Kind::kEach},
    {"PRelu", Kind::kEach},
    {"Pad", Kind::kMoves},
    {"Pow", Kind::kEach},
    {"Range", Kind::kMoves},
    {"Reciprocal", Kind::kEach},
    {"ReduceL1", Kind::kOverAll},
    {"ReduceL2", Kind::kOverAll},
    {"ReduceLogSum", Kind::kOverAll},
    {"ReduceLogSumExp", Kind::kOverAll},
    {"ReduceMax", Kind::kOverAll},
    {"ReduceMean", Kind::kAdds},
    {"ReduceMin", Kind::kOverAll},
    {"ReduceProd", Kind::kAdds},
    {"ReduceSum", Kind::kAdds},
    {"ReduceSumSquare", Kind::kOverAll},
    {"Relu", Kind::kEach},
    {"Reshape", Kind::kMoves},
    {"Round", Kind::kEach},
    {"Scan", Kind::kControls},
    {"Selu", Kind::kEach},
    {"Shape", Kind::kMoves},
    {"Shrink", Kind::kEach},
    {"Sigmoid", Kind::kEach},
    {"Sign", Kind::kEach},
    {"Sin", Kind::kEach},
    {"Sinh", Kind::kEach},
    {"Size", Kind::kMoves},
    {"Slice", Kind::kMoves},
    {"Softmax", Kind::kOverAll},
    {"Softplus", Kind::kEach},
    {"Softsign", Kind::kEach},
    {"Split", Kind::kMoves},
    {"SplitToSequence", Kind::kMoves},
    {"Sqrt", Kind::kEach},
    {"Squeeze", Kind::kMoves},
    {"Sub", Kind::kAffine},
    {"Sum", Kind::kAffine},
    {"SwiGLU", Kind::kEach},
    {"Swish", Kind::kEach},
    {"Tan", Kind::kEach},
    {"Tanh", Kind::kEach},
    {"ThresholdedRelu", Kind::kEach},
    {"Tile", Kind::kMoves},
    {"TopK", Kind::kOverAll},
    {"Transpose", Kind::kMoves},
    {"Trilu", Kind::kMoves},
    {"Unsqueeze", Kind::kMoves},
    {"Where", Kind::kChooses},
    {"Xor", Kind::kEach},
};

bool IsElementwise(Kind kind) {
  return kind == Kind::kAffine || kind == Kind::kCompares || kind == Kind::kCast ||
         kind == Kind::kMultiplies || kind == Kind::kDivides || kind == Kind::kChooses || kind == Kind::kEach;
}

Kind KindOf(std::string_view op) {
  const auto found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Row& r) { return r.op == op; });
  return found == std::end(kKinds) ? Kind::kOther : found->kind;
}

// Numbers that each rise evenly with the positions: as they are for `length` of them, and by how much.
struct Line {
  Shape shape;
  std::vector<double> here, slope;

  bool level() const {
    return std::all_of(slope.begin(), slope.end(), [](double s) { return s == 0; });
  }
  bool whole() const {
    const auto whole = [](double x) { return x == std::floor(x); };
    return std::all_of(here.begin(), here.end(), whole) && std::all_of(slope.begin(), slope.end(), whole);
  }
};

class Judge {
 public:
  Judge(int64_t length, int64_t rows, int64_t step) : length_(length), rows_(rows), step_(step) {}

  enum class Verdict : uint8_t { kKnown, kDecided, kUnfollowed };
  Verdict Of(const KnownNode& node, const std::vector<Three>& inputs, const Three& result) const;

 private:
  enum class From : uint8_t { kStart, kEnd };
  std::optional<Line> LineOf(const Three& value, From from) const;
  bool Level(const Three& value, From from) const {
    const auto line = LineOf(value, from);
    return line && line->level();
  }
  bool AllLevel(const std::vector<Three>& values, From from) const {
    return std::all_of(values.begin(), values.end(), [&](const Three& v) { return Level(v, from); });
  }
  bool Rises(const Three& value) const { return LineOf(value, From::kStart).has_value(); }
  bool NeverCross(const std::string& op, const Line& a, const Line& b) const;
  bool Settled(const std::string& op, const std::vector<Three>& inputs) const;
  bool KnownCast(const Three& from, const Three& to) const;
  bool KnownQuotient(const std::vector<Three>& inputs) const;

  const int64_t length_, rows_, step_;
};

// As the places of `value` are counted from the first one along every dim that grows, or from the last one.
std::optional<Line> Judge::LineOf(const Three& value, From from) const {
  if (!value.has_data()) return std::nullopt;
  ir::View views[3];
  int64_t shortest[kMaxRank];
  const Shape& shape = value.shape();
  for (int d = 0; d < shape.rank; ++d) {
    int64_t dims[3];
    for (int k = 0; k < 3; ++k) {
      if (value.of[k]->shape.rank != shape.rank) return std::nullopt;
      dims[k] = value.of[k]->shape[d];
    }
    const int64_t more = dims[1] - dims[0];
    if ((more != 0 && more != step_) || dims[2] - dims[1] != more) return std::nullopt;
    shortest[d] = std::min(dims[0], dims[2]);
  }
  std::vector<int64_t> places[3];
  for (int k = 0; k < 3; ++k) {
    views[k] = ir::DenseView(value.of[k]->shape);
    for (int d = 0; d < shape.rank; ++d) {
      const int64_t behind = value.of[k]->shape[d] - shortest[d];
      views[k] = ir::Slice(views[k], d, from == From::kEnd ? behind : 0, 1, shortest[d]);
    }
    places[k] = ir::ResolveAll(views[k]);
  }
  Line line{shape, std::vector<double>(static_cast<size_t>(shape.elements())), {}};
  line.slope = line.here;
  for (size_t i = 0; i < line.here.size(); ++i) line.here[i] = value.At(0, static_cast<int64_t>(i));
  for (size_t i = 0; i < places[0].size(); ++i) {
    const double a = value.At(0, places[0][i]), b = value.At(1, places[1][i]), c = value.At(2, places[2][i]);
    if (a == b && b == c) continue;
    const double near = IsFloat(value.dtype()) ? 1e-6 * std::max(1.0, std::abs(c - a)) : 0;
    if (value.dtype() == DType::kBool || !(std::abs(c - a - 2 * (b - a)) <= near)) return std::nullopt;
    line.slope[static_cast<size_t>(places[0][i])] = (b - a) / static_cast<double>(step_);
  }
  if (places[0].size() == line.here.size() || places[0].empty()) return line;
  // What the shortest has not is known only where all rise alike.
  const double one = line.slope[static_cast<size_t>(places[0][0])];
  for (const int64_t place : places[0]) {
    if (line.slope[static_cast<size_t>(place)] != one) return std::nullopt;
  }
  std::fill(line.slope.begin(), line.slope.end(), one);
  return line;
}

// Whether what `op` says of a and b is the same for every number of positions up to `length`: what rises
// evenly changes its sign between the ends or not at all.
bool Judge::NeverCross(const std::string& op, const Line& a, const Line& b) const {
  Shape shape;
  if (!ir::BroadcastShapes(a.shape, b.shape, &shape)) return false;
  const std::vector<int64_t> in_a = ir::ResolveAll(ir::Expand(ir::DenseView(a.shape), shape)),
                             in_b = ir::ResolveAll(ir::Expand(ir::DenseView(b.shape), shape));
  const auto back = static_cast<double>(rows_ - length_);
  for (size_t i = 0; i < in_a.size(); ++i) {
    const auto x = static_cast<size_t>(in_a[i]), y = static_cast<size_t>(in_b[i]);
    const double last = a.here[x] - b.here[y], first = last + back * (a.slope[x] - b.slope[y]);
    bool same = (last < 0) == (first < 0);
    if (op == "Greater" || op == "LessOrEqual") same = (last > 0) == (first > 0);
    if (op == "Equal") same = same && (last > 0) == (first > 0);
    if (op == "Min" || op == "Max" || op == "Clip")
      same = (last <= 0 && first <= 0) || (last >= 0 && first >= 0);
    if (!same) return false;
  }
  return true;
}

bool Judge::Settled(const std::string& op, const std::vector<Three>& inputs) const {
  const auto never = [&](const Three& x, const Three& y) {
    for (const From from : {From::kStart, From::kEnd}) {
      const auto a = LineOf(x, from), b = LineOf(y, from);
      if (a && b && NeverCross(op, *a, *b)) return true;
    }
    return false;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t j = i + 1; j < inputs.size(); ++j) {
      if (inputs[i].of[0]->given && inputs[j].of[0]->given && !never(inputs[i], inputs[j])) return false;
    }
  }
  return true;
}

bool Judge::KnownCast(const Three& from, const Three& to) const {
  const auto line = LineOf(from, From::kStart);
  if (!line) return false;
  if (to.dtype() != DType::kBool) return !IsFloat(from.dtype()) || IsFloat(to.dtype()) || line->whole();
  const Line zero{Shape{}, {0}, {0}};
  return NeverCross("Equal", *line, zero);
}

bool Judge::KnownQuotient(const std::vector<Three>& inputs) const {
  const auto a = LineOf(inputs[0], From::kStart), b = LineOf(inputs[1], From::kStart);
  if (!a || !b || inputs[1].Varies()) return false;
  if (IsFloat(inputs[0].dtype())) return true;
  return std::all_of(b->here.begin(), b->here.end(), [&](double by) {
    const auto divides = [&](double x) { return by != 0 && std::fmod(x, by) == 0; };
    return std::all_of(a->here.begin(), a->here.end(), divides) &&
           std::all_of(a->slope.begin(), a->slope.end(), divides);
  });
}

Judge::Verdict Judge::Of(const KnownNode& node, const std::vector<Three>& inputs, const Three& result) const {
  const Kind kind = KindOf(node.op);
  std::vector<Three> vary;
  for (const Three& input : inputs) {
    if (input.Varies()) vary.push_back(input);
  }
  if (vary.empty() || kind == Kind::kControls || kind == Kind::kMoves) return Verdict::kKnown;
  if (node.gives_others || !result.of[0]->given) return Verdict::kDecided;
  const bool follows = !result.Varies() || Rises(result) || Level(result, From::kEnd);
  const Verdict unknown = follows ? Verdict::kDecided : Verdict::kUnfollowed;
  const auto known_if = [&](bool known) { return known ? Verdict::kKnown : unknown; };
  const bool grow = std::any_of(vary.begin(), vary.end(), [](const Three& v) { return v.Grows(); });
  // Element by element, what looks alike from one end on gives what does so.
  if (kind == Kind::kUpTo) return known_if(follows && AllLevel(vary, From::kStart));
  if (IsElementwise(kind) && (AllLevel(vary, From::kStart) || AllLevel(vary, From::kEnd)))
    return known_if(follows);
  switch (kind) {
    case Kind::kAffine: return known_if(follows);
    case Kind::kCompares: return known_if(follows && Settled(node.op, inputs));
    case Kind::kCast: return known_if(follows && KnownCast(inputs[0], result));
    case Kind::kMultiplies: {
      const auto level = [&](const Three& v) { return Level(v, From::kStart); };
      const bool even = std::all_of(vary.begin(), vary.end(), [&](const Three& v) { return Rises(v); }) &&
                        std::count_if(vary.begin(), vary.end(), level) + 1 >= std::ssize(vary);
      return known_if(follows && (vary.size() == 1 || even));
    }
    case Kind::kDivides: return known_if(follows && KnownQuotient(inputs));
    case Kind::kChooses: {
      const bool fixed = !inputs[0].Varies();
      const bool from_start = Level(inputs[0], From::kStart) && Rises(result);
      return known_if(follows && (fixed || from_start));
    }
    case Kind::kLooksUp: return known_if(follows && !inputs.back().Varies());
    case Kind::kAdds: return known_if(follows && !grow);
    default: return unknown;
  }
}

}  // namespace

LengthsInRun FindLengthsInRun(const std::array<std::vector<KnownNode>, 3>& nodes, int64_t length,
                              int64_t rows, int64_t step) {
  const Judge judge(length, rows, step);
  LengthsInRun found;
  const size_t end = std::min({nodes[0].size(), nodes[1].size(), nodes[2].size()});
  for (size_t i = 0; i < end; ++i) {
    const KnownNode& node = nodes[0][i];
    const auto alike = [&](const KnownNode& other) {
      return other.output == node.output && other.inputs.size() == node.inputs.size();
    };
    if (!alike(nodes[1][i]) || !alike(nodes[2][i])) break;
    std::vector<Three> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k)
      inputs.push_back({{&node.inputs[k], &nodes[1][i].inputs[k], &nodes[2][i].inputs[k]}});
    const Three result = {{&node.result, &nodes[1][i].result, &nodes[2][i].result}};
    for (const int shown : ShownFromMovingPlaces(node, inputs, result))
      found.decided.emplace(node.output, shown);
    const Judge::Verdict verdict = judge.Of(node, inputs, result);
    if (verdict == Judge::Verdict::kKnown) continue;
    KnownInRun* list = verdict == Judge::Verdict::kDecided ? &found.decided : &found.unfollowed;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].Varies()) list->emplace(node.output, static_cast<int>(k));
    }
  }
  return found;
}

}  // namespace rondo::importer
