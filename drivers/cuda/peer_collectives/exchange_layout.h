// What the ranks of a group of small collectives share, written once: device code (kernels.cu), the driver
// and the tests include it. It includes what a fault is, and nothing else.
//
// A rank's inbox is where the others write to it: two slots, which collectives take in turns, each with room
// for `capacity` packs from every rank. A pack is 8 bytes of data, carried as two 64-bit words that are
// written and read whole: 4 bytes of data and, above them, the epoch, the number of the collective. No flag
// has to be raised after the data, no value of the data means anything, and a word from an earlier collective
// is told apart.
#ifndef RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_EXCHANGE_LAYOUT_H_
#define RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_EXCHANGE_LAYOUT_H_

#include "formats/machine_code/kernel_params.h"

namespace rondo::small {

using u32 = unsigned int;
using u64 = unsigned long long;

enum : u32 {
  kMostRanks = 8,
  kSlots = 2,
  kPackBytes = 8,
  kFirstEpoch = kSlots,  // inboxes are zero then; the first epochs of a cleaning period would clean
};
// Epochs from one cleaning to the next: the words that no collective has written since are written then, so
// that they are never as old as it takes the epoch to come round again.
enum : u32 { kCleaningPeriod = 1u << 20 };

// A pack on its way.
struct alignas(16) Words {
  u64 low, high;
};

// Of a rank, in its memory: which collective comes next, whatever graph holds it.
struct State {
  u64 ticks;  // kTicks a collective, of which each of its blocks adds a share once it knows the epoch
  u32 dead;   // one of them has failed: nothing is sent or waited for any more
  u32 padding;
};
enum : u32 { kTicks = 1u << 16 };  // at least as many as blocks

// A rank's view of its group. A plain value, which kernels take.
struct Group {
  Words* inbox[kMostRanks];  // of each rank, at the address where this one reaches it
  State* state;              // this rank's
  const u32* abort;          // page-locked: not 0 once all is to end
  u64 capacity;              // packs
  u64 limit_ns;              // that a rank waits for another
  u32 rank, ranks;
};

// What is added.
enum Element : u32 { kF32 = 0, kF16 = 1, kBF16 = 2 };

// One collective of a rank.
struct Call {
  const char* from;
  char* to;
  u64 bytes;  // as SyncPoint::bytes
  cuda::FaultRecord* faults;
  u32 step;
  u32 element;  // Element, of what adds
  u32* note;    // page-locked: not 0 once the rank has come to it; null: nobody asks
};

// What an all-reduce goes on with (norm.h): s = sum of the ranks, as it is written to Call::to, + addends; of
// each row of s its norm, (s - mean, if kCentred) / sqrt(mean of its squares + epsilon) * scale + bias. All
// are of the element that is summed (but kWideRows) and begin at multiples of 16 bytes. A block has up to
// kRowBlock vectors of 16 bytes, and two threads for each. Rows of up to kShortRow vectors are a part of a
// block, in which warps begin with them; longer ones several blocks.
enum : u32 {
  kVectorBytes = 16,
  kRowBlock = 256,
  kNormThreads = 2 * kRowBlock,
  kShortRow = 128,
  kMostParts = 8
};
enum NormFlag : u32 {
  kLastOfSum = 1,      // the sum of the ranks comes last, after two addends; else first
  kFirstIsRow = 2,     // the first addend is one row, added to all
  kSecondIsRow = 4,    // the second
  kCentred = 8,        // layer norm; else RMS norm
  kRounded = 16,       // to the element before it is scaled
  kConstantRows = 32,  // nothing writes scale and bias while graphs run
  kWideRows = 64       // they are f32
};
struct Norm {
  const char* addends[2];    // null: there is none
  const char *scale, *bias;  // rows; bias may be null
  char *sum, *normed;        // s rounded, if not null, and the norm
  u32 rows, columns;         // elements
  u32 parts;                 // blocks of a row, or, if it is short, warps
  u32 flags;
  float count, epsilon;  // what sums of a row are divided by to be means
};

// FaultRecord::taken of a collective that has not come to its end; `value` is the rank that it waited for.
enum : u32 { kLateFault = 2, kAbortFault = 3 };

}  // namespace rondo::small

#endif  // RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_EXCHANGE_LAYOUT_H_
