// Signatures of plans. A file beside the plan states the hashes of the plan file and its weights file, and
// holds an Ed25519 signature of that statement.
//
//   rondo signature 1
//   plan HASH                 of the plan file: BLAKE2b with 256 bits, as `b2sum -l 256` prints it
//   weights HASH NAME         of its separate weights file, if it has one; NAME is its base name
//   key KEY                   the public key, 64 hexadecimal digits
//   signature SIGNATURE       of all lines above by that key; 128 hexadecimal digits
//
// Keys are PEM files as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them. Any
// thread may call anything here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/span.h"
#include "core/status.h"

namespace rondo::trust {

using PublicKey = std::array<uint8_t, 32>;

// All public keys of a PEM file. Errors: kNotFound, kIo; kInvalidArgument if it has no Ed25519 key.
Result<std::vector<PublicKey>> ReadPublicKeys(const std::string& path);

// Writes a new secret key to `path`, readable by its owner alone, and the public key to `path`.pub. `path`
// must not exist yet.
Status MakeKeys(const std::string& path);

// The path of a plan's signature: "PLAN.sig".
std::string SignatureOf(const std::string& plan);

// Signs the file `plan`, and `weights_file` beside it ("": none), with the secret key in `secret_key`, and
// writes SignatureOf(plan).
Status Sign(const std::string& plan, const std::string& weights_file, const std::string& secret_key);

// OK if SignatureOf(plan) was made with one of `keys`, and the plan and its weights file have the contents
// that it states. Reads both whole. kFailedPrecondition: unsigned, or signed with another key. kCorrupt: the
// signature is damaged, or other contents were signed.
Status CheckFile(const std::string& plan, Span<const PublicKey> keys);

// The same for a whole plan in memory with its weights inside, and the contents of its signature file.
Status CheckBytes(Span<const uint8_t> plan, std::string_view signature, Span<const PublicKey> keys);

}  // namespace rondo::trust
