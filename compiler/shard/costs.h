// Costs: the quantities that are weighed when shardings are chosen, all in bytes.
//
// The purpose of several devices is a model that fits them. So a byte of weights or state on a device counts
// one, and a sent byte counts a quarter. Every collective also counts a thousandth of half the weights, so
// that no collective is made for a tiny table (2.5 KB in small models). Work that could be divided counts a
// little.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/shard/sharding.h"

namespace rondo::shard {

class Costs {
 public:
  Costs(const ir::Graph& graph, int64_t devices);

  int64_t devices() const { return devices_; }
  // Of getting `to` from `from`, for the whole value `bytes` large. kWhole to anything needs no message.
  double OfConversion(Sharding from, Sharding to, int64_t bytes) const;
  // Of sending a value of so many bytes to one other device; of the smallest.
  double OfSending(int64_t bytes) const;
  double OfMessage() const { return message_; }
  // Of holding a weight or state.
  double OfHolding(Sharding sharding, int64_t bytes) const {
    return static_cast<double>(bytes) /
           static_cast<double>(sharding.is_split() ? sharding.parts(devices_) : 1);
  }
  // Whether a device that holds only its share of a table of so many bytes saves far more than a collective
  // costs: a vocabulary does, positions do not.
  bool PaysAMessage(int64_t bytes) const {
    return OfHolding(kWhole, bytes) - OfHolding(Sharding::Split(1), bytes) > 8 * message_;
  }
  // Of a node's work, if all of it is done on every device.
  static double OfWork(const ir::Graph& graph, const ir::Node& node);

 private:
  const int64_t devices_;
  double message_ = 0;
};

// Of the node's value where it is held: what a packed constant takes packed.
int64_t BytesOf(const ir::Node& node);

}  // namespace rondo::shard
