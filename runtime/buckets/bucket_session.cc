#include "runtime/buckets/bucket_session.h"

#include <utility>

namespace rondo {

Result<std::unique_ptr<BucketSession>> BucketSession::Create(Session* session, std::string_view family) {
  RONDO_ASSIGN_OR_RETURN(BucketFamily found, FindFamily(FamiliesOf(session->plan().data()), family));
  return Create(session, std::move(found));
}

std::unique_ptr<BucketSession> BucketSession::Create(Session* session, BucketFamily family) {
  return std::unique_ptr<BucketSession>(new BucketSession(session, std::move(family)));
}

// `prepare` returns the choice; it has prepared the choice's tensors.
template <typename Prepare>
Status BucketSession::RunAlone(const RunOptions& options, Prepare prepare) {
  if (in_use_.exchange(true))
    return Status::Error(Code::kFailedPrecondition, "another call is using these buckets");
  const auto run = [&] {
    RONDO_ASSIGN_OR_RETURN(const BucketFamily::Choice choice, prepare());
    RONDO_RETURN_IF_ERROR(
        session_->Run(family_.bucket(choice).program, tensors_.inputs(), tensors_.outputs(), options));
    tensors_.Finish();
    return Status::Ok();
  };
  const Status status = run();
  in_use_ = false;
  return status;
}

Status BucketSession::Run(Span<const Input> inputs, Span<const Output> outputs, const RunOptions& options) {
  return RunAlone(options, [&]() -> Result<BucketFamily::Choice> {
    RONDO_ASSIGN_OR_RETURN(const BucketFamily::Choice choice, family_.Choose(inputs));
    RONDO_RETURN_IF_ERROR(tensors_.Prepare(choice, inputs, outputs));
    return choice;
  });
}

Status BucketSession::RunTogether(std::string_view length, Span<const BucketPart> parts,
                                  const RunOptions& options) {
  const uint32_t along = family_.FindLength(length);
  return RunAlone(options, [&]() -> Result<BucketFamily::Choice> {
    RONDO_ASSIGN_OR_RETURN(const BucketFamily::Choice choice, family_.ChooseTogether(parts, along));
    RONDO_RETURN_IF_ERROR(tensors_.PrepareTogether(choice, parts, along));
    return choice;
  });
}

}  // namespace rondo
