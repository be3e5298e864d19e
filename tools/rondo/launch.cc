#include "tools/rondo/launch.h"

#include <cstdio>
#include <cstdlib>

#include "drivers/mpi/mpi_meeting.h"
#include "drivers/processes/torch_store.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

using Variables = const char* (*)(const char* name);

// The variables that one launcher sets.
struct Names {
  Launcher launcher;
  const char* command;
  const char *rank, *size, *local, *locals;
};
constexpr Names kLaunchers[] = {
    {Launcher::kMpirun, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::kTorchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    // For a step of srun: a batch script has SLURM_PROCID too, but is one process.
    {Launcher::kSrun, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE"},
};

std::string TextOf(Variables value, const char* name) {
  const char* text = value(name);
  return text == nullptr ? "" : text;
}

Result<uint32_t> NumberOf(Variables value, const char* name, uint32_t least, uint32_t most) {
  const std::string text = TextOf(value, name);
  const bool digits = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == text.npos;
  const unsigned long number = digits ? std::stoul(text) : 0;
  if (!digits || number < least || number > most) {
    return Status::Error(Code::kInvalidArgument,
                         "%s is \"%s\" in the environment: not a number from %u to %u", name, text.c_str(),
                         least, most);
  }
  return static_cast<uint32_t>(number);
}

// The first node of "node[03-07,12],other": "node03".
std::string FirstNode(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == list.npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  const size_t after = list.find(']', bracket);
  if (end == list.npos || after == list.npos) return list.substr(0, bracket);
  const size_t next = list.find_first_of(",[", after);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         list.substr(after + 1, next == list.npos ? next : next - after - 1);
}

// The address on which rank 0 listens: MASTER_ADDR and MASTER_PORT. Steps of srun without them use the first
// node, and a port computed from the numbers of job and step.
Status FindAddress(Variables value, Launch* launch) {
  std::string host = TextOf(value, "MASTER_ADDR"), port = TextOf(value, "MASTER_PORT");
  if (launch->launcher == Launcher::kSrun) {
    if (host.empty()) host = FirstNode(TextOf(value, "SLURM_STEP_NODELIST"));
    const std::string job = TextOf(value, "SLURM_JOB_ID"), step = TextOf(value, "SLURM_STEP_ID");
    const uint64_t number =
        std::strtoull(job.c_str(), nullptr, 10) * 31 + std::strtoull(step.c_str(), nullptr, 10);
    if (port.empty()) port = std::to_string(20000 + number % 20000);
  }
  if (host.empty() || port.empty()) {
    return Status::Error(
        Code::kInvalidArgument,
        "process %u of %u: %s is not in the environment, so that it is not known where they meet",
        launch->rank, launch->size,
        port.empty()                          ? "MASTER_PORT"
        : launch->launcher == Launcher::kSrun ? "SLURM_STEP_NODELIST"
                                              : "MASTER_ADDR");
  }
  const bool bare_v6 = host.find(':') != host.npos && host[0] != '[';
  launch->address = (bare_v6 ? "[" + host + "]" : host) + ":" + port;
  launch->store = TextOf(value, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch->job = TextOf(value, "TORCHELASTIC_RUN_ID") + "/" + TextOf(value, "TORCHELASTIC_RESTART_COUNT");
  return Status::Ok();
}

// An empty variable is an error, because a secret was meant to be set.
Status FindSecret(Variables value, Launch* launch) {
  const char* secret = value("RONDO_SECRET");
  if (secret == nullptr) return Status::Ok();
  launch->secret = secret;
  const size_t size = launch->secret.size();
  if (size >= ProcessOptions::kMinSecret && size <= ProcessOptions::kMaxSecret) return Status::Ok();
  return Status::Error(Code::kInvalidArgument,
                       "RONDO_SECRET has %zu characters in the environment: a secret has %zu to %zu", size,
                       ProcessOptions::kMinSecret, ProcessOptions::kMaxSecret);
}

// Reports that other processes could take part, on the standard error of process 0.
void SayWhoCanTakePart(const Launch& launch) {
  if (launch.rank != 0 || launch.store || !launch.secret.empty()) return;
  std::fprintf(stderr,
               "rondo: %u processes meet at %s without a secret: whoever reaches that address can take part "
               "(set RONDO_SECRET to the same text for all)\n",
               launch.size, Printable(launch.address).c_str());
}

}  // namespace

Result<Launch> ReadLaunch(Variables value) {
  for (const Names& names : kLaunchers) {
    if (value(names.rank) == nullptr || value(names.size) == nullptr) continue;
    Launch launch;
    RONDO_ASSIGN_OR_RETURN(launch.size, NumberOf(value, names.size, 1, 1u << 20));
    if (launch.size == 1) continue;
    launch.launcher = names.launcher;
    if (launch.size > kMaxProcesses) {
      return Status::Error(Code::kInvalidArgument,
                           "%s is %u in the environment; at most %u processes can run a plan", names.size,
                           launch.size, kMaxProcesses);
    }
    RONDO_ASSIGN_OR_RETURN(launch.rank, NumberOf(value, names.rank, 0, launch.size - 1));
    if (value(names.local) != nullptr) {
      RONDO_ASSIGN_OR_RETURN(launch.local, NumberOf(value, names.local, 0, launch.size - 1));
    }
    launch.locals = static_cast<uint32_t>(std::strtoul(TextOf(value, names.locals).c_str(), nullptr, 10));
    RONDO_RETURN_IF_ERROR(FindSecret(value, &launch));
    if (launch.launcher != Launcher::kMpirun) RONDO_RETURN_IF_ERROR(FindAddress(value, &launch));
    return launch;
  }
  return Launch();
}

Result<Launch> ReadLaunch() {
  return ReadLaunch([](const char* name) -> const char* { return std::getenv(name); });
}

Result<std::unique_ptr<Processes>> Meet(const Launch& launch, const std::string& library_path,
                                        uint64_t timeout_ns) {
  std::unique_ptr<Processes> none;
  if (launch.launcher == Launcher::kNone) return none;
  if (launch.launcher == Launcher::kMpirun) {
    Result<Processes*> met = ConnectThroughMpi(library_path.c_str(), timeout_ns, launch.secret);
    if (!met.ok()) return met.status().At("process %u of %u, started by mpirun", launch.rank, launch.size);
    return std::unique_ptr<Processes>(*met);
  }
  ProcessOptions options;
  options.rank = launch.rank;
  options.size = launch.size;
  options.timeout_ns = timeout_ns;
  options.place.address = launch.address.c_str();
  options.secret = launch.secret;
  std::unique_ptr<TorchStore> store;
  if (launch.store) {
    TorchStoreOptions at;
    at.address = launch.address.c_str();
    at.job = launch.job.c_str();
    at.rank = launch.rank;
    at.size = launch.size;
    at.timeout_ns = timeout_ns;
    RONDO_ASSIGN_OR_RETURN(TorchStore * connected, ConnectToTorchStore(at));
    store.reset(connected);
    options.place = store->place();
  }
  SayWhoCanTakePart(launch);
  Result<Processes*> met = Processes::Connect(options);
  if (store != nullptr && !store->status().ok()) return store->status();
  if (!met.ok()) return met.status();
  return std::unique_ptr<Processes>(*met);
}

Status MeasuresAlone(const char* command) {
  RONDO_ASSIGN_OR_RETURN(const Launch launch, ReadLaunch());
  for (const Names& names : kLaunchers) {
    if (names.launcher != launch.launcher) continue;
    return Status::Error(Code::kInvalidArgument,
                         "this is process %u of %u, as %s is %u in the environment, and processes that "
                         "measure at once disturb one another: start rondo %s once, without %s; one process "
                         "measures all devices of a plan",
                         launch.rank, launch.size, names.size, launch.size, command, names.command);
  }
  return Status::Ok();
}

Status JoinOthers(LoadOptions* load) {
  RONDO_ASSIGN_OR_RETURN(const Launch launch, ReadLaunch());
  if (launch.launcher == Launcher::kNone) return Status::Ok();
  const uint64_t timeout = load->timeout > 0 ? TimeoutOf(*load) : kDefaultWatchdogNs;
  RONDO_ASSIGN_OR_RETURN(std::unique_ptr<Processes> met, Meet(launch, load->library_path, timeout));
  if (const uint32_t strangers = met->turned_away(); strangers != 0) {
    std::fprintf(stderr, "rondo: process %u turned away %u connection%s while the processes met\n",
                 launch.rank, strangers, strangers == 1 ? "" : "s");
  }
  load->processes = std::move(met);
  load->local_process = launch.local;
  load->local_processes = launch.locals;
  if (launch.rank != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) {
    return Status::Error(Code::kIo, "/dev/null cannot be opened");
  }
  return Status::Ok();
}

}  // namespace rondo::tools
