#include "runtime/verify/lifecycle_verifier.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "runtime/runtime.h"
#include "runtime/verify/contract_checks.h"
#include "runtime/verify/guarded_driver.h"
#include "runtime/verify/host_account.h"
#include "runtime/verify/program_runs.h"
#include "runtime/verify/replay.h"

namespace rondo {
namespace verify {
namespace {

class Verifier {
 public:
  Verifier(const Plan& plan, Driver* driver, const VerifyOptions& options)
      : plan_(plan),
        data_(plan.data()),
        options_(options),
        findings_(data_),
        driver_(driver, &findings_),
        runs_(data_, options.inputs, options.program),
        host_memory_(driver->Info().host_memory) {
    limits_.timeout_ns = limits_.run_timeout_ns = options.timeout_ns;
    for (uint32_t p = 0; p < data_.programs.size(); ++p) accesses_.emplace_back(data_, p);
  }

  Result<VerifyReport> Run();

 private:
  Status CheckRoom() const;
  Status OneSession();
  void Tell(const char* what, uint64_t done, uint64_t all) const {
    if (options_.progress) options_.progress(what, done, all);
  }
  uint64_t TurnsOf(uint32_t program) const;
  Status StepByStep(Session* session, const Poison& poison, const LeftBytes* before, LeftBytes* left,
                    RunResults* results, bool* ran);
  Status AsGraphs(Session* session, const Poison& poison, RunResults* results, bool* ran);
  Status GraphRun(Session* session, const Poison& poison, uint32_t program, Span<const Input> inputs,
                  Span<const Output> outputs);
  Status CheckWeights(Session* session, const char* when);
  Status Reopen();
  Status OpenAgain(CountedHostMemory* host);
  void CompareAccount();
  Result<Runtime> MakeRuntime(const HostAllocator& allocator);

