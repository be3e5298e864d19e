#include "runtime/buckets/padded_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/buckets/corner_copy.h"

namespace rondo {
namespace {

using PaddedPort = BucketFamily::PaddedPort;

constexpr size_t kAlignment = 64;

size_t BytesOf(const Shape& shape, DType dtype) {
  return static_cast<size_t>(shape.elements()) * static_cast<size_t>(ByteSize(dtype));
}

Status InDeviceMemory(const PaddedPort& port) {
  return Status::Error(Code::kUnsupported,
                       "\"%.200s\" lies in device memory and is smaller than its bucket's: give it in host "
                       "memory, or with all of the bucket's shape",
                       port.plan.name.c_str());
}

}  // namespace

PaddedTensors::PaddedTensors(const BucketFamily* family) : family_(family) {
  size_t total = 0, most_inputs = 0, most_outputs = 0;
  // A run uses the ports of one program at a time, so that each port has room for the largest.
  const auto add = [&](bool outputs, std::vector<size_t>* at) {
    const auto ports_of = [&](const BucketFamily::Bucket& b) -> const std::vector<PaddedPort>& {
      return outputs ? b.outputs : b.inputs;
    };
    size_t most = 0;
    for (const auto& bucket : family->buckets()) most = std::max(most, ports_of(bucket).size());
    for (size_t i = 0; i < most; ++i) {
      size_t bytes = 0;
      for (const auto& bucket : family->buckets()) {
        if (i >= ports_of(bucket).size() || !ports_of(bucket)[i].padded()) continue;
        bytes = std::max(bytes, BytesOf(ports_of(bucket)[i].plan.shape, ports_of(bucket)[i].plan.dtype));
      }
      at->push_back(total);
      total += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return most;
  };
  most_inputs = add(false, &input_at_);
  most_outputs = add(true, &output_at_);
  memory_.resize(total);
  inputs_.resize(most_inputs + kMostLengths);
  outputs_.resize(most_outputs);
  cuts_.resize(most_outputs * kMostParts);
}

Status PaddedTensors::AddInput(const BucketFamily::Choice& choice, const Input& given) {
  const std::vector<PaddedPort>& ports = family_->bucket(choice).inputs;
  const uint32_t at = given.name.empty() ? given.index : family_->FindInput(given.name);
  if (at >= ports.size() || num_inputs_ == inputs_.size())
    return Status::Error(Code::kInvalidArgument, "an input of \"%.200s\" is given twice, or is none",
                         family_->name().c_str());
  const PaddedPort& port = ports[at];
  Input& input = inputs_[num_inputs_++] = given;
  input.name = {};
  input.index = port.index;
  if (given.shape == port.plan.shape) return Status::Ok();
  if (given.memory == MemoryKind::kDevice) return InDeviceMemory(port);
  if (given.dtype != port.plan.dtype || given.data == nullptr ||
      given.bytes != BytesOf(given.shape, given.dtype)) {
    return Status::Error(Code::kInvalidArgument,
                         "input \"%.200s\": %llu bytes of %s; its shape has %zu of %s",
                         port.plan.name.c_str(), static_cast<unsigned long long>(given.bytes),
                         Name(given.dtype), BytesOf(given.shape, port.plan.dtype), Name(port.plan.dtype));
  }
  uint8_t* to = memory_.data() + input_at_[at];
  CopyIntoCorner(given.data, given.shape, to, port.plan.shape, static_cast<size_t>(ByteSize(given.dtype)));
  input.shape = port.plan.shape;
  input.data = to;
  input.bytes = BytesOf(port.plan.shape, port.plan.dtype);
  return Status::Ok();
}

Status PaddedTensors::AddOutput(const BucketFamily::Choice& choice, const Output& given) {
  const std::vector<PaddedPort>& ports = family_->bucket(choice).outputs;
  const uint32_t at = given.name.empty() ? given.index : family_->FindOutput(given.name);
  if (at >= ports.size()) {
    return Status::Error(Code::kNotFound, "\"%.200s\" has no output \"%.*s\"", family_->name().c_str(),
                         static_cast<int>(std::min<size_t>(given.name.size(), 200)), given.name.data());
  }
  if (num_outputs_ == outputs_.size())
    return Status::Error(Code::kInvalidArgument, "an output of \"%.200s\" is given twice",
                         family_->name().c_str());
  const PaddedPort& port = ports[at];
  Output& output = outputs_[num_outputs_++] = given;
  output.name = {};
  output.index = port.index;
  const Shape shape = port.ShapeOf(choice);
  if (shape == port.plan.shape) return Status::Ok();
  if (given.memory == MemoryKind::kDevice) return InDeviceMemory(port);
  if (given.dtype != port.plan.dtype || given.data == nullptr || given.bytes != BytesOf(shape, given.dtype)) {
    char text[128];
    return Status::Error(Code::kInvalidArgument, "output \"%.200s\": %llu bytes of %s for %s of shape %s",
                         port.plan.name.c_str(), static_cast<unsigned long long>(given.bytes),
                         Name(given.dtype), Name(port.plan.dtype), Format(shape, text, sizeof text));
  }
  output.data = memory_.data() + output_at_[at];
  output.bytes = BytesOf(port.plan.shape, port.plan.dtype);
  cuts_[num_cuts_++] = {output.data, given.data, port.plan.shape, shape,
                        static_cast<size_t>(ByteSize(given.dtype))};
  return Status::Ok();
}

void PaddedTensors::AddLengths(const BucketFamily::Choice& choice) {
  const std::vector<PaddedPort>& ports = family_->bucket(choice).inputs;
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].length == kNone) continue;
    int64_t* length = &lengths_[ports[i].length];
    *length = choice.lengths[ports[i].length];
    Input& input = inputs_[num_inputs_++];
    input = {};
    input.index = ports[i].index;
    input.dtype = DType::kI64;
    input.data = length;
    input.bytes = sizeof *length;
  }
}

