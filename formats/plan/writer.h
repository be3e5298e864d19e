// Writes plan files. Used offline only: may use the whole standard library.
//
// The same PlanData and weights give the same bytes. A file is written beside its place and renamed when
// complete. An existing file is replaced only if it is empty or of the same kind. Weights are streamed and
// never held as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// Writes bytes [first, first + bytes) of the constant PlanData::buffers[buffer] (of kind kConstant, source
// kBytes) to `out`. Called in the order of Buffer::file_offset, for pieces of at most 4 MiB. For constants
// that share bytes in the file, only the first is asked.
using FillWeight = std::function<Status(uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out)>;

struct WriteOptions {
  std::string path;
  // With PlanData::weights_file set: false uses the existing file beside the plan (several plans may share
  // one), and fails if its size is not PlanData::weights_bytes.
  bool write_weights = true;
};

// OK if `path` is free or holds a plan, which WritePlan would replace. Error: kIo.
Status MayWritePlan(const std::string& path);

// Weights go into the plan or, if PlanData::weights_file names one (a base name), into that file beside it.
// Bytes that no constant covers are 0. Does not verify the plan: see verifier.h and check/checker.h. Errors:
// kInvalidArgument (a constant outside weights_bytes, a text or table too large for a flatbuffer), kIo, and
// the errors of `fill`.
Status WritePlan(const PlanData& plan, const FillWeight& fill, const WriteOptions& options);

// The same container in memory, for tests and small plans; PlanData::weights_file must be empty.
Status WritePlanBytes(const PlanData& plan, const FillWeight& fill, std::vector<uint8_t>* out);

// Lays out the weights: sets Buffer::file_offset of every kBytes constant, in the order of the buffers, each
// aligned to 64 bytes and, from 4096 bytes on, to a page. A constant shares the bytes of another if `same_as`
// says so (one entry for each buffer; kNone: its own bytes). Returns weights_bytes.
uint64_t LayOutWeights(Span<Buffer> buffers, Span<const uint32_t> same_as);

}  // namespace rondo
