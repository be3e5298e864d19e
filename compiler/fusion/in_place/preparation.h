// Who may write in place, and who shares memory: the decisions about a program's nodes, in the order in which
// they are made. Each takes what the ones before have left, and makes a copy where nothing else is possible.
// Their result is one record for each node (place.h), and edges that order readers before writes.
//
//   contiguous_buffers  inputs of calls: contiguous, or a copy
//   prepare             inputs of loops: dense, in memory that the rounds may change, or a copy
//   written_storage     writes to states: in the state
//   change_in_place     other writes: in the memory that they change
//   output_memory       outputs: each in memory of its own
//   concat_pieces       pieces of concatenations: in the concatenation
//   contiguous_buffers  the share of a device that a collective gathers: in what it gathers
//   convolution_inputs  images that tensor cores read: copied to channels last
//   whole_states        states that are written as a whole: in the state, by the kernel that computes them
//   donated_memory      inputs whose memory the caller gives away: an output is computed there
//
// A write stays in place if every reader of what it replaces can run before it. Internal to these files.
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
  bool Made(NodeId id) const { return c_.places[id].copy; }
  void ForgetPlaces();
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
  struct Write {     // an indexed write, or the change of one argument by a custom op
    NodeId runs;     // the node that writes,
    size_t slot;     // the input that it changes,
    NodeId version;  // and the new version; kNoNode: nothing needs it
  };
  struct Change {
    Write write;
    NodeId base;         // the version that it changes
    NodeId first;        // the oldest version, which owns the memory
    ir::View own;        // the place there of the data that is changed
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

  // output_memory.cc
  void SettleOutputs();
  std::string WhyCopied(size_t output, NodeId id, bool taken) const;
  bool EndsChain(size_t output, NodeId base) const;
  bool IsUnchangedState(size_t output, NodeId id) const;

  // whole_states.cc
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
  bool LiesInAnother(NodeId id, const std::unordered_map<NodeId, ir::View>& insides);
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
  std::vector<int> state_of_input_, state_of_output_;       // into g_.states, or -1
  std::vector<char> is_output_;                             // by node
  std::vector<ir::Versions> chains_;                        // of each state that is written in place
  std::unordered_map<NodeId, std::vector<LateRead>> late_;  // by oldest version
};

}  // namespace rondo::fusion