  const Plan plan_;
  const PlanData& data_;
  const VerifyOptions& options_;
  FindingList findings_;
  GuardedDriver driver_;
  ProgramRuns runs_;
  const bool host_memory_;
  SessionOptions limits_;
  std::vector<ProgramAccesses> accesses_;
  VerifyReport report_;
  RunResults first_;        // of the step-by-step run with the first poison
  bool has_first_ = false;  // whether that run finished
  Account in_use_ = {};     // by the first session
};

Status Verifier::CheckRoom() const {
  const uint64_t most = options_.host_bytes != 0 ? options_.host_bytes
                                                 : static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                                       static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 4 * 3;
  const uint64_t needed = ShadowBytes(data_);
  if (needed <= most) return Status::Ok();
  return Status::Error(
      Code::kOutOfMemory,
      "keeping account of the plan's arena and state takes %llu bytes of host memory, more than %llu",
      static_cast<unsigned long long>(needed), static_cast<unsigned long long>(most));
}

Result<Runtime> Verifier::MakeRuntime(const HostAllocator& allocator) {
  RuntimeOptions options;
  options.devices = options_.devices;
  options.allocator = &allocator;
  return Runtime::Create(&driver_, options);
}

// The plan's bytes of a constant, if the plan has them.
const uint8_t* BytesOf(const Plan& plan, const Buffer& b) {
  const Span<const uint8_t> weights = plan.weights();
  const bool there = b.weight == WeightSource::kBytes && b.file_offset <= weights.size() &&
                     b.bytes <= weights.size() - b.file_offset;
  return there ? weights.data() + b.file_offset : nullptr;
}

// Compares each constant of the session with the plan's.
Status Verifier::CheckWeights(Session* session, const char* when) {
  constexpr uint64_t kChunk = uint64_t{1} << 20;
  std::vector<uint8_t> is, should;
  for (uint32_t b = 0; b < data_.buffers.size(); ++b) {
    const Buffer& buffer = data_.buffers[b];
    const uint8_t* bytes = BytesOf(plan_, buffer);
    const DeviceAddress address = session->BufferAddress(b);
    const bool mapped = host_memory_ && reinterpret_cast<DeviceAddress>(bytes) == address;
    const bool synthetic = buffer.weight == WeightSource::kSynthetic;
    if (buffer.kind != BufferKind::kConstant || mapped || (bytes == nullptr && !synthetic)) continue;
    RONDO_ASSIGN_OR_RETURN(DeviceIo io, DeviceIo::Create(session->device(buffer.device), host_memory_));
    for (uint64_t at = 0; at < buffer.bytes; at += kChunk) {
      const uint64_t count = std::min(kChunk, buffer.bytes - at),
                     size = static_cast<uint64_t>(ByteSize(buffer.dtype));
      is.resize(count);
      should.resize(count);
      RONDO_RETURN_IF_ERROR(io.Read(address + at, count, is.data()));
      if (synthetic) {
        FillSyntheticRuns(buffer.dtype, buffer.synthetic_key, buffer.synthetic_scale, buffer.synthetic_run,
                          buffer.synthetic_step, at / size, count / size, should.data());
      } else {
        std::memcpy(should.data(), bytes + at, count);
      }
      if (is == should) continue;
      const auto differ = std::mismatch(is.begin(), is.end(), should.begin());
      Finding finding;
      finding.rule = LifecycleRule::kWeights;
      finding.buffer = b;
      finding.device = buffer.device;
      finding.offset = at + static_cast<uint64_t>(differ.first - is.begin());
      finding.bytes = 1;
      finding.expected = HexText({&*differ.second, 1}) + ", as the plan has it";
      finding.found = HexText({&*differ.first, 1}) + " " + when;
      findings_.Add(finding);
      break;
    }
  }
  return Status::Ok();
}

uint64_t Verifier::TurnsOf(uint32_t program) const {
  uint64_t turns = 0;
  for (uint32_t s = 0; s < data_.programs[program].steps.size(); ++s)
    turns += RoundsOf(data_.programs[program], s);
  return turns;
}

Status Verifier::StepByStep(Session* session, const Poison& poison, const LeftBytes* before, LeftBytes* left,
                            RunResults* results, bool* ran) {
  uint64_t turns = 0, arena = 0;
  for (uint32_t p : runs_.programs()) turns += TurnsOf(p);
  for (const DeviceBytes& device : data_.requirements.devices)
    arena = std::max(arena, device.arena + device.state);
  const uint64_t passes = 2 * turns, most = options_.scan_bytes;
  report_.stride =
      arena == 0 || passes <= most / arena ? 1 : passes / std::max<uint64_t>(1, most / arena) + 1;
  RONDO_RETURN_IF_ERROR(session->ResetState());
  StepwiseReplay replay(session, accesses_, poison, before, report_.stride, &findings_);
  uint64_t before_program = 0;  // turns of the programs before this one
  replay.TellTurns([&](uint64_t done) { Tell("steps one by one", before_program + done, turns); });
  RONDO_RETURN_IF_ERROR(replay.Start(host_memory_));
  *ran = runs_.Run(
      [&](uint32_t program, Span<const Input> inputs, Span<const Output> outputs) {
        const Status status = replay.Run(program, inputs, outputs);
        before_program += TurnsOf(program);
        return status;
      },
      "step by step", &findings_, results);
  report_.steps += turns;
  *left = replay.TakeLeft();
  return Status::Ok();
}

// One run as graphs. The memory between the program's buffers must not change.
Status Verifier::GraphRun(Session* session, const Poison& poison, uint32_t program, Span<const Input> inputs,
                          Span<const Output> outputs) {
  std::vector<DeviceIo> io;
  std::vector<ShadowRegion> regions;
  const size_t devices = data_.requirements.devices.size();
  io.reserve(devices);
  regions.reserve(devices);
  for (uint32_t d = 0; d < devices; ++d) {
    RONDO_ASSIGN_OR_RETURN(DeviceIo one, DeviceIo::Create(session->device(d), host_memory_));
    io.push_back(std::move(one));
    regions.emplace_back(&io[d], session->arena(d), 1);
    RONDO_RETURN_IF_ERROR(regions[d].PoisonAll(poison));
  }
  ++report_.graph_runs;
  RONDO_RETURN_IF_ERROR(session->Run(program, inputs, outputs));
  for (uint32_t d = 0; d < devices; ++d) {
    std::vector<ByteRange> used;
    for (const Buffer& b : data_.buffers) {
      if (b.device == d && b.program == program) used.push_back({b.offset, b.offset + b.bytes});
    }
    std::sort(used.begin(), used.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
    RONDO_RETURN_IF_ERROR(
        regions[d].Scan(used, [&](const ByteRange& range, const uint8_t* was, const uint8_t* is) {
          Finding finding;
          finding.rule = LifecycleRule::kStrayWrite;
          finding.device = d;
          finding.offset = range.first;
          finding.bytes = range.end - range.first;
          finding.expected = "the canary between buffers kept (" + HexText({was, finding.bytes}) +
                             "), counted from the start of the arena";
          finding.found = HexText({is, finding.bytes}) + " after graph replay";
          findings_.Add(finding, program);
        }));
    RONDO_RETURN_IF_ERROR(GuardedDriver::CheckGuards(session->device(d), program, kNone));
  }
  return Status::Ok();
}

Status Verifier::AsGraphs(Session* session, const Poison& poison, RunResults* results, bool* ran) {
  RONDO_RETURN_IF_ERROR(session->ResetState());
  *ran = runs_.Run(
      [&](uint32_t program, Span<const Input> inputs, Span<const Output> outputs) {
        return GraphRun(session, poison, program, inputs, outputs);
      },
      "by graph replay", &findings_, results);
  return Status::Ok();
}

Status Verifier::OneSession() {
  CountedHostMemory host;
  {
    const HostAllocator allocator = host.allocator();
    RONDO_ASSIGN_OR_RETURN(Runtime runtime, MakeRuntime(allocator));
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan_, limits_));
    in_use_ = driver_.account();
    report_.device_bytes = in_use_[static_cast<size_t>(Taken::kBytes)];
    RONDO_RETURN_IF_ERROR(CheckWeights(&session, "after loading"));
    const Poison poisons[] = {Poison(false), Poison(true)};
    LeftBytes left[2];
    bool ran = true;
    for (int pass = 0; pass < 2 && ran; ++pass) {
      RunResults steps, graphs;
      RONDO_RETURN_IF_ERROR(
          StepByStep(&session, poisons[pass], pass == 0 ? nullptr : &left[0], &left[pass], &steps, &ran));
      if (ran && pass == 0) first_ = steps;
      if (ran && pass == 1) {
        runs_.Compare(first_, steps, LifecycleRule::kPoisonSeen,
                      "the steps left it with one poison in dead memory", "with another poison there",
                      &findings_);
      }
      if (!ran) break;
      has_first_ = true;
      RONDO_RETURN_IF_ERROR(AsGraphs(&session, poisons[pass], &graphs, &ran));
      if (ran) {
        runs_.Compare(steps, graphs, LifecycleRule::kReplayDiffers, "the steps one by one left it",
                      "after graph replay", &findings_);
      }
    }
    RONDO_RETURN_IF_ERROR(CheckWeights(&session, "after the runs"));
  }
  driver_.ExpectEmpty();
  host.ExpectEmpty(&findings_);
  return Status::Ok();
}

// Every session must take the same amount.
void Verifier::CompareAccount() {
  const Account now = driver_.account();
  if (now == in_use_) return;
  const auto bytes = static_cast<size_t>(Taken::kBytes), blocks = static_cast<size_t>(Taken::kBlocks);
  const auto text = [&](const Account& account) {
    uint64_t objects = 0;
    for (size_t i = blocks + 1; i < kTakenKinds; ++i) objects += account[i];
    return std::to_string(account[bytes]) + " bytes in " + std::to_string(account[blocks]) + " blocks and " +
           std::to_string(objects) + " objects of the driver";
  };
  Finding finding;
  finding.rule = LifecycleRule::kNotFlat;
  finding.expected = text(in_use_) + " taken by a session, as the first time";
  finding.found = text(now);
  findings_.Add(finding);
}

Status Verifier::OpenAgain(CountedHostMemory* host) {
  const HostAllocator allocator = host->allocator();
  PlanOptions plan_options;
  plan_options.allocator = &allocator;
  Plan plan = plan_;
  if (options_.open != nullptr) {
    RONDO_ASSIGN_OR_RETURN(plan, options_.open(plan_options));
  }
  RONDO_ASSIGN_OR_RETURN(Runtime runtime, MakeRuntime(allocator));
  RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan, limits_));
  CompareAccount();
  RunResults results;
  bool ran = false;
  RONDO_RETURN_IF_ERROR(AsGraphs(&session, Poison(false), &results, &ran));
  if (ran && has_first_) {
    runs_.Compare(first_, results, LifecycleRule::kReloadDiffers, "the first session left it",
                  "after opening again", &findings_);
  }
  return Status::Ok();
}

