#include "tools/rondo/load_options.h"

namespace rondo::tools {

void DeclarePlan(OptionSet& options, std::vector<std::string>* plans, const char* help) {
  options.Positional("PLAN", plans, 1, 1, help);
}

void DeclareIgnoreHashes(OptionSet& options, bool* ignore) {
  options.Flag("--ignore-hashes", ignore, "go on when a section's hash is wrong").Rare();
}

void DeclareKeys(OptionSet& options, std::vector<std::string>* files) {
  options.Texts(
      "--key", files,
      "take plans only if they are signed with a key of this file: public keys of Ed25519, as `rondo "
      "sign --new-key` or openssl writes them",
      "F.pub");
}

void DeclareProgram(OptionSet& options, std::string* program) {
  options.Text("--program", program, "the plan's program of this name; default: all, or the only one",
               "NAME");
}

void DeclareInputs(OptionSet& options, std::vector<std::string>* inputs, const char* others) {
  options.Texts(
      "--input", inputs,
      (std::string("an input, or a state before the first run, from a .npy or .pb file") + others).c_str(),
      "NAME=FILE");
}

void DeclareTrace(OptionSet& options, std::string* file) {
  options.Text("--trace", file, "write the device time of every step of the last run, for Perfetto", "F");
}

void DeclareProfile(OptionSet& options, std::string* file, bool* merge) {
  options.Text("-o,--output", file, "the profile to write", "F.json", true)
      .Flag("--merge", merge, "keep what the profile already says of other kernels and collectives");
}

void DeclareFirstInteger(OptionSet& options, int64_t* first) {
  options
      .Integer("--first-integer", first, 0, INT32_MAX,
               "where kernels run alone: integer inputs count up from N, as positions do (0)")
      .Rare();
}

void DeclareDriver(OptionSet& options, std::string* driver) {
  options.Text("--driver", driver, "the driver; default: the one that the plan is compiled for", "host|cuda");
}

void DeclareLibraryPath(OptionSet& options, std::string* folders) {
  options.Text("--library-path", folders,
               "folders (a:b) in which libnvrtc, NCCL and cuBLASLt are looked for first", "DIRS");
}

void DeclareOps(OptionSet& options, std::vector<std::string>* libraries) {
  options.Texts("--ops", libraries, "a library of custom operators", "LIB.so");
}

void DeclareRunning(OptionSet& options, LoadOptions* to) {
  DeclareDriver(options, &to->driver);
  options.Integer("--threads", &to->threads, 0, 256, "threads of the host driver; 0: one per core");
  DeclareOps(options, &to->ops);
  DeclareLibraryPath(options, &to->library_path);
  options
      .Integer("--memory-limit", &to->memory_limit, 0, INT64_MAX,
               "the most bytes that a session's arena and state may take on each device, weights aside: "
               "programs run as the fastest variant (compile --variants) that keeps to it; 0: what is free")
      .Number("--timeout", &to->timeout,
              "end a run, or the creation of its session, after this time; 0: never", "SECONDS")
      .Number(
          "--watchdog", &to->watchdog,
          "end a run whose devices make no progress with collectives for this time (default 60); 0: never",
          "SECONDS")
      .Rare()
      .Text("--flight", &to->flight,
            "write what is asked of each device into this file as it happens, for `rondo flight`", "F")
      .Rare()
      .Text("--collectives", &to->collectives,
            "who computes collectives on GPUs: nccl; small, own kernels over peer memory where they can; "
            "fused, the same with norms behind them; auto, whichever is faster by estimate (default)",
            "nccl|small|fused|auto")
      .Rare()
      .Text("--instructions", &to->instructions,
            "the host driver's instruction set; default: the best of this machine", "avx512|avx2|baseline")
      .Rare();
}

void DeclareLoad(OptionSet& options, LoadOptions* to) {
  options.Group("Where and how it runs")
      .Text(
          "--devices", &to->devices,
          "the driver's devices for the plan's: how many, or which (0,0: two on one); of several processes, "
          "for those of this machine",
          "N|LIST");
  DeclareRunning(options, to);
  DeclareKeys(options, &to->keys);
  options
      .Flag("--read-weights", &to->read_weights,
            "read weights into memory, whatever their size, so that the file may change; default: below 256 "
            "MiB")
      .Rare()
      .Flag("--map-weights", &to->map_weights, "map weights from the file, which must then stay as it is")
      .Rare()
      .NotTogether("--read-weights", "--map-weights");
  DeclareIgnoreHashes(options, &to->ignore_hashes);
}

}  // namespace rondo::tools
