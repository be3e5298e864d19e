#include "tools/rondo/generate_texts.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

namespace rondo::tools {

Result<std::string> ReadPromptFile(const std::string& path) {
  constexpr size_t kMost = 16 << 20;
  const auto failed = [&](const char* why) {
    return Status::Error(Code::kIo, "prompt file \"%s\": %s", path.c_str(), why);
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return failed(std::strerror(errno));
  std::string text;
  char block[4096];
  for (size_t count; text.size() <= kMost && (count = std::fread(block, 1, sizeof(block), file.get())) > 0;)
    text.append(block, count);
  if (std::ferror(file.get()) != 0) return failed(std::strerror(errno));
  if (text.size() > kMost) return failed("more than 16777216 bytes, more than any prompt");
  return text;
}

Result<Tokens> ParseTokens(const std::string& text, bool ids, int64_t words, const std::string& what) {
  Tokens tokens;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (!ids) {
      tokens.push_back(static_cast<unsigned char>(*at++));
    } else if (std::strchr(" \t\r\n,", *at) != nullptr && *at != 0) {
      ++at;
    } else {
      int64_t number = 0;
      const auto [next, error] = std::from_chars(at, end, number);
      if (error != std::errc()) {
        return Status::Error(Code::kInvalidArgument, "%s: \"%.20s\" is no number of a token", what.c_str(),
                             std::string(at, end).c_str());
      }
      tokens.push_back(number);
      at = next;
    }
    if (!tokens.empty() && (tokens.back() < 0 || tokens.back() >= words)) {
      return Status::Error(Code::kInvalidArgument, "%s: token %lld is not one of the model's %lld",
                           what.c_str(), static_cast<long long>(tokens.back()),
                           static_cast<long long>(words));
    }
  }
  if (tokens.empty())
    return Status::Error(Code::kInvalidArgument, "%s is empty; at least one token is needed", what.c_str());
  return tokens;
}

Status WriteTokens(const Tokens& tokens, bool ids) {
  std::string text;
  for (int64_t token : tokens) {
    if (ids) {
      text += std::to_string(token) + ' ';
    } else {
      text += static_cast<char>(token);
    }
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return Status::Ok();
  return Status::Error(Code::kIo, "standard output: %s", std::strerror(errno));
}

}  // namespace rondo::tools