Status PaddedTensors::Prepare(const BucketFamily::Choice& choice, Span<const Input> inputs,
                              Span<const Output> outputs) {
  num_inputs_ = num_outputs_ = num_cuts_ = 0;
  AddLengths(choice);
  for (const Input& input : inputs) RONDO_RETURN_IF_ERROR(AddInput(choice, input));
  for (const Output& output : outputs) RONDO_RETURN_IF_ERROR(AddOutput(choice, output));
  return Status::Ok();
}

namespace {

// The dim of a port along which parts follow one another; null if there is none.
const BucketDim* DimOfParts(const PaddedPort& port, uint32_t length) {
  const BucketDim* found = nullptr;
  for (const BucketDim& dim : port.dims) {
    for (const BucketDim::Term& term : dim.terms) {
      if (term.length != length) continue;
      const bool plain = dim.terms.size() == 1 && term.times == 1 && dim.plus == 0 && dim.over == 1;
      if (!plain || found != nullptr) return nullptr;
      found = &dim;
    }
  }
  return found;
}

// Bytes from one position of a dim to the next.
size_t BytesOfPosition(const PaddedPort& port, uint32_t dim) {
  size_t bytes = static_cast<size_t>(ByteSize(port.plan.dtype));
  for (int d = static_cast<int>(dim) + 1; d < port.plan.shape.rank; ++d)
    bytes *= static_cast<size_t>(port.plan.shape[d]);
  return bytes;
}

}  // namespace

// `at`: the port that all parts share.
Status PaddedTensors::AddInputOfAll(const BucketFamily::Choice& choice, uint32_t at,
                                    Span<const BucketPart> parts, uint32_t length) {
  const PaddedPort& port = family_->bucket(choice).inputs[at];
  const BucketDim& dim = *DimOfParts(port, length);
  uint8_t* const whole = memory_.data() + input_at_[at];
  uint8_t* to = whole;
  std::memset(whole, 0, BytesOf(port.plan.shape, port.plan.dtype));
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto is_it = [&](const Input& input) {
      return (input.name.empty() ? input.index : family_->FindInput(input.name)) == at;
    };
    const Input* given = std::find_if(parts[p].inputs.begin(), parts[p].inputs.end(), is_it);
    const bool fits = given != parts[p].inputs.end() && given->dtype == port.plan.dtype &&
                      given->data != nullptr && given->memory == MemoryKind::kHost &&
                      given->bytes == BytesOf(given->shape, port.plan.dtype);
    if (!fits) {
      return Status::Error(Code::kInvalidArgument,
                           "part %zu has no input \"%.200s\" of %s in host memory, of its shape's bytes", p,
                           port.plan.name.c_str(), Name(port.plan.dtype));
    }
    CopyIntoCorner(given->data, given->shape, to, port.plan.shape,
                   static_cast<size_t>(ByteSize(port.plan.dtype)), false);
    to += static_cast<size_t>(given->shape[static_cast<int>(dim.dim)]) * BytesOfPosition(port, dim.dim);
  }
  Input& input = inputs_[num_inputs_++] = {};
  input.index = port.index;
  input.dtype = port.plan.dtype;
  input.shape = port.plan.shape;
  input.data = whole;
  input.bytes = BytesOf(port.plan.shape, port.plan.dtype);
  return Status::Ok();
}

