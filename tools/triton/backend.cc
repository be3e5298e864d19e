// The backend's entry points: the server creates, uses and destroys models and instances. Rondo's objects are
// the states that the server keeps for them.
#include <exception>

#include "tools/rondo/gpu_environment.h"
#include "tools/triton/triton_model.h"

namespace rondo::triton {
namespace {

// Runs `work`, which returns a Status. Turns errors and exceptions into the server's error, so that no
// exception reaches the server.
template <typename Work>
TRITONSERVER_Error* Guarded(const Work& work) {
  try {
    return ErrorOf(work());
  } catch (const std::exception& error) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, error.what());
  }
}

Result<TritonModel*> ModelOf(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* model = nullptr;
  void* state = nullptr;
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceModel(instance, &model)));
  RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelState(model, &state)));
  return static_cast<TritonModel*>(state);
}

}  // namespace
}  // namespace rondo::triton

using namespace rondo;
using namespace rondo::triton;

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend*) {
  return Guarded([] {
    uint32_t major = 0, minor = 0;
    RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ApiVersion(&major, &minor)));
    if (major != TRITONBACKEND_API_VERSION_MAJOR || minor < TRITONBACKEND_API_VERSION_MINOR)
      return Status::Error(
          Code::kUnsupported,
          "the server's interface for backends is %u.%u; rondo's backend needs %u.%u or a later %u.x", major,
          minor, TRITONBACKEND_API_VERSION_MAJOR, TRITONBACKEND_API_VERSION_MINOR,
          TRITONBACKEND_API_VERSION_MAJOR);
    tools::BeginGpuEnvironment();
    return Status::Ok();
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return Guarded([&]() -> Status {
    RONDO_ASSIGN_OR_RETURN(std::unique_ptr<TritonModel> opened, TritonModel::Open(model));
    RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelSetState(model, opened.get())));
    (void)opened.release();
    return Status::Ok();
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  void* state = nullptr;
  if (TRITONSERVER_Error* error = TRITONBACKEND_ModelState(model, &state)) return error;
  delete static_cast<TritonModel*>(state);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return Guarded([&]() -> Status {
    RONDO_ASSIGN_OR_RETURN(TritonModel* const model, ModelOf(instance));
    RONDO_ASSIGN_OR_RETURN(std::unique_ptr<TritonInstance> opened, TritonInstance::Open(instance, model));
    RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceSetState(instance, opened.get())));
    (void)opened.release();
    return Status::Ok();
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  void* state = nullptr;
  if (TRITONSERVER_Error* error = TRITONBACKEND_ModelInstanceState(instance, &state)) return error;
  delete static_cast<TritonInstance*>(state);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests, uint32_t count) {
  return Guarded([&]() -> Status {
    void* state = nullptr;
    RONDO_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_ModelInstanceState(instance, &state)));
    static_cast<TritonInstance*>(state)->Execute(requests, count);
    return Status::Ok();
  });
}
