#include "compiler/schedule/streams.h"

#include <charconv>
#include <map>

namespace rondo {
namespace {

bool Parse(std::string_view text, uint32_t* stream) {
  std::from_chars(text.data(), text.data() + text.size(), *stream);
  return IsStreamNumber(text);
}

Result<uint32_t> StreamOf(const LoweredOp& op) {
  const auto annotation = op.annotations.find("stream");
  uint32_t stream = 0;
  if (annotation == op.annotations.end() || Parse(annotation->second, &stream)) return stream;
  const std::string source = op.sources.empty() ? "a node" : op.sources.front();
  return Status::Error(Code::kInvalidArgument, "%s is annotated stream: %.50s; streams are 0 to %u",
                       source.c_str(), annotation->second.c_str(), kMaxAnnotatedStreams - 1)
      .FromNode(source);
}

}  // namespace

Result<std::string> AssignStreams(LoweredProgram* program) {
  std::map<uint32_t, uint32_t> numbers = {{0, 0}};
  int loop = -1;
  uint32_t of_loop = 0;
  for (LoweredOp& op : program->ops) {
    RONDO_ASSIGN_OR_RETURN(op.stream, StreamOf(op));
    if (op.loop >= 0 && op.loop == loop) op.stream = of_loop;
    if (op.kind == LoweredKind::kCall && !op.call->op.graph_safe) op.stream = 0;
    loop = op.loop;
    of_loop = op.stream;
    numbers[op.stream] = 0;
  }
  uint32_t next = 0;
  for (auto& [annotated, number] : numbers) number = next++;
  size_t moved = 0;
  for (LoweredOp& op : program->ops) {
    op.stream = numbers[op.stream];
    moved += op.stream != 0;
  }
  if (next == 1) return std::string("all on one stream");
  return std::to_string(next) + " streams; " + std::to_string(moved) + " of " +
         std::to_string(program->ops.size()) + " steps are not on stream 0";
}

}  // namespace rondo
