#include "tools/serve/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <limits>

#include "tools/serve/error_body.h"
#include "tools/serve/pending_reply.h"

namespace rondo::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

int HexDigit(char c) {
  const auto lower = static_cast<char>(c | 0x20);
  return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The path of a target, without its query. A % without two hexadecimal digits after it stays unchanged.
std::string PathOf(std::string target) {
  target.resize(std::min(target.find('?'), target.size()));
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    const bool coded = target[i] == '%' && i + 2 < target.size() && HexDigit(target[i + 1]) >= 0 &&
                       HexDigit(target[i + 2]) >= 0;
    path += coded ? static_cast<char>(HexDigit(target[i + 1]) * 16 + HexDigit(target[i + 2])) : target[i];
    if (coded) i += 2;
  }
  return path;
}

HttpRequest RequestOf(http::request<http::string_body>* message, ByteCharge charge) {
  HttpRequest request;
  request.method = std::string(message->method_string());
  request.path = PathOf(std::string(message->target()));
  for (const auto& field : *message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers[name] = std::string(field.value());
  }
  request.body = std::move(message->body());
  request.charge = std::move(charge);
  return request;
}

// Counts a request while it is being answered, however its coroutine ends.
class Answering {
 public:
  explicit Answering(ConnectionHost* host) : host_(host) { host_->Begin(); }
  ~Answering() { host_->End(); }
  Answering(const Answering&) = delete;

 private:
  ConnectionHost* host_;
};

auto Into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace

Connection::Connection(ConnectionHost* host, asio::ip::tcp::socket socket)
    : host_(host), stream_(std::move(socket)) {}

Connection::~Connection() { host_->Close(this); }

void Connection::Start(bool room) {
  asio::co_spawn(
      stream_.get_executor(), [self = shared_from_this(), room] { return self->Serve(room); },
      asio::detached);
}

void Connection::Close(bool if_idle) {
  asio::post(stream_.get_executor(), [weak = weak_from_this(), if_idle] {
    const auto self = weak.lock();
    if (self == nullptr || (if_idle && !self->idle_)) return;
    self->stream_.close();
    if (const auto reply = self->reply_.lock()) reply->Close();
  });
}

Connection::Awaitable<void> Connection::Serve(bool room) {
  if (!room) {
    co_await Refuse(503, "the server has as many connections as it may; try again");
    co_return;
  }
  for (bool goes_on = true; goes_on && !host_->draining;) {
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(host_->limits.head_bytes));
    parser.body_limit(std::numeric_limits<uint64_t>::max());  // ReadBody checks its length
    idle_ = true;
    const bool head = co_await ReadHead(&parser);
    idle_ = false;
    if (!head) break;
    const Answering answering(host_);
    ByteCharge charge(host_->budget);
    goes_on = co_await ReadBody(&parser, &charge);
    if (goes_on) goes_on = co_await Answer(&parser, std::move(charge));
  }
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.close();
}

// False if the connection ends; the client has been told why if that is useful.
Connection::Awaitable<bool> Connection::ReadHead(Parser* parser) {
  error_code error;
  // The first byte may take longer than the others.
  if (buffer_.size() == 0) {
    stream_.expires_after(host_->limits.idle);
    const size_t count = co_await stream_.async_read_some(buffer_.prepare(4096), Into(error));
    buffer_.commit(count);
    if (error) co_return false;
  }
  idle_ = false;
  stream_.expires_after(host_->limits.head);
  co_await http::async_read_header(stream_, buffer_, *parser, Into(error));
  if (!error) co_return true;
  if (error == beast::error::timeout) {
    ++host_->timed_out;
    co_return false;
  }
  ++host_->broken;
  if (error == http::error::header_limit)
    co_await Refuse(431, "the request's headers are longer than the server takes");
  else if (error.category() == make_error_code(http::error::bad_method).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message)
    co_await Refuse(400, "the request is not HTTP/1.1: " + error.message());
  co_return false;
}

Connection::Awaitable<bool> Connection::ReadBody(Parser* parser, ByteCharge* charge) {
  const auto& message = parser->get();
  version_ = message.version();
  head_only_ = message.method() == http::verb::head;
  if (parser->chunked()) {
    co_return co_await Refuse(411, "the body must come with its Content-Length, not in chunks");
  }
  const auto length = parser->content_length();
  if (length && *length > host_->limits.body_bytes) {
    co_return co_await Refuse(413, "the body of " + std::to_string(*length) + " bytes exceeds the limit of " +
                                       std::to_string(host_->limits.body_bytes) + " (--max-body)");
  }
  error_code error;
  stream_.expires_after(host_->limits.body);
  if (beast::iequals(message[http::field::expect], "100-continue") && !parser->is_done()) {
    static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(stream_, asio::buffer(kContinue, sizeof(kContinue) - 1), Into(error));
    if (error) co_return false;
  }
  // Bytes are charged as they arrive: a client that announces many and sends few holds few.
  for (size_t counted = 0; !parser->is_done();) {
    co_await http::async_read_some(stream_, buffer_, *parser, Into(error));
    if (error) {
      ++(error == beast::error::timeout ? host_->timed_out : host_->broken);
      co_return false;
    }
    const size_t size = parser->get().body().size();
    if (!charge->Take(size - counted))
      co_return co_await Refuse(503, "the requests under way hold as many bytes as they may; try again");
    counted = size;
  }
  co_return true;
}

