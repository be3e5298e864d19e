#include "formats/plan/measured_times.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <tuple>

#include "formats/machine_code/binary_digest.h"
#include "formats/plan/note_reader.h"

namespace rondo {
namespace {

constexpr double kBeyondLargest = 4;
constexpr std::string_view kProfile = "times from profile \"", kMeasured = "measured ",
                           kEstimated = "estimated ", kTaken = "loss of compute beside collectives: ";

std::string Text(const char* format, auto... values) {
  char text[96];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

bool CanBe(double microseconds) { return microseconds >= kLeastMeasured && microseconds <= kMostMeasured; }

std::string TextOf(const MeasuredCollective& collective) {
  std::string text = std::string(kMeasured) + Name(collective.op) + " among " +
                     std::to_string(collective.ranks) + (collective.small ? " by small kernels:" : ":");
  const char* separator = " ";
  for (const auto& [bytes, time] : collective.microseconds) {
    text += separator + Text("%" PRIu64 " bytes %.3f us", bytes, time);
    separator = ", ";
  }
  return text;
}

void AddKernels(std::string_view how, const KernelTimes& times, std::vector<std::string>* texts) {
  for (const auto& [key, time] : times)
    texts->push_back(std::string(how) + Text("kernel %016" PRIx64 ": %.3f us", key, time));
}

void ReadKernel(NoteReader in, KernelTimes* times) {
  std::string digits;
  in.Until(": ", &digits);
  uint64_t key = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), key, 16);
  double time = 0;
  in.Number(&time);
  in.Expect(" us");
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && digits.size() == 16;
  if (in.ok() && in.Rest().empty() && whole && CanBe(time)) (*times)[key] = time;
}

void ReadTaken(NoteReader in, std::optional<double>* taken) {
  double value = 0;
  in.Number(&value);
  if (in.ok() && in.Rest().empty() && value >= 0 && value <= kMostTaken) *taken = value;
}

void ReadCollective(NoteReader in, CollectiveOp op, MeasuredTimes* times) {
  MeasuredCollective collective = {op, 0, false, {}};
  in.Number(&collective.ranks);
  collective.small = in.Take(" by small kernels");
  in.Expect(": ");
  do {
    uint64_t bytes = 0;
    double time = 0;
    in.Number(&bytes);
    in.Expect(" bytes ");
    in.Number(&time);
    in.Expect(" us");
    if (!in.ok() || !CanBe(time)) return;
    collective.microseconds[bytes] = time;
  } while (in.Take(", "));
  if (in.Rest().empty()) times->collectives.push_back(std::move(collective));
}

}  // namespace

double ToThousandths(double microseconds) {
  return std::clamp(std::round(microseconds * 1e3) / 1e3, kLeastMeasured, kMostMeasured);
}

LatencyAndRate MeasuredCollective::Fit() const {
  // Minimises the sum of ((latency + bytes / rate) / time - 1)^2: two linear equations in latency and 1 /
  // rate.
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const auto& [bytes, time] : microseconds) {
    const double of_latency = 1 / time, of_byte = static_cast<double>(bytes) / time;
    aa += of_latency * of_latency;
    ab += of_latency * of_byte;
    bb += of_byte * of_byte;
    a += of_latency;
    b += of_byte;
  }
  const double determinant = aa * bb - ab * ab, infinity = std::numeric_limits<double>::infinity();
  const bool line = microseconds.size() > 1 && determinant > 1e-12 * aa * bb;
  const double byte = line ? (aa * b - ab * a) / determinant : 0;
  if (byte <= 0) return {aa > 0 ? a / aa : 0, infinity};
  const double latency = (bb * a - ab * b) / determinant;
  return latency >= 0 ? LatencyAndRate{latency, 1 / byte} : LatencyAndRate{0, bb / b};
}

std::optional<double> MeasuredCollective::Of(uint64_t bytes) const {
  const auto high = microseconds.lower_bound(bytes);
  if (high == microseconds.end()) {
    if (microseconds.size() < 2) return std::nullopt;
    const auto& [largest, time] = *microseconds.rbegin();
    const double more = static_cast<double>(bytes) - static_cast<double>(largest);
    if (more > (kBeyondLargest - 1) * static_cast<double>(largest)) return std::nullopt;
    return time + more / Fit().rate;
  }
  if (high == microseconds.begin() || high->first == bytes) return high->second;
  const auto low = std::prev(high);
  const double share =
      static_cast<double>(bytes - low->first) / static_cast<double>(high->first - low->first);
  return low->second + share * (high->second - low->second);
}

