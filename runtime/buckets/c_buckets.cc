// The C interface to buckets, on top of librondo's C interface. It uses only plain data of the library's C++.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/buckets/bucket_family.h"
#include "runtime/buckets/padded_tensors.h"
#include "runtime/buckets/rondo_buckets.h"
#include "runtime/new_error.h"

using rondo::BucketFamily;
using rondo::BucketPort;
using rondo::Code;
using rondo::NewError;
using rondo::Result;
using rondo::Span;
using rondo::Status;

struct rondo_buckets {
  rondo_buckets(rondo_session* s, BucketFamily f) : session(s), family(std::move(f)), tensors(&family) {}

  rondo_session* session;
  BucketFamily family;
  rondo::PaddedTensors tensors;
  // Of one run: the caller's tensors as C++ structs, and the tensors that the program gets.
  std::vector<rondo::Input> inputs;
  std::vector<rondo::Output> outputs;
  std::vector<rondo_tensor> run_inputs, run_outputs;
};

namespace {

rondo_error* IsNull(const char* what) {
  return NewError(Status::Error(Code::kInvalidArgument, "%s is NULL", what));
}

// The Status of `error`, whose ownership it takes.
Status StatusOf(rondo_error* error) {
  const Status status =
      Status::Error(static_cast<Code>(rondo_error_code(error)), "%s", rondo_error_message(error));
  rondo_error_destroy(error);
  return status;
}

Status PortsOf(const rondo_plan* plan, uint32_t program, rondo_direction direction,
               std::vector<BucketPort>* ports) {
  const uint32_t count = rondo_plan_port_count(plan, program, direction);
  for (uint32_t i = 0; i < count; ++i) {
    rondo_port port = RONDO_INIT(rondo_port);
    if (rondo_error* error = rondo_plan_get_port(plan, program, direction, i, &port)) return StatusOf(error);
    if (port.rank > RONDO_PORT_DIMS)
      return Status::Error(
          Code::kUnsupported, "%s \"%s\" has %u dimensions: programs of buckets have at most %d",
          direction == RONDO_INPUT ? "input" : "output", port.name, port.rank, RONDO_PORT_DIMS);
    ports->push_back({port.name, static_cast<rondo::DType>(port.dtype),
                      rondo::Shape(Span<const int64_t>(port.dims, port.rank)), port.is_state != 0});
  }
  return Status::Ok();
}

// The programs with a note on their inputs' buffers.
Result<std::vector<rondo::BucketProgram>> ProgramsOf(const rondo_plan* plan) {
  std::vector<rondo::BucketProgram> programs;
  const uint32_t count = rondo_plan_buffer_count(plan);
  for (uint32_t i = 0; i < count; ++i) {
    rondo_buffer buffer = RONDO_INIT(rondo_buffer);
    if (rondo_error* error = rondo_plan_get_buffer(plan, i, &buffer)) return StatusOf(error);
    if (buffer.program == RONDO_NO_INDEX || buffer.source_bytes == 0) continue;
    std::optional<rondo::BucketNote> note = rondo::ParseBucketNote({buffer.source, buffer.source_bytes});
    if (!note) continue;
    rondo::BucketProgram& program = programs.emplace_back();
    program.program = buffer.program;
    program.note = std::move(*note);
    RONDO_RETURN_IF_ERROR(PortsOf(plan, buffer.program, RONDO_INPUT, &program.inputs));
    RONDO_RETURN_IF_ERROR(PortsOf(plan, buffer.program, RONDO_OUTPUT, &program.outputs));
  }
  return programs;
}

Result<rondo_buckets*> Make(const rondo_plan* plan, rondo_session* session, const char* family) {
  RONDO_ASSIGN_OR_RETURN(std::vector<rondo::BucketProgram> programs, ProgramsOf(plan));
  RONDO_ASSIGN_OR_RETURN(BucketFamily found, rondo::FindFamily(rondo::FamiliesOf(std::move(programs)),
                                                               family == nullptr ? "" : family));
  auto* buckets = new rondo_buckets(session, std::move(found));
  size_t most_inputs = 0, most_outputs = 0;
  for (const BucketFamily::Bucket& bucket : buckets->family.buckets()) {
    most_inputs = std::max(most_inputs, bucket.inputs.size());
    most_outputs = std::max(most_outputs, bucket.outputs.size());
  }
  buckets->inputs.resize(most_inputs * rondo::kMostParts);
  buckets->outputs.resize(most_outputs * rondo::kMostParts);
  buckets->run_inputs.resize(most_inputs + rondo::kMostLengths, RONDO_INIT(rondo_tensor));
  buckets->run_outputs.resize(most_outputs, RONDO_INIT(rondo_tensor));
  return buckets;
}

// Element `i` of an array; the first element states the size of all.
Result<rondo_tensor> TensorAt(const rondo_tensor* tensors, size_t i) {
  rondo_tensor full = RONDO_INIT(rondo_tensor);
  const size_t size = tensors->size;
  if (size < offsetof(rondo_tensor, memory) || size > 4096)
    return Status::Error(Code::kInvalidArgument,
                         "the size of a rondo_tensor is %zu; use RONDO_INIT(rondo_tensor)", size);
  std::memcpy(&full, reinterpret_cast<const char*>(tensors) + i * size, std::min(size, sizeof full));
  if (full.rank > RONDO_MAX_RANK || (full.dims == nullptr && full.rank != 0))
    return Status::Error(Code::kInvalidArgument, "tensor %zu: its rank is %u, or its dims are NULL", i,
                         full.rank);
  if (static_cast<int>(full.dtype) < 0 || static_cast<int>(full.dtype) >= rondo::kNumDTypes)
    return Status::Error(Code::kInvalidArgument, "tensor %zu: dtype %d is unknown", i,
                         static_cast<int>(full.dtype));
  return full;
}

Status CheckCount(const rondo_tensor* tensors, size_t count, size_t room) {
  if (count > room || (count != 0 && tensors == nullptr))
    return Status::Error(Code::kInvalidArgument,
                         "%zu tensors are given, of at most %zu, or the array is NULL", count, room);
  return Status::Ok();
}

Status Read(const rondo_tensor* tensors, size_t count, Span<rondo::Input> to) {
  RONDO_RETURN_IF_ERROR(CheckCount(tensors, count, to.size()));
  for (size_t i = 0; i < count; ++i) {
    RONDO_ASSIGN_OR_RETURN(const rondo_tensor from, TensorAt(tensors, i));
    to[i] = {from.name == nullptr ? "" : from.name,
             from.index,
             static_cast<rondo::DType>(from.dtype),
             rondo::Shape(Span<const int64_t>(from.dims, from.rank)),
             from.data,
             from.bytes,
             from.memory == RONDO_DEVICE_MEMORY ? rondo::MemoryKind::kDevice : rondo::MemoryKind::kHost};
  }
  return Status::Ok();
}

Status Read(const rondo_tensor* tensors, size_t count, Span<rondo::Output> to) {
  RONDO_RETURN_IF_ERROR(CheckCount(tensors, count, to.size()));
  for (size_t i = 0; i < count; ++i) {
    RONDO_ASSIGN_OR_RETURN(const rondo_tensor from, TensorAt(tensors, i));
    to[i] = {from.name == nullptr ? "" : from.name,
             from.index,
             static_cast<rondo::DType>(from.dtype),
             from.data,
             from.bytes,
             from.memory == RONDO_DEVICE_MEMORY ? rondo::MemoryKind::kDevice : rondo::MemoryKind::kHost};
  }
  return Status::Ok();
}

template <typename T>
void Write(const T& from, rondo_tensor* to) {
  to->name = nullptr;
  to->index = from.index;
  to->dtype = static_cast<rondo_dtype>(from.dtype);
  to->data = const_cast<void*>(from.data);
  to->bytes = from.bytes;
  to->memory = static_cast<rondo_memory>(from.memory);
}

// The bucket for the inputs; uses only the stack, so that any thread may ask.
Result<BucketFamily::Choice> ChoiceOf(const rondo_buckets* buckets, const rondo_tensor* inputs,
                                      size_t count) {
  constexpr size_t kMost = 64;
  rondo::Input room[kMost];
  RONDO_RETURN_IF_ERROR(Read(inputs, count, Span<rondo::Input>(room, kMost)));
  return buckets->family.Choose({room, count});
}

// The part that both ways to run share.
Status Prepare(rondo_buckets* buckets, uint32_t along, const rondo_buckets_part* parts, size_t num_parts,
               uint32_t* program) {
  if (num_parts == 0 || num_parts > rondo::kMostParts || parts->size < sizeof(rondo_buckets_part))
    return Status::Error(
        Code::kInvalidArgument,
        "%zu parts, of 1 to %zu, or their size is not set; use RONDO_INIT(rondo_buckets_part)", num_parts,
        rondo::kMostParts);
  rondo::BucketPart all[rondo::kMostParts];
  size_t in = 0, out = 0;
  for (size_t p = 0; p < num_parts; ++p) {
    const auto& part =
        *reinterpret_cast<const rondo_buckets_part*>(reinterpret_cast<const char*>(parts) + p * parts->size);
    rondo::Input* const inputs = buckets->inputs.data() + in;
    rondo::Output* const outputs = buckets->outputs.data() + out;
    RONDO_RETURN_IF_ERROR(
        Read(part.inputs, part.num_inputs, Span<rondo::Input>(inputs, buckets->inputs.size() - in)));
    RONDO_RETURN_IF_ERROR(
        Read(part.outputs, part.num_outputs, Span<rondo::Output>(outputs, buckets->outputs.size() - out)));
    all[p] = {{inputs, part.num_inputs}, {outputs, part.num_outputs}};
    in += part.num_inputs;
    out += part.num_outputs;
  }
  const Span<const rondo::BucketPart> given(all, num_parts);
  RONDO_ASSIGN_OR_RETURN(const BucketFamily::Choice choice, buckets->family.ChooseTogether(given, along));
  RONDO_RETURN_IF_ERROR(buckets->tensors.PrepareTogether(choice, given, along));
  *program = buckets->family.bucket(choice).program;
  return Status::Ok();
}

rondo_error* RunParts(rondo_buckets* buckets, uint32_t along, const rondo_buckets_part* parts,
                      size_t num_parts, const rondo_run_options* options) {
  uint32_t program = 0;
  if (const Status status = Prepare(buckets, along, parts, num_parts, &program); !status.ok())
    return NewError(status);
  size_t num_in = 0, num_out = 0;
  for (const rondo::Input& input : buckets->tensors.inputs()) {
    rondo_tensor& to = buckets->run_inputs[num_in++];
    Write(input, &to);
    to.rank = static_cast<uint32_t>(input.shape.rank);
    to.dims = input.shape.dims;
  }
  for (const rondo::Output& output : buckets->tensors.outputs())
    Write(output, &buckets->run_outputs[num_out++]);
  rondo_error* error = rondo_session_run(buckets->session, program, buckets->run_inputs.data(), num_in,
                                         buckets->run_outputs.data(), num_out, options);
  if (error == nullptr) buckets->tensors.Finish();
  return error;
}

}  // namespace

