// ValueNames: looks up a plan's buffers and steps by the model's own names of values and nodes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"

namespace rondo {

// `plan` must outlive it. Reads only `plan`; safe from any thread.
class ValueNames {
 public:
  explicit ValueNames(const PlanData& plan) : plan_(plan) {}

  // The buffers called `name` in program `program`: by their own name, or as an input or output.
  std::vector<uint32_t> Buffers(uint32_t program, std::string_view name) const;
  // The steps of `program` that include node `node`, given by its name or as `Op "name"`.
  std::vector<uint32_t> Steps(uint32_t program, std::string_view node) const;

  // Why no buffer is called `name`: names the kernel that computes the value inside, or the nearest names.
  std::string NoBuffer(std::string_view name) const;
  // The same for a node.
  std::string NoNode(std::string_view node) const;

  // `buffer 7 "NAME" of NODES (bytes 0 to 255 of the arena of device 0, steps 1 to 2)`.
  std::string Describe(uint32_t buffer) const;
  // `step 3 (NODES)`.
  std::string DescribeStep(uint32_t program, uint32_t step) const;

 private:
  std::string NoValueOf(std::string_view value, std::string_view label) const;

  const PlanData& plan_;
};

// The names nearest to `name` (Damerau-Levenshtein distance), at most three, as a text: `"a", "b"`; "" when
// none is near.
std::string NearestNames(std::string_view name, const std::vector<std::string_view>& names);
// The nearest name, at any distance; "" if there are no names.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& names);

// The labels of a provenance text: `Op "node"; Op "node"`.
std::vector<std::string_view> LabelsOf(std::string_view sources);
// NODE of `Op "NODE"`.
std::string_view NodeOfLabel(std::string_view label);

}  // namespace rondo
