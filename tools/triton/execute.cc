// TritonInstance::Execute: turns requests into jobs, runs jobs together that fit into one run, and answers
// them.
#include <cstring>

#include "tools/serve/v2_infer.h"
#include "tools/serve/v2_types.h"
#include "tools/triton/triton_model.h"

namespace rondo::triton {

using serve::BatchForm;
using serve::Clock;
using serve::InferJob;

namespace {

TRITONSERVER_DataType TypeOf(DType type) {
  switch (type) {
    case DType::kF32: return TRITONSERVER_TYPE_FP32;
    case DType::kF16: return TRITONSERVER_TYPE_FP16;
    case DType::kBF16: return TRITONSERVER_TYPE_BF16;
    case DType::kF64: return TRITONSERVER_TYPE_FP64;
    case DType::kI64: return TRITONSERVER_TYPE_INT64;
    case DType::kI32: return TRITONSERVER_TYPE_INT32;
    case DType::kI16: return TRITONSERVER_TYPE_INT16;
    case DType::kI8: return TRITONSERVER_TYPE_INT8;
    case DType::kU8: return TRITONSERVER_TYPE_UINT8;
    case DType::kU16: return TRITONSERVER_TYPE_UINT16;
    case DType::kU32: return TRITONSERVER_TYPE_UINT32;
    case DType::kU64: return TRITONSERVER_TYPE_UINT64;
    case DType::kBool: return TRITONSERVER_TYPE_BOOL;
    default: return TRITONSERVER_TYPE_INVALID;
  }
}

uint64_t Nanoseconds() {
  return static_cast<uint64_t>(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// Reads a shape. It must have the port's rank and fixed dimensions; the bucket family checks the others.
Status ReadShape(const BucketFamily::PaddedPort& port, const int64_t* dims, uint32_t rank, Shape* shape) {
  *shape = port.plan.shape;
  const nlohmann::json wanted = serve::DimsOf(port);
  bool fits = rank == wanted.size();
  for (uint32_t i = 0; fits && i < rank; ++i) {
    fits = dims[i] >= 0 && dims[i] <= INT32_MAX && (wanted[i] == -1 || wanted[i] == dims[i]);
    if (fits) (*shape)[static_cast<int>(i)] = dims[i];
  }
  if (fits) return Status::Ok();
  return Status::Error(
      Code::kInvalidArgument, "the input \"%s\" has the shape %s; the plan's is %s", port.plan.name.c_str(),
      nlohmann::json(std::vector<int64_t>(dims, dims + rank)).dump().c_str(), wanted.dump().c_str());
}

Status ReadInput(TRITONBACKEND_Request* request, const BucketFamily::PaddedPort& port, InferJob* job,
                 Input* to) {
  const char* name = port.plan.name.c_str();
  TRITONBACKEND_Input* input = nullptr;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestInput(request, name, &input)));
  TRITONSERVER_DataType type;
  const int64_t* dims = nullptr;
  uint32_t rank = 0, buffers = 0;
  uint64_t bytes = 0;
  RONDO_RETURN_IF_ERROR(
      StatusOf(TRITONBACKEND_InputProperties(input, nullptr, &type, &dims, &rank, &bytes, &buffers)));
  if (type != TypeOf(port.plan.dtype))
    return Status::Error(Code::kInvalidArgument, "the input \"%s\" is not %s, as the plan has it", name,
                         serve::V2Name(port.plan.dtype));
  to->dtype = port.plan.dtype;
  RONDO_RETURN_IF_ERROR(ReadShape(port, dims, rank, &to->shape));
  to->bytes = static_cast<uint64_t>(to->shape.elements() * ByteSize(to->dtype));
  if (bytes != to->bytes)
    return Status::Error(Code::kInvalidArgument, "the input \"%s\" has %llu bytes; its shape needs %llu",
                         name, static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(to->bytes));
  std::vector<uint8_t> joined;  // of an input in several buffers
  for (uint32_t b = 0; b < buffers; ++b) {
    const void* data = nullptr;
    uint64_t size = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t device = 0;
    RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_InputBuffer(input, b, &data, &size, &memory, &device)));
    if (memory == TRITONSERVER_MEMORY_GPU)
      return Status::Error(Code::kUnsupported,
                           "the input \"%s\" lies in the memory of GPU %lld; only host memory is taken", name,
                           static_cast<long long>(device));
    if (buffers == 1) {
      to->data = data;
      return Status::Ok();
    }
    const auto* from = static_cast<const uint8_t*>(data);
    joined.insert(joined.end(), from, from + size);
  }
  if (joined.size() != bytes)
    return Status::Error(Code::kInternal, "the input \"%s\" comes as %zu bytes of its %llu", name,
                         joined.size(), static_cast<unsigned long long>(bytes));
  joined.resize(std::max<size_t>(joined.size(), 1));
  to->data = job->parsed.emplace_back(std::move(joined)).data();
  return Status::Ok();
}

Status ReadRequest(TRITONBACKEND_Request* request, InferJob* job) {
  const BatchForm& form = *job->form;
  job->inputs.resize(form.inputs.size());
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    job->inputs[i].index = form.inputs[i];
    RONDO_RETURN_IF_ERROR(ReadInput(request, form.input(i), job, &job->inputs[i]));
  }
  RONDO_ASSIGN_OR_RETURN(job->choice, form.family.Choose({job->inputs.data(), job->inputs.size()}));
  return Status::Ok();
}

