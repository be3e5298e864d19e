#include <signal.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/report.h"
#include "tools/serve/server.h"

namespace rondo::tools {
namespace {

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

class ServeCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Positional("FOLDER", &folders_, 1, 1,
                       "plans: NAME.rondo, NAME/model.rondo, or NAME/VERSION/model.rondo");
    options.Group("Where it listens")
        .Text("--listen", &server_.address, "IP address; 0.0.0.0: every network (default 127.0.0.1)",
              "ADDRESS")
        .Integer("--port", &port_, 0, 65535, "port (default 8000); 0: any that is free, which is printed")
        .Integer("--grpc-port", &grpc_port_, 0, 65535,
                 "answer the Open Inference Protocol over gRPC as well, on this port; 0: any that is free")
        .Integer("--http-threads", &http_threads_, 1, 64, "threads that read requests and write answers (2)")
        .Rare()
        .Group("Models")
        .Integer("--sessions", &sessions_, 1, 256, "sessions of each plan: runs at the same time (1)")
        .Number("--batch-delay", &batch_delay_,
                "a run waits so long for requests to go along with the first; default: for none that is not "
                "there",
                "MILLISECONDS")
        .Flag("--no-batching", &no_batching_, "each request has a run of its own")
        .Number("--memory", &memory_, "load plans up to so much stated memory in all, old versions included",
                "GB")
        .Text("--python", &server_.catalog.python,
              "a Python with tokenizers and jinja2, for models with a tokenizer.json or a chat template, and "
              "with llguidance, for schemas and grammars (python3)",
              "F")
        .Number("--poll", &poll_, "look for new versions so often (1)", "SECONDS")
        .Rare()
        .Group("Limits")
        .Integer("--queue", &queue_, 1, 1 << 20,
                 "requests that wait for a model (256); more are answered 429")
        .Number("--answer-within", &answer_, "a request is answered, or gets 504 (60)", "SECONDS")
        .Number("--max-body", &max_body_, "of one request (64); longer ones are answered 413", "MB")
        .Number("--max-held", &max_held_, "of all requests under way (1024); more are answered 503", "MB")
        .Integer("--max-connections", &max_connections_, 1, 1 << 20, "at once (4096); more are answered 503")
        .Number("--client-within", &client_,
                "a client sends its body in so long (60), its headers in a sixth of it, and reads its answer "
                "in half",
                "SECONDS")
        .Rare()
        .Number("--grace", &grace_, "at SIGTERM, answer what there is in so long (30)", "SECONDS");
    DeclareLoad(options, &server_.load);
    out_.Declare(options);
  }

  int Run() override {
    if (const std::string wrong = ReadArguments(); !wrong.empty()) return out_.Misuse("serve", wrong);
    // Before any thread is made: none takes them but the one that waits below.
    sigset_t ends;
    sigemptyset(&ends);
    for (int signal : {SIGTERM, SIGINT}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    signal(SIGPIPE, SIG_IGN);
    Result<std::unique_ptr<serve::Server>> server = serve::Server::Start(server_);
    if (!server.ok()) return out_.Fail("serve", server.status());
    const std::string url = "http://" + server_.address + ":" + std::to_string((*server)->port());
    out_.object() = {{"url", url}};
    for (const serve::ModelState& model : (*server)->States())
      out_.object()["models"].push_back({{"name", model.name},
                                         {"version", model.version},
                                         {"state", model.state},
                                         {"reason", model.reason}});
    out_.Line("listening on %s", url.c_str());
    if ((*server)->grpc_port() != 0) {
      const std::string grpc = server_.address + ":" + std::to_string((*server)->grpc_port());
      out_.object()["grpc"] = grpc;
      out_.Line("gRPC on %s", grpc.c_str());
    }
    out_.Finish(0);
    std::fflush(stdout);
    int signal = 0;
    sigwait(&ends, &signal);
    if (!out_.quiet()) std::fprintf(stderr, "rondo serve: ending\n");
    if ((*server)->End(Milliseconds(grace_))) return 0;
    return out_.Fail("serve", Status::Error(Code::kDeadlineExceeded,
                                            "requests were still being answered %g s after the end was asked "
                                            "for (--grace)",
                                            grace_));
  }

 private:
  std::string ReadArguments() {
    for (const auto& [name, value] :
         {std::pair("--batch-delay", batch_delay_), {"--memory", memory_}, {"--grace", grace_}}) {
      if (!(value >= 0 && value < 1e9)) return Printf("%s %g is not a number from 0 on", name, value);
    }
    for (const auto& [name, value] : {std::pair("--poll", poll_),
                                      {"--answer-within", answer_},
                                      {"--max-body", max_body_},
                                      {"--max-held", max_held_},
                                      {"--client-within", client_}}) {
      if (!(value > 0 && value < 1e9)) return Printf("%s %g is not a number above 0", name, value);
    }
    if (auto devices = ParseDevices(server_.load.devices); !devices.ok()) return devices.status().message();
    const auto bytes = [](double number, double unit) { return static_cast<uint64_t>(number * unit); };
    server_.port = static_cast<uint16_t>(port_);
    if (grpc_port_ >= 0) server_.grpc_port = static_cast<uint16_t>(grpc_port_);
    server_.http_threads = static_cast<uint32_t>(http_threads_);
    server_.held_bytes = bytes(max_held_, 1 << 20);
    server_.http.body_bytes = bytes(max_body_, 1 << 20);
    server_.http.connections = static_cast<uint64_t>(max_connections_);
    server_.http.answer = Milliseconds(answer_);
    server_.http.body = Milliseconds(client_);
    server_.http.head = Milliseconds(client_ / 6);
    server_.http.write = Milliseconds(client_ / 2);
    server_.catalog.folder = folders_[0];
    server_.catalog.memory = bytes(memory_, 1e9);
    server_.catalog.poll = Milliseconds(poll_);
    server_.catalog.silent = out_.quiet();
    serve::PoolOptions& pool = server_.catalog.pool;
    pool.sessions = static_cast<uint32_t>(sessions_);
    pool.queue = static_cast<size_t>(queue_);
    pool.batch_delay = std::chrono::microseconds(static_cast<int64_t>(batch_delay_ * 1000));
    pool.join = !no_batching_;
    return "";
  }

  std::vector<std::string> folders_;
  int64_t port_ = 8000, grpc_port_ = -1, http_threads_ = 2, sessions_ = 1, queue_ = 256,
          max_connections_ = 4096;
  double batch_delay_ = 0, memory_ = 0, poll_ = 1, answer_ = 60, max_body_ = 64, max_held_ = 1024,
         client_ = 60, grace_ = 30;
  bool no_batching_ = false;
  serve::ServerOptions server_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

}  // namespace rondo::tools
