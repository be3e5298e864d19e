// The safetensors format: an 8-byte header length, a JSON header, the tensors' bytes.
#pragma once

#include <vector>

#include "formats/tensor/tensor.h"

namespace rondo {

// All tensors of a file, in the order of their data. kCorrupt when a tensor's range lies outside of the file,
// overlaps another or does not fit its shape; kUnsupported for element types that Rondo does not have.
Result<std::vector<Tensor>> ParseSafetensors(const std::vector<uint8_t>& file);
Result<std::vector<Tensor>> ReadSafetensors(const std::string& path);

}  // namespace rondo
