#include "compiler/passes/pattern.h"

namespace rondo::passes {

namespace pattern {

Pattern Pattern::As(Any given) const {
  Pattern p = *this;
  p.name = given.slot;
  return p;
}

Pattern Pattern::Once() const {
  Pattern p = *this;
  p.once = true;
  return p;
}

Pattern Pattern::Shown() const {
  Pattern p = *this;
  p.shown = true;
  return p;
}

Pattern Pattern::If(bool (*condition)(const Graph&, const Node&)) const {
  Pattern p = *this;
  p.condition = condition;
  return p;
}

Pattern operator|(Pattern p, Pattern q) {
  Pattern either(0);
  either.kind = Pattern::Kind::kEither;
  either.inputs = {std::move(p), std::move(q)};
  return either;
}

}  // namespace pattern

using pattern::Pattern;

namespace {

bool Commutes(const Pattern& p) {
  return p.inputs.size() == 2 && (p.tape == TapeOp::kAdd || p.tape == TapeOp::kMul ||
                                  p.tape == TapeOp::kMax || p.tape == TapeOp::kMin);
}

// Whether the node is of the pattern's operation, or of one of them.
bool Fits(const Pattern& p, const Node& node) {
  if (p.kind == Pattern::Kind::kEither) return Fits(p.inputs[0], node) || Fits(p.inputs[1], node);
  if (p.kind != Pattern::Kind::kNode) return true;
  if (node.op != p.op) return false;
  if (node.op == Op::kPointwise) return node.As<ir::PointwiseAttrs>().op == p.tape;
  return node.op != Op::kReduce || p.inputs.empty() || node.As<ir::ReduceAttrs>().kind == p.reduce;
}

}  // namespace

void PatternIndex::Add(const Pattern& pattern, size_t number) {
  if (pattern.kind == Pattern::Kind::kEither) {
    for (const Pattern& one : pattern.inputs) Add(one, number);
    return;
  }
  std::vector<size_t>& of = of_[Place(pattern.op, pattern.tape)];
  if (of.empty() || of.back() != number) of.push_back(number);
}

bool Match::At(const Pattern& pattern, NodeId root) {
  if (!Fits(pattern, graph_.node(root))) return false;
  root_ = root;
  names_ = {};
  nodes_.clear();
  views_.clear();
  const Goal whole = {pattern, {root, nullptr}, nullptr};
  return Meets(&whole);
}

bool Match::Meets(const Goal* goal) {
  if (goal == nullptr) return true;
  using Kind = Pattern::Kind;
  const Pattern& p = goal->pattern;
  switch (p.kind) {
    case Kind::kName: return Name(*p.name, goal->seen) && Meets(goal->next);
    case Kind::kNumber:
    case Kind::kValue: {
      const std::optional<double> value = UniformValue(graph_, goal->seen.id);
      if (!value || (p.kind == Kind::kValue && *value != p.value)) return false;
      if (p.kind == Kind::kNumber) {
        std::optional<double>& known = names_.numbers[*p.name];
        if (known && *known != *value) return false;
        known = value;
      }
      return Meets(goal->next);
    }
    case Kind::kEither:
      return MeetsEither({p.inputs[0], goal->seen, goal->next}, {p.inputs[1], goal->seen, goal->next});
    case Kind::kNode: return MeetsNode(*goal);
  }
  return false;
}

bool Match::MeetsNode(const Goal& goal) {
  const Pattern& p = goal.pattern;
  Seen seen = goal.seen;
  for (;;) {
    if (behind_ != nullptr && seen.id != root_) seen.id = behind_(graph_, seen.id);
    if (!p.shown || graph_.node(seen.id).op != Op::kView) break;
    const View view = graph_.ViewOf(seen.id);
    seen.through = &views_.emplace_back(seen.through != nullptr ? ir::Compose(view, *seen.through) : view);
    seen.id = graph_.BaseOf(seen.id);
  }
  const Node& node = graph_.node(seen.id);
  if (!Fits(p, node) || (p.condition != nullptr && !p.condition(graph_, node))) return false;
  if (p.once && !HasOneReader(seen.id)) return false;
  if (p.name && !Name(*p.name, seen)) return false;
  if (!p.name) nodes_.push_back(seen.id);
  if (node.op != Op::kPointwise) seen.through = nullptr;
  const std::vector<Pattern>& in = p.inputs;
  if (in.empty()) return Meets(goal.next);
  if (in.size() == 1) {
    const Goal only = {in[0], {node.inputs[0], seen.through}, goal.next};
    return Meets(&only);
  }
  // Three inputs match in order; of two, those of a commutative operation also in the other.
  const Goal third = {in.back(), {node.inputs.back(), seen.through}, goal.next};
  const Goal* const rest = in.size() == 3 ? &third : goal.next;
  const Seen left = {node.inputs[0], seen.through}, right = {node.inputs[1], seen.through};
  const Goal last = {in[1], right, rest}, turned = {in[1], left, rest};
  const Goal first = {in[0], left, &last};
  return Commutes(p) ? MeetsEither(first, {in[0], right, &turned}) : Meets(&first);
}

bool Match::MeetsEither(const Goal& first, const Goal& second) {
  const Names before = names_;
  const size_t nodes = nodes_.size();
  if (Meets(&first)) return true;
  names_ = before;
  nodes_.resize(nodes);
  return Meets(&second);
}

bool Match::Name(size_t slot, const Seen& seen) {
  const auto behind = [&](NodeId id) { return behind_ != nullptr ? behind_(graph_, id) : id; };
  Seen& known = names_.seen[slot];
  if (known.id == kNoNode) {
    known = seen;
    return true;
  }
  const bool alike = known.through == seen.through ||
                     (known.through != nullptr && seen.through != nullptr && *known.through == *seen.through);
  return behind(known.id) == behind(seen.id) && alike;
}

bool Match::HasOneReader(NodeId id) {
  if (!users_) users_ = graph_.AllUsers();
  const size_t at = static_cast<size_t>(id);
  return at < users_->size() && (*users_)[at].size() == 1;
}

NodeId Match::operator[](pattern::Any name) {
  const Seen& seen = names_.seen[name.slot];
  return seen.through != nullptr ? Make().ViewNode(seen.id, *seen.through) : seen.id;
}

NodeId Match::Make(const Pattern& p) {
  using Kind = Pattern::Kind;
  Builder b = Make();
  switch (p.kind) {
    case Kind::kName: return (*this)[pattern::Any{*p.name}];
    case Kind::kNumber: return b.Scalar(node().dtype, *names_.numbers[*p.name]);
    case Kind::kValue: return b.Scalar(node().dtype, p.value);
    default: break;
  }
  std::vector<NodeId> in;
  for (const Pattern& input : p.inputs) in.push_back(Make(input));
  return in.size() == 1   ? b.Unary(p.tape, in[0])
         : in.size() == 2 ? b.Binary(p.tape, in[0], in[1])
                          : b.Select(in[0], in[1], in[2]);
}

}  // namespace rondo::passes
