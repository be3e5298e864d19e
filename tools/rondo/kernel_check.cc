#include "tools/rondo/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/element.h"
#include "core/scalar.h"
#include "tools/rondo/kernel_memory.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

// Whether every way to compute the instruction gives the same bits.
bool Exact(const TapeInst& inst) {
  const Accuracy accuracy = AccuracyOf(inst.op);
  return accuracy == Accuracy::kExact || (inst.type == TapeType::kI64 && accuracy == Accuracy::kRounded);
}

// Whether that holds for everything that a part computes.
bool AllExact(const Part& part) {
  const auto exact = [](Tape tape) { return std::all_of(tape.begin(), tape.end(), Exact); };
  const bool sums_floats = part.skeleton == Skeleton::kAttention ||
                           (part.skeleton == Skeleton::kMatMul && part.acc_type != TapeType::kI64);
  return !sums_floats && exact(part.prologue) && exact(part.body) && exact(part.epilogue) &&
         std::all_of(part.stages.begin(), part.stages.end(),
                     [&](const Stage& stage) { return exact(stage.tape); });
}

// One in so many floats may lie so close to the middle between two steps that its rounding decides the step.
constexpr uint64_t kRareSteps = 64;

// One driver's device with the plan's kernels. The destructor releases everything.
class Side {
 public:
  ~Side() {
    if (module_ != nullptr) device_->DestroyModule(module_);
    if (stream_ != nullptr) device_->DestroyStream(stream_);
  }
  Status Open(const PlanData& plan, Driver* driver) {
    RONDO_ASSIGN_OR_RETURN(device_, driver->Open(0));
    RONDO_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
    RONDO_ASSIGN_OR_RETURN(module_, device_->LoadModule(plan));
    return Status::Ok();
  }

  // Runs the kernel over a copy of `memory` and returns the block after the run. `outcome`: the kernel's
  // report.
  Result<std::vector<uint8_t>> Run(uint32_t kernel, const KernelMemory& memory, Status* outcome) {
    const uint64_t bytes = memory.bytes.size();
    RONDO_ASSIGN_OR_RETURN(const DeviceAddress block, device_->Allocate(bytes, memory.alignment));
    Result<std::vector<uint8_t>> after = RunAt(block, kernel, memory, outcome);
    device_->Free(block, bytes);
    return after;
  }
  // Whether the last run met a value that an assertion forbids, which random inputs may make.
  bool asserted() const { return asserted_; }

 private:
  Result<std::vector<uint8_t>> RunAt(DeviceAddress block, uint32_t kernel, const KernelMemory& memory,
                                     Status* outcome) {
    std::vector<DeviceAddress> addresses;
    for (uint64_t place : memory.places) addresses.push_back(block + place);
    uint32_t step = 0;
    RONDO_RETURN_IF_ERROR(device_->CopyIn(block, memory.bytes.data(), memory.bytes.size(), stream_));
    *outcome = device_->Launch(module_, kernel, Span<const DeviceAddress>(addresses), stream_, 0);
    if (outcome->ok()) *outcome = device_->Synchronize(stream_, &step);
    asserted_ = device_->FailedAssertion(stream_) != kNone;
    if (!outcome->ok() && outcome->code() != Code::kOutOfRange) return *outcome;
    std::vector<uint8_t> after(memory.bytes.size());
    RONDO_RETURN_IF_ERROR(device_->CopyOut(after.data(), block, after.size(), stream_));
    RONDO_RETURN_IF_ERROR(device_->Synchronize(stream_, &step));
    return after;
  }

  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
  Module* module_ = nullptr;
  bool asserted_ = false;
};

double ValueAt(DType dtype, const uint8_t* at) {
  return IsFloat(dtype) ? scalar::Load<double>(dtype, at, 0)
                        : static_cast<double>(scalar::Load<int64_t>(dtype, at, 0));
}

