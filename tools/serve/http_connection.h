// Connection: one client of an HttpServer, from its first request to its last. Internal to the HTTP server.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tools/serve/asio.h"
#include "tools/serve/http_server.h"

namespace rondo::serve {

class Connection;
class PendingReply;

// State that connections share. It outlives them.
struct ConnectionHost {
  HttpLimits limits;
  ByteBudget* budget = nullptr;
  HttpHandler handler;
  std::atomic<bool> draining{false};
  std::atomic<uint64_t> requests{0}, accepted{0}, refused{0}, timed_out{0}, broken{0};

  virtual ~ConnectionHost() = default;
  virtual void Begin() = 0;  // a request has arrived
  virtual void End() = 0;    // it has been answered
  virtual void Close(Connection* connection) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHost* host, boost::asio::ip::tcp::socket socket);
  ~Connection();
  // Without `room`, the client is told that there are too many connections.
  void Start(bool room);
  // May be called by any thread. `if_idle`: only if no request is being answered.
  void Close(bool if_idle);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;

  Awaitable<void> Serve(bool room);
  Awaitable<bool> ReadHead(Parser* parser);
  Awaitable<bool> ReadBody(Parser* parser, ByteCharge* charge);
  Awaitable<bool> Answer(Parser* parser, ByteCharge charge);
  Awaitable<bool> WriteStream(std::shared_ptr<PendingReply> reply, bool keep);
  Awaitable<bool> Write(HttpResponse response, bool keep);
  Awaitable<bool> Refuse(int status, std::string sentence);
  void WatchForEnd(std::shared_ptr<PendingReply> reply);
  void StopWatching();

  ConnectionHost* host_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::weak_ptr<PendingReply> reply_;  // for the request being answered
  bool idle_ = true;
  bool head_only_ = false;  // the request is a HEAD request
  unsigned version_ = 11;
};

}  // namespace rondo::serve
