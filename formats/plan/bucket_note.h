// BucketNote: which of a program's dims have room for more than a run gives.
//
// Programs of one family are one model with room for different lengths: buckets. The note of each says which
// lengths it has room for, and which dims of its ports are made of them. It is kept as a text, the source of
// the buffer of one of the program's inputs: the runtime does not read it, runtime/buckets does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// A named length: "batch", "sequence".
struct BucketLength {
  std::string name;
  int64_t room = 1;   // the most that a run may give
  std::string input;  // the program's input, i64 [], that takes the length of a run; empty: none does
};

// A dim whose length in a run is (sum of times * length + plus) / over, rounded down.
struct BucketDim {
  struct Term {
    uint32_t length = 0;  // of BucketNote::lengths
    int64_t times = 1;
  };
  bool output = false;
  std::string port;
  uint32_t dim = 0;
  std::vector<Term> terms;
  int64_t plus = 0, over = 1;

  int64_t Of(const int64_t* lengths) const;
};

struct BucketNote {
  std::string family;  // the same in all buckets of one model
  std::vector<BucketLength> lengths;
  std::vector<BucketDim> dims;
};

// `bucket of "main": "sequence" up to 64 by "length of sequence"; in "ids" 1 = 1*0; out ...`. No name may
// hold a quotation mark.
std::string TextOf(const BucketNote& note);
// None where `source` is no such text.
std::optional<BucketNote> ParseBucketNote(std::string_view source);

}  // namespace rondo
