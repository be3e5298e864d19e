// KeepJoiningRows: a trial, when a plan is loaded, of whether rows of different requests may share a run.
//
// Even if the first dimension of every port is the same, it need not be a batch: a model may mix its rows.
// The trial runs the program with generated rows, and again with all rows but the first changed. If the first
// row's results change, or the program cannot run, requests are not joined, and each has all rows.
#pragma once

#include <vector>

#include "tools/serve/batch_form.h"
#include "tools/serve/batch_runner.h"

namespace rondo::serve {

// Removes `rows` from the forms that fail the trial. Programs that are not buckets of the compiler then
// become separate forms, and the runner must be prepared again. An error concerns the session.
Status KeepJoiningRows(const PlanData& plan, BatchRunner* runner, std::vector<BatchForm>* forms);

}  // namespace rondo::serve
