// NodeAnnotation: an annotation of a model's nodes, given from outside the model.
//
// A name is written literally. `\` quotes the next character, which is needed for `*`, `:`, `=`, `,` and `\`.
// `*` stands for any number of characters. `value:NAME` is the node whose output is called NAME,
// `region:NAME` every node of that region (compiler/ir/region.h) and of regions in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace rondo {

struct NodeAnnotation {
  std::string node;        // the nodes, as above
  std::string key, value;  // "stream", "1"
};

inline constexpr uint32_t kMaxAnnotatedStreams = 64;  // of a program; the plan verifier's kMaxStreams

// "NODE:KEY=VALUE", or "NODE:deterministic". kInvalidArgument for another form. A colon or an equals sign in
// NODE needs `\` only if a key follows it: the last `:KEY=` of a known key ends NODE.
Result<NodeAnnotation> ParseNodeAnnotation(std::string_view text);
// The same as text: "a:stream=1".
std::string TextOf(const NodeAnnotation& annotation);

// Whether `pattern` matches the node, or value, called `name`.
bool AppliesTo(std::string_view pattern, std::string_view name);
// Whether it matches the node with the full name `name` and these outputs, whose names begin with `prefix`.
bool AppliesTo(std::string_view pattern, std::string_view name, std::string_view prefix,
               const std::vector<std::string>& outputs);
// Whether it names a single node or region: it has no `*` as a wildcard.
bool NamesOne(std::string_view pattern);
// Whether it names regions: "region:NAME".
bool NamesRegions(std::string_view pattern);
// Whether it names the region `name` ("layer/attention") or one that holds it, and how many lie between: 0 if
// it names `name` itself; -1: neither.
int RegionsAbove(std::string_view pattern, std::string_view name);
// Whether every name that `narrow` matches is also matched by `wide`.
bool Covers(std::string_view wide, std::string_view narrow);
// A pattern that matches `name` alone.
std::string Escaped(std::string_view name);
// "a, b\,c" -> {"a", "b\,c"}: the names in a list, without surrounding spaces.
std::vector<std::string> NamesIn(std::string_view list);

// Whether the annotation `key` orders nodes, with a list of names as its value: the node runs `after` those,
// or `needs` them, which also keeps them alive as long as it is.
inline bool IsOrder(std::string_view key) { return key == "after" || key == "needs"; }
// The keys that bind: no pass merges nodes that differ in one of them, and no kernel computes both.
inline constexpr std::string_view kBindingKeys[] = {"deterministic", "fuse",      "graph",  "keep",
                                                    "matmul",        "precision", "region", "stream"};
// The binding keys that say how a contraction (a matmul, a convolution, attention) is computed: other nodes
// that differ in them may share a kernel.
bool IsChoice(std::string_view key);
// The value that marks what a pass says, `keep: --sample`.
inline constexpr char kSampleValue[] = "--sample";
// Whether it is a user's: what a pass says does not bind.
bool Binds(std::string_view key, std::string_view value);
// Asserts by value: every element of the node's outputs, where they are of floats, is finite. It does not
// bind: an IR node of its own checks (ir::IsAssertion).
inline constexpr char kAssertKey[] = "assert";
// On an IR node: the places that hold it, outermost first (compiler/ir/region.h).
inline constexpr char kRegionKey[] = "region";
// On an IR node with `fuse: off`: the number of the ONNX node whose pieces its kernel may compute, and no
// others.
inline constexpr char kOwnerKey[] = "owner";
// On an IR node that computes one chunk of a model's node (compiler/shard/cut_rows.h): which one, "1 of 4".
// No kernel computes several.
inline constexpr char kChunkKey[] = "chunk";
// On a collective: why it is not cut into chunks.
inline constexpr char kWholeKey[] = "whole";

// Whether `text` is a valid value of the annotation `stream`.
bool IsStreamNumber(std::string_view text);
// "" if there is such an annotation and it takes the value; otherwise the valid ones: "none of stream: 0 to
// 63, ...".
std::string WhyNoAnnotation(std::string_view key, std::string_view value);

}  // namespace rondo
