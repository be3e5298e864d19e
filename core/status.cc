#include "core/status.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "core/printable.h"

namespace rondo {

struct Status::Rep {
  std::atomic<int> refs{1};
  Code code = Code::kInternal;
  bool immortal = false;
  const char* message = "";
  const char* node = "";
  // the two texts follow in the same allocation
};

namespace {
constexpr size_t kMaxText = 4096;

}  // namespace

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kNotFound: return "not found";
    case Code::kUnsupported: return "unsupported";
    case Code::kCorrupt: return "corrupt";
    case Code::kOutOfMemory: return "out of memory";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kOutOfRange: return "out of range";
    case Code::kAborted: return "aborted";
    case Code::kInternal: return "internal";
    case Code::kIo: return "input/output";
    case Code::kCancelled: return "cancelled";
    case Code::kDeadlineExceeded: return "deadline exceeded";
  }
  return "unknown";
}

Status::Status(const Status& other) : rep_(other.rep_) {
  if (rep_ != nullptr) rep_->refs.fetch_add(1, std::memory_order_relaxed);
}

Status& Status::operator=(const Status& other) {
  if (this != &other) *this = Status(other);
  return *this;
}

Status& Status::operator=(Status&& other) noexcept {
  if (this != &other) {
    Unref(rep_);
    rep_ = std::exchange(other.rep_, nullptr);
  }
  return *this;
}

Status::~Status() { Unref(rep_); }

void Status::Unref(Rep* rep) {
  if (rep == nullptr || rep->immortal) return;
  static_assert(std::is_trivially_destructible_v<Rep>);
  if (rep->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) std::free(rep);
}

namespace {

// Lays out a record and its two texts in one block; null when malloc fails. The message is made printable:
// names in it are anybody's.
template <typename Rep>
Rep* MakeRep(Code code, std::string_view message, std::string_view node) {
  char shown[kMaxText];
  message = {shown, WritePrintable(message, shown, sizeof(shown) - 1)};
  void* block = std::malloc(sizeof(Rep) + message.size() + node.size() + 2);
  if (block == nullptr) return nullptr;
  Rep* rep = new (block) Rep;
  char* text = reinterpret_cast<char*>(rep + 1);
  std::memcpy(text, message.data(), message.size());
  text[message.size()] = '\0';
  char* node_text = text + message.size() + 1;
  if (!node.empty()) std::memcpy(node_text, node.data(), node.size());
  node_text[node.size()] = '\0';
  rep->code = code;
  rep->message = text;
  rep->node = node_text;
  return rep;
}

// The record used when no memory is left to say more.
template <typename Rep>
Rep* LastResort() {
  static Rep rep;
  rep.immortal = true;
  rep.code = Code::kOutOfMemory;
  rep.message = "out of host memory while describing another error";
  return &rep;
}

}  // namespace

Status Status::ErrorV(Code code, const char* format, va_list args) {
  char text[kMaxText];
  int n = std::vsnprintf(text, sizeof(text), format, args);
  if (n < 0) n = 0;
  size_t size = static_cast<size_t>(n) < sizeof(text) ? static_cast<size_t>(n) : sizeof(text) - 1;
  Rep* rep = MakeRep<Rep>(code == Code::kOk ? Code::kInternal : code, {text, size}, {});
  return Status(rep != nullptr ? rep : LastResort<Rep>());
}

Status Status::Error(Code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = ErrorV(code, format, args);
  va_end(args);
  return status;
}

Code Status::code() const { return rep_ == nullptr ? Code::kOk : rep_->code; }
const char* Status::message() const { return rep_ == nullptr ? "" : rep_->message; }
const char* Status::source_node() const { return rep_ == nullptr ? "" : rep_->node; }

Status Status::At(const char* format, ...) const {
  if (ok()) return *this;
  char text[kMaxText];
  va_list args;
  va_start(args, format);
  int n = std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  size_t used = n < 0 ? 0 : static_cast<size_t>(n);
  if (used >= sizeof(text)) used = sizeof(text) - 1;
  n = std::snprintf(text + used, sizeof(text) - used, ": %s", message());
  if (n > 0) used += static_cast<size_t>(n);
  if (used >= sizeof(text)) used = sizeof(text) - 1;
  Rep* rep = MakeRep<Rep>(code(), {text, used}, source_node());
  return rep != nullptr ? Status(rep) : *this;
}

Status Status::FromNode(std::string_view node) const {
  if (ok()) return *this;
  Rep* rep = MakeRep<Rep>(code(), message(), node);
  return rep != nullptr ? Status(rep) : *this;
}

}  // namespace rondo
