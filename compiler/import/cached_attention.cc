#include "compiler/import/cached_attention.h"

#include <limits>

#include "compiler/import/decompose.h"

namespace rondo::importer {

using ir::Builder;

NodeId WriteRows(Builder& b, NodeId cache, NodeId rows, NodeId place, int axis) {
  const ir::View dense = ir::DenseView(b.shape(cache));
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(b.shape(rows));
  for (int d = 0; d < b.shape(cache).rank; ++d) {
    attrs.map.steps[0].strides[d] = d == axis ? 0 : dense.steps[0].strides[d];
  }
  attrs.dims = {{dense.steps[0].strides[axis], b.shape(cache)[axis], false}};
  attrs.may_collide = false;
  return b.IndexedWrite(cache, rows, {place}, attrs);
}

namespace {

constexpr double kDropped = -std::numeric_limits<double>::infinity();

// `keep` and `bias` as one mask.
NodeId Mask(Builder& b, const AttentionRequest& request) {
  if (request.keep == kNoNode || request.bias == kNoNode)
    return request.keep == kNoNode ? request.bias : request.keep;
  return b.Select(request.keep, request.bias, b.Scalar(b.dtype(request.bias), kDropped));
}

}  // namespace

NodeId Attend(Builder& b, NodeId q, NodeId k, NodeId v, const AttentionRequest& request) {
  return b.Attention(q, k, v, Mask(b, request), request.limit, request.attrs, request.sink);
}

}  // namespace rondo::importer
