#include "compiler/ir/philox.h"

namespace rondo::ir {

namespace {

constexpr int kRounds = 10;
constexpr double kLowBits = 4294967295.0;
constexpr double kMultipliers[] = {0xD2511F53, 0xCD9E8D57}, kKeySteps[] = {0x9E3779B9, 0xBB67AE85};

NodeId Low(Builder& b, NodeId x) { return b.BinaryScalar(TapeOp::kBitAnd, x, kLowBits); }

}  // namespace

std::array<NodeId, 4> Philox(Builder& b, std::array<NodeId, 4> counter, std::array<NodeId, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    // Values of 64 bits; kShr is a logical shift.
    const NodeId first = b.BinaryScalar(TapeOp::kMul, counter[0], kMultipliers[0]);
    const NodeId second = b.BinaryScalar(TapeOp::kMul, counter[2], kMultipliers[1]);
    const NodeId even = b.Binary(TapeOp::kBitXor, counter[1], key[0]);
    const NodeId odd = b.Binary(TapeOp::kBitXor, counter[3], key[1]);
    counter = {b.Binary(TapeOp::kBitXor, b.BinaryScalar(TapeOp::kShr, second, 32), even), Low(b, second),
               b.Binary(TapeOp::kBitXor, b.BinaryScalar(TapeOp::kShr, first, 32), odd), Low(b, first)};
    for (size_t i = 0; i < 2; ++i) key[i] = Low(b, b.BinaryScalar(TapeOp::kAdd, key[i], kKeySteps[i]));
  }
  return counter;
}

}  // namespace rondo::ir
