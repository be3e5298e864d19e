// GatherWeights: each device keeps its share of every weight, and all of one only around its use.
//
// All devices run the same kernels, all of them, over the same bytes: results are those of one device, to the
// bit. Weights are gathered in the order of their use, unit by unit: a unit is what neighbouring steps read,
// a layer's worth at most (more only where a single step reads more). No gather of a unit starts before all
// that reads the unit before the last is over: two units are there at once, never three, in whatever order a
// later pass puts the steps. Neighbouring steps that read one weight share its gather; where more than a unit
// lies between them, it is gathered again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// The devices that share the weights; this is the one of rank `rank` among them.
struct WeightSharing {
  int64_t devices = 1, rank = 0;  // one device: nothing is shared
  std::vector<uint32_t> group;    // their numbers; empty: all of the plan's
};

// What is gathered for neighbouring steps.
struct GatheredUnit {
  std::vector<int> values;  // of the program: the whole weights, temporaries
  int64_t bytes = 0;
};

struct GatheredWeights {
  std::vector<GatheredUnit> units;  // in the order of their use
  int64_t held = 0;     // bytes of weights that stay on the device: shares, and those that are whole
  int64_t layer = 0;    // bytes of a layer: what repeats, or else the most that a step reads
  int64_t at_once = 0;  // the most bytes of two neighbouring units
  std::string text;     // for reports
};

// Changes `program`, whose order is final but for collectives: every weight worth a message is bound as a
// share and gathered just before the first step of its unit that reads it, waited for at once
// (OverlapCollectives moves the two apart). Where devices do not divide a weight's elements, the last share
// is padded. Shares of tables (ConstantData::part_of) stay what they are. Weights of less than a thousandth
// of all, and of 16 KiB at most, stay whole. Equal programs become equal programs but for the shares.
GatheredWeights GatherWeights(const WeightSharing& sharing, LoweredProgram* program);

// How more than two units can be in memory at once, whatever the timing of the streams; "" if they cannot.
std::string GatheredBeyondTwoUnits(const GatheredWeights& gathered, const LoweredProgram& program);

}  // namespace rondo
