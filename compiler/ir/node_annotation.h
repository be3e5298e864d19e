// NodeAnnotation: what somebody says about nodes of a model, from outside of it.
//
// A name is written as it is; `\` before a character takes away its meaning, which `*`, `:`, `=`, `,` and `\`
// have. `*` stands for any characters, or none. `value:NAME` is the node whose output is called NAME.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace rondo {

struct NodeAnnotation {
  std::string node;        // which nodes, as above
  std::string key, value;  // "stream", "1"
};

inline constexpr uint32_t kMaxAnnotatedStreams = 64;  // of a program; the plan verifier's kMaxStreams

// "NODE:KEY=VALUE". kInvalidArgument for another form. A colon or an equals sign of NODE needs no `\` unless
// a key follows it: the last `:KEY=` of a known key ends NODE.
Result<NodeAnnotation> ParseNodeAnnotation(std::string_view text);
// The same as text: "a:stream=1".
std::string TextOf(const NodeAnnotation& annotation);

// Whether `pattern` is of the node, or value, called `name`.
bool AppliesTo(std::string_view pattern, std::string_view name);
// Whether it is of the node called `name` in full with these outputs, whose names begin with `prefix`.
bool AppliesTo(std::string_view pattern, std::string_view name, std::string_view prefix,
               const std::vector<std::string>& outputs);
// Whether it names one node: it has no `*` that stands for others.
bool NamesOne(std::string_view pattern);
// Whether every name that `narrow` is of, `wide` is of as well.
bool Covers(std::string_view wide, std::string_view narrow);
// `name` as a pattern that is of it alone.
std::string Escaped(std::string_view name);
// "a, b\,c" -> {"a", "b\,c"}: the names of a list, without the spaces around them.
std::vector<std::string> NamesIn(std::string_view list);

// Whether the annotation `key` says in what order nodes run, with names (commas between) as its value: the
// node runs `after` those, or `needs` them: then they are kept as long as it is.
inline bool IsOrder(std::string_view key) { return key == "after" || key == "needs"; }
// The keys that bind: where nodes that differ in one of them meet, no pass makes one node of both, and no
// kernel computes both.
inline constexpr std::string_view kBindingKeys[] = {"fuse", "graph", "keep", "stream"};
// Whether that is one of a user's: `keep: --sample`, which a pass says, is none.
bool Binds(std::string_view key, std::string_view value);
// On an IR node with `fuse: off`: the number of the ONNX node whose pieces, alone, its kernel may compute.
inline constexpr char kOwnerKey[] = "owner";
// On an IR node that computes one chunk of what a node of the model does (compiler/shard/cut_rows.h): which,
// "1 of 4". No kernel computes several.
inline constexpr char kChunkKey[] = "chunk";
// On a collective: why it is not cut into chunks.
inline constexpr char kWholeKey[] = "whole";

// Whether `text` is a number that the annotation `stream` takes.
bool IsStreamNumber(std::string_view text);
// "" if there is such an annotation and it takes the value; else what there is: "none of stream: 0 to 63,
// ...".
std::string WhyNoAnnotation(std::string_view key, std::string_view value);

}  // namespace rondo
