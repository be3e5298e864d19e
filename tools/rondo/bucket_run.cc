#include "tools/rondo/bucket_run.h"

#include <algorithm>

namespace rondo::tools {

Result<std::unique_ptr<BucketSession>> OpenBuckets(Session& session, const std::string& program) {
  const PlanData& plan = session.plan().data();
  RONDO_ASSIGN_OR_RETURN(const std::vector<BucketFamily> families, FamiliesOf(plan));
  const auto means = [&](const BucketFamily& family) {
    return program.empty() ? family.buckets().size() == CountPrograms(plan) : family.name() == program;
  };
  const auto found = std::find_if(families.begin(), families.end(), means);
  if (found == families.end()) return std::unique_ptr<BucketSession>();
  return BucketSession::Create(&session, found->name());
}

Result<TrueRun> ChooseFor(const PlanData& plan, const BucketFamily& family, Span<const Tensor> tensors) {
  TrueRun run;
  run.inputs = InputsOf(plan, family.buckets().back().program, tensors);
  RONDO_ASSIGN_OR_RETURN(run.choice, family.Choose(run.inputs));
  run.program = family.bucket(run.choice).program;
  return run;
}

std::string LengthsText(const BucketFamily& family, const BucketFamily::Choice& choice) {
  std::string text;
  for (size_t l = 0; l < family.lengths().size(); ++l)
    text += (l == 0 ? "" : ", ") + family.lengths()[l] + "=" + std::to_string(choice.lengths[l]);
  return text;
}

std::vector<Output> OutputsOf(Session& session, const BucketFamily& family, const TrueRun& run,
                              std::vector<Tensor>* tensors) {
  const PlanData& plan = session.plan().data();
  const auto& ports = plan.programs[run.program].outputs;
  std::vector<Output> outputs;
  tensors->reserve(ports.size());
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (session.device(plan.buffers[ports[i].buffer].device) == nullptr) continue;
    const BucketFamily::PaddedPort& port = family.bucket(run.choice).outputs[i];
    const Shape shape = port.ShapeOf(run.choice);
    const auto bytes = static_cast<size_t>(shape.elements() * ByteSize(port.plan.dtype));
    Tensor& tensor =
        tensors->emplace_back(Tensor{port.plan.name, port.plan.dtype, shape, std::vector<uint8_t>(bytes)});
    Output output;
    output.index = i;
    output.dtype = tensor.dtype;
    output.data = tensor.bytes.data();
    output.bytes = bytes;
    outputs.push_back(output);
  }
  return outputs;
}

Result<std::vector<Tensor>> RunOnBuckets(Session& session, BucketSession& buckets, const TrueRun& run,
                                         const RunOptions& options) {
  std::vector<Tensor> tensors;
  const std::vector<Output> outputs = OutputsOf(session, buckets.family(), run, &tensors);
  RONDO_RETURN_IF_ERROR(buckets.Run(run.inputs, outputs, options));
  return tensors;
}

}  // namespace rondo::tools
