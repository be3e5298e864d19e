// PartWriter: generates the loops, accesses and tapes of one part as text. Internal to compiler/codegen/cuda.
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

// The meaning of names where a tape is written.
struct TapeScope {
  // For each operand, or empty: the array with its lanes (in lane `e`) or, before WriteLanes, its words; "":
  // neither.
  std::vector<std::string> lanes;
  // For each operand, or empty: the variable that already holds its element, as in memory; "": none.
  std::vector<std::string> fetched;
  // For each operand, or empty: the words (u32) that hold its elements instead of memory; with several lanes,
  // of a type that has pack_DTYPE (vectors.cuh).
  std::vector<std::string> held;
  // For each operand, or empty: whether WriteLanes accesses it as vectors. Empty: wherever the loop's points
  // begin at vectors (FitsLanes).
  std::vector<bool> vectors;
  bool in_order = true;           // a thread meets positions in ascending order
  std::string kept = "position";  // the index of this element's kept value
  std::string row;                // suffix of row scalars and reductions if a thread has several rows: "[e]"
  bool quick = false;             // functions only need the accuracy of 16 bits: nothing else is stored
  bool small_sums = false;        // integer accumulators fit in 32 bits
};

class PartWriter : public Writer {
 public:
  // What `context` refers to must outlive this.
  explicit PartWriter(const PartContext& context);

  // --- loops
  // Declares the counters of the loops [first, last), computed from the flat index `from` (the last loop is
  // the fastest).
  void Decode(std::string_view from, size_t first, size_t last);
  // The same for any loops, with one expression each.
  void DecodeLoops(const std::string& from, const std::vector<size_t>& loops);
  // Sets already declared counters of these loops from the flat index `from`.
  void CountLoops(const std::string& from, const std::vector<size_t>& loops);
  // Declares counters that stay 0.
  void ZeroLoops(size_t first, size_t last);
  void ZeroLoops(const std::vector<size_t>& loops);
  // Declares the counters of all loops, initially 0.
  void DeclareLoops();
  // Opens the loop nest [first, last): closes with as many braces.
  void Open(size_t first, size_t last);

  // --- accesses at the current point
  // Declares `name` (of the operand's tape type) with the operand's value.
  void Load(size_t operand, const std::string& name);
  void Store(size_t operand, const std::string& value);
  // Computes the element's index in `a` and its presence in `ok`, inside a scope that the caller opened.
  void Address(const Operand& operand);
  // The address of the operand's element, which must be plain.
  std::string AddressText(uint16_t operand) const;
  // Loads the operand's lanes into the words `name`.
  void LoadWords(size_t operand, int lanes, const std::string& name);

  // --- tapes
  // Writes the tape with registers named `prefix`K. Returns the yielded register, if any.
  std::string WriteTape(Tape tape, const std::string& prefix);
  // Writes the tape for `lanes` points along loop `along` from the current one on; contiguous elements are
  // accessed as vectors. `each` comes first in each lane, whose index is `e`. The tape's yield becomes x[e].
  void WriteLanes(Tape tape, const std::string& prefix, size_t along, int lanes, const std::string& each);
  // The same for `lanes` points one after another, with carries from loop to loop: what scope.vectors names
  // lies one after another, too (IsFlat).
  void WriteRun(Tape tape, const std::string& prefix, int lanes);
  // Makes the threads of the block compute the table of `tabulation`, which replaces that part of the tape
  // from then on. Ends with a barrier; requires a block of kBlockThreads threads that all reach it.
  void WriteTable(Tape tape, const Tabulation& tabulation);
  static constexpr int64_t kTableBytes = 1040;  // of shared memory

  // Whether an address reports indices out of range to `outside`, an IndexFaults (device/fault.cuh).
  bool checks_indices() const { return checks_indices_; }

  TapeScope scope;

 private:
  // The value of an instruction's register: an operation, or the end of a whole quantisation.
  std::string ValueText(Tape tape, const TapeInst& inst, const std::string& prefix);
  std::string Expression(Tape tape, const TapeInst& inst, const std::string& prefix) const;
  // A sum, difference or product of ints that is cast back to an int: 32 bits suffice. "" for others.
  std::string WrappedText(Tape tape, const TapeInst& inst, const std::string& prefix) const;
  std::string CastText(Tape tape, const TapeInst& inst, const std::string& from) const;
  // By a function with the accuracy of 16 bits; a division, if all elements of a row have the divisor.
  bool IsQuick(Tape tape, const TapeInst& inst) const;
  // The function of an instruction that adds 1 to a quick one; null: the instruction does something else.
  const TapeInst* QuickPlusOne(Tape tape, const TapeInst& inst) const;
  void IncludeFor(Tape tape,
                  const TapeInst& inst);  // the header of the function that the instruction calls, if any
  // The register to store for `store`: if its value was first rounded to the operand's type, the unrounded
  // one gives the same.
  uint16_t Unrounded(Tape tape, const TapeInst& store) const;
  void Reduce(const TapeInst& inst, const std::string& value);
  const std::string& HeldIn(size_t operand) const;  // scope.held; empty: in memory
  bool IsVector(size_t operand, size_t along, int lanes) const;
  // The parts of WriteLanes: what each lane begins and ends with are `first` and `last`; indices of lanes,
  // loads and stores.
  void WriteEachLane(Tape tape, const std::string& prefix, size_t along, int lanes, const std::string& first,
                     const std::string& last);
  void LoadIndices(Tape tape, size_t along, int lanes);
  void LoadLanes(Tape tape, size_t along, int lanes);
  void StoreLanes(Span<const size_t> stored, int lanes);

  const PartContext context_;
  Tape tabulated_;  // the tape that has a table
  Tabulation table_;
  bool checks_indices_ = false;
};

}  // namespace rondo::cuda
