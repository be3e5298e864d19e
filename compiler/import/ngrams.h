// TfIdfVectorizer, of the operators that ops_ml.cc lists.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

Status TfIdfVectorizer(OpContext& c);

}  // namespace rondo::importer
