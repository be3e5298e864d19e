// Epilogues that only compute f32 in place, row by row, without the interpreter of tapes.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/product.h"

namespace rondo::host::RONDO_ISA {

// The operations of an epilogue whose accumulators, loads and stores need no copies, with the addresses of
// their registers: these move from row to row by fixed steps. Other epilogues run as tapes. Made once a
// launch.
class StraightEpilogue {
 public:
  StraightEpilogue(const MatmulPart& part, Worker& w) : part_(part), w_(w), inner_(part.nest.first[2] - 1) {
    if (!Prepare()) count_ = 0;
  }

  // As RunEpilogue.
  void Run(int64_t* pos, int64_t row, int64_t rows, int n) {
    const Nest& nest = part_.nest;
    const int64_t most = part_.epilogue_rows;
    if (count_ == 0 || most * n % 16 != 0 || (most > 1 && part_.acc_row != n))
      return RunEpilogue(part_, w_, pos, row, rows, n);
    for (int64_t r = 0, line; r < rows; r += line) {
      Decode(nest, nest.first[1], nest.first[2], row + r, pos);
      line = Least(rows - r, nest.extent[inner_] - pos[inner_]);
      Place(pos, w_.scratch + part_.acc_at + r * part_.acc_row * 4);
      int64_t done = 0;  // operations compute whole vectors
      for (; done < line && Least(most, line - done) * n % 16 == 0; done += most)
        Take(Least(most, line - done), n);
      if (done < line) RunEpilogue(part_, w_, pos, row + r + done, line - done, n, r + done);
    }
  }

 private:
  static constexpr int kMostSteps = 12;
  static constexpr uint32_t kMostSlots = 24;
  // Where the values of a register are: in scratch, in an operand, or (neither) in accumulators.
  struct Register {
    char* scratch = nullptr;
    const Access* operand = nullptr;
    int64_t acc = 0;  // bytes from the first accumulator
  };
  struct Step {
    const Inst* inst = nullptr;
    Register reg[4];  // out, a, b, c
    char* at[4] = {};
    int64_t row_bytes[4] = {};
  };

  bool Prepare() {
    const Program& program = part_.epilogue;
    if (program.slots > kMostSlots) return false;
    Register slots[kMostSlots];
    char* const registers = w_.scratch + program.registers_at;
    const uint32_t shift = program.slot_shift;
    for (uint32_t s = 0; s < program.slots; ++s) slots[s].scratch = registers + (s << shift);
    const Inst* const end = program.body + program.num_body;
    for (const Inst* inst = program.body + program.num_same; inst != end; ++inst) {
      Register& result = slots[inst->out >> shift];
      if (inst->kind == InstKind::kLoad && inst->direct) {
        result = {nullptr, inst->access, 0};
      } else if (inst->kind == InstKind::kAcc) {
        result = {nullptr, nullptr, inst->arg * part_.acc_stride};
      } else if (inst->kind == InstKind::kOp && count_ < kMostSteps) {
        Step& step = steps_[count_++];
        step.inst = inst;
        step.reg[1] = slots[inst->a >> shift];
        step.reg[2] = slots[inst->b >> shift];
        step.reg[3] = slots[inst->c >> shift];
        result = {registers + inst->out, nullptr, 0};
        step.reg[0] = result;
        if (inst->direct) step.reg[0] = {nullptr, (++inst)->access, 0};
      } else {
        return false;
      }
    }
    for (int s = 0; s < count_; ++s) {
      for (int k = 0; k < 4; ++k) {
        const Register& reg = steps_[s].reg[k];
        int64_t& bytes = steps_[s].row_bytes[k];
        if (reg.operand == nullptr) bytes = reg.scratch == nullptr ? part_.acc_row * 4 : 0;
        for (int i = 0; reg.operand != nullptr && i < reg.operand->num_loops; ++i) {
          if (reg.operand->loop[i] == inner_) bytes = reg.operand->step[i] * reg.operand->size;
        }
      }
    }
    return true;
  }

  void Take(int64_t rows, int n) {
    for (int s = 0; s < count_; ++s) {
      Step& step = steps_[s];
      step.inst->fn({step.at[0], step.at[1], step.at[2], step.at[3]}, *step.inst, static_cast<int>(rows) * n);
      for (int k = 0; k < 4; ++k) step.at[k] += step.row_bytes[k] * rows;
    }
  }

  // Sets the addresses for the row at pos, whose accumulators begin at `acc`.
  void Place(const int64_t* pos, char* acc) {
    for (int s = 0; s < count_; ++s) {
      for (int k = 0; k < 4; ++k) {
        const Register& reg = steps_[s].reg[k];
        steps_[s].at[k] = reg.operand != nullptr   ? Pointer(*reg.operand, w_, BaseOf(*reg.operand, pos))
                          : reg.scratch != nullptr ? reg.scratch
                                                   : acc + reg.acc;
      }
    }
  }

  const MatmulPart& part_;
  Worker& w_;
  const int inner_;  // the innermost loop of group m
  int count_ = 0;    // of steps_; 0: the epilogue is a tape
  Step steps_[kMostSteps];
};

}  // namespace rondo::host::RONDO_ISA
