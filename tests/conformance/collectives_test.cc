// Collectives of two ranks, on the host driver's virtual devices and on GPUs through NCCL: each rank on a
// device of its own, and both on one.
#include <chrono>
#include <functional>
#include <thread>

#include "tests/collectives/mesh_plan.h"
#include "tests/conformance/conformance.h"

namespace rondo::test {
namespace {

constexpr uint32_t kRanks = 2;
constexpr size_t kCount = 64;  // elements in one rank's part
constexpr uint64_t kPart = kCount * sizeof(float);
// The op of each sync point. kAlone has its own communicator.
constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                                 CollectiveOp::kReduceScatter, CollectiveOp::kBroadcast,
                                 CollectiveOp::kAllReduce,     CollectiveOp::kSend,
                                 CollectiveOp::kAllToAll};
constexpr uint32_t kAlone = 4;

class CollectiveOps : public Conformance {
 protected:
  CollectiveOps() : mesh_(kRanks) {
    for (uint32_t i = 0; i < std::size(kOps); ++i) {
      mesh_.AddSyncPoint(kOps[i], DType::kF32, kPart, i == kAlone, mesh_.AllDevices(),
                         "c" + std::to_string(i));
    }
    const uint32_t add = mesh_.AddKernel(kCount);
    for (uint32_t d = 0; d < kRanks; ++d) {
      const std::string number = std::to_string(d);
      const uint32_t in = mesh_.Add(BufferKind::kInput, d, "in" + number, kRanks * kCount);
      const uint32_t out = mesh_.Add(BufferKind::kOutput, d, "out" + number, kRanks * kCount);
      mesh_.Launch(d, add, {in, in, out});
      for (uint32_t i = 0; i < std::size(kOps); ++i) {
        mesh_.Start(d, i, {in, 0}, {out, 0});
        mesh_.Wait(d, i);
      }
    }
    mesh_.Finish();
  }
  void SetUp() override {
    Open(DeviceOf(kRanks - 1) + 1);
    if (device_ == nullptr || IsSkipped()) return;
    NEEDS_OF_INFO(driver_->Info().collectives, "collectives");
    code_ = GetParam()->AddCode(&mesh_.data);
    for (uint32_t d = 0; d < kRanks; ++d) {
      Rank& rank = ranks_[d];
      rank.device = driver_->Open(DeviceOf(d)).Take();
      rank.module = rank.device->LoadModule(mesh_.data).Take();
      rank.stream = rank.device->CreateStream().Take();
      rank.in = rank.device->Allocate(kRanks * kPart, 256).Take();
      rank.out = rank.device->Allocate(kRanks * kPart, 256).Take();
    }
    collectives_ = Make();
  }
  void TearDown() override {
    if (collectives_ != nullptr) driver_->DestroyCollectives(collectives_);
    for (Rank& rank : ranks_) {
      if (rank.device == nullptr) continue;
      rank.device->Free(rank.in, kRanks * kPart);
      rank.device->Free(rank.out, kRanks * kPart);
      rank.device->DestroyStream(rank.stream);
      rank.device->DestroyModule(rank.module);
    }
    Conformance::TearDown();
  }

  struct Rank {
    Device* device = nullptr;
    Module* module = nullptr;
    Stream* stream = nullptr;
    DeviceAddress in = 0, out = 0;
  };

