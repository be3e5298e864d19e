#include "tools/serve/metrics_page.h"

#include <cstdio>
#include <functional>

namespace rondo::serve {

namespace {

class Page {
 public:
  void Family(const char* name, const char* type, const char* help) {
    name_ = name;
    text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void Value(const std::string& labels, double value, const char* suffix = "") {
    char number[40];
    std::snprintf(number, sizeof(number), " %.17g\n", value);
    text += name_ + suffix + (labels.empty() ? "" : "{" + labels + "}") + number;
  }
  void Count(const char* name, const char* type, const char* help, uint64_t value) {
    Family(name, type, help);
    Value("", static_cast<double>(value));
  }
  void Durations(const std::string& labels, const DurationCounts& counts) {
    uint64_t sum = 0;
    for (size_t i = 0; i < counts.buckets.size(); ++i) {
      sum += counts.buckets[i];
      char limit[32] = "+Inf";
      if (i < counts.kLimits.size()) std::snprintf(limit, sizeof(limit), "%g", counts.kLimits[i]);
      Value(labels + ",le=\"" + limit + "\"", static_cast<double>(sum), "_bucket");
    }
    Value(labels, static_cast<double>(counts.nanoseconds) * 1e-9, "_sum");
    Value(labels, static_cast<double>(sum), "_count");
  }
  std::string text;

 private:
  std::string name_;
};

std::string Label(const std::string& name) {
  std::string label = "model=\"";
  for (char c : name) {
    if (c == '\\' || c == '"') label += '\\';
    label += c == '\n' ? ' ' : c;
  }
  return label + "\"";
}

struct ModelFamily {
  const char *name, *type, *help;
  std::function<void(Page&, const std::string& label, const ModelCounts& counts)> write;
};

ModelFamily Counter(const char* name, const char* help, std::atomic<uint64_t> ModelCounts::*count) {
  return {name, "counter", help, [count](Page& page, const std::string& label, const ModelCounts& counts) {
            page.Value(label, static_cast<double>((counts.*count).load()));
          }};
}

const std::vector<ModelFamily>& ModelFamilies() {
  static const std::vector<ModelFamily> families = {
      {"rondo_serve_requests_total", "counter", "Requests answered, by the class of the status.",
       [](Page& page, const std::string& label, const ModelCounts& counts) {
         for (size_t digit = 2; digit < counts.answers.size(); ++digit)
           page.Value(label + ",status=\"" + std::to_string(digit) + "xx\"",
                      static_cast<double>(counts.answers[digit].load()));
       }},
      Counter("rondo_serve_refused_total", "Requests refused because as many waited as may.",
              &ModelCounts::refused),
      Counter("rondo_serve_runs_total", "Runs, each of the rows of one request or more.", &ModelCounts::runs),
      Counter("rondo_serve_joined_total", "Requests that went along in another one's run.",
              &ModelCounts::joined),
      Counter("rondo_serve_prompt_tokens_total", "Tokens of prompts that were read.",
              &ModelCounts::prompt_tokens),
      Counter("rondo_serve_tokens_total", "Tokens that were generated.", &ModelCounts::tokens),
      Counter("rondo_serve_loads_total", "Versions that were loaded.", &ModelCounts::loads),
      Counter("rondo_serve_failed_loads_total", "Versions that could not be loaded.",
              &ModelCounts::failed_loads),
      {"rondo_serve_queue_seconds", "histogram", "How long requests waited for a session.",
       [](Page& page, const std::string& label, const ModelCounts& counts) {
         page.Durations(label, counts.waited);
       }},
      {"rondo_serve_request_seconds", "histogram", "From a request's arrival to its answer.",
       [](Page& page, const std::string& label, const ModelCounts& counts) {
         page.Durations(label, counts.took);
       }},
  };
  return families;
}

}  // namespace

std::string MetricsPage(const Backend& backend, const Catalog& catalog, const HttpCounts& http,
                        const ByteBudget& budget) {
  Page page;
  page.Count("rondo_serve_connections", "gauge", "Connections now.", http.connections);
  page.Count("rondo_serve_requests_in_flight", "gauge", "Requests that are being read or answered now.",
             http.requests);
  page.Count("rondo_serve_connections_total", "counter", "Connections accepted.", http.accepted);
  page.Count("rondo_serve_connections_refused_total", "counter", "Connections over the limit.", http.refused);
  page.Count("rondo_serve_clients_timed_out_total", "counter", "Clients that sent or read too slowly.",
             http.timed_out);
  page.Count("rondo_serve_clients_broken_total", "counter", "Clients that left, or sent what is not HTTP.",
             http.broken);
  page.Count("rondo_serve_held_bytes", "gauge", "Bytes that requests hold now.", budget.used());
  page.Count("rondo_serve_held_bytes_limit", "gauge", "Bytes that requests may hold.", budget.limit());
  page.Count("rondo_serve_stated_bytes", "gauge", "Bytes that the plans in use state they need.",
             catalog.bytes());
  page.Family("rondo_serve_queue_length", "gauge", "Requests that wait for a session.");
  for (const auto& model : catalog.Loaded())
    page.Value(Label(model->name), static_cast<double>(model->waiting()));
  {
    const std::lock_guard<std::mutex> lock(catalog.mutex());
    for (const ModelFamily& family : ModelFamilies()) {
      page.Family(family.name, family.type, family.help);
      for (const auto& [name, counts] : catalog.counts()) family.write(page, Label(name), *counts);
    }
  }
  return page.text + backend.MetricsText();
}

}  // namespace rondo::serve
