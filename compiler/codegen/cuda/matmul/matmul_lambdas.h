// Lambdas that the device templates of matmuls call: where an element lies, what a prologue makes of it, what
// becomes of a sum. Internal to compiler/codegen/cuda.
//
// Each Write... appends one definition; its name in the text stands before it. `batch` is the batch's number.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// auto NAME = [](flat number) -> At: what these loops add to the operand's address and coordinates.
void WritePlace(const std::string& name, const std::vector<size_t>& loops, const FlatOperand& operand,
                bool from_offset, PartWriter* writer);
// auto a_present = [&](At) -> bool
void WritePresent(const FlatOperand& operand, PartWriter* writer);
// auto a_value = [&](m, k) -> float: A's element, through its prologue. Of several `lanes`: [&](m, k, float*
// x), elements along K.
void WriteAValue(const PartContext& context, const MatmulProblem& problem, int lanes, PartWriter* writer);
// auto a_at = [&](m, k) -> uint4: eight elements of A along K as f16 or bf16 (`type`); a_value is written
// before. Bytes: 16, of an A whose vectors along K are as long.
void WriteAVectors(const PartContext& context, const MatmulProblem& problem, DType type, PartWriter* writer);
// auto b_value = [&](which B, n, k) -> float
void WriteBValue(const PartContext& context, const MatmulProblem& problem, PartWriter* writer);
// const char* const b[]: where each B begins. `start`: what is added to the elements before it.
void WriteBases(const Part& part, const MatmulProblem& problem, const std::string& start, PartWriter* writer);

// Points of the innermost loop of N that an epilogue takes at once.
int EpilogueLanes(const Part& part, const MatmulProblem& problem);
// auto fetch = [&](m, n, u32* words): what the epilogue of so many points reads besides sums, as far
// as it lies in vectors. WriteEpilogue, which comes next, finds it in its argument `words`, until the
// writer's scope is put back. Returns the number of words, `most` at most.
int WriteFetch(const PartContext& context, const MatmulProblem& problem, int lanes, int most,
               PartWriter* writer);
// auto fetch = [&](m, n): has the elements that the epilogue of the point reads beside sums on their way, for
// the call of `epilogue` (WriteEpilogue, of 1 lane, which comes next) that follows.
void WriteFetchOfPoint(const PartContext& context, const MatmulProblem& problem, PartWriter* writer);
// auto fetch = [&](n): has what the epilogue of `lanes` points from n on reads in every row alike (scales,
// zero points, biases) on its way, for all calls of `epilogue` (WriteEpilogue, which comes next) in that
// column.
void WriteFetchOfColumns(const PartContext& context, const MatmulProblem& problem, int lanes,
                         PartWriter* writer);
// auto epilogue = [&](m, n, const float* sums): the epilogue of `lanes` points along the innermost loop
// of N; sums[j * lanes + v] is accumulator j of point v. `more`: further parameters.
void WriteEpilogue(const PartContext& context, const MatmulProblem& problem, int lanes,
                   const std::string& more, PartWriter* writer);

}  // namespace rondo::cuda
