// Pieces of concatenations: each is computed in its place, or copied there.
#include "compiler/fusion/in_place/preparation.h"
#include "compiler/ir/rebase.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

// Computes every piece of a concatenation in its place, or copies it there. Outer concatenations come first:
// the place of a piece must be plain strides in the memory of the outermost one.
void Preparation::CopyConcatPieces() {
  MarkOutputs();
  std::unordered_map<NodeId, View> insides;  // for concatenations inside others: their place in the outermost
  const std::vector<NodeId> order = g_.TopologicalOrder();
  for (size_t i = order.size(); i-- > 0;) {
    const NodeId id = order[i];
    if (g_.node(id).op != Op::kConcat) continue;
    const auto outer = insides.find(id);
    const View whole = outer == insides.end() ? ir::DenseView(g_.node(id).shape) : outer->second;
    if (const NodeId joined = JoinedWhole(id);
        joined != kNoNode && MayBeRunAt(ir::Reshape(whole, g_.node(joined).shape), joined, id)) {
      c_.places[joined].Put(Place::How::kPart, id,
                            ir::Reshape(ir::DenseView(g_.node(id).shape), g_.node(joined).shape));
      continue;
    }
    if (LiesInAnother(id, insides)) continue;
    const int axis = g_.node(id).As<ir::ConcatAttrs>().axis;
    int64_t start = 0;
    std::vector<NodeId> copies;  // made because the concatenation is annotated
    for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
      const NodeId piece = g_.node(id).inputs[k];
      const Shape shape = g_.node(piece).shape;
      if (shape.elements() == 0) continue;
      View place = ir::Slice(ir::DenseView(g_.node(id).shape), axis, start, 1, shape[axis]), inside = place;
      start += shape[axis];
      NodeId holder = FirstVersion(g_, g_.BaseOf(piece));
      std::string because = WhyNotInPlace(piece, holder, whole, &inside);
      const bool own = g_.annotated && !ir::MayShareKernel(g_.node(id), Node()) &&
                       !ir::MayShareKernel(g_.node(id), g_.node(holder));
      if (own) because = NameOf(g_, id) + " is annotated, and puts what others compute beside others itself";
      if (because.empty() && !MayBeRunAt(ir::Compose(whole, inside), holder, id))
        because = NameOf(g_, holder) + " is put beside others, and not one after another there";
      if (because.empty()) place = inside;
      if (!because.empty()) {
        holder = MakeCopy(piece, because, id);
        if (own) {
          g_.node(holder).annotations = g_.node(id).annotations;
          g_.node(holder).sources = g_.node(id).sources;
          copies.push_back(holder);
        }
        g_.SetInput(id, k, holder);
      } else if (g_.node(holder).op == Op::kConcat) {
        insides[holder] = ir::Compose(whole, place);
      }
      c_.places[holder].Put(Place::How::kPart, id, place);
    }
    // They wait for one another's pieces, so that one kernel can compute them all.
    for (NodeId copy : copies) {
      for (NodeId other : copies) {
        const NodeId maker = g_.BaseOf(g_.node(other).inputs[0]);
        if (copy != other && !c_.IsLeaf(maker) && !g_.Reaches(copy, maker)) g_.RunAfter(copy, maker);
      }
    }
  }
}

// The tensor whose parts concatenation `id` puts together again in their old places, some of them changed
// there; kNoNode if it does something else.
NodeId Preparation::JoinedWhole(NodeId id) const {
  const Node& concat = g_.node(id);
  const int axis = concat.As<ir::ConcatAttrs>().axis;
  if (g_.annotated && !ir::MayShareKernel(concat, Node())) return kNoNode;
  NodeId first = kNoNode;
  int64_t start = 0;
  for (NodeId piece : concat.inputs) {
    const NodeId base = g_.BaseOf(piece);
    const Place& placed = c_.places[base];
    if (placed.how != Place::How::kVersion || IsOutput(base)) return kNoNode;
    if (first == kNoNode) first = placed.in;
    const int64_t extent = g_.node(piece).shape[axis];
    const auto lies = RunOffset(ir::Compose(placed.at, g_.ViewOf(piece)), concat.dtype);
    const auto wanted =
        RunOffset(ir::Slice(ir::DenseView(concat.shape), axis, start, 1, extent), concat.dtype);
    if (placed.in != first || !lies || lies != wanted) return kNoNode;
    start += extent;
  }
  const Node& memory = g_.node(first);
  const bool own = !c_.IsLeaf(first) && memory.op != Op::kIota && memory.op != Op::kLoopResult &&
                   memory.op != Op::kConcat && !IsOutput(first) && c_.PartOf(first) == kNoNode;
  return own && memory.shape.elements() == concat.shape.elements() ? first : kNoNode;
}

