#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "formats/plan/plan_timeline.h"
#include "formats/plan/traffic.h"
#include "tools/rondo/bucket_run.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/device_tensors.h"
#include "tools/rondo/estimates.h"
#include "tools/rondo/json_parts.h"
#include "tools/rondo/launch.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/timings.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Sorted times.
struct Spread {
  std::vector<double> times;

  explicit Spread(std::vector<double> of) : times(std::move(of)) { std::sort(times.begin(), times.end()); }
  double median() const { return Quantile(times, 0.5); }
  std::string Text() const {
    return Printf("median %.1f µs over %zu runs (least %.1f, 10 %% below %.1f, 90 %% below %.1f, most %.1f)",
                  median(), times.size(), times.front(), Quantile(times, 0.1), Quantile(times, 0.9),
                  times.back());
  }
};

// The measurements of one program.
struct Measured {
  std::vector<double> wall, device;             // microseconds, by run
  std::vector<std::vector<double>> partitions;  // microseconds, by partition and run
  std::vector<std::vector<double>> steps;       // by step and run
  std::vector<TracedReplay> traced;             // the last run of each kind
  // Wall times with all outputs in host memory, in device memory, and in other device memory in each run.
  std::vector<std::vector<double>> by_memory;
};

constexpr double kH200Gbps = 4670;  // the measured rate of a read-only stream

class BenchCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    DeclarePlan(options, &plans_);
    DeclareProgram(options, &program_);
    DeclareInputs(options, &inputs_, kSyntheticInputs);
    options.Integer("--runs", &runs_, 1, 1000000, "measure N runs, after a tenth as many to warm up")
        .Integer("--top", &top_, 0, 1000000, "show the N slowest steps; 0: all");
    DeclareTrace(options, &trace_);
    options
        .Flag("--device-memory", &device_memory_,
              "also time runs with all outputs in host memory and in device memory")
        .Rare()
        .Number("--memory-gbps", &memory_gbps_,
                "bandwidth of the device's memory, for the floor of each step; default on GPUs: an H200's")
        .Rare();
    DeclareLoad(options, &load_);
    out_.Declare(options);
  }

  int Run() override {
    if (auto devices = ParseDevices(load_.devices); !devices.ok())
      return out_.Misuse("bench", devices.status().message());
    if (const std::string wrong = NotNamedFile(inputs_); !wrong.empty()) return out_.Misuse("bench", wrong);
    if (memory_gbps_ != 0 && !(memory_gbps_ >= 1e-3 && memory_gbps_ <= 1e9))
      return out_.Misuse("bench", Printf("--memory-gbps %g is not a number from 0.001 to 1e9", memory_gbps_));
    Result<std::vector<Tensor>> inputs = ReadNamedTensors(inputs_);
    if (!inputs.ok()) return out_.Fail("bench", inputs.status());
    if (const Status joined = JoinOthers(&load_); !joined.ok()) return out_.Fail("bench", joined);
    if (device_memory_ && load_.processes != nullptr)
      return out_.Misuse("bench", "--device-memory wants all devices of a plan in one process");
    ReadyTimes ready;
    load_.ready = &ready;
    auto loaded = LoadedSession::Open(plans_[0], load_);
    if (!loaded.ok()) return out_.Fail("bench", loaded.status());
    on_host_ = (*loaded)->on_host();
    if (const std::string variants = (*loaded)->Variants(); !variants.empty())
      out_.Line("runs as %s", Printable(variants).c_str());
    if (!on_host_ && memory_gbps_ == 0) memory_gbps_ = kH200Gbps;
    out_.Line("on %s; ready in %s", (*loaded)->runs_on().Text().c_str(), ready.Text().c_str());
    out_.object() = {{"plan", plans_[0]},
                     {"runs_on", ToJson((*loaded)->runs_on())},
                     {"ready_ms", ToJson(ready)},
                     {"programs", Json::array()}};

    auto buckets = OpenBuckets((*loaded)->session, program_);
    if (!buckets.ok()) return out_.Fail("bench", buckets.status());
    if (*buckets != nullptr && !inputs->empty()) {
      const Status status = MeasureBucket((*loaded)->session, **buckets, *inputs);
      return status.ok() ? out_.Finish(0) : out_.Fail("bench", status);
    }
    const uint32_t count = CountPrograms((*loaded)->data());
    for (uint32_t p = 0; p < count; ++p) {
      if (*buckets != nullptr) {
        const auto& family = (*buckets)->family().buckets();
        if (std::none_of(family.begin(), family.end(), [&](const auto& b) { return b.program == p; }))
          continue;
      } else if (!program_.empty()) {
        Result<uint32_t> named = (*loaded)->Program(program_);
        if (!named.ok()) return out_.Fail("bench", named.status());
        if (*named != p) continue;
      }
      Session& session = (*loaded)->session;
      if (Status status = Measure(session, session.chosen(p), *inputs); !status.ok())
        return out_.Fail("bench", status);
    }
    if (!trace_.empty() && (load_.processes == nullptr || load_.processes->rank() == 0)) {
      if (Status status = WriteTrace((*loaded)->data(), traced_, trace_); !status.ok())
        return out_.Fail("bench", status);
    }
    return out_.Finish(0);
  }

 private:
  // Runs tensors of their true shapes as a user does: a bucket is chosen, and tensors are padded and cut.
  Status MeasureBucket(Session& session, BucketSession& buckets, const std::vector<Tensor>& given) {
    RONDO_ASSIGN_OR_RETURN(const TrueRun run, ChooseFor(session.plan().data(), buckets.family(), given));
    std::vector<Tensor> tensors;
    const std::vector<Output> outputs = OutputsOf(session, buckets.family(), run, &tensors);
    std::vector<double> times;
    for (int64_t i = -(runs_ + 9) / 10; i < runs_; ++i) {
      const auto start = Clock::now();
      RONDO_RETURN_IF_ERROR(buckets.Run(run.inputs, outputs));
      if (i >= 0) times.push_back(Seconds(Clock::now() - start) * 1e6);
    }
    const Spread wall(times);
    const std::string program(session.plan().data().programs[run.program].name);
    const std::string lengths = LengthsText(buckets.family(), run.choice);
    out_.Line("bucket %s holds %s", program.c_str(), lengths.c_str());
    out_.Line("  wall time of a run, padded and cut: %s", wall.Text().c_str());
    out_.object()["programs"].push_back(
        {{"name", program}, {"lengths", lengths}, {"wall_us", SpreadJson(wall.times)}});
    return Status::Ok();
  }

  Status Measure(Session& session, uint32_t program, const std::vector<Tensor>& given) {
    const PlanData& plan = session.plan().data();
    std::vector<Tensor> tensors = FillInputs(plan, program, given);
    RONDO_RETURN_IF_ERROR(SetStates(session, program, &tensors));
    const std::vector<Input> inputs = InputsOf(plan, program, tensors);
    Measured measured;
    RONDO_RETURN_IF_ERROR(MeasureRuns(session, program, inputs, &measured));
    RONDO_RETURN_IF_ERROR(MeasureSteps(session, program, inputs, &measured));
    if (device_memory_) RONDO_RETURN_IF_ERROR(MeasureMemory(session, program, inputs, &measured));
    progress_.Clear();
    const Program& of = plan.programs[program];
    const Spread wall(measured.wall), device(measured.device);
    Json json = {{"name", std::string(of.name)},
                 {"wall_us", SpreadJson(wall.times)},
                 {on_host_ ? "replay_us" : "device_us", SpreadJson(device.times)}};
    out_.Line("%s", "");
    out_.Line("program %s", std::string(of.name).c_str());
    out_.Line("  wall time of a run: %s", wall.Text().c_str());
    out_.Line("  %s: %s", on_host_ ? "of it graph replay" : "device time of graph replay, by events",
              device.Text().c_str());
    if (EstimatesAreTimes(plan)) {
      const double estimated = TimelineOf(plan, of).end;
      out_.Line("  by estimate %.1f µs, %.2f times that: by %s", estimated, estimated / device.median(),
                OriginsOf(CostModelOf(plan), plan).Text().c_str());
      json["estimated_us"] = estimated;
    }
    PrintPartitions(of, measured, &json);
    const char* const places[] = {"host memory", "device memory", "other device memory each run"};
    for (size_t i = 0; i < measured.by_memory.size(); ++i) {
      const Spread spread(measured.by_memory[i]);
      out_.Line("  wall time with inputs and outputs in %s: %s", places[i], spread.Text().c_str());
      json["wall_us_in"][places[i]] = SpreadJson(spread.times);
    }
    PrintSteps(plan, program, measured, &json);
    PrintCollectives(plan, measured.traced.back(), &json);
    out_.object()["programs"].push_back(std::move(json));
    traced_.insert(traced_.end(), measured.traced.begin(), measured.traced.end());
    return Status::Ok();
  }

  // Runs as a user does, and then with events around the graphs. On GPUs, those runs have their inputs and
  // outputs in device memory: a copy just before a graph makes its kernels begin with a cold machine.
  Status MeasureRuns(Session& session, uint32_t program, const std::vector<Input>& inputs,
                     Measured* measured) {
    for (int64_t i = -(runs_ + 9) / 10; i < runs_; ++i) {
      const auto start = Clock::now();
      RONDO_RETURN_IF_ERROR(session.Run(program, inputs, {}));
      progress_.Show("run %lld of %lld ...", static_cast<long long>(i), static_cast<long long>(runs_));
      if (i >= 0) measured->wall.push_back(Seconds(Clock::now() - start) * 1e6);
    }
    RONDO_ASSIGN_OR_RETURN(RunTimer timer, RunTimer::Create(session, program, TimerDetail::kPartitions));
    RunOptions options;
    options.timer = &timer;
    std::vector<TimedInterval> last;
    measured->partitions.resize(timer.size());
    std::optional<DeviceTensors> tensors;
    if (!on_host_) {
      Result<DeviceTensors> created = DeviceTensors::Create(session, program, inputs);
      if (!created.ok()) return created.status();
      tensors.emplace(created.Take());
    }
    const std::vector<Input>& given = tensors ? tensors->inputs() : inputs;
    const std::vector<Output> made = tensors ? tensors->outputs() : std::vector<Output>();
    for (int64_t i = 0; i < runs_; ++i) {
      progress_.Show("timed run %lld of %lld ...", static_cast<long long>(i), static_cast<long long>(runs_));
      RONDO_RETURN_IF_ERROR(session.Run(program, given, made, options));
      RONDO_ASSIGN_OR_RETURN(last, ReadAll(timer));
      measured->device.push_back(LongestDevice(last));
      for (const TimedInterval& p : last) measured->partitions[p.index].push_back(p.duration);
    }
    measured->traced.push_back({program, TimerDetail::kPartitions, last});
    return Status::Ok();
  }

  // The three kinds of memory take turns.
  Status MeasureMemory(Session& session, uint32_t program, const std::vector<Input>& inputs,
                       Measured* measured) {
    RONDO_ASSIGN_OR_RETURN(DeviceTensors here, DeviceTensors::Create(session, program, inputs));
    RONDO_ASSIGN_OR_RETURN(DeviceTensors there, DeviceTensors::Create(session, program, inputs));
    std::vector<std::vector<uint8_t>> room;
    std::vector<Output> outputs = here.outputs();
    for (Output& output : outputs) {
      room.emplace_back(output.bytes);
      output.data = room.back().data();
      output.memory = MemoryKind::kHost;
    }
    measured->by_memory.resize(3);
    for (int64_t i = -(runs_ + 9) / 10; i < runs_; ++i) {
      const auto time = [&](size_t place, const std::vector<Input>& in, const std::vector<Output>& out) {
        const auto start = Clock::now();
        Status status = session.Run(program, in, out);
        if (i >= 0) measured->by_memory[place].push_back(Seconds(Clock::now() - start) * 1e6);
        return status;
      };
      RONDO_RETURN_IF_ERROR(time(0, inputs, outputs));
      for (int again = 0; again < 2; ++again) {  // after that, all steps have the addresses
        RONDO_RETURN_IF_ERROR(session.Run(program, here.inputs(), here.outputs()));
      }
      RONDO_RETURN_IF_ERROR(time(1, here.inputs(), here.outputs()));
      RONDO_RETURN_IF_ERROR(time(2, there.inputs(), there.outputs()));
    }
    return Status::Ok();
  }

  Status MeasureSteps(Session& session, uint32_t program, const std::vector<Input>& inputs,
                      Measured* measured) {
    RONDO_ASSIGN_OR_RETURN(RunTimer timer, RunTimer::Create(session, program, TimerDetail::kSteps));
    RunOptions options;
    options.timer = &timer;
    measured->steps.resize(timer.size());
    std::vector<TimedInterval> last;
    const int64_t runs = std::clamp<int64_t>(runs_ / 5, 3, 50);
    for (int64_t i = -1; i < runs; ++i) {
      progress_.Show("run %lld of %lld, step by step ...", static_cast<long long>(i),
                     static_cast<long long>(runs));
      RONDO_RETURN_IF_ERROR(session.Run(program, inputs, {}, options));
      RONDO_ASSIGN_OR_RETURN(last, ReadAll(timer));
      for (const TimedInterval& step : last) {
        if (i >= 0) measured->steps[step.index].push_back(step.duration);
      }
    }
    measured->traced.push_back({program, TimerDetail::kSteps, last});
    return Status::Ok();
  }

  // Only prints several partitions: a single one would add nothing to the times above.
  void PrintPartitions(const Program& program, const Measured& measured, Json* json) {
    if (program.partitions.size() < 2) return;
    Section section;
    section.title = Printf("%zu partitions (medians)", program.partitions.size());
    section.table.head = {"partition", "device", "steps", "µs", "ends because of", ""};
    for (size_t p = 0; p < program.partitions.size(); ++p) {
      const Partition& partition = program.partitions[p];
      const double median = Spread(measured.partitions[p]).median();
      section.table.rows.push_back({std::to_string(p), std::to_string(partition.device),
                                    std::to_string(partition.num_steps), Printf("%.1f", median),
                                    Name(partition.reason), std::string(partition.detail)});
      (*json)["partitions"].push_back({{"device", partition.device},
                                       {"steps", partition.num_steps},
                                       {"median_us", median},
                                       {"reason", Name(partition.reason)}});
    }
    out_.Print(section);
  }

  // --top limits the table, not the object.
  void PrintSteps(const PlanData& plan, uint32_t program, const Measured& measured, Json* json) {
    const Program& of = plan.programs[program];
    std::vector<double> medians;
    for (const std::vector<double>& times : measured.steps) medians.push_back(Spread(times).median());
    const double sum = std::accumulate(medians.begin(), medians.end(), 0.0);
    std::vector<uint32_t> order(medians.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return medians[a] > medians[b]; });
    for (uint32_t s : order) (*json)["steps"].push_back(StepJson(plan, of, s, medians[s]));
    if (top_ > 0 && order.size() > static_cast<size_t>(top_)) order.resize(static_cast<size_t>(top_));

    Section section;
    section.title = Printf("%zu steps with an event after each: %.1f µs in all (medians%s)", medians.size(),
                           sum, Floor("; floor: bytes at %.0f GB/s", memory_gbps_).c_str());
    section.table.head = {"step", "µs", "%", "bytes"};
    if (memory_gbps_ > 0) section.table.head.push_back("floor µs");
    for (const char* head : {"GB/s", "GFLOP/s", "kernel", "label", "source nodes"})
      section.table.head.push_back(head);
    for (uint32_t s : order) section.table.rows.push_back(StepRow(plan, of, s, medians[s], sum));
    out_.Print(section);
  }

  // For the last run step by step, if there is one.
  void PrintCollectives(const PlanData& plan, const TracedReplay& replay, Json* json) {
    const std::vector<DeviceOverlap> devices = OverlapOf(plan, replay);
    if (devices.empty()) return;
    Section section;
    section.title = "collectives of the last of these runs, µs";
    section.table.head = {"device", "collectives", "in flight", "beside compute", "waited for"};
    for (const DeviceOverlap& of : devices) {
      section.table.rows.push_back({std::to_string(of.device), std::to_string(of.collectives),
                                    Printf("%.1f", of.in_flight), Printf("%.1f", of.beside),
                                    Printf("%.1f", of.waited)});
    }
    for (const TracedCollective& c : CollectivesOf(plan, replay)) {
      (*json)["collectives"].push_back({{"sync_point", c.sync_point},
                                        {"device", c.device},
                                        {"begin_us", c.begin},
                                        {"end_us", c.end},
                                        {"compute_between_us", c.beside},
                                        {"waited_us", c.waited}});
    }
    out_.Print(section);
  }

  // A text about the floor, if it is known: a host's memory rate is not.
  std::string Floor(const char* format, double value) const {
    return memory_gbps_ > 0 ? Printf(format, value) : "";
  }
  double FloorMicroseconds(const Traffic& traffic) const {
    return static_cast<double>(traffic.read + traffic.written) / memory_gbps_ * 1e-3;
  }

  Json StepJson(const PlanData& plan, const Program& program, uint32_t number, double microseconds) const {
    const Step& step = program.steps[number];
    const Traffic traffic = RunTraffic(plan, program, number);
    Json json = {{"step", number},
                 {"median_us", microseconds},
                 {"bytes_read", traffic.read},
                 {"bytes_written", traffic.written},
                 {"operations", traffic.operations},
                 {"what", StepText(plan, step)},
                 {"source", SourceText(plan, step.source)}};
    if (memory_gbps_ > 0) json["floor_us"] = FloorMicroseconds(traffic);
    return json;
  }

  std::vector<std::string> StepRow(const PlanData& plan, const Program& program, uint32_t number,
                                   double microseconds, double sum) const {
    const Step& step = program.steps[number];
    const Traffic traffic = RunTraffic(plan, program, number);
    const double bytes = static_cast<double>(traffic.read + traffic.written);
    const double operations = static_cast<double>(traffic.operations);
    const double rate = 1e-3 / std::max(microseconds, 1e-3);
    const bool launch = step.kind == StepKind::kLaunch;
    std::vector<std::string> row = {std::to_string(number), Printf("%.1f", microseconds),
                                    Printf("%.1f", 100 * microseconds / std::max(sum, 1e-3)),
                                    Printf("%.0f", bytes)};
    if (memory_gbps_ > 0) row.push_back(Printf("%.1f", FloorMicroseconds(traffic)));
    row.insert(row.end(),
               {Printf("%.1f", bytes * rate),
                traffic.operations == 0 ? "" : Printf("%.1f", operations * rate), StepText(plan, step),
                launch ? std::string(plan.kernels[step.kernel].label) : "", SourceText(plan, step.source)});
    return row;
  }

  std::vector<std::string> plans_, inputs_;
  std::string program_, trace_;
  double memory_gbps_ = 0;  // 0: unknown
  bool on_host_ = false;
  CommandOutput out_;
  Progress progress_{&out_};
  std::vector<TracedReplay> traced_;
  int64_t runs_ = 50, top_ = 20;
  bool device_memory_ = false;
  LoadOptions load_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace rondo::tools
