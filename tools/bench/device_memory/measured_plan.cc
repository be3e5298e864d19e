#include "tools/bench/device_memory/measured_plan.h"

#include <algorithm>
#include <istream>
#include <ostream>
#include <sstream>

#include "core/forwarding_driver.h"
#include "runtime/runtime.h"
#include "runtime/session.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::bench {
namespace {

// A device that counts how many free bytes each kind of call takes.
class AccountingDevice : public ForwardingDevice {
 public:
  explicit AccountingDevice(Device* inner) : ForwardingDevice(inner), opened_(Free()) {}
  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    return Account(&taken_.blocks, [&] { return inner_->Allocate(bytes, alignment); });
  }
  Result<Module*> LoadModule(const PlanData& plan) override {
    return Account(&taken_.code, [&] { return inner_->LoadModule(plan); });
  }
  Result<Stream*> CreateStream() override {
    return Account(&taken_.streams, [&] { return inner_->CreateStream(); });
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    return Account(&taken_.graphs, [&] { return inner_->EndRecord(stream); });
  }
  TakenBytes Taken() {
    taken_.all = opened_ - Free();
    return taken_;
  }

 private:
  int64_t Free() {
    uint64_t free_bytes = 0, total_bytes = 0;
    (void)inner_->MemoryInfo(&free_bytes, &total_bytes).ok();
    return static_cast<int64_t>(free_bytes);
  }
  template <typename Call>
  auto Account(int64_t* to, Call call) -> decltype(call()) {
    const int64_t before = Free();
    decltype(call()) result = call();
    *to += before - Free();
    return result;
  }

  const int64_t opened_;
  TakenBytes taken_;
};

Status MeasureSessions(const Plan& plan, Driver* driver, AccountingDevice* device, uint64_t most,
                       std::vector<TakenBytes>* taken) {
  OneDeviceDriver forwarding(driver, device);
  RONDO_ASSIGN_OR_RETURN(const Runtime runtime, Runtime::Create(&forwarding));
  std::vector<Session> sessions;
  while (sessions.size() < most) {
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
    for (uint32_t p = 0; p < plan.data().programs.size(); ++p) {
      const std::vector<Tensor> inputs = tools::FillInputs(plan.data(), p, {});
      RONDO_RETURN_IF_ERROR(tools::RunOnTensors(session, p, inputs).status());
    }
    sessions.push_back(std::move(session));
    taken->push_back(device->Taken());
  }
  return Status::Ok();
}

Status MeasureModules(const Plan& plan, AccountingDevice* device, uint64_t most,
                      std::vector<int64_t>* taken) {
  std::vector<Module*> modules;
  Status status;
  const int64_t before = device->Taken().all;
  while (status.ok() && modules.size() < most) {
    const Result<Module*> module = device->LoadModule(plan.data());
    status = module.status();
    if (!module.ok()) break;
    modules.push_back(*module);
    taken->push_back(device->Taken().all - before);
  }
  for (Module* module : modules) device->DestroyModule(module);
  return status;
}

}  // namespace

Result<MeasuredPlan> MeasurePlan(const std::string& name, const Plan& plan, Driver* driver,
                                 const MeasureOptions& options) {
  if (plan.data().requirements.devices.size() != 1)
    return Status::Error(Code::kInvalidArgument, "%s is for %zu devices; plans of one are measured",
                         name.c_str(), plan.data().requirements.devices.size());
  MeasuredPlan measured;
  measured.name = name;
  std::replace(measured.name.begin(), measured.name.end(), ' ', '_');
  measured.needs = NeedsOn(plan.data(), 0);
  RONDO_ASSIGN_OR_RETURN(Device * opened, driver->Open(0));
  AccountingDevice device(opened);
  const uint64_t each = std::max<uint64_t>(measured.needs.session, 1);
  const uint64_t most = std::min(options.sessions, std::max<uint64_t>(8, options.session_bytes / each));
  RONDO_RETURN_IF_ERROR(MeasureSessions(plan, driver, &device, most, &measured.sessions));
  RONDO_RETURN_IF_ERROR(MeasureModules(plan, &device, options.modules, &measured.modules));
  return measured;
}

void Write(const MeasuredPlan& plan, std::ostream& out) {
  const DeviceNeeds& n = plan.needs;
  out << "plan " << plan.name << ' ' << n.codes << ' ' << n.code_bytes << ' ' << n.library << ' ' << n.graphs
      << ' ' << n.nodes << ' ' << n.streams << ' ' << n.weights << ' ' << n.session << ' ' << plan.start
      << '\n';
  for (const TakenBytes& t : plan.sessions)
    out << "session " << t.code << ' ' << t.blocks << ' ' << t.streams << ' ' << t.graphs << ' ' << t.all
        << '\n';
  for (int64_t taken : plan.modules) out << "module " << taken << '\n';
}

Result<std::vector<MeasuredPlan>> ReadMeasured(std::istream& in) {
  std::vector<MeasuredPlan> plans;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "plan") {
      MeasuredPlan& p = plans.emplace_back();
      DeviceNeeds& n = p.needs;
      words >> p.name >> n.codes >> n.code_bytes >> n.library >> n.graphs >> n.nodes >> n.streams >>
          n.weights >> n.session >> p.start;
    } else if (kind == "session" && !plans.empty()) {
      TakenBytes& t = plans.back().sessions.emplace_back();
      words >> t.code >> t.blocks >> t.streams >> t.graphs >> t.all;
    } else if (kind == "module" && !plans.empty()) {
      words >> plans.back().modules.emplace_back();
    } else {
      words.setstate(std::ios::failbit);
    }
    if (words.fail())
      return Status::Error(Code::kInvalidArgument, "\"%s\" is no plan, session or module of one",
                           line.c_str());
  }
  return plans;
}

}  // namespace rondo::bench
