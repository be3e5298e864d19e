#include "compiler/schedule/communication_passes.h"

namespace rondo {

// Begins with the last: waits may pass each other, in the order in which their results are needed.
void SinkWaits(Arrangement* arrangement) {
  for (int c = arrangement->collectives(); c-- > 0;) {
    const int wait = arrangement->wait(c);
    // Halves the distance each time that memory does not allow the move.
    int to = arrangement->Latest(wait);
    for (int at = arrangement->position(wait); to > at; to = (to + at) / 2) {
      if (arrangement->Move(wait, to)) break;
    }
  }
}

}  // namespace rondo
