// Versions of one storage: a graph input and the chain of kIndexedWrites that replace some of its elements,
// one after the other, in its own memory. Functions of graphs and views; no state.
#ifndef RONDO_COMPILER_IR_VERSIONS_H_
#define RONDO_COMPILER_IR_VERSIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::ir {

// A set of elements of one storage: those that a view shows, or that a write may touch whatever its indices.
class Region {
 public:
  explicit Region(View view) : view_(std::move(view)) {}  // a view without steps stands for all elements
  static Region OfWrite(const IndexedAttrs& attrs);

  // Exact for storage below 2^26 elements; true where it cannot tell.
  bool Meets(const Region& other) const;

 private:
  std::pair<int64_t, int64_t> Bounds() const;
  View view_;
};

// Makes everyone who reads an older version run before the writes that replace what it reads, by weak edges.
// versions[0] is the input, versions[i + 1] the write whose data (input 0) is versions[i]. What a write
// itself reads of older versions as updates or indices counts from the write before it on: its own kernel
// must keep reading and writing apart. Returns "", or who would read too late; the graph is then as it was.
std::string OrderReaders(Graph* graph, const std::vector<NodeId>& versions);

}  // namespace rondo::ir

#endif  // RONDO_COMPILER_IR_VERSIONS_H_
