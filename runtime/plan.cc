#include "runtime/plan.h"

#include <cstdio>

#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "runtime/host_memory.h"
#include "runtime/plan_impl.h"
#include "runtime/text.h"

namespace rondo {

namespace {

// Null if out of memory. `path` gives the plan's name if the options have none.
PlanImpl* NewImpl(const PlanOptions& options, std::string_view path) {
  const HostAllocator& allocator = options.allocator != nullptr ? *options.allocator : RuntimeHostAllocator();
  PlanImpl* impl = NewObject<PlanImpl>(allocator, allocator);
  if (impl == nullptr) return impl;
  impl->ignore_hashes = options.ignore_hashes;
  impl->name = impl->memory.CopyText(!options.name.empty() ? options.name : path.substr(path.rfind('/') + 1));
  if (impl->name.data() != nullptr) return impl;
  DeleteObject(HostAllocator(allocator), impl);
  return nullptr;
}

Status NoMemory() { return Status::Error(Code::kOutOfMemory, "no host memory to open a plan"); }

ReadOptions ReaderOptions(const PlanImpl& impl) {
  ReadOptions read;
  read.ignore_hashes = impl.ignore_hashes;
  read.allocator = impl.allocator;
  return read;
}

// Reads or maps the weights once, here. Mapping costs only address space, and sessions can then read the
// weights from any thread.
Status TakeWeights(PlanImpl* impl, uint64_t map_from) {
  PlanWeights& weights = impl->file.weights;
  const uint64_t bytes = weights.bytes();
  if (bytes == 0) return Status::Ok();
  if (bytes < map_from) {
    void* memory = impl->memory.Allocate(bytes, 4096);
    if (memory == nullptr) {
      return Status::Error(Code::kOutOfMemory, "no host memory for %zu bytes of weights",
                           static_cast<size_t>(bytes));
    }
    RONDO_RETURN_IF_ERROR(weights.ReadTo(memory).At("weights"));
  }
  if (!impl->ignore_hashes && (bytes < map_from || bytes <= kLargeWeights)) {
    RONDO_RETURN_IF_ERROR(weights.CheckHash());
  }
  RONDO_ASSIGN_OR_RETURN(impl->weights, weights.Map());
  return Status::Ok();
}

Status VerifyAndCheck(const PlanImpl& impl) {
  RONDO_RETURN_IF_ERROR(VerifyPlan(impl.file.data, impl.allocator));
  return CheckPlan(impl.file.data, impl.allocator);
}

// Logs the result of opening, and returns `status`.
Status Logged(const LogHook& log, const Status& status, const PlanImpl& impl) {
  if (!status.ok()) {
    log(LogLevel::kError, status.message());
    return status;
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "plan opened: %zu programs, %zu buffers, %zu kernels, %zu bytes of weights",
                impl.file.data.programs.size(), impl.file.data.buffers.size(), impl.file.data.kernels.size(),
                impl.weights.size());
  log(LogLevel::kInfo, text);
  return status;
}

Status OpenPath(PlanImpl* impl, const char* path, uint64_t map_from) {
  ReadOptions read = ReaderOptions(*impl);
  read.hash_weights_up_to = 0;  // set later, when their place is known
  RONDO_RETURN_IF_ERROR(LoadPlanFile(path, read, impl->memory, &impl->file));
  return TakeWeights(impl, map_from).At("%s", path);
}

Status OpenBytes(PlanImpl* impl, Span<const uint8_t> bytes) {
  RONDO_RETURN_IF_ERROR(ReadPlan(bytes, ReaderOptions(*impl), impl->memory, &impl->file));
  RONDO_RETURN_IF_ERROR(VerifyAndCheck(*impl));
  RONDO_ASSIGN_OR_RETURN(impl->weights, impl->file.weights.Map());
  return Status::Ok();
}

}  // namespace

Result<Plan> Plan::OpenEither(const char* path, Span<const uint8_t> bytes, const PlanOptions& options) {
  PlanImpl* impl = NewImpl(options, path == nullptr ? "" : path);
  if (impl == nullptr) return NoMemory();
  Plan plan(impl);
  RONDO_RETURN_IF_ERROR(Logged(
      options.log, path != nullptr ? OpenPath(impl, path, options.map_weights_from) : OpenBytes(impl, bytes),
      *impl));
  return plan;
}

Result<Plan> Plan::Open(const char* path, const PlanOptions& options) {
  if (path == nullptr) return Status::Error(Code::kInvalidArgument, "the plan's path is null");
  return OpenEither(path, {}, options);
}

Result<Plan> Plan::Open(Span<const uint8_t> bytes, const PlanOptions& options) {
  return OpenEither(nullptr, bytes, options);
}

Result<Plan> Plan::FromData(const PlanData& data, Span<const uint8_t> weights, const PlanOptions& options) {
  PlanImpl* impl = NewImpl(options, {});
  if (impl == nullptr) return NoMemory();
  Plan plan(impl);
  impl->file.data = data;
  impl->weights = weights;
  RONDO_RETURN_IF_ERROR(Logged(options.log, VerifyAndCheck(*impl), *impl));
  return plan;
}

Plan::Plan(const Plan& other) : impl_(other.impl_) {
  if (impl_ != nullptr) impl_->refs.fetch_add(1, std::memory_order_relaxed);
}

Plan::~Plan() { Unref(impl_); }

void Plan::Unref(PlanImpl* impl) {
  if (impl == nullptr || impl->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  HostAllocator allocator = impl->allocator;
  DeleteObject(allocator, impl);
}

uint64_t Plan::contents_hash() const { return impl_->file.contents_hash ^ impl_->file.weights.hash(); }

std::string_view Plan::name() const { return impl_->name; }

const PlanData& Plan::data() const { return impl_->file.data; }

Span<const uint8_t> Plan::weights() const { return impl_->weights; }

Status Plan::CheckUnchanged() const {
  const std::string_view file = data().weights_file.empty() ? name() : data().weights_file;
  return impl_->file.weights.CheckUnchanged(impl_->ignore_hashes)
      .At("%.*s", static_cast<int>(file.size()), file.data());
}

Result<uint32_t> Plan::FindProgram(std::string_view name) const {
  Span<const Program> programs = data().programs;
  for (uint32_t i = 0; i < programs.size(); ++i) {
    if (programs[i].name == name) return i;
  }
  Text text;
  text.Add("the plan has no program ");
  text.AddName(name);
  text.Add("; its programs are ");
  for (size_t i = 0; i < programs.size() && text.AddItem(i, programs.size(), programs[i].name); ++i) {
  }
  return Status::Error(Code::kNotFound, "%s", text.get());
}

std::string_view Plan::StepSource(uint32_t program, uint32_t step) const {
  const PlanData& plan = data();
  if (program >= plan.programs.size() || step >= plan.programs[program].steps.size()) return {};
  uint32_t source = plan.programs[program].steps[step].source;
  return source < plan.sources.size() ? plan.sources[source] : std::string_view();
}

}  // namespace rondo
