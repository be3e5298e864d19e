// Plans that are opened only if someone who is trusted has signed them. Without libsodium at build time, all
// but plans without keys are refused.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "runtime/plan.h"

namespace rondo::tools {

// OK if there are no `keys` (files of public keys), or the plan and its weights file are signed with one of
// them.
Status CheckTrusted(const std::string& path, const std::vector<std::string>& keys);

// CheckTrusted, then Plan::Open.
Result<Plan> OpenTrusted(const std::string& path, const std::vector<std::string>& keys,
                         const PlanOptions& options);

// tools/trust/signature.h.
Status SignPlan(const std::string& path, const std::string& weights_file, const std::string& secret_key);
Status MakeSigningKeys(const std::string& path);

}  // namespace rondo::tools
