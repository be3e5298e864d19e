// Preparation: the steps of Prepare. Each gives memory to some nodes, by inserting copies where that is not
// possible otherwise. In order:
//   prepare.cc             inputs of calls and loops; at the end, order and readers
//   written_storage.cc     writes to states, in their memory
//   change_in_place.cc     other writes, in the memory that they change
//   output_memory.cc       outputs, and states that are written as a whole
//   concat_pieces.cc       pieces of concatenations
//   donated_memory.cc      inputs whose memory the caller gives away
//   convolution_inputs.cc  images that tensor cores read with channels last
//   contiguous_buffers.cc  inputs and outputs of calls and collectives, which must be contiguous
// Every copy has its reason (Context::copied_because). Internal to these files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/fusion/context.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

class Preparation {
 public:
  // `context` must outlive it.
  explicit Preparation(Context* context) : c_(*context), g_(context->graph) {}

  Status Run();

 private:
  // prepare.cc
  void CopyLoopInputs();
  NodeId MakeCopy(NodeId x, const std::string& because, NodeId reader = ir::kNoNode);
  bool Made(NodeId id) const { return c_.made[static_cast<size_t>(id)] != 0; }
  void Grow();  // resizes the tables by node to the number of nodes
  void MarkOutputs();
  // As of the last MarkOutputs.
  bool IsOutput(NodeId id) const {
    return static_cast<size_t>(id) < is_output_.size() && is_output_[static_cast<size_t>(id)] != 0;
  }
  Status Index();
  void MarkStored();
  void StoreAssertions();
  void OrderConditions();

  // written_storage.cc
  void IndexStates();
  bool IsState(NodeId id) const;
  std::vector<NodeId> VersionsOf(const ir::StatePair& pair) const;
  void FindStateChains();
  ir::Versions WithChangedParts(const std::vector<NodeId>& chain) const;
  std::vector<NodeId> CallsInPlace(NodeId write, const ir::Versions& versions) const;
  bool MayRunNothing(NodeId write) const;
  void CopyOwnReads(const ir::Versions& versions);
  void CopyLateReads(const ir::Versions& versions);
  bool IsReadLate(const ir::Versions& versions, size_t number, NodeId reader, size_t slot) const;
  Status OrderCopies();
  std::string WhyNotChanged(NodeId data) const;
  bool IsWhole(NodeId version) const;

  // change_in_place.cc
  struct Placed {
    NodeId first = ir::kNoNode;  // the oldest version, which owns the memory
    ir::View place;              // the place of another version in it
  };
  struct Write {     // an indexed write, or the change of one argument by a custom op
    NodeId runs;     // the node that writes,
    size_t slot;     // the input that it changes,
    NodeId version;  // and the new version; kNoNode: nothing needs it
  };
  struct Change {
    Write write;
    NodeId base;         // the version that it changes
    Placed own;          // the place of its data
    ir::Region written;  // the part of the same memory that it may replace
  };
  struct LateRead {  // a read of elements that no write replaces
    NodeId reader;
    ir::Region region;
  };
  void CopyTargets();
  std::vector<Write> WritesOf(NodeId id);
  std::string ChangeInPlace(const Write& write);
  bool IsChangeable(NodeId base);
  bool ReadsPiecesAlone(NodeId base);
  bool SortReaders(const Change& change, const ir::View& place, std::vector<NodeId>* before,
                   std::vector<LateRead>* late);
  bool Meets(NodeId first, const ir::Region& a, const ir::Region& b) const;

  // output_memory.cc
  void SettleOutputs();
  std::string WhyCopied(size_t output, NodeId id, bool taken) const;
  bool EndsChain(size_t output, NodeId base) const;
  NodeId StorageOf(NodeId version) const;
  bool IsUnchangedState(size_t output, NodeId id) const;
  void WriteStatesDirectly();
  std::string WhyNotDirectly(const ir::StatePair& pair, NodeId id);
  std::string ReadsOtherPlaces(const ir::StatePair& pair) const;
  std::vector<NodeId> WritersOf(NodeId base) const;
  std::vector<NodeId> ReadersOf(NodeId id);
  NodeId MoveUpwards(NodeId storage, const std::vector<NodeId>& writers);
  bool MovesDown(NodeId writer) const;
  void TakeMovesAside(NodeId storage, const std::vector<NodeId>& writers);
  std::string OrderOldReaders(const ir::StatePair& pair, NodeId copy, const std::vector<NodeId>& writers);
  bool ReadsInPlace(NodeId id, NodeId storage) const;

  // donated_memory.cc
  void PairDonations();
  bool IsGivenAway(NodeId id) const;
  void TakeDonations();
  std::string WhyNotTaken(int input, NodeId id);

  // concat_pieces.cc
  void CopyConcatPieces();
  NodeId JoinedWhole(NodeId id) const;
  std::string WhyNotInPlace(NodeId piece, NodeId holder, const ir::View& whole, ir::View* place) const;
  bool MayBeRunAt(const ir::View& place, NodeId holder, NodeId concat);
  bool MayBeWrittenAt(const ir::View& place, NodeId version) const;

  // convolution_inputs.cc
  void CopyPictures();

  // contiguous_buffers.cc
  void CopyCallInputs();
  void GatherInPlace();
  std::optional<int64_t> RankIn(const ir::CollectiveAttrs& attrs) const;

  Context& c_;
  ir::Graph& g_;
  std::vector<int> state_of_input_, state_of_output_;  // into g_.states, or -1
  std::vector<char> is_output_;                        // by node
  std::vector<char> in_place_;                         // by node: a version in the state's own memory
  std::unordered_map<NodeId, NodeId> storage_;         // for versions in states: the input
  std::vector<ir::Versions> chains_;                   // of each state that is written in place
  std::unordered_map<NodeId, Placed> placed_;          // for versions that share memory other than a state's
  std::unordered_map<NodeId, std::vector<LateRead>> late_;  // by oldest version
};

}  // namespace rondo::fusion
