#include "compiler/shard/form.h"

namespace rondo::shard {

SplitDim DimOf(const Shape& shape, Form split, int64_t devices) {
  const Form form = RunOf(split);
  const int64_t parts = PartsOf(split, devices);
  int64_t after = 1;  // elements of the dims behind d
  for (int d = shape.rank - 1; IsSplit(form) && d >= 0; --d) {
    const int64_t all = after * shape[d];
    if (shape[d] > 1 && form >= after && form < all) {
      const bool fits = form % after == 0 && all % (form * parts) == 0;
      return fits ? SplitDim{d, form / after} : SplitDim();
    }
    after = all;
  }
  return {};
}

Form SplitOf(const Shape& shape, int dim, int64_t inner, int64_t devices, int64_t copies) {
  if (dim < 0 || dim >= shape.rank || inner < 1 || shape[dim] % (inner * (devices / copies)) != 0)
    return kWhole;
  Form run = inner;
  for (int d = dim + 1; d < shape.rank; ++d) run *= shape[d];
  return WithCopies(run, copies);
}

ir::View ShareView(const Shape& shape, Form form, int64_t devices, int64_t rank) {
  if (!IsSplit(form)) return ir::DenseView(shape);
  const Form run = RunOf(form);
  const int64_t parts = PartsOf(form, devices);
  const Shape runs({shape.elements() / (run * parts), parts, run});
  return ir::Slice(ir::DenseView(runs), 1, rank / CopiesOf(form), 1, 1);
}

Shape LocalShape(const Shape& shape, Form form, int64_t devices) {
  Shape local = shape;
  const SplitDim split = DimOf(shape, form, devices);
  if (split.dim >= 0) local[split.dim] /= PartsOf(form, devices);
  return local;
}

}  // namespace rondo::shard
