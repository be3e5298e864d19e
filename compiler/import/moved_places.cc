#include "compiler/import/moved_places.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

namespace rondo::importer {
namespace {

// All elements are the same, in all imports: from wherever they are shown.
bool Uniform(const Three& value) {
  if (!value.has_data()) return false;
  for (int k = 0; k < 3; ++k) {
    for (int64_t i = 0; i < value.of[k]->shape.elements(); ++i) {
      if (value.At(k, i) != value.At(0, 0)) return false;
    }
  }
  return true;
}

bool AnyNegative(const Three& value) {
  if (!value.has_data()) return true;
  for (int64_t i = 0; i < value.shape().elements(); ++i) {
    if (value.At(0, i) < 0) return true;
  }
  return false;
}

// Whether the first `count` elements, or all, are other ones at another length.
bool Differ(const Three& value, int64_t count) {
  if (!value.has_data() || value.Grows()) return true;
  for (int64_t i = 0; i < std::min(count, value.shape().elements()); ++i) {
    if (value.At(0, i) != value.At(1, i) || value.At(1, i) != value.At(2, i)) return true;
  }
  return false;
}

// Inputs: data, starts, ends, axes, steps.
bool SliceMoves(const std::vector<Three>& inputs) {
  const auto given = [&](size_t i) { return inputs.size() > i && inputs[i].of[0]->given; };
  for (const size_t i : {size_t{1}, size_t{3}, size_t{4}}) {
    if (given(i) && (!inputs[i].has_data() || inputs[i].Grows())) return true;
  }
  if (!given(1)) return true;
  for (int64_t i = 0; i < inputs[1].shape().elements(); ++i) {
    int64_t first[3];
    for (int k = 0; k < 3; ++k) {
      const Shape& shape = inputs[0].of[k]->shape;
      auto axis = given(3) ? static_cast<int64_t>(inputs[3].At(k, i)) : i;
      axis += axis < 0 ? shape.rank : 0;
      const bool back = given(4) && inputs[4].At(k, i) < 0;
      if (axis < 0 || axis >= shape.rank) return true;
      const double start = inputs[1].At(k, i), length = static_cast<double>(shape[static_cast<int>(axis)]);
      first[k] = static_cast<int64_t>(
          std::clamp(start < 0 ? start + length : start, 0.0, std::max(0.0, back ? length - 1 : length)));
    }
    if (first[0] != first[1] || first[1] != first[2]) return true;
  }
  return false;
}

// Whether a dim that grows stays one, with as much before and behind it.
bool ReshapeMoves(const Three& from, const Three& to) {
  const auto growing = [](const Three& value, int k) {
    const Shape& a = value.of[0]->shape;
    const Shape& b = value.of[k]->shape;
    int64_t before = 1, behind = 1, dims = 0;
    for (int d = 0; d < a.rank; ++d) {
      if (b.rank != a.rank) return std::vector<int64_t>();
      if (a[d] != b[d]) {
        ++dims;
      } else {
        (dims == 0 ? before : behind) *= a[d];
      }
    }
    return dims == 1 ? std::vector<int64_t>{before, behind} : std::vector<int64_t>();
  };
  for (const int k : {1, 2}) {
    const std::vector<int64_t> was = growing(from, k), is = growing(to, k);
    if (was.empty() || is.empty() || was[0] != is[0]) return true;
  }
  return false;
}

bool GrowsAlong(const Three& value, int64_t axis) {
  const Shape& shape = value.shape();
  axis += axis < 0 ? shape.rank : 0;
  if (axis < 0 || axis >= shape.rank) return true;
  const int d = static_cast<int>(axis);
  return value.of[1]->shape.rank != shape.rank || value.of[1]->shape[d] != shape[d];
}

bool Moves(const KnownNode& node, const std::vector<Three>& inputs, const Three& result) {
  const std::string& op = node.op;
  const bool second = inputs.size() > 1 && inputs[1].of[0]->given;
  if (op == "Slice") return SliceMoves(inputs);
  if (op == "Gather" || op == "GatherElements" || op == "GatherND")
    return second && inputs[0].Grows() && AnyNegative(inputs[1]);
  if (op == "Split" || op == "SplitToSequence") return inputs[0].Grows() || (second && inputs[1].Varies());
  if (op == "Pad") return second && Differ(inputs[1], inputs[1].shape().elements());
  if (op == "Tile") return inputs[0].Grows();
  if (op == "Trilu") return second && inputs[1].Varies();
  if (op == "Reshape" || op == "Flatten") return inputs[0].Grows() && ReshapeMoves(inputs[0], result);
  if (op == "CumSum" || op == "CumProd") return node.reverse && inputs[0].Grows();
  return op == "Concat" && std::any_of(inputs.begin(), inputs.end() - 1,
                                       [&](const Three& piece) { return GrowsAlong(piece, node.axis); });
}

}  // namespace

std::vector<int> ShownFromMovingPlaces(const KnownNode& node, const std::vector<Three>& inputs,
                                       const Three& result) {
  if (inputs.empty() || !inputs[0].of[0]->given || !Moves(node, inputs, result)) return {};
  std::vector<int> shown(node.op == "Concat" ? inputs.size() : 1);
  std::iota(shown.begin(), shown.end(), 0);
  const bool uniform =
      std::all_of(shown.begin(), shown.end(), [&](int i) { return Uniform(inputs[static_cast<size_t>(i)]); });
  const auto as_it_is = [&](int i) {
    const Three& value = inputs[static_cast<size_t>(i)];
    return uniform || !value.of[0]->given || !value.of[0]->folded;
  };
  shown.erase(std::remove_if(shown.begin(), shown.end(), as_it_is), shown.end());
  return shown;
}

}  // namespace rondo::importer
