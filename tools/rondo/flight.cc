#include <signal.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "drivers/flight/flight_file.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

using flight::Entry;
using flight::Kind;

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kLaunch: return "launch";
    case Kind::kStep: return "step";
    case Kind::kCollective: return "collective";
    case Kind::kCopyIn: return "copy in";
    case Kind::kCopyOut: return "copy out";
    case Kind::kWait: return "wait";
    case Kind::kDone: return "done";
    case Kind::kFault: return "fault";
    case Kind::kProgress: return "progress";
    case Kind::kAbort: return "abort";
  }
  return "unknown";
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The line `number` lines after the first; "" if there is none.
std::string LineOf(const std::string& text, uint64_t number) {
  size_t at = text.find('\n');
  for (; at != text.npos && number > 0; --number) at = text.find('\n', at + 1);
  return at == text.npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// A device's progress with the collectives of a program.
std::string ProgressText(const Entry& entry) {
  const uint64_t started = entry.value >> 32, ended = entry.value & 0xffffffff;
  std::string text = FirstLine(entry.text) + ": came to " + std::to_string(started) + " collectives, " +
                     std::to_string(ended) + " ended";
  if (ended < started) text += "; not ended: " + LineOf(entry.text, ended);
  return text;
}

std::string WhatOf(const Entry& entry) {
  switch (entry.kind) {
    case Kind::kLaunch:
    case Kind::kAbort: return FirstLine(entry.text);
    case Kind::kFault:
      return (entry.step != kNone ? "step " + std::to_string(entry.step) + ": " : "") + FirstLine(entry.text);
    case Kind::kStep:
    case Kind::kCollective: return "step " + std::to_string(entry.step);
    case Kind::kCopyIn:
    case Kind::kCopyOut: return BytesText(entry.value);
    case Kind::kProgress: return ProgressText(entry);
    default: return "";
  }
}

// The work of a device that has not ended: by stream, the launches after the last end.
std::vector<Entry> Unfinished(const std::vector<Entry>& entries) {
  std::vector<Entry> open;
  for (const Entry& entry : entries) {
    if (entry.kind == Kind::kDone || entry.kind == Kind::kFault)
      std::erase_if(open, [&](const Entry& other) { return other.stream == entry.stream; });
    if (entry.kind == Kind::kLaunch || entry.kind == Kind::kStep || entry.kind == Kind::kCollective)
      open.push_back(entry);
  }
  return open;
}

class FlightCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Group("Input")
        .Positional(
            "FILE", &files_, 1, 1,
            "the file of --flight, or of rondo_flight_driver_create; the process may be running still")
        .Integer("--last", &last_, 1, flight::kRecords, "entries of each device (20)");
    out_.Declare(options);
  }

  int Run() override {
    Result<std::vector<uint8_t>> bytes = ReadInputFile(files_[0], uint64_t{1} << 30);
    if (!bytes.ok()) return out_.Fail("flight", bytes.status());
    Result<flight::Flight> read = flight::ReadFlight({bytes->data(), bytes->size()});
    if (!read.ok()) return out_.Fail("flight", read.status().At("%s", files_[0].c_str()));
    const flight::Flight& flight = *read;
    const bool running = kill(static_cast<pid_t>(flight.process), 0) == 0 || errno == EPERM;
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now_ = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    out_.Line("%s: process %lld, which %s; recorded since %.1f s ago", files_[0].c_str(),
              static_cast<long long>(flight.process), running ? "runs" : "has ended", Ago(flight.started));
    out_.object() = {
        {"process", flight.process}, {"running", running}, {"devices", nlohmann::ordered_json::array()}};
    for (size_t d = 0; d < flight.devices.size(); ++d) PrintDevice(d, flight.devices[d]);
    return out_.Finish(0);
  }

 private:
  double Ago(int64_t time) const { return static_cast<double>(now_ - time) / 1e9; }

  void PrintDevice(size_t d, const std::vector<Entry>& entries) {
    nlohmann::ordered_json object = {{"device", d},
                                     {"entries", nlohmann::ordered_json::array()},
                                     {"unfinished", nlohmann::ordered_json::array()}};
    Section section;
    section.title = "Device " + std::to_string(d);
    section.table.head = {"s ago", "", "what"};
    const size_t first = entries.size() - std::min(entries.size(), static_cast<size_t>(last_));
    for (size_t i = first; i < entries.size(); ++i) {
      const std::string what = WhatOf(entries[i]);
      section.table.rows.push_back({Printf("%.6f", Ago(entries[i].time)), NameOf(entries[i].kind), what});
      object["entries"].push_back({{"number", entries[i].number},
                                   {"time", entries[i].time},
                                   {"kind", NameOf(entries[i].kind)},
                                   {"what", what}});
    }
    out_.Print(section);
    for (const Entry& entry : Unfinished(entries)) {
      out_.Line("not ended, for %.1f s: %s", Ago(entry.time), WhatOf(entry).c_str());
      for (uint64_t n = 0; !LineOf(entry.text, n).empty(); ++n)
        out_.Line("  %s", LineOf(entry.text, n).c_str());
      object["unfinished"].push_back(
          {{"time", entry.time}, {"what", entry.text.empty() ? WhatOf(entry) : entry.text}});
    }
    out_.object()["devices"].push_back(std::move(object));
  }

  std::vector<std::string> files_;
  int64_t last_ = 20;
  int64_t now_ = 0;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeFlightCommand() { return std::make_unique<FlightCommand>(); }

}  // namespace rondo::tools
