// Finds the inputs and outputs of a model that are growing caches, and the length of a fixed cache.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/import.h"

namespace rondo::importer {

// `present` is `past` with this run's positions behind it.
struct GrowingCache {
  std::string past, present;  // an input and an output
  int axis = 0;               // of positions, in both
};

struct CachePorts {
  std::vector<GrowingCache> caches;
  // The model's own input that says where GroupQueryAttention writes (seqlens_k, one less than how many there
  // are of each text afterwards), or "".
  std::string lengths;
  std::vector<std::string> past_symbols;  // dimensions that are the number of cached positions
  std::vector<std::string> total_texts;   // and those that are that number with this run's added
  std::vector<std::string> total_inputs;  // inputs with such a dimension last, one element a position
  // Those of them that are masks: 0 is for a position that does not exist. `likely_masks`: of these, those of
  // a length of their own, which the name alone says.
  std::vector<std::string> masks, likely_masks;
  // Those of them that are to be shown to mask caches: all but one with the name that such masks have.
  std::vector<std::string> MasksToShow() const;
  // Symbols of the caches' last dimension ("kv_cache_dim": the size of a head), and their values, where the
  // matmuls that compute the new rows are known.
  std::map<std::string, int64_t> head_sizes;
};

// The caches of `model`: inputs and outputs that are named as such (ir/port_names.h), or in `states`, and
// differ in one dimension. Empty if there are none. A mask whose length is of no other input is likely one
// over all positions, but where that length is one of `others`, symbols that the caller says are something
// else, or the names say that it is of what an encoder read. `position_masks`: as ImportOptions has them.
CachePorts FindGrowingCaches(const onnx::Model& model,
                             const std::vector<std::pair<std::string, std::string>>& states,
                             const std::set<std::string>& others = {},
                             const std::vector<std::string>& position_masks = {});

// Inputs and outputs that are no such caches and yet look like it: of one type, three or more dimensions that
// differ in one, which the model leaves open. As "--state INPUT:OUTPUT" for the first of them, with how many
// there are; "" if there are none.
std::string StatesToTry(const onnx::Model& model, const CachePorts& ports);

// The positions that one run adds, as `options` and the model's names of dimensions say. kInvalidArgument if
// they do not.
Result<int64_t> RowsOfRun(const onnx::Model& model, const CachePorts& ports, const ImportOptions& options);

// Sets the shapes of `options` to a run that adds `rows` positions. False if the model leaves that number no
// name.
bool BindRows(const onnx::Model& model, const CachePorts& ports, const ir::Size& rows,
              ImportOptions* options);

// Sets the shapes of `options` to `past` cached positions and `total` with this run's.
void BindPast(const onnx::Model& model, const CachePorts& ports, const ir::Size& past, const ir::Size& total,
              ImportOptions* options);

}  // namespace rondo::importer
