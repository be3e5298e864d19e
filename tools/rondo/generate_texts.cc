#include "tools/rondo/generate_texts.h"

#include <algorithm>
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
  const auto close = [](std::FILE* file) { return file == stdin ? 0 : std::fclose(file); };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"),
                                                       close);
  if (file == nullptr) return failed(std::strerror(errno));
  std::string text;
  char block[4096];
  for (size_t count; text.size() <= kMost && (count = std::fread(block, 1, sizeof(block), file.get())) > 0;)
    text.append(block, count);
  if (std::ferror(file.get()) != 0) return failed(std::strerror(errno));
  if (text.size() > kMost) return failed("more than 16777216 bytes, more than any prompt");
  return text;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const bool carriage = end > at && text[end - 1] == '\r';
    lines.push_back(text.substr(at, end - at - (carriage ? 1 : 0)));
    at = end + 1;
  }
  return lines;
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
        return Status::Error(Code::kInvalidArgument, "%s: \"%.20s\" is not a token number", what.c_str(),
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
