// Dims whose length depends on data at run time: results of NonZero, ranges with computed ends, rows without
// padding.
//
// A plan's shapes are fixed. Such a dim becomes a dim of all possible places, in the model's order, with a
// bool for each place that says whether it is real; places are not compacted. Operators that work place by
// place need no change, and a scatter into a fixed shape writes only the real places. Mixtures of experts are
// exported this way: for each expert the tokens that chose it, and its results added to the tokens' results.
// An operator that depends on the number of real places, or on a place's rank among them, is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

struct OpRow;

// All places of such a dim. Dims with the same DataSizedDim have the same places.
struct DataSizedDim {
  std::string source;     // the node that made it: `NonZero "/mlp/NonZero"`
  NodeId real = kNoNode;  // bool [length]
  int64_t length = 0;
  int64_t most = 0;     // how many can be real; 0: all
  NodeId of = kNoNode;  // of NonZero: the bool tensor whose true elements are the real places
  // If the real places are consecutive: they are [start, end), i64 []; otherwise kNoNode.
  NodeId start = kNoNode, end = kNoNode;
  // For rows of texts, `each` per text, of which each text's first ones are real: their numbers, i64 [texts];
  // otherwise kNoNode.
  NodeId counts = kNoNode;
  int64_t each = 0;
};

// What is known of a Value besides its node; one of four kinds.
struct DataSizeFact {
  std::shared_ptr<const DataSizedDim> dim;  // its dim `axis` is this one
  int axis = 0;
  // For a vector of lengths: by element, the dim of which the element is the length; null for other elements.
  // The element's value in the graph is the number of all places.
  std::vector<std::shared_ptr<const DataSizedDim>> counts;
  // A range [start, end) without a known bound; the node is its start. The operator that reads by it has the
  // bound.
  std::shared_ptr<const DataSizedDim> range;
  // Numbers that say from where these rows were packed. Only operators that unpack them understand these.
  std::shared_ptr<const DataSizedDim> packing;
};

// Makes output 0 of `c`: the indices of the elements of x that are not 0. Only a run knows their number.
Status DataSizedNonZero(OpContext& c);
// Makes output 0 of `c`: the elements of x along `axis` for which input 1 is true (bool [n], n at most the
// length of the axis).
Status DataSizedCompress(OpContext& c, NodeId x, int axis);
// Makes output 0 of `c`: the elements of input 0 along `axis` from input 1 on and before input 2, every
// `step`-th (not 0). The ends, for one axis, are not known.
Status DataSizedSlice(OpContext& c, int axis, int64_t step);
// Makes output 0 of `c`: the integers from input 0 up to input 1, which are not known.
Status DataSizedRange(OpContext& c);

// Imports a node of which some input has a DataSizeFact. kUnsupported, with a remedy, if `row` does not work
// place by place.
Status CallWithDataSizes(const OpRow& row, OpContext& c);

// The outputs of the graph for a Value with a fact: `name`, with the real places first and zeros after them,
// and a second output with the number of real places (formats/plan/true_size.h). Lengths are those of the
// run.
Result<std::vector<ir::GraphOutput>> DataSizedOutputs(ir::Builder& b, const std::string& name,
                                                      const Value& value);

// The error for a Value with a fact where none is allowed.
Status RefuseDataSize(const Value& value, const std::string& what);

}  // namespace rondo::importer
