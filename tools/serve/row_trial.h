// KeepJoiningRows: whether rows of different requests may share a run is tried out when a plan is loaded.
//
// That the first dimension of every port is the same does not say that it is a batch: a model may mix its
// rows. The trial runs the program with made-up rows, and again with all but the first row changed; where the
// first row's results change, or it cannot run, requests are not joined, and each has all rows.
#pragma once

#include <vector>

#include "tools/serve/batch_form.h"
#include "tools/serve/batch_runner.h"

namespace rondo::serve {

// Takes `rows` away from the forms that fail the trial; programs that the compiler did not make buckets are
// then forms of their own. The runner must be prepared anew. An error is the session's.
Status KeepJoiningRows(const PlanData& plan, BatchRunner* runner, std::vector<BatchForm>* forms);

}  // namespace rondo::serve
