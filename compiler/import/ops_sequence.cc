// Sequences of tensors. Their length and order are known at import, so they are lists of values.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr int64_t kMaxPieces = 1 << 16;

Result<std::vector<NodeId>> Sequence(const OpContext& c, int i) {
  if (i < c.num_inputs() && c.InValue(i).is_sequence) return c.InValue(i).sequence;
  return Status::Error(Code::kCorrupt, "input %d is not a sequence", i);
}

// A position in a sequence of n, from constant input `i`, that must be below `end`; a negative one counts
// from n.
Result<size_t> Position(const OpContext& c, int i, size_t n, size_t end) {
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> at, c.ConstantInts(i));
  int64_t size = static_cast<int64_t>(n);
  if (at.size() != 1 || at[0] < -size || at[0] >= static_cast<int64_t>(end))
    return Status::Error(Code::kCorrupt, "a position out of range");
  return static_cast<size_t>(at[0] < 0 ? at[0] + size : at[0]);
}

Status SequenceEmpty(OpContext& c) {
  c.SetValue(0, Value{kNoNode, true, {}});
  return Status::Ok();
}

Status SequenceConstruct(OpContext& c) {
  Value list{kNoNode, true, {}};
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
    list.sequence.push_back(c.In(i));
  }
  c.SetValue(0, std::move(list));
  return Status::Ok();
}

Status SequenceInsert(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> list, Sequence(c, 0));
  size_t at = list.size();
  if (c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(at, Position(c, 2, list.size(), list.size() + 1));
  }
  if (!c.Has(1)) return Status::Error(Code::kCorrupt, "input 1 is missing");
  list.insert(list.begin() + static_cast<int64_t>(at), c.In(1));
  c.SetValue(0, Value{kNoNode, true, std::move(list)});
  return Status::Ok();
}

Status SequenceErase(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> list, Sequence(c, 0));
  if (list.empty()) return Status::Error(Code::kCorrupt, "the sequence is empty");
  size_t at = list.size() - 1;
  if (c.Has(1)) {
    RONDO_ASSIGN_OR_RETURN(at, Position(c, 1, list.size(), list.size()));
  }
  list.erase(list.begin() + static_cast<int64_t>(at));
  c.SetValue(0, Value{kNoNode, true, std::move(list)});
  return Status::Ok();
}

Status SequenceAt(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> list, Sequence(c, 0));
  const Result<size_t> at = Position(c, 1, list.size(), list.size());
  // In a branch chosen at run time, a position out of range is a fault only if the branch is taken.
  const bool counts = c.b.faults_where() == kNoNode || list.empty() || at.status().code() != Code::kCorrupt;
  if (!at.ok() && counts) return at.status();
  return c.Give(at.ok() ? list[*at] : Unreadable(c.b, c.b.dtype(list[0]), c.b.shape(list[0])));
}

Status SequenceLength(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> list, Sequence(c, 0));
  return c.Give(c.b.Ints(DType::kI64, Shape{}, {static_cast<int64_t>(list.size())}));
}

// Without lengths, pieces have one element each, and their axis is dropped unless keepdims is set.
Status SplitToSequence(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  const ir::Size size = c.SizeOf(0, axis);
  const int64_t n = size.extent();
  ir::Dims lengths;
  if (c.Has(1)) {
    RONDO_ASSIGN_OR_RETURN(lengths, c.Sizes(1));
  }
  const bool even = !c.Has(1) || (c.rank(1) == 0 && lengths[0].extent() >= 1);
  if (even) {
    const ir::Size each = c.Has(1) ? lengths[0] : 1;
    if (!size.known() || !each.known()) {
      return Status::Error(Code::kUnsupported, "pieces of %s of an axis of %s", each.Text().c_str(),
                           size.Text().c_str());
    }
    if (n / each.extent() > kMaxPieces) {
      return Status::Error(Code::kUnsupported, "%lld pieces; the limit is %lld",
                           static_cast<long long>(n / each.extent()), static_cast<long long>(kMaxPieces));
    }
    lengths.clear();
    for (int64_t left = n; left > 0; left -= each.extent()) lengths.push_back(std::min(left, each.extent()));
  }
  bool drop = !c.Has(1) && c.Int("keepdims", 1) == 0;
  Value list{kNoNode, true, {}};
  ir::Size start = 0;
  for (const ir::Size& length : lengths) {
    if (length.extent() < 0 || (start + length).extent() > n)
      return Status::Error(Code::kCorrupt, "pieces that do not fit");
    const Shape none = WithDim(c.shape(0), axis, 0);
    NodeId piece = length.extent() == 0 ? c.b.Constant(ir::ConstantData::Own(c.dtype(0), none, {}))
                                        : SliceOf(c.b, c.In(0), axis, start, 1, length);
    list.sequence.push_back(drop ? c.b.Squeeze(piece, axis) : piece);
    start = start + length;
  }
  if (!(start == size)) return Status::Error(Code::kCorrupt, "pieces that do not fit");
  c.SetValue(0, std::move(list));
  return Status::Ok();
}

