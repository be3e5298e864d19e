// ReadDeviceHints: reads a model's device configuration (IR version 11) as hints for sharding.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compiler/ir/device_hints.h"
#include "core/shape.h"
#include "core/status.h"

namespace rondo::onnx {
class ModelProto;
}

namespace rondo::importer {

// The hints of the first configuration for `devices` devices, on nodes of the main graph. `shape_of` gives
// the shape of a value, or null if it is not known (nothing needs it). Hints that cannot be followed (several
// sharded axes, uneven shares, devices that are not a range) are listed and left to the search.
// kInvalidArgument, with the node, for hints that contradict one another or the values that they are for.
Result<DeviceHints> ReadDeviceHints(const onnx::ModelProto& model, uint32_t devices,
                                    const std::function<const Shape*(const std::string& value)>& shape_of);

}  // namespace rondo::importer
