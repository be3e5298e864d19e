// PaddedTensors: the tensors of a bucket's run, with memory for those that must be padded or cut.
//
// A run has three parts: Prepare copies inputs of true shape into padded memory, the caller runs the program
// with inputs() and outputs(), and Finish cuts the outputs. Tensors that fill their port are used in place.
// All memory is allocated by the constructor. One run at a time; the caller ensures that. Movable.
#pragma once

#include <cstdint>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "runtime/buckets/bucket_family.h"
#include "runtime/session.h"

namespace rondo {

class PaddedTensors {
 public:
  // `family` must outlive it.
  explicit PaddedTensors(const BucketFamily* family);

  // Copies and lists the tensors of a run. `choice` is what Choose returned for these inputs.
  // kInvalidArgument for an output whose size is not the run's, kNotFound for an unknown output name,
  // kUnsupported for device memory that would need padding. Allocates nothing unless it fails.
  Status Prepare(const BucketFamily::Choice& choice, Span<const Input> inputs, Span<const Output> outputs);
  // The same for several parts, which are concatenated along `length`; `choice` is ChooseTogether's. Inputs
  // without that length are taken from the first part; outputs without it are refused.
  Status PrepareTogether(const BucketFamily::Choice& choice, Span<const BucketPart> parts, uint32_t length);
  Span<const Input> inputs() const { return {inputs_.data(), num_inputs_}; }
  Span<const Output> outputs() const { return {outputs_.data(), num_outputs_}; }
  void Finish() const;

  uint64_t bytes() const { return memory_.size(); }

 private:
  struct Cut {  // an output in memory of its own, and where it is to be
    const void* from;
    void* to;
    Shape large, small;
    size_t width;
  };
  Status AddInput(const BucketFamily::Choice& choice, const Input& given);
  Status AddOutput(const BucketFamily::Choice& choice, const Output& given);
  void AddLengths(const BucketFamily::Choice& choice);
  Status AddInputOfAll(const BucketFamily::Choice& choice, uint32_t at, Span<const BucketPart> parts,
                       uint32_t length);
  Status AddOutputOfPart(const BucketFamily::Choice& choice, const Output& given, uint32_t length,
                         int64_t first, int64_t count);

  const BucketFamily* family_;
  std::vector<uint8_t> memory_;
  std::vector<size_t> input_at_, output_at_;  // in memory_, by port
  int64_t lengths_[kMostLengths] = {};
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Cut> cuts_;
  size_t num_inputs_ = 0, num_outputs_ = 0, num_cuts_ = 0;
};

}  // namespace rondo
