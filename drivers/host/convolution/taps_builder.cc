#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host {

Status BuildTaps(PartContext& c, const Access& input, const Access* weight, int run, Taps* out) {
  const Nest& nest = c.nest;
  out->count = nest.points[kK] / (run < 0 ? 1 : nest.extent[run]);
  const size_t taps = static_cast<size_t>(out->count);
  Span<int64_t> at = c.arena.New<int64_t>(taps), weights = c.arena.New<int64_t>(taps);
  Span<int64_t> coordinates = c.arena.New<int64_t>(taps * (input.num_guards + size_t{1}));
  if (at.data() == nullptr || weights.data() == nullptr || coordinates.data() == nullptr) return c.NoMemory();
  int64_t pos[kMaxNest] = {};
  const auto walked = [&](int loops, const uint8_t* loop, const int64_t* step) {
    int64_t sum = 0;
    for (int i = 0; i < loops; ++i) sum += loop[i] >= nest.first[kK] ? step[i] * pos[loop[i]] : 0;
    return sum;
  };
  for (size_t t = 0; t < taps; ++t) {
    at[t] = walked(input.num_loops, input.loop, input.step);
    weights[t] = weight == nullptr ? 0 : walked(weight->num_loops, weight->loop, weight->step);
    for (size_t g = 0; g < input.num_guards; ++g) {
      GuardTest& guard = const_cast<GuardTest&>(input.guards[g]);  // made by this builder, not yet shared
      const int64_t at_tap = coordinates[g * taps + t] = walked(guard.loops, guard.loop, guard.step);
      if (t == 0 || at_tap < guard.least) guard.least = at_tap;
      if (t == 0 || at_tap > guard.greatest) guard.greatest = at_tap;
    }
    for (int d = nest.first[kK + 1] - 1; d >= nest.first[kK]; --d) {
      if (d == run) continue;
      if (++pos[d] < nest.extent[d]) break;
      pos[d] = 0;
    }
  }
  out->at = at.data();
  out->weight = weights.data();
  out->coordinate = coordinates.data();
  return Status::Ok();
}

}  // namespace rondo::host
