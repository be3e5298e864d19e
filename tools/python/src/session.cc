#include "tools/python/src/session.h"

#include <nanobind/stl/string.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tools/python/src/dtypes.h"
#include "tools/python/src/prepared_run.h"
#include "tools/python/src/runtime.h"
#include "tools/weights/rondo_weights.h"

namespace rondo::python {
namespace {

// Members are destroyed in reverse order: the session, then what it uses. Calls and runs under way share
// ownership, so it is safe to close at any moment.
struct OpenSession {
  std::shared_ptr<const OpenPlan> plan;
  std::shared_ptr<OpenRuntime> runtime;
  Session session;
  Families families;
  ~OpenSession() {
    if (!MadeHere(runtime->process))
      new Session(std::move(session));  // leaked on purpose: its runs were the parent's
  }
};

// Runs of run_async that have not ended, completion included. At the end of the process they are cancelled
// and waited for, because a completion takes the interpreter's lock.
class RunsUnderWay {
 public:
  void Add(OpenSession* session) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sessions_.insert(session);
  }
  void Remove(OpenSession* session) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sessions_.erase(sessions_.find(session));
    if (sessions_.empty()) none_.notify_all();
  }
  void End() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (OpenSession* session : sessions_) session->session.Cancel();
    none_.wait(lock, [&] { return sessions_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::multiset<OpenSession*> sessions_;
};

RunsUnderWay& UnderWay() {
  static auto* const runs = new RunsUnderWay;
  return *runs;
}

// One run of run_async.
struct AsyncRun {
  std::shared_ptr<OpenSession> session;
  std::optional<PreparedRun> prepared;
  nb::object done;  // called with the results and None, or None and the error
};

// The caller holds the interpreter's lock. Exceptions of `done`, for example because its loop is closed, are
// dropped: nobody waits for them.
void Complete(AsyncRun* run, const Error& error) {
  const nb::object done = std::move(run->done);
  try {
    if (error) {
      done(nb::none(), MakeError(error.code(), error.message(), error.source_node()));
    } else {
      done(run->prepared->results, nb::none());
    }
  } catch (nb::python_error& raised) {
    raised.discard_as_unraisable(done);
  }
  run->prepared.reset();
}

void Done(void* user, rondo_error* failed) {
  std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(user));
  const Error error(failed);
  const Completing completing;
  {
    nb::gil_scoped_acquire locked;
    Complete(run.get(), error);
  }
  UnderWay().Remove(run->session.get());
}

class SessionObject {
 public:
  SessionObject(const PlanObject& plan, const RuntimeObject& runtime, nb::handle timeout,
                nb::handle run_timeout, nb::handle watchdog, uint64_t memory_limit)
      : open_(std::make_shared<OpenSession>()) {
    open_->plan = plan.plan;
    open_->runtime = runtime.runtime;
    rondo_session_options options = RONDO_INIT(rondo_session_options);
    options.timeout_nanoseconds = Nanoseconds(timeout, "timeout");
    options.run_timeout_nanoseconds = Nanoseconds(run_timeout, "run_timeout");
    options.watchdog_nanoseconds = Nanoseconds(watchdog, "watchdog");
    options.memory_limit = memory_limit;
    CheckProcess(*open_);
    Error error;
    {
      nb::gil_scoped_release unlocked;
      error = Session::Create(open_->runtime->runtime, open_->plan->plan, &open_->session, &options);
      if (!error) error = MakeFamilies(open_.get());
    }
    Check(error);
  }
  SessionObject(const SessionObject&) = delete;
  ~SessionObject() { Close(); }

  nb::dict Variants() {
    const std::shared_ptr<OpenSession> open = Open();
    nb::dict variants;
    for (const Program& program : open->plan->programs) {
      const uint32_t chosen = open->session.ChosenProgram(program.index);
      if (chosen != program.index) variants[Str(program.name)] = Str(open->plan->plan.program_name(chosen));
    }
    return variants;
  }
  nb::object WhySmaller() { return Str(Open()->session.WhySmaller()); }

  nb::dict Run(nb::handle inputs, nb::handle program, nb::handle outputs, nb::handle timeout, bool stepwise) {
    const std::shared_ptr<OpenSession> open = Open();
    const PreparedRun run =
        Prepare(*open->plan, open->runtime->place, &open->families, inputs, program, outputs);
    const rondo_run_options options = OptionsOf(timeout, stepwise);
    Call(*open, [&](Session& session, std::string* wrong) {
      *wrong = run.WaitForProducers(open->runtime->place.gpus);
      if (!wrong->empty()) return Error();
      return run.buckets != nullptr ? run.buckets->Run(run.inputs, run.outputs, &options)
                                    : session.Run(run.program, run.inputs, run.outputs, &options);
    });
    return run.results;
  }

