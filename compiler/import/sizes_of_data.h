// Data-dependent sizes as names: for example, the number of frames that a model predicts. All dims that
// follow from such a number are followed like those of a bucket (mask_padding.h).
//
// An import that meets such a number is repeated with these names (ImportNamingSizes). There is room for the
// number's bound, which the graph shows (compiler/ir/number_range.h) or the user gives (--bound). A run with
// a larger number fails.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/import/op_context.h"

namespace rondo::importer {

class SizesOfData {
 public:
  // `more`: additional room, for the comparison of two imports (read_extents.h).
  explicit SizesOfData(int64_t more) : more_(more) {}

  // The integers in input `i` of `c`, which are computed at run time, as sizes; or one number (i64 []) that
  // is computed from that input. kUnsupported if one has no bound.
  Result<ir::Dims> Numbers(OpContext& c, int i);
  Result<ir::Size> Number(OpContext& c, int i, NodeId number);
  // The size of `number` (i64 []), which is checked at run time to lie between `least` and `most`. `node`:
  // the name of the ONNX node that it belongs to. There is room for `room` at least.
  ir::Size Name(ir::Builder& b, NodeId number, int64_t least, int64_t most, const std::string& node,
                int64_t room = 0);
  // Moves the real places of a value with a DataSizeFact::dim to the front of a dimension of a named size.
  Value RealPlaces(ir::Builder& b, const Value& value);

  // Whether a size was needed; the named sizes, and their nodes.
  bool asked() const { return asked_; }
  const std::vector<ir::Size>& names() const { return names_; }
  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  const int64_t more_;
  bool asked_ = false;
  std::map<std::pair<NodeId, int64_t>, ir::Size> of_;  // by where the number is computed: node and element
  std::map<NodeId, ir::Size> true_in_;                 // by bool tensor: how many of its elements are true
  std::set<std::string> taken_;
  std::vector<ir::Size> names_;
  std::vector<NodeId> nodes_;
};

// Element `at` of x, as i64 [].
NodeId ElementOf(ir::Builder& b, NodeId x, int64_t at);

// Imports `model` with named sizes. `asked`: whether there was any. Outputs that depend on one get size
// outputs (formats/plan/true_size.h).
Result<ir::Graph> ImportNamingSizes(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                                    ImportReport* report, bool* asked);

}  // namespace rondo::importer
