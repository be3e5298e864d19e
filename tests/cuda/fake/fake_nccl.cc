// A libnccl.so.2 over fake_cuda: a collective happens when the last of its ranks reaches it.
#include "tests/cuda/fake/fake_nccl.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace {

using rondo::nccl::Result_t;
using Stream = rondo::nccl::Stream;

constexpr int kFloat = 7;                             // ncclFloat32, the only type that this library adds
constexpr Result_t kInternal = 3, kInvalidUsage = 5;  // ncclInternalError, ncclInvalidUsage

// One collective of a run: the ranks that have arrived, and whether it is done.
struct Meeting {
  std::vector<const void*> from;
  std::vector<void*> to;
  size_t arrived = 0, left = 0;
  bool done = false;
};

// One send to, or receive from, another rank.
struct Post {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  std::shared_ptr<bool> done = std::make_shared<bool>(false);
};

struct Group {
  size_t ranks = 0, members = 0;
  std::vector<int> gpus;   // of the members that have joined
  Result_t connected = 0;  // the result for all members
  std::map<std::pair<size_t, size_t>, std::vector<Post>> sent,
      wanted;  // by sender and receiver; each send meets a receive
  bool aborted = false;
  std::vector<uint64_t> next;      // by rank: its next meeting
  std::vector<uint64_t> enqueued;  // by rank: collectives so far
  std::map<uint64_t, Meeting> meetings;
};

struct Member {
  std::shared_ptr<Group> group;
  size_t rank = 0;
  Result_t failed = 0;  // the error in its state
  uint32_t late = 0;    // how many more queries find it in progress
  bool connected = false;
  uint64_t awaits = 0;  // the last call completes once every rank has enqueued this many collectives
  uint32_t asked = 0;   // queries so far that found it in progress
};

// NCCL may need all ranks before it can enqueue a collective, for example to connect them. This library
// always does. A caller that waits for a missing rank fails after this many queries.
constexpr uint32_t kPatience = 20'000'000;

enum class Op { kAllReduce, kAllGather, kReduceScatter, kBroadcast };

std::mutex mutex;  // guards all groups
std::map<uint64_t, std::shared_ptr<Group>> groups;
uint64_t groups_made = 0;
rondo::fake_nccl::Library library;
rondo::nccl::Config last_config;
int64_t held = 0;
bool armed = false, at_once = true;
uint64_t fail_at = 0;
rondo::fake_nccl::Count count;

// Counts one call that can fail, and returns whether it fails. The caller holds the mutex.
bool Fails(const char* name) {
  if (!armed || count.calls++ != fail_at) return false;
  count.fired = true;
  count.failed = name;
  return true;
}

// The same for a call on a rank. Returns its result, and sets what its state will report.
Result_t Point(const char* name, Member* member) {
  member->late = member->connected ? library.late_enqueueing : library.late_connecting;
  member->connected = true;
  if (!Fails(name)) return member->late == 0 ? rondo::nccl::kSuccess : rondo::nccl::kInProgress;
  member->failed = kInternal;
  return at_once ? kInternal : rondo::nccl::kInProgress;
}

// Whether ranks may share a GPU. Like NCCL, it looks this up once.
bool MayShare() {
  static const bool may = [] {
    const char* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return text != nullptr && std::strcmp(text, "1") == 0;
  }();
  return may;
}

// The result of connecting the group, once all ranks have come.
Result_t Connect(const Group& group) {
  if (group.ranks < 2) return 0;
  const bool may = MayShare();
  std::vector<int> gpus = group.gpus;
  std::sort(gpus.begin(), gpus.end());
  if (std::adjacent_find(gpus.begin(), gpus.end()) == gpus.end()) return 0;
  if (library.version < rondo::nccl::Version(2, 30)) return kInvalidUsage;
  if (may) return 0;
  std::fprintf(stderr, "fake_nccl: two ranks on one GPU, and nobody said that they may: NCCL crashes here\n");
  std::abort();
}

Member* ToMember(rondo::nccl::Comm comm) { return reinterpret_cast<Member*>(comm); }

void Sum(const Meeting& m, size_t first, size_t count, float* to) {
  std::vector<float> sum(count, 0);
  for (size_t rank = 0; rank < m.from.size(); ++rank) {
    const float* from = static_cast<const float*>(m.from[rank]) + first;
    for (size_t i = 0; i < count; ++i) sum[i] = rank == 0 ? from[i] : sum[i] + from[i];
  }
  std::memcpy(to, sum.data(), count * sizeof(float));
}

