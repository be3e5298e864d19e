#include "tools/bench/gpu_table/fit_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace rondo::bench {

namespace {

using cuda::GpuTable;

constexpr TableEntry kEntries[] = {
    {"l2_copy_bytes", "bytes", &GpuTable::l2_copy_bytes},
    {"l2_tma_bytes", "bytes", &GpuTable::l2_tma_bytes},
    {"l2_all_bytes", "bytes", &GpuTable::l2_all_bytes},
    {"memory_bytes", "bytes", &GpuTable::memory_bytes},
    {"map_bytes", "bytes", &GpuTable::map_bytes},
    {"mma", "multiply-adds", &GpuTable::mma},
    {"mma_full", "points", &GpuTable::mma_full},
    {"wgmma", "multiply-adds", &GpuTable::wgmma},
    {"wgmma_tma", "multiply-adds", &GpuTable::wgmma_tma},
    {"tf32", "multiply-adds", &GpuTable::tf32},
    {"simt", "multiply-adds", &GpuTable::simt},
    {"tile_start", "cycles", &GpuTable::tile_start},
    {"tile_stored", "points", &GpuTable::tile_stored},
    {"split_start", "cycles", &GpuTable::split_start},
    {"split_block", "cycles a block", &GpuTable::split_block},
    {"split_point", "cycles a point", &GpuTable::split_point},
    {"tma_start", "cycles", &GpuTable::tma_start},
    {"tma_cluster_start", "cycles", &GpuTable::tma_cluster_start},
    {"tma_stored_lanes", "instructions", &GpuTable::tma_stored_lanes},
    {"tma_one_group", "times", &GpuTable::tma_one_group},
    {"tma_not_boxed", "times", &GpuTable::tma_not_boxed},
    {"tma_read_bytes", "bytes", &GpuTable::tma_read_bytes},
    {"tma_turn", "cycles", &GpuTable::tma_turn},
    {"tma_split_start", "cycles", &GpuTable::tma_split_start},
    {"tma_split_point", "cycles a point", &GpuTable::tma_split_point},
    {"clusters_of_4", "of all", &GpuTable::clusters_of_4},
    {"clusters_of_8", "of all", &GpuTable::clusters_of_8},
    {"stream_start", "cycles", &GpuTable::stream_start},
    {"library_start", "cycles", &GpuTable::library_start},
    {"library_stored", "points", &GpuTable::library_stored},
    {"library_tf32", "times", &GpuTable::library_tf32},
    {"library_f32", "times", &GpuTable::library_f32},
    {"map_start", "cycles", &GpuTable::map_start},
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Estimates the timed cases; it keeps their kernels, because each is estimated many times.
class Estimator {
 public:
  Estimator(const CudaTarget& target, const std::vector<TimedCase>& times) : target_(target), times_(times) {
    for (const TimedCase& time : times) kernels_.push_back(time.kernel.Kernel());
  }

  // ln(estimated / measured) of case `i`; infinite if it has no estimate.
  Result<double> Error(const GpuTable& table, size_t i) {
    CudaTarget target = target_;
    target.table = &table;
    RONDO_ASSIGN_OR_RETURN(const std::optional<double> estimated, EstimatedCycles(target, *kernels_[i]));
    return estimated ? std::log(*estimated / times_[i].cycles) : kInfinity;
  }

 private:
  const CudaTarget& target_;
  const std::vector<TimedCase>& times_;
  std::vector<std::unique_ptr<BenchKernel>> kernels_;
};

// The coordinate descent. A changed entry re-estimates only the cases that depend on it.
class Fitter {
 public:
  Fitter(const CudaTarget& target, const GpuTable& start, const std::vector<TimedCase>& times)
      : estimator_(target, times), start_(start), table_(start), times_(times) {}

  Result<FittedTable> Run() {
    Weigh();
    RONDO_RETURN_IF_ERROR(FindDependents());
    FittedTable fitted;
    fitted.before = ErrorsOf();
    for (double factor = 1.6; factor > 1.01;) {
      RONDO_ASSIGN_OR_RETURN(const bool better, Round(factor));
      if (!better) factor = std::sqrt(factor);
    }
    fitted.table = table_;
    fitted.after = ErrorsOf();
    for (const std::vector<size_t>& cases : dependents_) fitted.determined.push_back(!cases.empty());
    return fitted;
  }

 private:
  static constexpr double kPrior = 0.002;  // weight of |ln(entry / start)| beside the error

  // Each family has the same total weight, however many cases it has.
  void Weigh() {
    std::map<std::string, double> cases;
    for (const TimedCase& time : times_) cases[time.kernel.Family()] += 1;
    for (const TimedCase& time : times_)
      weights_.push_back(1 / (cases[time.kernel.Family()] * static_cast<double>(cases.size())));
  }

  Status FindDependents() {
    for (size_t i = 0; i < times_.size(); ++i) {
      RONDO_ASSIGN_OR_RETURN(const double error, estimator_.Error(table_, i));
      errors_.push_back(error);
    }
    for (const TableEntry& entry : kEntries) {
      std::vector<size_t> cases;
      for (size_t i = 0; i < times_.size(); ++i) {
        if (errors_[i] == kInfinity) continue;
        RONDO_ASSIGN_OR_RETURN(const bool depends, Depends(entry, i));
        if (depends) cases.push_back(i);
      }
      dependents_.push_back(std::move(cases));
    }
    return Status::Ok();
  }

  // Tries values far from the entry's own: a bound that does not bind here may bind there.
  Result<bool> Depends(const TableEntry& entry, size_t i) {
    for (const double factor : {0.2, 5.0}) {
      GpuTable other = table_;
      other.*entry.value *= factor;
      RONDO_ASSIGN_OR_RETURN(const double error, estimator_.Error(other, i));
      if (error != errors_[i]) return true;
    }
    return false;
  }

  Result<bool> Round(double factor) {
    bool better = false;
    for (size_t e = 0; e < std::size(kEntries); ++e) {
      if (dependents_[e].empty()) continue;
      for (const double times : {factor, 1 / factor}) {
        RONDO_ASSIGN_OR_RETURN(const bool taken, Try(e, times));
        better |= taken;
        if (taken) break;
      }
    }
    return better;
  }

  Result<bool> Try(size_t e, double times) {
    double GpuTable::*value = kEntries[e].value;
    GpuTable other = table_;
    other.*value *= times;
    std::vector<double> errors;
    double gain = Prior(value, table_) - Prior(value, other);
    for (const size_t i : dependents_[e]) {
      RONDO_ASSIGN_OR_RETURN(const double error, estimator_.Error(other, i));
      gain += weights_[i] * (std::abs(errors_[i]) - std::abs(error));
      errors.push_back(error);
    }
    if (gain <= 1e-9) return false;
    table_ = other;
    for (size_t i = 0; i < errors.size(); ++i) errors_[dependents_[e][i]] = errors[i];
    return true;
  }

  double Prior(double GpuTable::*value, const GpuTable& table) const {
    return kPrior * std::abs(std::log(table.*value / start_.*value));
  }

  TableErrors ErrorsOf() const {
    TableErrors errors;
    std::map<std::string, std::vector<double>> variants;
    std::vector<std::string> order;
    for (size_t i = 0; i < times_.size(); ++i) {
      if (errors_[i] == kInfinity) continue;
      const std::string variant = times_[i].kernel.Family();
      if (variants[variant].empty()) order.push_back(variant);
      variants[variant].push_back(std::abs(errors_[i]));
    }
    for (const std::string& variant : order) {
      std::vector<double>& all = variants[variant];
      std::sort(all.begin(), all.end());
      errors.variants.push_back({variant, all.size(), all[all.size() / 2], all[all.size() * 9 / 10]});
    }
    errors.choice = Choice();
    return errors;
  }

  double Choice() const {
    struct Best {
      double estimate = kInfinity, taken = 0, cycles = kInfinity;
      int cases = 0;
    };
    std::map<std::string, Best> problems;
    for (size_t i = 0; i < times_.size(); ++i) {
      if (errors_[i] == kInfinity) continue;
      Best& best = problems[times_[i].kernel.Problem()];
      const double estimate = errors_[i] + std::log(times_[i].cycles);
      if (estimate < best.estimate) best.taken = times_[i].cycles;
      best.estimate = std::min(best.estimate, estimate);
      best.cycles = std::min(best.cycles, times_[i].cycles);
      ++best.cases;
    }
    double sum = 0;
    int compared = 0;
    for (const auto& [name, best] : problems) {
      if (best.cases < 2) continue;
      sum += std::log(best.taken / best.cycles);
      ++compared;
    }
    return compared > 0 ? std::exp(sum / compared) : 1;
  }

  Estimator estimator_;
  const GpuTable start_;
  GpuTable table_;
  const std::vector<TimedCase>& times_;
  std::vector<double> weights_;                  // one a case
  std::vector<double> errors_;                   // of the cases, by table_
  std::vector<std::vector<size_t>> dependents_;  // for each entry, the cases that depend on it
};

}  // namespace

Span<const TableEntry> TableEntries() { return kEntries; }

Result<FittedTable> FitTable(const CudaTarget& target, const GpuTable& start,
                             const std::vector<TimedCase>& times) {
  std::vector<TimedCase> known;
  for (const TimedCase& time : times) {
    RONDO_ASSIGN_OR_RETURN(const std::optional<double> cycles,
                           EstimatedCycles(target, *time.kernel.Kernel()));
    if (cycles) known.push_back(time);
  }
  if (known.empty())
    return Status::Error(Code::kInvalidArgument, "none of the kernels timed has an estimate");
  return Fitter(target, start, known).Run();
}

}  // namespace rondo::bench
