// Profiles of rondo tune and rondo profile: a profile that was read must read back as written, and its notes
// among a plan's sources must give the numbers of the estimates. Other inputs are such notes, one per line.
#include <string>
#include <vector>

#include "tests/fuzz/target.h"
#include "tools/rondo/profile.h"

namespace rondo::fuzz {
namespace {

constexpr const char* kStages[] = {"refused", "read"};

tools::TuningProfile Sample() {
  tools::TuningProfile profile;
  profile.gpu = "NVIDIA H200";
  profile.architecture = "sm_90a";
  profile.driver = 13000;
  profile.kernels[1] = {"k1_convolution", "Conv", "library 3", {{"library 3", 7.5}}};
  return profile;
}

tools::TuningProfile Times() {
  tools::TuningProfile profile = Sample();
  profile.nccl = "2.31.2";
  profile.times[7] = {"k0_map", "Add", 3, 0.5};
  profile.collectives = {{CollectiveOp::kAllReduce, 2, false, {{4096, 7.125}, {65536, 8.5}}},
                         {CollectiveOp::kAllGather, 8, true, {{512, 2.25}}}};
  profile.runs = {{"0123456789abcdef", "main", 2, 2120.5, 2057.1}};
  return profile;
}

Bytes BytesOf(const std::string& text) { return Bytes(text.begin(), text.end()); }

std::optional<MeasuredTimes> Notes(const std::vector<std::string>& texts) {
  const std::vector<std::string_view> sources(texts.begin(), texts.end());
  return ParseMeasuredTimes(Span<const std::string_view>(sources));
}

// Reads each line as a text of a plan. Returns whether one of them names the profile.
bool ReadAsNotes(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const std::optional<MeasuredTimes> notes = Notes(lines);
  if (!notes) return false;
  const std::vector<std::string> written = TextsOf(*notes);
  if (TextsOf(*Notes(written)) != written) Broken("notes of a plan read back changed");
  return true;
}

class Profiles final : public Target {
 public:
  const char* name() const override { return "profile"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override {
    return MutateNumbers(input, input.size(), random);
  }
  size_t Run(Span<const uint8_t> input) override {
    const std::string text(input.begin(), input.end());
    if (text.empty() || text[0] != '{') return ReadAsNotes(text) ? 1 : 0;
    const Result<tools::TuningProfile> read = tools::ParseProfile(text, "p");
    if (!read.ok()) return 0;
    const std::string written = tools::ProfileJson(*read);
    const Result<tools::TuningProfile> again = tools::ParseProfile(written, "p");
    if (!again.ok()) Broken("a written profile is not read: %s", again.status().message());
    if (tools::ProfileJson(*again) != written) Broken("a profile reads back changed");
    const std::shared_ptr<const MeasuredTimes> times = tools::ChoicesOf(*read).times;
    if (times == nullptr) return 1;
    const std::optional<MeasuredTimes> notes = Notes(TextsOf(*times));
    if (!notes || notes->kernels != times->kernels || TextsOf(*notes) != TextsOf(*times))
      Broken("a plan keeps other times than its compiler had");
    for (const MeasuredCollective& collective : times->collectives) {
      const LatencyAndRate fit = collective.Fit();
      if (!(fit.latency >= 0) || !(fit.rate > 0)) Broken("a line of %g, %g", fit.latency, fit.rate);
    }
    return 1;
  }
  std::vector<Seed> MakeSeeds() override {
    const std::vector<std::string> notes = TextsOf(*tools::TimesOf(Times()));
    std::string lines;
    for (const std::string& note : notes) lines += note + "\n";
    tools::TuningProfile host = Times();
    host.gpu = host.architecture = "host";
    host.kernels.clear();
    return {{"tune.json", BytesOf(tools::ProfileJson(Sample()))},
            {"host.json", BytesOf(tools::ProfileJson(host))},
            {"times.json", BytesOf(tools::ProfileJson(Times()))},
            {"notes.txt", BytesOf(lines)}};
  }
};

}  // namespace

std::unique_ptr<Target> ProfileTarget() { return std::make_unique<Profiles>(); }

}  // namespace rondo::fuzz
