// First bytes are told apart in one way, whatever the pieces they come in and whatever follows.
#include <string>

#include "proxy/base/limits.h"
#include "proxy/net/message/protocol_detection.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

bool IsSame(const ProtocolDetection& a, const ProtocolDetection& b) {
  return a.is_complete == b.is_complete && a.opening == b.opening &&
         a.server_name == b.server_name && a.problem == b.problem;
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  const ProtocolDetection whole = ReadFirstBytes(bytes);
  if (!whole.is_complete) RC_CHECK(bytes.size() < limits::kOpeningBytesMax);
  const bool has_problem =
      whole.opening == ClientOpening::kOther || whole.opening == ClientOpening::kBadTls;
  if (whole.is_complete) RC_CHECK(whole.problem.empty() != has_problem);
  if (whole.opening != ClientOpening::kTls) RC_CHECK(whole.server_name.empty());
  for (const char c : whole.server_name) {
    RC_CHECK((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_');
  }
  bool was_complete = false;
  for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 16) {
    const ProtocolDetection part = ReadFirstBytes(ExactBytes(bytes.substr(0, cut)).view());
    RC_CHECK(part.is_complete || !was_complete);
    was_complete = part.is_complete;
    if (part.is_complete) RC_CHECK(IsSame(part, whole));
  }
  if (whole.is_complete) RC_CHECK(IsSame(ReadFirstBytes(std::string(bytes) + "\x16GET"), whole));
}

}  // namespace recourse
