#include "runtime/verify/program_runs.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/synthetic.h"
#include "runtime/buckets/bucket_family.h"

namespace rondo::verify {

ProgramRuns::ProgramRuns(const PlanData& plan, const std::vector<std::vector<Input>>& inputs, uint32_t only)
    : plan_(plan), inputs_(inputs) {
  inputs_.resize(plan.programs.size());
  for (uint32_t p = 0; p < CountPrograms(plan); ++p) {
    if (only != kNone && p != only) continue;
    programs_.push_back(p);
    const std::map<std::string, int64_t> rooms = RoomsOf(plan, p);  // bucket lengths; buckets run full
    for (const Port& port : plan.programs[p].inputs) {
      const auto named = [&](const Input& input) { return input.name == port.name; };
      if (port.is_state || std::any_of(inputs_[p].begin(), inputs_[p].end(), named)) continue;
      const Buffer& b = plan.buffers[port.buffer];
      std::vector<uint8_t> bytes(b.bytes);
      FillSyntheticRange(b.dtype, SyntheticKey(1, port.name), IsFloat(b.dtype) ? 1.0f : 0.0f, 0,
                         b.bytes / static_cast<uint64_t>(ByteSize(b.dtype)), bytes.data());
      if (const auto room = rooms.find(std::string(port.name)); room != rooms.end())
        std::memcpy(bytes.data(), &room->second, sizeof room->second);
      synthetic_.push_back(std::move(bytes));
      inputs_[p].push_back({port.name, kNone, b.dtype, b.shape, synthetic_.back().data(), b.bytes});
    }
  }
}

bool ProgramRuns::Run(const RunFunction& run, const std::string& how, FindingList* findings,
                      RunResults* results) const {
  results->clear();
  for (uint32_t p : programs_) {
    std::vector<std::vector<uint8_t>> bytes;
    std::vector<Output> outputs;
    for (const Port& port : plan_.programs[p].outputs) bytes.emplace_back(plan_.buffers[port.buffer].bytes);
    for (uint32_t i = 0; i < bytes.size(); ++i) {
      const Buffer& b = plan_.buffers[plan_.programs[p].outputs[i].buffer];
      outputs.push_back({{}, i, b.dtype, bytes[i].data(), bytes[i].size()});
    }
    if (Status status = run(p, inputs_[p], outputs); !status.ok()) {
      Finding finding;
      finding.rule = LifecycleRule::kRunFailed;
      finding.expected = "a run " + how + " that ends well";
      finding.found = status.message();
      findings->Add(finding, p);
      return false;
    }
    results->push_back(std::move(bytes));
  }
  return true;
}

void ProgramRuns::Compare(const RunResults& expected, const RunResults& found, LifecycleRule rule,
                          const std::string& expected_from, const std::string& found_from,
                          FindingList* findings) const {
  for (size_t r = 0; r < programs_.size(); ++r) {
    const Span<const Port> ports = plan_.programs[programs_[r]].outputs;
    for (size_t i = 0; i < ports.size(); ++i) {
      const std::vector<uint8_t>&was = expected[r][i], &is = found[r][i];
      if (was == is) continue;
      const auto differ = std::mismatch(was.begin(), was.end(), is.begin());
      const auto at = static_cast<size_t>(differ.first - was.begin());
      size_t last = at;
      for (size_t k = at; k < was.size(); ++k) last = was[k] != is[k] ? k : last;
      Finding finding;
      finding.rule = rule;
      finding.buffer = ports[i].buffer;
      finding.device = plan_.buffers[ports[i].buffer].device;
      finding.offset = at;
      finding.bytes = last + 1 - at;
      finding.expected = HexText({was.data() + at, last + 1 - at}) + " in output \"" +
                         std::string(ports[i].name) + "\", as " + expected_from;
      finding.found = HexText({is.data() + at, last + 1 - at}) + ", " + found_from;
      findings->Add(finding, programs_[r]);
    }
  }
}

}  // namespace rondo::verify
