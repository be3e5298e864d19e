// rondo ops: the operators that this build imports, from the importer's own table.
#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "compiler/import/import.h"
#include "compiler/import/registry.h"
#include "core/dtype.h"
#include "runtime/verify/value_names.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

using importer::OpRow;
using Json = nlohmann::ordered_json;

// The first and last opset of an operator. Only the opsets of ai.onnx are bounded on both sides; other
// domains have no newest version to check.
struct Opsets {
  explicit Opsets(const OpRow& row) : first(row.since), last(row.until) {
    if (*row.domain != 0) return;
    first = std::max<int64_t>(first, kOldestOpset);
    last = std::min<int64_t>(last, kNewestOpset);
  }
  bool open() const { return last == importer::kLatest; }
  std::string Text() const {
    const std::string from = std::to_string(first);
    return open() ? from + " on" : from + " to " + std::to_string(last);
  }
  int64_t first, last;
};

std::string DomainOf(const OpRow& row) { return *row.domain == 0 ? "ai.onnx" : row.domain; }

std::string AlsoTakes(const OpRow& row) {
  std::string text = row.takes_narrow ? "inputs of fewer than 8 bits, FP8, FP4" : "";
  if (row.takes_sequences) text += text.empty() ? "sequences" : "; sequences";
  return text;
}

// By driver, the types of the first input in which the operator has run; each list is separated by blanks.
// `gpu` is empty if no GPU was tested.
struct RunTypes {
  const char *domain, *op, *host, *gpu;
};
constexpr RunTypes kRunTypes[] = {
#include "tools/rondo/operator_types.inc"
};

// None if the standard has no test cases for the operator.
const RunTypes* TypesOf(const OpRow& row) {
  const auto found = std::find_if(std::begin(kRunTypes), std::end(kRunTypes), [&](const RunTypes& types) {
    return std::string_view(types.domain) == row.domain && std::string_view(types.op) == row.op;
  });
  return found == std::end(kRunTypes) ? nullptr : found;
}

std::string TypesText(const RunTypes* types) {
  if (types == nullptr) return "";
  const std::string host = types->host, gpu = types->gpu;
  return host == gpu || gpu.empty() ? host : host + "; on GPUs " + gpu;
}

Json ListOf(const char* types) {
  Json list = Json::array();
  std::istringstream words(types);
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

std::string TypesText() {
  std::string text =
      "Run in types: of the first input, in which the standard's own cases of the operator were run on the "
      "host, and on a GPU where that differs; what is not listed was refused, or has no case. Element types "
      "of tensors: ";
  for (int i = 0; i < kNumDTypes; ++i)
    text += (i == 0 ? "" : ", ") + std::string(Name(static_cast<DType>(i)));
  return text + ".";
}

class OpsCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Positional("NAME", &names_, 0, -1, "operators to list; by default all");
    out_.Declare(options);
  }

  int Run() override {
    const std::vector<const OpRow*> rows = importer::AllOps();
    std::set<std::string_view> known;
    for (const OpRow* row : rows) known.insert(row->op);
    for (const std::string& name : names_) {
      if (known.count(name) != 0) continue;
      return out_.Fail("ops",
                       Status::Error(Code::kNotFound,
                                     "no operator is called \"%s\"; nearest: %s; a library of custom "
                                     "operators (compile --ops) can add one",
                                     name.c_str(), NearestNames(name, {known.begin(), known.end()}).c_str()));
    }
    std::map<std::string, Section> sections;  // one per domain
    for (const OpRow* row : rows) {
      if (!names_.empty() && std::find(names_.begin(), names_.end(), row->op) == names_.end()) continue;
      const Opsets opsets(*row);
      if (opsets.first > opsets.last) continue;  // only in versions before the oldest opset
      const RunTypes* types = TypesOf(*row);
      sections[DomainOf(*row)].table.rows.push_back(
          {row->op, opsets.Text(), TypesText(types), AlsoTakes(*row)});
      out_.object()["operators"].push_back({{"domain", DomainOf(*row)},
                                            {"operator", row->op},
                                            {"first_opset", opsets.first},
                                            {"last_opset", opsets.open() ? Json() : Json(opsets.last)},
                                            {"host_types", ListOf(types == nullptr ? "" : types->host)},
                                            {"gpu_types", ListOf(types == nullptr ? "" : types->gpu)},
                                            {"narrow_inputs", row->takes_narrow},
                                            {"sequences", row->takes_sequences}});
    }
    Report report{"Operators that rondo compile imports, for the host and for every GPU", {}};
    for (auto& [domain, section] : sections) {
      section.title = domain;
      section.table.head = {"operator", "opsets", "run in types", "also takes"};
      report.sections.push_back(section);
    }
    if (names_.empty()) report.sections.push_back({"Types", {TypesText()}, {}});
    for (int i = 0; i < kNumDTypes; ++i) out_.object()["types"].push_back(Name(static_cast<DType>(i)));
    out_.Print(report);
    return out_.Finish(0);
  }

 private:
  std::vector<std::string> names_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeOpsCommand() { return std::make_unique<OpsCommand>(); }

}  // namespace rondo::tools