// Watches for the client closing the stream while it waits: nobody will read the answer then.
void Connection::WatchForEnd(std::shared_ptr<PendingReply> reply) {
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read, [self = shared_from_this(), reply](error_code error) {
        if (error) return;
        char byte = 0;
        const ssize_t count = recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return self->WatchForEnd(reply);  // spurious
        if (count <= 0) reply->Close();
      });
}

void Connection::StopWatching() {
  error_code ignored;  // it may already be closed
  stream_.socket().cancel(ignored);
}

Connection::Awaitable<bool> Connection::Answer(Parser* parser, ByteCharge charge) {
  const bool keep = parser->get().keep_alive();
  auto reply = std::make_shared<PendingReply>(stream_.get_executor(), Clock::now() + host_->limits.answer,
                                              host_->limits.waiting_bytes);
  http::request<http::string_body> message = parser->release();
  reply_ = reply;
  stream_.expires_never();
  WatchForEnd(reply);
  host_->handler(RequestOf(&message, std::move(charge)), reply);
  std::optional<HttpResponse> head;
  while (!(head = reply->TakeHead())) {
    if (reply->closed()) {
      ++host_->broken;
      co_return false;
    }
    if (reply->late()) {
      reply->Close();
      HttpResponse late;
      late.status = 504;
      late.body = ErrorBody("the deadline has passed before there was an answer");
      head = std::move(late);
      break;
    }
    co_await reply->Wait();
  }
  if (!reply->streams()) {
    StopWatching();
    co_return co_await Write(std::move(*head), keep);
  }
  error_code error;
  http::response<http::empty_body> start(static_cast<http::status>(head->status), version_);
  start.set(http::field::content_type, head->type);
  for (const auto& [name, value] : head->headers) start.set(name, value);
  start.chunked(true);
  start.keep_alive(keep && !host_->draining);
  http::response_serializer<http::empty_body> serializer(start);
  stream_.expires_after(host_->limits.write);
  co_await http::async_write_header(stream_, serializer, Into(error));
  if (!error) co_return co_await WriteStream(reply, keep);
  reply->Close();
  co_return false;
}

Connection::Awaitable<bool> Connection::WriteStream(std::shared_ptr<PendingReply> reply, bool keep) {
  error_code error;
  for (bool ended = false; !ended;) {
    const std::string pieces = reply->TakePieces(&ended);
    if (reply->closed() || (!ended && reply->late())) break;
    if (!pieces.empty()) {
      stream_.expires_after(host_->limits.write);
      co_await asio::async_write(stream_, http::make_chunk(asio::buffer(pieces)), Into(error));
      if (error) break;
    } else if (!ended) {
      stream_.expires_never();
      co_await reply->Wait();
    }
    if (!ended) continue;
    StopWatching();
    stream_.expires_after(host_->limits.write);
    co_await asio::async_write(stream_, http::make_chunk_last(), Into(error));
    if (error) break;
    co_return keep && !host_->draining;
  }
  ++(error == beast::error::timeout ? host_->timed_out : host_->broken);
  reply->Close();
  co_return false;
}

Connection::Awaitable<bool> Connection::Write(HttpResponse response, bool keep) {
  http::response<http::string_body> message(static_cast<http::status>(response.status), version_);
  message.set(http::field::content_type, response.type);
  for (const auto& [name, value] : response.headers) message.set(name, value);
  keep = keep && !host_->draining;
  message.keep_alive(keep);
  message.content_length(response.body.size());
  if (!head_only_) message.body() = std::move(response.body);
  error_code error;
  stream_.expires_after(host_->limits.write);
  http::response_serializer<http::string_body> serializer(message);
  if (head_only_)
    co_await http::async_write_header(stream_, serializer, Into(error));
  else
    co_await http::async_write(stream_, serializer, Into(error));
  if (error) ++(error == beast::error::timeout ? host_->timed_out : host_->broken);
  co_return keep && !error;
}

// Answers with an error and ends the connection. Returns false.
Connection::Awaitable<bool> Connection::Refuse(int status, std::string sentence) {
  HttpResponse response;
  response.status = status;
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  response.body = ErrorBody(sentence);
  co_await Write(std::move(response), false);
  // Reads what the client still sends for a moment. If the socket closed at once, the client's system would
  // drop the answer.
  error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  stream_.expires_after(std::chrono::seconds(1));
  for (uint64_t left = 4 << 20; !error && left > 0;) {
    buffer_.clear();
    const size_t count = co_await stream_.async_read_some(buffer_.prepare(65536), Into(error));
    left -= std::min<uint64_t>(left, count);
  }
  co_return false;
}

}  // namespace rondo::serve
