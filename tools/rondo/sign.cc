#include <nlohmann/json.hpp>

#include "formats/plan/reader.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/trusted_plan.h"

namespace rondo::tools {
namespace {

class SignCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Group("Input")
        .Positional("PLAN", &plans_, 0, 1,
                    "the plan file; its signature, also of its weights file, is written to PLAN.sig")
        .Text("--key", &key_, "the secret key of Ed25519 to sign with, in PEM", "F")
        .Text("--new-key", &new_key_, "make a secret key, in F, and its public key, in F.pub", "F")
        .NotTogether("--key", "--new-key");
    out_.Declare(options);
  }

  int Run() override {
    if (plans_.empty() == new_key_.empty() || plans_.empty() != key_.empty())
      return out_.Misuse("sign", "it is either PLAN --key F or --new-key F");
    if (!new_key_.empty()) {
      if (const Status made = MakeSigningKeys(new_key_); !made.ok()) return out_.Fail("sign", made);
      out_.Line("%s: the secret key, to be kept; %s.pub: the public key, to be given away", new_key_.c_str(),
                new_key_.c_str());
      out_.object() = {{"secret_key", new_key_}, {"public_key", new_key_ + ".pub"}};
      return out_.Finish(0);
    }
    Arena arena;
    Result<PlanFile> plan = LoadPlanFile(plans_[0].c_str(), {}, arena);
    if (!plan.ok()) return out_.Fail("sign", plan.status());
    const std::string weights(plan->data.weights_file);
    if (const Status signed_it = SignPlan(plans_[0], weights, key_); !signed_it.ok())
      return out_.Fail("sign", signed_it);
    out_.Line("%s.sig: signs %s%s%s", plans_[0].c_str(), plans_[0].c_str(), weights.empty() ? "" : " and ",
              weights.c_str());
    out_.object() = {{"plan", plans_[0]}, {"signature", plans_[0] + ".sig"}, {"weights_file", weights}};
    return out_.Finish(0);
  }

  std::vector<std::string> plans_;
  std::string key_, new_key_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeSignCommand() { return std::make_unique<SignCommand>(); }

}  // namespace rondo::tools