std::optional<double> FitTaken(double run, const std::function<double(double)>& end_with) {
  constexpr double kLeastDifference = 0.02;  // share of the run
  constexpr int kHalvings = 20;
  double low = 0, high = kMostTaken;
  if (end_with(high) < end_with(low) * (1 + kLeastDifference)) return std::nullopt;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (end_with(middle) < run ? low : high) = middle;
  }
  return std::round((low + high) / 2 * 1e3) / 1e3;
}

std::optional<double> MeasuredTimes::OfKernel(const Kernel& kernel) const {
  if (kernels.empty()) return std::nullopt;
  const auto found = kernels.find(KernelDigest(kernel));
  if (found == kernels.end()) return std::nullopt;
  return found->second;
}

std::optional<double> MeasuredTimes::OfCollective(CollectiveOp op, uint64_t bytes, size_t ranks,
                                                  bool small) const {
  for (const MeasuredCollective& collective : collectives) {
    if (collective.op == op && collective.ranks == ranks && collective.small == small)
      return collective.Of(bytes);
  }
  return std::nullopt;
}

std::optional<uint64_t> MeasuredTimes::SmallUpTo(CollectiveOp op, size_t ranks) const {
  std::optional<uint64_t> largest;
  for (const MeasuredCollective& collective : collectives) {
    if (collective.op != op || collective.ranks != ranks || !collective.small) continue;
    for (const auto& [bytes, time] : collective.microseconds) {
      const std::optional<double> nccl = OfCollective(op, bytes, ranks, false);
      if (!nccl) break;
      if (!largest) largest = 0;
      if (time >= *nccl) break;
      largest = bytes;
    }
  }
  return largest;
}

MeasuredTimes MeasuredTimes::ThoseOf(const PlanData& plan) const {
  MeasuredTimes part = {profile, {}, {}};
  for (const Kernel& kernel : plan.kernels) {
    if (const std::optional<double> time = OfKernel(kernel)) part.kernels[KernelDigest(kernel)] = *time;
  }
  std::set<std::tuple<CollectiveOp, size_t>> asked;
  for (const Program& program : plan.programs) {
    for (const SyncPoint& point : program.sync_points) asked.emplace(point.op, point.participants.size());
  }
  for (const MeasuredCollective& collective : collectives) {
    if (asked.count({collective.op, collective.ranks}) > 0) part.collectives.push_back(collective);
  }
  if (!asked.empty()) part.taken = taken;
  return part;
}

std::vector<std::string> TextsOf(const MeasuredTimes& times) {
  std::vector<std::string> texts = {std::string(kProfile) + times.profile + "\""};
  AddKernels(kMeasured, times.kernels, &texts);
  for (const MeasuredCollective& collective : times.collectives) texts.push_back(TextOf(collective));
  if (times.taken) texts.push_back(std::string(kMeasured) + std::string(kTaken) + Text("%.3f", *times.taken));
  return texts;
}

std::optional<MeasuredTimes> ParseMeasuredTimes(Span<const std::string_view> sources) {
  MeasuredTimes times;
  bool found = false;
  for (std::string_view source : sources) {
    NoteReader in(source);
    if (in.Take(kProfile)) {
      found = true;
      times.profile = in.Rest().substr(0, in.Rest().rfind('"'));
    } else if (in.Take(kMeasured)) {
      if (in.Take("kernel ")) ReadKernel(in, &times.kernels);
      if (in.Take(kTaken)) ReadTaken(in, &times.taken);
      for (int op = 0; op <= static_cast<int>(kLastCollectiveOp); ++op) {
        const auto collective = static_cast<CollectiveOp>(op);
        if (in.Take(std::string(Name(collective)) + " among ")) ReadCollective(in, collective, &times);
      }
    }
  }
  if (!found) return std::nullopt;
  return times;
}

std::vector<std::string> TextsOfEstimates(const KernelTimes& times) {
  std::vector<std::string> texts;
  AddKernels(kEstimated, times, &texts);
  return texts;
}

KernelTimes ParseEstimates(Span<const std::string_view> sources) {
  KernelTimes times;
  for (std::string_view source : sources) {
    NoteReader in(source);
    if (in.Take(kEstimated) && in.Take("kernel ")) ReadKernel(in, &times);
  }
  return times;
}

double TimeOf(const KernelTimes& times, const Kernel& kernel) {
  const auto found = times.find(KernelDigest(kernel));
  return found == times.end() ? 0 : found->second;
}

}  // namespace rondo
