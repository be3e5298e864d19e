#include "tools/serve/batch_form.h"

#include <algorithm>

namespace rondo::serve {

namespace {

std::vector<PortForm> PortsOf(const PlanData& plan, Span<const Port> ports) {
  std::vector<PortForm> forms;
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].is_state) continue;
    const Buffer& buffer = plan.buffers[ports[i].buffer];
    forms.push_back({std::string(ports[i].name), buffer.dtype, buffer.shape, buffer.bytes, i});
  }
  return forms;
}

// The first dimension of all ports; 0 if they differ.
int64_t RowsOf(const BatchForm& form) {
  int64_t rows = -1;
  for (const auto* ports : {&form.inputs, &form.outputs}) {
    for (const PortForm& port : *ports) {
      const int64_t own = port.shape.rank == 0 ? 0 : port.shape[0];
      if (rows == -1) rows = own;
      if (rows != own) return 0;
    }
  }
  return std::max<int64_t>(rows, 0);
}

bool SameRows(const std::vector<PortForm>& a, const std::vector<PortForm>& b) {
  const auto same = [](const PortForm& x, const PortForm& y) {
    Shape shape = y.shape;
    if (x.shape.rank > 0 && shape.rank > 0) shape[0] = x.shape[0];
    return x.name == y.name && x.dtype == y.dtype && x.index == y.index && x.shape == shape;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

BatchForm FormOf(const PlanData& plan, uint32_t number) {
  const Program& program = plan.programs[number];
  BatchForm form{PortsOf(plan, program.inputs), PortsOf(plan, program.outputs), {}};
  form.has_state = std::any_of(program.inputs.begin(), program.inputs.end(),
                               [](const Port& port) { return port.is_state; });
  form.programs = {{number, 1, std::string(program.name)}};
  const int64_t rows = RowsOf(form);
  if (rows == 0 || form.has_state) return form;
  form.joins = true;
  form.programs[0].rows = rows;
  for (auto* ports : {&form.inputs, &form.outputs}) {
    for (PortForm& port : *ports) port.row_bytes /= static_cast<uint64_t>(rows);
  }
  return form;
}

void DropJoining(BatchForm* form) {
  form->joins = false;
  for (auto* ports : {&form->inputs, &form->outputs}) {
    for (PortForm& port : *ports) port.row_bytes *= static_cast<uint64_t>(form->programs[0].rows);
  }
  form->programs[0].rows = 1;
}

}  // namespace

const SizedProgram& BatchForm::Choose(int64_t rows) const {
  const auto found = std::find_if(programs.begin(), programs.end(),
                                  [&](const SizedProgram& program) { return program.rows >= rows; });
  return found == programs.end() ? programs.back() : *found;
}

std::vector<BatchForm> FindBatchForms(const PlanData& plan, bool join) {
  std::vector<BatchForm> forms;
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    BatchForm form = FormOf(plan, p);
    if (form.joins && !join) DropJoining(&form);
    const auto like = std::find_if(forms.begin(), forms.end(), [&](const BatchForm& other) {
      return other.joins && form.joins && SameRows(other.inputs, form.inputs) &&
             SameRows(other.outputs, form.outputs);
    });
    if (like == forms.end()) {
      forms.push_back(std::move(form));
      continue;
    }
    if (form.programs[0].rows > like->most_rows()) like->inputs = form.inputs, like->outputs = form.outputs;
    like->programs.push_back(form.programs[0]);
    std::sort(like->programs.begin(), like->programs.end(),
              [](const SizedProgram& a, const SizedProgram& b) { return a.rows < b.rows; });
  }
  return forms;
}

}  // namespace rondo::serve
