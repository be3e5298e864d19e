// Patterns of nodes, as values that read like the expressions that they match:
//
//   using namespace pattern;
//   Pattern twice = (x * a).Once() * b;
//
// matches a node that multiplies by a constant what another node has multiplied by a constant, if nothing
// else reads that node. Names are defined here: x, y, z for nodes, a, b for numbers.
//
// A pattern is matched from a node, its root, towards inputs. Operands of commutative operations match in
// either order. A name that occurs twice stands for the same node, or the same number.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/match.h"

namespace rondo::passes {

namespace pattern {

// A name for a node of any kind.
struct Any {
  size_t slot;
};
inline constexpr Any x{0}, y{1}, z{2};
inline constexpr size_t kNodeNames = 3;
// A name for a constant (or a view of one) with the same value in all elements.
struct Number {
  size_t slot;
};
inline constexpr Number a{0}, b{1};
inline constexpr size_t kNumberNames = 2;

struct Pattern {
  enum class Kind : uint8_t { kName, kNumber, kValue, kNode, kEither };

  Pattern(Any name) : kind(Kind::kName), name(name.slot) {}
  Pattern(Number name) : kind(Kind::kNumber), name(name.slot) {}
  // A constant with this value in all elements.
  Pattern(double value) : kind(Kind::kValue), value(value) {}
  // A node of this operation, whatever its inputs.
  Pattern(Op op) : kind(Kind::kNode), op(op) {}
  // A pointwise node.
  Pattern(TapeOp op, std::vector<Pattern> inputs)
      : kind(Kind::kNode), op(Op::kPointwise), tape(op), inputs(std::move(inputs)) {}
  // A reduction, along any axes.
  Pattern(ir::ReduceKind kind, Pattern of)
      : kind(Kind::kNode), op(Op::kReduce), reduce(kind), inputs({std::move(of)}) {}

  // The same, with a name.
  Pattern As(Any given) const;
  // The same, if it has only one reader.
  Pattern Once() const;
  // The same, or a view of it. What is named in it is seen through that view, if only elementwise nodes stand
  // between.
  Pattern Shown() const;
  // The same, if the condition holds.
  Pattern If(bool (*condition)(const Graph&, const Node&)) const;

  Kind kind;
  Op op = Op::kPointwise;
  TapeOp tape = TapeOp::kLoad;
  ir::ReduceKind reduce = ir::ReduceKind::kSum;
  double value = 0;
  std::optional<size_t> name;
  bool once = false, shown = false;
  bool (*condition)(const Graph&, const Node&) = nullptr;
  std::vector<Pattern> inputs;  // of kEither: the alternatives
};

inline Pattern operator+(Pattern p, Pattern q) { return {TapeOp::kAdd, {std::move(p), std::move(q)}}; }
inline Pattern operator-(Pattern p, Pattern q) { return {TapeOp::kSub, {std::move(p), std::move(q)}}; }
inline Pattern operator*(Pattern p, Pattern q) { return {TapeOp::kMul, {std::move(p), std::move(q)}}; }
inline Pattern operator/(Pattern p, Pattern q) { return {TapeOp::kDiv, {std::move(p), std::move(q)}}; }
inline Pattern operator-(Pattern p) { return {TapeOp::kNeg, {std::move(p)}}; }
// One or the other.
Pattern operator|(Pattern p, Pattern q);
inline Pattern Cast(Pattern p) { return {TapeOp::kCast, {std::move(p)}}; }
inline Pattern Exp(Pattern p) { return {TapeOp::kExp, {std::move(p)}}; }
inline Pattern IsNan(Pattern p) { return {TapeOp::kIsNan, {std::move(p)}}; }
inline Pattern Max(Pattern p, Pattern q) { return {TapeOp::kMax, {std::move(p), std::move(q)}}; }
inline Pattern Min(Pattern p, Pattern q) { return {TapeOp::kMin, {std::move(p), std::move(q)}}; }
inline Pattern Not(Pattern p) { return {TapeOp::kNot, {std::move(p)}}; }
inline Pattern Pow(Pattern p, Pattern q) { return {TapeOp::kPow, {std::move(p), std::move(q)}}; }
inline Pattern Reciprocal(Pattern p) { return {TapeOp::kReciprocal, {std::move(p)}}; }
inline Pattern Round(Pattern p) { return {TapeOp::kRound, {std::move(p)}}; }
inline Pattern Rsqrt(Pattern p) { return {TapeOp::kRsqrt, {std::move(p)}}; }
inline Pattern Select(Pattern condition, Pattern p, Pattern q) {
  return {TapeOp::kSelect, {std::move(condition), std::move(p), std::move(q)}};
}
inline Pattern Sigmoid(Pattern p) { return {TapeOp::kSigmoid, {std::move(p)}}; }
inline Pattern Sqrt(Pattern p) { return {TapeOp::kSqrt, {std::move(p)}}; }
inline Pattern Sum(Pattern p) { return {ir::ReduceKind::kSum, std::move(p)}; }

}  // namespace pattern

// Of many patterns, those that can match at a node by its operation.
class PatternIndex {
 public:
  // The next pattern; its number is how many were added before. Its root is a node, or one of two.
  void Add(const pattern::Pattern& pattern) { Add(pattern, count_++); }
  // Their numbers, ascending.
  const std::vector<size_t>& At(const Node& node) const {
    return of_[node.op == Op::kPointwise ? Place(node.op, node.As<ir::PointwiseAttrs>().op)
                                         : Place(node.op, TapeOp{})];
  }

