// AliasModel: a model of a few nodes, for tests of its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "runtime/verify/expectation.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"

namespace rondo {

class AliasModel : public ModelMaker {
 public:
  using ModelMaker::ModelMaker;
  using ModelMaker::Node;

  // Nodes with attributes of one kind: Node("Concat", {"a", "b"}, {"c"}, "axis", 1).
  void Node(const std::string& op, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const std::string& attribute, int64_t value);
  void Node(const std::string& op, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const std::string& attribute,
            const std::vector<int64_t>& values);
  // Takes elements [begin, end) along `axis`.
  void Slice(const std::string& from, const std::string& to, int64_t begin, int64_t end, int64_t axis = 0);
  // Makes an input and an output one persistent buffer.
  void State(const std::string& input, const std::vector<int64_t>& dims, const std::string& output,
             int type = onnx::TensorProto::FLOAT);
  // Lets the plan overwrite the input's memory.
  void Donate(const std::string& input) { donations_.push_back(input); }
  // Draws integer inputs from [0, below).
  void IntegersBelow(int64_t below) { below_ = below; }

  // Compiles the model, runs it twice on the host driver, with the state carried on, and compares all outputs
  // and states with the evaluator's for the model's graph, before any pass. Then the lifecycle verifier
  // checks the plan, and the plan must give the reason of every step that copies. Call it once.
  void Check();

  // Valid after Check. If the plan could not be made: 0, empty.
  const PlanData& plan() const { return model_->data(); }
  LiveModel& live() { return *model_; }
  size_t steps() const { return plan().programs[0].steps.size(); }
  uint64_t arena() const { return plan().programs[0].arena_bytes; }
  uint64_t copied() const { return CopiedBytes(plan(), 0); }
  // The reason why it does not hold; "" if it holds.
  std::string Expect(ExpectationKind kind, const std::string& value, const std::string& other = "") const {
    return Mismatch(plan(), {kind, value, other, "", 0});
  }
  // The reasons of all copies.
  std::string Why() const;

 private:
  ir::Values RandomInputs(const ir::Graph& graph) const;
  void CheckRuns(const ir::Graph& graph);
  void CheckLifecycle();

  std::vector<StateName> states_;
  std::vector<std::string> donations_;
  int64_t below_ = 2;
  std::unique_ptr<LiveModel> model_;
};

}  // namespace rondo