extern "C" {

rondo_error* rondo_buckets_create(const rondo_plan* plan, rondo_session* session, const char* family,
                                  rondo_buckets** buckets) {
  if (plan == nullptr || session == nullptr || buckets == nullptr)
    return IsNull("rondo_buckets_create: plan, session or buckets");
  Result<rondo_buckets*> made = Make(plan, session, family);
  if (!made.ok()) return NewError(made.status());
  *buckets = *made;
  return nullptr;
}

void rondo_buckets_destroy(rondo_buckets* buckets) { delete buckets; }

rondo_error* rondo_buckets_choose(const rondo_buckets* buckets, const rondo_tensor* inputs, size_t num_inputs,
                                  uint32_t* program) {
  if (buckets == nullptr || program == nullptr) return IsNull("rondo_buckets_choose: buckets or program");
  const Result<BucketFamily::Choice> choice = ChoiceOf(buckets, inputs, num_inputs);
  if (!choice.ok()) return NewError(choice.status());
  *program = buckets->family.bucket(*choice).program;
  return nullptr;
}

rondo_error* rondo_buckets_output_shape(const rondo_buckets* buckets, const rondo_tensor* inputs,
                                        size_t num_inputs, const char* name, uint32_t* rank, int64_t* dims) {
  if (buckets == nullptr || name == nullptr || rank == nullptr || dims == nullptr)
    return IsNull("rondo_buckets_output_shape: buckets, name, rank or dims");
  const Result<BucketFamily::Choice> choice = ChoiceOf(buckets, inputs, num_inputs);
  if (!choice.ok()) return NewError(choice.status());
  const uint32_t at = buckets->family.FindOutput(name);
  if (at == rondo::kNone)
    return NewError(Status::Error(Code::kNotFound, "\"%.200s\" has no output \"%.200s\"",
                                  buckets->family.name().c_str(), name));
  const rondo::Shape shape = buckets->family.bucket(*choice).outputs[at].ShapeOf(*choice);
  *rank = static_cast<uint32_t>(shape.rank);
  for (int d = 0; d < shape.rank; ++d) dims[d] = shape[d];
  return nullptr;
}

rondo_error* rondo_buckets_run(rondo_buckets* buckets, const rondo_tensor* inputs, size_t num_inputs,
                               const rondo_tensor* outputs, size_t num_outputs,
                               const rondo_run_options* options) {
  rondo_buckets_part part = RONDO_INIT(rondo_buckets_part);
  part.inputs = inputs;
  part.num_inputs = num_inputs;
  part.outputs = outputs;
  part.num_outputs = num_outputs;
  if (buckets == nullptr) return IsNull("rondo_buckets_run: buckets");
  return RunParts(buckets, 0, &part, 1, options);
}

rondo_error* rondo_buckets_run_together(rondo_buckets* buckets, const char* length,
                                        const rondo_buckets_part* parts, size_t num_parts,
                                        const rondo_run_options* options) {
  if (buckets == nullptr || length == nullptr || parts == nullptr)
    return IsNull("rondo_buckets_run_together: buckets, length or parts");
  const uint32_t along = buckets->family.FindLength(length);
  if (along == rondo::kNone)
    return NewError(Status::Error(Code::kNotFound, "\"%.200s\" has no length \"%.200s\"",
                                  buckets->family.name().c_str(), length));
  return RunParts(buckets, along, parts, num_parts, options);
}

}  // extern "C"