 private:
  static size_t Place(Op op, TapeOp tape) {
    return op == Op::kPointwise ? static_cast<size_t>(tape) : 256 + static_cast<size_t>(op);
  }
  void Add(const pattern::Pattern& pattern, size_t number);

  size_t count_ = 0;
  std::vector<std::vector<size_t>> of_ = std::vector<std::vector<size_t>>(512);  // by operation
};

// What the names of a pattern stand for where it matches. Borrows the graph.
class Match {
 public:
  // The node behind casts and views, say, that a pattern ignores.
  using Behind = NodeId (*)(const Graph&, NodeId);

  // With `behind`, inputs are compared as the nodes that it gives for them.
  explicit Match(Graph* graph, Behind behind = nullptr) : graph_(*graph), behind_(behind) {}

  // Whether the pattern matches with `root` as its result; the names are then those of this match. Once
  // counts readers as they were when it was first asked.
  bool At(const pattern::Pattern& pattern, NodeId root);

  Graph& graph() { return graph_; }
  NodeId root() const { return root_; }
  const Node& node() const { return graph_.node(root_); }
  // A new view, if the named node was seen through one.
  NodeId operator[](pattern::Any name);
  double operator[](pattern::Number name) const { return *names_.numbers[name.slot]; }
  DType dtype(pattern::Any name) const { return graph_.node(names_.seen[name.slot].id).dtype; }
  // The matched nodes that have no name, the root first.
  const std::vector<NodeId>& nodes() const { return nodes_; }

  // Makes nodes with the provenance and annotations of the root.
  Builder Make() { return BuilderLike(&graph_, root_); }
  // The expression, of names and numbers that matched; numbers have the root's type.
  NodeId Make(const pattern::Pattern& expression);

 private:
  // A node, and the view through which the root reads it (null: as it is).
  struct Seen {
    NodeId id = kNoNode;
    const View* through = nullptr;
  };
  struct Names {
    std::array<Seen, pattern::kNodeNames> seen;
    std::array<std::optional<double>, pattern::kNumberNames> numbers;
  };
  // What still has to match; a list.
  struct Goal {
    const pattern::Pattern& pattern;
    Seen seen;
    const Goal* next;
  };

  bool Meets(const Goal* goal);
  bool MeetsNode(const Goal& goal);
  bool Name(size_t slot, const Seen& seen);
  // Meets one goal or, if that fails, the other.
  bool MeetsEither(const Goal& first, const Goal& second);
  bool HasOneReader(NodeId id);

  Graph& graph_;
  std::optional<ir::Users> users_;
  Behind behind_;
  NodeId root_ = kNoNode;
  Names names_;
  std::vector<NodeId> nodes_;
  std::deque<View> views_;  // of what was seen through them
};

}  // namespace rondo::passes
