// PlanEmitter: builds one plan from planned programs, in parts that the programs share. Internal to
// compiler/codegen: call EmitPlan (emit_plan.h). Lives on the stack of one call.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "compiler/codegen/kernel_table.h"
#include "compiler/codegen/sync_points.h"
#include "compiler/ir/throwing_arena.h"
#include "formats/plan/assertion_note.h"

namespace rondo {

constexpr uint64_t RoundUp(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Collects what the programs share, then adds program by program to the plan.
class PlanEmitter {
 public:
  PlanEmitter(std::vector<PlannedProgram> programs, const EmitOptions& options)
      : programs_(std::move(programs)), options_(options) {
    out_.arena = ir::NewArena();
  }
  Result<EmittedPlan> Emit(EmitReport* report);

 private:
  std::string_view Text(std::string_view text) { return out_.arena->CopyText(text); }
  uint32_t Source(const std::vector<std::string>& sources);
  // The PlannedPrograms [first, end) that are one program of the plan.
  struct Group {
    size_t first, end;
    uint32_t index;  // of the program
  };

  void GroupDevices();
  std::string NameOn(const std::string& name, size_t p) const;
  // emit_buffers.cc
  uint32_t AddBuffer(const LoweredValue& value, std::string_view name, uint32_t device);
  void AddStates();
  void AddConstants();
  uint32_t AddConstant(const LoweredValue& value, uint32_t device);
  void AddProgramBuffers(const Group& group);
  void AddDeviceBuffers(size_t p, uint32_t program_index, uint32_t first_step, uint32_t steps);
  void LayOutShared();

  // emit_order.cc: for each op, the events that its step waits for, the event that it records, and the steps
  // in its `after`.
  struct StepEdges {
    std::vector<std::vector<uint32_t>> waits, after;
    std::vector<uint32_t> records;
  };
  static StepEdges EdgesOf(const LoweredProgram& program, uint32_t first_step, uint32_t* num_events);

  // emit_overlap.cc
  void NoteOverlaps(const Group& group);
  void NoteTimes();

  // emit_assertions.cc
  AssertionNote AssertionNoteOf(size_t p, int64_t assertion, uint32_t number, uint32_t step) const;
  uint32_t FirstAssertion(const Group& group) const;
  Kernel NumberAssertions(size_t p, Kernel kernel, uint32_t step, uint32_t first);

  // emit_regions.cc
  void NoteRegions(const LoweredProgram& program, uint32_t first_step);

  // emit_plan.cc
  uint32_t BufferOf(size_t p, const LoweredPort& port) const;
  Result<Span<const Port>> Inputs(const Group& group);
  Span<const Port> Outputs(const Group& group);
  static std::string TensorText(const Buffer& buffer);
  // Op `index` of program `p`, with this kernel if it has one.
  Step StepOf(size_t p, size_t index, const StepEdges& edges, const Kernel& kernel);
  Step CallOf(size_t p, const LoweredOp& op, Step step);
  void AddPartitions(const PlannedProgram& planned, uint32_t first_step, bool last_device,
                     std::vector<Partition>* partitions);
  Result<Span<const SyncPoint>> SyncPoints(const Group& group);
  Status AddProgram(const Group& group);
  void StateNeeds();
  void NameOtherValues();
  void Finish(EmitReport* report);

  std::vector<PlannedProgram> programs_;
  EmitOptions options_;
  EmittedPlan out_;
  std::vector<std::vector<uint32_t>> value_buffers_;  // per program and value: its buffer
  std::vector<Buffer> buffers_;
  std::vector<Program> plan_programs_;
  std::vector<CustomOp> custom_ops_;
  std::map<std::string, uint32_t> custom_of_;  // by CallInfo::key
  KernelTable kernels_;
  std::map<std::string, uint32_t> source_numbers_;
  std::vector<std::string_view> sources_;
  std::vector<std::string> reasons_;                                   // formats/plan/copies.h
  std::map<std::pair<uint32_t, uint32_t>, AssertionNote> assertions_;  // by step and number, of any program
  std::vector<std::string> assertion_notes_;
  std::vector<Group> groups_;
  std::vector<DeviceBytes> devices_;
  // For the program being added: its first device program, and the sync points of each device program.
  size_t first_of_group_ = 0;
  std::vector<std::vector<uint32_t>> sync_points_;
  std::vector<uint32_t> same_as_;  // of a constant that shares another's bytes in the file: that buffer
  uint64_t synthetic_bytes_ = 0;
  uint32_t shared_constants_ = 0;
};

}  // namespace rondo
