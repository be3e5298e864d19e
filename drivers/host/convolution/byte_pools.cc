// Max pools of bytes over contiguous channels (Variant::kBytePool). Stores the bytes unchanged, or the floats
// or bytes that a table has for them.
#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/convolution/taps.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

#if defined(__AVX512BW__)

template <typename T>
inline void TakeGreatest(const T* from, int n, T* greatest) {
  for (int i = 0; i < n; i += 64) {
    const uint64_t some = n - i >= 64 ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(some, from + i), y = _mm512_loadu_si512(greatest + i);
    if constexpr (static_cast<T>(-1) < 0) {
      _mm512_storeu_si512(greatest + i, _mm512_mask_max_epi8(y, some, x, y));
    } else {
      _mm512_storeu_si512(greatest + i, _mm512_mask_max_epu8(y, some, x, y));
    }
  }
}

#else

template <typename T>
inline void TakeGreatest(const T* from, int n, T* greatest) {
  constexpr int kVector = 16;
  const auto some = [&](int i, int count) {
#pragma GCC ivdep
    for (int c = 0; c < count; ++c)
      greatest[i + c] = from[i + c] > greatest[i + c] ? from[i + c] : greatest[i + c];
  };
  int i = 0;
  for (; i + kVector <= n; i += kVector) some(i, kVector);
  if (n >= kVector && i < n) return some(n - kVector, kVector);  // repeats the lanes before
  some(i, n - i);
}

#endif

// Looks up each byte in a table.
template <typename T>
void LookUpAll(const T* table, const uint8_t* from, int n, char* to_bytes) {
  T* const to = reinterpret_cast<T*>(to_bytes);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) to[i] = table[from[i]];
}

// Rows [row, row + rows) of group m over the n channels of the tile at pos.
template <typename T>
void Pool(const BytePoolPart& part, Worker& w, TapGuards& guards, int64_t* pos, int64_t row, int64_t rows,
          int n) {
  const Nest& nest = part.nest;
  const Access& input = *part.rhs[0].by_n;
  uint8_t bytes[256];
  for (int i = 0; part.of_bytes != nullptr && part.out->size == 1 && i < 256; ++i)
    bytes[i] = static_cast<uint8_t>(part.of_bytes[i]);
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  for (int64_t r = 0; r < rows && !Stopped(w); ++r) {
    const T* const from = reinterpret_cast<const T*>(Pointer(input, w, BaseOf(input, pos)));
    const bool all = guards.All(pos, 1);
    if (!all) guards.Place(pos);
    alignas(64) T greatest[kLanes];
    const T none = static_cast<T>(-1) < 0 ? static_cast<T>(-128) : T{0};
    std::memset(greatest, static_cast<uint8_t>(none), static_cast<size_t>((n + 63) & ~63));
    bool any = false;
    for (int64_t t = 0; t < part.taps.count; ++t) {
      if (!all && !guards.Present(t)) continue;
      TakeGreatest(from + part.taps.at[t], n, greatest);
      any = true;
    }
    if (!any) std::memset(greatest, 0, static_cast<size_t>(n));
    char* const out = Pointer(*part.out, w, BaseOf(*part.out, pos));
    if (part.of_bytes == nullptr) {
      std::memcpy(out, greatest, static_cast<size_t>(n));
    } else if (part.out->size == 1) {
      LookUpAll(bytes, reinterpret_cast<const uint8_t*>(greatest), n, out);
    } else {
      LookUpAll(part.of_bytes, reinterpret_cast<const uint8_t*>(greatest), n, out);
    }
    Advance(nest, nest.first[1], nest.first[2], pos);
  }
}

}  // namespace

void RunBytePool(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const BytePoolPart& part = static_cast<const BytePoolPart&>(base);
  const Nest& nest = part.nest;
  const int64_t rows = nest.points[1], tiles = part.tiling.tiles;
  const int64_t blocks = (rows + part.block_rows - 1) / part.block_rows;
  const bool is_signed = part.rhs[0].by_n->dtype == DType::kI8;
  TapGuards guards(part, part.taps);
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles, row = block % blocks * part.block_rows;
    Decode(nest, 0, nest.first[1], block / blocks, pos);
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    (is_signed ? Pool<int8_t> : Pool<uint8_t>)(part, w, guards, pos, row, Least(part.block_rows, rows - row),
                                               n);
  }
}

}  // namespace rondo::host::RONDO_ISA
