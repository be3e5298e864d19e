// HttpRequest, HttpResponse and Reply: what the HTTP server passes to a handler, and how the handler answers.
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
  std::map<std::string, std::string> headers;  // with names in lower case
  std::string body;
  ByteCharge charge;  // charge on the server's bytes, held as long as the body

  // "" if there is none.
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

// The answer to one request. It is given once: by Send, or by Begin, any number of Writes, and End. May be
// used by any thread at any time. A late answer, or a second one, is dropped.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void Send(HttpResponse response) = 0;
  // `head` has no body; what is written follows in chunks.
  virtual void Begin(HttpResponse head) = 0;
  virtual void Write(std::string piece) = 0;
  virtual void End() = 0;
  // After the deadline the server itself answers 504, or ends a stream. The first deadline is Limits::answer.
  virtual void SetDeadline(Clock::time_point deadline) = 0;
  virtual Clock::time_point deadline() const = 0;
  // Nobody waits any more: the client has gone or reads too slowly, or the deadline has passed.
  virtual bool closed() const = 0;
};

// Called on a thread of the server, and must not wait.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Reply> reply)>;

}  // namespace rondo::serve
