// PendingReply: the Reply for which a connection waits. New data wakes the connection through its timer.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tools/serve/asio.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

class PendingReply : public Reply, public std::enable_shared_from_this<PendingReply> {
 public:
  // `executor`: the connection's strand; the timer is used only there.
  PendingReply(boost::asio::any_io_executor executor, Clock::time_point deadline, uint64_t most_waiting)
      : timer_(executor), deadline_(deadline), most_waiting_(most_waiting) {}

  void Send(HttpResponse response) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_ || head_) return;
    head_ = std::move(response);
    ended_ = true;
    Wake();
  }
  void Begin(HttpResponse head) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_ || head_) return;
    head_ = std::move(head);
    streams_ = true;
    Wake();
  }
  void Write(std::string piece) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_ || ended_ || piece.empty()) return;
    waiting_ += piece.size();
    if (waiting_ > most_waiting_) closed_ = true;  // the client does not read it
    pieces_.push_back(std::move(piece));
    Wake();
  }
  void End() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    ended_ = true;
    Wake();
  }
  void SetDeadline(Clock::time_point deadline) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    deadline_ = deadline;
    Wake();
  }
  Clock::time_point deadline() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return deadline_;
  }
  bool closed() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_;
  }

  // --- for the connection

  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    Wake();
  }
  // The response's head, or the whole response, when it is there.
  std::optional<HttpResponse> TakeHead() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!head_ || head_taken_) return std::nullopt;
    head_taken_ = true;
    return std::move(head_);
  }
  bool streams() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_;
  }
  // Everything written since the last call. Sets `ended` if nothing follows.
  std::string TakePieces(bool* ended) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string all;
    for (std::string& piece : pieces_) all += piece;
    pieces_.clear();
    waiting_ = 0;
    *ended = ended_;
    return all;
  }
  bool late() const { return Clock::now() >= deadline(); }
  // Returns when there is something new, or at the deadline.
  boost::asio::awaitable<void> Wait() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const bool news = closed_ || (head_ && !head_taken_) || !pieces_.empty() || (streams_ && ended_);
      if (news || Clock::now() >= deadline_) co_return;
      timer_.expires_at(deadline_);
    }
    boost::system::error_code ignored;
    co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  }

 private:
  // Called with the lock held. The cancellation runs on the connection's strand, so by then the connection
  // either waits, or has not looked yet.
  void Wake() {
    boost::asio::post(timer_.get_executor(), [self = shared_from_this()] { self->timer_.cancel(); });
  }

  boost::asio::steady_timer timer_;
  mutable std::mutex mutex_;
  Clock::time_point deadline_;
  const uint64_t most_waiting_;
  std::optional<HttpResponse> head_;
  std::deque<std::string> pieces_;
  uint64_t waiting_ = 0;
  bool head_taken_ = false, streams_ = false, ended_ = false, closed_ = false;
};

}  // namespace rondo::serve
