#include "tests/streams/random_program.h"

#include <algorithm>
#include <string>

#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/partition.h"
#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

class Writer {
 public:
  Writer(uint64_t seed, const RandomShape& shape) : shape_(shape), state_(seed * 2654435761u + 12345) {
    for (const char* name : {"x", "y"}) known_.push_back({made_.Input(name, kSizes[0]), kSizes[0]});
  }

  LoweredProgram Write() {
    while (static_cast<int>(made_.program().ops.size()) < shape_.ops) {
      const size_t choice = Below(12);
      if (shape_.devices > 1 && choice < 3) {
        StartOne();
      } else if (!open_.empty() && choice < 6) {
        WaitForOne();
      } else if (shape_.loops && choice == 6) {
        Loop();
      } else {
        Compute(choice == 11);
      }
    }
    while (!open_.empty()) WaitForOne();
    const int last = made_.Output("out", kSizes[2]);
    made_.Sum({known_.back().value, Any(kSizes[2]).value}, last);
    PutOnStream();
    return made_.Take();
  }

 private:
  struct Known {
    int value;
    int64_t elements;
  };
  static constexpr int64_t kSizes[] = {512, 128, 64};

  size_t Below(size_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state_ >> 33) % n;
  }
  // A recent value with `elements` elements.
  Known Any(int64_t elements) {
    for (;;) {
      const Known known = known_[known_.size() - 1 - Below(std::min<size_t>(known_.size(), 8))];
      if (known.elements >= elements || Below(20) == 0) return known.elements >= elements ? known : known_[0];
    }
  }
  LoweredOp& last() { return made_.program().ops.back(); }
  void PutOnStream() {
    std::vector<LoweredOp>& ops = made_.program().ops;
    last().stream = static_cast<uint32_t>(Below(shape_.streams));
    if (ops.size() > 1 && Below(8) == 0) {
      last().deps.push_back(static_cast<int>(Below(ops.size() - 1)));
      std::sort(last().deps.begin(), last().deps.end());
    }
  }
  Known Result(int64_t elements, bool output) {
    const std::string name = "v" + std::to_string(known_.size());
    return {output ? made_.Output(name, elements) : made_.Temporary(elements, name), elements};
  }
  void Compute(bool output) {
    const int64_t elements = kSizes[Below(3)];
    const Known to = Result(elements, output);
    made_.Sum({Any(elements).value, Any(elements).value}, to.value);
    PutOnStream();
    known_.push_back(to);
  }
  // A loop of two or three ops with three rounds.
  void Loop() {
    const int number = static_cast<int>(made_.program().loops.size());
    const size_t first = made_.program().ops.size();
    made_.program().loops.push_back(3);
    for (size_t i = 0, count = 2 + Below(2); i < count; ++i) {
      Compute(false);
      last().loop = number;
      last().stream = made_.program().ops[first].stream;
    }
  }
  void StartOne() {
    const bool gather = Below(3) == 0 && shape_.devices == 2;
    const int64_t elements = gather ? kSizes[2] : kSizes[Below(3)];
    const Known from = Exactly(elements), to = Result(gather ? kSizes[1] : elements, false);
    open_.push_back({made_.Start(gather ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce, from.value,
                                 to.value, shape_.devices),
                     to});
    PutOnStream();
  }
  Known Exactly(int64_t elements) {
    for (size_t i = known_.size(); i-- > 0;) {
      if (known_[i].elements == elements &&
          made_.program().values[Index(known_[i].value)].kind == BufferKind::kTemporary)
        return known_[i];
    }
    const Known made = Result(elements, false);
    made_.Sum({known_[0].value}, made.value);
    PutOnStream();
    known_.push_back(made);
    return made;
  }
  void WaitForOne() {
    const size_t which = Below(open_.size());
    made_.Wait(open_[which].first);
    PutOnStream();
    known_.push_back(open_[which].second);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  static size_t Index(int v) { return static_cast<size_t>(v); }

  const RandomShape shape_;
  uint64_t state_;
  HandMade made_;
  std::vector<Known> known_;
  std::vector<std::pair<int, Known>> open_;  // collectives in flight, with the values that they write
};

}  // namespace

LoweredProgram RandomProgram(uint64_t seed, const RandomShape& shape) { return Writer(seed, shape).Write(); }

LoweredProgram Synchronous(LoweredProgram program) {
  std::vector<int> order;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    if (op.kind != LoweredKind::kCollectiveWait) order.push_back(static_cast<int>(i));
    for (size_t k = i; op.kind == LoweredKind::kCollectiveStart && k < program.ops.size(); ++k) {
      const LoweredOp& wait = program.ops[k];
      if (wait.kind == LoweredKind::kCollectiveWait && wait.collective == op.collective)
        order.push_back(static_cast<int>(k));
    }
  }
  for (LoweredOp& op : program.ops) {
    op.stream = 0;
    if (op.kind != LoweredKind::kCollectiveWait) continue;
    // Keep only the dep on the start; others were added at random.
    std::erase_if(op.deps, [&](int d) {
      const LoweredOp& start = program.ops[static_cast<size_t>(d)];
      return start.kind != LoweredKind::kCollectiveStart || start.collective != op.collective;
    });
  }
  Reorder(order, &program);
  return program;
}

std::vector<PlannedProgram> Planned(const LoweredProgram& program, uint32_t devices, PlannedFor memory) {
  std::vector<PlannedProgram> all;
  for (uint32_t device = 0; device < devices; ++device) {
    PlannedProgram planned;
    planned.lowered = program;
    planned.device = device;
    LoweredProgram in_order = program;
    for (LoweredOp& op : in_order.ops) op.stream = 0;
    if (memory == PlannedFor::kSynchronousCollectives) in_order = Synchronous(program);
    planned.memory = PlanMemory(memory == PlannedFor::kAnyTiming ? program : in_order);
    // The plan's lifetimes are right; offsets and in-place values are those for the list's order.
    planned.memory.lives = Lifetimes(program);
    std::vector<std::string> found;
    planned.partitions = PartitionSteps(SeamSteps(program, {}, &found));
    all.push_back(std::move(planned));
  }
  return all;
}

}  // namespace rondo
