// Loops over elements in batches: all of a batch are read before the first is taken in, so that their loads
// wait together. Internal to compiler/codegen/cuda/reduction.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// A thread goes over numbers (of elements, or of vectors along a row). `loop` is the head of a loop over
// batches, and `number` an expression of the number of element `r` of a batch.
struct Batches {
  std::string loop, number;
  int64_t numbers = 1;  // a batch's last ones may be this and beyond: they are left out
  int64_t size = 1;     // of a batch
  int lanes = 1;
  std::vector<size_t> operands;  // read ahead, `lanes` elements of each
};

// `decode` sets the loops' counters by a variable `number`; `take` writes what is done there. `where`: a
// condition of what is taken in, or "".
template <typename Decode, typename Take>
void WriteBatches(const PartContext& context, const Batches& batches, const std::string& where,
                  const Decode& decode, const Take& take, PartWriter* writer) {
  const std::string size = Text(batches.size), numbers = Text(batches.numbers) + "u";
  const auto name = [](size_t index) { return "batch" + Text(index) + "[r]"; };
  writer->Line("#pragma unroll 1");
  writer->Line(batches.loop + " {");
  for (size_t index : batches.operands)
    writer->Line("u32 batch" + Text(index) + "[" + size + "][" +
                 Text(batches.lanes * ByteSize(context.part.operands[index].dtype) / 4) + "];");
  const auto each = [&] {
    writer->Line("#pragma unroll");
    writer->Line("for (int r = 0; r < " + size + "; ++r) {");
  };
  each();
  writer->Line("u32 number = " + batches.number + "; if (number >= " + numbers + ") number = " + numbers +
               " - 1;");
  decode();
  for (size_t index : batches.operands) writer->LoadWords(index, batches.lanes, name(index));
  writer->Line("}");
  each();
  writer->Line("const u32 number = " + batches.number + "; if (number < " + numbers +
               (where.empty() ? "" : " && " + where) + ") {");
  decode();
  writer->scope.lanes.assign(context.part.operands.size(), "");
  for (size_t index : batches.operands) writer->scope.lanes[index] = name(index);
  take();
  writer->scope.lanes.clear();
  writer->Line("} } }");
}

}  // namespace rondo::cuda
