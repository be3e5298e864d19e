// Lambdas that the device templates of matmuls call: for the place of an element, the prologue, and the
// epilogue. Internal to compiler/codegen/cuda.
//
// Each Write... appends one definition; its comment shows the definition's name in the text. `batch` is the
// index of the batch.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// The unsigned integer type of an element's size.
const char* WordType(DType dtype);

// auto NAME = [](flat index) -> At: what these loops add to the operand's address and coordinates.
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
// const char* const b[]: the beginnings of all B. `start`: an offset in elements.
void WriteBases(const Part& part, const MatmulProblem& problem, const std::string& start, PartWriter* writer);

// Points of the innermost loop of N that an epilogue computes at once.
int EpilogueLanes(const Part& part, const MatmulProblem& problem);
// Whether all results lie next to each other along M and not along N, as in images with channels first.
bool LiesDown(const Part& part, const MatmulProblem& problem);
// auto fetch = [&](m, n, u32* words): loads what the epilogue of `lanes` points reads besides sums, if it
// lies in vectors. WriteEpilogue must come next; it finds the data in its argument `words`, until the
// writer's scope is restored. Returns the number of words, `most` at most.
int WriteFetch(const PartContext& context, const MatmulProblem& problem, int lanes, int most,
               PartWriter* writer);
// The same in two: auto fetch = [&](m, n, u32* words) of eight points, for four epilogues of two each, and
// auto fetch_columns = [&](n, u32* columns) of two points of any row, which the epilogue finds in its
// argument `columns`.
struct FetchedWords {
  int words = 0, columns = 0;
};
FetchedWords WriteFetchOfPairs(const PartContext& context, const MatmulProblem& problem, int most,
                               PartWriter* writer);
// auto fetch = [&](m, n): starts loading the elements that the epilogue of the point reads besides sums, for
// the next call of `epilogue`. WriteEpilogue, with 1 lane, must come next.
void WriteFetchOfPoint(const PartContext& context, const MatmulProblem& problem, PartWriter* writer);
// auto fetch = [&](n): starts loading what the epilogue of `lanes` points from n on reads equally in every
// row (scales, zero points, biases), for all calls of `epilogue` in that column. WriteEpilogue must come
// next.
void WriteFetchOfColumns(const PartContext& context, const MatmulProblem& problem, int lanes,
                         PartWriter* writer);
// auto epilogue = [&](m, n, const float* sums): the epilogue of `lanes` points along the innermost loop
// of N; sums[j * lanes + v] is accumulator j of point v. `more`: further parameters.
void WriteEpilogue(const PartContext& context, const MatmulProblem& problem, int lanes,
                   const std::string& more, PartWriter* writer);

}  // namespace rondo::cuda
