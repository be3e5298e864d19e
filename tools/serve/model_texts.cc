#include "tools/serve/model_texts.h"

#include <filesystem>

#include "tools/rondo/generate_texts.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

// The number of bytes at the end of `text` that begin an incomplete UTF-8 character.
size_t Unfinished(const std::string& text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    const size_t length = byte >= 0xF0 && byte < 0xF8   ? 4
                          : byte >= 0xE0 && byte < 0xF0 ? 3
                          : byte >= 0xC2 && byte < 0xE0 ? 2
                                                        : 1;
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<ModelTexts>> ModelTexts::Open(const std::string& python, const std::string& folder,
                                                     int64_t words) {
  std::unique_ptr<ModelTexts> texts(new ModelTexts(python, folder, words));
  texts->kind_ = words <= 256 ? Kind::kBytes : Kind::kNumbers;
  bool asks = false;
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"})
    asks = asks || (!folder.empty() && std::filesystem::exists(folder + "/" + name));
  if (!asks) return texts;
  for (TextWorker* worker : {&texts->reader_, &texts->writer_}) {
    Result<json> about = worker->Ask({{"do", "about"}});
    if (!about.ok()) return about.status().At("%s", folder.c_str());
    texts->ends_ = (*about)["ends"].get<std::set<int64_t>>();
    texts->chat_ = (*about)["chat"].get<bool>();
    if ((*about)["tokenizer"].get<bool>()) texts->kind_ = Kind::kTokenizer;
  }
  return texts;
}

Result<Tokens> ModelTexts::Encode(const std::string& text, bool special) {
  if (kind_ != Kind::kTokenizer)
    return tools::ParseTokens(text, kind_ == Kind::kNumbers, words_, "the prompt");
  RONDO_ASSIGN_OR_RETURN(const json answer,
                         reader_.Ask({{"do", "encode"}, {"text", text}, {"special", special}}));
  return answer["ids"].get<Tokens>();
}

Result<std::string> ModelTexts::Chat(const json& messages) {
  RONDO_ASSIGN_OR_RETURN(const json answer, reader_.Ask({{"do", "chat"}, {"messages", messages}}));
  return answer["text"].get<std::string>();
}

Result<std::vector<std::string>> ModelTexts::Names(const Tokens& tokens) {
  std::vector<std::string> names;
  if (kind_ != Kind::kTokenizer) {
    for (int64_t token : tokens)
      names.push_back(kind_ == Kind::kBytes ? std::string(1, static_cast<char>(token))
                                            : std::to_string(token));
    return names;
  }
  RONDO_ASSIGN_OR_RETURN(const json answer, writer_.Ask({{"do", "names"}, {"ids", tokens}}));
  return answer["texts"].get<std::vector<std::string>>();
}

std::string ModelTexts::DecodeHere(const Step& step) {
  std::string& text = pending_[step.stream];
  for (int64_t token : step.tokens) {
    if (kind_ == Kind::kBytes)
      text += static_cast<char>(token);
    else
      text += std::to_string(token) + " ";
  }
  const size_t waits = step.ends ? 0 : Unfinished(text);
  std::string settled = text.substr(0, text.size() - waits);
  text.erase(0, settled.size());
  if (step.ends) pending_.erase(step.stream);
  return settled;
}

Result<std::vector<std::string>> ModelTexts::Decode(const std::vector<Step>& steps) {
  if (kind_ != Kind::kTokenizer) {
    std::vector<std::string> texts;
    for (const Step& step : steps) texts.push_back(DecodeHere(step));
    return texts;
  }
  json streams = json::array();
  for (const Step& step : steps) streams.push_back({step.stream, step.tokens, step.ends});
  RONDO_ASSIGN_OR_RETURN(const json answer, writer_.Ask({{"do", "decode"}, {"streams", streams}}));
  return answer["texts"].get<std::vector<std::string>>();
}

}  // namespace rondo::serve
