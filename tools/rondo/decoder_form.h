// DecoderForm: what a plan must look like for `generate` to continue texts with it, and where in it
// everything is. Programs and ports are found by shape, and by the names that exporters use, or as the user
// says.
//
// Each program reads `length` tokens of each of `texts` texts at the positions that follow those cached, and
// gives logits (at its last token, or at all), or, compiled with --sample, tokens drawn from them. All share
// caches that are states; one reads a single token. Where there is an encoder, one program more computes
// what decoders attend to, once a text; one that knows of no earlier positions begins, and the others go on.
// Plain data: indices into the plan's lists.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

// What an input is given in a run of s tokens behind `past` others.
enum class PortRole : uint8_t {
  kTokens,      // integers [texts, s]
  kPositions,   // past, past + 1, ...: [s] or [texts, s]
  kMask,        // [texts, context]: 1 up to past + s, then 0; or of every query, below
  kPast,        // past, one or one a text
  kTotal,       // past + s
  kLast,        // past + s - 1, the last position of each text
  kSampleRows,  // which of the run's tokens each text ends with
  kSampling,    // state: temperature, top-k, top-p of each text
  kDraws,       // state: seed and number of draws of each text
  kLastTokens,  // state: the tokens drawn last
  kTextLength,  // state: how long the text is that the run's tokens are of, its prompt while that is read
  kEncoded,     // what the encoder gave
  kSourceMask,  // of what it read: 1 where there is a token, then 0
};

// A mask may have a row for every query, [1 or texts, ..., s, context], and then says what each sees: the
// positions up to its own. Of floats such a mask is added to scores: 0, and else the least number.
struct DecoderInput {
  PortRole role = PortRole::kTokens;
  uint32_t port = kNone;
};

struct DecoderProgram {
  uint32_t program = kNone;
  int64_t length = 0;
  std::vector<DecoderInput> inputs;  // of plans for several devices, states several times
  bool reads_drawn = false;          // its tokens are the state kLastTokens
  uint32_t logits = kNone;           // outputs
  bool all_rows = false;             // logits, or tokens, of any of its tokens, not only of the last
  uint32_t next = kNone;             // tokens drawn
  bool begins = false;               // reads the first tokens of texts, and no others
};

// Reads all of a text's source at once.
struct EncoderProgram {
  uint32_t program = kNone;               // none: there is no encoder
  uint32_t tokens = kNone, mask = kNone;  // no tokens: its inputs are given
  uint32_t given_mask = kNone;            // a mask that is: decoders that read a source's read it as well
  uint32_t out = kNone;                   // none: what it computes are states alone
  int64_t length = 0;                     // tokens of a source at most
};

struct DecoderForm {
  std::vector<DecoderProgram> programs;  // the longest first, the last of length 1
  int64_t texts = 0, words = 0;
  int64_t context = 0;   // positions that the caches hold
  bool draws = false;    // by states kSampling and kDraws
  bool chooses = false;  // by the length of texts (kTextLength): those of a batch must be of one
  EncoderProgram encoder;
  // Tokens behind a text's end do no harm, nor those that are read again: all states are caches, and they are
  // overwritten.
  bool pads = false;
};

struct FormOptions {
  std::map<std::string, PortRole> roles;  // by the name of an input
  std::set<std::string> given;            // inputs that come from elsewhere
  std::string logits;                     // an output's name
  std::vector<std::string> programs;      // their names; empty: all
  int64_t context = 0;                    // 0: as the plan has it
};

// "tokens", "positions", "mask", "past", "total", "last": those that a user may give names for. False if it
// is none.
bool ParseRole(const std::string& text, PortRole* role);

// What a port of several devices is called on each: "NAME@2" is NAME on device 2.
std::string_view OnAnyDevice(std::string_view name);

// kUnsupported, with program, port and what to do, for a plan that is not of this form.
Result<DecoderForm> FindDecoderForm(const PlanData& plan, const FormOptions& options);

}  // namespace rondo::tools
