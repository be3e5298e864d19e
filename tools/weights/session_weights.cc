#include "tools/weights/session_weights.h"

#include <list>
#include <mutex>

#include "runtime/loaded_plan.h"
#include "runtime/runtime_impl.h"
#include "runtime/session_impl.h"

namespace rondo::tools {
namespace {

Status CheckAlike(Span<const Session* const> sessions) {
  if (sessions.empty()) return Status::Error(Code::kInvalidArgument, "no session is given");
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (ImplOf(*sessions[i])->loaded == ImplOf(*sessions[0])->loaded) continue;
    return Status::Error(
        Code::kInvalidArgument,
        "session %zu is of another plan or runtime than session 0: weights are shared by the "
        "sessions of one plan in one runtime",
        i);
  }
  return Status::Ok();
}

// Checks that `given` sessions are all that the plan has. The caller holds the runtime's lock.
Status CheckComplete(const LoadedPlan& loaded, size_t given) {
  if (loaded.sessions == given) return Status::Ok();
  return Status::Error(
      Code::kFailedPrecondition,
      "the runtime has %u sessions of the plan, which share its weights, and %zu were given: give all",
      loaded.sessions, given);
}

Status Copy(SessionImpl* session, const NewWeights& weights) {
  for (const auto& [buffer, bytes] : weights.bytes) {
    const SessionDevice& d = session->devices[session->plan.data().buffers[buffer].device];
    if (d.device == nullptr) continue;  // another process has this device
    RONDO_RETURN_IF_ERROR(
        d.device->CopyIn(session->addresses[buffer], bytes.data(), bytes.size(), d.streams[0]));
  }
  for (const SessionDevice& d : session->devices) {
    uint32_t failed_step = kNone;
    if (d.device != nullptr) RONDO_RETURN_IF_ERROR(d.device->Synchronize(d.streams[0], &failed_step));
  }
  return Status::Ok();
}

}  // namespace

Status ReplaceInSessions(Span<const Session* const> sessions, const NewWeights& weights) {
  RONDO_RETURN_IF_ERROR(CheckAlike(sessions));
  SessionImpl* first = ImplOf(*sessions[0]);
  const std::lock_guard<std::mutex> lock(first->runtime_impl->mutex);
  std::list<SessionUse> uses;  // of each session; a session given twice is found in use
  for (const Session* session : sessions) {
    RONDO_RETURN_IF_ERROR(uses.emplace_back(ImplOf(*session)).status());
  }
  RONDO_RETURN_IF_ERROR(CheckComplete(*first->loaded, sessions.size()));
  Status copied = Copy(first, weights);
  for (SessionUse& use : uses) copied = use.Stick(copied);
  return copied;
}

}  // namespace rondo::tools