Status Verifier::Reopen() {
  // libcuda keeps some hundred bytes of the heap for each opening (240 were seen). The runtime's own memory
  // is counted exactly.
  const uint64_t least = host_memory_ ? 64 : 4096;
  Flatness heap("of the process's heap", least), device("device memory", 1);
  // glibc keeps up to seven freed blocks of a size for each thread, and counts them as in use. Those of
  // threads that end (their tables of thread-local storage) may make this thread's heap grow that often. A
  // leak continues beyond.
  constexpr uint32_t kMore = 8;
  for (uint32_t i = 0; i < options_.reopenings || (heap.Grows() && i < options_.reopenings + kMore); ++i) {
    Tell("opening, running and closing again", i, options_.reopenings);
    CountedHostMemory host;
    Status status;
    // Runs on a thread that ends, so that its own lists of free memory are freed.
    std::thread([&] { status = OpenAgain(&host); }).join();
    RONDO_RETURN_IF_ERROR(status);
    driver_.ExpectEmpty();
    host.ExpectEmpty(&findings_);
    ++report_.reopenings;
    heap.Add(static_cast<int64_t>(HeapBytes()));
    if (host_memory_) continue;
    RONDO_ASSIGN_OR_RETURN(const uint64_t free_bytes, driver_.FreeBytes());
    device.Add(-static_cast<int64_t>(free_bytes));
  }
  heap.Check(&findings_);
  device.Check(&findings_);
  return Status::Ok();
}

Result<VerifyReport> Verifier::Run() {
  RONDO_RETURN_IF_ERROR(CheckRoom());
  for (uint32_t p = 0; p < data_.programs.size(); ++p)
    RONDO_RETURN_IF_ERROR(CheckContracts(data_, p, accesses_[p], &findings_));
  RONDO_RETURN_IF_ERROR(OneSession());
  RONDO_RETURN_IF_ERROR(Reopen());
  report_.findings = findings_.list();
  return std::move(report_);
}

}  // namespace
}  // namespace verify

Result<VerifyReport> VerifyLifecycle(const Plan& plan, Driver* driver, const VerifyOptions& options) {
  if (!plan.valid()) return Status::Error(Code::kInvalidArgument, "the plan is an empty handle");
  if (driver == nullptr) return Status::Error(Code::kInvalidArgument, "no driver to run the plan on");
  if (options.program != kNone && options.program >= plan.data().programs.size()) {
    return Status::Error(Code::kInvalidArgument, "program %u does not exist, the plan has %zu",
                         options.program, plan.data().programs.size());
  }
  return verify::Verifier(plan, driver, options).Run();
}

}  // namespace rondo