  static uint32_t DeviceOf(uint32_t rank) { return GetParam()->shares_device() ? 0 : rank; }
  Collectives* Make() {
    const uint32_t devices[kRanks] = {DeviceOf(0), DeviceOf(1)};
    Result<Collectives*> made = driver_->CreateCollectives(mesh_.program(), devices);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return nullptr;
    ExpectOk(driver_->BeginCollectives(*made));
    return *made;
  }
  CollectivePart Part(uint32_t rank, uint32_t sync_point, Collectives* of = nullptr) {
    CollectivePart part;
    part.collectives = of == nullptr ? collectives_ : of;
    part.point = &mesh_.program().sync_points[sync_point];
    part.sync_point = sync_point;
    part.rank = rank;
    part.step = 10 * rank + sync_point;
    return part;
  }
  Status Start(const CollectivePart& part) {
    Rank& rank = ranks_[part.rank];
    return rank.device->StartCollective(part, rank.in, rank.out, rank.stream);
  }
  Status Wait(const CollectivePart& part) {
    return ranks_[part.rank].device->WaitCollective(part, ranks_[part.rank].stream);
  }
  Status Synchronize(uint32_t rank, uint32_t* step = nullptr) {
    uint32_t failed = kNone;
    const Status status = ranks_[rank].device->Synchronize(ranks_[rank].stream, &failed);
    if (step != nullptr) *step = failed;
    return status;
  }
  // Starts the collective, waits for it on the stream, and then for the stream.
  Status Do(const CollectivePart& part, uint32_t* step = nullptr) {
    RONDO_RETURN_IF_ERROR(Start(part));
    RONDO_RETURN_IF_ERROR(Wait(part));
    return Synchronize(part.rank, step);
  }
  // Calls `work` for every rank on its own thread. Returns the results.
  std::vector<Status> OnEachRank(const std::function<Status(uint32_t rank)>& work) {
    std::vector<Status> results(kRanks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] { results[rank] = work(rank); });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  static void ExpectAllOk(const std::vector<Status>& results) {
    for (const Status& status : results) ExpectOk(status);
  }
  void Write(uint32_t rank, DeviceAddress to, const Floats& values) {
    ExpectOk(
        ranks_[rank].device->CopyIn(to, values.data(), values.size() * sizeof(float), ranks_[rank].stream));
    ExpectOk(Synchronize(rank));
  }
  Floats Out(uint32_t rank) {
    Floats values(kRanks * kCount);
    ExpectOk(
        ranks_[rank].device->CopyOut(values.data(), ranks_[rank].out, kRanks * kPart, ranks_[rank].stream));
    ExpectOk(Synchronize(rank));
    return values;
  }
  // The result of `op` on `rank` for the inputs Input(r); elements that it does not write stay `before`.
  static Floats Input(uint32_t rank) { return Counting(rank == 0 ? 1 : 100, kRanks * kCount); }
  static Floats Expected(CollectiveOp op, uint32_t rank, float before) {
    const Floats a = Input(0), b = Input(1);
    Floats out(kRanks * kCount, before);
    for (size_t i = 0; i < kCount; ++i) {
      const size_t mine = i + (op == CollectiveOp::kReduceScatter ? rank * kCount : 0);
      out[i] = op == CollectiveOp::kAllGather || op == CollectiveOp::kBroadcast ? a[i] : a[mine] + b[mine];
      if (op == CollectiveOp::kSend) out[i] = rank == 0 ? before : a[i];
      const size_t part = kCount / kRanks, place = rank * part + i % part;
      if (op == CollectiveOp::kAllToAll) out[i] = i < part ? a[place] : b[place];
      if (op == CollectiveOp::kAllGather) out[kCount + i] = b[i];
    }
    return out;
  }

  MeshPlan mesh_;
  std::shared_ptr<void> code_;
  Rank ranks_[kRanks];
  Collectives* collectives_ = nullptr;
};
CONFORMANCE_SUITE_OF(CollectiveOps, DriversUnderTest());

TEST_P(CollectiveOps, GiveWhatTheirNamesSay) {
  ASSERT_NE(collectives_, nullptr);
  for (uint32_t rank = 0; rank < kRanks; ++rank) Write(rank, ranks_[rank].in, Input(rank));
  for (uint32_t i = 0; i < std::size(kOps); ++i) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) Write(rank, ranks_[rank].out, Floats(kRanks * kCount, -1));
    ExpectAllOk(OnEachRank([&](uint32_t rank) { return Do(Part(rank, i)); }));
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(Out(rank), Expected(kOps[i], rank, -1)) << Name(kOps[i]) << " on rank " << rank;
  }
}

