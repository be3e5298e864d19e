// Collectives that a model already contains: every device runs the same ones, in the same order.
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// What every collective needs: as many devices as the model was made for, and something to exchange.
Status RequireDevices(const OpContext& c) {
  const long long made_for = static_cast<long long>(c.Int("group_size", c.host.devices()));
  if (c.host.devices() == 0) {
    return c.HasAttribute("group_size")
               ? Status::Error(Code::kInvalidArgument,
                               "a collective of %lld devices: say how many the plan is for (--devices %lld)",
                               made_for, made_for)
               : Status::Error(Code::kInvalidArgument,
                               "a collective needs the number of devices that the plan is for (--devices N)");
  }
  if (made_for != c.host.devices()) {
    return Status::Error(Code::kInvalidArgument, "its group_size is %lld, but the plan is for %u devices",
                         made_for, c.host.devices());
  }
  if (c.shape(0).elements() == 0) return Status::Error(Code::kUnsupported, "input 0 has no elements");
  return Status::Ok();
}

Status AllReduce(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireDevices(c));
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "bools cannot be summed");
  c.Set(0, c.host.devices() == 1 ? c.In(0)
                                 : c.b.Collective(CollectiveOp::kAllReduce, c.In(0), c.host.devices()));
  return Status::Ok();
}

// The devices' shares one after the other along `axis`.
Status AllGather(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireDevices(c));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 1));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  if (c.host.devices() == 1) {
    c.Set(0, c.In(0));
    return Status::Ok();
  }
  const int64_t devices = c.host.devices();
  NodeId gathered = c.b.Collective(CollectiveOp::kAllGather, c.In(0), devices);
  std::vector<int> order;
  for (int d = 1; d <= c.rank(0); ++d) {
    if (d - 1 == axis) order.push_back(0);
    order.push_back(d);
  }
  Shape joined = c.shape(0);
  joined[axis] *= devices;
  c.Set(0, c.b.Reshape(c.b.Transpose(gathered, order), joined));
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"AllGather", 1, AllGather, 1, kLatest, kDomain},
    {"AllReduce", 1, AllReduce, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> CollectiveOps() { return kOps; }

}  // namespace rondo::importer
