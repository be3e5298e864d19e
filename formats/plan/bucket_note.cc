#include "formats/plan/bucket_note.h"

#include "formats/plan/note_reader.h"

namespace rondo {

int64_t BucketDim::Of(const int64_t* lengths) const {
  int64_t sum = plus;
  for (const Term& term : terms) sum += term.times * lengths[term.length];
  return sum / over - (sum % over < 0 ? 1 : 0);
}

std::string TextOf(const BucketNote& note) {
  std::string text = "bucket of \"" + note.family + "\":";
  for (const BucketLength& length : note.lengths)
    text += " \"" + length.name + "\" up to " + std::to_string(length.room) + " by \"" + length.input + "\";";
  for (const BucketDim& dim : note.dims) {
    text += std::string(dim.output ? " out" : " in") + " \"" + dim.port + "\" " + std::to_string(dim.dim) +
            " = (" + std::to_string(dim.plus);
    for (const BucketDim::Term& term : dim.terms)
      text += " + " + std::to_string(term.times) + " * #" + std::to_string(term.length);
    text += ") / " + std::to_string(dim.over) + ";";
  }
  return text;
}

namespace {

// Sums of products of numbers up to this do not overflow.
constexpr int64_t kMostNumber = 1 << 28;
constexpr size_t kMostTerms = 8;

bool IsSmall(int64_t number) { return number >= -kMostNumber && number <= kMostNumber; }

}  // namespace

std::optional<BucketNote> ParseBucketNote(std::string_view source) {
  NoteReader in(source);
  BucketNote note;
  in.Expect("bucket of \"");
  in.Until("\":", &note.family);
  while (in.Take(" \"")) {
    BucketLength& length = note.lengths.emplace_back();
    in.Until("\" up to ", &length.name);
    in.Number(&length.room);
    in.Expect(" by \"");
    in.Until("\";", &length.input);
    if (length.room < 1 || length.room > kMostNumber) return std::nullopt;
  }
  while (in.ok() && !in.Rest().empty()) {
    BucketDim& dim = note.dims.emplace_back();
    dim.output = in.Take(" out \"");
    if (!dim.output) in.Expect(" in \"");
    in.Until("\" ", &dim.port);
    in.Number(&dim.dim);
    in.Expect(" = (");
    in.Number(&dim.plus);
    while (in.Take(" + ")) {
      BucketDim::Term& term = dim.terms.emplace_back();
      in.Number(&term.times);
      in.Expect(" * #");
      in.Number(&term.length);
      if (term.length >= note.lengths.size() || !IsSmall(term.times) || dim.terms.size() > kMostTerms)
        return std::nullopt;
    }
    in.Expect(") / ");
    in.Number(&dim.over);
    in.Expect(";");
    if (dim.over < 1 || !IsSmall(dim.over) || !IsSmall(dim.plus)) return std::nullopt;
  }
  if (!in.ok() || note.lengths.empty()) return std::nullopt;
  return note;
}

}  // namespace rondo
