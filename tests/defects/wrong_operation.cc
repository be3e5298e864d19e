#include "tests/defects/wrong_operation.h"

#include <algorithm>

#include "runtime/verify/value_names.h"
#include "tests/defects/pick.h"

namespace rondo::defects {
namespace {

struct Sort {
  const char* op_type;  // the node's operator
  TapeOp op, wrong;
};
constexpr Sort kSorts[] = {{"Erf", TapeOp::kErf, TapeOp::kAbs},         {"Tanh", TapeOp::kTanh, TapeOp::kNeg},
                           {"Sigmoid", TapeOp::kSigmoid, TapeOp::kAbs}, {"Cos", TapeOp::kCos, TapeOp::kAbs},
                           {"Exp", TapeOp::kExp, TapeOp::kAbs},         {"Relu", TapeOp::kMax, TapeOp::kMin},
                           {"Add", TapeOp::kAdd, TapeOp::kSub},         {"Sub", TapeOp::kSub, TapeOp::kAdd},
                           {"Mul", TapeOp::kMul, TapeOp::kAdd},         {"Div", TapeOp::kDiv, TapeOp::kMul},
                           {"Clip", TapeOp::kMax, TapeOp::kMin}};

std::vector<Tape> TapesOf(const Part& part) {
  std::vector<Tape> tapes = {part.body, part.epilogue};
  for (const Stage& stage : part.stages) tapes.push_back(stage.tape);
  return tapes;
}

// The only label of `labels` whose operator is `op_type`; "" if there is none, or there are several.
std::string OnlyLabel(const std::vector<std::string_view>& labels, std::string_view op_type) {
  std::string found;
  for (std::string_view label : labels) {
    if (label.substr(0, label.find(' ')) != op_type) continue;
    if (!found.empty()) return "";
    found = label;
  }
  return found;
}

void AddOperations(const Kernel& kernel, const WrongOperation& of, std::vector<WrongOperation>* all) {
  const std::vector<std::string_view> labels = LabelsOf(of.step_source);
  for (const Sort& sort : kSorts) {
    WrongOperation one = of;
    one.node = OnlyLabel(labels, sort.op_type);
    if (one.node.empty()) continue;
    uint32_t count = 0;
    for (one.part = 0; const Part& part : kernel.parts) {
      const std::vector<Tape> tapes = TapesOf(part);
      for (size_t t = 0; t < tapes.size(); ++t) {
        for (uint32_t i = 0; i < tapes[t].size(); ++i) {
          if (tapes[t][i].op != sort.op || tapes[t][i].type == TapeType::kI64) continue;
          ++count;
          one.tape = static_cast<int>(t);
          one.instruction = i;
        }
      }
    }
    one.what = std::string(Name(sort.op)) + " becomes " + Name(sort.wrong);
    if (count == 1 && kernel.parts.size() == 1) all->push_back(one);
  }
  const Part& part = kernel.parts[0];
  if (kernel.parts.size() != 1 || part.rhs.size() != 1 || part.reduced == 0) return;
  for (const char* op_type : {"MatMul", "Gemm", "Conv"}) {
    WrongOperation one = of;
    one.node = OnlyLabel(labels, op_type);
    one.tape = -1;
    one.what = "the lhs is read at one place along k";
    if (!one.node.empty()) all->push_back(one);
  }
}

}  // namespace

std::vector<WrongOperation> WrongOperations(const PlanData& plan) {
  std::vector<WrongOperation> all;
  for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
    std::vector<const Step*> launches;
    for (const Program& program : plan.programs) {
      for (const Step& step : program.steps) {
        if (step.kind == StepKind::kLaunch && step.kernel == k) launches.push_back(&step);
      }
    }
    if (launches.empty() || launches[0]->source >= plan.sources.size()) continue;
    WrongOperation of;
    of.kernel = k;
    of.step_source = plan.sources[launches[0]->source];
    AddOperations(plan.kernels[k], of, &all);
  }
  return all;
}

void Plant(const PlanData& plan, const WrongOperation& operation) {
  const Part& part = plan.kernels[operation.kernel].parts[operation.part];
  if (operation.tape < 0) {
    const Operand& lhs = part.operands[part.lhs];
    for (uint32_t l = part.outer + part.m + part.n; l < part.loops.size(); ++l) Edit(lhs.strides[l]) = 0;
    for (const Guard& guard : lhs.guards) {
      for (uint32_t l = part.outer + part.m + part.n; l < part.loops.size(); ++l) Edit(guard.strides[l]) = 0;
    }
    return;
  }
  const Tape tape = TapesOf(part)[static_cast<size_t>(operation.tape)];
  TapeInst& inst = Edit(tape[operation.instruction]);
  const auto sort = std::find_if(std::begin(kSorts), std::end(kSorts), [&](const Sort& s) {
    return operation.what == std::string(Name(s.op)) + " becomes " + Name(s.wrong);
  });
  inst.op = sort->wrong;
}

}  // namespace rondo::defects