TEST_P(CollectiveOps, InGraphsAreReplayedRunAfterRun) {
  ASSERT_NE(collectives_, nullptr);
  std::vector<Graph*> graphs(kRanks);
  ExpectAllOk(
      OnEachRank([&](uint32_t rank) -> Status {  // at the same time, for drivers with records_together
        Rank& r = ranks_[rank];
        RONDO_RETURN_IF_ERROR(r.device->BeginRecord(r.stream));
        Status status = Start(Part(rank, 0));
        if (status.ok()) status = Wait(Part(rank, 0));
        Result<Graph*> graph = r.device->EndRecord(r.stream);
        if (graph.ok()) graphs[rank] = *graph;
        return status.ok() ? graph.status() : status;
      }));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_NE(graphs[rank], nullptr);
    const Span<const GraphNode> nodes = ranks_[rank].device->Nodes(graphs[rank]);
    ASSERT_EQ(nodes.size(), 2u);
    EXPECT_EQ(nodes[0].kind, StepKind::kCollectiveStart);
    EXPECT_EQ(nodes[1].kind, StepKind::kCollectiveWait);
    EXPECT_EQ(nodes[1].step, 10 * rank);
  }
  for (float round = 1; round <= 20; ++round) {
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      Write(rank, ranks_[rank].in, Floats(kRanks * kCount, round * static_cast<float>(rank + 1)));
    ExpectOk(driver_->BeginCollectives(collectives_));
    ExpectAllOk(OnEachRank([&](uint32_t rank) -> Status {
      RONDO_RETURN_IF_ERROR(ranks_[rank].device->LaunchGraph(graphs[rank], ranks_[rank].stream));
      return Synchronize(rank);
    }));
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(Out(rank)[kCount - 1], 3 * round) << "rank " << rank;
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) ranks_[rank].device->DestroyGraph(graphs[rank]);
}

TEST_P(CollectiveOps, FollowTheStreamThatStartsThem) {
  ASSERT_NE(collectives_, nullptr);
  for (float round = 1; round <= 10; ++round) {
    ExpectOk(driver_->BeginCollectives(collectives_));
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      Write(rank, ranks_[rank].out, Floats(kRanks * kCount, round));
    ExpectAllOk(OnEachRank([&](uint32_t rank) -> Status {  // in = out + out; sum; out = in + in
      Rank& r = ranks_[rank];
      const std::vector<DeviceAddress> before = {r.out, r.out, r.in};
      RONDO_RETURN_IF_ERROR(r.device->Launch(r.module, 0, before, r.stream, 0));
      RONDO_RETURN_IF_ERROR(Start(Part(rank, 0)));
      RONDO_RETURN_IF_ERROR(Wait(Part(rank, 0)));
      const std::vector<DeviceAddress> after = {r.out, r.out, r.out};
      RONDO_RETURN_IF_ERROR(r.device->Launch(r.module, 0, after, r.stream, 0));
      return Synchronize(rank);
    }));
    for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(Out(rank)[0], 8 * round) << "rank " << rank;
  }
}

TEST_P(CollectiveOps, LeaveTheirStreamToOtherWorkMeanwhile) {
  ASSERT_NE(collectives_, nullptr);
  if (driver_->Info().records_together)
    GTEST_SKIP() << GetParam()->name() << ": a start may wait for the other ranks'";
  for (uint32_t rank = 0; rank < kRanks; ++rank) Write(rank, ranks_[rank].in, Input(rank));
  ExpectOk(Start(Part(0, 0)));
  ExpectOk(Synchronize(0));
  ExpectOk(Start(Part(0, kAlone)));
  ExpectOk(Do(Part(1, kAlone)));
  ExpectOk(Wait(Part(0, kAlone)));
  ExpectOk(Synchronize(0));  // although the other one was started first
  EXPECT_EQ(Out(0)[3], 303);
  ExpectOk(Do(Part(1, 0)));
  ExpectOk(Wait(Part(0, 0)));
  ExpectOk(Synchronize(0));
  EXPECT_EQ(Out(1)[5], 505);
}

