// Finds the inputs and outputs of a model that are growing caches, and the length of a fixed cache.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/import.h"

namespace rondo::importer {

// `present` is `past` followed by this run's positions.
struct GrowingCache {
  std::string past, present;  // an input and an output
  int axis = 0;               // of positions, in both
};

struct CachePorts {
  std::vector<GrowingCache> caches;
  // The model's own input that says where GroupQueryAttention writes (seqlens_k: the number of each text's
  // positions after the run, minus one), or "".
  std::string lengths;
  std::vector<std::string> past_symbols;  // dimensions equal to the number of cached positions
  std::vector<std::string> total_texts;   // dimensions equal to that number plus this run's positions
  std::vector<std::string> total_inputs;  // inputs with one element per position along their last dimension
  // The masks among these: 0 marks a position that does not exist. `likely_masks`: masks whose length occurs
  // nowhere else, so that only the name says that they are masks over positions.
  std::vector<std::string> masks, likely_masks;
  // The masks for which it must be shown that they mask caches: all except one with the usual name.
  std::vector<std::string> MasksToShow() const;
  // Symbols of the caches' last dimension ("kv_cache_dim": the size of a head), and their values, if the
  // matmuls that compute the new rows are known.
  std::map<std::string, int64_t> head_sizes;
};

// The caches of `model`: inputs and outputs that have the usual names (ir/port_names.h) or are in `states`,
// and differ in one dimension. Empty if there are none. A mask whose length is that of no other input is
// likely a mask over all positions. It is not if that length is one of `others` (symbols that the caller uses
// for something else), or if the names show that it masks an encoder's source. `position_masks`: see
// ImportOptions.
CachePorts FindGrowingCaches(const onnx::Model& model,
                             const std::vector<std::pair<std::string, std::string>>& states,
                             const std::set<std::string>& others = {},
                             const std::vector<std::string>& position_masks = {});

// Suggests states: inputs and outputs that are not in `ports`, but look like caches. They have one type and
// three or more dimensions, and differ in one, which the model leaves open. The result is
// "--state INPUT:OUTPUT" for the first of them, with their number; "" if there are none.
std::string StatesToTry(const onnx::Model& model, const CachePorts& ports);

// The number of positions that one run adds, from `options` and the model's names of dimensions.
// kInvalidArgument if they do not determine it.
Result<int64_t> RowsOfRun(const onnx::Model& model, const CachePorts& ports, const ImportOptions& options);

// Sets the shapes of `options` to a run that adds `rows` positions. False if the model has no name for that
// number.
bool BindRows(const onnx::Model& model, const CachePorts& ports, const ir::Size& rows,
              ImportOptions* options);

// Sets the shapes of `options` to `past` cached positions, and `total` positions including this run's.
void BindPast(const onnx::Model& model, const CachePorts& ports, const ir::Size& past, const ir::Size& total,
              ImportOptions* options);

}  // namespace rondo::importer
