// Plans of one program on several devices, made by hand, for tests of collectives.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/plan.h"

namespace rondo {

// A plan and the data that it points into. Add everything, rank by rank, then call Finish.
class MeshPlan {
 public:
  explicit MeshPlan(uint32_t devices) : devices_(devices) {}
  MeshPlan(const MeshPlan&) = delete;
  MeshPlan& operator=(const MeshPlan&) = delete;

  // Returns the buffer's index. Inputs and outputs become ports of the same name.
  uint32_t Add(BufferKind kind, uint32_t device, const std::string& name, int64_t elements,
               DType dtype = DType::kF32);
  // The same input on all devices: the buffers, by device.
  std::vector<uint32_t> AddReplicated(const std::string& name, int64_t elements);
  // Returns its number; its source is `Op "NAME"`.
  uint32_t AddSyncPoint(CollectiveOp op, DType dtype, uint64_t bytes, uint32_t communicator,
                        const std::vector<uint32_t>& participants, const std::string& name);
  // Kernels over f32 tensors of `elements`: to = a + b, and to = a * `factor`.
  uint32_t AddKernel(int64_t elements);
  uint32_t ScaleKernel(int64_t elements, double factor);

  // Steps, returned by number; step(i) may be changed until Finish.
  uint32_t Launch(uint32_t device, uint32_t kernel, std::initializer_list<uint32_t> buffers,
                  uint32_t stream = 0);
  uint32_t Copy(uint32_t device, Binding from, Binding to, uint64_t bytes);
  uint32_t Start(uint32_t device, uint32_t sync_point, Binding from, Binding to, uint32_t stream = 0);
  uint32_t Wait(uint32_t device, uint32_t sync_point, uint32_t stream = 0);
  Step& step(uint32_t i) { return steps_[i]; }
  // Makes `later` wait for `earlier` by an event.
  void Order(uint32_t earlier, uint32_t later);
  // Begins a new partition with the next step (a change of device does, too).
  void Break() { breaks_.push_back(static_cast<uint32_t>(steps_.size())); }

  // Lays out memory, states lifetimes, partitions and certificates. `data` is then complete.
  void Finish();
  // Certificates of the program as it is now.
  void Certify();
  uint32_t devices() const { return devices_; }
  std::vector<uint32_t> AllDevices() const;
  Program& program() { return const_cast<Program&>(data.programs[0]); }

  PlanData data;
  Arena arena;

 private:
  std::string_view Text(const std::string& text) { return arena.CopyText(text); }
  uint32_t AddStep(const Step& step);
  uint32_t Source(const std::string& text);
  void StateLifetimes();

  const uint32_t devices_;
  std::vector<Buffer> buffers_;
  std::vector<Kernel> kernels_;
  std::vector<Step> steps_;
  std::vector<std::vector<uint32_t>> waits_;  // by step
  std::vector<SyncPoint> sync_points_;
  std::vector<std::string_view> sources_;
  std::vector<Port> inputs_, outputs_;
  std::vector<uint32_t> breaks_;
  uint32_t num_events_ = 0;
};

// `layers` layers on every device d, with an input "x" of all devices and "b<d>" of each, all f32 [elements]:
//   stream 0: y = x + b, s = all-reduce(y) on communicator 0, x = s * 0.3
//   stream 1: v = v + b (beginning with b), w = all-reduce(v) on communicator 1, v = w * 0.2
// and out<d> = x + v. Every out is the same. `split` puts each layer in a partition of its own.
void MakeLayers(MeshPlan* plan, int layers, int64_t elements, bool split = false);
// The results of MakeLayers' plan: `b` has the devices' inputs one after another.
std::vector<float> LayersReference(uint32_t devices, int layers, const std::vector<float>& x,
                                   const std::vector<float>& b);

}  // namespace rondo
