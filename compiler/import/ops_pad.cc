// Pad, in its four modes.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// The element of an axis of n that position i (perhaps outside) shows.
int64_t Reflect(int64_t i, int64_t n) {
  if (n == 1) return 0;
  int64_t period = 2 * (n - 1);
  int64_t r = ((i % period) + period) % period;
  return r < n ? r : period - r;
}
int64_t Wrap(int64_t i, int64_t n) { return ((i % n) + n) % n; }
int64_t Edge(int64_t i, int64_t n) { return std::min(std::max<int64_t>(i, 0), n - 1); }

// Removes what negative pads take away and makes them 0.
NodeId Crop(OpContext& c, NodeId x, std::vector<int64_t>* before, std::vector<int64_t>* after) {
  for (int d = 0; d < c.b.shape(x).rank; ++d) {
    size_t i = static_cast<size_t>(d);
    int64_t first = std::max<int64_t>(-(*before)[i], 0), last = std::max<int64_t>(-(*after)[i], 0);
    if (first + last != 0) x = c.b.Slice(x, d, first, 1, c.b.shape(x)[d] - first - last);
    (*before)[i] = std::max<int64_t>((*before)[i], 0);
    (*after)[i] = std::max<int64_t>((*after)[i], 0);
  }
  return x;
}

Status ReadPads(OpContext& c, std::vector<int64_t>* before, std::vector<int64_t>* after) {
  int rank = c.rank(0);
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> pads, c.ConstantInts(1));
  std::vector<int64_t> axes;
  for (int d = 0; d < rank; ++d) axes.push_back(d);
  if (c.Has(3)) {
    RONDO_ASSIGN_OR_RETURN(axes, c.ConstantInts(3));
  }
  RONDO_RETURN_IF_ERROR(c.Axes(axes, rank).status());
  if (pads.size() != 2 * axes.size()) {
    return Status::Error(Code::kCorrupt, "%zu pads for %zu axes", pads.size(), axes.size());
  }
  before->assign(static_cast<size_t>(rank), 0);
  after->assign(static_cast<size_t>(rank), 0);
  constexpr int64_t kMost = int64_t{1} << 40;
  std::vector<int64_t> dims(c.shape(0).begin(), c.shape(0).end());
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    int64_t first = pads[i], last = pads[i + axes.size()];
    if (std::abs(first) > kMost || std::abs(last) > kMost ||
        std::max<int64_t>(-first, 0) + std::max<int64_t>(-last, 0) >= std::max<int64_t>(dims[axis], 1)) {
      return Status::Error(Code::kUnsupported, "axis %zu of %lld elements is padded by %lld and %lld", axis,
                           static_cast<long long>(dims[axis]), static_cast<long long>(first),
                           static_cast<long long>(last));
    }
    (*before)[axis] = first;
    (*after)[axis] = last;
    dims[axis] += first + last;
  }
  return c.MakeShape(dims).status();
}

Status Pad(OpContext& c) {
  std::vector<int64_t> before, after;
  RONDO_RETURN_IF_ERROR(ReadPads(c, &before, &after));
  std::string mode = c.String("mode", "constant");
  if (mode == "constant") {
    NodeId value = c.b.Scalar(c.dtype(0), 0);
    if (c.Has(2)) {
      RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
      if (c.shape(2).elements() != 1)
        return Status::Error(Code::kCorrupt, "the value to pad with is not a scalar");
      RONDO_ASSIGN_OR_RETURN(std::vector<double> constant, c.ConstantFloats(2));
      value = c.b.Scalar(c.dtype(0), constant[0]);
    }
    NodeId x = Crop(c, c.In(0), &before, &after);
    bool any = std::any_of(before.begin(), before.end(), [](int64_t p) { return p != 0; }) ||
               std::any_of(after.begin(), after.end(), [](int64_t p) { return p != 0; });
    c.Set(0, any ? c.b.PadConstant(x, value, before, after) : x);
    return Status::Ok();
  }
  int64_t (*source)(int64_t, int64_t) = mode == "reflect" ? Reflect : mode == "wrap" ? Wrap : Edge;
  if (mode != "reflect" && mode != "wrap" && mode != "edge") {
    return Status::Error(Code::kUnsupported, "mode \"%.30s\"", mode.c_str());
  }
  NodeId x = c.In(0);
  for (int d = 0; d < c.rank(0); ++d) {
    int64_t n = c.shape(0)[d], first = before[static_cast<size_t>(d)], last = after[static_cast<size_t>(d)];
    if (first == 0 && last == 0) continue;
    if (n == 0) return Status::Error(Code::kCorrupt, "axis %d has no elements to pad from", d);
    constexpr int64_t kMostListed = 1 << 24;
    if (n + first + last > kMostListed) {
      return Status::Error(Code::kUnsupported, "axis %d of more than %lld elements", d,
                           static_cast<long long>(kMostListed));
    }
    std::vector<int64_t> index;
    for (int64_t i = -first; i < n + last; ++i) index.push_back(source(i, n));
    x = Take(c.b, x, d, index);
  }
  c.Set(0, x);
  return Status::Ok();
}

constexpr OpRow kOps[] = {{"Pad", 2, Pad}};

}  // namespace

Span<const OpRow> PadOps() { return kOps; }

}  // namespace rondo::importer
