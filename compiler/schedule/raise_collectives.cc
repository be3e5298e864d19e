#include "compiler/schedule/communication_passes.h"

namespace rondo {

void RaiseCollectives(Arrangement* arrangement) {
  for (int c = 0; c < arrangement->collectives(); ++c) {
    const int start = arrangement->start(c);
    // Halves the distance each time that memory does not allow the move.
    int to = arrangement->Earliest(start);
    for (int at = arrangement->position(start); to < at; to = (to + at + 1) / 2) {
      if (arrangement->Move(start, to)) break;
    }
  }
}

}  // namespace rondo
