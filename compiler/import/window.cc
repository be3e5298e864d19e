#include "compiler/import/window.h"

#include <algorithm>

namespace rondo::importer {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

// Pads so that the result has ceil(extent / stride) elements; with `upper`, an odd pad goes to the end.
void SamePads(WindowAttrs* w, const Shape& x, bool upper) {
  for (int i = 0; i < w->rank(); ++i) {
    size_t a = static_cast<size_t>(i);
    int64_t n = x[i + 2], out = (n + w->strides[a] - 1) / w->strides[a];
    int64_t total = std::max<int64_t>((out - 1) * w->strides[a] + w->Reach(i) - n, 0);
    w->pads_begin[a] = upper ? total / 2 : total - total / 2;
    w->pads_end[a] = total - w->pads_begin[a];
  }
}

}  // namespace

Result<std::vector<int64_t>> SpatialInts(const OpContext& c, const char* name, int spatial, int64_t otherwise,
                                         int line) {
  std::vector<int64_t> values = c.Ints(name, otherwise, line);
  if (values.empty()) values.assign(static_cast<size_t>(spatial), otherwise);
  if (values.size() != static_cast<size_t>(spatial)) {
    return Status::Error(Code::kCorrupt, "%s has %zu entries for %d spatial axes", name, values.size(),
                         spatial);
  }
  for (int64_t v : values) {
    if (v < (otherwise == 0 ? 0 : 1) || v >= kMost) {
      return Status::Error(Code::kCorrupt, "%s of %lld", name, static_cast<long long>(v));
    }
  }
  return values;
}

Result<WindowAttrs> ReadWindow(OpContext& c, const std::vector<int64_t>& kernel, bool ceil_mode) {
  WindowAttrs w;
  const Shape& x = c.shape(0);
  int spatial = x.rank - 2;
  w.kernel = kernel;
  for (int64_t k : kernel) {
    if (k < 1 || k >= kMost)
      return Status::Error(Code::kCorrupt, "a kernel of %lld", static_cast<long long>(k));
  }
  if (kernel.size() != static_cast<size_t>(spatial)) {
    return Status::Error(Code::kCorrupt, "a kernel of %zu axes for shape %s", kernel.size(), Text(x).c_str());
  }
  RONDO_ASSIGN_OR_RETURN(w.strides, SpatialInts(c, "strides", spatial, 1));
  RONDO_ASSIGN_OR_RETURN(w.dilations, SpatialInts(c, "dilations", spatial, 1));
  w.pads_begin.assign(static_cast<size_t>(spatial), 0);
  w.pads_end = w.pads_begin;
  std::string auto_pad = c.String("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    SamePads(&w, x, auto_pad == "SAME_UPPER");
  } else if (auto_pad == "NOTSET" && c.HasAttribute("pads")) {
    RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> pads, SpatialInts(c, "pads", 2 * spatial, 0));
    w.pads_begin.assign(pads.begin(), pads.begin() + spatial);
    w.pads_end.assign(pads.begin() + spatial, pads.end());
  } else if (auto_pad != "NOTSET" && auto_pad != "VALID") {
    return Status::Error(Code::kCorrupt,
                         "auto_pad \"%.20s\" is none of NOTSET, VALID, SAME_UPPER and SAME_LOWER",
                         auto_pad.c_str());
  }
  for (int i = 0; i < spatial; ++i) {
    size_t a = static_cast<size_t>(i);
    int64_t room = x[i + 2] + w.pads_begin[a] + w.pads_end[a] - w.Reach(i);
    // With ceil_mode, a window longer than the whole input still counts as one.
    const bool whole =
        ceil_mode && auto_pad == "NOTSET" && room < 0 && -room < w.strides[a] && w.pads_begin[a] < w.Reach(i);
    if ((room < 0 && !whole) || x[i + 2] < 1) {
      return Status::Error(Code::kCorrupt, "a window of %lld on axis %d of shape %s",
                           static_cast<long long>(w.Reach(i)), i + 2, Text(x).c_str());
    }
    int64_t out = room / w.strides[a] + 1;  // 1 if room is negative
    if (room > 0 && ceil_mode && auto_pad == "NOTSET" && room % w.strides[a] != 0) {
      // One more window, if it starts inside the input or the padding before it.
      if (out * w.strides[a] < x[i + 2] + w.pads_begin[a]) ++out;
    }
    w.output.push_back(out);
  }
  std::vector<int64_t> dims = {x[0], x[1]};
  dims.insert(dims.end(), w.output.begin(), w.output.end());
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  return w;
}

}  // namespace rondo::importer
