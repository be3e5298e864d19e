// Place: where a node's result lies, and why. One record for each node, which preparation makes
// (preparation.h) and the rest of fusion reads. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "compiler/ir/graph.h"

namespace rondo::fusion {

struct Place {
  enum class How : uint8_t {
    kOwn,      // in memory of its own
    kState,    // a version of a state, in the state's memory: `in` is the input
    kJoin,     // the same, and nothing is written for it, since its updates lie in their place
    kVersion,  // a version of a tensor that is changed where it lies: `in` is the oldest, which is one too
    kPart,     // a piece of the concatenation `in`, or the share that the collective `in` gathers
    kDonated,  // an output, in the memory of the donated input `in`
  };
  How how = How::kOwn;
  ir::NodeId in = ir::kNoNode;
  ir::View at;  // kVersion, kPart: its place in the dense index space of `in`

  bool own_order = false;  // its elements are in their own order, as a reader requires
  bool donated = false;    // an input whose memory the caller gives away
  bool copy = false;       // a copy that preparation inserted
  // A copy that moves elements of a state to lower places in it: its part walks the memory upwards, so each
  // element is read before it is overwritten (whole_states.cc).
  bool upwards = false;
  // Why it is copied. Of a donated input: why no output is computed there; "": one is, or it is changed
  // there.
  std::string because;

  // Puts it into the memory of `other`.
  void Put(How new_how, ir::NodeId other, ir::View place = {}) {
    how = new_how;
    in = other;
    at = std::move(place);
  }
  bool InState() const { return how == How::kState || how == How::kJoin; }
  bool IsVersion() const { return InState() || how == How::kVersion; }
};

}  // namespace rondo::fusion
