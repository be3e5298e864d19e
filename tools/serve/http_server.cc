#include "tools/serve/http_server.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tools/serve/asio.h"
#include "tools/serve/http_connection.h"

namespace rondo::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct HttpServer::Impl : ConnectionHost {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<Connection*> connections;
  asio::io_context io;  // declared after the set, from which its connections remove themselves
  tcp::acceptor acceptor{io};
  uint16_t port = 0;
  uint32_t thread_count = 1;
  std::vector<std::thread> threads;

  void Begin() override { ++requests; }
  void End() override {
    if (--requests > 0) return;
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();
  }
  void Close(Connection* connection) override {
    const std::lock_guard<std::mutex> lock(mutex);
    connections.erase(connection);
  }

  Status Listen(const std::string& address, uint16_t number) {
    error_code error;
    const asio::ip::address parsed = asio::ip::make_address(address, error);
    if (error)
      return Status::Error(Code::kInvalidArgument,
                           "\"%s\" is no IP address to listen on: 127.0.0.1 is this machine alone, 0.0.0.0 "
                           "every network",
                           address.c_str());
    const tcp::endpoint endpoint(parsed, number);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      return Status::Error(Code::kIo, "cannot listen on %s, port %u: %s", address.c_str(), number,
                           error.message().c_str());
    port = acceptor.local_endpoint(error).port();
    return Status::Ok();
  }

  asio::awaitable<void> Accept() {
    for (;;) {
      error_code error;
      // Each connection has a strand: its events are handled one after another.
      tcp::socket socket(asio::make_strand(io));
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted || !acceptor.is_open()) co_return;
      if (error) {  // for example no free descriptor; one will become free
        asio::steady_timer timer(io, std::chrono::milliseconds(50));
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      Add(std::move(socket));
    }
  }

  void Add(tcp::socket socket) {
    error_code error;
    socket.set_option(tcp::no_delay(true), error);
    auto connection = std::make_shared<Connection>(this, std::move(socket));
    bool room = false;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      connections.insert(connection.get());
      room = connections.size() <= limits.connections;
    }
    ++accepted;
    if (!room) ++refused;
    connection->Start(room);
  }
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, uint16_t port,
                                                      uint32_t threads, const HttpLimits& limits,
                                                      ByteBudget* budget, HttpHandler handler) {
  auto impl = std::make_unique<Impl>();
  impl->limits = limits;
  impl->budget = budget;
  impl->handler = std::move(handler);
  RONDO_RETURN_IF_ERROR(impl->Listen(address, port));
  impl->thread_count = threads;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { Stop(); }

void HttpServer::Run() {
  Impl* impl = impl_.get();
  asio::co_spawn(impl->io, impl->Accept(), asio::detached);
  for (uint32_t i = 0; i < impl->thread_count; ++i) impl->threads.emplace_back([impl] { impl->io.run(); });
}

void HttpServer::Stop() {
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

void HttpServer::CloseAll() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  for (Connection* connection : impl_->connections) connection->Close(false);
}

uint16_t HttpServer::port() const { return impl_->port; }

HttpCounts HttpServer::counts() const {
  HttpCounts counts;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    counts.connections = impl_->connections.size();
  }
  counts.requests = impl_->requests;
  counts.accepted = impl_->accepted;
  counts.refused = impl_->refused;
  counts.timed_out = impl_->timed_out;
  counts.broken = impl_->broken;
  return counts;
}

void HttpServer::Drain() {
  impl_->draining = true;
  asio::post(impl_->io, [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
  });
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  for (Connection* connection : impl_->connections) connection->Close(true);
}

bool HttpServer::WaitUntilIdle(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  return impl_->changed.wait_for(lock, limit, [&] { return impl_->requests == 0; });
}

}  // namespace rondo::serve
