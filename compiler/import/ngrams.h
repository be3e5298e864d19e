// TfIdfVectorizer, of the operators that ops_ml.cc lists.
#ifndef RONDO_COMPILER_IMPORT_NGRAMS_H_
#define RONDO_COMPILER_IMPORT_NGRAMS_H_

#include "compiler/import/op_context.h"

namespace rondo::importer {

Status TfIdfVectorizer(OpContext& c);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_NGRAMS_H_
