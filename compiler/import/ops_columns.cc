// Col2Im: the sums of overlapping blocks.
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/window.h"

namespace rondo::importer {
namespace {

constexpr int64_t kMostPlaces = 1 << 24;

// The layout of blocks over a padded picture, by spatial axis.
struct Blocks {
  std::vector<int64_t> image, block, strides, dilations, pads_begin, pads_end;
  std::vector<int64_t> count;  // blocks along each axis

  int64_t Padded(size_t a) const { return image[a] + pads_begin[a] + pads_end[a]; }
};

Result<Blocks> ReadBlocks(OpContext& c) {
  Blocks k;
  RONDO_ASSIGN_OR_RETURN(k.image, c.ConstantInts(1));
  RONDO_ASSIGN_OR_RETURN(k.block, c.ConstantInts(2));
  int spatial = static_cast<int>(k.image.size());
  if (spatial < 1 || spatial > kMaxRank - 2 || k.block.size() != k.image.size()) {
    return Status::Error(Code::kCorrupt, "image_shape and block_shape have %zu and %zu entries",
                         k.image.size(), k.block.size());
  }
  RONDO_ASSIGN_OR_RETURN(k.strides, SpatialInts(c, "strides", spatial, 1));
  RONDO_ASSIGN_OR_RETURN(k.dilations, SpatialInts(c, "dilations", spatial, 1));
  std::vector<int64_t> pads = c.Ints("pads");
  if (pads.empty()) pads.assign(2 * k.image.size(), 0);
  if (pads.size() != 2 * k.image.size())
    return Status::Error(Code::kCorrupt, "pads has %zu entries", pads.size());
  k.pads_begin.assign(pads.begin(), pads.begin() + spatial);
  k.pads_end.assign(pads.begin() + spatial, pads.end());
  for (size_t a = 0; a < k.image.size(); ++a) {
    auto sane = [](int64_t v, int64_t least) { return v >= least && v <= kMostPlaces; };
    bool fits = sane(k.image[a], 1) && sane(k.block[a], 1) && sane(k.strides[a], 1) &&
                sane(k.dilations[a], 1) && sane(k.pads_begin[a], 0) && sane(k.pads_end[a], 0);
    int64_t room = fits ? k.Padded(a) - k.dilations[a] * (k.block[a] - 1) - 1 : -1;
    if (room < 0) return Status::Error(Code::kCorrupt, "axis %zu: a block does not fit into the image", a);
    k.count.push_back(room / k.strides[a] + 1);
  }
  return k;
}

// Element numbers in the padded picture, by point of the block and, within a point, by block.
std::vector<int64_t> Places(const Blocks& k) {
  std::vector<int64_t> places = {0};
  auto extend = [&](size_t a, int64_t n, int64_t step, std::vector<int64_t>* list) {
    std::vector<int64_t> next;
    int64_t stride = 1;
    for (size_t d = a + 1; d < k.image.size(); ++d) stride *= k.Padded(d);
    for (int64_t base : *list) {
      for (int64_t i = 0; i < n; ++i) next.push_back(base + i * step * stride);
    }
    *list = std::move(next);
  };
  for (size_t a = 0; a < k.image.size(); ++a) extend(a, k.block[a], k.dilations[a], &places);
  for (size_t a = 0; a < k.image.size(); ++a) extend(a, k.count[a], k.strides[a], &places);
  return places;
}

// x [n, c * points of a block, blocks] -> [n, c, image...].
Status Col2Im(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 3));
  RONDO_ASSIGN_OR_RETURN(Blocks k, ReadBlocks(c));
  const Shape x = c.shape(0);
  double points = 1, count = 1, padded = 1;
  for (size_t a = 0; a < k.image.size(); ++a) {
    points *= static_cast<double>(k.block[a]);
    count *= static_cast<double>(k.count[a]);
    padded *= static_cast<double>(k.Padded(a));
  }
  if (points * count > static_cast<double>(kMostPlaces) || padded > static_cast<double>(kMostPlaces)) {
    return Status::Error(Code::kUnsupported, "more than %lld places", static_cast<long long>(kMostPlaces));
  }
  int64_t block = static_cast<int64_t>(points), blocks = static_cast<int64_t>(count);
  int64_t image = static_cast<int64_t>(padded);
  if (x.elements() == 0 || x[1] % block != 0 || x[2] != blocks) {
    return Status::Error(Code::kCorrupt, "%lld blocks of %lld points from an input of shape %s",
                         static_cast<long long>(blocks), static_cast<long long>(block), Text(x).c_str());
  }
  Builder& b = c.b;
  int64_t channels = x[1] / block;
  std::vector<int64_t> dims = {x[0], channels};
  for (size_t a = 0; a < k.image.size(); ++a) dims.push_back(k.Padded(a));
  RONDO_ASSIGN_OR_RETURN(Shape whole, c.MakeShape(dims));
  const Shape flat{x[0], channels, image}, updates{x[0], channels, block * blocks};
  ir::IndexedAttrs write;
  ir::ViewStep step;
  step.shape = updates;
  step.strides[0] = channels * image;
  step.strides[1] = image;
  write.map = ir::View{{step}};
  write.dims = {{1, image, false}};
  write.combine = ir::ScatterCombine::kAdd;
  NodeId index = b.Expand(b.I64(Places(k)), updates);
  NodeId zeros = b.Expand(b.Scalar(c.dtype(0), 0), flat);
  NodeId y = b.Reshape(b.IndexedWrite(zeros, b.Reshape(c.In(0), updates), {index}, write), whole);
  for (size_t a = 0; a < k.image.size(); ++a) {
    y = b.Slice(y, static_cast<int>(a) + 2, k.pads_begin[a], 1, k.image[a]);
  }
  return c.Give(y);
}

constexpr OpRow kOps[] = {{"Col2Im", 3, Col2Im, 18}};

}  // namespace

Span<const OpRow> ColumnsOps() { return kOps; }

}  // namespace rondo::importer
