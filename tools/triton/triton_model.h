// TritonModel: a plan that a Triton server has loaded. TritonInstance: a session of it.
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

// Makes the server's error of a status; null for OK.
TRITONSERVER_Error* ErrorOf(const Status& status);
// Makes a status of the server's error, and deletes that.
Status StatusOf(TRITONSERVER_Error* error);

class TritonModel {
 public:
  // Opens the plan of the model's version, and completes the model's configuration.
  static Result<std::unique_ptr<TritonModel>> Open(TRITONBACKEND_Model* model);

  const Plan& plan() const { return plan_; }
  const std::vector<serve::BatchForm>& forms() const { return forms_; }
  // The form of the program that serves requests.
  const serve::BatchForm& form() const { return forms_[form_]; }
  // The backend for instances on GPU `device`, which share the plan's weights; -1: on the CPU, or on all
  // devices of the plan. Any thread.
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

// A session of the model. It serves one call at a time.
class TritonInstance {
 public:
  static Result<std::unique_ptr<TritonInstance>> Open(TRITONBACKEND_ModelInstance* instance,
                                                      TritonModel* model);
  // Answers and releases all requests.
  void Execute(TRITONBACKEND_Request** requests, uint32_t count);

 private:
  TritonInstance(TRITONBACKEND_ModelInstance* instance, TritonModel* model)
      : instance_(instance), model_(model) {}
  TRITONBACKEND_ModelInstance* const instance_;
  TritonModel* const model_;
  std::unique_ptr<serve::BatchRunner> runner_;
};

}  // namespace rondo::triton
