// Observe mode: in which fields calls differ that count as one. What merging them would have hidden
// is told by the names of fields; of values nothing is kept but a keyed hash.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/call_context.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

// "header.x-user-id", "query.page", "path", "body#/note", or "body" where it has no members that
// can be read; and the hash of what it carries, all its values together.
struct CallField {
  std::string name;
  std::uint64_t hash = 0;
  bool operator==(const CallField&) const = default;
};
// By name, each once. At most kObservedFieldsMax.
using CallFields = std::vector<CallField>;

// What the call carries, without its trace and the boundary of multipart, which are new with every
// call. Pure.
CallFields FieldsOfCall(const RequestContext& context, const CallBody& body, const HmacKey& secret);

// The names of the fields that only one of them has, or that are not equal. Pure.
std::vector<std::string> DifferingFields(const CallFields& one, const CallFields& other);

// Calls of one tool that count as one with an earlier one, and differ from it in that field.
struct DifferenceLine {
  std::string tool, field;
  std::uint64_t calls = 0;
};

// Thread-safe, in memory: since the process began, and of repeats of the calls that were sent last.
class CallDifferences {
 public:
  // `fields` are those of the call that became the operation; the first ones stay.
  void Keep(std::uint64_t operation, CallFields fields);
  // A call that counts as one with `operation`.
  void Compare(const std::string& tool, std::uint64_t operation, const CallFields& fields);

  // Most calls first.
  std::vector<DifferenceLine> Read() const;
  // Differences beyond kReportLinesMax lines, which are not counted one by one.
  std::uint64_t other() const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<std::uint64_t, CallFields> kept_;                   // by operation
  std::deque<std::uint64_t> order_;                                      // of kept_, oldest first
  std::size_t bytes_ = 0;                                                // that kept_ takes
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;  // by tool and field
  std::uint64_t other_ = 0;
};

}  // namespace recourse