// Dense blocks concatenate what they have at each layer: all but the last concatenation lie in a longer one,
// whose pieces they repeat. Puts concatenation `id` there if so. `insides`: as in CopyConcatPieces.
bool Preparation::LiesInAnother(NodeId id, const std::unordered_map<NodeId, View>& insides) {
  const Node& concat = g_.node(id);
  const int axis = concat.As<ir::ConcatAttrs>().axis;
  if (c_.places[id].how != Place::How::kOwn || IsOutput(id) || concat.inputs.empty() ||
      (g_.annotated && !ir::MayShareKernel(concat, Node())))
    return false;
  NodeId longer = kNoNode;
  View place;
  int64_t start = 0;
  for (const NodeId piece : concat.inputs) {
    const NodeId base = g_.BaseOf(piece);
    const NodeId in = c_.PartOf(base);
    if (in == kNoNode || g_.node(in).op != Op::kConcat || (longer != kNoNode && in != longer)) return false;
    const View at = ir::Compose(c_.places[base].at, g_.ViewOf(piece));
    if (!at.affine() || at.shape().rank != concat.shape.rank) return false;
    if (longer == kNoNode) {
      longer = in;
      place = at;
      place.steps[0].shape = concat.shape;
    }
    if (!(at == ir::Slice(place, axis, start, 1, g_.node(piece).shape[axis]))) return false;
    start += g_.node(piece).shape[axis];
  }
  const auto outer = insides.find(longer);
  const View whole = outer == insides.end() ? place : ir::Compose(outer->second, place);
  if (!whole.affine() || !MayBeRunAt(whole, id, longer)) return false;
  c_.places[id].Put(Place::How::kPart, longer, std::move(place));
  return true;
}

// Why a piece cannot be computed in its place, in a concatenation placed at `whole`; "" if it can. Then
// `place`, the place of the piece, becomes that of `holder`, whose memory holds the piece.
std::string Preparation::WhyNotInPlace(NodeId piece, NodeId holder, const View& whole, View* place) const {
  const NodeId base = g_.BaseOf(piece);
  const std::string what = NameOf(g_, base);
  const Op op = g_.node(holder).op;
  if (c_.IsLeaf(holder) || op == Op::kIota) return what + " is put beside others, and lies elsewhere";
  if (c_.places[base].InState() || c_.PartOf(holder) != kNoNode || IsOutput(base) || IsOutput(holder))
    return what + " is put beside others, and has another place in memory as well";
  if (op == Op::kLoopResult) return what + " is put beside others, and computed in memory of its own";
  std::optional<View> behind = ir::PlaceBehind(g_.ViewOf(piece), g_.node(base).shape, *place);
  if (!behind || !IsWhole(base))
    return "of what " + what + " computes a part, or some of it several times, is put beside others";
  View moved = ir::Reshape(*behind, g_.node(holder).shape);
  const View inside = ir::Compose(whole, moved);
  if (!inside.affine() || !MayBeWrittenAt(inside, base))
    return "the place of " + what + " beside others has no plain strides";
  *place = std::move(moved);
  return "";
}

// Whether the kernel that computes `holder`, or changes it, can write to memory placed at `place` in
// `concat`; if it requires its own element order, `concat` then gets that.
bool Preparation::MayBeRunAt(const View& place, NodeId holder, NodeId concat) {
  const Op op = g_.node(holder).op;
  if (op != Op::kCollective && op != Op::kCall && op != Op::kCallResult && !c_.places[holder].own_order)
    return true;
  if (!RunOffset(place, g_.node(holder).dtype)) return false;
  for (NodeId outer = concat; outer != kNoNode; outer = c_.PartOf(outer)) c_.places[outer].own_order = true;
  return true;
}

// Whether the writes that made `version` may go to memory placed at `place`.
bool Preparation::MayBeWrittenAt(const View& place, NodeId version) const {
  for (ir::VersionStep step = ir::VersionStepOf(g_, version); step.runs != kNoNode;
       step = ir::VersionStepOf(g_, version)) {
    const Node& write = g_.node(step.runs);
    if (write.op == Op::kCall) {  // MayBeRunAt checks this
      version = g_.BaseOf(write.inputs[step.slot]);
      continue;
    }
    ir::IndexedAttrs attrs = write.As<ir::IndexedAttrs>();
    if (!ir::Rebase(place, &attrs)) return false;
    version = g_.BaseOf(write.inputs[step.slot]);
  }
  return true;
}

}  // namespace rondo::fusion
