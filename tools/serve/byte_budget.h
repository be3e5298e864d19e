// ByteBudget: the bytes that all requests together may hold. ByteCharge: the part that one request has taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace rondo::serve {

// May be used by any thread. Must outlive its charges.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;

  // False, without taking anything, if the limit would be exceeded.
  bool Take(uint64_t bytes) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

// The destructor gives back what was taken.
class ByteCharge {
 public:
  ByteCharge() = default;
  explicit ByteCharge(ByteBudget* budget) : budget_(budget) {}
  ByteCharge(ByteCharge&& other) noexcept { *this = std::move(other); }
  ByteCharge& operator=(ByteCharge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ByteCharge() {
    if (budget_ != nullptr) budget_->Give(bytes_);
  }
  bool Take(uint64_t bytes) {
    if (budget_ == nullptr) return true;
    if (!budget_->Take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }

 private:
  ByteBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace rondo::serve
