// The Open Inference Protocol for a catalog: /v2/..., with health, metadata, and runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/catalog.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

class V2Api {
 public:
  // `ending`: whether the server is about to end, and so is not ready.
  V2Api(const Backend& backend, const Catalog& catalog, const std::atomic<bool>& ending)
      : backend_(backend), catalog_(catalog), ending_(ending) {}

  // Handles a request whose path begins with /v2, given in parts: {"v2", "models", "m", "infer"}.
  void Handle(const std::vector<std::string>& path, HttpRequest request, const std::shared_ptr<Reply>& reply);

 private:
  HttpResponse Ready() const;
  HttpResponse Server() const;
  HttpResponse Index() const;
  HttpResponse Metadata(const LoadedModel& model) const;
  void Infer(const std::string& name, const std::string& version, HttpRequest request,
             const std::shared_ptr<Reply>& reply);

  const Backend& backend_;
  const Catalog& catalog_;
  const std::atomic<bool>& ending_;
};

}  // namespace rondo::serve