Status PaddedTensors::AddOutputOfPart(const BucketFamily::Choice& choice, const Output& given,
                                      uint32_t length, int64_t first, int64_t count) {
  const std::vector<PaddedPort>& ports = family_->bucket(choice).outputs;
  const uint32_t at = given.name.empty() ? given.index : family_->FindOutput(given.name);
  const BucketDim* dim = at < ports.size() ? DimOfParts(ports[at], length) : nullptr;
  if (dim == nullptr || num_cuts_ == cuts_.size()) {
    return Status::Error(Code::kInvalidArgument, "output \"%.*s\" has no \"%.100s\" to be parted by",
                         static_cast<int>(std::min<size_t>(given.name.size(), 200)), given.name.data(),
                         family_->lengths()[length].c_str());
  }
  const PaddedPort& port = ports[at];
  Shape shape = port.ShapeOf(choice);
  shape[static_cast<int>(dim->dim)] = count;
  if (given.dtype != port.plan.dtype || given.data == nullptr || given.memory != MemoryKind::kHost ||
      given.bytes != BytesOf(shape, given.dtype)) {
    char text[128];
    return Status::Error(Code::kInvalidArgument, "output \"%.200s\": %llu bytes of %s for %s of shape %s",
                         port.plan.name.c_str(), static_cast<unsigned long long>(given.bytes),
                         Name(given.dtype), Name(port.plan.dtype), Format(shape, text, sizeof text));
  }
  uint8_t* const whole = memory_.data() + output_at_[at];
  const bool listed =
      std::any_of(outputs_.begin(), outputs_.begin() + static_cast<std::ptrdiff_t>(num_outputs_),
                  [&](const Output& output) { return output.index == port.index; });
  if (!listed) {
    Output& output = outputs_[num_outputs_++] = given;
    output.name = {};
    output.index = port.index;
    output.data = whole;
    output.bytes = BytesOf(port.plan.shape, port.plan.dtype);
  }
  cuts_[num_cuts_++] = {whole + static_cast<size_t>(first) * BytesOfPosition(port, dim->dim), given.data,
                        port.plan.shape, shape, static_cast<size_t>(ByteSize(given.dtype))};
  return Status::Ok();
}

Status PaddedTensors::PrepareTogether(const BucketFamily::Choice& choice, Span<const BucketPart> parts,
                                      uint32_t length) {
  if (parts.size() == 1) return Prepare(choice, parts[0].inputs, parts[0].outputs);
  num_inputs_ = num_outputs_ = num_cuts_ = 0;
  AddLengths(choice);
  const std::vector<PaddedPort>& ports = family_->bucket(choice).inputs;
  for (const Input& input : parts[0].inputs) {
    const uint32_t at = input.name.empty() ? input.index : family_->FindInput(input.name);
    if (num_inputs_ == inputs_.size())
      return Status::Error(Code::kInvalidArgument, "an input of \"%.200s\" is given twice",
                           family_->name().c_str());
    RONDO_RETURN_IF_ERROR(DimOfParts(ports[at], length) != nullptr ? AddInputOfAll(choice, at, parts, length)
                                                                   : AddInput(choice, input));
  }
  int64_t first = 0;
  for (const BucketPart& part : parts) {
    RONDO_ASSIGN_OR_RETURN(const BucketFamily::Choice own, family_->Choose(part.inputs));
    for (const Output& output : part.outputs)
      RONDO_RETURN_IF_ERROR(AddOutputOfPart(choice, output, length, first, own.lengths[length]));
    first += own.lengths[length];
  }
  return Status::Ok();
}

void PaddedTensors::Finish() const {
  for (size_t i = 0; i < num_cuts_; ++i)
    CopyFromCorner(cuts_[i].from, cuts_[i].large, cuts_[i].to, cuts_[i].small, cuts_[i].width);
}

}  // namespace rondo
