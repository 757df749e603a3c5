// Who made a bundle, by ssh-keygen's signatures (ssh-keygen -Y): a file beside the archive. Flows
// in: an archive, and a key or a list of signers; flows out: the signature, or who signed.
#pragma once

#include <string>

namespace allocmark {

// Writes ARCHIVE.sig and returns its path. Throws EnvironmentError where ssh-keygen is missing or
// does not sign.
std::string sign_bundle(const std::string& archive, const std::string& key);

struct Signature {
  std::string signer{};   // as the list of signers names it; empty: none of them signed these bytes
  std::string problem{};  // what ssh-keygen says then
};
// By ARCHIVE.sig. Throws EnvironmentError where ssh-keygen is missing, FileError where a file is.
[[nodiscard]] Signature find_signer(const std::string& archive, const std::string& signers);

}  // namespace allocmark
