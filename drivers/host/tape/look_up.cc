// Replaces bytes by bytes, by a table of 256. GCC 12 warns about its own intrinsics, whose results begin as
// "undefined".
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

void LookUpEach(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
}

#if defined(__AVX512BW__)

#pragma GCC push_options
#pragma GCC target("avx512vbmi")
void LookUpVectors(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to) {
  const __m512i quarter[4] = {_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
                              _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192)};
  for (int64_t i = 0; i < n; i += 64) {
    const uint64_t some = n - i >= 64 ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(some, from + i);
    const __m512i low = _mm512_permutex2var_epi8(quarter[0], x, quarter[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarter[2], x, quarter[3]);
    _mm512_mask_storeu_epi8(to + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
  }
}
#pragma GCC pop_options

#endif

}  // namespace

LookUp ByteLookUp() {
#if defined(__AVX512BW__)
  if (__builtin_cpu_supports("avx512vbmi")) return LookUpVectors;
#endif
  return LookUpEach;
}

}  // namespace rondo::host::RONDO_ISA
