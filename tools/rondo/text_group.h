// TextGroup: as many texts as a session has, beginning with their prompts. ContinueTexts extends them token
// by token until all have ended.
//
// Plain data; borrows nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"

namespace rondo::tools {

// The `wanted` texts come first; other texts fill up the session.
struct TextGroup {
  std::vector<Tokens> sources, prompts, generated;  // sources: for an encoder
  std::vector<bool> stopped;                        // by text: ended by a stop, not by length
  size_t wanted = 0, first_text = 0;                // first_text: index of the first one among all texts
  double copied = 0, first = 0, rest = 0;  // seconds: for the prefix, up to the first token, for the rest
  uint64_t copied_bytes = 0;               // of the prefix's states
  int64_t steps = 0;                       // steps that gave tokens

  const Tokens& Shortest() const;  // the shortest prompt
};

// Groups texts into sessions: adjacent ones, and of one length if `alike`. A group with fewer texts than a
// session is filled up with its shortest prompt. `sources`: none, or one per prompt.
std::vector<TextGroup> GroupTexts(std::vector<Tokens> prompts, std::vector<Tokens> sources, size_t texts,
                                  bool alike);

struct Continuing {
  Sampling sampling;                                  // for the group's first text
  std::vector<Tokens> stops;                          // each ends a text and is not part of it
  std::function<int64_t(const Tokens& prompt)> most;  // the most tokens that are added to a prompt
  // Called with the settled tokens of the first text as they come; may be null. The first error ends
  // everything.
  std::function<Status(const Tokens& tokens)> write;
};

// Fills in the generated tokens and the times. The decoder stands at the end of the common prefix of all
// prompts.
Status ContinueTexts(Decoder* decoder, const Continuing& how, TextGroup* group);

}  // namespace rondo::tools
