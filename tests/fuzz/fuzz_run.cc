// Deterministic fuzzing without libFuzzer: input N of a target depends only on the seeds and on --seed.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/target.h"
#include "tests/fuzz/watch.h"

namespace rondo::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string target;
  uint64_t runs = 20000, seed = 1, first = 0, memory_mb = 2048;
  int64_t only = -1;
  unsigned limit_s = 10;
  double seconds = 0;  // 0: no limit
  std::string save, write_seeds;
  std::vector<std::string> files;
  std::vector<double> least;  // percent of inputs that must reach each stage named in `reach`
  std::vector<std::string> reach;
};

struct Count {
  std::vector<uint64_t> ended;
  uint64_t inputs = 0, slowest = 0;
  double slowest_s = 0, seconds = 0;
};

void WriteFile(const fs::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Bytes ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

Bytes InputOf(Target& target, const std::vector<Seed>& seeds, uint64_t seed, uint64_t number) {
  Random random(seed * 0x9e3779b97f4a7c15ull + number);
  random.Next();
  const Seed& from = seeds[random.Below(seeds.size())];
  return target.Mutate({from.bytes.data(), from.bytes.size()}, random);
}

void RunOne(Target& target, const Bytes& input, uint64_t number, Count* count) {
  const auto start = Clock::now();
  const size_t stage = target.Run({input.data(), input.size()});
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ++count->ended[stage];
  ++count->inputs;
  if (seconds > count->slowest_s) {
    count->slowest_s = seconds;
    count->slowest = number;
  }
}

void Print(const Target& target, const Count& count) {
  std::printf("%s: %llu inputs in %.1f s, the slowest (%llu) %.3f s, greatest memory %.1f MiB\n",
              target.name(), static_cast<unsigned long long>(count.inputs), count.seconds,
              static_cast<unsigned long long>(count.slowest), count.slowest_s,
              static_cast<double>(GreatestMemory()) / (1 << 20));
  for (size_t i = 0; i < count.ended.size(); ++i) {
    std::printf("  %9llu  %5.1f %%  %s\n", static_cast<unsigned long long>(count.ended[i]),
                100.0 * static_cast<double>(count.ended[i]) /
                    static_cast<double>(std::max<uint64_t>(count.inputs, 1)),
                target.stages()[i]);
  }
}

// Whether at least `least` percent of the inputs reached the stage or a later one.
bool Reached(const Target& target, const Count& count, const std::string& stage, double least) {
  uint64_t reached = 0;
  bool at = false;
  for (size_t i = 0; i < count.ended.size(); ++i) {
    at = at || stage == target.stages()[i];
    if (at) reached += count.ended[i];
  }
  const double percent = 100.0 * static_cast<double>(reached) / static_cast<double>(count.inputs);
  if (at && percent >= least) return true;
  std::fprintf(stderr, "fuzz: %.1f %% of the inputs of %s got to \"%s\"; %.1f %% must\n", percent,
               target.name(), stage.c_str(), least);
  return false;
}

bool RunTarget(const std::string& name, const Options& options) {
  const std::unique_ptr<Target> target = MakeTarget(name);
  const std::vector<Seed> seeds = target->MakeSeeds();
  Count count;
  count.ended.resize(target->stages().size());
  const auto start = Clock::now();
  const uint64_t first = options.only >= 0 ? static_cast<uint64_t>(options.only) : options.first;
  const uint64_t runs = options.only >= 0 ? 1 : options.runs;
  for (uint64_t i = first; i < first + runs; ++i) {
    SetCurrent(target->name(), options.seed, i);
    const Bytes input = InputOf(*target, seeds, options.seed, i);
    if (!options.save.empty()) WriteFile(options.save, input);
    RunOne(*target, input, i, &count);
    count.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (options.seconds > 0 && count.seconds > options.seconds) break;
  }
  StopClock();
  Print(*target, count);
  bool ok = true;
  for (size_t i = 0; i < options.reach.size(); ++i) {
    ok = Reached(*target, count, options.reach[i], options.least[i]) && ok;
  }
  return ok;
}

void RunFiles(const Options& options) {
  const std::unique_ptr<Target> target = MakeTarget(options.target);
  Count count;
  count.ended.resize(target->stages().size());
  for (size_t i = 0; i < options.files.size(); ++i) {
    SetCurrent(target->name(), options.seed, i);
    RunOne(*target, ReadFile(options.files[i]), i, &count);
  }
  StopClock();
  Print(*target, count);
}

void WriteSeeds(const Options& options) {
  for (const std::string& name : TargetNames()) {
    const fs::path folder = fs::path(options.write_seeds) / name;
    fs::create_directories(folder);
    for (const Seed& seed : MakeTarget(name)->MakeSeeds()) WriteFile(folder / seed.name, seed.bytes);
  }
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Feeds damaged input to Rondo's parsers; see tests/fuzz/README.md");
  app.add_option("target", options.target,
                 "plan, onnx, npy, tensor_proto, safetensors, machine_code, profile or all")
      ->required();
  app.add_option("files", options.files, "run these inputs instead");
  app.add_option("--runs", options.runs, "inputs a target");
  app.add_option("--seed", options.seed, "of the random choices");
  app.add_option("--first", options.first, "number of the first input");
  app.add_option("--only", options.only, "only the input of this number");
  app.add_option("--seconds", options.seconds, "stop a target after so long");
  app.add_option("--limit-s", options.limit_s, "seconds an input may take; 0: any");
  app.add_option("--memory-mb", options.memory_mb, "memory the process may take; 0: any");
  app.add_option("--save", options.save, "write each input to this file before it is run");
  app.add_option("--write-seeds", options.write_seeds, "write the seed corpora into this folder and stop");
  app.add_option("--reach", options.reach, "a stage that ...");
  app.add_option("--least", options.least, "... this percentage of inputs must get to");
  CLI11_PARSE(app, argc, argv);
  StartWatch(options.limit_s);
  if (!options.write_seeds.empty()) return WriteSeeds(options), 0;
  LimitMemory(options.memory_mb << 20);
  if (options.target != "all" && MakeTarget(options.target) == nullptr) {
    std::fprintf(stderr, "fuzz: there is no target \"%s\"\n", options.target.c_str());
    return 2;
  }
  if (options.reach.size() != options.least.size()) {
    std::fputs("fuzz: --reach and --least come in pairs\n", stderr);
    return 2;
  }
  if (!options.files.empty()) return RunFiles(options), 0;
  bool ok = true;
  for (const std::string& name : TargetNames()) {
    if (options.target == "all" || options.target == name) ok = RunTarget(name, options) && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace rondo::fuzz

int main(int argc, char** argv) { return rondo::fuzz::Main(argc, argv); }