class Checker {
 public:
  Checker(const PlanData& plan, uint32_t kernel, const KernelMemory& memory, const std::vector<uint8_t>& got,
          const std::vector<uint8_t>& want, KernelVerdict* verdict)
      : plan_(plan),
        kernel_(plan.kernels[kernel]),
        memory_(memory),
        got_(got),
        want_(want),
        verdict_(verdict) {
    for (const Program& program : plan.programs) {
      for (const Step& step : program.steps) {
        if (step_ == nullptr && step.kind == StepKind::kLaunch && step.kernel == kernel) step_ = &step;
      }
    }
  }

  // Checks that only allowed bytes were written and, if `values`, the values.
  void Written(bool values) {
    written_.assign(memory_.bytes.size(), false);
    if (kernel_.workspace_param != kNoOperand) {
      const auto scratch =
          written_.begin() + static_cast<std::ptrdiff_t>(memory_.places[kernel_.workspace_param]);
      std::fill_n(scratch, kernel_.workspace_bytes, true);
    }
    for (const Part& part : kernel_.parts) {
      for (uint16_t i = 0; i < part.operands.size(); ++i) {
        if (part.operands[i].mode == Mode::kRead) continue;
        Mark(part, i);
        if (values) Compare(part, i);
      }
    }
  }

  // Checks all other bytes.
  void Untouched() {
    constexpr uint64_t kBlock = 4096;
    for (uint64_t at = 0; at < got_.size(); at += kBlock) {
      const uint64_t end = std::min<uint64_t>(at + kBlock, got_.size());
      if (std::memcmp(&got_[at], &memory_.bytes[at], end - at) == 0) continue;
      for (uint64_t b = at; b < end; ++b) {
        if (got_[b] == memory_.bytes[b] || written_[b]) continue;
        return Say(Printf("%s was overwritten: got byte 0x%02x, expected 0x%02x as before",
                          PlaceOf(b).c_str(), got_[b], memory_.bytes[b]));
      }
    }
  }

  void Say(const std::string& what) {
    std::string text = "kernel " + std::string(kernel_.name);
    if (step_ != nullptr) text += " (" + SourceText(plan_, step_->source) + ")";
    verdict_->failures.push_back(text + ": " + what);
  }

 private:
  void Mark(const Part& part, uint16_t index) {
    const uint64_t size = static_cast<uint64_t>(ByteSize(part.operands[index].dtype));
    ForEachElement(memory_, part, index, [&](uint64_t at, const int64_t*) {
      std::fill_n(written_.begin() + static_cast<std::ptrdiff_t>(at), size, true);
    });
  }

  void Compare(const Part& part, uint16_t index) {
    const Operand& operand = part.operands[index];
    const double tolerance = KernelTolerance(part, operand);
    verdict_->tolerance = std::max(verdict_->tolerance, tolerance);
    double squares = 0, count = 0;
    ForEachElement(memory_, part, index, [&](uint64_t at, const int64_t*) {
      const double want = ValueAt(operand.dtype, &want_[at]);
      if (std::isfinite(want)) squares += want * want, ++count;
    });
    const double usual = count > 0 ? std::sqrt(squares / count) : 0;
    double worst = 0;
    uint64_t wrong = 0, elements = 0;
    uint64_t steps_off = 0;  // integers that differ by the allowed step
    std::string where;
    ForEachElement(memory_, part, index, [&](uint64_t at, const int64_t* point) {
      ++elements;
      const double error = ErrorAt(operand.dtype, at, usual);
      if (!(error > tolerance)) {
        steps_off += !IsFloat(operand.dtype) && error > 0;
        verdict_->greatest_error = std::max(verdict_->greatest_error, error);
        return;
      }
      ++wrong;
      if (error <= worst) return;
      worst = error;
      where = Printf("at loop counters %s: got %.9g, expected %.9g", PointText(part, point).c_str(),
                     ValueAt(operand.dtype, &got_[at]), ValueAt(operand.dtype, &want_[at]));
    });
    verdict_->elements += elements;
    const uint64_t most_off = elements / kRareSteps + 1;
    if (steps_off > most_off) {
      Say(
          Printf("operand %u (%s, %s) differs by one step of quantisation in %llu of %llu elements, at most "
                 "%llu may",
                 index, Name(operand.dtype), ParameterText(operand.param).c_str(),
                 static_cast<unsigned long long>(steps_off), static_cast<unsigned long long>(elements),
                 static_cast<unsigned long long>(most_off)));
    }
    if (wrong == 0) return;
    verdict_->greatest_error = std::max(verdict_->greatest_error, worst);
    Say(Printf("operand %u (%s, %s) has %llu wrong elements, the worst %s (error %.3g, at most %.3g)", index,
               Name(operand.dtype), ParameterText(operand.param).c_str(),
               static_cast<unsigned long long>(wrong), where.c_str(), worst, tolerance));
  }

