// GatherWeights: each device stores its share of every weight, and holds the whole weight only around its
// use.
//
// All devices run all kernels over the same bytes, so results are bit-identical to those of one device.
// Weights are gathered in the order of their use, unit by unit. A unit is what neighbouring steps read, a
// layer's worth at most (more only if a single step reads more). The gathers of a unit start only when
// everything that reads the unit before the last is over: at most two units are in memory at once, in
// whatever order a later pass puts the steps. Neighbouring steps that read one weight share its gather; if
// more than a unit lies between them, it is gathered again.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/shard/combine_collectives.h"

namespace rondo {

// The devices that share the weights; this device has rank `rank` among them.
struct WeightSharing {
  int64_t devices = 1, rank = 0;  // one device: nothing is shared
  std::vector<uint32_t> group;    // their indices; empty: all of the plan's
  // Shares of a unit's weights, up to so many bytes each and in all, are gathered by one collective.
  shard::CombineLimits together = {0, 0};
  std::set<std::string> apart = {};  // weights that are not (GatherAlike)
};

// The weights gathered for neighbouring steps.
struct GatheredUnit {
  std::vector<int> values;  // of the program: the whole weights, temporaries
  int64_t bytes = 0;
};

struct GatheredWeights {
  std::vector<GatheredUnit> units;  // in the order of their use
  int64_t held = 0;                 // bytes of weights that stay on the device: shares, and whole weights
  int64_t layer = 0;    // bytes of a layer: the repeating part, or else the most that a step reads
  int64_t at_once = 0;  // the most bytes of two neighbouring units
  std::string text;     // for reports
};

// Changes `program`, whose order is final except for collectives. Every weight that is large enough becomes a
// share, which is gathered just before the first step of its unit that reads it, and waited for at once
// (OverlapCollectives separates the two). If the devices do not divide a weight's elements, the last share is
// padded. Small weights of one type and unit are gathered together: they lie one behind another, the devices
// share them as one weight, and readers find each in its place. Shares of tables (ConstantData::part_of) are
// unchanged. Weights below a thousandth of the total, and at most 16 KiB, stay whole. Equal programs stay
// equal except for the shares.
GatheredWeights GatherWeights(const WeightSharing& sharing, LoweredProgram* program);

// Programs of one device hold a share once only if they gather the same weights together: adds to `apart` of
// all `sharing` those that they do not. Call it before GatherWeights, with a program for each.
void GatherAlike(const std::vector<WeightSharing*>& sharing,
                 const std::vector<const LoweredProgram*>& programs);

// Explains how more than two units could be in memory at once on some timing of the streams; "" if they
// cannot.
std::string GatheredBeyondTwoUnits(const GatheredWeights& gathered, const LoweredProgram& program);

}  // namespace rondo
