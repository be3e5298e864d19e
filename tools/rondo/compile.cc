#include "compiler/compile.h"

#include <charconv>
#include <functional>

#include "compiler/given_ports.h"
#include "compiler/pipeline.h"
#include "compiler/targets.h"
#include "compiler/variants.h"
#include "tools/rondo/build.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/compile_report.h"
#include "tools/rondo/kernel_folder.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/model_arguments.h"
#include "tools/rondo/model_options.h"
#include "tools/rondo/overlap_section.h"
#include "tools/rondo/profile.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const PipelineEntry& entry : Pipeline()) names.emplace_back(entry.name);
  return names;
}

class CompileCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    // Options that may differ between compilations of the same plan are not recorded in the plan.
    given_ = [options] {
      return options.Given(
          {"output", "library-path", "kernel-cache", "no-kernel-cache", "write-synthetic", "external-data",
           "dump-after", "check-passes", "list-passes", "verbose", "json", "wide", "quiet"},
          {"ops", "profile"});
    };
    options.Group("Input")
        .Positional("MODEL", &models_, 0, -1, "model.onnx, or several as PROGRAM=model.onnx")
        .Text("-o,--output", &output_, "the plan file to write", "PLAN");
    DeclareOps(options, &ops_);
    options
        .Texts("--external-data", &options_.external_data,
               "a folder into which symbolic links to external data may lead, beside the model's", "DIR")
        .Text("--synthetic-weights", &seed_, "replace missing external weights by numbers made from SEED",
              "SEED")
        .Rare()
        .Text("--write-synthetic", &write_synthetic_, "write those numbers as the missing external data file",
              "FILE")
        .Rare()
        .Group("Shapes");
    DeclareShapes(options, &model_, ", in every program that has it, or in one (prefill:x=1x128)");
    options.Texts(
        "--bind", &bound_,
        "replace an input by a constant: a value in every element (use_cache_branch=true), an array "
        "(axes=[0,2]) or a file (pads=F.npy, F.pb); in every program that has it, or in one "
        "(prefill:use_cache_branch=false)",
        "NAME=VALUE");
    DeclareBounds(options, &model_);
    options
        .Integer(
            "--unroll", &options_.longest_unrolled, 0, 1 << 16,
            "write recurrent operators, Loop and Scan of up to N rounds out as straight steps (default 16)")
        .Rare()
        .Group("Target");
    DeclareTarget(options, &model_, "host");
    options
        .Text(
            "--matmuls", &matmuls_,
            "matmuls on GPUs: generated; library, by cuBLASLt wherever it can; auto, whichever is faster by "
            "estimate (default)",
            "generated|library|auto")
        .Flag("--deterministic", &options_.deterministic,
              "the same bits on one GPU model with any version of cuBLASLt: all matmuls are generated")
        .Text("--profile", &profile_,
              "choose kernels by what rondo tune measured, and estimate with the times that rondo profile "
              "measured",
              "F.json")
        .Integer("--alternatives", &options_.alternatives, 0, 32,
                 "keep the N best other ways to compute each matmul in the plan, for rondo tune");
    DeclareLibraryPath(options, &options_.library_path);
    options
        .Text(
            "--kernel-cache", &kernel_cache_,
            "the folder that keeps compiled kernels (default: rondo/kernels in $XDG_CACHE_HOME or ~/.cache)",
            "DIR")
        .Rare();
    DeclareKernelCache(options, &model_);
    options.Group("Precision")
        .Text(
            "--precision", &precision_,
            "what f32 matmuls, convolutions and attention compute in (default f32); with f16 and bf16 states "
            "have that type, other inputs and outputs stay f32",
            "f32|tf32|f16|bf16")
        .Text("--quantize-weights", &quantize_,
              "round weights of matmuls to int4, int8, fp8, int2 or fp4, with a scale per column or, as in "
              "int4:32, per block of 16 to 256; -v says what each weight lost",
              "TYPE[:BLOCK]")
        .Suggest({"int4", "int8", "fp8", "int2", "fp4"})
        .Flag("--live-weights", &options_.live_weights,
              "keep float weights of more than 8 elements open, so that rondo weights replace, and "
              "librondo_weights in a running session, can exchange them: no pass looks at their values, "
              "merges or folds them")
        .Group("Language models")
        .Integer("--cache-length", &options_.cache_length, 1, int64_t{1} << 32,
                 "caches that grow in each run get N positions and are updated in place")
        .Texts("--position-mask", &options_.position_masks,
               "with --cache-length: the input that is a mask over all positions, where that is not known; "
               "none: "
               "there is none",
               "NAME")
        .Rare()
        .Text("--sample", &sample_,
              "draw the next token of each text on the device from the output LOGITS; temperature, top-k, "
              "top-p "
              "and a seed become states; a program of one token per text (the input TOKENS) reads what was "
              "drawn",
              "LOGITS[:TOKENS]")
        .Texts("--token-loop", &token_loops_,
               "with --sample: a run of this program draws up to K tokens of each text, one after the other; "
               "rondo generate uses it beside a program of one",
               "PROGRAM=K")
        .Group("Many devices");
    DeclareSharing(options, &model_);
    options
        .Integer("--devices", &devices_, 1, 64,
                 "for models with their own collectives: how many devices; {rank} in a MODEL's name is the "
                 "device's number")
        .Number("--overlap-budget", &options_.overlap_budget,
                "by how much of its bytes a device's arena may grow so that collectives run beside compute "
                "(default 0.1)")
        .Rare()
        .Group("Memory")
        .Texts("--state", &states_,
               "an input and an output that are one persistent buffer; names may hold ':' "
               "(past:0:present:0); write \\: for a ':' of a name if the text is ambiguous",
               "INPUT:OUTPUT");
    DeclareAutoState(options, &model_);
    options
        .Texts(
            "--donate", &donations_,
            "give the memory of these inputs away in each run: to outputs of the same shape and type, or to "
            "temporaries",
            "INPUT[,...]")
        .Text("--variants", &variants_,
              "schedules of each program, among which a session chooses by the memory that is free: fastest "
              "(default), or fastest,smallest",
              "LIST")
        .Suggest({"fastest", "fastest,smallest"})
        .Text("--weights-file", &options_.weights_file, "keep weights in this file beside the plan", "NAME")
        .Rare()
        .Group("Single nodes")
        .Texts("--annotate", &annotations_,
               "how an ONNX node runs: stream=N, fuse=off, graph=off, matmul=library|generated, "
               "precision=f32|tf32|f16|bf16, deterministic, assert=finite, region=NAME, keep=together, "
               "after=NODES or needs=NODES. "
               "NODE is a name, value:NAME (the node of that output), region:NAME or a pattern with *. It "
               "holds or is refused; "
               "tools/docs/annotations.md says more",
               "NODE:KEY=VALUE")
        .Texts("--break-before", &options_.break_before, "end a partition before this ONNX node", "NODE")
        .Rare()
        .Group("Debugging")
        .Flag("-v,--verbose", &verbose_, "print what each pass did")
        .Flag("--list-passes", &list_passes_, "print the table of passes")
        .Texts("--dump-after", &options_.dump_after, "print each program after this pass", "PASS")
        .Suggest(PassNames())
        .Texts("--skip-pass", &options_.skip_passes, "leave an optional pass out, to find faults", "PASS")
        .Rare()
        .Suggest(PassNames())
        .Flag("--check-passes", &options_.check_passes,
              "check every invariant after every pass, to find faults")
        .Rare();
    out_.Declare(options);
  }

  int Run() override {
    if (list_passes_) return ListPasses(&out_);
    if (Status status = ReadTargets(); !status.ok()) return out_.Misuse("compile", status.message());
    if (int misuse = ReadArguments(); misuse != 0) return misuse;
    if (!write_synthetic_.empty()) {
      const Status status =
          WriteSynthetic(options_.models[0].path, *options_.synthetic_seed, write_synthetic_);
      if (!status.ok()) return out_.Fail("compile", status);
      out_.Line("wrote %s", write_synthetic_.c_str());
      out_.object()["synthetic_weights"] = write_synthetic_;
      if (output_.empty()) return out_.Finish(0);
    }
    if (!profile_.empty()) {
      Result<TuningProfile> profile = ReadProfile(profile_);
      if (!profile.ok()) return out_.Fail("compile", profile.status());
      options_.profile = ChoicesOf(*profile);
      if (Status status = IsOfTarget(*profile); !status.ok()) return out_.Fail("compile", status);
    }
    OpRegistry registry;
    if (Status status = LoadOps(ops_, &registry); !status.ok()) return out_.Fail("compile", status);
    options_.ops = &registry;
    Progress progress(&out_);
    options_.progress = [&](const std::string& program, const std::string& pass) {
      progress.Show("%s %s ...", program.c_str(), pass.c_str());
    };
    options_.dump = [&](const std::string& program, const std::string& pass, const std::string& text) {
      progress.Clear();
      if (out_.json()) {
        out_.object()["dumps"].push_back({{"program", program}, {"pass", pass}, {"text", text}});
      } else {
        std::printf("== program %s after %s\n%s\n", Printable(program).c_str(), pass.c_str(), text.c_str());
      }
    };
    options_.producer = kBuild;
    if (const std::string given = given_(); !given.empty()) options_.producer += " with " + given;
    Result<CompileReport> report = Compile(options_, output_);
    progress.Clear();
    if (!report.ok()) return out_.Fail("compile", report.status());
    out_.object().update(CompileReportJson(*report, output_));
    if (verbose_) PrintPasses(*report);
    for (const PassReport& pass : report->passes) {
      if (pass.pass == "keep_variants" && !pass.text.empty()) out_.Line("%s", pass.text.c_str());
      if (pass.pass == "quantize_weights" && !quantize_.empty())
        out_.Line("program %s: %s", pass.program.c_str(), pass.text.substr(0, pass.text.find('\n')).c_str());
    }
    PrintSummary(*report, output_, &out_);
    PrintRemarks(*report, options_.tensor_parallel > 1 || options_.pipeline_parallel > 1, verbose_, &out_);
    if (!options_.profile.choices.empty() || (!profile_.empty() && options_.profile.times == nullptr))
      PrintProfileUse(report->profile);
    if (options_.profile.times != nullptr)
      out_.Line("estimates are by %s", Printable(report->estimates).c_str());
    return out_.Finish(0);
  }

 private:
  // A profile of another GPU is refused: its choices are useless here, and its times would mislead.
  Status IsOfTarget(const TuningProfile& profile) const {
    for (const Target& target : options_.targets.all) {
      if (profile.architecture == (target.is_host() ? "host" : target.gpu->architecture)) return Status::Ok();
    }
    if (!profile.has_times()) return Status::Ok();
    return Status::Error(
        Code::kInvalidArgument,
        "--profile %s has times of %s, %s, but the plan is for %s: measure on such a machine",
        profile_.c_str(), Printable(profile.gpu).c_str(), Printable(profile.architecture).c_str(),
        options_.targets.text().c_str());
  }

  Status ReadTargets() {
    RONDO_ASSIGN_OR_RETURN(options_.targets, ParseTargets(model_.target));
    return Status::Ok();
  }

  // Each Read function reads some options. It returns what is wrong with them, or "".
  std::string ReadModels() {
    if (models_.empty()) return "no MODEL was given";
    if (output_.empty() && write_synthetic_.empty()) return "no -o PLAN was given";
    for (const std::string& model : models_) options_.models.push_back(ParseModel(model));
    for (size_t i = 0; i < options_.models.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (options_.models[i].program != options_.models[j].program) continue;
        return "two models are called \"" + options_.models[i].program +
               "\": name each, as in prefill=a.onnx decode=b.onnx";
      }
    }
    if (const std::string wrong = ReadTokenLoops(); !wrong.empty()) return wrong;
    return ReadModelArguments(model_.shapes, bound_, &options_);
  }

  std::string ReadTokenLoops() {
    for (const std::string& loop : token_loops_) {
      const size_t equals = loop.rfind('=');
      const std::string name = loop.substr(0, equals);
      const auto model = std::find_if(options_.models.begin(), options_.models.end(),
                                      [&](const ModelSource& one) { return one.program == name; });
      int64_t rounds = 0;
      const char* end = loop.data() + loop.size();
      if (equals == loop.npos || model == options_.models.end() ||
          std::from_chars(loop.data() + equals + 1, end, rounds).ptr != end || rounds < 2 ||
          rounds > kMostRounds)
        return "--token-loop " + loop + " is not of the form PROGRAM=K, with a program's name and 2 to " +
               std::to_string(kMostRounds) + " rounds";
      model->token_rounds = rounds;
    }
    return "";
  }

  std::string ReadNames() {
    for (const std::string& annotation : annotations_) {
      Result<NodeAnnotation> parsed = ParseNodeAnnotation(annotation);
      if (!parsed.ok()) return std::string("--annotate ") + parsed.status().message();
      options_.annotations.push_back(parsed.Take());
    }
    for (const std::string& state : states_) {
      if (PairsIn(state).empty()) return "--state " + state + " is not of the form INPUT:OUTPUT";
      options_.state_texts.push_back(state);
    }
    for (const std::string& names : donations_) {
      for (size_t at = 0; at <= names.size();) {
        const size_t end = std::min(names.find(',', at), names.size());
        if (end == at) return "--donate " + names + " is not of the form INPUT[,...]";
        options_.donations.push_back(names.substr(at, end - at));
        at = end + 1;
      }
    }
    if (!sample_.empty() && sample_.front() == ':')
      return "--sample " + sample_ + " is not of the form LOGITS[:TOKENS]";
    options_.sample_text = sample_;
    options_.auto_state = !model_.no_auto_state;
    return "";
  }

  std::string ReadNumbers() {
    const std::optional<Precision> precision = ParsePrecision(precision_);
    if (!precision) return "--precision " + precision_ + " is none of f32, tf32, f16, bf16";
    options_.precision = *precision;
    const std::optional<Variant> variant = ParseVariants(variants_);
    if (!variant) return "--variants " + variants_ + " is neither fastest nor fastest,smallest";
    options_.variant = *variant;
    if (!quantize_.empty()) {
      const std::optional<WeightBits> bits = ParseWeightBits(quantize_);
      if (!bits) {
        return "--quantize-weights " + quantize_ +
               " is none of int2, int4, int8, fp4, fp8, alone or as in int4:32 with a block of "
               "16, 32, 64, 128 or 256";
      }
      options_.quantize = *bits;
    }
    if (!seed_.empty()) {
      uint64_t seed = 0;
      const auto [end, error] = std::from_chars(seed_.data(), seed_.data() + seed_.size(), seed);
      if (error != std::errc() || *end != 0) {
        return "--synthetic-weights " + seed_ + " is not a number from 0 to 2^64 - 1";
      }
      options_.synthetic_seed = seed;
    }
    if (!write_synthetic_.empty() && (seed_.empty() || models_.size() != 1)) {
      return "--write-synthetic needs one model and --synthetic-weights SEED";
    }
    if (options_.weights_file.find('/') != std::string::npos) {
      return "--weights-file takes a name without folders: the file lies beside the plan";
    }
    return "";
  }

  std::string ReadDevices() {
    options_.devices = static_cast<uint32_t>(devices_);
    options_.chunks = static_cast<uint32_t>(model_.chunks);
    options_.tensor_parallel = static_cast<uint32_t>(model_.tensor_parallel);
    options_.pipeline_parallel = static_cast<uint32_t>(model_.pipeline_parallel);
    if (const std::string wrong = TakeBounds(model_.bounds, &options_); !wrong.empty()) return wrong;
    if (!TakeWeights(model_.weights, &options_))
      return "--weights " + model_.weights + " is none of divide, gather";
    return "";
  }

  std::string ReadKernels() {
    if (!model_.no_kernel_cache && options_.targets.any_gpu())
      options_.kernel_cache = kernel_cache_.empty() ? DefaultKernelFolder("compile") : kernel_cache_;
    if (options_.alternatives > 0 && !options_.targets.any_gpu())
      return "--alternatives is for GPUs: give --target cuda:sm_90a";
    if (model_.no_kernel_cache && !kernel_cache_.empty()) {
      return "--no-kernel-cache does not go with --kernel-cache " + kernel_cache_;
    }
    if (matmuls_ == "generated") {
      options_.matmuls = Matmuls::kGenerated;
    } else if (matmuls_ == "library") {
      options_.matmuls = Matmuls::kLibrary;
    } else if (matmuls_ != "auto") {
      return "--matmuls " + matmuls_ + " is none of generated, library, auto";
    }
    if (options_.deterministic && options_.matmuls == Matmuls::kLibrary) {
      return "--deterministic does not go with --matmuls library: another version of a library may "
             "choose another algorithm";
    }
    return "";
  }

  // Returns 0, or the exit status of a wrong command line.
  int ReadArguments() {
    using Read = std::string (CompileCommand::*)();
    for (const Read read :
         {&CompileCommand::ReadModels, &CompileCommand::ReadNames, &CompileCommand::ReadNumbers,
          &CompileCommand::ReadDevices, &CompileCommand::ReadKernels}) {
      if (const std::string wrong = (this->*read)(); !wrong.empty()) return out_.Misuse("compile", wrong);
    }
    return 0;
  }

  void PrintProfileUse(const ProfileUse& use) {
    out_.Line("profile %s (%s): %u kernels computed as measured, %zu cannot be, %u not in this plan",
              profile_.c_str(), options_.profile.architecture.c_str(), use.taken, use.unknown.size(),
              use.unused);
    for (const std::string& what : use.unknown) out_.Line("  %s", what.c_str());
    out_.object()["profile"] = {{"file", profile_},
                                {"architecture", options_.profile.architecture},
                                {"taken", use.taken},
                                {"cannot_be", use.unknown},
                                {"unused", use.unused}};
  }

  // Prints what --quantize-weights did to each weight: the lines after the first in the pass's text, split at
  // tabs.
  void PrintWeights(const PassReport& pass) {
    Section section;
    section.title = "Weights in fewer bits: " + pass.program;
    section.table.head = {"weight", "[n, k]", "type", "relative RMS error", "bytes before", "after"};
    std::istringstream lines(pass.text);
    std::string line, field;
    for (std::getline(lines, line); std::getline(lines, line);) {
      std::istringstream fields(line);
      std::vector<std::string> row;
      while (std::getline(fields, field, '\t')) row.push_back(field);
      section.table.rows.push_back(row);
    }
    if (!section.table.rows.empty()) out_.Print(section);
  }

  void PrintPasses(const CompileReport& report) {
    Section section;
    section.title = "Passes";
    section.table.head = {"program", "pass", "ms", "what it did"};
    for (const PassReport& pass : report.passes) {
      std::string text =
          pass.pass == "quantize_weights" ? pass.text.substr(0, pass.text.find('\n')) : pass.text;
      for (char& c : text) {
        if (c == '\n') c = ';';
      }
      section.table.rows.push_back({pass.program, pass.pass, Printf("%.1f", pass.seconds * 1e3), text});
    }
    out_.Print(section);
    for (const PassReport& pass : report.passes) {
      if (pass.pass == "quantize_weights") PrintWeights(pass);
    }
    Section orders;
    orders.title = "Order of steps";
    for (const ProgramReport& program : report.programs)
      orders.lines.push_back(program.program + ": " + program.order);
    out_.Print(orders);
    for (const ProgramReport& program : report.programs) {
      if (program.overlap.collectives.empty()) continue;
      Section overlap = OverlapSection(program.program, program.overlap.collectives);
      overlap.lines.push_back(program.overlap.text);
      out_.Print(overlap);
    }
  }

  std::function<std::string()> given_;  // the command line, after parsing
  CompileOptions options_;
  ModelOptions model_{.target = "host"};
  static constexpr int64_t kMostRounds = 64;
  std::vector<std::string> token_loops_, models_, bound_, states_, donations_, ops_, annotations_;
  std::string precision_ = "f32", profile_, quantize_;
  std::string output_, seed_, sample_, write_synthetic_, kernel_cache_, matmuls_ = "auto",
                                                                        variants_ = "fastest";
  int64_t devices_ = 0;
  CommandOutput out_;
  bool list_passes_ = false, verbose_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCompileCommand() { return std::make_unique<CompileCommand>(); }

}  // namespace rondo::tools
