#include "compiler/codegen/communicator_bytes.h"

#include <algorithm>
#include <set>
#include <vector>

namespace rondo {

uint64_t CommunicatorBytes(Span<const Program> programs, uint32_t device) {
  std::set<std::vector<uint32_t>> groups;
  for (const Program& program : programs) {
    for (const SyncPoint& point : program.sync_points) {
      std::vector<uint32_t> group(point.participants.begin(), point.participants.end());
      if (std::find(group.begin(), group.end(), device) != group.end()) groups.insert(std::move(group));
    }
  }
  return groups.empty() ? 0 : kNcclKernelBytes + groups.size() * kNcclGroupBytes;
}

}  // namespace rondo