TEST_P(CollectiveOps, ThatAreAbortedEndAndSoDoesWhatComesLater) {
  ASSERT_NE(collectives_, nullptr);
  for (int round = 0; round < 5; ++round) {
    Collectives* made = Make();
    ASSERT_NE(made, nullptr);
    Status first;
    std::thread waiting([&] { first = Do(Part(0, 0, made)); });
    if (round % 2 != 0) std::this_thread::sleep_for(std::chrono::milliseconds(round));
    driver_->AbortCollectives(made, Status::Ok(), true);
    driver_->AbortCollectives(made, Status::Ok(), true);
    waiting.join();  // rank 1 never comes
    uint32_t step = kNone;
    const Status later = Do(Part(1, 0, made), &step);
    EXPECT_EQ(later.code(), Code::kAborted) << later.message();
    if (GetParam()->Lacks(Feature::kTellsAborts).empty()) {
      EXPECT_EQ(first.code(), Code::kAborted) << first.message();
      EXPECT_EQ(step, 10u);
    } else {
      EXPECT_TRUE(first.ok() || first.code() == Code::kAborted) << first.message();
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) ExpectOk(Synchronize(rank));
    driver_->DestroyCollectives(made);
  }
}

TEST_P(CollectiveOps, OfAnotherSessionWorkAfterAnAbort) {
  ASSERT_NE(collectives_, nullptr);
  driver_->AbortCollectives(collectives_, Status::Ok(), true);
  Collectives* made = Make();
  ASSERT_NE(made, nullptr);
  ExpectAllOk(OnEachRank([&](uint32_t rank) { return Do(Part(rank, 0, made)); }));
  driver_->DestroyCollectives(made);
}

TEST_P(CollectiveOps, BeginAgainAfterAnAbortOrSayThatTheyCannot) {
  ASSERT_NE(collectives_, nullptr);
  driver_->AbortCollectives(collectives_, Status::Ok(), true);
  const Status begun = driver_->BeginCollectives(collectives_);
  if (const std::string lack = GetParam()->Lacks(Feature::kBeginsAfterAbort); !lack.empty()) {
    EXPECT_EQ(begun.code(), Code::kFailedPrecondition) << begun.message();
    GTEST_SKIP() << GetParam()->name() << " lacks kBeginsAfterAbort: " << lack;
  }
  ExpectOk(begun);
  ExpectAllOk(OnEachRank([&](uint32_t rank) { return Do(Part(rank, 0)); }));
}

TEST_P(CollectiveOps, OfOtherSessionsAreLeftAloneByAnAbort) {
  ASSERT_NE(collectives_, nullptr);
  NEEDS(kAbortsOneSession);
  Collectives* other = Make();
  ASSERT_NE(other, nullptr);
  ExpectOk(Start(Part(0, 0)));
  ExpectOk(Start(Part(0, 0, other)));
  driver_->AbortCollectives(other, Status::Ok(), true);
  ExpectOk(Do(Part(1, 0)));
  ExpectOk(Wait(Part(0, 0)));
  ExpectOk(Synchronize(0));
  ExpectOk(Wait(Part(0, 0, other)));
  EXPECT_EQ(Synchronize(0).code(), Code::kAborted);
  driver_->DestroyCollectives(other);
}

TEST_P(CollectiveOps, ThatDifferGetAnErrorThatNamesBoth) {
  ASSERT_NE(collectives_, nullptr);
  NEEDS(kComparesCollectives);
  struct {
    CollectiveOp op;
    DType dtype;
    uint64_t bytes;
    const char* text;
  } cases[] = {{CollectiveOp::kBroadcast, DType::kF32, kPart, "broadcast of 256 bytes of f32"},
               {CollectiveOp::kAllReduce, DType::kF32, 8, "all-reduce of 8 bytes of f32"},
               {CollectiveOp::kAllReduce, DType::kI32, kPart, "all-reduce of 256 bytes of i32"}};
  for (const auto& c : cases) {
    ExpectOk(driver_->BeginCollectives(collectives_));
    SyncPoint wrong = mesh_.program().sync_points[0];
    wrong.op = c.op;
    wrong.dtype = c.dtype;
    wrong.bytes = c.bytes;
    CollectivePart part = Part(1, 0);
    part.point = &wrong;
    ExpectOk(Start(Part(0, 0)));
    ExpectOk(Start(part));
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      uint32_t step = kNone;
      ExpectOk(Wait(Part(rank, 0)));
      const Status status = Synchronize(rank, &step);
      EXPECT_EQ(status.code(), Code::kInternal);
      EXPECT_EQ(step, 10 * rank);
      for (const char* text : {"rank 0", "rank 1", "sync point 0", c.text})
        EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status.message();
    }
  }
}

}  // namespace
}  // namespace rondo::test
