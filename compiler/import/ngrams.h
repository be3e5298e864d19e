// TfIdfVectorizer, one of the operators in the table of ops_ml.cc.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

Status TfIdfVectorizer(OpContext& c);

}  // namespace rondo::importer
