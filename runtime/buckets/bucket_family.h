// BucketFamily: the programs of a plan that are one model compiled for several sizes, and the choice of the
// program that holds tensors of given shapes.
//
// Made once for a plan (FamiliesOf) and immutable afterwards, so any thread may use it. Choosing a program
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

// The most lengths that a family may have.
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

// The inputs and outputs of one caller in a run that serves several.
struct BucketPart {
  Span<const Input> inputs;
  Span<const Output> outputs;
};
inline constexpr size_t kMostParts = 256;

class BucketFamily {
 public:
  // The bucket of a run, and the run's lengths.
  struct Choice {
    uint32_t bucket = 0;  // of buckets()
    int64_t lengths[kMostLengths] = {};
  };

  // A port whose dimensions depend on lengths.
  struct PaddedPort {
    BucketPort plan;  // its shape is the bucket's
    std::vector<BucketDim> dims;
    uint32_t index = 0;       // in the program
    uint32_t length = kNone;  // an input that takes this length; no caller gives it; behind all others

    bool padded() const { return !dims.empty(); }
    // The shape in a run.
    Shape ShapeOf(const Choice& choice) const;
  };
  struct Bucket {
    uint32_t program = 0;
    std::vector<int64_t> rooms;               // how much the bucket holds of each length
    std::vector<PaddedPort> inputs, outputs;  // the ports that callers give, in the same order in all buckets
  };

  // kCorrupt if the programs' notes contradict their ports or one another.
  static Result<BucketFamily> Make(std::vector<BucketProgram> programs);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& lengths() const { return lengths_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }  // smallest first
  const Bucket& bucket(const Choice& choice) const { return buckets_[choice.bucket]; }

  // The smallest bucket for inputs of these shapes (their data is not read); states may be left out.
  // kInvalidArgument for shapes that fit no bucket or contradict one another; kNotFound for an unknown input
  // name. Allocates nothing unless it fails.
  Result<Choice> Choose(Span<const Input> inputs) const;
  // The smallest bucket for these lengths, in the order of lengths().
  Result<Choice> ChooseFor(Span<const int64_t> lengths) const;
  // The smallest bucket for all parts together: they are concatenated along `length`, and equal in all other
  // lengths.
  Result<Choice> ChooseTogether(Span<const BucketPart> parts, uint32_t length) const;
  // The index of a length; kNone if there is none of that name.
  uint32_t FindLength(std::string_view name) const;
  // The index of an input or output; kNone if there is none, or if it takes a length.
  uint32_t FindInput(std::string_view name) const;
  uint32_t FindOutput(std::string_view name) const;

 private:
  // How a length is computed: (dimension of an input - plus) / times.
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
  std::vector<uint32_t> grid_;               // buckets, indexed by the positions of their rooms in rooms_
};

// All families of a plan, in the order of their first programs.
Result<std::vector<BucketFamily>> FamiliesOf(const PlanData& plan);
// For each input that takes a length: the most that the program holds. Empty if it is not a bucket.
std::map<std::string, int64_t> RoomsOf(const PlanData& plan, uint32_t program);
// The same for programs described by the caller; those of one family need not be adjacent.
Result<std::vector<BucketFamily>> FamiliesOf(std::vector<BucketProgram> programs);
// The family called `name`; for "" the only one. kNotFound, with the existing names.
Result<BucketFamily> FindFamily(Result<std::vector<BucketFamily>> families, std::string_view name);

}  // namespace rondo