Status ConcatFromSequence(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> list, Sequence(c, 0));
  if (list.empty()) return Status::Error(Code::kCorrupt, "the sequence is empty");
  bool fresh = c.Int("new_axis", 0) != 0;
  int rank = c.b.shape(list[0]).rank + (fresh ? 1 : 0);
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), rank));
  if (rank > kMaxRank) return Status::Error(Code::kUnsupported, "more than %d dimensions", kMaxRank);
  for (NodeId& x : list) {
    if (fresh) x = c.b.Unsqueeze(x, axis);
    if (c.b.shape(x).rank != rank || c.b.dtype(x) != c.b.dtype(list[0]) ||
        !(WithDim(c.b.shape(x), axis, 0) == WithDim(c.b.shape(list[0]), axis, 0))) {
      return Status::Error(Code::kCorrupt, "its tensors cannot be joined along axis %d", axis);
    }
  }
  return c.Give(c.b.Concat(list, axis));
}

// Runs the body on each tensor of the first sequence, with the tensors at the same place in other sequences,
// and with tensors that stay the same.
Status SequenceMap(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<NodeId> first, Sequence(c, 0));
  const onnx::AttributeProto* body = c.Attribute("body");
  if (body == nullptr || !body->has_g()) return Status::Error(Code::kCorrupt, "it has no body");
  std::vector<Value> results(static_cast<size_t>(c.num_outputs()), Value{kNoNode, true, {}});
  for (size_t at = 0; at < first.size(); ++at) {
    std::vector<Value> inputs;
    for (int i = 0; i < c.num_inputs(); ++i) {
      const Value& value = c.InValue(i);
      if (value.is_sequence && at >= value.sequence.size())
        return Status::Error(Code::kCorrupt, "sequences of %zu and %zu tensors", first.size(),
                             value.sequence.size());
      inputs.push_back(value.is_sequence ? Value{value.sequence[at], false, {}} : value);
    }
    RONDO_ASSIGN_OR_RETURN(const std::vector<Value> out, c.host.RunSubgraph(body->g(), inputs));
    for (size_t i = 0; i < results.size(); ++i) {
      if (i >= out.size() || out[i].is_sequence || out[i].node == kNoNode || out[i].bits != 0)
        return Status::Error(Code::kCorrupt, "its body gives no tensor for output %zu", i);
      results[i].sequence.push_back(out[i].node);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) c.SetValue(static_cast<int>(i), std::move(results[i]));
  return Status::Ok();
}

bool IsThere(const OpContext& c, int i) {
  return c.Has(i) || (i < c.num_inputs() && c.InValue(i).is_sequence);
}

// An optional is imported as its element. Whether it has one is known at compile time.
Status OptionalOf(OpContext& c) {
  if (!IsThere(c, 0)) return Status::Error(Code::kUnsupported, "an optional that holds nothing");
  c.SetValue(0, c.InValue(0));
  return Status::Ok();
}

Status OptionalHasElement(OpContext& c) {
  return c.Give(c.b.Ints(DType::kBool, Shape{}, {IsThere(c, 0) ? 1 : 0}));
}

constexpr OpRow kOps[] = {
    {"Optional", 0, OptionalOf, 15, kLatest, "", true},
    {"OptionalGetElement", 1, OptionalOf, 15, kLatest, "", true},
    {"OptionalHasElement", 0, OptionalHasElement, 15, kLatest, "", true},
    {"SequenceMap", 1, SequenceMap, 17, kLatest, "", true},
    {"SequenceEmpty", 0, SequenceEmpty},
    {"SequenceConstruct", 1, SequenceConstruct},
    {"SequenceInsert", 2, SequenceInsert, 1, kLatest, "", true},
    {"SequenceErase", 1, SequenceErase, 1, kLatest, "", true},
    {"SequenceAt", 2, SequenceAt, 1, kLatest, "", true},
    {"SequenceLength", 1, SequenceLength, 1, kLatest, "", true},
    {"SplitToSequence", 1, SplitToSequence},
    {"ConcatFromSequence", 1, ConcatFromSequence, 1, kLatest, "", true},
};

}  // namespace

Span<const OpRow> SequenceOps() { return kOps; }

}  // namespace rondo::importer
