// Writes that replace some elements of tensors other than states, and custom ops that change an argument.
// Each happens in the memory that it changes if all readers of the old elements can run before; otherwise in
// a copy. Several may change parts of one memory.
#include <algorithm>
#include <cstdlib>

#include "compiler/fusion/in_place/preparation.h"
#include "compiler/ir/rebase.h"

namespace rondo::fusion {

using ir::Region;

namespace {

// False if `view` may show an element twice: a repeated element cannot be changed in one of its places.
bool ShowsEachOnce(const View& view) {
  return std::all_of(view.steps.begin(), view.steps.end(), [](const ir::ViewStep& step) {
    std::vector<ir::IndexDim> dims = ir::JoinedDims(step);
    for (ir::IndexDim& dim : dims) dim.stride = std::abs(dim.stride);
    std::sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.stride < b.stride; });
    int64_t reach = 0;  // extent of the dims before
    for (const ir::IndexDim& dim : dims) {
      if (dim.stride <= reach) return false;
      reach += dim.stride * (dim.extent - 1);
    }
    return true;
  });
}

// Whether `node` changes the memory of its input `slot`.
bool IsTarget(const Node& node, size_t slot) {
  if (node.op == Op::kCall) return node.As<ir::CallAttrs>().info->Changes(slot);
  return node.op == Op::kIndexedWrite && slot == 0;
}

}  // namespace

void Preparation::CopyTargets() {
  const NodeId count = g_.size();
  MarkOutputs();
  late_.clear();
  for (NodeId id = 0; id < count; ++id) {
    for (const Write& write : WritesOf(id)) {
      const std::string because = ChangeInPlace(write);
      if (because.empty()) continue;
      g_.SetInput(id, write.slot, MakeCopy(g_.node(id).inputs[write.slot], because, id));
      ChangeInPlace(write);
    }
  }
}

// What node `id` changes, except states that it changes in their own memory.
std::vector<Preparation::Write> Preparation::WritesOf(NodeId id) {
  const Node& node = g_.node(id);
  if (node.dead || (node.op != Op::kIndexedWrite && node.op != Op::kCall)) return {};
  if (node.op == Op::kIndexedWrite) return {Write{id, 0, id}};
  const ir::CallInfo& info = *node.As<ir::CallAttrs>().info;
  std::vector<NodeId> results(info.num_outputs(), kNoNode);
  results[0] = id;
  for (NodeId user : g_.UsersOf(id)) {
    if (g_.node(user).op == Op::kCallResult) results[g_.node(user).As<ir::CallAttrs>().output] = user;
  }
  std::vector<Write> writes;
  for (uint32_t i = 0; i < info.num_outputs(); ++i) {
    if (info.IsVersion(i)) writes.push_back({id, info.SlotOf(info.output(i).alias), results[i]});
  }
  return writes;
}

// Places a write in the memory of its data, ordered after all readers of what it replaces. Returns "", or why
// that is impossible.
std::string Preparation::ChangeInPlace(const Write& write) {
  const NodeId id = write.runs, data = g_.node(id).inputs[write.slot], base = g_.BaseOf(data);
  if (write.version != kNoNode && c_.places[write.version].InState()) return "";
  if (!IsChangeable(base)) return WhyNotChanged(base);
  if (!ShowsEachOnce(g_.ViewOf(data)))
    return "what " + NameOf(g_, base) + " computes is written to where it is repeated";
  const NodeId first = c_.StorageOf(base);
  const View memory = ir::DenseView(g_.node(first).shape);
  const View holder = c_.places[base].IsVersion() ? c_.places[base].at : memory;
  const View own = ir::Compose(holder, g_.ViewOf(data));
  Region written(own);
  if (g_.node(id).op == Op::kCall) {
    if (!RunOffset(own, g_.node(base).dtype)) return "a custom op changes elements one after another";
  } else {
    const bool whole = ir::IsDense(own, g_.node(first).shape.elements());
    ir::IndexedAttrs attrs = g_.node(id).As<ir::IndexedAttrs>();
    if (!whole && !ir::Rebase(own, &attrs))
      return "an index of " + NameOf(g_, id) + " has no plain stride in the memory of " + NameOf(g_, base);
    written = Region::OfWrite(attrs);
  }
  const Change change = {write, base, first, own, written};
  std::vector<NodeId> before;
  std::vector<LateRead> late;
  if (!SortReaders(change, holder, &before, &late)) return WhyNotChanged(base);
  for (const LateRead& read : late_[first]) {
    if (!read.region.Meets(change.written)) continue;
    if (g_.node(read.reader).op == Op::kConcat || g_.Reaches(id, read.reader)) return WhyNotChanged(base);
    before.push_back(read.reader);
  }
  for (NodeId reader : before) {
    if (!g_.Reaches(reader, id)) g_.RunAfter(id, reader);
  }
  std::vector<LateRead>& all = late_[first];
  all.insert(all.end(), late.begin(), late.end());
  if (g_.node(id).op == Op::kCall) c_.places[first].own_order = true;
  c_.places[first].Put(Place::How::kVersion, first, memory);
  if (write.version != kNoNode)
    c_.places[write.version].Put(Place::How::kVersion, first, ir::Reshape(own, g_.node(write.version).shape));
  return "";
}

// Whether `base` has memory of its own that is not visible under another name at the end.
bool Preparation::IsChangeable(NodeId base) {
  const Op op = g_.node(base).op;
  return (!c_.IsLeaf(base) || IsGivenAway(base)) && op != Op::kIota && !c_.places[base].InState() &&
         !IsOutput(base) && ReadsPiecesAlone(base);
}

// Whether only the concatenation `base` reads its pieces, and those of concatenations among them; other
// readers would read the same memory.
bool Preparation::ReadsPiecesAlone(NodeId base) {
  std::vector<NodeId> work = {base};
  while (!work.empty()) {
    const NodeId concat = work.back();
    work.pop_back();
    if (g_.node(concat).op != Op::kConcat) continue;
    for (NodeId piece : g_.node(concat).inputs) {
      const NodeId of = FirstVersion(g_, g_.BaseOf(piece));
      if (c_.IsLeaf(of)) continue;
      if (of != g_.BaseOf(piece) || IsOutput(of) || ReadersOf(of) != std::vector<NodeId>{concat})
        return false;
      work.push_back(of);
    }
  }
  return true;
}

// Sorts the readers of the changed version: those that must run before, and those that read other elements
// and may run at any time. False if a reader would be too late. `place`: the place of the version.
bool Preparation::SortReaders(const Change& change, const View& place, std::vector<NodeId>* before,
                              std::vector<LateRead>* late) {
  constexpr size_t kMostLate = 64;
  for (NodeId reader : ReadersOf(change.base)) {
    const Node& node = g_.node(reader);
    if (node.op == Op::kCallResult || node.op == Op::kLoopResult) continue;  // written by the node itself
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (g_.BaseOf(node.inputs[k]) != change.base) continue;
      const bool target = IsTarget(node, k);
      if (reader == change.write.runs && k == change.write.slot) continue;
      const Region region(ir::Compose(place, g_.ViewOf(node.inputs[k])));
      if (target) {
        // Others will read what it leaves there.
        if (region.Meets(Region(change.own))) return false;
      } else if (!region.Meets(change.written)) {
        late->push_back({reader, region});
      } else if (node.op == Op::kConcat || g_.Reaches(change.write.runs, reader)) {
        return false;  // a concatenation may lie in the memory of its pieces
      } else {
        before->push_back(reader);
      }
    }
  }
  return late->size() + late_[change.first].size() <= kMostLate;
}

}  // namespace rondo::fusion
