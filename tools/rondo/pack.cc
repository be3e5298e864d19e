#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "compiler/memory/packing.h"
#include "core/files.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

// The beginning of FormatPackingCsv's text.
constexpr FileKind kOffsets = {"a file of offsets", "id,lower,upper,size,offset\n"};

constexpr int64_t kRounds = 8000;  // the default
constexpr int64_t kMostRounds = 1'000'000'000;
constexpr double kMostSeconds = 1e9;  // more would overflow clocks

// Identifiers are printed as in the file.
void PrintLines(const std::string& csv) {
  for (size_t at = 0; at < csv.size();) {
    const size_t end = std::min(csv.find('\n', at), csv.size());
    std::printf("%s\n", Printable(csv.substr(at, end - at)).c_str());
    at = end + 1;
  }
}

class PackCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Positional("CSV", &files_, 1, 1, "lines of id,lower,upper,size under a header with these names")
        .Integer("--capacity", &capacity_, 0, INT64_MAX, "bytes there are; the search ends when they suffice",
                 "BYTES")
        .Integer("--alignment", &alignment_, 1, 1 << 20, "of every offset", "BYTES")
        .Integer(
            "--rounds", &rounds_, 1, kMostRounds,
            "effort, the same on every machine: orders tried, and millions of looks at a buffer in the exact "
            "search, at most; 8000 (about 45 s) if neither this nor --seconds is given")
        .Number("--seconds", &seconds_, "time at most, with results that depend on the machine", "S")
        .Text("-o,--output", &output_, "write the offsets to this file instead of standard output", "FILE");
    out_.Declare(options);
  }

  int Run() override {
    if (!(seconds_ >= 0 && seconds_ <= kMostSeconds)) {
      return out_.Misuse("pack", "--seconds must be a number from 0 to 1e9");
    }
    Result<std::vector<uint8_t>> text = ReadInputFile(files_[0]);
    if (!text.ok()) return out_.Fail("pack", text.status());
    Result<PackingProblem> problem =
        ParsePackingCsv(std::string_view(reinterpret_cast<const char*>(text->data()), text->size()));
    if (!problem.ok()) return out_.Fail("pack", problem.status().At("%s", files_[0].c_str()));
    problem->alignment = alignment_;
    const PackingOptions options = Options();
    const PackingSolution solution = Pack(*problem, options);
    if (const std::string fault = CheckPacking(*problem, solution); !fault.empty()) {
      return out_.Fail("pack", Status::Error(Code::kInternal, "%s", fault.c_str()));
    }
    const std::string csv = FormatPackingCsv(*problem, solution);
    out_.object() = {{"buffers", problem->buffers.size()},
                     {"bytes", solution.height},
                     {"lower_bound", solution.lower_bound},
                     {"orders", solution.rounds},
                     {"nodes", solution.nodes},
                     {"proved_too_small", TooSmall(solution)},
                     {"offsets", solution.offsets}};
    if (output_.empty()) {
      if (!out_.json()) PrintLines(csv);
    } else if (Status status = ReplaceFile(output_, kOffsets, csv.data(), csv.size()); !status.ok()) {
      return out_.Fail("pack", status);
    }
    if (!out_.json() && !out_.quiet())
      std::fprintf(stderr, "%zu buffers in %lld bytes; lower bound %lld; %d orders and %lld nodes tried\n",
                   problem->buffers.size(), static_cast<long long>(solution.height),
                   static_cast<long long>(solution.lower_bound), solution.rounds,
                   static_cast<long long>(solution.nodes));
    if (capacity_ > 0 && solution.height > capacity_) return out_.Fail("pack", DoesNotFit(solution));
    return out_.Finish(0);
  }

 private:
  PackingOptions Options() const {
    PackingOptions options;
    options.capacity = capacity_;
    const int64_t rounds = rounds_ > 0 ? rounds_ : seconds_ > 0 ? kMostRounds : kRounds;
    options.rounds = static_cast<int>(rounds);
    options.work = rounds * 1'000'000;
    if (seconds_ > 0) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
      options.stop = [end] { return std::chrono::steady_clock::now() >= end; };
    }
    return options;
  }

  // Whether no packing fits the capacity.
  bool TooSmall(const PackingSolution& solution) const {
    if (capacity_ == 0) return false;
    return solution.lower_bound > capacity_ || solution.exhausted;
  }

  Status DoesNotFit(const PackingSolution& solution) const {
    const auto capacity = static_cast<long long>(capacity_);
    const auto bound = static_cast<long long>(solution.lower_bound);
    const auto height = static_cast<long long>(solution.height);
    if (bound > capacity) {
      return Status::Error(
          Code::kOutOfMemory,
          "the buffers cannot fit in the capacity of %lld bytes: those alive at one time take %lld; "
          "the best packing found takes %lld",
          capacity, bound, height);
    }
    if (solution.exhausted) {
      return Status::Error(
          Code::kOutOfMemory,
          "the buffers cannot fit in the capacity of %lld bytes: the search saw every packing, though "
          "those alive at one time take no more than %lld; the best packing found takes %lld",
          capacity, bound, height);
    }
    return Status::Error(
        Code::kOutOfMemory,
        "the search gave up: the best packing found takes %lld bytes, more than the capacity of %lld; "
        "those alive at one time take %lld, so that more --rounds or --seconds may find one that fits",
        height, capacity, bound);
  }

  std::vector<std::string> files_;
  std::string output_;
  CommandOutput out_;
  int64_t capacity_ = 0, alignment_ = 1, rounds_ = 0;
  double seconds_ = 0;  // 0: no limit
};

}  // namespace

std::unique_ptr<Command> MakePackCommand() { return std::make_unique<PackCommand>(); }

}  // namespace rondo::tools
