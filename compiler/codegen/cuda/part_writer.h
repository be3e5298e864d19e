// PartWriter: the loops, accesses and tapes of one part as text. Internal to compiler/codegen/cuda.
//
// In the text, iK is the counter of loop K, pK the address bound to parameter K, accK accumulator K, sK row
// scalar K and keptK a row's kept values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/part_context.h"
#include "compiler/codegen/cuda/tape_facts.h"
#include "compiler/codegen/cuda/text_writer.h"
#include "core/kernel.h"

namespace rondo::cuda {

// What names mean where a tape is written.
struct TapeScope {
  // One an operand, or none at all: the array that holds its lanes (in lane `e`) or, before WriteLanes, its
  // words; empty: neither.
  std::vector<std::string> lanes;
  // One an operand, or none at all: the variable that its element was read into before, as it lies in memory;
  // empty: none.
  std::vector<std::string> fetched;
  // One an operand, or none at all: the words (u32) in which its elements are read and changed in place of
  // memory; of several lanes, of a type that has pack_DTYPE (vectors.cuh).
  std::vector<std::string> held;
  std::string kept = "position";  // which of the kept values is this element's
  std::string row;          // of row scalars and what is reduced, where a thread has several rows: "[e]"
  bool quick = false;       // functions need not be better than 16 bits are
  bool small_sums = false;  // 32 bits hold accumulators that are integers
};

class PartWriter : public Writer {
 public:
  // What `context` refers to must outlive this.
  explicit PartWriter(const PartContext& context) : context_(context) {}

  // --- loops
  // Declares the counters of the loops [first, last) from the flat number `from` (the last counts fastest).
  void Decode(std::string_view from, size_t first, size_t last);
  // The same of any loops, by one expression each.
  void DecodeLoops(const std::string& from, const std::vector<size_t>& loops);
  // Sets counters of these loops, declared before, from the flat number `from`.
  void CountLoops(const std::string& from, const std::vector<size_t>& loops);
  // Declares counters that stay 0.
  void ZeroLoops(size_t first, size_t last);
  void ZeroLoops(const std::vector<size_t>& loops);
  // Declares the counters of all loops, 0 at first.
  void DeclareLoops();
  // Opens the loop nest [first, last): closes with as many braces.
  void Open(size_t first, size_t last);

  // --- accesses at the current point
  // Declares `name` (of the operand's tape type) with the operand's value.
  void Load(size_t operand, const std::string& name);
  void Store(size_t operand, const std::string& value);
  // The element's number in `a`, its presence in `ok`; inside a scope that the caller opened.
  void Address(const Operand& operand);
  // The address of the operand's element, which must be plain.
  std::string AddressText(uint16_t operand) const;
  // Loads the operand's lanes into the words `name`.
  void LoadWords(size_t operand, int lanes, const std::string& name);

  // --- tapes
  // Writes the tape with registers called `prefix`K. Returns the register yielded, if any.
  std::string WriteTape(Tape tape, const std::string& prefix);
  // Writes the tape for `lanes` points along loop `along` from the current one on: what lies next to each
  // other in memory moves as vectors. `each` comes first in each lane, whose number is `e`. What the tape
  // yields becomes x[e].
  void WriteLanes(Tape tape, const std::string& prefix, size_t along, int lanes, const std::string& each);
  // Has the threads of the block make a table of what `tabulation` says of the tape, which is read wherever
  // the tape is written from then on: behind a barrier, by a block of kBlockThreads threads that all come
  // here.
  void WriteTable(Tape tape, const Tabulation& tabulation);
  static constexpr int64_t kTableBytes = 1040;  // of shared memory

  TapeScope scope;

 private:
  // What an instruction's register is: an operation, or the end of a quantisation as a whole.
  std::string ValueText(Tape tape, const TapeInst& inst, const std::string& prefix);
  std::string Expression(Tape tape, const TapeInst& inst, const std::string& prefix) const;
  // A sum, difference or product of ints that becomes one again: 32 bits tell it. Empty: it is none.
  std::string WrappedText(Tape tape, const TapeInst& inst, const std::string& prefix) const;
  std::string CastText(Tape tape, const TapeInst& inst, const std::string& from) const;
  bool IsQuick(const TapeInst& inst) const;  // by a function that is only as good as 16 bits are
  void IncludeFor(const TapeInst& inst);     // the header of the function that the instruction calls, if any
  // The register whose value `store` stores: rounded to what its operand holds first, it would be the same.
  uint16_t Unrounded(Tape tape, const TapeInst& store) const;
  void Reduce(const TapeInst& inst, const std::string& value);
  const std::string& HeldIn(size_t operand) const;  // scope.held; empty: in memory
  // The parts of WriteLanes: what is read, and what was computed.
  void LoadLanes(Tape tape, size_t along, int lanes);
  void StoreLanes(Span<const size_t> stored, int lanes);

  const PartContext context_;
  Tape tabulated_;  // the tape that has a table
  Tabulation table_;
};

}  // namespace rondo::cuda
