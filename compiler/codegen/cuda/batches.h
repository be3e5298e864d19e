// Loops over elements in batches: all of a batch are read before the first is taken in, so that their loads
// wait together. Internal to compiler/codegen/cuda.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Operands that the tape loads and that can be read ahead: before the results of other points are stored.
// Absent elements must be 0. What else is needed, `fits(index)` says: no store of the part may change the
// element between the read and its use, and with lanes, it must be read as a vector.
template <typename Fits>
std::vector<size_t> LoadsAhead(const PartContext& context, Tape tape, const Fits& fits) {
  std::vector<size_t> operands = Touched(tape, TapeOp::kLoad);
  std::erase_if(operands,
                [&](size_t index) { return context.part.operands[index].absent != 0 || !fits(index); });
  return operands;
}
// Whether `lanes` neighbouring points along loop `along` read the operand as one vector; one point always.
bool IsVectorAlong(const PartContext& context, size_t index, size_t along, int lanes);
// For maps, whose points may store anywhere in what the part writes: operands of memory that it does not
// write. With lanes, only those that are read as vectors along the last loop.
std::vector<size_t> ReadableAhead(const PartContext& context, Tape tape, int lanes);

// Bytes that a thread reads ahead, and elements or vectors of a batch, at most: so many loads in flight hide
// the memory's latency without spilling registers.
constexpr int64_t kBytesAhead = 64, kMostAhead = 8;
// The batch of which `operands`, `lanes` elements of each, are `bytes_ahead`; from 2 to kMostAhead.
int64_t BatchSize(const Part& part, const std::vector<size_t>& operands, int lanes,
                  int64_t bytes_ahead = kBytesAhead);
// The most points of a thread, a power of two times smaller than `most`, with which `points` of them still
// fill several blocks of each multiprocessor.
int64_t PointsOfThread(const PartContext& context, int64_t points, int64_t most);

// A thread goes over numbers (of elements, or of vectors along a row). `loop` is the head of a loop over
// batches ("": there is one batch), `number` an expression of the number of element `r` of a batch, and
// `numbers` one of how many there are.
struct Batches {
  std::string loop, number, numbers;  // a batch's last ones may be `numbers` and beyond: they are left out
  std::string type = "u32";           // of numbers
  int64_t size = 1;                   // of a batch
  int lanes = 1;
  // Read ahead: `lanes` elements of each, as vectors if there are several. Those whose indices are among them
  // come after all others.
  std::vector<size_t> operands;
};

// Whether an index of the operand is among `ahead`.
bool HasIndexIn(const Operand& operand, const std::vector<size_t>& ahead);

// `decode` sets the loops' counters by a variable `number`; `take` writes what is done there. `where`: a
// condition of what is taken in, or "".
template <typename Decode, typename Take>
void WriteBatches(const PartContext& context, const Batches& batches, const std::string& where,
                  const Decode& decode, const Take& take, PartWriter* writer) {
  constexpr const char* kElement[] = {"", "unsigned char", "unsigned short", "", "u32", "", "", "", "u64"};
  const std::string size = Text(batches.size);
  const auto name = [](size_t index) { return "batch" + Text(index) + "[r]"; };
  const auto bytes = [&](size_t index) { return ByteSize(context.part.operands[index].dtype); };
  if (!batches.loop.empty()) writer->Line("#pragma unroll 1");
  writer->Line(batches.loop + " {");
  for (size_t index : batches.operands)
    writer->Line(batches.lanes == 1
                     ? std::string(kElement[bytes(index)]) + " batch" + Text(index) + "[" + size + "];"
                     : "u32 batch" + Text(index) + "[" + size + "][" +
                           Text(batches.lanes * bytes(index) / 4) + "];");
  const auto each = [&] {
    writer->Line("#pragma unroll");
    writer->Line("for (int r = 0; r < " + size + "; ++r) {");
  };
  std::vector<std::string>& held = batches.lanes == 1 ? writer->scope.fetched : writer->scope.lanes;
  held.assign(context.part.operands.size(), "");
  const auto read = [&](const std::vector<size_t>& operands) {
    each();
    writer->Line(batches.type + " number = " + batches.number + "; if (number >= " + batches.numbers +
                 ") number = " + batches.numbers + " - 1;");
    decode();
    for (size_t index : operands) {
      const Operand& operand = context.part.operands[index];
      if (batches.lanes > 1) {
        writer->LoadWords(index, batches.lanes, name(index));
        continue;
      }
      writer->Line("{");
      writer->Address(operand);
      writer->Line("if (ok) " + name(index) + " = *(const " + kElement[bytes(index)] + "*)(p" +
                   Text(operand.param) + " + a * " + Text(bytes(index)) + "); else " + name(index) +
                   " = 0; }");
    }
    writer->Line("}");
    for (size_t index : operands) held[index] = name(index);
  };
  std::vector<size_t> first = batches.operands, behind = batches.operands;
  const auto follows = [&](size_t index) {
    return HasIndexIn(context.part.operands[index], batches.operands);
  };
  std::erase_if(first, follows);
  std::erase_if(behind, std::not_fn(follows));
  read(first);
  if (!behind.empty()) read(behind);
  each();
  writer->Line("const " + batches.type + " number = " + batches.number + "; if (number < " + batches.numbers +
               (where.empty() ? "" : " && " + where) + ") {");
  decode();
  take();
  held.clear();
  writer->Line("} } }");
}

}  // namespace rondo::cuda