void Do(const Meeting& m, Op op, size_t count, size_t bytes) {
  const size_t ranks = m.from.size();
  std::vector<std::vector<uint8_t>> results(
      ranks);  // computed before anything is written: the collective may be in place
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<uint8_t>& result = results[rank];
    result.resize(op == Op::kAllGather ? bytes * ranks : bytes);
    if (op == Op::kAllReduce) Sum(m, 0, count, reinterpret_cast<float*>(result.data()));
    if (op == Op::kReduceScatter) Sum(m, rank * count, count, reinterpret_cast<float*>(result.data()));
    if (op == Op::kBroadcast) std::memcpy(result.data(), m.from[0], bytes);
    for (size_t r = 0; op == Op::kAllGather && r < ranks; ++r) {
      std::memcpy(result.data() + r * bytes, m.from[r], bytes);
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::memcpy(m.to[rank], results[rank].data(), results[rank].size());
  }
}

size_t BytesOf(size_t count, int type) { return count * (type == kFloat ? sizeof(float) : 1); }

// Whether all ranks have enqueued what this one has. The caller holds the mutex.
bool HaveCome(const Member& member) {
  const std::vector<uint64_t>& all = member.group->enqueued;
  return member.group->aborted || *std::min_element(all.begin(), all.end()) >= member.awaits;
}

thread_local int depth = 0;  // nesting of ncclGroupStart

// Adds a collective to a stream. Each time it runs, it takes part in the rank's next meeting.
Result_t Add(Op op, const char* name, const void* from, void* to, size_t count, int type,
             rondo::nccl::Comm comm, Stream stream) {
  Member* member = ToMember(comm);
  Result_t result = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    result = Point(name, member);
    if (result != rondo::nccl::kSuccess && result != rondo::nccl::kInProgress) return result;
    member->awaits = ++member->group->enqueued[member->rank];
    member->asked = 0;
    if (depth == 0 && !HaveCome(*member)) result = rondo::nccl::kInProgress;
  }
  const std::shared_ptr<Group> group = member->group;
  const size_t rank = member->rank, bytes = BytesOf(count, type);
  auto waiting = std::make_shared<bool>(false);
  const int error = rondo::fake_cuda::AddWork(stream, [=]() -> int {
    std::lock_guard<std::mutex> lock(mutex);
    if (group->aborted) {
      *waiting = false;
      return 0;
    }
    if (library.never_ends) return rondo::fake_cuda::kNotYet;
    Meeting& m = group->meetings[group->next[rank]];
    m.from.resize(group->ranks);
    m.to.resize(group->ranks);
    if (!*waiting) {
      *waiting = true;
      m.from[rank] = from;
      m.to[rank] = to;
      if (++m.arrived == group->ranks) {
        Do(m, op, count, bytes);
        m.done = true;
      }
    }
    if (!m.done) return rondo::fake_cuda::kNotYet;
    *waiting = false;
    const uint64_t number = group->next[rank]++;
    if (++m.left == group->ranks) group->meetings.erase(number);
    return 0;
  });
  return error == 0 ? result : 1;  // ncclUnhandledCudaError
}

// Sends and receives of one rank that a thread has put between ncclGroupStart and ncclGroupEnd. They run
// together once the group has ended.
struct Exchange {
  rondo::nccl::Comm comm = nullptr;
  std::vector<std::pair<size_t, Post>> sends, takes;  // each with the other rank
  bool ended = false, dropped = false;                // dropped: it has no effect
};
thread_local std::vector<std::shared_ptr<Exchange>> exchanges;

void Meet(Group* group, const std::pair<size_t, size_t>& pair) {
  std::vector<Post>&sent = group->sent[pair], &wanted = group->wanted[pair];
  while (!sent.empty() && !wanted.empty()) {
    const Post send = sent.front(), take = wanted.front();
    sent.erase(sent.begin());
    wanted.erase(wanted.begin());
    std::memcpy(take.to, send.from, send.bytes < take.bytes ? send.bytes : take.bytes);
    *send.done = *take.done = true;
  }
}

