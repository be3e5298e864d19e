#include "compiler/schedule/communication_passes.h"

namespace rondo {

// The last first: waits may pass one another, as their results are needed.
void SinkWaits(Arrangement* arrangement) {
  for (int c = arrangement->collectives(); c-- > 0;) {
    const int wait = arrangement->wait(c);
    // Half as far each time that memory does not allow it.
    int to = arrangement->Latest(wait);
    for (int at = arrangement->position(wait); to > at; to = (to + at) / 2) {
      if (arrangement->Move(wait, to)) break;
    }
  }
}

}  // namespace rondo
