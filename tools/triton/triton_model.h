// TritonModel and TritonInstance: a plan that a Triton server has loaded, and one of its sessions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/serve/backend.h"
#include "tools/serve/batch_runner.h"
#include "tools/triton/triton_api.h"

namespace rondo::triton {

// The error as the server takes it; null for OK.
TRITONSERVER_Error* ErrorOf(const Status& status);
// Deletes the server's error.
Status StatusOf(TRITONSERVER_Error* error);

class TritonModel {
 public:
  // Opens the plan of the model's version and completes the model's configuration.
  static Result<std::unique_ptr<TritonModel>> Open(TRITONBACKEND_Model* model);

  const Plan& plan() const { return plan_; }
  const std::vector<serve::BatchForm>& forms() const { return forms_; }
  // The one that requests take.
  const serve::BatchForm& form() const { return forms_[form_]; }
  // The runtime for instances on that GPU, which share the plan's weights; -1: on the CPU, or on all of the
  // plan's devices. Any thread.
  Result<const serve::Backend*> BackendOn(int device);

 private:
  Status ChooseForm(const std::string& program);
  Plan plan_;
  tools::LoadOptions load_;
  std::vector<serve::BatchForm> forms_;
  size_t form_ = 0;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<serve::Backend>> backends_;
};

// One call at a time.
class TritonInstance {
 public:
  static Result<std::unique_ptr<TritonInstance>> Open(TRITONBACKEND_ModelInstance* instance,
                                                      TritonModel* model);
  // Answers and releases them all.
  void Execute(TRITONBACKEND_Request** requests, uint32_t count);

 private:
  TritonInstance(TRITONBACKEND_ModelInstance* instance, TritonModel* model)
      : instance_(instance), model_(model) {}
  TRITONBACKEND_ModelInstance* const instance_;
  TritonModel* const model_;
  std::unique_ptr<serve::BatchRunner> runner_;
};

}  // namespace rondo::triton
