// BatchForm: which programs of a plan answer a request, and how its ports look to clients.
//
// The seam between requests and programs: everything that knows how a plan serves several sizes is here. A
// form is a family of buckets: those that the compiler made (rondo compile --shape batch=1,4,16), programs
// with the same ports but for their first dimension, or one program of fixed shapes.
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
  std::vector<std::string> programs;  // their names, the least first
  // The ports that clients give and get, without states: their numbers in the family's lists.
  std::vector<uint32_t> inputs, outputs;
  // The length that is the first dimension of every port, along which requests stand one behind the other;
  // kNone: each request has a run of its own.
  uint32_t rows = kNone;
  bool proven = false;     // the compiler has proved that rows which fill a program up change no result
  bool has_state = false;  // which begins anew with each request

  bool joins() const { return rows != kNone; }
  int64_t most_rows() const { return family.buckets().back().rooms[rows]; }
  // As the largest program has them.
  const BucketFamily::PaddedPort& input(size_t i) const { return family.buckets().back().inputs[inputs[i]]; }
  const BucketFamily::PaddedPort& output(size_t i) const {
    return family.buckets().back().outputs[outputs[i]];
  }
};

// The forms of a plan. `join`: else no requests are joined, and only the compiler's buckets take several
// sizes. kCorrupt where the notes of buckets make no sense.
Result<std::vector<BatchForm>> FindBatchForms(const PlanData& plan, bool join);

}  // namespace rondo::serve
