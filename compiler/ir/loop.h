// Loops: a graph that runs a fixed number of times and passes values from round to round.
//
// A kLoop node is the run of all rounds; its results are kLoopResult nodes. Its own value, as the evaluator
// computes it, is the bytes of all results, one after another. The body is a graph of its own: it holds its
// constants, and everything it uses from outside is an input.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::ir {

enum class LoopInputKind : uint8_t {
  kCarried,  // in round 0 the node's input, later output `next` of the previous round
  kRow,      // row r of the node's input in round r: the tensor is dense rows of the body input's size
  kWhole,    // the same in every round
};
struct LoopInput {
  LoopInputKind kind = LoopInputKind::kWhole;
  bool backward = false;  // kRow: starting with the last row
  size_t next = 0;        // kCarried: an output of the body
};
struct LoopOutput {
  bool rows = false;      // the result is a row for each round's value; otherwise the last round's value
  bool backward = false;  // for rows: starting with the last
};

// Immutable once in a node; a pass over the body makes a new one.
// The loop's results are needed only if body input `input`, a kWhole bool, equals `holds`.
struct LoopCondition {
  size_t input = 0;
  bool holds = true;
};

struct LoopInfo {
  int64_t trips = 1;
  Graph body;                     // without state, control edges, collectives and calls
  std::vector<LoopInput> inputs;  // one for each input of the body, and of the node
  // One for each output of the body; those that are not `rows` are `next` of one input.
  std::vector<LoopOutput> outputs;
  std::vector<LoopCondition> when;  // all of them; filled in by fusion

  // Of result `output`.
  Shape ResultShape(size_t output) const;
  int64_t ResultBytes(size_t output) const;
  // Its place in the node's own value.
  int64_t ResultOffset(size_t output) const;
};

// Runs `visit` on the body of every loop of `graph`, and replaces the body by the result.
Status ForEachBody(Graph* graph, const std::function<Status(Graph*)>& visit);

// Makes a loop from nodes that a builder adds between Carried, Row and Finish: nodes that depend on the round
// move into the body, the others stay before the loop.
//
// Until Finish has succeeded, the nodes added for the body can still be dropped: the destructor does so.
//
//   LoopMaker maker(&b, trips);
//   NodeId h = maker.Carried(first), x = maker.Row(xs, false);
//   NodeId next = b.Add(h, x);
//   if (maker.Finish({next}, {{next, false}}, &last, &all)) ...
class LoopMaker {
 public:
  LoopMaker(Builder* builder, int64_t trips);
  LoopMaker(const LoopMaker&) = delete;
  ~LoopMaker();

  // The body's input for a value that is passed on, with the shape and type of `first`.
  NodeId Carried(NodeId first);
  // Row r of `rows`, whose first axis has `trips`; the other axes are kept.
  NodeId Row(NodeId rows, bool backward);

  struct Rows {
    NodeId node;
    bool backward;
  };
  // `next`: the new value of each carried value, in the order of Carried. Returns the last value of each, and
  // each of `rows` with all rounds along a new first axis. False if that cannot be a loop: a value changes
  // its shape or type, or the body has loops, collectives, calls or annotations about graphs.
  bool Finish(const std::vector<NodeId>& next, const std::vector<Rows>& rows, std::vector<NodeId>* last,
              std::vector<NodeId>* all);

 private:
  struct Input {
    NodeId given, placeholder;
    LoopInput how;
  };
  NodeId Placeholder(NodeId given, const Shape& shape, LoopInput how);
  bool FindInside();
  bool Fits(const std::vector<NodeId>& next, const std::vector<Rows>& rows) const;
  NodeId Inside(NodeId id);
  NodeId Copied(NodeId id);
  void Output(NodeId id, LoopOutput how);

  Builder& b_;
  const Builder before_;
  bool finished_ = false;
  NodeId first_node_;  // nodes from here on are the body's, or before the loop
  std::shared_ptr<LoopInfo> info_;
  std::vector<Input> inputs_;
  std::vector<bool> inside_;    // by node from first_node_ on: depends on a placeholder or an effect
  std::vector<NodeId> copies_;  // by node: its copy in the body
};

}  // namespace rondo::ir
