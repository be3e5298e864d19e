// PartText: writes the function of one part. Internal to compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel.h"
#include "core/status.h"

namespace rondo::cuda {

class PartText {
 public:
  // `part` must outlive this.
  explicit PartText(const Part& part) : part_(part) {}

  // Writes the body of the part's function (block number in `block`); sets blocks().
  Status Write();
  const std::string& text() const { return text_; }
  uint32_t blocks() const { return blocks_; }

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
  std::string text_;
  uint32_t blocks_ = 1;
  int width_ = 32;  // threads of one row
  std::vector<std::string> slot_types_;
};

const char* TypeText(TapeType type);
std::string Number(double value, TapeType type);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_
