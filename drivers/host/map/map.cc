// Maps: computes tile after tile.
#include "drivers/host/exec/exec.h"
#include "drivers/host/map/map_program.h"
#include "drivers/host/map/transpose.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Fills the bytes of tiles [first, last) with one value.
void Fill(const MapPart& part, Worker& w, int64_t first, int64_t last) {
  constexpr int64_t kAtOnce = 1 << 16;  // between two checks of the stop signal
  constexpr int64_t kStart[kMaxNest] = {};
  const Access& to = *part.program.body[part.program.num_body - 1].access;
  const char byte = *Pointer(*part.fills, w, BaseOf(*part.fills, kStart));
  char* const out = Pointer(to, w, BaseOf(to, kStart));
  const int64_t end = Least(last * part.tiling.chunk, part.nest.points[0]);
  for (int64_t at = first * part.tiling.chunk; at < end && !Stopped(w); at += kAtOnce)
    std::memset(out + at, byte, static_cast<size_t>(Least(kAtOnce, end - at)));
}

// Computes neighbouring tiles along the innermost loop as one.
void RunRuns(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const MapPart& part = static_cast<const MapPart&>(base);
  const Tiling& tiling = part.tiling;
  const int64_t at_once = 1 + (1 << 14) / tiling.chunk;
  int64_t pos[kMaxNest] = {};
  TapeFrame frame;
  frame.worker = &w;
  BeginTape(part.program, w);
  for (int64_t tile = first; tile < last && !Stopped(w);) {
    const int64_t tiles = Least(Least(at_once, last - tile), tiling.chunks - tile % tiling.chunks);
    DecodeTile(part.nest, tiling, tile, pos);
    const int64_t left = part.nest.extent[tiling.split] - pos[tiling.split];
    RunTape(part.program, frame, pos, static_cast<int>(Least(tiles * tiling.chunk, left)));
    tile += tiles;
  }
}

}  // namespace

void RunMap(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const MapPart& part = static_cast<const MapPart&>(base);
  if (part.sequential) last = part.tiling.tiles;
  if (first >= last) return;
  if (part.fills != nullptr) return Fill(part, w, first, last);
  if (part.in_runs) return RunRuns(part, w, first, last);
  int64_t pos[kMaxNest] = {};
  TapeFrame frame;
  frame.worker = &w;
  if (part.transpose != nullptr) {
    BeginTape(part.transpose->program, w);
    return RunTranspose(part, *part.transpose, frame, first, last, part.tiling.tiles);
  }
  BeginTape(part.program, w);
  int n = DecodeTile(part.nest, part.tiling, first, pos);
  for (int64_t tile = first;;) {
    RunTape(part.program, frame, pos, n);
    if (++tile == last || Stopped(w)) return;
    n = NextTile(part.nest, part.tiling, pos);
  }
}

}  // namespace rondo::host::RONDO_ISA