  double ErrorAt(DType dtype, uint64_t at, double usual) const {
    if (std::memcmp(&got_[at], &want_[at], static_cast<size_t>(ByteSize(dtype))) == 0) return 0;
    const double got = ValueAt(dtype, &got_[at]), want = ValueAt(dtype, &want_[at]);
    // Integers may be too large to differ as doubles.
    if (!IsFloat(dtype)) return std::max(1.0, std::fabs(got - want));
    if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
    if (!std::isfinite(got) || !std::isfinite(want)) return HUGE_VAL;
    // Below the type's smallest normal number all are evenly spaced, so that one step may be much of a
    // number.
    const double normal = std::ldexp(1.0, 2 - (1 << (FactsOf(dtype).exponent - 1)));
    return std::fabs(got - want) / std::max({std::fabs(want), usual, normal});
  }

  static std::string PointText(const Part& part, const int64_t* point) {
    std::string text = "[";
    for (size_t d = 0; d < part.loops.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(point[d]);
    return text + "]";
  }

  std::string ParameterText(uint32_t param) const {
    std::string text = "parameter " + std::to_string(param);
    if (step_ != nullptr && param < step_->bindings.size()) {
      text += " \"" + Printable(std::string(plan_.buffers[step_->bindings[param].buffer].name)) + "\"";
    }
    return text;
  }

  // Names a byte by the nearest parameter: the last one that begins at or before it.
  std::string PlaceOf(uint64_t byte) const {
    uint32_t nearest = 0;
    uint64_t best = ~uint64_t{0};
    for (uint32_t p = 0; p < memory_.places.size(); ++p) {
      if (memory_.places[p] <= byte && byte - memory_.places[p] < best) {
        best = byte - memory_.places[p];
        nearest = p;
      }
    }
    if (best == ~uint64_t{0})
      return Printf("byte %llu before all parameters", static_cast<unsigned long long>(byte));
    return Printf("byte %llu from the start of %s, which the contract does not write,",
                  static_cast<unsigned long long>(best), ParameterText(nearest).c_str());
  }

  const PlanData& plan_;
  const Kernel& kernel_;
  const KernelMemory& memory_;
  const std::vector<uint8_t>&got_, &want_;
  KernelVerdict* verdict_;
  const Step* step_ = nullptr;
  std::vector<bool> written_;
};

// One verdict for each tested side.
Result<std::vector<KernelVerdict>> CheckOne(const PlanData& plan, uint32_t kernel, uint64_t seed,
                                            const std::vector<Side*>& tested, Side& believed) {
  std::vector<KernelVerdict> verdicts(tested.size());
  for (KernelVerdict& verdict : verdicts) verdict.kernel = kernel;
  for (IndexValues values : {IndexValues::kInRange, IndexValues::kOneOutside}) {
    const KernelMemory memory = MakeKernelMemory(plan, kernel, seed, values);
    const bool outside = values == IndexValues::kOneOutside;
    if (outside && !memory.faults) break;
    Status want_status;
    RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> want, believed.Run(kernel, memory, &want_status));
    if (want_status.ok() == outside && !believed.asserted()) {
      return Status::Error(Code::kInternal, "the inputs made for it are wrong: %s",
                           outside ? "an index out of range was not reported" : want_status.message());
    }
    for (size_t t = 0; t < tested.size(); ++t) {
      Status got_status;
      RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> got, tested[t]->Run(kernel, memory, &got_status));
      Checker checker(plan, kernel, memory, got, want, &verdicts[t]);
      if (got_status.ok() != want_status.ok()) {
        checker.Say(believed.asserted() ? "a value that is not finite was not reported"
                    : outside           ? "an index outside its bounds was not reported"
                                        : std::string("valid indices were refused: ") + got_status.message());
      }
      checker.Written(!outside && got_status.ok());
      checker.Untouched();
      verdicts[t].bytes = std::max<uint64_t>(verdicts[t].bytes, memory.bytes.size());
    }
  }
  return verdicts;
}

}  // namespace