  // Returns false and starts nothing if the inputs must be padded, which no thread of the runtime does.
  bool Start(nb::handle inputs, nb::object done, nb::handle program, nb::handle outputs, nb::handle timeout) {
    const std::shared_ptr<OpenSession> open = Open();
    auto run = std::make_unique<AsyncRun>();
    run->session = open;
    run->prepared = Prepare(*open->plan, open->runtime->place, &open->families, inputs, program, outputs);
    if (run->prepared->buckets != nullptr) return false;
    run->done = std::move(done);
    const rondo_run_options options = OptionsOf(timeout, false);
    UnderWay().Add(open.get());
    bool accepted = false;
    const auto start = [&](Session& session, std::string* wrong) {
      *wrong = run->prepared->WaitForProducers(open->runtime->place.gpus);
      if (!wrong->empty()) return Error();
      const PreparedRun& p = *run->prepared;
      Error error = session.RunAsync(p.program, p.inputs, p.outputs, Done, run.get(), &options);
      if (!error) accepted = (run.release(), true);
      return error;
    };
    try {
      Call(*open, start);
    } catch (...) {
      if (!accepted) UnderWay().Remove(open.get());
      throw;
    }
    return true;
  }

  // Does not count as a use of the session: any thread, at any moment.
  void Cancel() { Open()->session.Cancel(); }

  void Wait() {
    const std::shared_ptr<OpenSession> open = Open();
    Call(*open, [](Session& session, std::string*) { return session.Wait(); });
  }

  void ResetState() {
    const std::shared_ptr<OpenSession> open = Open();
    Call(*open, [](Session& session, std::string*) { return session.ResetState(); });
  }

  void CopyStates(const SessionObject& from) {
    const std::shared_ptr<OpenSession> open = Open(), other = from.Open();
    Call(*open, [&](Session& session, std::string*) { return session.CopyStates(other->session); });
  }

  uint64_t CopyPositions(const SessionObject& from, int64_t length, int64_t first) {
    const std::shared_ptr<OpenSession> open = Open(), other = from.Open();
    uint64_t copied = 0;
    Call(*open, [&](Session& session, std::string*) {
      return session.CopyPositions(other->session, length, first, &copied);
    });
    return copied;
  }

  nb::object ReadState(const std::string& name) {
    const std::shared_ptr<OpenSession> open = Open();
    const Port& port = StatePort(*open, name);
    NewArray made = MakeArray(port, false, open->runtime->place);
    const span<std::byte> bytes(const_cast<std::byte*>(static_cast<const std::byte*>(made.array.held.data())),
                                port.bytes);
    Call(*open, [&](Session& session, std::string*) { return session.ReadState(port.name.c_str(), bytes); });
    return made.seen;
  }

  void WriteState(const std::string& name, nb::handle value) {
    const std::shared_ptr<OpenSession> open = Open();
    const Port& port = StatePort(*open, name);
    const Array array = TakeArray(value, port, false, open->runtime->place);
    if (array.type->dtype != port.dtype || array.shape() != port.shape)
      Raise(kInvalidArgument,
            "state \"" + name + "\" is " + TextOf(port) + ", but " + array.Text() + " was given");
    if (array.gpu >= 0)
      Raise(kUnsupported, "state \"" + name + "\" is written from the host's memory: give an array there");
    const span<const std::byte> bytes(static_cast<const std::byte*>(array.held.data()), port.bytes);
    Call(*open, [&](Session& session, std::string*) { return session.WriteState(port.name.c_str(), bytes); });
  }

