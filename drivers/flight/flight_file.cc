#include "drivers/flight/flight_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace rondo::flight {
namespace {

constexpr char kMagic[8] = {'R', 'N', 'D', 'O', 'F', 'L', 'T', '1'};
constexpr uint64_t kHeaderBytes = 4096;
constexpr uint64_t kRingBytes = uint64_t{kRecords} * sizeof(FlightRecord);
constexpr uint64_t kTextsAt = kHeaderBytes + kDevices * kRingBytes;
constexpr uint64_t kFileBytes = kTextsAt + kTextBytes;
static_assert(sizeof(FlightHeader) <= kHeaderBytes);

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Result<FlightFile*> FlightFile::Create(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  void* mapping = MAP_FAILED;
  // Finds a full disk here, instead of by SIGBUS later.
  if (file >= 0 && posix_fallocate(file, 0, kFileBytes) == 0)
    mapping = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  if (file >= 0) close(file);
  if (mapping == MAP_FAILED)
    return Status::Error(Code::kIo, "%s: the flight recorder's file of %llu bytes cannot be made: %s",
                         path.c_str(), static_cast<unsigned long long>(kFileBytes), std::strerror(error));
  auto* header = static_cast<FlightHeader*>(mapping);
  header->devices = kDevices;
  header->records = kRecords;
  header->text_bytes = kTextBytes;
  header->started = Now();
  header->process = getpid();
  header->text_used = 1;  // 0 means no text
  std::memcpy(header->magic, kMagic, sizeof(kMagic));
  return new FlightFile(mapping);
}

FlightFile::~FlightFile() { munmap(mapping_, kFileBytes); }

uint64_t FlightFile::Text(std::string_view text) {
  const uint64_t bytes = text.size() + 1;
  uint64_t at = header()->text_used.load(std::memory_order_relaxed);
  do {
    if (bytes > kTextBytes - at) return 0;
  } while (!header()->text_used.compare_exchange_weak(at, at + bytes, std::memory_order_relaxed));
  std::memcpy(static_cast<char*>(mapping_) + kTextsAt + at, text.data(), text.size());
  return at;
}

void FlightFile::Add(uint32_t device, Kind kind, uint64_t stream, uint32_t step, uint64_t value,
                     uint64_t text) {
  if (device >= kDevices) return;
  const uint64_t number = header()->next[device].fetch_add(1, std::memory_order_relaxed) + 1;
  auto* rings = reinterpret_cast<FlightRecord*>(static_cast<char*>(mapping_) + kHeaderBytes);
  FlightRecord& record = rings[device * kRecords + (number - 1) % kRecords];
  record.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  record.time = Now();
  record.kind = kind;
  record.step = step;
  record.stream = stream;
  record.value = value;
  record.text = text;
  record.number.store(number, std::memory_order_release);
}

Result<Flight> ReadFlight(Span<const uint8_t> bytes) {
  FlightHeader header;
  if (bytes.size() != kFileBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return Status::Error(Code::kCorrupt,
                         "this is no file of a flight recorder of this release: it has %zu bytes",
                         bytes.size());
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof(header));
  Flight flight;
  flight.started = header.started;
  flight.process = header.process;
  flight.devices.resize(kDevices);
  for (uint32_t d = 0; d < kDevices; ++d) {
    std::vector<Entry>& entries = flight.devices[d];
    for (uint32_t r = 0; r < kRecords; ++r) {
      FlightRecord record;
      std::memcpy(static_cast<void*>(&record),
                  bytes.data() + kHeaderBytes + d * kRingBytes + r * sizeof(record), sizeof(record));
      if (record.number == 0) continue;
      Entry entry{record.number, record.time, record.kind, record.step, record.stream, record.value, ""};
      if (record.text != 0 && record.text < kTextBytes) {
        const char* text = reinterpret_cast<const char*>(bytes.data()) + kTextsAt + record.text;
        entry.text.assign(text, strnlen(text, kTextBytes - record.text));
      }
      entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.number < b.number; });
  }
  while (!flight.devices.empty() && flight.devices.back().empty()) flight.devices.pop_back();
  return flight;
}

}  // namespace rondo::flight
