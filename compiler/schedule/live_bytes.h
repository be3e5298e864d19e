// LiveBytes: the live bytes of a program's arena while its ops are run one by one, in whatever order.
// The one model of memory that all scheduling methods compare orders with.
#ifndef RONDO_COMPILER_SCHEDULE_LIVE_BYTES_H_
#define RONDO_COMPILER_SCHEDULE_LIVE_BYTES_H_

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// What stays the same whatever the order: who touches what, and how large it is. Borrowed by LiveBytes.
struct MemoryModel {
  struct Touch {
    int value;
    int64_t bytes;
  };
  std::vector<std::vector<Touch>> touches;    // per op, values of the arena, each once
  std::vector<std::vector<Touch>> donations;  // per op, reads whose memory a write may take over
  std::vector<int> touch_count;               // per value, ops that touch it
  std::vector<BufferKind> kinds;
  int64_t input_bytes = 0;  // of inputs that an op touches: live from the start

  explicit MemoryModel(const LoweredProgram& program);
};

class LiveBytes {
 public:
  // `model` must outlive this.
  explicit LiveBytes(const MemoryModel& model) { Reset(model); }
  void Reset(const MemoryModel& model);

  // What running `op` next would do: bytes alive while it runs, and bytes alive after it.
  struct Effect {
    int64_t during = 0, after = 0;
  };
  Effect Try(int op) const;
  Effect Run(int op);
  int64_t live() const { return live_; }

 private:
  template <bool kCommit>
  Effect Step(int op, std::vector<int>* remaining) const;
  const MemoryModel* model_ = nullptr;
  std::vector<int> remaining_;  // per value, ops still to come that touch it
  int64_t live_ = 0;
};

}  // namespace rondo

#endif  // RONDO_COMPILER_SCHEDULE_LIVE_BYTES_H_
