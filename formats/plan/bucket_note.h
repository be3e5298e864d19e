// BucketNote: which dimensions of a program are upper bounds for what a run gives.
//
// Buckets: the programs of one family are one model compiled for different lengths. Each program's note says
// which lengths it holds, and which dimensions of its ports depend on them. It is kept as a text, the source
// of one of the program's input buffers. The runtime does not read it; runtime/buckets does.
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
  std::string input;  // the program's input, i64 [], that takes the run's length; empty: none does
};

// A dimension that is (sum of times * length + plus) / over in a run, rounded down.
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
// No value if `source` is another text.
std::optional<BucketNote> ParseBucketNote(std::string_view source);

}  // namespace rondo
