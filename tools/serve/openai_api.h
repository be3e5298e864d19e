// OpenAI's interface over a catalog: /v1/models, /v1/completions, /v1/chat/completions.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/catalog.h"
#include "tools/serve/http_message.h"
#include "tools/serve/openai_request.h"

namespace rondo::serve {

class OpenAiApi {
 public:
  // `patience`: how long a stream may send nothing.
  OpenAiApi(const Catalog& catalog, const std::atomic<bool>& ending, std::chrono::milliseconds patience)
      : catalog_(catalog), ending_(ending), patience_(patience) {}

  // A request whose path begins with /v1, in parts: {"v1", "chat", "completions"}.
  void Handle(const std::vector<std::string>& path, HttpRequest request, const std::shared_ptr<Reply>& reply);

 private:
  HttpResponse Models() const;
  HttpResponse Model(const std::string& name) const;
  void Complete(HttpRequest request, bool is_chat, const std::shared_ptr<Reply>& reply);

  const Catalog& catalog_;
  const std::atomic<bool>& ending_;
  const std::chrono::milliseconds patience_;
};

}  // namespace rondo::serve
