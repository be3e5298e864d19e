#include "compiler/shard/sharding.h"

namespace rondo::shard {

SplitDim DimOf(const Shape& shape, Sharding sharding, int64_t devices) {
  const int64_t run = sharding.run, parts = sharding.parts(devices);
  int64_t after = 1;  // elements of the dims behind d
  for (int d = shape.rank - 1; sharding.is_split() && d >= 0; --d) {
    const int64_t all = after * shape[d];
    if (shape[d] > 1 && run >= after && run < all) {
      const bool fits = run % after == 0 && all % (run * parts) == 0;
      return fits ? SplitDim{d, run / after} : SplitDim();
    }
    after = all;
  }
  return {};
}

Sharding SplitOf(const Shape& shape, int dim, int64_t inner, int64_t devices, int64_t copies) {
  if (dim < 0 || dim >= shape.rank || inner < 1 || shape[dim] % (inner * (devices / copies)) != 0)
    return kWhole;
  int64_t run = inner;
  for (int d = dim + 1; d < shape.rank; ++d) run *= shape[d];
  return Sharding::Split(run, copies);
}

ir::View ShareView(const Shape& shape, Sharding sharding, int64_t devices, int64_t rank) {
  if (!sharding.is_split()) return ir::DenseView(shape);
  const int64_t run = sharding.run, parts = sharding.parts(devices);
  const Shape runs({shape.elements() / (run * parts), parts, run});
  return ir::Slice(ir::DenseView(runs), 1, rank / sharding.copies, 1, 1);
}

Shape LocalShape(const Shape& shape, Sharding sharding, int64_t devices) {
  Shape local = shape;
  const SplitDim split = DimOf(shape, sharding, devices);
  if (split.dim >= 0) local[split.dim] /= sharding.parts(devices);
  return local;
}

}  // namespace rondo::shard
