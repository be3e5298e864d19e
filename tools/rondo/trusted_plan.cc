#include "tools/rondo/trusted_plan.h"

#if RONDO_HAVE_TRUST
#include "tools/trust/signature.h"
#endif

namespace rondo::tools {

#if RONDO_HAVE_TRUST

Status CheckTrusted(const std::string& path, const std::vector<std::string>& keys) {
  if (keys.empty()) return Status::Ok();
  std::vector<trust::PublicKey> all;
  for (const std::string& file : keys) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<trust::PublicKey> some, trust::ReadPublicKeys(file));
    all.insert(all.end(), some.begin(), some.end());
  }
  return trust::CheckFile(path, {all.data(), all.size()});
}

Status SignPlan(const std::string& path, const std::string& weights_file, const std::string& secret_key) {
  return trust::Sign(path, weights_file, secret_key);
}

Status MakeSigningKeys(const std::string& path) { return trust::MakeKeys(path); }

#else

namespace {

Status WithoutSodium() {
  return Status::Error(
      Code::kUnsupported,
      "this build neither signs plans nor checks who signed them: it was made where libsodium (Debian: "
      "libsodium-dev) was not installed");
}

}  // namespace

Status CheckTrusted(const std::string&, const std::vector<std::string>& keys) {
  return keys.empty() ? Status::Ok() : WithoutSodium();
}

Status SignPlan(const std::string&, const std::string&, const std::string&) { return WithoutSodium(); }

Status MakeSigningKeys(const std::string&) { return WithoutSodium(); }

#endif

Result<Plan> OpenTrusted(const std::string& path, const std::vector<std::string>& keys,
                         const PlanOptions& options) {
  RONDO_RETURN_IF_ERROR(CheckTrusted(path, keys));
  return Plan::Open(path.c_str(), options);
}

}  // namespace rondo::tools