Status WriteOutput(TRITONBACKEND_Response* response, const InferJob& job, size_t i) {
  const BucketPort& port = job.form->output(i).plan;
  const Shape shape = job.OutputShape(i);
  const std::vector<int64_t> dims(shape.begin(), shape.end());
  TRITONBACKEND_Output* output = nullptr;
  RONDO_RETURN_IF_ERROR(
      StatusOf(TRITONBACKEND_ResponseOutput(response, &output, port.name.c_str(), TypeOf(port.dtype),
                                            dims.data(), static_cast<uint32_t>(dims.size()))));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t device = 0;
  const std::vector<uint8_t>& bytes = job.outputs[i];
  RONDO_RETURN_IF_ERROR(
      StatusOf(TRITONBACKEND_OutputBuffer(output, &buffer, bytes.size(), &memory, &device)));
  if (memory == TRITONSERVER_MEMORY_GPU)
    return Status::Error(Code::kUnsupported,
                         "the output \"%s\" is wanted in the memory of GPU %lld; only host memory is written",
                         port.name.c_str(), static_cast<long long>(device));
  if (!bytes.empty()) std::memcpy(buffer, bytes.data(), bytes.size());
  return Status::Ok();
}

// Copies the outputs that the request asks for into the response.
Status WriteOutputs(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response, const InferJob& job) {
  uint32_t count = 0;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestOutputCount(request, &count)));
  for (uint32_t n = 0; n < count; ++n) {
    const char* name = nullptr;
    RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestOutputName(request, n, &name)));
    size_t i = 0;
    while (i < job.form->outputs.size() && job.form->output(i).plan.name != name) ++i;
    if (i == job.form->outputs.size())
      return Status::Error(Code::kNotFound, "the plan has no output \"%s\"", name);
    RONDO_RETURN_IF_ERROR(WriteOutput(response, job, i));
  }
  return Status::Ok();
}

void Respond(TRITONBACKEND_Request* request, const InferJob& job, Status status) {
  TRITONBACKEND_Response* response = nullptr;
  if (!StatusOf(TRITONBACKEND_ResponseNew(&response, request)).ok()) return;  // the request is gone
  if (status.ok()) status = WriteOutputs(request, response, job);
  TRITONSERVER_Error* error = ErrorOf(status);
  (void)StatusOf(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  if (error != nullptr) TRITONSERVER_ErrorDelete(error);
}

// Whether the job can join the batch, which has `rows` rows so far.
bool GoesAlong(const std::vector<std::unique_ptr<InferJob>>& batch, int64_t rows, const InferJob& job) {
  if (batch.empty()) return true;
  const BatchForm& form = *job.form;
  if (!form.joins() || rows + job.rows() > form.most_rows() || batch.size() == kMostParts) return false;
  for (uint32_t l = 0; l < form.family.lengths().size(); ++l)
    if (l != form.rows && job.choice.lengths[l] != batch[0]->choice.lengths[l]) return false;
  return true;
}

}  // namespace

void TritonInstance::Execute(TRITONBACKEND_Request** requests, uint32_t count) {
  const uint64_t start = Nanoseconds();
  const BatchForm& form = model_->form();
  std::vector<std::unique_ptr<InferJob>> jobs(count);
  std::vector<Status> statuses(count);
  for (uint32_t r = 0; r < count; ++r) {
    jobs[r] = std::make_unique<InferJob>();
    jobs[r]->form = &form;
    jobs[r]->deadline = Clock::now() + std::chrono::hours(24);
    statuses[r] = ReadRequest(requests[r], jobs[r].get());
  }
  const uint64_t compute_start = Nanoseconds();
  uint64_t all_rows = 0;
  for (uint32_t r = 0; r < count;) {
    std::vector<std::unique_ptr<InferJob>> batch;
    std::vector<uint32_t> members;
    int64_t rows = 0;
    for (; r < count; ++r) {
      if (!statuses[r].ok()) continue;
      if (!GoesAlong(batch, rows, *jobs[r])) break;
      rows += form.joins() ? jobs[r]->rows() : 1;
      members.push_back(r);
      batch.push_back(std::move(jobs[r]));
    }
    if (batch.empty()) break;
    all_rows += static_cast<uint64_t>(rows);
    const Status status = runner_->Run(batch);
    for (size_t m = 0; m < members.size(); ++m) {
      statuses[members[m]] = status;
      jobs[members[m]] = std::move(batch[m]);
    }
    // The data of one request may have failed the whole batch: run each request by itself.
    if (members.size() == 1 || status.code() != Code::kOutOfRange) continue;
    for (const uint32_t member : members) {
      batch.clear();
      batch.push_back(std::move(jobs[member]));
      statuses[member] = runner_->Run(batch);
      jobs[member] = std::move(batch[0]);
    }
  }
  const uint64_t compute_end = Nanoseconds();
  for (uint32_t r = 0; r < count; ++r) {
    Respond(requests[r], *jobs[r], statuses[r]);
    (void)StatusOf(TRITONBACKEND_ModelInstanceReportStatistics(
        instance_, requests[r], statuses[r].ok(), start, compute_start, compute_end, Nanoseconds()));
    (void)StatusOf(TRITONBACKEND_RequestRelease(requests[r], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  (void)StatusOf(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, all_rows, start, compute_start,
                                                                  compute_end, Nanoseconds()));
}

}  // namespace rondo::triton
