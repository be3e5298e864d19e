// PartText: writes the function of one part. Internal to compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/product_shape.h"
#include "core/kernel.h"
#include "core/status.h"

namespace rondo::cuda {

// How a part's blocks are launched.
struct PartLaunch {
  uint32_t blocks = 1;
  uint32_t shared = 0;    // bytes of dynamic shared memory a block
  uint32_t cluster = 1;   // blocks of a cluster
  uint32_t resident = 1;  // blocks that a multiprocessor should hold at once
};

class PartText {
 public:
  // `part` and `params` must outlive this. `share`: the part of the device that this part may fill.
  // `cluster`: the blocks of a cluster, or 0 to let the part choose.
  PartText(const Part& part, const CudaTarget& target, Span<const ParamFacts> params, double share = 1,
           uint32_t cluster = 0)
      : part_(part), target_(target), params_(params), share_(share), cluster_(cluster) {}

  // Writes the body of the part's function (block number in `block`); sets launch().
  Status Write();
  const std::string& text() const { return text_; }
  const PartLaunch& launch() const { return launch_; }

 private:
  Status Map();
  Status Reduction();
  Status Contraction();
  Status Convolution();
  Status Attention();

  // Declares i<first> .. i<last - 1> from the flat number `from` (row-major over these loops).
  void Decode(const std::string& from, size_t first, size_t last);
  // Opens the loop nest [first, last) (ends with Close(last - first)).
  void Open(size_t first, size_t last);
  void Close(size_t loops);
  int64_t Points(size_t first, size_t last) const;
  Status SetBlocks(int64_t blocks);

  // Declares `name` (of the operand's tape type) with the operand's value at the current point.
  void Load(size_t operand, const std::string& name);
  void Store(size_t operand, const std::string& value);
  // The element's number in `a`, its presence in `ok`; inside a scope that the caller opened.
  void Address(const Operand& operand);
  // Writes the tape with registers called `prefix`K. Returns the register yielded, if any.
  std::string WriteTape(Tape tape, const std::string& prefix);
  std::string Expression(const TapeInst& inst, const std::string& prefix) const;
  void Reduce(const TapeInst& inst, const std::string& value);
  void FinishReductions(Tape tape);

  void Line(const std::string& line) { text_ += line + "\n"; }

  const Part& part_;
  const CudaTarget& target_;
  Span<const ParamFacts> params_;
  double share_;
  uint32_t cluster_;
  std::string text_;
  PartLaunch launch_;
  int width_ = 32;  // threads of one row
  std::vector<std::string> slot_types_;
};

const char* TypeText(TapeType type);
std::string IntText(int64_t value);
std::string Number(double value, TapeType type);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_
