// Expectations on a plan's memory in a JSON file: `rondo check --expect F`.
//
//   {"rondo_expect": 1,
//    "expect": [
//      {"peak_bytes_at_most": 1048576},
//      {"program": "decode", "copied_bytes_at_most": 0},
//      {"program": "decode", "steps_at_most": 21},
//      {"program": "decode", "launches_at_most": 20},
//      {"program": "decode", "partitions_at_most": 1},
//      {"program": "decode", "touched_bytes_at_most": 4096},
//      {"value": "k_cache", "updated_in_place": true},
//      {"value": "add_3", "reuses_memory_of": "embedding"},
//      {"value": "a", "shares_memory_with": "b"},
//      {"program": "decode", "value": "scores", "dies_after": "node_attention"}
//    ]}
//
// Each entry is one expectation; runtime/verify/expectation.h defines when it holds. Without "program" it
// applies to each program that has the names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "runtime/verify/expectation.h"

namespace rondo::tools {

// Errors name the entry, counted from 1, its field, and what is wrong (kInvalidArgument).
Result<std::vector<MemoryExpectation>> ParseExpectations(std::string_view text);
Result<std::vector<MemoryExpectation>> ReadExpectations(const std::string& path);
// The file's text, one entry per line. Entries with names that are not UTF-8 are left out, because JSON
// cannot hold them.
std::string ExpectationsText(const std::vector<MemoryExpectation>& expectations);
// Only replaces an existing file of this kind.
Status WriteExpectations(const std::vector<MemoryExpectation>& expectations, const std::string& path);

}  // namespace rondo::tools
