// DeviceTensors: memory on a session's devices for the inputs and outputs of one program.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "runtime/session.h"

namespace rondo::tools {

// Gives its memory back when destroyed: before the session, with no run of it under way. Movable.
class DeviceTensors {
 public:
  // `host` in device memory, with the same contents, and memory for every output that is not state.
  static Result<DeviceTensors> Create(const Session& session, uint32_t program,
                                      const std::vector<Input>& host);
  DeviceTensors(DeviceTensors&&) noexcept = default;
  DeviceTensors& operator=(DeviceTensors&&) = delete;
  ~DeviceTensors();

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // What output `i` of outputs() holds.
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
