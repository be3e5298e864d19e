// Processes meet, however many strangers of whatever kind connect to their ports.
#include "tests/processes/strangers.h"

#include "drivers/processes/handshake.h"
#include "tests/processes/together.h"
#include "tests/says.h"

namespace rondo {
namespace {

using processes::Card;
using processes::Key;

constexpr char kSecret[] = "a secret that the test has made up";
constexpr char kMeet[] = "RndMeet2", kLine[] = "RndLine2";

struct Attempt {
  Status status;
  std::unique_ptr<Processes> self;
};

Attempt Connect(uint32_t rank, uint32_t size, const std::string& address, double seconds,
                std::string_view secret = kSecret) {
  ProcessOptions options;
  options.rank = rank;
  options.size = size;
  options.place.address = address.c_str();
  options.timeout_ns = static_cast<uint64_t>(seconds * 1e9);
  options.secret = secret;
  Result<Processes*> made = Processes::Connect(options);
  Attempt attempt;
  if (made.ok()) {
    attempt.self.reset(*made);
  } else {
    attempt.status = made.status();
  }
  return attempt;
}
std::string LoopOf(uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What process 1 of 3 sent to process 0 in an earlier meeting.
std::string RecordedMeeting(std::string_view secret) {
  const uint16_t port = FreePort();
  Recorder recorder(port);
  std::thread first([&] { EXPECT_TRUE(Connect(0, 2, LoopOf(port), 30, secret).status.ok()); });
  EXPECT_TRUE(Connect(1, 2, LoopOf(recorder.port()), 30, secret).status.ok());
  first.join();
  return recorder.Heard();
}

// Runs with a secret and without.
class MeetingTest : public testing::TestWithParam<const char*> {};

TEST_P(MeetingTest, FormsInTwoSecondsAmongStrangersOfEveryKind) {
  const std::string recorded = RecordedMeeting(GetParam());
  ASSERT_GT(recorded.size(), sizeof(processes::Hello) + sizeof(Card));
  const uint16_t port = FreePort();
  Attempt met[3];
  std::thread first([&] { met[0] = Connect(0, 3, LoopOf(port), 30, GetParam()); });
  const Strangers strangers(port, 50, HelloOf(kMeet, 1, 0, 3), recorded);
  const auto start = std::chrono::steady_clock::now();
  std::thread second([&] { met[1] = Connect(1, 3, LoopOf(port), 30, GetParam()); });
  met[2] = Connect(2, 3, LoopOf(port), 30, GetParam());
  first.join();
  second.join();
  EXPECT_LT(SecondsSince(start), 2);
  for (const Attempt& one : met) EXPECT_TRUE(one.status.ok()) << one.status.message();
  ASSERT_TRUE(met[0].self != nullptr);
  // 350 strangers came; silent ones among the last 256 may still hold their places.
  EXPECT_GT(met[0].self->turned_away(), 150u);
}

// In an earlier version each of them held process 0 up for five seconds.
TEST_P(MeetingTest, TwelveThatSayOneByteHoldNobodyUp) {
  const uint16_t port = FreePort();
  Attempt met[2];
  std::thread first([&] { met[0] = Connect(0, 2, LoopOf(port), 30, GetParam()); });
  std::vector<File> strangers;
  for (int i = 0; i < 12; ++i) {
    strangers.push_back(DialWhenOpen(port));
    Say(strangers.back(), "R");
  }
  const auto start = std::chrono::steady_clock::now();
  met[1] = Connect(1, 2, LoopOf(port), 30, GetParam());
  first.join();
  EXPECT_LT(SecondsSince(start), 1);
  for (const Attempt& one : met) EXPECT_TRUE(one.status.ok()) << one.status.message();
}

// In an earlier version sixteen bytes that anybody knew ended process 0.
TEST_P(MeetingTest, AForgedGreetingEndsNothing) {
  const uint16_t port = FreePort();
  Attempt met[2];
  std::thread first([&] { met[0] = Connect(0, 2, LoopOf(port), 30, GetParam()); });
  std::vector<File> strangers;
  for (const char* magic : {"RndMeet1", kMeet, kLine}) {
    for (uint32_t from : {0u, 1u, 2u, ~0u}) {
      strangers.push_back(DialWhenOpen(port));
      Say(strangers.back(), HelloOf(magic, from, 0, 77) + std::string(1000, 0));
    }
  }
  met[1] = Connect(1, 2, LoopOf(port), 30, GetParam());
  first.join();
  for (const Attempt& one : met) EXPECT_TRUE(one.status.ok()) << one.status.message();
}

// A process that has proved itself and leaves before all have come may connect again.
TEST_P(MeetingTest, WhoLeavesBeforeAllHaveComeMayComeAgain) {
  const uint16_t port = FreePort();
  Attempt met[3];
  std::thread first([&] { met[0] = Connect(0, 3, LoopOf(port), 30, GetParam()); });
  {
    const File file = DialWhenOpen(port);
    processes::Hello hello;
    std::memcpy(&hello.magic, kMeet, sizeof(hello.magic));
    hello.from = 1;
    hello.number = 3;
    const Card card;
    Key connection;
    const uint64_t soon = MonotonicNanoseconds() + 5'000'000'000;
    EXPECT_EQ(processes::Introduce(file, processes::KeyOf(GetParam()), &hello, &card, sizeof(card), soon,
                                   &connection),
              processes::Met::kProved);
  }
  std::thread second([&] { met[1] = Connect(1, 3, LoopOf(port), 30, GetParam()); });
  met[2] = Connect(2, 3, LoopOf(port), 30, GetParam());
  first.join();
  second.join();
  for (const Attempt& one : met) EXPECT_TRUE(one.status.ok()) << one.status.message();
}

TEST_P(MeetingTest, ListensAtTheAddressThatItIsGivenAlone) {
  const uint16_t port = FreePort();
  std::thread first([&] {
    EXPECT_SAYS(Connect(0, 2, LoopOf(port), 0.3, GetParam()).status, "process 1 of 2 has not come");
  });
  EXPECT_TRUE(DialWhenOpen(port).valid());
  EXPECT_FALSE(Dial(port, "127.0.0.2").valid());
  first.join();
  EXPECT_SAYS(Connect(0, 2, "203.0.113.7:29500", 1, GetParam()).status, "listening at 203.0.113.7:29500");
  EXPECT_SAYS(Connect(0, 2, "no-such-name.invalid:29500", 1, GetParam()).status, "not known here");
}

INSTANTIATE_TEST_SUITE_P(Secrets, MeetingTest, testing::Values(kSecret, ""), [](const auto& info) {
  return info.param[0] == 0 ? std::string("None") : std::string("One");
});

TEST(SecretTest, AnotherOneIsNotLetInAndBothSidesSayWhy) {
  for (const char* other : {"another secret of the same kind", ""}) {
    const uint16_t port = FreePort();
    std::thread first([&] {
      const Status status = Connect(0, 2, LoopOf(port), 0.6).status;
      EXPECT_SAYS(status, "process 1 of 2 has not come to process 0 within 0.6 s");
      // The connecting process notices first, and leaves.
      EXPECT_SAYS(status, "turned away (");
    });
    EXPECT_SAYS(Connect(1, 2, LoopOf(port), 0.4, other).status,
                *other == 0 ? "who listens there has a secret, and this process has none"
                            : "who listens there does not know this process's secret");
    first.join();
  }
}

// If a process that knows the secret has other numbers, all processes report the error at once.
TEST(SecretTest, OneOfUsWithOtherNumbersEndsAllAtOnce) {
  const uint16_t port = FreePort();
  const auto start = std::chrono::steady_clock::now();
  std::thread other(
      [&] { EXPECT_SAYS(Connect(1, 3, LoopOf(port), 20).status, "process 1 of 3 comes to process 0 of 2"); });
  EXPECT_SAYS(Connect(0, 2, LoopOf(port), 20).status, "process 1 of 3 comes to process 0 of 2");
  other.join();
  EXPECT_LT(SecondsSince(start), 10);
}

// Without a secret it might be a stranger. It gets the reason, and the others go on.
TEST(SecretTest, WithoutOneWhoeverHasOtherNumbersEndsItselfAlone) {
  const uint16_t port = FreePort();
  Attempt first;
  std::thread zero([&] { first = Connect(0, 2, LoopOf(port), 30, ""); });
  EXPECT_SAYS(Connect(1, 3, LoopOf(port), 20, "").status, "process 1 of 3 comes to process 0 of 2");
  const Attempt second = Connect(1, 2, LoopOf(port), 30, "");
  zero.join();
  EXPECT_TRUE(first.status.ok()) << first.status.message();
  EXPECT_TRUE(second.status.ok()) << second.status.message();
  ASSERT_TRUE(first.self != nullptr);
  EXPECT_EQ(first.self->turned_away(), 1u);
}

TEST(SecretTest, ShortAndHugeOnesAreRefused) {
  EXPECT_SAYS(Connect(0, 2, "127.0.0.1:1", 1, "fifteen letters").status,
              "a secret of 15 characters; it has 16 to 4096");
  EXPECT_SAYS(Connect(0, 2, "127.0.0.1:1", 1, std::string(4097, 's')).status, "a secret of 4097 characters");
}

// A Round that calls `before` with the card that a process is about to send to the others.
struct Tapped {
  MeetingPlace inner;
  std::function<void(const Card& card)> before;
  MeetingPlace place() {
    MeetingPlace place;
    place.user = this;
    place.all_gather = [](void* user, const void* mine, size_t bytes, void* all) {
      auto* self = static_cast<Tapped*>(user);
      Card card;
      if (bytes == sizeof(card)) {
        std::memcpy(&card, mine, bytes);
        self->before(card);
      }
      return self->inner.all_gather(self->inner.user, mine, bytes, all);
    };
    return place;
  }
};

// Connects two processes through an all_gather. `before` gets rank 0's card, when rank 0 already listens.
void MeetTapped(const std::function<void(const Card& card)>& before, std::string_view secret,
                uint32_t* turned) {
  Round round(2);
  Tapped tapped{round.Place(0), before};
  std::thread second([&, place = round.Place(1)] {
    ProcessOptions options;
    options.rank = 1;
    options.size = 2;
    options.place = place;
    options.secret = secret;
    Result<Processes*> made = Processes::Connect(options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const std::unique_ptr<Processes> self(*made);
    uint32_t mine = 11, all[2] = {};
    EXPECT_TRUE(self->Gather(Status::Ok(), &mine, all, sizeof(mine), nullptr).ok());
  });
  ProcessOptions options;
  options.size = 2;
  options.place = tapped.place();
  options.secret = secret;
  const auto start = std::chrono::steady_clock::now();
  Result<Processes*> made = Processes::Connect(options);
  EXPECT_LT(SecondsSince(start), 2);
  if (made.ok()) {
    const std::unique_ptr<Processes> self(*made);
    *turned = self->turned_away();
    // The process that it accepted knows the key, and answers.
    uint32_t mine = 10, all[2] = {};
    const Status status = self->Gather(Status::Ok(), &mine, all, sizeof(mine), nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(all[1], 11u);
  } else {
    ADD_FAILURE() << made.status().message();
  }
  second.join();
}

// A process does not count as arrived at another's own port unless it knows the key of all.
TEST(OwnPortTest, StrangersOfEveryKindAreTurnedAway) {
  std::unique_ptr<Strangers> strangers;
  uint32_t turned = 0;
  MeetTapped(
      [&](const Card& card) {
        // The last messages of each channel, from a stranger that knows everything except the key.
        strangers = std::make_unique<Strangers>(card.port, 30, HelloOf(kLine, 1, 0, 0),
                                                HelloOf(kLine, 1, 0, 1) + std::string(32, 0));
      },
      "", &turned);
  EXPECT_GE(turned, 90u);  // the garbage and the forged ones; the silent ones still have time
}

// A recording of one meeting does not work in another with the same secret.
TEST(OwnPortTest, WhatWasRecordedIsOfNoUse) {
  uint16_t port = 0;
  std::string said;
  uint32_t turned = 0;
  MeetTapped([&](const Card& card) { port = card.port; }, kSecret, &turned);
  EXPECT_EQ(turned, 0u);
  // The greeting of a process that knew the secret, with the key of an earlier meeting.
  const Card before[2];
  const Key old = processes::KeyOfAll(processes::KeyOf(kSecret), before, 2);
  std::vector<File> forged;
  MeetTapped(
      [&](const Card& card) {
        for (uint32_t channel : {0u, 1u}) {
          File file = Dial(card.port);
          ASSERT_TRUE(file.valid());
          std::string words = HelloOf(kLine, 1, 0, channel);
          const processes::Digest proof = processes::Prove(old, "guest", {{words.data(), words.size()}});
          words.append(reinterpret_cast<const char*>(&proof), sizeof(proof));
          Say(file, words);
          forged.push_back(std::move(file));
        }
      },
      kSecret, &turned);
  EXPECT_EQ(turned, 2u);
}

TEST(OwnPortTest, OnOneMachineNobodyBeyondItReachesThem) {
  uint32_t turned = 0;
  MeetTapped(
      [](const Card& card) {
        EXPECT_EQ(card.everywhere, 0);
        EXPECT_TRUE(Dial(card.port).valid());
        EXPECT_FALSE(Dial(card.port, "127.0.0.2").valid());
      },
      "", &turned);
  EXPECT_EQ(turned, 1u);
}

// More connections than places: the oldest are dropped.
TEST(CrowdTest, FourHundredSilentOnesLeaveRoom) {
  const uint16_t port = FreePort();
  Attempt met[2];
  std::thread first([&] { met[0] = Connect(0, 2, LoopOf(port), 30); });
  std::vector<File> strangers;
  for (int i = 0; i < 400; ++i) {
    strangers.push_back(DialWhenOpen(port));
    Say(strangers.back(), "Rnd");
  }
  const auto start = std::chrono::steady_clock::now();
  met[1] = Connect(1, 2, LoopOf(port), 30);
  first.join();
  EXPECT_LT(SecondsSince(start), 2);
  for (const Attempt& one : met) EXPECT_TRUE(one.status.ok()) << one.status.message();
  ASSERT_TRUE(met[0].self != nullptr);
  EXPECT_GE(met[0].self->turned_away(), 400u - processes::Reception::kSeats);
}

}  // namespace
}  // namespace rondo
