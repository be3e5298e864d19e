#include <nlohmann/json.hpp>

#include "compiler/memory/packing.h"
#include "core/files.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

// As FormatPackingCsv begins.
constexpr FileKind kOffsets = {"a file of offsets", "id,lower,upper,size,offset\n"};

class PackCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Positional("CSV", &files_, 1, 1, "lines of id,lower,upper,size under a header with these names")
        .Integer("--capacity", &capacity_, 0, INT64_MAX, "bytes there are; the search ends when they suffice",
                 "BYTES")
        .Integer("--alignment", &alignment_, 1, 1 << 20, "of every offset", "BYTES")
        .Integer("--rounds", &rounds_, 1, 1000000000, "placements tried at most")
        .Text("-o,--output", &output_, "write the offsets to this file instead of standard output", "FILE");
    out_.Declare(options);
  }

  int Run() override {
    Result<std::vector<uint8_t>> text = ReadInputFile(files_[0]);
    if (!text.ok()) return Fail("pack", text.status());
    Result<PackingProblem> problem =
        ParsePackingCsv(std::string_view(reinterpret_cast<const char*>(text->data()), text->size()));
    if (!problem.ok()) return Fail("pack", problem.status().At("%s", files_[0].c_str()));
    problem->alignment = alignment_;
    PackingOptions options;
    options.capacity = capacity_;
    options.rounds = static_cast<int>(std::min<int64_t>(rounds_, INT32_MAX));
    const PackingSolution solution = Pack(*problem, options);
    if (const std::string fault = CheckPacking(*problem, solution); !fault.empty()) {
      return Fail("pack", Status::Error(Code::kInternal, "%s", fault.c_str()));
    }
    const std::string csv = FormatPackingCsv(*problem, solution);
    out_.object() = {{"buffers", problem->buffers.size()},
                     {"bytes", solution.height},
                     {"lower_bound", solution.lower_bound},
                     {"placements", solution.rounds},
                     {"offsets", solution.offsets}};
    if (output_.empty()) {
      if (!out_.json()) std::fputs(csv.c_str(), stdout);
    } else if (Status status = ReplaceFile(output_, kOffsets, csv.data(), csv.size()); !status.ok()) {
      return Fail("pack", status);
    }
    if (!out_.json())
      std::fprintf(stderr, "%zu buffers in %lld bytes; lower bound %lld; %d placements tried\n",
                   problem->buffers.size(), static_cast<long long>(solution.height),
                   static_cast<long long>(solution.lower_bound), solution.rounds);
    if (capacity_ > 0 && solution.height > capacity_) {
      return out_.Finish(Fail(
          "pack", Status::Error(Code::kOutOfMemory,
                                "the best packing found takes %lld bytes, more than the "
                                "capacity of %lld",
                                static_cast<long long>(solution.height), static_cast<long long>(capacity_))));
    }
    return out_.Finish(0);
  }

 private:
  std::vector<std::string> files_;
  std::string output_;
  CommandOutput out_;
  int64_t capacity_ = 0, alignment_ = 1, rounds_ = 2000;
};

}  // namespace

std::unique_ptr<Command> MakePackCommand() { return std::make_unique<PackCommand>(); }

}  // namespace rondo::tools
