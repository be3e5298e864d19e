// BucketFamily: the programs of a plan that are one model with room for different lengths, and which of them
// holds tensors of given shapes.
//
// Made once for a plan (FamiliesOf), immutable afterwards: any thread may use it at once. Choosing a program
// allocates nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/plan.h"
#include "core/shape.h"
#include "core/span.h"
#include "core/status.h"
#include "formats/plan/bucket_note.h"
#include "runtime/session.h"

namespace rondo {

// The lengths of one family that a run may have, at most.
inline constexpr size_t kMostLengths = 8;

// A port of a program as it is in the plan.
struct BucketPort {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  bool is_state = false;
};

// One bucket as a plan describes it.
struct BucketProgram {
  uint32_t program = 0;  // of the plan
  BucketNote note;
  std::vector<BucketPort> inputs, outputs;
};

// What one caller gives to a run of several, and takes from it.
struct BucketPart {
  Span<const Input> inputs;
  Span<const Output> outputs;
};
inline constexpr size_t kMostParts = 256;

class BucketFamily {
 public:
  // Which bucket a run takes, and its lengths.
  struct Choice {
    uint32_t bucket = 0;  // of buckets()
    int64_t lengths[kMostLengths] = {};
  };

  // A port's dims that are made of lengths.
  struct PaddedPort {
    BucketPort plan;  // its shape is the bucket's
    std::vector<BucketDim> dims;
    uint32_t index = 0;       // in the program
    uint32_t length = kNone;  // an input that takes this length, which nobody gives; behind all others

    bool padded() const { return !dims.empty(); }
    // In a run.
    Shape ShapeOf(const Choice& choice) const;
  };
  struct Bucket {
    uint32_t program = 0;
    std::vector<int64_t> rooms;               // by length
    std::vector<PaddedPort> inputs, outputs;  // those that are given in the same order in all buckets
  };

  // kCorrupt where the programs' notes contradict their ports or one another.
  static Result<BucketFamily> Make(std::vector<BucketProgram> programs);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& lengths() const { return lengths_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }  // the least first
  const Bucket& bucket(const Choice& choice) const { return buckets_[choice.bucket]; }

  // The least bucket for inputs of these shapes (what they hold is not looked at); states need not be among
  // them. kInvalidArgument for shapes that fit none, or do not fit together; kNotFound for a name that no
  // input has. Allocates nothing unless it fails.
  Result<Choice> Choose(Span<const Input> inputs) const;
  // The least bucket for lengths, in the order of lengths().
  Result<Choice> ChooseFor(Span<const int64_t> lengths) const;
  // The least bucket for all parts together, whose positions along `length` stand one behind the other. In
  // other lengths they are alike.
  Result<Choice> ChooseTogether(Span<const BucketPart> parts, uint32_t length) const;
  // The number of a length; kNone if there is none of that name.
  uint32_t FindLength(std::string_view name) const;
  // The number of an input or output; kNone if there is none, or it takes a length.
  uint32_t FindInput(std::string_view name) const;
  uint32_t FindOutput(std::string_view name) const;

 private:
  // Where a length is read: (dim of an input - plus) / times.
  struct Reading {
    uint32_t input = 0, dim = 0;
    int64_t times = 1, plus = 0;
  };
  Status FindReadings();
  Status MakeGrid();
  Status Check(const Choice& choice, const PaddedPort& port, const Shape& shape) const;

  std::string name_;
  std::vector<std::string> lengths_;
  std::vector<Bucket> buckets_;
  std::vector<Reading> readings_;            // by length
  std::vector<std::vector<int64_t>> rooms_;  // by length, ascending
  std::vector<uint32_t> grid_;               // buckets by the numbers of their rooms
};

// All families of a plan, in the order of their first programs.
Result<std::vector<BucketFamily>> FamiliesOf(const PlanData& plan);
// By input of a program that takes a length: the most that the program has room for. Empty if it is no
// bucket.
std::map<std::string, int64_t> RoomsOf(const PlanData& plan, uint32_t program);
// Of programs that are described otherwise; those of one family need not stand together.
Result<std::vector<BucketFamily>> FamiliesOf(std::vector<BucketProgram> programs);
// The family called `name`; for "" the only one. kNotFound, naming those that there are.
Result<BucketFamily> FindFamily(Result<std::vector<BucketFamily>> families, std::string_view name);

}  // namespace rondo
