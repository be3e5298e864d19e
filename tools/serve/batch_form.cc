#include "tools/serve/batch_form.h"

#include <algorithm>

namespace rondo::serve {

namespace {

using PaddedPort = BucketFamily::PaddedPort;

// Programs that were compiled separately and differ only in the number of rows.
using Group = std::vector<BucketProgram>;

std::vector<BucketPort> PortsOf(const PlanData& plan, Span<const Port> ports) {
  std::vector<BucketPort> found;
  for (const Port& port : ports) {
    const Buffer& buffer = plan.buffers[port.buffer];
    found.push_back({std::string(port.name), buffer.dtype, buffer.shape, port.is_state});
  }
  return found;
}

// The first dimension of all ports; 0 if ports differ in it, if there is a state, or if there is no input.
int64_t RowsOf(const BucketProgram& program) {
  int64_t rows = program.inputs.empty() ? 0 : -1;
  for (const auto* ports : {&program.inputs, &program.outputs}) {
    for (const BucketPort& port : *ports) {
      const int64_t own = port.shape.rank == 0 || port.is_state ? 0 : port.shape[0];
      if (rows == -1) rows = own;
      if (rows != own) return 0;
    }
  }
  return std::max<int64_t>(rows, 0);
}

bool SameButRows(const std::vector<BucketPort>& a, const std::vector<BucketPort>& b) {
  const auto same = [](const BucketPort& x, const BucketPort& y) {
    Shape shape = y.shape;
    if (x.shape.rank > 0 && shape.rank > 0) shape[0] = x.shape[0];
    return x.name == y.name && x.dtype == y.dtype && x.shape == shape;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool BelongsTo(const Group& group, const BucketProgram& program) {
  const int64_t rows = RowsOf(program);
  return rows > 0 && std::all_of(group.begin(), group.end(), [&](const BucketProgram& other) {
           return RowsOf(other) > 0 && RowsOf(other) != rows && SameButRows(other.inputs, program.inputs) &&
                  SameButRows(other.outputs, program.outputs);
         });
}

// Makes each program a bucket for its number of rows.
void NoteRows(Group* group) {
  for (BucketProgram& program : *group) {
    program.note.family = group->front().note.family;
    program.note.lengths = {{"batch", RowsOf(program), ""}};
    for (const bool output : {false, true}) {
      for (const BucketPort& port : output ? program.outputs : program.inputs)
        program.note.dims.push_back({output, port.name, 0, {{0, 1}}});
    }
  }
}

// The length that is the first dimension of every port, or kNone.
uint32_t LengthOfRows(const BatchForm& form) {
  const BucketFamily::Bucket& largest = form.family.buckets().back();
  const auto is_first_of = [](const PaddedPort& port, uint32_t length) {
    return std::count_if(port.dims.begin(), port.dims.end(), [&](const BucketDim& dim) {
             return dim.dim == 0 && dim.terms.size() == 1 && dim.terms[0].length == length &&
                    dim.terms[0].times == 1 && dim.plus == 0 && dim.over == 1;
           }) == 1;
  };
  for (uint32_t l = 0; l < form.family.lengths().size(); ++l) {
    bool all = !form.inputs.empty();
    for (const uint32_t i : form.inputs) all = all && is_first_of(largest.inputs[i], l);
    for (const uint32_t i : form.outputs) all = all && is_first_of(largest.outputs[i], l);
    if (all) return l;
  }
  return kNone;
}

BatchForm FormOf(const PlanData& plan, BucketFamily family) {
  BatchForm form{std::move(family), {}, {}, {}};
  for (const BucketFamily::Bucket& bucket : form.family.buckets())
    form.programs.emplace_back(plan.programs[bucket.program].name);
  const auto list = [&](const std::vector<PaddedPort>& ports, std::vector<uint32_t>* to) {
    for (uint32_t i = 0; i < ports.size(); ++i) {
      if (ports[i].plan.is_state) {
        form.has_state = true;
      } else if (ports[i].length == kNone) {
        to->push_back(i);
      }
    }
  };
  list(form.family.buckets().back().inputs, &form.inputs);
  list(form.family.buckets().back().outputs, &form.outputs);
  if (!form.has_state) form.rows = LengthOfRows(form);
  return form;
}

}  // namespace

Result<std::vector<BatchForm>> FindBatchForms(const PlanData& plan, bool join) {
  std::vector<BatchForm> forms;
  std::vector<bool> taken(plan.programs.size());
  RONDO_ASSIGN_OR_RETURN(std::vector<BucketFamily> families, FamiliesOf(plan));
  for (BucketFamily& family : families) {
    for (const BucketFamily::Bucket& bucket : family.buckets()) taken[bucket.program] = true;
    forms.push_back(FormOf(plan, std::move(family)));
    forms.back().proven = true;
    if (!join) forms.back().rows = kNone;
  }
  std::vector<Group> groups;
  for (uint32_t p = 0; p < CountPrograms(plan); ++p) {
    if (taken[p]) continue;
    const Program& program = plan.programs[p];
    BucketProgram found{p, {}, PortsOf(plan, program.inputs), PortsOf(plan, program.outputs)};
    found.note.family = std::string(program.name);
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& other) { return join && BelongsTo(other, found); });
    if (group != groups.end()) {
      group->push_back(std::move(found));
    } else {
      groups.push_back({std::move(found)});
    }
  }
  for (Group& group : groups) {
    if (join && (group.size() > 1 || RowsOf(group[0]) > 1)) NoteRows(&group);
    RONDO_ASSIGN_OR_RETURN(BucketFamily family, BucketFamily::Make(std::move(group)));
    forms.push_back(FormOf(plan, std::move(family)));
  }
  return forms;
}

}  // namespace rondo::serve
