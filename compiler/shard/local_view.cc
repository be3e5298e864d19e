#include "compiler/shard/local_view.h"

#include <span>

namespace rondo::shard {
namespace {

using ir::LoopNest;
using ir::ViewStep;

// The storage as [outer, devices, run], each dim with its own stride.
ViewStep Dealt(int64_t elements, int64_t run, int64_t devices, int64_t outer_stride, int64_t device_stride,
               int64_t run_stride) {
  ViewStep step;
  step.shape = {elements / (run * devices), devices, run};
  step.strides[0] = outer_stride;
  step.strides[1] = device_stride;
  step.strides[2] = run_stride;
  return step;
}

View Over(const ViewStep& storage, const View& view) {
  View out{{storage}};
  out.steps.insert(out.steps.end(), view.steps.begin(), view.steps.end());
  return out;
}

// Maps to the device that holds an element instead of the element.
View HolderOf(const View& view, int64_t elements, int64_t run, int64_t devices) {
  return Over(Dealt(elements, run, devices, 0, 1, 0), view);
}
// Maps to the element's place in its holder's share.
View PlaceOf(const View& view, int64_t elements, int64_t run, int64_t devices) {
  return Over(Dealt(elements, run, devices, run, 0, 1), view);
}

bool Deals(int64_t elements, Sharding sharding, int64_t devices) {
  return sharding.is_split() && elements % (sharding.run * devices) == 0;
}

// The loops of a nest, one list per dim.
using Groups = std::vector<std::vector<ir::IndexDim>>;

Groups GroupsOf(const LoopNest& nest, const ir::AffineMap& map) {
  Groups groups;
  size_t loop = 0;
  for (const auto& factors : nest.factors) {
    groups.emplace_back();
    for (int64_t factor : factors) groups.back().push_back({factor, map.strides[loop++]});
  }
  return groups;
}

bool AllStill(const std::vector<ir::IndexDim>& loops) {
  for (const ir::IndexDim& loop : loops) {
    if (loop.extent > 1 && loop.stride != 0) return false;
  }
  return true;
}

// Whether the loops together count 0, stride, 2 * stride, ... as one loop would; sets its stride.
bool CountAsOne(const std::vector<ir::IndexDim>& loops, int64_t* stride) {
  int64_t next = 0;
  bool first = true;
  *stride = 0;
  for (size_t l = loops.size(); l-- > 0;) {
    if (loops[l].extent == 1) continue;
    if (first) next = *stride = loops[l].stride;
    if (loops[l].stride != next) return false;
    next *= loops[l].extent;
    first = false;
  }
  return true;
}

// A view of `shape` that walks `loops` from `offset` on. None if the loops are too many for a shape.
std::optional<View> ViewOver(const std::vector<ir::IndexDim>& loops, int64_t offset, const Shape& shape) {
  std::vector<ir::IndexDim> joined;
  for (const ir::IndexDim& loop : loops) {
    if (loop.extent == 1) continue;
    if (!joined.empty() && joined.back().stride == loop.stride * loop.extent) {
      joined.back() = {joined.back().extent * loop.extent, loop.stride};
    } else {
      joined.push_back(loop);
    }
  }
  if (joined.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  ViewStep step;
  step.offset = offset;
  for (const ir::IndexDim& loop : joined) {
    step.strides[step.shape.rank] = loop.stride;
    step.shape.dims[step.shape.rank++] = loop.extent;
  }
  return ir::Reshape(View{{step}}, shape);
}

Shape Flat(int64_t elements, int64_t run, int64_t devices) {
  return Shape({elements / (run * devices), devices, run});
}

// Rank `rank`'s share of a view of storage that the device holds whole.
View ShareOfView(const View& view, Sharding to, int64_t devices, int64_t rank) {
  const View flat = ir::Reshape(view, Flat(view.shape().elements(), to.run, devices));
  return ir::Reshape(ir::Slice(flat, 1, rank, 1, 1), LocalShape(view.shape(), to, devices));
}

// The loops of an access over the data: the dims of the values read or written, then one loop per index. Only
// for maps of one step, whose dims must fit in kMaxRank.
std::optional<View> AllAccesses(const ir::IndexedAttrs& attrs) {
  if (!attrs.map.affine()) return std::nullopt;
  ViewStep step = attrs.map.steps[0];
  for (const ir::IndexedDim& dim : attrs.dims) {
    if (step.shape.rank == kMaxRank) return std::nullopt;
    step.strides[step.shape.rank] = dim.stride;
    step.shape.dims[step.shape.rank++] = dim.extent;
  }
  return View{{step}};
}

// Finds the loop that steps from one device to the next. Returns the product of the extents of the loops
// inside it; 0 if there is none.
int64_t BehindHolderLoop(const std::vector<ir::IndexDim>& loops) {
  int64_t behind = 1;
  for (size_t l = loops.size(); l-- > 0;) {
    if (loops[l].extent > 1 && loops[l].stride == 1) return behind;
    if (loops[l].extent > 1 && loops[l].stride != 0) return 0;
    behind *= loops[l].extent;
  }
  return 0;
}

// For an indexed access: the device that each access meets, and the place in that device's share, grouped by
// the dims of the values read or written, then by index. `split` is the dim that devices divide, if they do.
struct Accesses {
  Groups by_holder, by_place;
  int64_t offset = 0;
};
std::optional<Accesses> AccessesOf(const ir::IndexedAttrs& attrs, int64_t elements, Sharding from,
                                   SplitDim split, int64_t devices) {
  const auto all = AllAccesses(attrs);
  if (!all || !Deals(elements, from, devices)) return std::nullopt;
  LoopNest nest(all->shape());
  if (split.dim >= 0) {
    nest.factors[static_cast<size_t>(split.dim)] = {attrs.map.shape()[split.dim] / (split.inner * devices),
                                                    devices, split.inner};
  }
  const View holder = HolderOf(*all, elements, from.run, devices);
  if (!ir::RefineLoops(holder, &nest)) return std::nullopt;
  const auto holders = ir::MapOver(holder, nest);
  const auto places = ir::MapOver(PlaceOf(*all, elements, from.run, devices), nest);
  if (!holders || !places || holders->offset != 0) return std::nullopt;
  return Accesses{GroupsOf(nest, *holders), GroupsOf(nest, *places), places->offset};
}

// The loops of one group that stay on a device, and whether the others together are one loop over all
// devices. None in any other case.
struct GroupShare {
  std::vector<ir::IndexDim> within;
  bool across = false;
  int64_t behind = 1;  // product of the extents inside the loop over the devices
};
std::optional<GroupShare> ShareOfGroup(const std::vector<ir::IndexDim>& by_holder,
                                       const std::vector<ir::IndexDim>& by_place, int64_t devices) {
  GroupShare share;
  std::vector<ir::IndexDim> across;
  int64_t met = 1, step = 0;
  for (size_t l = by_holder.size(); l-- > 0;) {
    if (by_holder[l].extent == 1 || by_holder[l].stride == 0) {
      share.within.insert(share.within.begin(), by_place[l]);
      if (across.empty()) share.behind *= by_holder[l].extent;
      continue;
    }
    if (by_place[l].stride != 0) return std::nullopt;
    across.insert(across.begin(), by_holder[l]);
    met *= by_holder[l].extent;
  }
  share.across = !across.empty();
  if (share.across && (met != devices || !CountAsOne(across, &step) || step != 1)) return std::nullopt;
  return share;
}

// The functions of the header, for splits without copies: `devices` is the number of parts of a split, and
// `rank` the number of a part.

std::optional<View> LocalViewParts(const View& view, int64_t elements, Sharding from, Sharding to,
                                   int64_t devices, int64_t rank) {
  if (!from.is_split() && from == to) return view;
  if (DimOf(view.shape(), to, devices).dim < 0) return std::nullopt;
  if (from == kWhole) return ShareOfView(view, to, devices, rank);
  if (!Deals(elements, from, devices)) return std::nullopt;
  const View flat = ir::Reshape(view, Flat(view.shape().elements(), to.run, devices));
  LoopNest nest(flat.shape());
  const View holder = HolderOf(flat, elements, from.run, devices);
  if (!ir::RefineLoops(holder, &nest)) return std::nullopt;
  const auto holders = ir::MapOver(holder, nest);
  const auto places = ir::MapOver(PlaceOf(flat, elements, from.run, devices), nest);
  if (!holders || !places || holders->offset != 0) return std::nullopt;
  const Groups by_holder = GroupsOf(nest, *holders), by_place = GroupsOf(nest, *places);
  int64_t step = 0;
  if (!AllStill(by_holder[0]) || !AllStill(by_holder[2]) || !CountAsOne(by_holder[1], &step) || step != 1 ||
      !AllStill(by_place[1])) {
    return std::nullopt;
  }
  std::vector<ir::IndexDim> loops = by_place[0];
  loops.insert(loops.end(), by_place[2].begin(), by_place[2].end());
  return ViewOver(loops, places->offset, LocalShape(view.shape(), to, devices));
}

Sharding ShardingShownParts(const View& view, int64_t elements, Sharding from, int64_t devices) {
  if (!Deals(elements, from, devices)) return kWhole;
  const View holder = HolderOf(view, elements, from.run, devices);
  LoopNest nest(view.shape());
  if (!ir::RefineLoops(holder, &nest)) return kWhole;
  const auto map = ir::MapOver(holder, nest);
  if (!map) return kWhole;
  std::vector<ir::IndexDim> loops;
  for (const auto& group : GroupsOf(nest, *map)) loops.insert(loops.end(), group.begin(), group.end());
  const Sharding to = Sharding::Split(BehindHolderLoop(loops));
  return to.is_split() && LocalViewParts(view, elements, from, to, devices, 0) ? to : kWhole;
}

Sharding ShardingBehindParts(const View& view, int64_t elements, Sharding to, int64_t devices) {
  if (DimOf(view.shape(), to, devices).dim < 0) return kWhole;
  const View flat = ir::Reshape(view, Flat(view.shape().elements(), to.run, devices));
  LoopNest nest(flat.shape());
  if (!ir::RefineLoops(flat, &nest)) return kWhole;
  const auto map = ir::MapOver(flat, nest);
  int64_t run = 0;
  if (!map || !CountAsOne(GroupsOf(nest, *map)[1], &run)) return kWhole;
  const Sharding from = Sharding::Split(run);
  return from.is_split() && LocalViewParts(view, elements, from, to, devices, 0) ? from : kWhole;
}

std::optional<LocalIndexed> LocaliseIndexedParts(const ir::IndexedAttrs& attrs, int64_t elements,
                                                 Sharding from, Sharding to, int64_t devices, int64_t rank) {
  LocalIndexed local;
  const Shape& shape = attrs.map.shape();
  for (const ir::IndexedDim& dim : attrs.dims) local.strides.push_back(dim.stride);
  const SplitDim split = DimOf(shape, to, devices);
  if (to.is_split() && split.dim < 0) return std::nullopt;
  if (from == kWhole) {
    local.map = to == kWhole ? attrs.map : ShareOfView(attrs.map, to, devices, rank);
    return local;
  }
  const auto accesses = AccessesOf(attrs, elements, from, split, devices);
  if (!accesses) return std::nullopt;
  std::vector<ir::IndexDim> loops;
  int across = 0;  // groups with a loop over the devices
  for (size_t g = 0; g < accesses->by_place.size(); ++g) {
    const auto share = ShareOfGroup(accesses->by_holder[g], accesses->by_place[g], devices);
    if (!share) return std::nullopt;
    const auto rank_of_shape = static_cast<size_t>(shape.rank);
    if (g < rank_of_shape) {
      // Only the dim that `to` splits may go over the devices.
      const bool fits = static_cast<int>(g) == split.dim && share->behind == split.inner;
      if (share->across && !fits) return std::nullopt;
      loops.insert(loops.end(), share->within.begin(), share->within.end());
    } else {
      const size_t index = g - rank_of_shape;
      // Each device holds one range of the index's values.
      const bool fits = to == kWhole && share->behind == attrs.dims[index].extent / devices;
      if (share->across && !fits) return std::nullopt;
      if (share->across) local.over = static_cast<int>(index);
      if (!CountAsOne(share->within, &local.strides[index])) return std::nullopt;
    }
    across += share->across;
  }
  const auto map = ViewOver(loops, accesses->offset, LocalShape(shape, to, devices));
  if (across != 1 || !map) return std::nullopt;
  local.map = *map;
  return local;
}

Sharding DataBehindParts(const ir::IndexedAttrs& attrs, int64_t elements, Sharding to, int64_t devices) {
  const Sharding from = ShardingBehindParts(attrs.map, elements, to, devices);
  return from.is_split() && LocaliseIndexedParts(attrs, elements, from, to, devices, 0) ? from : kWhole;
}

Sharding ShardingAccessedParts(const ir::IndexedAttrs& attrs, int64_t elements, Sharding from,
                               int64_t devices) {
  const Sharding to = ShardingShownParts(attrs.map, elements, from, devices);
  return to.is_split() && LocaliseIndexedParts(attrs, elements, from, to, devices, 0) ? to : kWhole;
}

// The copies of two splits, or of the one that is a split; 0 if they differ.
int64_t CopiesOfBoth(Sharding from, Sharding to) {
  if (!from.is_split()) return to.copies;
  return !to.is_split() || from.copies == to.copies ? from.copies : 0;
}

}  // namespace

std::optional<View> LocalView(const View& view, int64_t elements, Sharding from, Sharding to, int64_t devices,
                              int64_t rank) {
  const int64_t copies = CopiesOfBoth(from, to);
  if (copies == 0) return std::nullopt;
  return LocalViewParts(view, elements, from.WithCopies(1), to.WithCopies(1), devices / copies,
                        rank / copies);
}

Sharding ShardingShown(const View& view, int64_t elements, Sharding from, int64_t devices) {
  return ShardingShownParts(view, elements, from.WithCopies(1), from.parts(devices)).WithCopies(from.copies);
}

Sharding ShardingBehind(const View& view, int64_t elements, Sharding to, int64_t devices) {
  return ShardingBehindParts(view, elements, to.WithCopies(1), to.parts(devices)).WithCopies(to.copies);
}

std::optional<LocalIndexed> LocaliseIndexed(const ir::IndexedAttrs& attrs, int64_t elements, Sharding from,
                                            Sharding to, int64_t devices, int64_t rank) {
  const int64_t copies = CopiesOfBoth(from, to);
  if (copies == 0) return std::nullopt;
  return LocaliseIndexedParts(attrs, elements, from.WithCopies(1), to.WithCopies(1), devices / copies,
                              rank / copies);
}

Sharding DataBehind(const ir::IndexedAttrs& attrs, int64_t elements, Sharding to, int64_t devices) {
  return DataBehindParts(attrs, elements, to.WithCopies(1), to.parts(devices)).WithCopies(to.copies);
}

Sharding ShardingAccessed(const ir::IndexedAttrs& attrs, int64_t elements, Sharding from, int64_t devices) {
  return ShardingAccessedParts(attrs, elements, from.WithCopies(1), from.parts(devices))
      .WithCopies(from.copies);
}

}  // namespace rondo::shard