// Adds an exchange to a stream. Each time it runs, it posts its sends and receives once, and ends when all
// have met their counterpart.
Result_t AddExchange(const std::shared_ptr<Exchange>& posts, Stream stream) {
  const std::shared_ptr<Group> group = ToMember(posts->comm)->group;
  const size_t rank = ToMember(posts->comm)->rank;
  auto posted = std::make_shared<bool>(false);
  const int error = rondo::fake_cuda::AddWork(stream, [=]() -> int {
    std::lock_guard<std::mutex> lock(mutex);
    if (posts->dropped) return 0;
    if (!posts->ended) return rondo::fake_cuda::kNotYet;
    for (const auto& [peer, post] : posts->sends) {
      if (!*posted) group->sent[{rank, peer}].push_back(post);
      if (!*posted) *post.done = false;
      Meet(group.get(), {rank, peer});
    }
    for (const auto& [peer, post] : posts->takes) {
      if (!*posted) group->wanted[{peer, rank}].push_back(post);
      if (!*posted) *post.done = false;
      Meet(group.get(), {peer, rank});
    }
    bool done = true;
    for (const auto* of : {&posts->sends, &posts->takes}) {
      for (const auto& [peer, post] : *of) done = done && *post.done;
    }
    *posted = !done && !group->aborted;
    return *posted ? rondo::fake_cuda::kNotYet : 0;
  });
  return error == 0 ? 0 : 1;  // ncclUnhandledCudaError
}

// Ends the group of this thread's sends and receives, or drops them.
void EndExchanges(bool drop) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const std::shared_ptr<Exchange>& one : exchanges) (drop ? one->dropped : one->ended) = true;
  }
  exchanges.clear();
  rondo::fake_cuda::Wake();
}

Result_t AddPost(const char* name, const Post& post, int peer, rondo::nccl::Comm comm, Stream stream) {
  Result_t result = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    result = Point(name, ToMember(comm));
  }
  if (result != rondo::nccl::kSuccess && result != rondo::nccl::kInProgress) return result;
  auto mine = std::find_if(exchanges.begin(), exchanges.end(),
                           [&](const std::shared_ptr<Exchange>& one) { return one->comm == comm; });
  if (mine == exchanges.end()) {
    mine = exchanges.insert(mine, std::make_shared<Exchange>());
    (*mine)->comm = comm;
    const Result_t added = AddExchange(*mine, stream);
    if (added != 0) return added;
  }
  (post.to == nullptr ? (*mine)->sends : (*mine)->takes).emplace_back(static_cast<size_t>(peer), post);
  if (depth == 0) EndExchanges(false);
  return result;
}

void Leave(rondo::nccl::Comm comm, bool abort) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    --held;
    ToMember(comm)->group->aborted |= abort;
    delete ToMember(comm);
  }
  rondo::fake_cuda::Wake();
}

}  // namespace

namespace rondo::fake_nccl {

void SetLibrary(const Library& to) {
  std::lock_guard<std::mutex> lock(mutex);
  library = to;
}

void Arm(uint64_t fail, bool now) {
  std::lock_guard<std::mutex> lock(mutex);
  armed = true;
  at_once = now;
  fail_at = fail;
  count = Count();
}

Count Disarm() {
  std::lock_guard<std::mutex> lock(mutex);
  armed = false;
  return count;
}

int64_t HeldRanks() {
  std::lock_guard<std::mutex> lock(mutex);
  return held;
}

nccl::Config LastConfig() {
  std::lock_guard<std::mutex> lock(mutex);
  return last_config;
}

}  // namespace rondo::fake_nccl

