// plan_generated.h, changed so that the flatbuffers verifier counts a plan's texts as it counts tables.
//
// The verifier limits how many tables it visits, and counts shared ones once for each reference. It does not
// count texts: many references to tables that share one long vector of texts would take time quadratic in the
// file's size. Include this instead of plan_generated.h where a file is verified.
#pragma once

#include <flatbuffers/flatbuffers.h>

namespace rondo {

// A vector of texts whose Verify counts each text as one table.
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

// The generated code calls this for each such vector, after verifying its bounds.
#define VerifyVectorOfStrings(texts) VerifyTable(reinterpret_cast<const rondo::CountedTexts*>(texts))
#include "formats/plan/plan_generated.h"
#undef VerifyVectorOfStrings