  // `source`: a file, or arrays by name. `others`: the plan's other sessions in the runtime.
  size_t ReplaceWeights(nb::handle source, nb::iterable others) {
    const std::shared_ptr<OpenSession> open = Open();
    std::vector<std::shared_ptr<OpenSession>> held = {open};
    for (nb::handle other : others) held.push_back(nb::cast<SessionObject&>(other).Open());
    std::vector<rondo_session*> sessions;
    for (const auto& session : held) sessions.push_back(session->session.get());
    if (!nb::isinstance<nb::dict>(source)) {
      const auto path = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(source));
      size_t replaced = 0;
      Call(*open, [&](Session&, std::string*) {
        return Error(rondo_weights_replace_from(sessions.data(), sessions.size(), path.c_str(), &replaced));
      });
      return replaced;
    }
    std::vector<Port> ports;  // the arrays' names
    std::vector<Array> arrays;
    for (const auto& [name, value] : nb::cast<nb::dict>(source)) {
      ports.emplace_back().name = nb::cast<std::string>(name);
      arrays.push_back(TakeArray(value, ports.back(), false, open->runtime->place));
      if (arrays.back().gpu >= 0)
        Raise(kUnsupported, "weight \"" + ports.back().name + "\" must lie in the host's memory");
    }
    std::vector<Tensor> tensors;
    std::vector<rondo_tensor> values;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const std::vector<int64_t> shape = arrays[i].shape();
      const Tensor value(ports[i].name.c_str(), arrays[i].type->dtype, {shape.data(), shape.size()},
                         const_cast<void*>(arrays[i].held.data()), arrays[i].held.nbytes());
      tensors.push_back(value);
    }
    for (const Tensor& tensor : tensors) values.push_back(tensor.view());
    Call(*open, [&](Session&, std::string*) {
      return Error(rondo_weights_replace(sessions.data(), sessions.size(), values.data(), values.size()));
    });
    return values.size();
  }

  nb::object StuckError() {
    const Error error = Open()->session.status();
    return error ? MakeError(error.code(), error.message(), error.source_node()) : nb::none();
  }

  PlanObject plan() { return {Open()->plan}; }
  RuntimeObject runtime() { return {Open()->runtime}; }
  bool closed() const { return open_ == nullptr; }

  // Runs under way keep the session alive until they end.
  void Close() {
    nb::gil_scoped_release unlocked;
    std::shared_ptr<OpenSession> last;
    std::swap(last, open_);
  }

 private:
  // Programs called "NAME[LENGTH=N]" may be buckets of the family NAME.
  static Error MakeFamilies(OpenSession* open) {
    for (const Program& program : open->plan->programs) {
      const size_t end = program.name.find('[');
      const std::string name = program.name.substr(0, end);
      if (end == std::string::npos || open->families.count(name) != 0) continue;
      Buckets buckets;
      Error error = Buckets::Create(open->plan->plan, open->session, &buckets, name.c_str());
      if (error && error.code() != RONDO_NOT_FOUND) return error;
      if (!error) open->families.emplace(name, std::move(buckets));
    }
    return Error();
  }

  static void CheckProcess(const OpenSession& open) {
    if (MadeHere(open.runtime->process)) return;
    Raise(kFailedPrecondition,
          "the runtime was made in another process: after a fork, make a runtime and a session of its own");
  }

  std::shared_ptr<OpenSession> Open() const {
    if (open_ == nullptr) Raise(kFailedPrecondition, "the session is closed");
    CheckProcess(*open_);
    return open_;
  }

  static rondo_run_options OptionsOf(nb::handle timeout, bool stepwise) {
    rondo_run_options options = RONDO_INIT(rondo_run_options);
    options.timeout_nanoseconds = Nanoseconds(timeout, "timeout");
    options.stepwise = stepwise;
    return options;
  }

  // Calls into the library without the interpreter's lock.
  template <typename F>
  static void Call(OpenSession& open, const F& call) {
    Error error;
    std::string wrong;
    {
      nb::gil_scoped_release unlocked;
      error = call(open.session, &wrong);
    }
    if (!wrong.empty()) Raise(RONDO_ABORTED, wrong);
    Check(error);
  }

  static const Port& StatePort(const OpenSession& open, const std::string& name) {
    std::string known;
    for (const Program& program : open.plan->programs) {
      for (const std::vector<Port>* side : {&program.inputs, &program.outputs}) {
        const Port* port = FindPort(*side, name);
        if (port != nullptr && port->is_state) return *port;
        for (const Port& other : *side) {
          if (other.is_state) known += (known.empty() ? "" : ", ") + other.name;
        }
      }
    }
    Raise(kNotFound, "no state is called \"" + name + "\"; " +
                         (known.empty() ? "the plan has none" : "the plan has " + known));
  }

  std::shared_ptr<OpenSession> open_;
};

}  // namespace