extern "C" {

RONDO_FAKE_API Result_t ncclGetVersion(int* version) {
  const rondo::fake_cuda::Working working;
  std::lock_guard<std::mutex> lock(mutex);
  *version = library.version;
  return 0;
}
RONDO_FAKE_API Result_t ncclGetUniqueId(rondo::nccl::UniqueId* id) {
  const rondo::fake_cuda::Working working;
  std::lock_guard<std::mutex> lock(mutex);
  if (Fails("ncclGetUniqueId")) return kInternal;
  const uint64_t number = ++groups_made;
  std::memcpy(id, &number, sizeof(number));
  return 0;
}
RONDO_FAKE_API Result_t ncclCommInitRankConfig(rondo::nccl::Comm* comm, int ranks, rondo::nccl::UniqueId id,
                                               int rank, rondo::nccl::Config* config) {
  const rondo::fake_cuda::Working working;
  const int gpu = rondo::fake_cuda::CurrentDevice();
  rondo::fake_cuda::TakeMemory();
  std::lock_guard<std::mutex> lock(mutex);
  last_config = *config;
  if (library.version < rondo::nccl::Version(2, 29)) last_config.graph_usage = rondo::nccl::kUndefined;
  uint64_t number = 0;
  std::memcpy(&number, &id, sizeof(number));
  std::shared_ptr<Group>& group = groups[number];
  if (group == nullptr) group = std::make_shared<Group>();
  group->ranks = static_cast<size_t>(ranks);
  group->next.resize(group->ranks);
  group->enqueued.resize(group->ranks);
  auto* member = new Member{group, static_cast<size_t>(rank)};
  const Result_t result = Point("ncclCommInitRankConfig", member);
  if (result != rondo::nccl::kSuccess && result != rondo::nccl::kInProgress) {
    delete member;
    return result;
  }
  ++held;
  *comm = reinterpret_cast<rondo::nccl::Comm>(member);
  group->gpus.push_back(gpu);
  if (++group->members != group->ranks) return result;
  group->connected = Connect(*group);
  groups.erase(number);
  return result;
}
RONDO_FAKE_API Result_t ncclCommGetAsyncError(rondo::nccl::Comm comm, Result_t* state) {
  const rondo::fake_cuda::Working working;
  std::lock_guard<std::mutex> lock(mutex);
  Member* member = ToMember(comm);
  const bool late = member->late > 0;
  member->late -= late;
  const bool alone = !HaveCome(*member);
  if (alone && ++member->asked > kPatience) member->failed = kInternal;
  *state = late                  ? rondo::nccl::kInProgress
           : member->failed != 0 ? member->failed
           : alone               ? rondo::nccl::kInProgress
                                 : member->group->connected;
  return 0;
}
RONDO_FAKE_API Result_t ncclCommAbort(rondo::nccl::Comm comm) {
  const rondo::fake_cuda::Working working;
  Leave(comm, true);
  return 0;
}
RONDO_FAKE_API Result_t ncclCommDestroy(rondo::nccl::Comm comm) {
  const rondo::fake_cuda::Working working;
  Leave(comm, false);
  return 0;
}
RONDO_FAKE_API const char* ncclGetErrorString(Result_t) { return "as the fake was asked"; }
RONDO_FAKE_API const char* ncclGetLastError(rondo::nccl::Comm) { return ""; }
RONDO_FAKE_API Result_t ncclGroupStart() {
  std::lock_guard<std::mutex> lock(mutex);
  if (Fails("ncclGroupStart")) return kInternal;
  ++depth;
  return 0;
}
RONDO_FAKE_API Result_t ncclGroupEnd() {
  const rondo::fake_cuda::Working working;
  --depth;
  Result_t result = 0;
  bool drop = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    drop = Fails("ncclGroupEnd");
    if (!drop && depth > 0) return 0;
    for (const std::shared_ptr<Exchange>& one : exchanges) {
      const Member& member = *ToMember(one->comm);
      if (member.late != 0 || member.failed != 0) result = rondo::nccl::kInProgress;
    }
  }
  EndExchanges(drop);
  return drop ? kInternal : result;
}
RONDO_FAKE_API Result_t ncclSend(const void* from, size_t count, int type, int peer, rondo::nccl::Comm comm,
                                 Stream stream) {
  const rondo::fake_cuda::Working working;
  return AddPost("ncclSend", {from, nullptr, BytesOf(count, type)}, peer, comm, stream);
}
RONDO_FAKE_API Result_t ncclRecv(void* to, size_t count, int type, int peer, rondo::nccl::Comm comm,
                                 Stream stream) {
  const rondo::fake_cuda::Working working;
  return AddPost("ncclRecv", {nullptr, to, BytesOf(count, type)}, peer, comm, stream);
}
RONDO_FAKE_API Result_t ncclAllReduce(const void* from, void* to, size_t count, int type, int,
                                      rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kAllReduce, "ncclAllReduce", from, to, count, type, comm, stream);
}
RONDO_FAKE_API Result_t ncclAllGather(const void* from, void* to, size_t count, int type,
                                      rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kAllGather, "ncclAllGather", from, to, count, type, comm, stream);
}
RONDO_FAKE_API Result_t ncclReduceScatter(const void* from, void* to, size_t count, int type, int,
                                          rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kReduceScatter, "ncclReduceScatter", from, to, count, type, comm, stream);
}
RONDO_FAKE_API Result_t ncclBroadcast(const void* from, void* to, size_t count, int type, int,
                                      rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kBroadcast, "ncclBroadcast", from, to, count, type, comm, stream);
}

}  // extern "C"