double KernelTolerance(const Part& part, const Operand& written) {
  const bool quantised = written.dtype == DType::kI8 || written.dtype == DType::kU8;
  if (!IsFloat(written.dtype)) return quantised && !AllExact(part) ? 1 : 0;  // a step
  if (part.skeleton == Skeleton::kMap && std::all_of(part.body.begin(), part.body.end(), Exact)) return 0;
  bool f16 = part.tf32, bf16 = false, f32 = false;  // tf32 keeps as many bits as f16
  for (const Operand& operand : part.operands) {
    f16 |= operand.dtype == DType::kF16;
    bf16 |= operand.dtype == DType::kBF16;
    f32 |= operand.dtype == DType::kF32;
  }
  if (IsFp8(written.dtype)) return 2.4 / (1 << FactsOf(written.dtype).digits);  // one number of its format
  const double rounded = part.skeleton == Skeleton::kAttention ? 2 : 1;  // probabilities are rounded too
  return bf16 ? rounded / 32 : f16 ? rounded / 256 : f32 ? 1e-4 : 1e-9;
}

Result<std::vector<KernelVerdict>> CheckKernels(const PlanData& plan, Driver* tested, Driver* believed,
                                                const KernelCheckOptions& options) {
  Side a, b;
  RONDO_RETURN_IF_ERROR(a.Open(plan, tested));
  RONDO_RETURN_IF_ERROR(b.Open(plan, believed));
  std::vector<KernelVerdict> verdicts;
  for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
    const std::string name(plan.kernels[k].name);
    if (!options.only.empty() && options.only != name) continue;
    Result<std::vector<KernelVerdict>> verdict = CheckOne(plan, k, options.seed, {&a}, b);
    if (!verdict.ok()) return verdict.status().At("kernel %s", name.c_str());
    verdicts.push_back((*verdict)[0]);
    if (options.progress) options.progress(verdicts.back());
  }
  if (verdicts.empty() && !options.only.empty()) {
    return Status::Error(Code::kNotFound, "the plan has no kernel \"%s\"", options.only.c_str());
  }
  return verdicts;
}

Result<std::vector<KernelVerdict>> CheckBinaries(const PlanData& plan, uint32_t kernel,
                                                 const std::vector<const PlanData*>& others, Driver* driver,
                                                 uint64_t seed) {
  Side believed;
  RONDO_RETURN_IF_ERROR(believed.Open(plan, driver));
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<Side*> tested;
  for (const PlanData* other : others) {
    sides.push_back(std::make_unique<Side>());
    tested.push_back(sides.back().get());
    RONDO_RETURN_IF_ERROR(sides.back()->Open(*other, driver));
  }
  Result<std::vector<KernelVerdict>> verdicts = CheckOne(plan, kernel, seed, tested, believed);
  if (verdicts.ok()) return verdicts;
  return verdicts.status().At("kernel %s", std::string(plan.kernels[kernel].name).c_str());
}

}  // namespace rondo::tools
