// Loops: a graph that runs a fixed number of times over values that it hands on from round to round.
//
// A kLoop node is the run of all rounds; its results are kLoopResult nodes. Its value as such (what the
// evaluator makes) is the bytes of all results, one after the other. The body is a graph of its own: it holds
// its constants, and what it takes from outside is an input.
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
  kCarried,  // in round 0 what the node is given, later output `next` of the round before
  kRow,      // row r of what the node is given, in round r: the tensor is dense rows of the input's size
  kWhole,    // the same in every round
};
struct LoopInput {
  LoopInputKind kind = LoopInputKind::kWhole;
  bool backward = false;  // kRow: from the last row on
  size_t next = 0;        // kCarried: an output of the body
};
struct LoopOutput {
  bool rows = false;      // the result is all rounds' values, a row each; else the last round's
  bool backward = false;  // of rows: from the last on
};

// Immutable once in a node; a pass over the body makes another.
// The loop's results are needed only where body input `input`, one bool that is kWhole, is so.
struct LoopCondition {
  size_t input = 0;
  bool holds = true;
};

struct LoopInfo {
  int64_t trips = 1;
  Graph body;                       // neither state nor control edges, collectives or calls
  std::vector<LoopInput> inputs;    // one an input of the body, and of the node
  std::vector<LoopOutput> outputs;  // one an output of the body; what is not `rows` is `next` of one input
  std::vector<LoopCondition> when;  // all of them; filled in by fusion

  // Of result `output`.
  Shape ResultShape(size_t output) const;
  int64_t ResultBytes(size_t output) const;
  // Where it lies in the node's own value.
  int64_t ResultOffset(size_t output) const;
};

// Runs `visit` on the body of every loop of `graph`, and gives the loop what it became.
Status ForEachBody(Graph* graph, const std::function<Status(Graph*)>& visit);

// Makes a loop of nodes that a builder adds between Carried, Row and Finish: what depends on the round moves
// into the body, what does not stays before the loop.
//
// Until Finish has succeeded, what was added for the body can still be dropped: the destructor does so.
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

  // What the body reads in place of a value that it hands on, of `first`'s shape and type.
  NodeId Carried(NodeId first);
  // Row r of `rows`, whose first axis has `trips`; the others are kept.
  NodeId Row(NodeId rows, bool backward);

  struct Rows {
    NodeId node;
    bool backward;
  };
  // `next`: what each carried value becomes, in the order of Carried. Gives each of those after the last
  // round, and each of `rows` of all rounds along a new first axis. False if no loop can do it: a value
  // changes its shape or type, or the body has loops, collectives, calls or annotations about graphs.
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
  std::vector<NodeId> copies_;  // by node: its like in the body
};

}  // namespace rondo::ir
