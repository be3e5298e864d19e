// TextGroup: as many texts as a session has, from their prompts on, and ContinueTexts, which adds to them
// token by token until each has ended.
//
// Plain data; borrows nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"

namespace rondo::tools {

// Behind the `wanted` texts, others fill the session up.
struct TextGroup {
  std::vector<Tokens> sources, prompts, generated;  // sources: of an encoder
  std::vector<bool> stopped;                        // by text: at a stop, not at its length
  size_t wanted = 0, first_text = 0;                // the first one's number among all texts
  double copied = 0, first = 0, rest = 0;  // seconds: of the prefix, to the first token, of the others
  uint64_t copied_bytes = 0;               // of the prefix's states
  int64_t steps = 0;                       // that gave tokens

  const Tokens& Shortest() const;  // prompt
};

// A session's together, those that stand side by side and, if `alike`, are of one length; a group of fewer is
// filled up with its shortest prompt. `sources`: none, or one a prompt.
std::vector<TextGroup> GroupTexts(std::vector<Tokens> prompts, std::vector<Tokens> sources, size_t texts,
                                  bool alike);

struct Continuing {
  Sampling sampling;                                  // of the group's first text
  std::vector<Tokens> stops;                          // each ends a text, and is no part of it
  std::function<int64_t(const Tokens& prompt)> most;  // tokens that are added to a prompt at most
  // What is settled of the first text, as it comes; null: nobody reads it. The first error ends all.
  std::function<Status(const Tokens& tokens)> write;
};

// Fills in what was generated and the times. The decoder is at the end of what all prompts begin with.
Status ContinueTexts(Decoder* decoder, const Continuing& how, TextGroup* group);

}  // namespace rondo::tools
