#include "compiler/import/device_hints.h"

#include <algorithm>
#include <set>

#include "compiler/import/importer.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

using onnx::NodeProto;
using onnx::ShardingSpecProto;

std::string TextOf(const NodeProto& node) { return node.op_type() + " \"" + NodeName(node) + "\""; }

constexpr const char* kSeveralDims = "it is dealt out along more than one dim";

class Reader {
 public:
  Reader(const onnx::ModelProto& model, uint32_t devices,
         const std::function<const Shape*(const std::string&)>& shape_of)
      : model_(model), devices_(devices), shape_of_(shape_of) {}

  Result<DeviceHints> Run() {
    for (const onnx::DeviceConfigurationProto& configuration : model_.configuration()) {
      known_.insert(configuration.name());
      const bool fits = configuration.num_devices() == static_cast<int64_t>(devices_);
      if (fits && out_.configuration.empty()) out_.configuration = configuration.name();
      if (!fits) {
        out_.not_used.push_back("configuration \"" + configuration.name() + "\": it is for " +
                                std::to_string(configuration.num_devices()) + " devices, not " +
                                std::to_string(devices_));
      }
    }
    for (const NodeProto& node : model_.graph().node()) RONDO_RETURN_IF_ERROR(ReadNode(node));
    return std::move(out_);
  }

 private:
  Status Wrong(const std::string& what) const {
    return Status::Error(Code::kInvalidArgument, "device configuration of %s: %s", node_.c_str(),
                         what.c_str())
        .FromNode(node_);
  }
  void NotUsed(const std::string& value, const std::string& why) {
    out_.not_used.push_back(node_ + ", \"" + value + "\": " + why);
  }

  Status ReadNode(const NodeProto& node) {
    node_ = TextOf(node);
    for (const onnx::NodeDeviceConfigurationProto& of : node.device_configurations()) {
      if (known_.count(of.configuration_id()) == 0)
        return Wrong("the model has no configuration \"" + of.configuration_id() + "\"");
      if (of.configuration_id() != out_.configuration) continue;
      if (of.has_pipeline_stage()) {
        if (of.pipeline_stage() < 0) return Wrong("its stage is " + std::to_string(of.pipeline_stage()));
        out_.stages[node_] = of.pipeline_stage();
      }
      for (const ShardingSpecProto& spec : of.sharding_spec()) RONDO_RETURN_IF_ERROR(ReadSpec(node, spec));
    }
    return Status::Ok();
  }

  Status ReadSpec(const NodeProto& node, const ShardingSpecProto& spec) {
    const std::string& name = spec.tensor_name();
    const bool is_output = std::find(node.output().begin(), node.output().end(), name) != node.output().end();
    if (!is_output && std::find(node.input().begin(), node.input().end(), name) == node.input().end())
      return Wrong("\"" + name + "\" is no input or output of it");
    const Shape* shape = shape_of_(name);
    if (shape == nullptr) return Status::Ok();
    ShareHint hint{name, node_, shape->elements()};
    std::string why;
    RONDO_RETURN_IF_ERROR(ReadDims(spec, *shape, &hint, &why));
    RONDO_RETURN_IF_ERROR(ReadHolders(spec, &hint, &why));
    if (!why.empty()) {
      NotUsed(name, why);
      return Status::Ok();
    }
    return Keep(hint, is_output);
  }

  // Checks that the numbers fit a dim of `extent` or its joined dims.
  Status CheckSharding(const ShardingSpecProto& spec, const onnx::ShardedDimProto& dim,
                       int64_t extent) const {
    const std::string where = "\"" + spec.tensor_name() + "\", axis " + std::to_string(dim.axis()) + ": ";
    int64_t all = 1;
    for (const onnx::SimpleShardedDimProto& simple : dim.simple_sharding()) {
      if (simple.num_shards() < 1)
        return Wrong(where + std::to_string(simple.num_shards()) + " shares; 1 or more are needed");
      const int64_t named = simple.has_dim_value() ? simple.dim_value() : 0;
      const bool fits = named > 0 && all > 0 && named <= extent / all;
      if (simple.has_dim_value() && !fits)
        return Wrong(where + "dim " + std::to_string(named) + " is no part of its " + std::to_string(extent));
      all *= named;
    }
    if (all > 0 && all != extent && dim.simple_sharding_size() > 0)
      return Wrong(where + "its dims make " + std::to_string(all) + "; it is " + std::to_string(extent));
    return Status::Ok();
  }

