#include "tools/rondo/load_options.h"

namespace rondo::tools {

void DeclareLoad(OptionSet& options, LoadOptions* to) {
  options
      .Text("--driver", &to->driver, "which driver runs it: host or cuda; by default what the plan is for",
            "host|cuda")
      .Text("--library-path", &to->library_path,
            "folders (a:b) in which NCCL and cuBLASLt are looked for first", "DIRS")
      .Text(
          "--devices", &to->devices,
          "the driver's devices for the plan's: how many, or which (0,0: two on one); of several processes, "
          "for those of this machine",
          "N|LIST")
      .Text(
          "--collectives", &to->collectives,
          "on GPUs: nccl, small (kernels over peer memory where they can), fused (the same, and norms behind "
          "them), or auto (the quicker by estimate, which is what is done without)",
          "nccl|small|fused|auto")
      .Integer("--threads", &to->threads, 0, 256, "threads of the host driver; 0: one a core")
      .Text("--instructions", &to->instructions,
            "instructions of the host driver: avx512, avx2 or baseline; by default the best this machine has",
            "avx512|avx2|baseline")
      .Texts("--ops", &to->ops, "a library of custom ops that the plan calls", "LIB.so")
      .Number("--timeout", &to->timeout, "end a run, or making ready for it, after so long; 0: never",
              "SECONDS")
      .Number("--watchdog", &to->watchdog,
              "end a run whose devices make no progress with their collectives for so long; 0: never",
              "SECONDS")
      .Flag(
          "--read-weights", &to->read_weights,
          "read weights into memory, whatever their size, so that the file may change; without, those below "
          "256 MiB")
      .Flag("--map-weights", &to->map_weights, "map weights from the file, which must then stay as it is")
      .NotTogether("--read-weights", "--map-weights")
      .Flag("--ignore-hashes", &to->ignore_hashes, "go on when a section's hash is wrong");
}

}  // namespace rondo::tools
