// The flight recorder's file for runs that hang, fail, end and are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "drivers/flight/flight_driver.h"
#include "tests/folders.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/open_tiny.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

using flight::Entry;
using flight::FlightDriver;
using flight::FlightFile;
using flight::Kind;

std::vector<uint8_t> Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A tiny plan on a fake driver, with the flight recorder on.
class FlightTest : public testing::Test {
 protected:
  void Open(bool split = false) {
    Result<FlightDriver*> flight = FlightDriver::Create(&fake_, path_);
    ASSERT_TRUE(flight.ok()) << flight.status().message();
    flight_.reset(*flight);
    tiny_ = std::make_unique<TinyPlan>(split);
    Plan plan;
    const Status opened = OpenTiny(*tiny_, flight_.get(), &plan, &runtime_);
    ASSERT_TRUE(opened.ok()) << opened.message();
    session_ = MakeSession(runtime_, plan);
  }

  // The device's current entries.
  std::vector<Entry> Entries() const {
    const std::vector<uint8_t> bytes = Contents(path_);
    const auto read = flight::ReadFlight({bytes.data(), bytes.size()});
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() && !(*const_cast<Result<flight::Flight>&>(read)).devices.empty()
               ? (*const_cast<Result<flight::Flight>&>(read)).devices[0]
               : std::vector<Entry>();
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("flight");
  FakeDriver fake_;
  std::unique_ptr<FlightDriver> flight_;
  std::unique_ptr<TinyPlan> tiny_;
  Runtime runtime_;
  Session session_;
};

TEST_F(FlightTest, WhatHangsIsNamedWhileItHangs) {
  Open();
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false, open = false;
  } gate;
  fake_.controls.user = &gate;
  fake_.controls.on_launch = [](void* user) {
    auto* gate = static_cast<Gate*>(user);
    std::unique_lock lock(gate->mutex);
    gate->reached = true;
    gate->changed.notify_all();
    gate->changed.wait(lock, [&] { return gate->open; });
  };
  std::thread run([&] { EXPECT_TRUE(RunAddOnce(session_).ok()); });
  {
    std::unique_lock lock(gate.mutex);
    gate.changed.wait(lock, [&] { return gate.reached; });
  }
  const std::vector<Entry> hanging = Entries();
  {
    const std::lock_guard lock(gate.mutex);
    gate.open = true;
  }
  gate.changed.notify_all();
  run.join();
  ASSERT_FALSE(hanging.empty());
  EXPECT_EQ(hanging.back().kind, Kind::kLaunch);
  const std::string& text = hanging.back().text;
  EXPECT_EQ(text.find("program add, partition 0\nstep 0: "), 0u) << text;
  EXPECT_NE(text.find("(Mul \"mul_node\")\nstep 1: "), text.npos) << text;
  EXPECT_NE(text.find("(Add \"add_node\")"), text.npos) << text;
  EXPECT_EQ(Entries().back().kind, Kind::kDone);
}

TEST_F(FlightTest, FaultsAreKeptWithTheirSentence) {
  Open();
  fake_.controls.fail = "Synchronize";
  EXPECT_FALSE(RunAddOnce(session_).ok());
  const std::vector<Entry> entries = Entries();
  ASSERT_FALSE(entries.empty());
  const auto fault = std::find_if(entries.begin(), entries.end(),
                                  [](const Entry& entry) { return entry.kind == Kind::kFault; });
  ASSERT_NE(fault, entries.end());
  EXPECT_FALSE(fault->text.empty());
}

TEST_F(FlightTest, TheLastEntriesAreKeptAndNumbered) {
  Open(true);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(RunAddOnce(session_).ok());
  const std::vector<Entry> entries = Entries();
  ASSERT_EQ(entries.size(), flight::kRecords);
  for (size_t i = 1; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].number, entries[i - 1].number + 1);
    EXPECT_GE(entries[i].time, entries[i - 1].time);
  }
  EXPECT_EQ(entries.back().kind, Kind::kDone);
  // Each of the programs with separate partitions is named.
  EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.text.find("program add, partition 1\nstep 1: ") == 0;
  }));
}

TEST_F(FlightTest, FilesThatCannotBeMadeOrReadAreRefused) {
  const auto none = FlightDriver::Create(&fake_, folder_.File("no/folder"));
  ASSERT_FALSE(none.ok());
  EXPECT_NE(std::string(none.status().message()).find("the flight recorder's file"), std::string::npos);
  Open();
  ASSERT_TRUE(RunAddOnce(session_).ok());
  std::vector<uint8_t> bytes = Contents(path_);
  EXPECT_FALSE(flight::ReadFlight({bytes.data(), bytes.size() - 1}).ok());
  std::fill(bytes.begin() + 4096, bytes.end(), uint8_t{0xff});  // invalid texts, kinds and positions
  EXPECT_TRUE(flight::ReadFlight({bytes.data(), bytes.size()}).ok());
  bytes[0] ^= 1;
  EXPECT_FALSE(flight::ReadFlight({bytes.data(), bytes.size()}).ok());
}

#ifdef RONDO_COMMAND
TEST_F(FlightTest, TheCommandSaysWhereDevicesStandWithCollectives) {
  {
    const std::unique_ptr<FlightFile> file(*FlightFile::Create(path_));
    const uint64_t points =
        file->Text("program main\nstep 3: collective_start (first)\nstep 9: collective_start (second)");
    file->Add(0, Kind::kProgress, 0, kNone, uint64_t{2} << 32 | 2, points);
    file->Add(1, Kind::kProgress, 0, kNone, uint64_t{2} << 32 | 1, points);
    file->Add(1, Kind::kAbort, 0, kNone, 0, file->Text("device 1 has made no progress"));
  }
  const Outcome said = Shell(std::string(RONDO_COMMAND) + " flight --wide " + path_);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_PRINTS(said, "came to 2 collectives, 2 ended\n");
  EXPECT_PRINTS(said, "came to 2 collectives, 1 ended; not ended: step 9: collective_start (second)");
  EXPECT_PRINTS(said, "device 1 has made no progress");
  EXPECT_EQ(Shell(std::string(RONDO_COMMAND) + " flight " + SourceFolder() + "/README.md").status, 1);
}

TEST_F(FlightTest, AProcessThatWasKilledLeavesItsFile) {
  const std::string plan = folder_.File("plan.rondo"), command = RONDO_COMMAND;
  ASSERT_EQ(Shell(command + " compile " + SourceFolder() +
                  "/tests/data/plans/models/mixed.onnx --shape batch=2 -o " + plan)
                .status,
            0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string flight = "--flight=" + path_;
    close(1);
    execl(RONDO_COMMAND, RONDO_COMMAND, "bench", plan.c_str(), "--runs", "1000000", flight.c_str(), nullptr);
    _exit(127);
  }
  const auto ends = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto launched = [&] {
    const std::vector<uint8_t> bytes = Contents(path_);
    auto read = flight::ReadFlight({bytes.data(), bytes.size()});
    return read.ok() && !read->devices.empty() && read->devices[0].size() == flight::kRecords;
  };
  while (!launched() && std::chrono::steady_clock::now() < ends)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const Outcome said = Shell(command + " flight " + path_ + " --last 1000");
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_PRINTS(said, "process " + std::to_string(child) + ", which has ended");
  EXPECT_PRINTS(said, "program main, partition 0");
}
#endif

}  // namespace
}  // namespace rondo
