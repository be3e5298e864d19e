// Opens plans only if a trusted key has signed them. In a build without libsodium, every plan is refused as
// soon as keys are given.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "runtime/plan.h"

namespace rondo::tools {

// OK if there are no `keys` (files of public keys), or if one of them has signed the plan and its weights
// file.
Status CheckTrusted(const std::string& path, const std::vector<std::string>& keys);

// CheckTrusted, then Plan::Open.
Result<Plan> OpenTrusted(const std::string& path, const std::vector<std::string>& keys,
                         const PlanOptions& options);

// tools/trust/signature.h.
Status SignPlan(const std::string& path, const std::string& weights_file, const std::string& secret_key);
Status MakeSigningKeys(const std::string& path);

}  // namespace rondo::tools