  // Reads the sharded axis and the length of its runs.
  Status ReadDims(const ShardingSpecProto& spec, const Shape& shape, ShareHint* hint,
                  std::string* why) const {
    for (const onnx::ShardedDimProto& dim : spec.sharded_dim()) {
      const int64_t axis = dim.axis() < 0 ? dim.axis() + shape.rank : dim.axis();
      if (axis < 0 || axis >= shape.rank) {
        return Wrong("\"" + spec.tensor_name() + "\" has no axis " + std::to_string(dim.axis()) + " of " +
                     std::to_string(shape.rank));
      }
      int64_t run = 1;  // elements inside the axis so far
      for (int d = static_cast<int>(axis) + 1; d < shape.rank; ++d) run *= shape[d];
      const bool joined = dim.simple_sharding_size() > 1;
      RONDO_RETURN_IF_ERROR(CheckSharding(spec, dim, shape[static_cast<int>(axis)]));
      for (int i = dim.simple_sharding_size(); i-- > 0;) {
        const onnx::SimpleShardedDimProto& simple = dim.simple_sharding(i);
        const int64_t extent = joined ? simple.dim_value() : shape[static_cast<int>(axis)];
        const int64_t parts = std::max<int64_t>(simple.num_shards(), 1);
        if (extent < 1) *why = "its joined dims are not all numbers";
        if (parts > 1 && hint->parts > 1) *why = kSeveralDims;
        if (parts > 1 && extent % parts != 0 && why->empty())
          *why = "a dim of " + std::to_string(extent) + " has no " + std::to_string(parts) + " equal shares";
        if (parts > 1) *hint = {hint->value, hint->node, hint->elements, parts, run * (extent / parts)};
        run *= std::max<int64_t>(extent, 1);
      }
    }
    return Status::Ok();
  }

  // Reads the devices that hold each part, in order.
  Status ReadHolders(const ShardingSpecProto& spec, ShareHint* hint, std::string* why) const {
    std::vector<int64_t> holders;
    int64_t copies = 0;
    bool even = true;
    for (int64_t entry : spec.device()) {
      std::vector<int64_t> group = {entry};
      for (const onnx::IntIntListEntryProto& named : spec.index_to_device_group_map()) {
        if (named.key() == entry) group.assign(named.value().begin(), named.value().end());
      }
      const auto size = static_cast<int64_t>(group.size());
      even = even && size > 0 && (copies == 0 || copies == size);
      copies = size;
      holders.insert(holders.end(), group.begin(), group.end());
    }
    for (size_t i = 0; i < holders.size(); ++i) {
      if (holders[i] < 0 || holders[i] >= static_cast<int64_t>(devices_)) {
        return Wrong("\"" + spec.tensor_name() + "\" is on device " + std::to_string(holders[i]) + " of " +
                     std::to_string(devices_));
      }
      even = even && (i == 0 || holders[i] == holders[i - 1] + 1);
    }
    if (*why != kSeveralDims && hint->parts > 1 && hint->parts != spec.device_size()) {
      return Wrong("\"" + spec.tensor_name() + "\" has " + std::to_string(hint->parts) + " shares for " +
                   std::to_string(spec.device_size()) + " devices");
    }
    if (!even) *why = "its devices are not neighbours in ascending order";
    hint->copies = std::max<int64_t>(copies, 1);
    return Status::Ok();
  }

  // Keeps a hint. An output's hint takes precedence over those of its readers; two of one kind must agree.
  Status Keep(const ShareHint& hint, bool is_output) {
    const auto same = [](const ShareHint& a, const ShareHint& b) {
      return a.parts == b.parts && (a.parts == 1 || (a.run == b.run && a.copies == b.copies));
    };
    const auto known = std::find_if(out_.shares.begin(), out_.shares.end(),
                                    [&](const ShareHint& other) { return other.value == hint.value; });
    if (is_output || known == out_.shares.end()) {
      if (known != out_.shares.end()) out_.shares.erase(known);
      if (is_output) made_.insert(hint.value);
      out_.shares.push_back(hint);
      return Status::Ok();
    }
    if (same(*known, hint) || made_.count(hint.value) != 0) return Status::Ok();
    const std::string other = known->node;
    return Wrong("it deals \"" + hint.value + "\" out otherwise than " + other);
  }

  const onnx::ModelProto& model_;
  const uint32_t devices_;
  const std::function<const Shape*(const std::string&)>& shape_of_;
  std::string node_;             // the node being read
  std::set<std::string> known_;  // names of configurations
  std::set<std::string> made_;   // values with a hint from their own node
  DeviceHints out_;
};

}  // namespace

Result<DeviceHints> ReadDeviceHints(const onnx::ModelProto& model, uint32_t devices,
                                    const std::function<const Shape*(const std::string&)>& shape_of) {
  return Reader(model, devices, shape_of).Run();
}

}  // namespace rondo::importer
