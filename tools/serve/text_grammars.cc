#include "tools/serve/text_grammars.h"

#include <cstring>

namespace rondo::serve {

using nlohmann::json;

Status TextGrammars::Check(const Grammar& grammar) {
  return worker_.Ask({{"do", "grammar"}, {"grammar", {grammar.kind, grammar.text}}, {"words", words_}})
      .status();
}

std::vector<TextGrammars::Next> TextGrammars::Follow(const std::vector<Step>& steps) {
  Result<std::vector<Next>> all = Ask(steps);
  if (all.ok()) return all.Take();
  Next failed;
  failed.status = all.status();
  return std::vector<Next>(steps.size(), failed);
}

Result<std::vector<TextGrammars::Next>> TextGrammars::Ask(const std::vector<Step>& steps) {
  json texts = json::array(), gone = json::array();
  for (const Step& step : steps) {
    json grammar;
    if (step.begins != nullptr) grammar = {step.begins->kind, step.begins->text};
    texts.push_back({step.text, grammar, step.tokens});
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone = gone_;
    gone_.clear();
  }
  std::string masks;
  RONDO_ASSIGN_OR_RETURN(
      const json answer,
      worker_.Ask({{"do", "follow"}, {"texts", texts}, {"gone", gone}, {"words", words_}}, &masks));
  std::vector<Next> all;
  size_t at = 0;
  for (const json& text : answer["texts"]) {
    Next next;
    if (text.contains("lost")) {
      next.status = Status::Error(
          Code::kAborted, "the process that follows the text's grammar has ended; what it knew is lost");
    } else if (text.contains("error")) {
      next.status = Status::Error(Code::kInvalidArgument, "%s", text["error"].get<std::string>().c_str());
    } else if (text.contains("complete")) {
      next.complete = true;
    } else {
      next.allowed.resize(static_cast<size_t>((words_ + 31) / 32));
      const size_t bytes = next.allowed.size() * sizeof(uint32_t);
      if (at + bytes > masks.size())
        return Status::Error(Code::kInternal, "llguidance's process gave %zu bytes of masks, too few",
                             masks.size());
      std::memcpy(next.allowed.data(), masks.data() + at, bytes);
      at += bytes;
    }
    all.push_back(std::move(next));
  }
  if (all.size() != steps.size())
    return Status::Error(Code::kInternal, "llguidance's process answered %zu texts of %zu", all.size(),
                         steps.size());
  return all;
}

void TextGrammars::Forget(uint64_t text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  gone_.push_back(text);
}

}  // namespace rondo::serve
