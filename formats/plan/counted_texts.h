// plan_generated.h, with the texts of a plan counted by the flatbuffers verifier as tables are.
//
// The verifier bounds how many tables it looks at, those that are shared once for each reference. Texts it
// does not count: many references to tables that share one long vector of texts would take time that grows
// with the square of the file. Include this instead of plan_generated.h where a file is verified.
#pragma once

#include <flatbuffers/flatbuffers.h>

namespace rondo {

// A vector of texts, whose Verify spends one of the verifier's tables for each.
struct CountedTexts {
  bool Verify(flatbuffers::Verifier& verifier) const {
    const auto& texts =
        *reinterpret_cast<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>*>(this);
    for (flatbuffers::uoffset_t i = 0; i < texts.size(); ++i) {
      if (!verifier.VerifyComplexity() || !verifier.VerifyString(texts.Get(i)) || !verifier.EndTable())
        return false;
    }
    return true;
  }
};

}  // namespace rondo

// What the generated code calls for each such vector, having verified its bounds.
#define VerifyVectorOfStrings(texts) VerifyTable(reinterpret_cast<const rondo::CountedTexts*>(texts))
#include "formats/plan/plan_generated.h"
#undef VerifyVectorOfStrings
