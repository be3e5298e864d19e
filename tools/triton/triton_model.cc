#include "tools/triton/triton_model.h"

#include "formats/machine_code/architecture.h"
#include "tools/rondo/trusted_plan.h"
#include "tools/triton/model_config.h"

namespace rondo::triton {

using nlohmann::json;

namespace {

Result<json> ConfigOf(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* message = nullptr;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelConfig(model, 1, &message)));
  const char* text = nullptr;
  size_t bytes = 0;
  const Status status = StatusOf(TRITONSERVER_MessageSerializeToJson(message, &text, &bytes));
  json config = status.ok() ? json::parse(text, text + bytes, nullptr, false) : json();
  TRITONSERVER_MessageDelete(message);
  RONDO_RETURN_IF_ERROR(status);
  if (!config.is_object())
    return Status::Error(Code::kInternal, "the server's configuration of the model is no JSON object");
  return config;
}

Status SetConfig(TRITONBACKEND_Model* model, const json& config) {
  const std::string text = config.dump();
  TRITONSERVER_Message* message = nullptr;
  RONDO_RETURN_IF_ERROR(
      StatusOf(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size())));
  const Status status = StatusOf(TRITONBACKEND_ModelSetConfig(model, 1, message));
  TRITONSERVER_MessageDelete(message);
  return status;
}

// The path of the plan: FOLDER/VERSION/model.rondo, or the configuration's default_model_filename in that
// folder.
Result<std::string> PlanOf(TRITONBACKEND_Model* model, const json& config) {
  TRITONBACKEND_ArtifactType kind;
  const char* folder = nullptr;
  uint64_t version = 0;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelRepository(model, &kind, &folder)));
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelVersion(model, &version)));
  std::string name = config.value("default_model_filename", "");
  if (name.empty()) name = "model.rondo";
  return folder + ("/" + std::to_string(version)) + "/" + name;
}

}  // namespace

TRITONSERVER_Error* ErrorOf(const Status& status) {
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INTERNAL;
  switch (status.code()) {
    case Code::kOk: return nullptr;
    case Code::kInvalidArgument:
    case Code::kOutOfRange: code = TRITONSERVER_ERROR_INVALID_ARG; break;
    case Code::kNotFound: code = TRITONSERVER_ERROR_NOT_FOUND; break;
    case Code::kUnsupported: code = TRITONSERVER_ERROR_UNSUPPORTED; break;
    case Code::kOutOfMemory: code = TRITONSERVER_ERROR_UNAVAILABLE; break;
    default: break;
  }
  return TRITONSERVER_ErrorNew(code, status.message());
}

Status StatusOf(TRITONSERVER_Error* error) {
  if (error == nullptr) return Status::Ok();
  Status status = Status::Error(Code::kInvalidArgument, "%s", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return status;
}

Status TritonModel::ChooseForm(const std::string& program) {
  // Rows of several requests share a run only if the compiler has proved that they do not affect each other.
  RONDO_ASSIGN_OR_RETURN(forms_, serve::FindBatchForms(plan_.data(), true));
  bool proven = true;
  for (const serve::BatchForm& form : forms_) proven = proven && form.proven;
  if (!proven) {
    RONDO_ASSIGN_OR_RETURN(forms_, serve::FindBatchForms(plan_.data(), false));
  }
  std::string names;
  for (size_t i = 0; i < forms_.size(); ++i) {
    if (forms_[i].family.name() == program || (program.empty() && forms_.size() == 1)) {
      form_ = i;
      return Status::Ok();
    }
    names += (names.empty() ? "" : ", ") + forms_[i].family.name();
  }
  return Status::Error(
      Code::kInvalidArgument,
      "the plan has the programs %s: config.pbtxt says by the parameter \"program\" which one is served%s%s",
      names.c_str(), program.empty() ? "" : ", and says ", program.c_str());
}

Result<std::unique_ptr<TritonModel>> TritonModel::Open(TRITONBACKEND_Model* model) {
  RONDO_ASSIGN_OR_RETURN(json config, ConfigOf(model));
  RONDO_ASSIGN_OR_RETURN(const std::string path, PlanOf(model, config));
  auto opened = std::make_unique<TritonModel>();
  RONDO_ASSIGN_OR_RETURN(opened->load_, LoadOptionsOf(config));
  PlanOptions options = tools::PlanOptionsOf(opened->load_);
  const std::string name = config.value("name", "");
  options.name = name;
  RONDO_ASSIGN_OR_RETURN(opened->plan_, tools::OpenTrusted(path, opened->load_.keys, options));
  RONDO_RETURN_IF_ERROR(opened->ChooseForm(Parameter(config, "program")));
  bool complete = false;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelAutoCompleteConfig(model, &complete)));
  RONDO_RETURN_IF_ERROR(CompleteConfig(opened->form(), complete, &config));
  if (complete) RONDO_RETURN_IF_ERROR(SetConfig(model, config));
  return opened;
}

Result<const serve::Backend*> TritonModel::BackendOn(int device) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<serve::Backend>& backend = backends_[device];
  if (backend == nullptr) {
    std::vector<uint32_t> devices;
    if (device >= 0) devices.push_back(static_cast<uint32_t>(device));
    RONDO_ASSIGN_OR_RETURN(backend, serve::Backend::OpenOn(devices, plan_.data(), load_));
  }
  return static_cast<const serve::Backend*>(backend.get());
}

Result<std::unique_ptr<TritonInstance>> TritonInstance::Open(TRITONBACKEND_ModelInstance* instance,
                                                             TritonModel* model) {
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device = -1;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceKind(instance, &kind)));
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceDeviceId(instance, &device)));
  const PlanData& data = model->plan().data();
  const bool on_gpu =
      kind == TRITONSERVER_INSTANCEGROUPKIND_GPU && KindsOfTargets(data.requirements.target).gpu;
  if (on_gpu && data.requirements.devices.size() > 1)
    return Status::Error(Code::kInvalidArgument,
                         "the plan is for %zu devices, and an instance of KIND_GPU has one: use "
                         "instance_group [{kind: KIND_MODEL}]",
                         data.requirements.devices.size());
  RONDO_ASSIGN_OR_RETURN(const serve::Backend* backend, model->BackendOn(on_gpu ? device : -1));
  RONDO_RETURN_IF_ERROR(backend->runtime().Supports(model->plan()));
  std::unique_ptr<TritonInstance> opened(new TritonInstance(instance, model));
  opened->runner_ =
      std::make_unique<serve::BatchRunner>(backend->runtime(), model->plan(), backend->session_options());
  RONDO_RETURN_IF_ERROR(opened->runner_->Open());
  opened->runner_->Prepare(model->forms());
  return opened;
}

}  // namespace rondo::triton
