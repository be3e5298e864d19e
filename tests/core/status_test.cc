// Errors: their texts, their places in the source, and their copies.
#include "core/status.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/sanitized.h"

namespace rondo {
namespace {

TEST(Status, SaysWhatAndWhere) {
  const Status error = Status::Error(Code::kCorrupt, "%d bytes of %s", 7, "x").FromNode("MatMul \"mm\"");
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.code(), Code::kCorrupt);
  EXPECT_STREQ(error.message(), "7 bytes of x");
  EXPECT_STREQ(error.source_node(), "MatMul \"mm\"");
  const Status outer = error.At("step %d", 4).At("program \"%s\"", "main");
  EXPECT_STREQ(outer.message(), "program \"main\": step 4: 7 bytes of x");
  EXPECT_STREQ(outer.source_node(), "MatMul \"mm\"");
  EXPECT_EQ(outer.code(), Code::kCorrupt);
  EXPECT_STREQ(error.message(), "7 bytes of x");
}

TEST(Status, OkStaysOk) {
  const Status ok = Status::Ok().At("step %d", 4).FromNode("x");
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), Code::kOk);
  EXPECT_STREQ(ok.message(), "");
  EXPECT_STREQ(ok.source_node(), "");
  EXPECT_EQ(Status::Error(Code::kOk, "no error").code(), Code::kInternal);
}

TEST(Status, IsCutAtFourKiB) {
  for (size_t size : {4094u, 4095u, 4096u, 9000u}) {
    const std::string text(size, 'x');
    const Status error = Status::Error(Code::kIo, "%s", text.c_str());
    EXPECT_EQ(std::string(error.message()), text.substr(0, 4095));
    const std::string whole = text + ": " + error.message();
    EXPECT_EQ(std::string(error.At("%s", text.c_str()).message()), whole.substr(0, 4095)) << size;
    EXPECT_EQ(std::string(error.At("ab").message()), ("ab: " + text.substr(0, 4095)).substr(0, 4095)) << size;
  }
}

TEST(Status, CopiesKeepTheTextAlive) {
  Status copy, assigned = Status::Error(Code::kIo, "another");
  {
    Status error = Status::Error(Code::kAborted, "first");
    copy = error;
    assigned = std::move(error);
    EXPECT_TRUE(error.ok());  // NOLINT
  }
  EXPECT_STREQ(copy.message(), "first");
  EXPECT_STREQ(assigned.message(), "first");
  Status& same = copy;
  copy = same;
  EXPECT_STREQ(copy.message(), "first");
  const char* const text = copy.message();
  assigned = Status();
  EXPECT_STREQ(text, "first");
}

TEST(Status, GivesItsMemoryBack) {
  if (kSanitized) GTEST_SKIP() << "sanitizers find leaks themselves";
  const auto used = [] { return mallinfo2().uordblks; };
  const size_t before = used();
  for (int i = 0; i < 1000; ++i) {
    const Status error = Status::Error(Code::kIo, "%01000d", i).At("step %d", i).FromNode("node");
    Status copy = error;
    copy = Status();
  }
  EXPECT_LT(used(), before + 100'000);
}

TEST(Status, EveryCodeHasAName) {
  std::set<std::string> names;
  for (int code = 0; code <= 12; ++code) names.insert(CodeName(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), 13u);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(CodeName(static_cast<Code>(13)), "unknown");
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::unique_ptr<int>> value = std::make_unique<int>(3);
  ASSERT_TRUE(value.ok());
  Result<std::unique_ptr<int>> moved(std::move(value));
  EXPECT_EQ(**moved, 3);
  moved = Status::Error(Code::kNotFound, "gone");
  EXPECT_FALSE(moved.ok());
  EXPECT_STREQ(moved.status().message(), "gone");
  moved = Result<std::unique_ptr<int>>(std::make_unique<int>(4));
  EXPECT_TRUE(moved.status().ok());
  EXPECT_EQ(*moved.Take(), 4);
  EXPECT_DEATH((void)*Result<int>(Status::Error(Code::kIo, "no value")), "");
}

}  // namespace
}  // namespace rondo
