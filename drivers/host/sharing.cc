#include "drivers/host/sharing.h"

#include <cmath>

namespace rondo::host {
namespace {

int64_t Pieces(int64_t all, int64_t each) { return (all + each - 1) / each; }

}  // namespace

int64_t RowsOfBlock(const RowBlocks& of, int64_t shares) {
  const int64_t rows = of.rows < 1 ? 1 : of.rows, most = of.most < 1 ? 1 : of.most > rows ? rows : of.most;
  const int64_t fewest = Pieces(rows, most), best_alone = Pieces(rows, fewest);
  if (shares <= 1) return best_alone;
  const auto time = [&](int64_t block) {
    const double tasks = static_cast<double>(Pieces(rows, block)) * static_cast<double>(of.others);
    return std::ceil(tasks / static_cast<double>(shares)) *
           static_cast<double>(Pieces(block, of.step) * of.step + of.extra);
  };
  int64_t best = best_alone;
  double least_time = time(best);
  for (int64_t blocks = fewest; blocks <= fewest + 2 * shares && blocks <= rows; ++blocks) {
    int64_t block = Pieces(Pieces(rows, blocks), of.step) * of.step;
    if (block > most) block = most;
    const double needed = time(block);
    if (needed >= least_time) continue;
    best = block;
    least_time = needed;
  }
  return best;
}

}  // namespace rondo::host
