// Processes without sessions: how they meet, send messages and data, and end.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/processes/strangers.h"
#include "tests/processes/together.h"
#include "tests/says.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

void Describe(const uint64_t* words, char* text, size_t size) {
  std::snprintf(text, size, "thing %d", static_cast<int>(words[0]));
}
Purpose PurposeOf(uint64_t number) {
  Purpose purpose;
  purpose.words[0] = number;
  purpose.describe = Describe;
  return purpose;
}

Status Connect(uint32_t rank, uint32_t size, const char* address, double seconds) {
  ProcessOptions options;
  options.rank = rank;
  options.size = size;
  options.place.address = address;
  options.timeout_ns = static_cast<uint64_t>(seconds * 1e9);
  Result<Processes*> made = Processes::Connect(options);
  if (!made.ok()) return made.status();
  delete *made;
  return Status::Ok();
}

class SizesTest : public testing::TestWithParam<uint32_t> {};

TEST_P(SizesTest, EveryProcessLearnsWhatAllGive) {
  const uint32_t size = GetParam();
  Together(size, [&](Processes& self) {
    for (uint32_t turn = 0; turn < 20; ++turn) {
      const uint32_t mine[2] = {self.rank(), turn};
      std::vector<uint32_t> all(2 * size);
      const Status status = self.Gather(Status::Ok(), mine, all.data(), sizeof(mine), nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      for (uint32_t r = 0; r < size; ++r) {
        EXPECT_EQ(all[2 * r], r);
        EXPECT_EQ(all[2 * r + 1], turn);
      }
    }
  });
}

// More data than the connections buffer, both ways at once.
TEST_P(SizesTest, ParcelsOfAnySizeArrive) {
  const uint32_t size = GetParam();
  Together(size, [&](Processes& self) {
    uint64_t number = 0;
    for (size_t count : {0u, 1u, 1000u, 3000000u}) {
      std::vector<uint32_t> mine(count), all(count * size);
      std::iota(mine.begin(), mine.end(), self.rank() * 1000000007u);
      std::vector<Parcel> parcels;
      for (uint32_t r = 0; r < size; ++r) {
        if (r != self.rank())
          parcels.push_back({r, mine.data(), 4 * count, all.data() + r * count, 4 * count});
      }
      const Status status = self.Transfer(PurposeOf(number++), {parcels.data(), parcels.size()});
      ASSERT_TRUE(status.ok()) << status.message();
      for (uint32_t r = 0; r < size; ++r) {
        if (r == self.rank() || count == 0) continue;
        EXPECT_EQ(all[r * count], r * 1000000007u);
        EXPECT_EQ(all[r * count + count - 1], static_cast<uint32_t>(r * 1000000007u + count - 1));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, SizesTest, testing::Values(1u, 2u, 5u),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(MeetingTest, AtAnAddressInAnyOrder) {
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  std::vector<std::thread> threads;
  for (uint32_t rank : {2u, 0u, 1u}) {
    threads.emplace_back([&, rank] {
      const Status status = Connect(rank, 3, address.c_str(), 30);
      EXPECT_TRUE(status.ok()) << status.message();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MeetingTest, WhoDoesNotComeIsNamedInTime) {
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  const auto start = Clock::now();
  std::thread second([&] { EXPECT_SAYS(Connect(1, 3, address.c_str(), 2), "process 2 of 3 has not come"); });
  EXPECT_SAYS(Connect(0, 3, address.c_str(), 2), "process 2 of 3 has not come to process 0 within 2.0 s");
  second.join();
  EXPECT_SAYS(Connect(1, 2, address.c_str(), 0.3), "process 0 of 2 was not to be found at 127.0.0.1:");
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 30);
}

TEST(MeetingTest, OptionsOutOfRangeAreRefused) {
  EXPECT_SAYS(Connect(2, 2, "127.0.0.1:1", 1), "process 2 of 2");
  EXPECT_SAYS(Connect(0, 65, "127.0.0.1:1", 1), "at most 64");
  EXPECT_SAYS(Connect(0, 2, nullptr, 1), "need an all_gather or an address");
  for (const char* address : {"", "host", "host:", ":1", "host:x", "host:0", "host:65536", "host:1x"}) {
    EXPECT_SAYS(Connect(0, 2, address, 1), "is not of the form HOST:PORT");
  }
  Round round(1);
  round.error = 7;
  ProcessOptions options;
  options.size = 2;
  options.place = round.Place(0);
  EXPECT_SAYS(Processes::Connect(options).status(), "process 0 of 2: all_gather failed (7)");
}

TEST(AgreeTest, AnotherPlanIsNamedOnBothSides) {
  Together(2, [](Processes& self) {
    EXPECT_TRUE(self.Agree(Status::Ok(), "same.rondo", 5, nullptr).ok());
    const Status status =
        self.Agree(Status::Ok(), self.rank() == 0 ? "a.rondo" : "b.rondo", 17 + self.rank(), nullptr);
    EXPECT_SAYS(status, self.rank() == 0
                            ? "process 1 has plan \"b.rondo\" (contents 0000000000000012), but process 0 "
                              "plan \"a.rondo\" (contents 0000000000000011)"
                            : "process 0 has plan \"a.rondo\"");
    EXPECT_SAYS(self.Agree(Status::Ok(), "same.rondo", 5, nullptr), "has plan");
  });
}

TEST(AgreeTest, OnesErrorIsToldToAll) {
  Together(3, [](Processes& self) {
    Status mine;
    if (self.rank() == 1)
      mine = Status::Error(Code::kOutOfMemory, "no room for the weights").FromNode("MatMul \"x\"");
    const Status status = self.Agree(mine, "p", 1, nullptr);
    if (self.rank() == 1) {
      EXPECT_STREQ(status.message(), "no room for the weights");
    } else {
      EXPECT_SAYS(status, "process 1: no room for the weights");
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
      EXPECT_STREQ(status.source_node(), "MatMul \"x\"");
    }
  });
}

TEST(AgreeTest, EndsWhenItsCallerIsOutOfTime) {
  Together(2, [](Processes& self) {
    if (self.rank() == 1) {
      while (self.state().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_SAYS(self.state(), "process 0 has given up: stopped at the time limit");
      return;
    }
    StopSignal stop;
    stop.Begin(100'000'000);
    EXPECT_EQ(self.Agree(Status::Ok(), "p", 1, &stop).code(), Code::kDeadlineExceeded);
  });
}

TEST(TransferTest, ADifferentPurposeIsNamedOnBothSides) {
  Together(2, [](Processes& self) {
    char byte = 0, other = 0;
    const Parcel parcel = {1 - self.rank(), &byte, 1, &other, 1};
    const Status status = self.Transfer(PurposeOf(10 + self.rank()), {&parcel, 1});
    ASSERT_FALSE(status.ok());
    // Either process may learn of the other's difference.
    EXPECT_NE(std::string(status.message()).find("thing 10"), std::string::npos) << status.message();
    EXPECT_NE(std::string(status.message()).find("thing 11"), std::string::npos) << status.message();
    EXPECT_FALSE(self.state().ok());
  });
}

TEST(TransferTest, OtherSizesAreAMismatchToo) {
  Together(2, [](Processes& self) {
    char bytes[8] = {}, other[8];
    const Parcel parcel = {1 - self.rank(), bytes, 4 + self.rank(), other, 4 + self.rank()};
    EXPECT_FALSE(self.Transfer(PurposeOf(1), {&parcel, 1}).ok());
  });
}

TEST(EndTest, AnAbortEndsWhatOthersWaitForAndSaysWhy) {
  Together(3, [](Processes& self) {
    if (self.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      self.Abort(Status::Error(Code::kInternal, "step 3 went wrong").FromNode("Gemm \"g\""));
      EXPECT_SAYS(self.state(), "process 2 has given up: step 3 went wrong");
      return;
    }
    char byte = 0, other = 0;
    const Parcel parcel = {2, &byte, 1, &other, 1};
    const Status status = self.Transfer(PurposeOf(1), {&parcel, 1});
    EXPECT_SAYS(status, "process 2 has given up: step 3 went wrong");
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_STREQ(status.source_node(), "Gemm \"g\"");
  });
}

TEST(EndTest, AnAbortHereEndsATransferHere) {
  Together(2, [](Processes& self) {
    if (self.rank() == 1) {
      while (self.state().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      self.Abort(Status::Error(Code::kAborted, "enough"));
    });
    char byte = 0, taken = 0;
    const Parcel parcel = {1, &byte, 1, &taken, 1};
    EXPECT_SAYS(self.Transfer(PurposeOf(1), {&parcel, 1}), "enough");
    other.join();
  });
}

// A process that ends in good order is missed only by processes that still need it.
TEST(EndTest, AGoodbyeIsNoErrorUntilSomebodyWaits) {
  std::atomic<bool> gone{false};
  Round round(2);
  std::thread first([&] {
    ProcessOptions options;
    options.size = 2;
    options.place = round.Place(0);
    Result<Processes*> self = Processes::Connect(options);
    ASSERT_TRUE(self.ok());
    const uint32_t word = 77;
    const Parcel parcel = {1, &word, 4, nullptr, 0};
    EXPECT_TRUE((*self)->Transfer(PurposeOf(1), {&parcel, 1}).ok());
    delete *self;
    gone = true;
  });
  ProcessOptions options;
  options.rank = 1;
  options.size = 2;
  options.place = round.Place(1);
  Result<Processes*> self = Processes::Connect(options);
  ASSERT_TRUE(self.ok());
  // When the other side is done, this side's label has been sent, but its data may still be here.
  uint32_t word = 0;
  const Parcel parcel = {0, nullptr, 0, &word, 4};
  EXPECT_TRUE((*self)->Transfer(PurposeOf(1), {&parcel, 1}).ok());
  EXPECT_EQ(word, 77u);
  first.join();
  while (!gone) std::this_thread::yield();
  EXPECT_TRUE((*self)->state().ok());
  EXPECT_TRUE((*self)->StateWithAll(uint64_t{60} * 1000000000).ok());
  EXPECT_SAYS((*self)->StateWithAll(0), "process 0 has ended");
  EXPECT_SAYS((*self)->Agree(Status::Ok(), "p", 1, nullptr), "process 0 has ended");
  delete *self;
}

}  // namespace
}  // namespace rondo
