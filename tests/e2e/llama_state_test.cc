// The caches of a decoder like the bench models', of two layers: prefill and decode write the rows of their
// positions and touch nothing else. On the host, memory that a run must not write cannot be written while it
// runs.
#include <sys/mman.h>

#include "tests/e2e/cache_rows.h"

namespace rondo {
namespace {

constexpr uint64_t kPage = 4096;

// Makes every page of the caches that has no byte for `run` to write read-only; returns how many.
size_t Protect(CachedLlama& llama, const CachedLlama::Run& run) {
  size_t pages = 0;
  for (const std::string& name : llama.caches()) {
    const Result<void*> address = llama.model().session().StateAddress(name);
    EXPECT_TRUE(address.ok()) << address.status().message();
    char* cache = static_cast<char*>(*address);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(cache) % kPage, 0u);
    for (uint64_t page = 0; page < llama.cache_bytes(); page += kPage) {
      bool written = false;
      for (uint64_t row = page; row < page + kPage; row += llama.row_bytes())
        written |= llama.IsWritten(run, row);
      if (written) continue;
      EXPECT_EQ(mprotect(cache + page, kPage, PROT_READ), 0);
      ++pages;
    }
  }
  return pages;
}

void Unprotect(CachedLlama& llama) {
  for (const std::string& name : llama.caches()) {
    const Result<void*> address = llama.model().session().StateAddress(name);
    ASSERT_EQ(mprotect(*address, llama.cache_bytes(), PROT_READ | PROT_WRITE), 0);
  }
}

// Prefill and decode in turns, at the edges of pages and of the caches; later ones over rows of earlier ones.
const std::vector<CachedLlama::Run> kRuns = {
    {"prefill", 0, 48},  {"decode", 48, 1},     {"decode", 49, 1},   {"prefill", 63, 48},
    {"decode", 15, 1},   {"decode", 16, 1},     {"decode", 0, 1},    {"prefill", 1024, 48},
    {"decode", 1072, 1}, {"prefill", 2000, 48}, {"decode", 2047, 1}, {"decode", 777, 1}};

class LlamaState : public testing::TestWithParam<int64_t> {
 protected:
  LlamaShape Shape() const {
    LlamaShape shape;
    shape.batch = GetParam();
    return shape;
  }
};

TEST_P(LlamaState, RunsWithEveryOtherPageOfTheCachesWriteProtected) {
  CachedLlama llama(Shape(), 48);
  ASSERT_TRUE(llama.valid());
  for (const CachedLlama::Run& run : kRuns) {
    const size_t pages = Protect(llama, run);
    const Status status = llama.Execute(run);
    Unprotect(llama);
    EXPECT_TRUE(status.ok()) << status.message();
    // All but one to four of the 128 of each head.
    EXPECT_GE(pages, llama.caches().size() * llama.cache_bytes() / kPage * 124 / 128);
  }
}

TEST_P(LlamaState, ChangesTheRowsOfItsPositionsOnly) {
  CachedLlama llama(Shape(), 48);
  ASSERT_TRUE(llama.valid());
  llama.ExpectRowsOfTheirPositionsOnly(kRuns);
}

TEST_P(LlamaState, NoTemporaryOfDecodeIsAsLargeAsACache) {
  CachedLlama llama(Shape(), 48);
  ASSERT_TRUE(llama.valid());
  const PlanData& data = llama.model().data();
  const uint32_t decode = llama.model().Program("decode");
  size_t states = 0;
  for (const Buffer& buffer : data.buffers) {
    states += buffer.kind == BufferKind::kState;
    if (buffer.program != decode) continue;
    EXPECT_LT(buffer.bytes, llama.cache_bytes()) << buffer.name;
  }
  EXPECT_EQ(states, llama.caches().size());
}

INSTANTIATE_TEST_SUITE_P(Batches, LlamaState, testing::Values(1, 2));

}  // namespace
}  // namespace rondo
