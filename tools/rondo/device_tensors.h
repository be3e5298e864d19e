// DeviceTensors: memory on a session's devices for the inputs and outputs of one program.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "runtime/session.h"

namespace rondo::tools {

// Frees its memory when destroyed, which must be before the session, with no run in progress. Movable.
class DeviceTensors {
 public:
  // Copies `host` to device memory, and allocates memory for every output that is not a state.
  static Result<DeviceTensors> Create(const Session& session, uint32_t program,
                                      const std::vector<Input>& host);
  DeviceTensors(DeviceTensors&&) noexcept = default;
  DeviceTensors& operator=(DeviceTensors&&) = delete;
  ~DeviceTensors();

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // The contents of output `i` of outputs().
  Result<std::vector<uint8_t>> Read(size_t i) const;

 private:
  struct Block {
    Device* device;
    Stream* stream;
    DeviceAddress address;
    uint64_t bytes;
  };
  DeviceTensors() = default;
  Result<DeviceAddress> Make(const Session& session, uint32_t buffer);

  std::vector<Block> blocks_;  // inputs, then outputs
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace rondo::tools
