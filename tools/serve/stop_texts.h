// StopTexts: passes on a growing text up to the first stop text. A possible beginning of one is held back.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace rondo::serve {

class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {}

  // The text that is settled now that `piece` has arrived; nothing after a stop text. `last`: nothing
  // follows.
  std::string Add(const std::string& piece, bool last) {
    if (stopped_) return "";
    waiting_ += piece;
    size_t keep = 0;
    for (const std::string& stop : stops_) {
      if (const size_t at = waiting_.find(stop); at != waiting_.npos) {
        waiting_.resize(at);
        stopped_ = true;
      }
    }
    for (size_t s = 0; s < stops_.size() && !stopped_ && !last; ++s) {
      for (size_t n = std::min(stops_[s].size() - 1, waiting_.size()); n > keep; --n) {
        if (waiting_.compare(waiting_.size() - n, n, stops_[s], 0, n) == 0) keep = n;
      }
    }
    std::string settled = waiting_.substr(0, waiting_.size() - keep);
    waiting_.erase(0, settled.size());
    return settled;
  }
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string waiting_;
  bool stopped_ = false;
};

}  // namespace rondo::serve
