// The first elements of each row: a heap holds the first k so far, the last of them on top.
#include "core/row_order.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/top_k/top_k_program.h"

namespace rondo::host::RONDO_ISA {
namespace {

inline bool Before(const RankedElement& a, const RankedElement& b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

// Puts `moved` into the heap of `count` elements in place of the one at `at`, whose children are heaps.
void Sink(RankedElement* heap, int64_t count, int64_t at, RankedElement moved) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && Before(heap[child], heap[child + 1])) ++child;
    if (!Before(moved, heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

class TopKRow {
 public:
  TopKRow(const TopKPart& part, Worker& w, int64_t* pos)
      : part_(part),
        w_(w),
        pos_(pos),
        kept_(reinterpret_cast<RankedElement*>(w.scratch + part.kept_at)),
        count_(part.nest.points[2]) {}

  void Run() {
    const int dtype = static_cast<int>(NaturalType(part_.elements->dtype));
    if (dtype == static_cast<int>(TapeType::kF32)) Choose<float>();
    if (dtype == static_cast<int>(TapeType::kF64)) Choose<double>();
    if (dtype == static_cast<int>(TapeType::kI64)) Choose<int64_t>();
    Sort();
    Store();
  }

 private:
  template <typename T>
  void Choose() {
    const int64_t elements = part_.nest.points[3];
    T* lanes = reinterpret_cast<T*>(w_.scratch + part_.temp_at);
    int n = DecodeTile(part_.nest, part_.element_tiling, 0, pos_);
    for (int64_t place = 0; !Stopped(w_);) {
      LoadLanes(*part_.elements, w_, pos_, n, lanes);
      for (int i = 0; i < n; ++i, ++place)
        Take({OrderKey(lanes[i], part_.elements->dtype, part_.largest), place});
      if (place >= elements) break;
      n = NextTile(part_.nest, part_.element_tiling, pos_);
    }
    for (int d = part_.nest.first[3]; d < part_.nest.first[4]; ++d) pos_[d] = 0;
  }

  void Take(RankedElement element) {
    if (element.place >= count_) {
      if (Before(element, kept_[0])) Sink(kept_, count_, 0, element);
      return;
    }
    kept_[element.place] = element;
    if (element.place != count_ - 1) return;
    for (int64_t at = count_ / 2; at-- > 0;) Sink(kept_, count_, at, kept_[at]);
  }

  void Sort() {
    for (int64_t last = count_ - 1; last > 0 && !Stopped(w_); --last) {
      const RankedElement moved = kept_[last];
      kept_[last] = kept_[0];
      Sink(kept_, last, 0, moved);
    }
  }

  void Store() {
    int64_t* places = reinterpret_cast<int64_t*>(w_.scratch + part_.temp_at);
    TapeFrame frame;
    frame.worker = &w_;
    frame.acc_size = sizeof(int64_t);
    frame.acc = reinterpret_cast<const char*>(places);
    int64_t rank = 0;
    for (int64_t t = 0; t < part_.tiling.tiles && !Stopped(w_); ++t) {
      const int n = DecodeTile(part_.nest, part_.tiling, t, pos_);
      for (int i = 0; i < n; ++i) places[i] = kept_[rank++].place;
      RunTape(part_.epilogue, frame, pos_, n);
    }
    for (int d = part_.nest.first[2]; d < part_.nest.first[3]; ++d) pos_[d] = 0;
  }

  const TopKPart& part_;
  Worker& w_;
  int64_t* pos_;
  RankedElement* kept_;
  const int64_t count_;
};

}  // namespace

void RunTopK(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const TopKPart& part = static_cast<const TopKPart&>(base);
  const Nest& nest = part.nest;
  BeginTape(part.epilogue, w);
  int64_t pos[kMaxNest] = {};
  for (int64_t row = first; row < last && !Stopped(w); ++row) {
    Decode(nest, 0, nest.first[2], row, pos);
    TopKRow(part, w, pos).Run();
  }
}

}  // namespace rondo::host::RONDO_ISA
