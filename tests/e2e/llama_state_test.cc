// The caches of a decoder of two layers in the form of the bench models: prefill and decode write the rows of
// their positions and touch nothing else. On the host, memory that a run must not write is write-protected
// while it runs.
#include <sys/mman.h>

#include "tests/e2e/cache_rows.h"

namespace rondo {
namespace {

constexpr uint64_t kPage = 4096;

// Makes all pages of the caches read-only in which `run` writes no byte. Returns their number.
size_t Protect(CachedDecoder& llama, const CachedDecoder::Run& run) {
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

void Unprotect(CachedDecoder& llama) {
  for (const std::string& name : llama.caches()) {
    const Result<void*> address = llama.model().session().StateAddress(name);
    ASSERT_EQ(mprotect(*address, llama.cache_bytes(), PROT_READ | PROT_WRITE), 0);
  }
}

void ExpectRunsWithOtherPagesProtected(CachedDecoder& llama) {
  for (const CachedDecoder::Run& run : llama.Runs()) {
    SCOPED_TRACE(std::string(run.program) + " at " + std::to_string(run.first));
    const size_t pages = Protect(llama, run);
    const Status status = llama.Execute(run);
    Unprotect(llama);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_GT(pages, llama.caches().size() * llama.cache_bytes() / kPage / 2);
  }
}

class LlamaState : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    LlamaShape shape;
    shape.batch = GetParam();
    llama_ = CachedDecoder::Llama(shape, 48);
    ASSERT_TRUE(llama_->valid());
    ASSERT_EQ(llama_->caches().size(), 4u);
  }
  std::unique_ptr<CachedDecoder> llama_;
};

TEST_P(LlamaState, RunsWithEveryOtherPageOfTheCachesWriteProtected) {
  ExpectRunsWithOtherPagesProtected(*llama_);
}

TEST_P(LlamaState, ChangesTheRowsOfItsPositionsOnly) {
  llama_->ExpectRowsOfTheirPositionsOnly(llama_->Runs());
}

TEST_P(LlamaState, NoTemporaryOfDecodeIsAsLargeAsACache) {
  const uint32_t decode = llama_->model().Program("decode");
  for (const Buffer& buffer : llama_->model().data().buffers) {
    if (buffer.program != decode) continue;
    EXPECT_LT(buffer.bytes, llama_->cache_bytes()) << buffer.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, LlamaState, testing::Values(1, 2));

TEST(LlamaBenchGraphs, RunWithEveryOtherPageOfTheCachesWriteProtected) {
  const std::vector<ModelSource> graphs = CachedDecoder::BenchGraphs();
  if (graphs.empty()) GTEST_SKIP() << "RONDO_LLAMA_GRAPHS does not say where they are";
  CachedDecoder llama(graphs);
  ASSERT_TRUE(llama.valid());
  ExpectRunsWithOtherPagesProtected(llama);
  llama.ExpectRowsOfTheirPositionsOnly(llama.Runs());
}

}  // namespace
}  // namespace rondo
