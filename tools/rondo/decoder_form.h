// DecoderForm: the form of a plan with which `generate` can continue texts, and the place of everything in
// it. Programs and ports are found by shape and by the names that exporters use, or as the user says.
//
// Each program reads `length` tokens of each of `texts` texts, at the positions after those cached. It gives
// logits (at its last token, or at all), or, compiled with --sample, tokens drawn from them. All programs
// share caches, which are states, and one program reads a single token. If there is an encoder, one more
// program computes, once per text, the values that decoders attend to. A program without inputs for earlier
// positions begins texts, and the others continue them. Plain data: indices into the plan's lists.
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

// The value of an input in a run of s tokens after `past` others.
enum class PortRole : uint8_t {
  kTokens,      // integers [texts, s]
  kPositions,   // past, past + 1, ...: [s] or [texts, s]
  kMask,        // [texts, context]: 1 up to past + s, then 0; or of every query, below
  kPast,        // past, as one number or one per text
  kTotal,       // past + s
  kLast,        // past + s - 1, the last position of each text
  kSampleRows,  // the index of each text's last token in the run
  kSampling,    // state: temperature, top-k, top-p of each text
  kDraws,       // state: seed and number of draws of each text
  kLastTokens,  // state: the tokens drawn last
  kTextLength,  // state: the length of the text; while a prompt is read, of the whole prompt
  kEncoded,     // the encoder's result
  kSourceMask,  // mask of the encoder's source: 1 for its tokens, then 0
  kLoopRounds,  // of a token loop: the number of rounds wanted
  kLoopStops,   // tokens that end a text, then -1
  kLoopEnded,   // for each text: 1 if it has already ended
};

// A mask may have a row for every query, [1 or texts, ..., s, context]; each row shows the positions up to
// the query's own. A float mask is added to scores: 0 for shown positions, otherwise the least number.
struct DecoderInput {
  PortRole role = PortRole::kTokens;
  uint32_t port = kNone;
};

struct DecoderProgram {
  uint32_t program = kNone;
  int64_t length = 0;
  std::vector<DecoderInput> inputs;  // in plans for several devices, a state occurs several times
  bool reads_drawn = false;          // its tokens are the state kLastTokens
  uint32_t logits = kNone;           // outputs
  bool all_rows = false;             // logits or drawn tokens for each token it reads, not only the last
  uint32_t next = kNone;             // the drawn tokens; in a token loop, those of each round
  bool begins = false;               // reads the first tokens of texts, and no others
};

// Reads all of a text's source at once.
struct EncoderProgram {
  uint32_t program = kNone;               // none: no encoder
  uint32_t tokens = kNone, mask = kNone;  // no tokens: its inputs are given
  uint32_t given_mask = kNone;            // a given mask: decoders that read the source's mask read it too
  uint32_t out = kNone;                   // none: it computes only states
  int64_t length = 0;                     // the most tokens of a source
};

struct DecoderForm {
  std::vector<DecoderProgram> programs;  // longest first; the last has length 1
  int64_t texts = 0, words = 0;
  int64_t context = 0;   // positions in the caches
  bool draws = false;    // with the states kSampling and kDraws
  bool chooses = false;  // by the length of texts (kTextLength): texts of a batch must have one length
  EncoderProgram encoder;
  // Reads the tokens drawn last, and draws up to `rounds` tokens of each text (compile --token-loop). Without
  // such a program, its `program` is kNone.
  DecoderProgram loop;
  int64_t rounds = 0;
  // Tokens after a text's end, and tokens that are read again, have no effect: all states are caches, whose
  // rows are overwritten.
  bool pads = false;
};

struct FormOptions {
  std::map<std::string, PortRole> roles;  // by input name
  std::set<std::string> given;            // inputs that are given otherwise
  std::string logits;                     // an output's name
  std::vector<std::string> programs;      // program names; empty: all
  int64_t context = 0;                    // 0: as in the plan
};

// Parses "tokens", "positions", "mask", "past", "total" or "last", for which a user may name inputs. False
// for other texts.
bool ParseRole(const std::string& text, PortRole* role);

// The port's name without its device: "NAME@2" is NAME on device 2.
std::string_view OnAnyDevice(std::string_view name);

// kUnsupported, with program, port and remedy, for a plan without this form.
Result<DecoderForm> FindDecoderForm(const PlanData& plan, const FormOptions& options);

}  // namespace rondo::tools
