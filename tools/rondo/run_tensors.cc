#include "tools/rondo/run_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "formats/plan/true_size.h"

namespace rondo::tools {
namespace {

// The first `length` elements along a dim.
Tensor Shortened(const Tensor& from, uint32_t dim, int64_t length) {
  Tensor to{from.name, from.dtype, from.shape, {}};
  length = std::clamp<int64_t>(length, 0, from.shape[static_cast<int>(dim)]);
  to.shape[static_cast<int>(dim)] = length;
  size_t inner = static_cast<size_t>(ByteSize(from.dtype)), outer = 1;
  for (int d = 0; d < from.shape.rank; ++d)
    (d < static_cast<int>(dim) ? outer : inner) *=
        d == static_cast<int>(dim) ? 1 : static_cast<size_t>(from.shape[d]);
  const size_t whole = inner * static_cast<size_t>(from.shape[static_cast<int>(dim)]),
               kept = inner * static_cast<size_t>(length);
  for (size_t o = 0; o < outer; ++o)
    to.bytes.insert(to.bytes.end(), from.bytes.begin() + static_cast<std::ptrdiff_t>(o * whole),
                    from.bytes.begin() + static_cast<std::ptrdiff_t>(o * whole + kept));
  return to;
}

// Outputs whose size data decide (formats/plan/true_size.h) get their true size, and the outputs with the
// sizes are dropped.
std::vector<Tensor> OfTrueSizes(const PlanData& plan, const Program& program, std::vector<Tensor> tensors) {
  std::set<std::string> sizes;
  for (uint32_t output = 0; output < program.outputs.size(); ++output) {
    const auto find = [&](std::string_view name) {
      return std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
    };
    for (const TrueSize& size : TrueSizesOf(plan, program, output)) {
      const auto whole = find(program.outputs[output].name), by = find(program.outputs[size.by].name);
      if (whole == tensors.end() || by == tensors.end()) continue;
      int64_t length = 0;
      std::memcpy(&length, by->bytes.data(), sizeof length);
      *whole = Shortened(*whole, size.dim, length);
      sizes.insert(by->name);
    }
  }
  std::erase_if(tensors, [&](const Tensor& tensor) { return sizes.count(tensor.name) != 0; });
  return tensors;
}

}  // namespace

std::vector<Input> InputsOf(const PlanData& plan, uint32_t program, Span<const Tensor> tensors) {
  std::vector<Input> inputs;
  for (const Tensor& tensor : tensors) {
    Input input;
    input.name = tensor.name;
    input.dtype = tensor.dtype;
    input.shape = tensor.shape;
    input.data = tensor.bytes.data();
    input.bytes = tensor.bytes.size();
    for (const Port& port : plan.programs[program].inputs) {
      const bool bits = tensor.dtype == DType::kU16 && plan.buffers[port.buffer].dtype == DType::kBF16;
      if (port.name == tensor.name && bits) input.dtype = DType::kBF16;
    }
    inputs.push_back(input);
  }
  return inputs;
}

Result<std::vector<Tensor>> RunOnTensors(Session& session, uint32_t program,
                                         const std::vector<Tensor>& inputs, const RunOptions& options) {
  const PlanData& plan = session.plan().data();
  const auto& ports = plan.programs[program];
  const std::vector<Input> in = InputsOf(plan, program, inputs);
  std::vector<Tensor> tensors;
  std::vector<uint32_t> numbers;  // indices of their ports
  for (uint32_t i = 0; i < ports.outputs.size(); ++i) {
    const Buffer& buffer = plan.buffers[ports.outputs[i].buffer];
    if (session.device(buffer.device) == nullptr) continue;
    numbers.push_back(i);
    tensors.push_back(
        {std::string(ports.outputs[i].name), buffer.dtype, buffer.shape, std::vector<uint8_t>(buffer.bytes)});
  }
  std::vector<Output> out;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    Output output;
    output.index = numbers[i];
    output.dtype = tensors[i].dtype;
    output.data = tensors[i].bytes.data();
    output.bytes = tensors[i].bytes.size();
    out.push_back(output);
  }
  RONDO_RETURN_IF_ERROR(session.Run(program, in, out, options));
  return OfTrueSizes(plan, ports, std::move(tensors));
}

void DropStates(const PlanData& plan, uint32_t program, std::vector<Tensor>* tensors) {
  const auto& ports = plan.programs[program].inputs;
  std::erase_if(*tensors, [&](const Tensor& tensor) {
    return std::any_of(ports.begin(), ports.end(),
                       [&](const Port& port) { return port.is_state && port.name == tensor.name; });
  });
}

Status SetStates(Session& session, uint32_t program, std::vector<Tensor>* tensors) {
  const PlanData& plan = session.plan().data();
  std::vector<Tensor> others = *tensors;
  DropStates(plan, program, &others);
  if (others.size() == tensors->size()) return Status::Ok();
  RONDO_RETURN_IF_ERROR(session.Run(program, InputsOf(plan, program, *tensors), {}));
  *tensors = std::move(others);
  return Status::Ok();
}

std::string NotNamedFile(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals != 0 && equals != std::string::npos && equals + 1 != argument.size()) continue;
    return "--input " + argument + " is not of the form NAME=FILE";
  }
  return "";
}

Result<std::vector<Tensor>> ReadNamedTensors(const std::vector<std::string>& arguments) {
  std::vector<Tensor> tensors;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    RONDO_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(argument.substr(equals + 1)));
    tensor.name = argument.substr(0, equals);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace rondo::tools
