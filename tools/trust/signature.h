// Signatures of plans: Ed25519 over a statement of what a plan file and its weights file contain, in a file
// beside the plan.
//
//   rondo signature 1
//   plan HASH                 of the plan file: BLAKE2b of 256 bits, as `b2sum -l 256` prints it
//   weights HASH NAME         of its separate weights file, if it has one, by base name
//   key KEY                   the public key, 64 hexadecimal digits
//   signature SIGNATURE       by that key, of all lines above; 128 hexadecimal digits
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

// All public keys of a PEM file. kNotFound, kIo; kInvalidArgument if it has none of Ed25519.
Result<std::vector<PublicKey>> ReadPublicKeys(const std::string& path);

// Writes a new secret key to `path`, which must not be there yet, readable for its owner alone, and the
// public key to `path`.pub.
Status MakeKeys(const std::string& path);

// "PLAN.sig", where the signature of PLAN is.
std::string SignatureOf(const std::string& plan);

// Signs the file `plan`, and `weights_file` beside it ("": none), with the secret key in `secret_key`, and
// writes SignatureOf(plan).
Status Sign(const std::string& plan, const std::string& weights_file, const std::string& secret_key);

// OK if SignatureOf(plan) was made with one of `keys` and the plan and its weights file are what it says.
// Reads both whole. kFailedPrecondition: unsigned, or signed with another key. kCorrupt: the signature is
// damaged, or other contents were signed.
Status CheckFile(const std::string& plan, Span<const PublicKey> keys);

// The same of a whole plan in memory with its weights inside, and the contents of its signature file.
Status CheckBytes(Span<const uint8_t> plan, std::string_view signature, Span<const PublicKey> keys);

}  // namespace rondo::trust
