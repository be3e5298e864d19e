#include "tools/rondo/text_group.h"

#include <algorithm>
#include <chrono>

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The number of last tokens that begin a stop: a whole stop if `whole`, otherwise less than a whole one.
size_t EndsWith(const Tokens& tokens, const std::vector<Tokens>& stops, bool whole) {
  size_t most = 0;
  for (const Tokens& stop : stops) {
    const size_t from = whole ? stop.size() : 1, to = whole ? stop.size() : stop.size() - 1;
    for (size_t count = from; count <= std::min(to, tokens.size()); ++count) {
      const auto begin = tokens.end() - static_cast<std::ptrdiff_t>(count);
      if (std::equal(begin, tokens.end(), stop.begin())) most = std::max(most, count);
    }
  }
  return most;
}

class Continuation {
 public:
  Continuation(Decoder* decoder, const Continuing& how, TextGroup* group)
      : decoder_(decoder), how_(how), group_(group), ended_(group->prompts.size()) {}

  Status Run() {
    const size_t texts = group_->prompts.size(), shortest = group_->Shortest().size();
    group_->generated.resize(texts);
    group_->stopped.resize(texts);
    for (size_t t = 0; t < texts; ++t) ended_[t] = t >= group_->wanted || how_.most(group_->prompts[t]) == 0;
    std::vector<Tokens> drawn;  // of each round of a run
    Clock::time_point start = Clock::now();
    for (size_t read = shortest; Left() > 0;) {
      RONDO_RETURN_IF_ERROR(Step(read, read == shortest, &drawn));
      if (group_->steps == 0) {
        group_->first = Since(start);
        start = Clock::now();
      }
      for (size_t round = 0; round < drawn.size() && Left() > 0; ++round) {
        ++group_->steps;
        RONDO_RETURN_IF_ERROR(Take(drawn[round], read++));
      }
    }
    if (group_->steps > 0) group_->rest = Since(start);
    return Status::Ok();
  }

 private:
  // How many tokens the texts that have not ended may still get.
  int64_t Left() const {
    int64_t left = 0;
    for (size_t t = 0; t < ended_.size(); ++t) {
      if (ended_[t]) continue;
      left = std::max(left, how_.most(group_->prompts[t]) - std::ssize(group_->generated[t]));
    }
    return left;
  }

  // Reads up to `read` tokens of each text, and what follows them where the decoder does so in one run.
  Status Step(size_t read, bool first, std::vector<Tokens>* drawn) {
    std::vector<Tokens> begin;
    const Tokens last = first ? Tokens() : drawn->back();
    drawn->assign(1, {});
    if (first) {
      for (const Tokens& prompt : group_->prompts) begin.emplace_back(prompt.begin(), prompt.begin() + read);
      return decoder_->Read(begin, how_.sampling, &drawn->front());
    }
    Tokens tokens;
    std::vector<int64_t> draws(last.size());
    if (Following(read - 1, last, &tokens, &draws))
      return decoder_->Next(tokens, how_.sampling, draws, &drawn->front());
    if (decoder_->rounds() <= 1 || Left() <= 1) return decoder_->Next(last, &drawn->front());
    Tokens stops;
    for (const Tokens& stop : how_.stops) {
      if (stop.size() == 1) stops.push_back(stop[0]);
    }
    return decoder_->NextSeveral(last, Left(), ended_, stops, drawn);
  }

  // What every text reads next: a token of its prompt, or the one drawn last. False if all were drawn.
  bool Following(size_t read, const Tokens& drawn, Tokens* tokens, std::vector<int64_t>* draws) const {
    bool reads = false;
    *tokens = drawn;
    for (size_t t = 0; t < drawn.size(); ++t) {
      const Tokens& prompt = group_->prompts[t];
      draws->at(t) = static_cast<int64_t>(read + 1 - std::min(read + 1, prompt.size()));
      if (read >= prompt.size()) continue;
      (*tokens)[t] = prompt[read];
      reads = true;
    }
    return reads;
  }

  // Takes the tokens after `read` of each text, for texts whose prompts have been read.
  Status Take(const Tokens& next, size_t read) {
    for (size_t t = 0; t < next.size(); ++t) {
      if (ended_[t] || read < group_->prompts[t].size()) continue;
      Tokens& generated = group_->generated[t];
      generated.push_back(next[t]);
      ended_[t] = std::ssize(generated) == how_.most(group_->prompts[t]);
      if (const size_t stop = EndsWith(generated, how_.stops, true); stop > 0) {
        generated.resize(generated.size() - stop);
        group_->stopped[t] = ended_[t] = true;
      }
      if (t == 0) RONDO_RETURN_IF_ERROR(Write());
    }
    return Status::Ok();
  }

  // Writes settled tokens. A possible beginning of a stop waits.
  Status Write() {
    if (how_.write == nullptr) return Status::Ok();
    const Tokens& generated = group_->generated[0];
    const size_t waits = ended_[0] ? 0 : EndsWith(generated, how_.stops, false);
    const size_t settled = std::max(written_, generated.size() - waits);
    const Tokens more(generated.begin() + static_cast<std::ptrdiff_t>(written_),
                      generated.begin() + static_cast<std::ptrdiff_t>(settled));
    written_ = settled;
    return more.empty() ? Status::Ok() : how_.write(more);
  }

  Decoder* decoder_;
  const Continuing& how_;
  TextGroup* group_;
  std::vector<bool> ended_;
  size_t written_ = 0;  // tokens of the first text
};

}  // namespace

const Tokens& TextGroup::Shortest() const {
  return *std::min_element(prompts.begin(), prompts.end(),
                           [](const Tokens& a, const Tokens& b) { return a.size() < b.size(); });
}

std::vector<TextGroup> GroupTexts(std::vector<Tokens> prompts, std::vector<Tokens> sources, size_t texts,
                                  bool alike) {
  std::vector<TextGroup> groups;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const bool goes_on = !groups.empty() && groups.back().prompts.size() < texts &&
                         (!alike || groups.back().prompts[0].size() == prompts[i].size());
    if (!goes_on) groups.emplace_back().first_text = i;
    groups.back().prompts.push_back(std::move(prompts[i]));
    if (!sources.empty()) groups.back().sources.push_back(std::move(sources[i]));
  }
  for (TextGroup& group : groups) {
    group.wanted = group.prompts.size();
    group.prompts.resize(texts, Tokens(group.Shortest()));
    if (!sources.empty()) group.sources.resize(texts, Tokens(group.sources[0]));
  }
  return groups;
}

Status ContinueTexts(Decoder* decoder, const Continuing& how, TextGroup* group) {
  return Continuation(decoder, how, group).Run();
}

}  // namespace rondo::tools
