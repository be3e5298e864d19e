#include "tools/rondo/dealt_states.h"

#include <algorithm>
#include <cstring>

#include "compiler/ir/walk.h"

namespace rondo::tools {
namespace {

// The plan's port for `name` on a device; null if it is no state.
const Port* StateOn(const PlanData& plan, Span<const Port> ports, const std::string& name, uint32_t device) {
  const std::string on = name + "@" + std::to_string(device);
  for (const Port& port : ports) {
    const bool named = port.name == name || port.name == on;
    if (port.is_state && named && plan.buffers[port.buffer].device == device) return &port;
  }
  return nullptr;
}

bool IsOf(const PlanData& plan, uint32_t program, const StateShare& share) {
  return share.program == plan.programs[program].name;
}

Tensor* Find(std::vector<Tensor>* tensors, std::string_view name) {
  const auto found =
      std::find_if(tensors->begin(), tensors->end(), [&](const Tensor& t) { return t.name == name; });
  return found == tensors->end() ? nullptr : &*found;
}

// A whole state being assembled.
struct Whole {
  Tensor tensor;
  std::vector<bool> there;  // by element
};

// By element of a device's share: its index on the device.
std::vector<size_t> PlacesOf(const StateShare& share) {
  std::vector<size_t> places(static_cast<size_t>(share.held.shape().elements()));
  ir::ForEachElement(
      share.held, [&](int64_t i, int64_t at) { places[static_cast<size_t>(i)] = static_cast<size_t>(at); });
  return places;
}

// Adds a device's share; false if an element is already there with other bits.
bool Add(const Tensor& part, const StateShare& share, Whole* whole) {
  const auto size = static_cast<size_t>(ByteSize(part.dtype));
  const std::vector<size_t> places = PlacesOf(share);
  bool same = true;
  ir::ForEachElement(share.share, [&](int64_t i, int64_t at) {
    const uint8_t* from = part.bytes.data() + places[static_cast<size_t>(i)] * size;
    uint8_t* to = whole->tensor.bytes.data() + static_cast<size_t>(at) * size;
    if (whole->there[static_cast<size_t>(at)]) {
      same = same && std::memcmp(from, to, size) == 0;
    } else {
      std::memcpy(to, from, size);
      whole->there[static_cast<size_t>(at)] = true;
    }
  });
  return same;
}

}  // namespace

Result<std::vector<Tensor>> DealStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors) {
  std::vector<Tensor> dealt;
  std::vector<std::string> whole;  // names of the sharded states
  for (const StateShare& share : shares) {
    const Tensor* tensor = IsOf(plan, program, share) ? Find(&tensors, share.input) : nullptr;
    const Port* port = StateOn(plan, plan.programs[program].inputs, share.input, share.device);
    if (tensor == nullptr || port == nullptr) continue;
    if (!(tensor->shape == share.whole)) {
      char is[256], must[256];
      return Status::Error(Code::kInvalidArgument, "input \"%s\" is %s, the state is %s", share.input.c_str(),
                           Format(tensor->shape, is, sizeof is), Format(share.whole, must, sizeof must));
    }
    const auto size = static_cast<size_t>(ByteSize(tensor->dtype));
    Tensor part{std::string(port->name), tensor->dtype, plan.buffers[port->buffer].shape,
                std::vector<uint8_t>(plan.buffers[port->buffer].bytes)};
    const std::vector<size_t> places = PlacesOf(share);
    ir::ForEachElement(share.share, [&](int64_t i, int64_t at) {
      std::memcpy(part.bytes.data() + places[static_cast<size_t>(i)] * size,
                  tensor->bytes.data() + static_cast<size_t>(at) * size, size);
    });
    dealt.push_back(std::move(part));
    whole.push_back(share.input);
  }
  std::erase_if(tensors, [&](const Tensor& tensor) {
    return std::find(whole.begin(), whole.end(), tensor.name) != whole.end();
  });
  tensors.insert(tensors.end(), std::make_move_iterator(dealt.begin()), std::make_move_iterator(dealt.end()));
  return tensors;
}

Result<std::vector<Tensor>> JoinStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors) {
  std::vector<Whole> states;
  std::vector<std::string> parts;  // names of the joined shares
  for (const StateShare& share : shares) {
    const Port* port = StateOn(plan, plan.programs[program].outputs, share.output, share.device);
    if (!IsOf(plan, program, share) || port == nullptr) continue;
    const Tensor* part = Find(&tensors, port->name);
    if (part == nullptr) continue;
    auto state = std::find_if(states.begin(), states.end(),
                              [&](const Whole& whole) { return whole.tensor.name == share.output; });
    if (state == states.end()) {
      const auto elements = static_cast<size_t>(share.whole.elements());
      Whole whole{{share.output, part->dtype, share.whole,
                   std::vector<uint8_t>(elements * static_cast<size_t>(ByteSize(part->dtype)))},
                  std::vector<bool>(elements, false)};
      state = states.insert(states.end(), std::move(whole));
    }
    if (!Add(*part, share, &*state)) {
      return Status::Error(Code::kInternal, "state \"%s\": device %u holds other bits than those before it",
                           share.output.c_str(), share.device);
    }
    parts.emplace_back(port->name);
  }
  std::erase_if(tensors, [&](const Tensor& tensor) {
    return std::find(parts.begin(), parts.end(), tensor.name) != parts.end();
  });
  for (Whole& whole : states) {
    if (std::find(whole.there.begin(), whole.there.end(), false) != whole.there.end()) {
      return Status::Error(Code::kInternal, "state \"%s\": a part of it is on no device",
                           whole.tensor.name.c_str());
    }
    tensors.push_back(std::move(whole.tensor));
  }
  return tensors;
}

}  // namespace rondo::tools
