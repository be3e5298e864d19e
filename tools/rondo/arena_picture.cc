#include <algorithm>

#include "tools/rondo/plan_report.h"

namespace rondo::tools {
namespace {

constexpr double kWidth = 1160, kHeight = 420, kLeft = 8, kTop = 8;

const char* ColourOf(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput: return "#7fb3d5";
    case BufferKind::kOutput: return "#f0b27a";
    case BufferKind::kWorkspace: return "#c39bd3";
    default: return "#a9d8b0";
  }
}

std::string Text(const std::string& text) { return Escaped(text); }

}  // namespace

std::string ArenaPicture(const PlanData& plan, uint32_t program, uint32_t device) {
  const Program& of = plan.programs[program];
  const double steps = std::max<double>(1, static_cast<double>(of.steps.size()));
  const double arena = std::max<double>(1, static_cast<double>(of.arena_bytes));
  std::string svg = Printf("<svg viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"11\">\n",
                           kWidth + 2 * kLeft, kHeight + 2 * kTop + 20);
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (!LivesInArena(buffer.kind) || buffer.program != program || buffer.device != device) continue;
    if (buffer.first_step > buffer.last_step || buffer.bytes == 0) continue;
    const double x = kLeft + kWidth * buffer.first_step / steps;
    const double width = kWidth * (buffer.last_step - buffer.first_step + 1) / steps;
    const double height = kHeight * static_cast<double>(buffer.bytes) / arena;
    const double y = kTop + kHeight - kHeight * static_cast<double>(buffer.offset) / arena - height;
    svg += Printf(
        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#444\" "
        "stroke-width=\"0.3\"><title>",
        x, y, width, height, ColourOf(buffer.kind));
    svg += Text(Printf("#%u %s %s %s: %llu bytes at %llu, steps %u to %u", b, Name(buffer.kind),
                       TypeText(buffer).c_str(), std::string(buffer.name).c_str(),
                       static_cast<unsigned long long>(buffer.bytes),
                       static_cast<unsigned long long>(buffer.offset), buffer.first_step, buffer.last_step));
    svg += "</title></rect>\n";
  }
  const double bound = kTop + kHeight - kHeight * static_cast<double>(of.arena_lower_bound) / arena;
  svg += Printf(
      "<line x1=\"%g\" y1=\"%.2f\" x2=\"%g\" y2=\"%.2f\" stroke=\"#c0392b\" stroke-dasharray=\"6 4\"/>\n",
      kLeft, bound, kLeft + kWidth, bound);
  svg += Printf("<text x=\"%g\" y=\"%g\">", kLeft, kTop + kHeight + 18);
  svg += Text(
      Printf("arena offset (0 to %s, upwards) over steps (0 to %zu); dashed: the lower bound; blue inputs, "
             "orange outputs, green temporaries, violet workspace",
             BytesText(of.arena_bytes).c_str(), of.steps.size()));
  return svg + "</text>\n</svg>\n";
}

}  // namespace rondo::tools
