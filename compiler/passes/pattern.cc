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

bool Match::At(const Pattern& pattern, NodeId root) {
  if (!Fits(pattern, graph_.node(root))) return false;
  root_ = root;
  names_ = {};
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
    case Kind::kEither: {
      const Names before = names_;
      const Goal first = {p.inputs[0], goal->seen, goal->next},
                 second = {p.inputs[1], goal->seen, goal->next};
      if (Meets(&first)) return true;
      names_ = before;
      return Meets(&second);
    }
    case Kind::kNode: return MeetsNode(*goal);
  }
  return false;
}

bool Match::MeetsNode(const Goal& goal) {
  const Pattern& p = goal.pattern;
  Seen seen = goal.seen;
  if (behind_ != nullptr && seen.id != root_) seen.id = behind_(graph_, seen.id);
  if (p.shown && graph_.node(seen.id).op == Op::kView) {
    const View view = graph_.ViewOf(seen.id);
    seen.through = std::make_shared<View>(seen.through ? ir::Compose(view, *seen.through) : view);
    seen.id = graph_.BaseOf(seen.id);
  }
  const Node& node = graph_.node(seen.id);
  if (!Fits(p, node) || (p.once && !HasOneReader(seen.id))) return false;
  if (p.name && !Name(*p.name, seen)) return false;
  if (!p.name) names_.nodes.push_back(seen.id);
  const std::vector<Pattern>& in = p.inputs;
  if (in.empty()) return Meets(goal.next);
  if (in.size() == 1) {
    const Goal only = {in[0], {node.inputs[0], seen.through}, goal.next};
    return Meets(&only);
  }
  // Three inputs match in order; of two, a commutative operation also has the other order.
  const auto meets = [&](size_t first, size_t second) {
    const Goal third = {in.back(), {node.inputs.back(), seen.through}, goal.next};
    const Goal* const rest = in.size() == 3 ? &third : goal.next;
    const Goal right = {in[1], {node.inputs[second], seen.through}, rest};
    const Goal left = {in[0], {node.inputs[first], seen.through}, &right};
    return Meets(&left);
  };
  if (!Commutes(p)) return meets(0, 1);
  const Names before = names_;
  if (meets(0, 1)) return true;
  names_ = before;
  return meets(1, 0);
}

bool Match::Name(size_t slot, const Seen& seen) {
  const auto behind = [&](NodeId id) { return behind_ != nullptr ? behind_(graph_, id) : id; };
  Seen& known = names_.seen[slot];
  if (known.id == kNoNode) {
    known = {behind(seen.id), seen.through};
    return true;
  }
  const bool alike =
      known.through == seen.through || (known.through && seen.through && *known.through == *seen.through);
  return known.id == behind(seen.id) && alike;
}

bool Match::HasOneReader(NodeId id) {
  if (!users_) users_ = graph_.AllUsers();
  const size_t at = static_cast<size_t>(id);
  return at < users_->size() && (*users_)[at].size() == 1;
}

NodeId Match::operator[](pattern::Any name) {
  const Seen& seen = names_.seen[name.slot];
  return seen.through ? Make().ViewNode(seen.id, *seen.through) : seen.id;
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
