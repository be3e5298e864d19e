#include <nlohmann/json.hpp>

#include "core/arena.h"
#include "core/files.h"
#include "formats/plan/reader.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/node_report.h"
#include "tools/rondo/plan_page.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/report.h"
#if RONDO_HAVE_COMPILER
#include "tools/rondo/profile.h"
#endif

namespace rondo::tools {
namespace {

constexpr FileKind kPage = {"a page of rondo inspect", kPageBegins};

class InspectCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    DeclarePlan(options, &plans_);
    options.Flag("--steps", &shown_.steps, "all steps with the buffers they touch")
        .Flag("--buffers", &shown_.buffers, "all buffers with offsets and lifetimes")
        .Text("--node", &node_, "what became of this ONNX node: the steps that compute it, or why none does",
              "NAME")
        .Text("--html", &html_, "write one web page: the arena over time, steps, buffers, with a search",
              "FILE")
#if RONDO_HAVE_COMPILER
        .Text("--profile", &profile_, "beside each estimate what rondo profile measured", "F.json")
#endif
        ;
    DeclareIgnoreHashes(options, &ignore_hashes_);
    out_.Declare(options);
  }

  int Run() override {
    Arena arena;
    ReadOptions options;
    options.ignore_hashes = ignore_hashes_;
    Result<PlanFile> plan = LoadPlanFile(plans_[0].c_str(), options, arena);
    if (!plan.ok()) return out_.Fail("inspect", plan.status());
    if (Status status = ReadTimes(); !status.ok()) return out_.Fail("inspect", status);
    if (!node_.empty()) return ShowNode(plan->data);
    if (out_.json()) {
      std::fputs(PlanToJson(*plan, plans_[0]).c_str(), stdout);
    } else if (html_.empty()) {
      out_.Print(MakePlanReport(*plan, plans_[0], shown_));
    }
    if (!html_.empty()) {
      const std::string page = PlanPage(*plan, plans_[0]);
      if (Status status = ReplaceFile(html_, kPage, page.data(), page.size()); !status.ok())
        return out_.Fail("inspect", status);
      out_.Line("wrote %s", html_.c_str());
    }
    return 0;
  }

 private:
  int ShowNode(const PlanData& plan) {
    const Result<std::vector<NodeAnswer>> answers = AnswerOf(plan, node_);
    if (!answers.ok()) return out_.Fail("inspect", answers.status());
    for (const NodeAnswer& answer : *answers) {
      out_.Line("%s", TextOf(plan, answer).c_str());
      out_.object()["nodes"].push_back(JsonOf(plan, answer));
    }
    return out_.Finish(0);
  }

  Status ReadTimes() {
#if RONDO_HAVE_COMPILER
    if (profile_.empty()) return Status::Ok();
    RONDO_ASSIGN_OR_RETURN(const TuningProfile profile, ReadProfile(profile_));
    shown_.measured = TimesOf(profile);
    if (shown_.measured == nullptr)
      return Status::Error(Code::kInvalidArgument, "--profile %s has no times: make it with rondo profile",
                           profile_.c_str());
#endif
    return Status::Ok();
  }

  std::vector<std::string> plans_;
  InspectOptions shown_;
  bool ignore_hashes_ = false;
  CommandOutput out_;
  std::string html_, node_, profile_;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace rondo::tools
