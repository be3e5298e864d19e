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

// All places of such a dim. Dims of one DataSizedDim have the same places.
struct DataSizedDim {
  std::string source;     // the node that they come from: `NonZero "/mlp/NonZero"`
  NodeId real = kNoNode;  // bool [length]
  int64_t length = 0;
  // Of consecutive places: those in [start, end) are real, i64 []; kNoNode if they are others.
  NodeId start = kNoNode, end = kNoNode;
  // Of rows of texts, `each` of every text: how many of each text are real, i64 [texts], the first ones;
  // kNoNode if they are others.
  NodeId counts = kNoNode;
  int64_t each = 0;
};

// What is known of a Value beside its node; one of four.
struct DataSizeFact {
  std::shared_ptr<const DataSizedDim> dim;  // its dim `axis` is this one
  int axis = 0;
  // Of a vector of lengths: those elements, whose number stands for all places, that are lengths of such a
  // dim; null for others.
  std::vector<std::shared_ptr<const DataSizedDim>> counts;
  // A range [start, end) of no known bound; the node is its start. Whoever reads places by it has the bound.
  std::shared_ptr<const DataSizedDim> range;
  // Numbers that say from where these rows were packed; nothing but what unpacks them knows them.
  std::shared_ptr<const DataSizedDim> packing;
};

// The indices of the elements of x that are not 0, of which only a run knows how many. Output 0 of `c`.
Status DataSizedNonZero(OpContext& c);
// The elements of x along `axis` for which input 1 (bool [n], n at most so many) holds. Output 0 of `c`.
Status DataSizedCompress(OpContext& c, NodeId x, int axis);
// The elements of input 0 along `axis` from input 1 on and before input 2, every `step`-th (not 0): the ends,
// of one axis, are not known. Output 0 of `c`.
Status DataSizedSlice(OpContext& c, int axis, int64_t step);
// Whole numbers from input 0 up to input 1, which are not known. Output 0 of `c`.
Status DataSizedRange(OpContext& c);

// A node of which some input has a DataSizeFact. kUnsupported, with what people can do, if `row` does not
// work place by place.
Status CallWithDataSizes(const OpRow& row, OpContext& c);

// What a Value with a fact is as the output `name`: the real places first and zeros behind them, and a second
// output that says how many there are (formats/plan/true_size.h); lengths are those of the run.
Result<std::vector<ir::GraphOutput>> DataSizedOutputs(ir::Builder& b, const std::string& name,
                                                      const Value& value);

// What to say of a Value with a fact where there can be none.
Status RefuseDataSize(const Value& value, const std::string& what);

}  // namespace rondo::importer
