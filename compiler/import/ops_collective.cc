// Collectives in the model: all devices of a group run the same ones in the same order.
#include <algorithm>
#include <cctype>

#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// The devices that take part in a node's collective.
struct Meeting {
  int64_t devices = 1;
  std::vector<uint32_t> group;  // device numbers; empty: all of the plan's
};

// Checks the requirements of every collective: a known number of devices, and elements to exchange.
// `made_for`: the number of devices in the node's attributes; below 1 if absent.
Status RequireDevices(const OpContext& c, int64_t made_for) {
  if (c.host.devices() == 0) {
    const std::string count = made_for > 0 ? std::to_string(made_for) : "N";
    return Status::Error(
        Code::kInvalidArgument,
        "a collective of %s devices: say how many the plan is for (--devices %s, without --tp, "
        "--pp and --weights gather: those are for models without collectives)",
        count.c_str(), count.c_str());
  }
  if (c.shape(0).elements() == 0) return Status::Error(Code::kUnsupported, "input 0 has no elements");
  return Status::Ok();
}

Status RequireSize(const char* attribute, int64_t says, int64_t devices) {
  if (says == devices) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "its %s is %lld, but it is of %lld devices", attribute,
                       static_cast<long long>(says), static_cast<long long>(devices));
}

Result<Meeting> AllDevices(const OpContext& c) {
  const int64_t says = c.HasAttribute("group_size") ? c.Int("group_size", 0) : -1;
  RONDO_RETURN_IF_ERROR(RequireDevices(c, says));
  if (c.HasAttribute("group_size") && says != c.host.devices()) {
    return Status::Error(Code::kInvalidArgument, "its group_size is %lld, but the plan is for %u devices",
                         static_cast<long long>(says), c.host.devices());
  }
  return Meeting{c.host.devices(), {}};
}

NodeId Exchange(OpContext& c, CollectiveOp op, NodeId x, const Meeting& m) {
  return c.b.Collective(op, x, m.devices, m.group);
}

// Concatenates the devices' shares along `axis`.
NodeId Gathered(OpContext& c, NodeId x, int axis, const Meeting& m) {
  const Shape shape = c.b.shape(x);
  const NodeId all = Exchange(c, CollectiveOp::kAllGather, x, m);
  std::vector<int> order;
  for (int d = 1; d <= shape.rank; ++d) {
    if (d - 1 == axis) order.push_back(0);
    order.push_back(d);
  }
  Shape joined = shape;
  joined[axis] *= m.devices;
  return c.b.Reshape(c.b.Transpose(all, order), joined);
}

// x as [devices, dim 0 / devices, ...].
Result<NodeId> InParts(OpContext& c, const Meeting& m) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 1));
  const Shape& shape = c.shape(0);
  if (shape[0] % m.devices != 0) {
    return Status::Error(Code::kInvalidArgument,
                         "dim 0 of its input is %lld, which %lld devices do not divide",
                         static_cast<long long>(shape[0]), static_cast<long long>(m.devices));
  }
  Shape parts;
  parts.rank = shape.rank + 1;
  parts[0] = m.devices;
  parts[1] = shape[0] / m.devices;
  for (int d = 1; d < shape.rank; ++d) parts[d + 1] = shape[d];
  return c.b.Reshape(c.In(0), parts);
}

// ----------------------------------------------------------------------------------- com.microsoft

Status AllReduce(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Meeting m, AllDevices(c));
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "bools cannot be summed");
  return c.Give(m.devices == 1 ? c.In(0) : Exchange(c, CollectiveOp::kAllReduce, c.In(0), m));
}

Status AllGather(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Meeting m, AllDevices(c));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 1));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  return c.Give(m.devices == 1 ? c.In(0) : Gathered(c, c.In(0), axis, m));
}

// Sends part i of dim 0 to device i. Received parts are in the order of the devices.
Status AllToAll(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Meeting m, AllDevices(c));
  RONDO_ASSIGN_OR_RETURN(const NodeId parts, InParts(c, m));
  const Shape shape = c.shape(0);
  return c.Give(m.devices == 1 ? c.In(0)
                               : c.b.Reshape(Exchange(c, CollectiveOp::kAllToAll, parts, m), shape));
}

// --------------------------------------------------------------- TensorRT: one operator for all of them

enum class Combining { kNone, kSum, kMean, kProd, kMax, kMin };

// The devices named by attributes: `groups` by number, nb_rank and group_size by count (0, 1: not given).
Result<Meeting> NamedDevices(const OpContext& c) {
  const int64_t ranks = c.Int("nb_rank", 0), size = c.Int("group_size", 0);
  const std::vector<int64_t> groups = c.Ints("groups");
  RONDO_RETURN_IF_ERROR(RequireDevices(c, std::max({ranks, size, static_cast<int64_t>(groups.size())})));
  Meeting m{c.host.devices(), {}};
  if (!groups.empty()) m = {static_cast<int64_t>(groups.size()), {}};
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0 || groups[i] >= c.host.devices() || (i > 0 && groups[i] <= groups[i - 1])) {
      return Status::Error(Code::kInvalidArgument,
                           "its groups must ascend and be below %u, the number of devices; entry %zu is %lld",
                           c.host.devices(), i, static_cast<long long>(groups[i]));
    }
    m.group.push_back(static_cast<uint32_t>(groups[i]));
  }
  if (!m.group.empty() && std::find(m.group.begin(), m.group.end(), c.host.device()) == m.group.end()) {
    return Status::Error(
        Code::kUnsupported,
        "device %u is not among its groups: give each device a model of its own ({rank} in the "
        "file's name)",
        c.host.device());
  }
  if (m.devices == c.host.devices()) m.group.clear();
  if (ranks > 1) {
    RONDO_RETURN_IF_ERROR(RequireSize("nb_rank", ranks, m.devices));
  }
  if (size > 0) {
    RONDO_RETURN_IF_ERROR(RequireSize("group_size", size, m.devices));
  }
  return m;
}

