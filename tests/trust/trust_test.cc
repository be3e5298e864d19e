// Signed plans are accepted; all others are refused with a sentence.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tools/trust/rondo_trust.h"

namespace rondo {
namespace {

// The keys of RFC 8410, section 10.
constexpr const char* kSecret =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END "
    "PRIVATE KEY-----\n";
constexpr const char* kPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END "
    "PUBLIC KEY-----\n";

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

class Trust : public testing::Test {
 protected:
  void SetUp() override {
    Write(folder_.File("secret.pem"), kSecret);
    Write(folder_.File("public.pem"), kPublic);
    const std::string model = SourceFolder() + "/tests/data/plans/models/mixed.onnx --shape batch=2";
    Expect(0, "compile " + model + " -o one.rondo");
    Expect(0, "compile " + model + " -o two.rondo --weights-file two.bin");
  }

  // Runs a command in the folder and expects this exit status.
  std::string Expect(int status, const std::string& arguments) {
    const Outcome outcome = Shell("cd " + folder_.string() + " && " + RONDO_COMMAND + " " + arguments);
    EXPECT_EQ(outcome.status, status) << arguments << ": " << outcome.text;
    return outcome.text;
  }

  void ExpectRefused(const std::string& arguments, const std::string& words) {
    const std::string said = Expect(1, arguments);
    EXPECT_NE(said.find(words), said.npos) << arguments << " said: " << said;
  }

  TemporaryFolder folder_;
};

TEST_F(Trust, SignedPlansAreTakenByEveryCommand) {
  for (const std::string plan : {"one.rondo", "two.rondo"}) {
    Expect(0, "sign " + plan + " --key secret.pem");
    EXPECT_NE(Expect(0, "check " + plan + " --key public.pem").find("signed with a trusted key"),
              std::string::npos);
    for (const std::string& command : {"run --verify " + plan, "bench --runs 1 " + plan})
      Expect(0, command + " --key public.pem");
  }
}

TEST_F(Trust, NewKeysSignAndTheSecretOneIsItsOwnersAlone) {
  Expect(0, "sign --new-key mine");
  struct stat info;
  ASSERT_EQ(stat(folder_.File("mine").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Expect(0, "sign one.rondo --key mine");
  Expect(0, "check one.rondo --key public.pem --key mine.pub");  // one of several is enough
  ExpectRefused("check one.rondo --key public.pem", "none of the 1 that are trusted");
  ExpectRefused("sign --new-key mine", "cannot be made: File exists");
  ExpectRefused("check one.rondo --key mine", "has no public key of Ed25519");
  ExpectRefused("sign one.rondo --key mine.pub", "has no secret key of Ed25519");
  Expect(2, "sign one.rondo");
}

TEST_F(Trust, EverythingElseIsRefused) {
  ExpectRefused("run one.rondo --key public.pem", "it is not signed: there is no one.rondo.sig");
  for (const std::string plan : {"one", "two"}) Expect(0, "sign " + plan + ".rondo --key secret.pem");
  const std::string sound = Contents(folder_.File("two.rondo.sig"));
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = sound;
    return text.replace(text.find(what), by.size(), by);
  };
  // Changed contents of a file, and words of the expected error.
  struct Change {
    std::string file, contents, words;
  };
  std::string plan = Contents(folder_.File("two.rondo")), weights = Contents(folder_.File("two.bin"));
  plan[plan.size() / 2] ^= 1;
  weights.back() ^= 1;
  const std::vector<Change> changes = {
      {"two.rondo", plan, "two.rondo: its contents are not those that were signed"},
      {"two.rondo", plan + "x", "two.rondo: its contents are not those that were signed"},
      {"two.bin", weights, "two.bin: its contents are not those that were signed"},
      {"two.rondo.sig", Contents(folder_.File("one.rondo.sig")),
       "two.rondo: its contents are not those that were signed"},
      {"two.rondo.sig", replaced("two.bin", "one.bin"), "the signature is not one by key"},
      {"two.rondo.sig", replaced("plan ", "plan 0000"), "the signature is not one by key"},
      {"two.rondo.sig", replaced("key ", "key 0000"), "none of the 1 that are trusted"},
      {"two.rondo.sig", replaced("signature 1", "signature 2"), "not a signature as `rondo sign` writes it"},
      {"two.rondo.sig", sound + "\n", "not a signature as `rondo sign` writes it"},
      {"two.rondo.sig", sound.substr(0, sound.size() - 2), "not a signature as `rondo sign` writes it"},
      {"two.rondo.sig", "", "not a signature as `rondo sign` writes it"},
  };
  for (const Change& change : changes) {
    const std::string path = folder_.File(change.file), before = Contents(path);
    Write(path, change.contents);
    ExpectRefused("run two.rondo --ignore-hashes --key public.pem", change.words);
    Write(path, before);
  }
  Expect(0, "run --verify two.rondo --key public.pem");
}

TEST_F(Trust, ProgramsCheckFilesAndBytesBeforeTheyOpenThem) {
  for (const std::string plan : {"one", "two"}) Expect(0, "sign " + plan + ".rondo --key secret.pem");
  rondo_trust_keys* keys = nullptr;
  ASSERT_EQ(rondo_trust_read_keys(folder_.File("public.pem").c_str(), &keys), nullptr);
  const auto says = [](char* sentence) {
    const std::string text = sentence == nullptr ? "" : sentence;
    rondo_trust_free(sentence);
    return text;
  };
  EXPECT_EQ(says(rondo_trust_check_file(keys, folder_.File("two.rondo").c_str())), "");
  const auto bytes = [&](const std::string& plan, const std::string& signature) {
    return says(rondo_trust_check_bytes(keys, plan.data(), plan.size(), signature.data(), signature.size()));
  };
  std::string plan = Contents(folder_.File("one.rondo"));
  const std::string signature = Contents(folder_.File("one.rondo.sig"));
  EXPECT_EQ(bytes(plan, signature), "");
  plan[0] ^= 1;
  EXPECT_NE(bytes(plan, signature).find("its contents are not those that were signed"), std::string::npos);
  EXPECT_NE(bytes(Contents(folder_.File("two.rondo")), Contents(folder_.File("two.rondo.sig")))
                .find("weights are in a file, \"two.bin\""),
            std::string::npos);
  rondo_trust_destroy_keys(keys);
  EXPECT_NE(says(rondo_trust_read_keys(folder_.File("none.pem").c_str(), &keys)), "");
  EXPECT_EQ(keys, nullptr);
}

}  // namespace
}  // namespace rondo