void DeclareSession(nb::module_& m) {
  nb::class_<SessionObject>(m, "Session")
      .def(nb::init<const PlanObject&, const RuntimeObject&, nb::handle, nb::handle, nb::handle, uint64_t>(),
           nb::arg("plan"), nb::arg("runtime"), nb::kw_only(), nb::arg("timeout") = nb::none(),
           nb::arg("run_timeout") = nb::none(), nb::arg("watchdog") = nb::none(), nb::arg("memory_limit") = 0,
           nb::sig("def __init__(self, plan: Plan, runtime: Runtime, *, timeout: float | None = None, "
                   "run_timeout: float | None = None, watchdog: float | None = None, memory_limit: int = 0) "
                   "-> None"))
      .def("run", &SessionObject::Run, nb::arg("inputs").none(), nb::kw_only(),
           nb::arg("program") = nb::none(), nb::arg("outputs") = nb::none(), nb::arg("timeout") = nb::none(),
           nb::arg("stepwise") = false,
           nb::sig("def run(self, inputs: dict[str, typing.Any], *, program: str | None = "
                   "None, "
                   "outputs: dict[str, typing.Any] | collections.abc.Iterable[str] | None "
                   "= None, timeout: float | None = None, "
                   "stepwise: bool = False) -> dict[str, typing.Any]"),
           "Runs a program on arrays by name and returns its outputs by name.\n\n"
           "program: may be left out where the inputs' names, types and shapes say which; of buckets, the "
           "least "
           "that holds them, and outputs have the true shapes. outputs: names, or "
           "arrays "
           "to be written; left out, all outputs but states. timeout: seconds. stepwise: without graphs, to "
           "find "
           "faults.\n\n"
           "Arrays are numpy's or have __dlpack__; nothing is converted. Outputs are new numpy arrays; where "
           "an input "
           "lies on a GPU, objects with __dlpack__ there. The session serves one call at a time; other "
           "threads run "
           "meanwhile.")
      .def("_start", &SessionObject::Start, nb::arg("inputs").none(), nb::arg("done"),
           nb::arg("program").none(), nb::arg("outputs").none(), nb::arg("timeout").none())
      .def("cancel", &SessionObject::Cancel,
           "Ends the run under way, if there is one, with Cancelled. Any thread; returns at once.")
      .def("wait", &SessionObject::Wait, "Returns when no run of run_async is under way.")
      .def("reset_state", &SessionObject::ResetState, "Zeroes all state.")
      .def("copy_states", &SessionObject::CopyStates, nb::arg("source"),
           "All state becomes what `source` has, a session of the same plan and runtime.")
      .def("copy_positions", &SessionObject::CopyPositions, nb::arg("source"), nb::arg("length"),
           nb::arg("first"),
           "The same, but of caches of `length` positions only the first ones. Returns the bytes copied.")
      .def("read_state", &SessionObject::ReadState, nb::arg("name"),
           nb::sig("def read_state(self, name: str) -> typing.Any"), "A copy of a state, as a numpy array.")
      .def("write_state", &SessionObject::WriteState, nb::arg("name"), nb::arg("value"),
           nb::sig("def write_state(self, name: str, value: typing.Any) -> None"), "Writes all of a state.")
      .def("replace_weights", &SessionObject::ReplaceWeights, nb::arg("source"), nb::kw_only(),
           nb::arg("others") = nb::make_tuple(),
           nb::sig("def replace_weights(self, source: str | os.PathLike[str] | dict[str, typing.Any], *, "
                   "others: collections.abc.Iterable[Session] = ()) -> int"),
           "New weights for a plan that was compiled with live_weights=True, from a .safetensors file, an "
           "ONNX model "
           "or arrays by the names of the model's initializers. Returns how many were replaced.\n\n"
           "others: the other sessions of the plan in the runtime, which share its weights, all of them and "
           "idle. What "
           "does not fit raises InvalidArgument and changes nothing. State stays; the plan's file does, too.")
      .def("close", &SessionObject::Close,
           "Gives the session's memory back, after runs under way. Later calls raise FailedPrecondition.")
      .def_prop_ro("closed", &SessionObject::closed)
      .def_prop_ro("error", &SessionObject::StuckError, nb::sig("def error(self) -> Exception | None"),
                   "The error that stuck to the session, and that runs repeat.")
      .def_prop_ro("variants", &SessionObject::Variants, nb::sig("def variants(self) -> dict[str, str]"),
                   "The programs that run as smaller variants, and the names of these.")
      .def_prop_ro(
          "why_smaller", &SessionObject::WhySmaller, nb::sig("def why_smaller(self) -> str"),
          "Why some do: the limit or the memory that was free, and what was needed. \"\" if none does.")
      .def_prop_ro("plan", &SessionObject::plan)
      .def_prop_ro("runtime", &SessionObject::runtime);
  m.def("_end_runs", [] {
    nb::gil_scoped_release unlocked;
    UnderWay().End();
  });
}

}  // namespace rondo::python
