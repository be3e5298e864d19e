#include "formats/machine_code/ptx.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "formats/machine_code/architecture.h"

namespace rondo {
namespace {

#define RONDO_NOT_PTX(...) Status::Error(Code::kCorrupt, __VA_ARGS__)

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '$' || c == '%';
}

// The bytes of a fundamental type: 8 for ".u64"; 0 if it is none.
uint32_t BytesOf(std::string_view type) {
  constexpr std::pair<std::string_view, uint32_t> kEndings[] = {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
  if (type.size() < 3 || type[0] != '.' || std::strchr("busf", type[1]) == nullptr) return 0;
  for (const auto& [ending, bytes] : kEndings) {
    if (type.substr(2) == ending) return bytes;
  }
  return 0;
}

}  // namespace

class Ptx::Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Status Read(Ptx* out) {
    for (std::string_view word = Next(); !word.empty(); word = Next()) {
      if (word == ".target") RONDO_RETURN_IF_ERROR(ReadTarget(out));
      if (word == ".entry") RONDO_RETURN_IF_ERROR(ReadEntry(out));
    }
    if (out->architecture_ == 0) return RONDO_NOT_PTX("it names no .target");
    return Status::Ok();
  }

 private:
  // The next word or other character; "" at the end. Skips comments and quoted texts.
  std::string_view Next() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
      if (c == '/' && text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      } else if (c == '/' && text_.substr(at_, 2) == "/*") {
        at_ = std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 1;
      } else if (c == '"') {
        at_ = std::min(text_.find('"', at_ + 1), text_.size() - 1);
      } else {
        break;
      }
    }
    const size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    if (at_ == begin && at_ < text_.size()) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Status Number(uint32_t* number) {
    const std::string_view word = Next();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
    if (error == std::errc() && end == word.data() + word.size()) return Status::Ok();
    return RONDO_NOT_PTX("\"%.*s\" at byte %zu is no number",
                         static_cast<int>(std::min<size_t>(word.size(), 40)), word.data(), at_);
  }

  Status ReadTarget(Ptx* out) {
    const std::string_view name = Next();
    const auto architecture = ParseArchitecture(name);
    if (!architecture || architecture->ptx)
      return RONDO_NOT_PTX("its .target \"%.*s\" is unknown",
                           static_cast<int>(std::min<size_t>(name.size(), 40)), name.data());
    out->architecture_ = architecture->number;
    return Status::Ok();
  }

  Status ReadEntry(Ptx* out) {
    const std::string_view name = Next();
    FunctionNeeds needs;
    std::string_view word = Next();
    if (word == "(") {
      RONDO_RETURN_IF_ERROR(ReadParams(&needs));
      word = Next();
    }
    for (; word != "{" && word != ";"; word = Next()) {
      if (word.empty()) return RONDO_NOT_PTX("an .entry has no body");
      if (word == ".maxntid") RONDO_RETURN_IF_ERROR(ReadExtents(&needs.most_threads));
      if (word == ".reqntid") RONDO_RETURN_IF_ERROR(ReadExtents(&needs.exact_threads));
      if (word == ".reqnctapercluster") RONDO_RETURN_IF_ERROR(ReadExtents(&needs.cluster));
    }
    out->entries_.push_back({name, std::move(needs)});
    return Status::Ok();
  }

  // ".param .u64 NAME", ".param .align 64 .b8 NAME[128]", ".param .u64 .ptr .global .align 16 NAME", up to
  // ")".
  Status ReadParams(FunctionNeeds* needs) {
    uint32_t bytes = 0;
    for (std::string_view word = Next(); word != ")"; word = Next()) {
      if (word.empty() || needs->params.size() == kMostFunctionParams)
        return RONDO_NOT_PTX("parameters of an .entry have no end");
      if (word == ",") continue;
      if (word == ".param") {
        needs->params.push_back(0);
        bytes = 0;
      } else if (word == "[") {
        uint32_t count = 0;
        RONDO_RETURN_IF_ERROR(Number(&count));
        if (needs->params.empty() || count > 0xffff)
          return RONDO_NOT_PTX("a parameter has %u elements", count);
        needs->params.back() = bytes * count;
      } else if (BytesOf(word) != 0 && !needs->params.empty()) {
        needs->params.back() = bytes = BytesOf(word);
      }
    }
    return Status::Ok();
  }

  // "288" or "288, 1, 1".
  Status ReadExtents(uint32_t* product) {
    uint64_t all = 1;
    for (int axis = 0; axis < 3; ++axis) {
      uint32_t extent = 0;
      RONDO_RETURN_IF_ERROR(Number(&extent));
      if (extent == 0 || extent > 0xffff) return RONDO_NOT_PTX("an extent of %u", extent);
      all *= extent;
      const size_t before = at_;
      if (Next() == ",") continue;
      at_ = before;
      break;
    }
    *product = static_cast<uint32_t>(std::min<uint64_t>(all, UINT32_MAX));
    return Status::Ok();
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool Ptx::Is(Span<const uint8_t> code) { return !code.empty() && code[0] != 0x7f; }

Result<Ptx> Ptx::Read(Span<const uint8_t> code) {
  const void* end = std::memchr(code.data(), 0, code.size());
  if (code.empty() || end != code.data() + code.size() - 1)
    return RONDO_NOT_PTX("%zu bytes are no text that ends in its only zero", code.size());
  Ptx ptx;
  const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size() - 1);
  if (text.empty()) return RONDO_NOT_PTX("it is empty");
  RONDO_RETURN_IF_ERROR(Reader(text).Read(&ptx));
  return ptx;
}

std::vector<std::string_view> Ptx::Entries() const {
  std::vector<std::string_view> names;
  for (const auto& [name, needs] : entries_) names.push_back(name);
  return names;
}

Result<FunctionNeeds> Ptx::Function(std::string_view entry) const {
  for (const auto& [name, needs] : entries_) {
    if (name == entry) return needs;
  }
  return Status::Error(Code::kCorrupt, "it has no function of that name");
}

}  // namespace rondo
