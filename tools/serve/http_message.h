// HttpRequest, HttpResponse and Reply: what the HTTP server hands to a handler, and how it is answered.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/serve/byte_budget.h"

namespace rondo::serve {

using Clock = std::chrono::steady_clock;

struct HttpRequest {
  std::string method;                          // "GET"
  std::string path;                            // "/v2/models/m/infer", percent-decoded, without the query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  ByteCharge charge;  // of the server's bytes: as long as the body lives

  // "" where there is none.
  const std::string& Header(const std::string& name) const {
    static const std::string kNone;
    const auto found = headers.find(name);
    return found == headers.end() ? kNone : found->second;
  }
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// The answer to one request, given once: Send, or Begin, any number of Write, and End. Any thread, at any
// time; an answer that comes too late, or a second one, is dropped.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void Send(HttpResponse response) = 0;
  // `head` has no body; what is written follows as it comes (chunked).
  virtual void Begin(HttpResponse head) = 0;
  virtual void Write(std::string piece) = 0;
  virtual void End() = 0;
  // From then on the server answers 504 itself, or ends a stream. The first deadline is Limits::answer.
  virtual void SetDeadline(Clock::time_point deadline) = 0;
  virtual Clock::time_point deadline() const = 0;
  // Nobody waits any more: the client has gone, reads too slowly, or the deadline has passed.
  virtual bool closed() const = 0;
};

// Called on a thread of the server's: must not wait.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Reply> reply)>;

}  // namespace rondo::serve
