// BatchForm: the programs of a plan that answer a request, and its ports as clients see them.
//
// The seam between requests and programs: only this file knows how a plan serves several sizes. A form is a
// family of buckets: those that the compiler made (rondo compile --shape batch=1,4,16), programs whose ports
// differ only in their first dimension, or one program of fixed shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "runtime/buckets/bucket_family.h"

namespace rondo::serve {

struct BatchForm {
  BucketFamily family;
  std::vector<std::string> programs;  // names of the programs, the smallest first
  // The ports that clients use, without states, as indices into the family's lists.
  std::vector<uint32_t> inputs, outputs;
  // The length that is the first dimension of every port. Requests are joined along it; kNone: each request
  // has its own run.
  uint32_t rows = kNone;
  bool proven = false;     // the compiler has proved that padding rows change no result
  bool has_state = false;  // the state begins anew with each request

  bool joins() const { return rows != kNone; }
  int64_t most_rows() const { return family.buckets().back().rooms[rows]; }
  // As in the largest program.
  const BucketFamily::PaddedPort& input(size_t i) const { return family.buckets().back().inputs[inputs[i]]; }
  const BucketFamily::PaddedPort& output(size_t i) const {
    return family.buckets().back().outputs[outputs[i]];
  }
};

// The forms of a plan. Without `join`, requests are never joined, and only the compiler's buckets take
// several sizes. kCorrupt if the notes of buckets make no sense.
Result<std::vector<BatchForm>> FindBatchForms(const PlanData& plan, bool join);

}  // namespace rondo::serve
