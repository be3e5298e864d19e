// com.microsoft operators on pictures: a convolution with a sum and an activation, and convolutions and pools
// with channels last.
#include "compiler/import/call_op.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// Inputs X, W, B, and Z, which is added before the activation.
Status FusedConv(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "Conv", 11, {c.In(0), c.In(1), c.In(2)}));
  if (c.Has(3)) {
    if (!(c.shape(3) == c.b.shape(y)) || c.dtype(3) != c.b.dtype(y))
      return Status::Error(Code::kCorrupt, "Z of shape %s", Text(c.shape(3)).c_str());
    y = c.b.Add(y, c.In(3));
  }
  RONDO_ASSIGN_OR_RETURN(y, FusedActivation(c, y));
  return c.Give(y);
}

// W has Conv's layout [outputs, inputs, ...]; only X and Y have channels last.
Status NhwcConv(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "Conv", 11, {ChannelsFirst(c.b, c.In(0)), c.In(1), c.In(2)}));
  return c.Give(ChannelsLast(c.b, y));
}

Status NhwcMaxPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  RONDO_ASSIGN_OR_RETURN(const NodeId y, CallOne(c, "MaxPool", 12, {ChannelsFirst(c.b, c.In(0))}));
  return c.Give(ChannelsLast(c.b, y));
}

constexpr OpRow kOps[] = {
    {"FusedConv", 2, FusedConv, 1, kLatest, kDomain},
    {"NhwcConv", 2, NhwcConv, 1, kLatest, kDomain},
    {"NhwcMaxPool", 1, NhwcMaxPool, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> FusedConvolutionOps() { return kOps; }

}  // namespace rondo::importer
