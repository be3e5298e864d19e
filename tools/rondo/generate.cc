#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/decoder.h"
#include "tools/rondo/decoder_form.h"
#include "tools/rondo/generate_texts.h"
#include "tools/rondo/json_parts.h"
#include "tools/rondo/launch.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/report.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/text_group.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int64_t kMostTokens = 1000000000, kUsualTokens = 128, kMostCount = 1 << 20;

class GenerateCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    DeclarePlan(options, &plans_, "a plan with one prefill program or more, and one of single tokens");
    options.Group("Text")
        .Texts("--prompt", &prompts_, "a text to continue; may be given several times", "TEXT")
        .Texts("--prompt-file", &prompt_files_, "the same, from a file; -: standard input", "F")
        .Texts("--prompt-lines", &prompt_lines_, "the same, a text per line of a file", "F")
        .Integer(
            "--count", &count_, 1, kMostCount,
            "continue each prompt N times, with another seed each time; default: once, or a single prompt as "
            "often as a batch has texts")
        .Text("--prefix-file", &prefix_file_,
              "what all texts begin with: computed once; other sessions copy its states on the device", "F")
        .Text("--start", &start_, "the token with which every prompt begins", "ID")
        .Flag("--ids", &ids_, "texts are token numbers with spaces between, here and in the output")
        .Integer("--max-tokens", &max_tokens_, 0, kMostTokens,
                 "add N tokens to each text; default: 128, or what the caches hold")
        .Texts("--stop", &stops_, "a text ends before this token", "ID")
        .Texts("--stop-text", &stop_texts_, "a text ends before this text, which is not written", "TEXT")
        .Group("Encoder")
        .Texts("--source", &sources_, "what an encoder reads, one per text; or give its inputs (--input)",
               "TEXT")
        .Texts("--source-file", &source_files_, "the same, from a file", "F")
        .Texts("--source-lines", &source_lines_, "the same, one per line of a file", "F")
        .Group("Sampling")
        .Number("--temperature", &sampling_.temperature, "0: take the likeliest token (default)", "T")
        .Integer("--top-k", &sampling_.top_k, 0, 1 << 24,
                 "draw from the K likeliest tokens only; 0: all (default)", "K")
        .Number("--top-p", &sampling_.top_p,
                "draw from the fewest tokens whose probabilities add up to P (default 1)", "P")
        .Text("--seed", &seed_,
              "seed of the first text, 0 to 2^64 - 1; the next text has the next seed. Same seed, same text",
              "SEED")
        .Group("What is written")
        .Flag("--no-echo", &no_echo_, "write what follows the prompts, not the prompts")
        .Flag("--raw", &raw_, "write only the texts, prompts included, and no times")
        .Group("Programs and inputs of the plan")
        .Texts("--program", &form_.programs, "use these programs of the plan; default: all", "NAME")
        .Rare()
        .Texts("--port", &ports_,
               "what an input is (tokens, positions, mask, past, total, last), or which output has logits",
               "ROLE=NAME")
        .Rare()
        .Integer("--context", &form_.context, 1, int64_t{1} << 40, "the caches hold N positions")
        .Rare()
        .Texts("--input", &inputs_, "an input of every run, from a .npy or .pb file", "NAME=FILE");
    DeclareLoad(options, &load_);
    out_.Declare(options);
  }

  int Run() override {
    if (const std::string wrong = ReadArguments(); !wrong.empty()) return out_.Misuse("generate", wrong);
    const Status status = Generate();
    if (!status.ok() && load_.processes != nullptr) load_.processes->Abort(status);
    if (!status.ok() && std::ferror(stdout) != 0) return 1;  // reported once for all commands
    if (!status.ok()) return out_.Fail("generate", status);
    return out_.Finish(0);
  }

 private:
  // Returns what is wrong with the command line, or "".
  std::string ReadArguments() {
    if (prompts_.empty() && prompt_files_.empty() && prompt_lines_.empty() && start_.empty())
      return "a text to continue is needed: --prompt, --prompt-file or --prompt-lines, or what it begins "
             "with: --start";
    if (const std::string wrong = NotNamedFile(inputs_); !wrong.empty()) return wrong;
    if (auto devices = ParseDevices(load_.devices); !devices.ok()) return devices.status().message();
    if (!(sampling_.temperature >= 0 && sampling_.temperature < 1e30))
      return Printf("--temperature %g is not a number from 0 on, below 1e30", sampling_.temperature);
    if (!(sampling_.top_p > 0 && sampling_.top_p <= 1))
      return Printf("--top-p %g is not a number above 0, at most 1", sampling_.top_p);
    const auto number = [](const std::string& text, auto* to) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *to);
      return error == std::errc() && end == text.data() + text.size();
    };
    if (!seed_.empty() && !number(seed_, &sampling_.seed))
      return "--seed " + seed_ + " is not a number from 0 to 2^64 - 1";
    if (int64_t token = -1; !start_.empty()) {
      if (!number(start_, &token) || token < 0) return "--start " + start_ + " is not a token number";
      start_tokens_.push_back(token);
    }
    for (const std::string& stop : stops_) {
      int64_t token = -1;
      if (!number(stop, &token) || token < 0) return "--stop " + stop + " is not a token number";
      ends_.push_back({token});
    }
    for (const std::string& port : ports_) {
      const size_t equals = port.find('=');
      const std::string role = port.substr(0, equals),
                        name = equals == port.npos ? "" : port.substr(equals + 1);
      PortRole found;
      if (!name.empty() && role == "logits") {
        form_.logits = name;
      } else if (!name.empty() && ParseRole(role, &found)) {
        form_.roles[name] = found;
      } else {
        return "--port " + port +
               " is not of the form ROLE=NAME, where ROLE is tokens, positions, mask, past, total, "
               "last or logits";
      }
    }
    return "";
  }

  Status Generate() {
    RONDO_ASSIGN_OR_RETURN(given_, ReadNamedTensors(inputs_));
    RONDO_RETURN_IF_ERROR(JoinOthers(&load_));
    if (load_.processes != nullptr) RONDO_RETURN_IF_ERROR(RefuseStandardInput());
    silent_ = raw_ || out_.quiet() || (load_.processes != nullptr && load_.processes->rank() != 0);
    for (const Tensor& tensor : given_) form_.given.insert(tensor.name);
    RONDO_ASSIGN_OR_RETURN(loaded_, LoadedSession::Open(plans_[0], load_));
    RONDO_ASSIGN_OR_RETURN(decoder_, FindDecoderForm(loaded_->data(), form_));
    RONDO_ASSIGN_OR_RETURN(std::vector<TextGroup> groups, ReadGroups());
    out_.object() = {{"plan", plans_[0]}, {"runs_on", ToJson(loaded_->runs_on())}};
    Decoder prefix(&loaded_->session, &decoder_, &given_, load_.processes.get());
    if (!prefix_.empty()) RONDO_RETURN_IF_ERROR(ReadPrefix(&prefix));
    for (size_t g = 0; g < groups.size(); ++g) {
      RONDO_RETURN_IF_ERROR(
          Continue(prefix.position(), g, groups.size() == 1 && decoder_.texts == 1, &groups[g]));
    }
    return Status::Ok();
  }

  Status RefuseStandardInput() const {
    for (const auto* files : {&prompt_files_, &prompt_lines_, &source_files_, &source_lines_}) {
      if (std::find(files->begin(), files->end(), "-") != files->end() || prefix_file_ == "-")
        return Status::Error(Code::kInvalidArgument,
                             "standard input comes to one of the processes alone: give a file in place of -");
    }
    return Status::Ok();
  }

  // The prompts in groups of a session. A single prompt is used for all texts of its session.
  Result<std::vector<TextGroup>> ReadGroups() {
    if (!ids_ && decoder_.words > 256) {
      return Status::Error(Code::kInvalidArgument,
                           "the model knows %lld tokens, which are no bytes: give their numbers (--ids), as "
                           "tools/generate does with the model's tokenizer",
                           static_cast<long long>(decoder_.words));
    }
    if (!prefix_file_.empty()) {
      RONDO_ASSIGN_OR_RETURN(const std::string text, ReadPromptFile(prefix_file_));
      RONDO_ASSIGN_OR_RETURN(prefix_,
                             ParseTokens(text, ids_, decoder_.words, "prefix file \"" + prefix_file_ + "\""));
    }
    if (!start_tokens_.empty() && start_tokens_[0] >= decoder_.words)
      return Status::Error(Code::kInvalidArgument, "--start %s is not one of the model's %lld tokens",
                           start_.c_str(), static_cast<long long>(decoder_.words));
    RONDO_ASSIGN_OR_RETURN(std::vector<Tokens> prompts,
                           ReadTexts("prompt", prompts_, prompt_files_, prompt_lines_, decoder_.words));
    if (prompts.empty()) prompts.emplace_back();
    for (Tokens& prompt : prompts) prompt.insert(prompt.begin(), start_tokens_.begin(), start_tokens_.end());
    RONDO_ASSIGN_OR_RETURN(
        std::vector<Tokens> sources,
        ReadTexts("source", sources_, source_files_, source_lines_, std::numeric_limits<int32_t>::max()));
    RONDO_RETURN_IF_ERROR(CheckSources(sources.size(), prompts.size()));
    RONDO_RETURN_IF_ERROR(CheckStops());
    for (const std::string& text : stop_texts_) {
      RONDO_ASSIGN_OR_RETURN(Tokens stop, ParseTokens(text, ids_, decoder_.words, "--stop-text"));
      ends_.push_back(std::move(stop));
    }
    // A model that chooses by the length of a text also chooses for the prefix.
    if (decoder_.chooses) {
      for (Tokens& prompt : prompts) prompt.insert(prompt.begin(), prefix_.begin(), prefix_.end());
      prefix_.clear();
    }
    const size_t texts = static_cast<size_t>(decoder_.texts);
    const size_t wanted = std::max(prompts.size(), sources.size());
    if (prompts.size() == 1) prompts.resize(wanted == 1 && count_ == 0 ? texts : wanted, Tokens(prompts[0]));
    if (sources.size() == 1) sources.resize(prompts.size(), Tokens(sources[0]));
    for (const Tokens& prompt : prompts) RONDO_RETURN_IF_ERROR(CheckLength(prompt.size()));
    return GroupTexts(Repeated(std::move(prompts)), Repeated(std::move(sources)), texts, decoder_.chooses);
  }

  // Repeats each text as often as --count says.
  std::vector<Tokens> Repeated(std::vector<Tokens> texts) const {
    if (count_ <= 1) return texts;
    std::vector<Tokens> all;
    for (const Tokens& text : texts) all.insert(all.end(), static_cast<size_t>(count_), text);
    return all;
  }

  // The texts on the command line, then those in files, then the lines of files.
  Result<std::vector<Tokens>> ReadTexts(const std::string& what, const std::vector<std::string>& said,
                                        const std::vector<std::string>& files,
                                        const std::vector<std::string>& by_line, int64_t words) const {
    std::vector<Tokens> texts;
    for (const std::string& text : said) {
      RONDO_ASSIGN_OR_RETURN(Tokens tokens, ParseTokens(text, ids_, words, "--" + what));
      texts.push_back(std::move(tokens));
    }
    for (const std::string& path : files) {
      RONDO_ASSIGN_OR_RETURN(const std::string text, ReadPromptFile(path));
      RONDO_ASSIGN_OR_RETURN(Tokens tokens, ParseTokens(text, ids_, words, what + " file \"" + path + "\""));
      texts.push_back(std::move(tokens));
    }
    for (const std::string& path : by_line) {
      RONDO_ASSIGN_OR_RETURN(const std::string all, ReadPromptFile(path));
      const std::vector<std::string> lines = LinesOf(all);
      if (lines.empty())
        return Status::Error(Code::kInvalidArgument, "--%s-lines %s has no line", what.c_str(), path.c_str());
      for (size_t i = 0; i < lines.size(); ++i) {
        const std::string where = what + " file \"" + path + "\", line " + std::to_string(i + 1);
        RONDO_ASSIGN_OR_RETURN(Tokens tokens, ParseTokens(lines[i], ids_, words, where));
        texts.push_back(std::move(tokens));
      }
    }
    return texts;
  }

  Status CheckSources(size_t sources, size_t prompts) const {
    const auto refuse = [](const std::string& why) {
      return Status::Error(Code::kInvalidArgument, "%s", why.c_str());
    };
    const bool reads = decoder_.encoder.tokens != kNone;
    if (reads && sources == 0) return refuse("the plan's encoder reads tokens: --source or --source-file");
    if (!reads && sources > 0) return refuse("--source: the plan has no encoder that reads tokens");
    if (decoder_.encoder.program != kNone && !prefix_.empty())
      return refuse("--prefix-file: what texts attend to is their encoder's, and no two have it in common");
    if (sources <= 1 || prompts == 1 || sources == prompts) return Status::Ok();
    return refuse(std::to_string(sources) + " sources and " + std::to_string(prompts) +
                  " prompts: there must be as many, or one of either");
  }

  // The last generated token is not read, so it needs no position.
  Status CheckLength(size_t prompt) const {
    const int64_t read = static_cast<int64_t>(prefix_.size() + prompt),
                  added = std::max<int64_t>(max_tokens_ - 1, 0);
    if (read + added <= decoder_.context) return Status::Ok();
    return Status::Error(
        Code::kInvalidArgument,
        "the prompt's %lld tokens and %lld that are read after it exceed the model's context of "
        "%lld",
        static_cast<long long>(read), static_cast<long long>(added),
        static_cast<long long>(decoder_.context));
  }

  Status CheckStops() const {
    for (const Tokens& end : ends_) {
      if (end[0] < decoder_.words) continue;
      return Status::Error(Code::kInvalidArgument, "--stop %lld is not one of the model's %lld tokens",
                           static_cast<long long>(end[0]), static_cast<long long>(decoder_.words));
    }
    return Status::Ok();
  }

  Status ReadPrefix(Decoder* decoder) {
    const Clock::time_point start = Clock::now();
    const std::vector<Tokens> texts(static_cast<size_t>(decoder_.texts), prefix_);
    RONDO_RETURN_IF_ERROR(decoder->Read(texts, sampling_, nullptr));
    const double took = Since(start);
    uint64_t state = 0, arena = 0;
    for (const DeviceBytes& device : loaded_->data().requirements.devices) {
      state += device.state;
      arena += device.arena;
    }
    out_.object()["prefix"] = {{"tokens", prefix_.size()}, {"seconds", took}};
    out_.object()["session_bytes"] = {{"state", state}, {"arena", arena}};
    if (silent_) return Status::Ok();
    std::fprintf(
        stderr,
        "prefix of %zu tokens in %.3f s, once; its session, and each that begins with it, has %s of state "
        "and %s of arena\n",
        prefix_.size(), took, BytesText(state).c_str(), BytesText(arena).c_str());
    return Status::Ok();
  }

  // The prefix's positions in the caches; all positions if copying row by row would take longer than it
  // saves.
  StatePositions PositionsToCopy(int64_t position) const {
    constexpr int64_t kLeastLeftOut = 2 << 20;  // bytes of a row that a GPU copies while another copy starts
    if (!decoder_.pads) return {};
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Buffer& b : loaded_->data().buffers) {
      const int rank = b.shape.rank;
      if (b.kind != BufferKind::kState || rank < 3 || b.shape[rank - 2] != decoder_.context) continue;
      least = std::min(least, (decoder_.context - position) * b.shape[rank - 1] * ByteSize(b.dtype));
    }
    if (!loaded_->on_host() && least < kLeastLeftOut) return {};
    return {decoder_.context, position};
  }

  Status Continue(int64_t position, size_t number, bool alone, TextGroup* group) {
    Session own;
    Session* session = &loaded_->session;
    if (position > 0) {
      RONDO_ASSIGN_OR_RETURN(own, loaded_->Another());
      session = &own;
      const Clock::time_point start = Clock::now();
      RONDO_RETURN_IF_ERROR(
          own.CopyStatesFrom(loaded_->session, PositionsToCopy(position), &group->copied_bytes));
      group->copied = Since(start);
    } else if (number > 0) {
      RONDO_RETURN_IF_ERROR(session->ResetState());
    }
    const bool streams = alone && !out_.json();
    if (streams) RONDO_RETURN_IF_ERROR(WritePrompt(group->prompts[0]));
    Decoder decoder(session, &decoder_, &given_, load_.processes.get(), position);
    if (decoder_.encoder.program != kNone) RONDO_RETURN_IF_ERROR(decoder.Encode(group->sources));
    Continuing how{sampling_, ends_, [&](const Tokens& prompt) { return MostAfter(prompt); }, nullptr};
    how.sampling.seed += group->first_text;
    if (streams) how.write = [&](const Tokens& tokens) { return WriteTokens(tokens, ids_); };
    RONDO_RETURN_IF_ERROR(ContinueTexts(&decoder, how, group));
    if (streams && ids_ && std::putchar('\n') == EOF)
      return Status::Error(Code::kIo, "standard output is closed");
    return Report(number, streams, *group);
  }

  // Generated bytes follow their prompt; numbers are printed alone.
  Status WritePrompt(const Tokens& prompt) {
    if (ids_ || no_echo_) return Status::Ok();
    RONDO_RETURN_IF_ERROR(WriteTokens(prefix_, ids_));
    return WriteTokens(prompt, ids_);
  }

  // The most tokens that are added to a text.
  int64_t MostAfter(const Tokens& prompt) const {
    if (max_tokens_ >= 0) return max_tokens_;
    const auto read = static_cast<int64_t>(prefix_.size() + prompt.size());
    return std::min(kUsualTokens, decoder_.context - read + 1);
  }

  Status Report(size_t number, bool streamed, const TextGroup& group) {
    // The first tokens came with the prompts.
    size_t drawn = 0, longest = 0;
    for (size_t t = 0; t < group.wanted; ++t) {
      drawn += group.generated[t].size() - std::min<size_t>(group.generated[t].size(), 1);
      longest = std::max(longest, group.prompts[t].size());
    }
    const double rate = drawn > 0 && group.rest > 0 ? static_cast<double>(drawn) / group.rest : 0;
    for (size_t t = 0; t < group.wanted; ++t) {
      auto& text = out_.object()["texts"].emplace_back();
      text = {{"session", number},
              {"seed", sampling_.seed + group.first_text + t},
              {"prompt", group.prompts[t].size()},
              {"tokens", group.generated[t]},
              {"ended_by", group.stopped[t] ? "stop" : "length"}};
      if (!ids_) text["text"] = std::string(group.generated[t].begin(), group.generated[t].end());
      if (streamed || out_.json()) continue;
      if (!raw_ && !ids_) out_.Line("== text %zu", group.first_text + t + 1);
      RONDO_RETURN_IF_ERROR(WritePrompt(group.prompts[t]));
      RONDO_RETURN_IF_ERROR(WriteTokens(group.generated[t], ids_));
      if ((ids_ || !raw_) && std::putchar('\n') == EOF)
        return Status::Error(Code::kIo, "standard output is closed");
    }
    out_.object()["sessions"].push_back({{"seconds_to_copy_prefix", group.copied},
                                         {"copied_bytes", group.copied_bytes},
                                         {"seconds_to_first_token", group.first},
                                         {"seconds_after", group.rest},
                                         {"tokens_per_second", rate}});
    if (silent_ || group.steps == 0) return Status::Ok();
    const size_t shortest = group.Shortest().size();
    std::fprintf(
        stderr, "%s%sprompt%s tokens: the first token after %.3f s, %lld more in %.3f s",
        streamed && !ids_ ? "\n" : "",
        group.copied > 0 ? Printf("%s of state copied in %.1f us; ", BytesText(group.copied_bytes).c_str(),
                                  group.copied * 1e6)
                               .c_str()
                         : "",
        (longest == shortest ? Printf(" of %zu", longest) : Printf("s of %zu to %zu", shortest, longest))
            .c_str(),
        group.first, static_cast<long long>(group.steps - 1), group.rest);
    if (rate > 0)
      std::fprintf(stderr, ": %.0f tokens/s%s", rate,
                   group.wanted > 1 ? Printf(" of %zu texts", group.wanted).c_str() : "");
    std::fputc('\n', stderr);
    return Status::Ok();
  }

  std::vector<std::string> plans_, prompts_, prompt_files_, sources_, source_files_, stops_, ports_, inputs_,
      prompt_lines_, source_lines_, stop_texts_;
  std::string prefix_file_, seed_, start_;
  int64_t max_tokens_ = -1, count_ = 0;
  bool ids_ = false, raw_ = false, silent_ = false, no_echo_ = false;
  Sampling sampling_;
  FormOptions form_;
  LoadOptions load_;
  CommandOutput out_;
  std::vector<int64_t> start_tokens_;
  std::vector<Tokens> ends_;
  std::vector<Tensor> given_;
  std::unique_ptr<LoadedSession> loaded_;
  DecoderForm decoder_;
  Tokens prefix_;
};

}  // namespace

std::unique_ptr<Command> MakeGenerateCommand() { return std::make_unique<GenerateCommand>(); }

}  // namespace rondo::tools