std::string Lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

Result<Combining> CombiningOf(const OpContext& c) {
  constexpr std::pair<const char*, Combining> kKnown[] = {
      {"none", Combining::kNone}, {"sum", Combining::kSum}, {"avg", Combining::kMean},
      {"prod", Combining::kProd}, {"max", Combining::kMax}, {"min", Combining::kMin}};
  const std::string name = Lower(c.String("reduce_op", "none"));
  for (const auto& [known, op] : kKnown) {
    if (name == known) return op;
  }
  return Status::Error(Code::kUnsupported, "reduce_op \"%s\" is none of sum, prod, max, min, avg, none",
                       name.c_str());
}

// Combines the devices' x; with `scatter`, each device gets the combination of its part of dim 0. Sums and
// means use reducing collectives. For other kinds each device receives all values and combines them.
Status Combine(OpContext& c, Combining combining, const Meeting& m, bool scatter, NodeId* out) {
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kUnsupported, "bools cannot be reduced");
  NodeId x = c.In(0);
  if (scatter) {
    RONDO_ASSIGN_OR_RETURN(x, InParts(c, m));
  }
  if (combining == Combining::kSum || combining == Combining::kMean) {
    if (combining == Combining::kMean) {
      RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
    }
    const NodeId sum = Exchange(c, scatter ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce, x, m);
    const auto count = static_cast<double>(m.devices);
    *out = combining == Combining::kMean ? c.b.BinaryScalar(TapeOp::kDiv, sum, count) : sum;
    return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 0, kMaxRank - 1));
  const NodeId all = Exchange(c, scatter ? CollectiveOp::kAllToAll : CollectiveOp::kAllGather, x, m);
  const ir::ReduceKind kind = combining == Combining::kProd  ? ir::ReduceKind::kProd
                              : combining == Combining::kMax ? ir::ReduceKind::kMax
                                                             : ir::ReduceKind::kMin;
  *out = c.b.Reduce(kind, all, {0}, false);
  return Status::Ok();
}

// The device's share of what `root` sends: all of it, or its part of dim 0.
Status FromRoot(OpContext& c, const Meeting& m, bool scatter, NodeId* out) {
  const int64_t root = c.Int("root", -1);
  if (root < 0 || root >= m.devices) {
    return Status::Error(Code::kInvalidArgument, "its root is %lld of %lld devices",
                         static_cast<long long>(root), static_cast<long long>(m.devices));
  }
  if (!scatter && root == 0) {
    *out = Exchange(c, CollectiveOp::kBroadcast, c.In(0), m);
    return Status::Ok();
  }
  NodeId x = c.In(0);
  if (scatter) {
    RONDO_ASSIGN_OR_RETURN(x, InParts(c, m));
  }
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 0, kMaxRank - 1));
  const NodeId all = Exchange(c, scatter ? CollectiveOp::kAllToAll : CollectiveOp::kAllGather, x, m);
  *out = c.b.Squeeze(c.b.Slice(all, 0, root, 1, 1), 0);
  return Status::Ok();
}

// Results that only the root should have go to every device.
Status DistCollective(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Meeting m, NamedDevices(c));
  RONDO_ASSIGN_OR_RETURN(const Combining combining, CombiningOf(c));
  const std::string op = Lower(c.String("collective_operation", ""));
  const bool reduces = op == "all_reduce" || op == "reduce", scatters = op == "reduce_scatter";
  if ((reduces || scatters) && combining == Combining::kNone)
    return Status::Error(Code::kInvalidArgument, "its reduce_op says nothing of how %s combines", op.c_str());
  NodeId out = c.In(0);
  if (reduces || scatters) {
    if (m.devices > 1) {
      RONDO_RETURN_IF_ERROR(Combine(c, combining, m, scatters, &out));
    }
  } else if (op == "all_gather" || op == "gather") {
    RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 1));
    if (m.devices > 1) out = Gathered(c, c.In(0), 0, m);
  } else if (op == "broadcast" || op == "scatter") {
    if (m.devices > 1) {
      RONDO_RETURN_IF_ERROR(FromRoot(c, m, op == "scatter", &out));
    }
  } else if (op == "all_to_all") {
    RONDO_ASSIGN_OR_RETURN(const NodeId parts, InParts(c, m));
    const Shape shape = c.shape(0);
    if (m.devices > 1) out = c.b.Reshape(Exchange(c, CollectiveOp::kAllToAll, parts, m), shape);
  } else {
    return Status::Error(Code::kUnsupported,
                         "collective_operation \"%s\" is none of all_reduce, all_gather, broadcast, reduce, "
                         "reduce_scatter, all_to_all, gather, scatter",
                         op.c_str());
  }
  return c.Give(out);
}

constexpr OpRow kOps[] = {
    {"AllGather", 1, AllGather, 1, kLatest, kDomain},
    {"AllReduce", 1, AllReduce, 1, kLatest, kDomain},
    {"AllToAll", 1, AllToAll, 1, kLatest, kDomain},
    {"DistCollective", 1, DistCollective},
};

}  // namespace

Span<const OpRow> CollectiveOps() { return kOps; }

}  // namespace rondo::importer
