// HttpServer: HTTP/1.1 on a few threads for any number of clients, none of which is trusted.
//
// Connections are coroutines (Boost.Asio): a slow or silent one holds a socket and some KB, but no thread.
// Every wait has a limit: for a request's head, for its body, for the answer, and for the client to read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/status.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

struct HttpLimits {
  uint64_t connections = 4096;       // at the same time; further ones get 503 and are closed
  uint64_t head_bytes = 16 << 10;    // per request: its line and headers
  uint64_t body_bytes = 64 << 20;    // per request
  uint64_t waiting_bytes = 4 << 20;  // of a stream, not yet read by its client
  std::chrono::milliseconds head{10'000}, body{60'000}, idle{60'000}, write{30'000}, answer{60'000};
};

struct HttpCounts {
  uint64_t connections = 0;                                       // open now
  uint64_t requests = 0;                                          // being answered now
  uint64_t accepted = 0, refused = 0, timed_out = 0, broken = 0;  // since the start
};

class HttpServer {
 public:
  // Listens on `address` ("127.0.0.1") and `port` (0: any free one). kIo, naming both, if it cannot. `budget`
  // must outlive the server.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& address, uint16_t port,
                                                   uint32_t threads, const HttpLimits& limits,
                                                   ByteBudget* budget, HttpHandler handler);
  ~HttpServer();  // stops the server
  // Begins to accept connections.
  void Run();

  uint16_t port() const;
  HttpCounts counts() const;
  // Accepts no more connections, and closes idle ones now and the others after their answer.
  void Drain();
  // Waits until no request is being answered; false after `limit`.
  bool WaitUntilIdle(std::chrono::milliseconds limit);
  // Closes all connections; nobody waits for an answer any more.
  void CloseAll();
  // Ends the threads; no more requests are handled.
  void Stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rondo::serve
