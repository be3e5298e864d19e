// A libnccl.so.2 over fake_cuda: a collective happens when the last of its ranks comes to it.
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "drivers/nccl/nccl_api.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace {

using rondo::nccl::Result_t;
using Stream = rondo::nccl::Stream;

constexpr int kFloat = 7;  // ncclFloat32: the only type that is added here

// One collective of a run: the ranks that have come, and whether it is done.
struct Meeting {
  std::vector<const void*> from;
  std::vector<void*> to;
  size_t arrived = 0, left = 0;
  bool done = false;
};

// What one rank sends to, or takes from, another.
struct Post {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  std::shared_ptr<bool> done = std::make_shared<bool>(false);
};

struct Group {
  size_t ranks = 0, members = 0;
  std::map<std::pair<size_t, size_t>, std::vector<Post>> sent, wanted;  // by sender and taker, to be met
  bool aborted = false;
  std::vector<uint64_t> next;  // by rank: its next meeting
  std::map<uint64_t, Meeting> meetings;
};

struct Member {
  std::shared_ptr<Group> group;
  size_t rank = 0;
};

enum class Op { kAllReduce, kAllGather, kReduceScatter, kBroadcast };

std::mutex mutex;  // guards all groups
std::map<uint64_t, std::shared_ptr<Group>> groups;
uint64_t groups_made = 0;

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
  std::vector<std::vector<uint8_t>> results(ranks);  // first all, then written: it may be in place
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

// Each time it runs in a stream, it is the rank's next meeting.
Result_t Add(Op op, const void* from, void* to, size_t count, int type, rondo::nccl::Comm comm,
             Stream stream) {
  Member* member = ToMember(comm);
  const std::shared_ptr<Group> group = member->group;
  const size_t rank = member->rank, bytes = BytesOf(count, type);
  auto waiting = std::make_shared<bool>(false);
  const int error = rondo::fake_cuda::AddWork(stream, [=]() -> int {
    std::lock_guard<std::mutex> lock(mutex);
    if (group->aborted) {
      *waiting = false;
      return 0;
    }
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
  return error == 0 ? 0 : 1;  // ncclUnhandledCudaError
}

// Sends and takes that a thread has put between ncclGroupStart and ncclGroupEnd: they go on together.
struct Exchange {
  rondo::nccl::Comm comm = nullptr;
  Stream stream = nullptr;
  std::vector<std::pair<size_t, Post>> sends, takes;  // with the other rank
};
thread_local Exchange exchange;
thread_local int depth = 0;

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

// Each time it runs in a stream, its sends and takes are posted once, and it is over when all have met.
Result_t AddExchange(const Exchange& posts) {
  const std::shared_ptr<Group> group = ToMember(posts.comm)->group;
  const size_t rank = ToMember(posts.comm)->rank;
  auto posted = std::make_shared<bool>(false);
  const int error = rondo::fake_cuda::AddWork(posts.stream, [=]() -> int {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [peer, post] : posts.sends) {
      if (!*posted) group->sent[{rank, peer}].push_back(post);
      if (!*posted) *post.done = false;
      Meet(group.get(), {rank, peer});
    }
    for (const auto& [peer, post] : posts.takes) {
      if (!*posted) group->wanted[{peer, rank}].push_back(post);
      if (!*posted) *post.done = false;
      Meet(group.get(), {peer, rank});
    }
    bool done = true;
    for (const auto* of : {&posts.sends, &posts.takes}) {
      for (const auto& [peer, post] : *of) done = done && *post.done;
    }
    *posted = !done && !group->aborted;
    return *posted ? rondo::fake_cuda::kNotYet : 0;
  });
  return error == 0 ? 0 : 1;  // ncclUnhandledCudaError
}

Result_t AddPost(bool send, const Post& post, int peer, rondo::nccl::Comm comm, Stream stream) {
  exchange.comm = comm;
  exchange.stream = stream;
  (send ? exchange.sends : exchange.takes).emplace_back(static_cast<size_t>(peer), post);
  if (depth > 0) return 0;
  return AddExchange(std::exchange(exchange, {}));
}

void Leave(rondo::nccl::Comm comm, bool abort) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ToMember(comm)->group->aborted |= abort;
    delete ToMember(comm);
  }
  rondo::fake_cuda::Wake();
}

}  // namespace

extern "C" {

RONDO_FAKE_API Result_t ncclGetVersion(int* version) {
  const rondo::fake_cuda::Working working;
  *version = 22809;
  return 0;
}
RONDO_FAKE_API Result_t ncclGetUniqueId(rondo::nccl::UniqueId* id) {
  const rondo::fake_cuda::Working working;
  std::lock_guard<std::mutex> lock(mutex);
  const uint64_t number = ++groups_made;
  std::memcpy(id, &number, sizeof(number));
  return 0;
}
RONDO_FAKE_API Result_t ncclCommInitRankConfig(rondo::nccl::Comm* comm, int ranks, rondo::nccl::UniqueId id,
                                               int rank, rondo::nccl::Config*) {
  const rondo::fake_cuda::Working working;
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t number = 0;
  std::memcpy(&number, &id, sizeof(number));
  std::shared_ptr<Group>& group = groups[number];
  if (group == nullptr) group = std::make_shared<Group>();
  group->ranks = static_cast<size_t>(ranks);
  group->next.resize(group->ranks);
  *comm = reinterpret_cast<rondo::nccl::Comm>(new Member{group, static_cast<size_t>(rank)});
  if (++group->members == group->ranks) groups.erase(number);
  return 0;
}
RONDO_FAKE_API Result_t ncclCommGetAsyncError(rondo::nccl::Comm, Result_t* state) {
  const rondo::fake_cuda::Working working;
  *state = 0;
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
  ++depth;
  return 0;
}
RONDO_FAKE_API Result_t ncclGroupEnd() {
  const rondo::fake_cuda::Working working;
  if (--depth > 0 || exchange.comm == nullptr) return 0;
  return AddExchange(std::exchange(exchange, {}));
}
RONDO_FAKE_API Result_t ncclSend(const void* from, size_t count, int type, int peer, rondo::nccl::Comm comm,
                                 Stream stream) {
  const rondo::fake_cuda::Working working;
  return AddPost(true, {from, nullptr, BytesOf(count, type)}, peer, comm, stream);
}
RONDO_FAKE_API Result_t ncclRecv(void* to, size_t count, int type, int peer, rondo::nccl::Comm comm,
                                 Stream stream) {
  const rondo::fake_cuda::Working working;
  return AddPost(false, {nullptr, to, BytesOf(count, type)}, peer, comm, stream);
}
RONDO_FAKE_API Result_t ncclAllReduce(const void* from, void* to, size_t count, int type, int,
                                      rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kAllReduce, from, to, count, type, comm, stream);
}
RONDO_FAKE_API Result_t ncclAllGather(const void* from, void* to, size_t count, int type,
                                      rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kAllGather, from, to, count, type, comm, stream);
}
RONDO_FAKE_API Result_t ncclReduceScatter(const void* from, void* to, size_t count, int type, int,
                                          rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kReduceScatter, from, to, count, type, comm, stream);
}
RONDO_FAKE_API Result_t ncclBroadcast(const void* from, void* to, size_t count, int type, int,
                                      rondo::nccl::Comm comm, Stream stream) {
  const rondo::fake_cuda::Working working;
  return Add(Op::kBroadcast, from, to, count, type, comm, stream);
}

}  // extern "C"
