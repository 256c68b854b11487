#include "filters/observe/call_differences.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "proxy/base/crypto/sha256.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kFieldVersion = "recourse-field-1";
constexpr std::string_view kOtherFields = "(others)";

// The report tells of traces by itself.
bool IsOfTheTrace(std::string_view lower_name) {
  return lower_name == "traceparent" || lower_name == "tracestate";
}

std::string PointerIn(std::string_view member) { return "body#/" + PointerToken(member); }

// Values by field, in the order in which they came.
class Gatherer {
 public:
  void Add(std::string name, std::string_view value) {
    if (name.size() > limits::kObservedNameBytesMax) name.resize(limits::kObservedNameBytesMax);
    const bool is_full = values_.size() + 1 >= limits::kObservedFieldsMax;
    if (is_full && !values_.contains(name)) name = kOtherFields;
    AppendPart(values_[std::move(name)], value);
  }
  CallFields Hashed(const HmacKey& secret) const {
    CallFields fields;
    fields.reserve(values_.size());
    for (const auto& [name, text] : values_) {
      const Digest digest = secret.OfParts({kFieldVersion, name, text});
      std::uint64_t hash = 0;
      std::memcpy(&hash, digest.data(), sizeof hash);
      fields.push_back({name, hash});
    }
    return fields;
  }

 private:
  std::map<std::string, std::string> values_;
};

void AddBody(const HttpRequest& request, const CallBody& body, Gatherer& fields) {
  if (body.form == BodyForm::kForm) {
    for (const auto& [name, value] : body.pairs) fields.Add(PointerIn(name), value);
  } else if (body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject &&
             request.body.size() < limits::kLargeBodyBytes) {
    for (const auto& [name, value] : body.json.members) {
      fields.Add(PointerIn(name), CanonicalJson(value));
    }
  } else if (body.form == BodyForm::kMultipart) {
    for (const BodyPart& part : body.parts) {
      fields.Add(part.names.empty() ? "body" : PointerIn(part.names.front()), part.content);
    }
  } else if (body.form != BodyForm::kNone) {
    fields.Add("body", request.body);
  }
}

std::size_t BytesOf(const CallFields& fields) {
  std::size_t bytes = sizeof(CallFields) + fields.capacity() * sizeof(CallField);
  for (const CallField& field : fields) {
    if (field.name.capacity() > std::string().capacity()) bytes += field.name.capacity();
  }
  return bytes;
}

}  // namespace

CallFields FieldsOfCall(const RequestContext& context, const CallBody& body,
                        const HmacKey& secret) {
  Gatherer fields;
  fields.Add("path", context.path);
  for (const auto& [name, value] : context.query) fields.Add("query." + name, value);
  for (const auto& [name, value] : context.request.headers) {
    const std::string lower = ToLower(name);
    const bool has_boundary = body.form == BodyForm::kMultipart && lower == "content-type";
    if (!IsOfTheTrace(lower) && !has_boundary) fields.Add("header." + lower, value);
  }
  AddBody(context.request, body, fields);
  return fields.Hashed(secret);
}

std::vector<std::string> DifferingFields(const CallFields& one, const CallFields& other) {
  std::vector<CallField> differing;
  std::ranges::set_symmetric_difference(
      one, other, std::back_inserter(differing), [](const CallField& a, const CallField& b) {
        return std::tie(a.name, a.hash) < std::tie(b.name, b.hash);
      });
  std::vector<std::string> names;
  for (CallField& field : differing) {
    if (names.empty() || names.back() != field.name) names.push_back(std::move(field.name));
  }
  return names;
}

void CallDifferences::Keep(std::uint64_t operation, CallFields fields) {
  const std::size_t bytes = BytesOf(fields);
  const std::lock_guard lock(mutex_);
  if (!kept_.try_emplace(operation, std::move(fields)).second) return;
  order_.push_back(operation);
  bytes_ += bytes;
  while (bytes_ > limits::kObservedFieldsBytesMax) {
    const auto oldest = kept_.find(order_.front());
    bytes_ -= BytesOf(oldest->second);
    kept_.erase(oldest);
    order_.pop_front();
  }
}

void CallDifferences::Compare(const std::string& tool, std::uint64_t operation,
                              const CallFields& fields) {
  const std::lock_guard lock(mutex_);
  const auto first = kept_.find(operation);
  if (first == kept_.end()) return;
  for (std::string& name : DifferingFields(first->second, fields)) {
    const auto line = std::pair(tool, std::move(name));
    if (counts_.size() >= limits::kReportLinesMax && !counts_.contains(line)) {
      ++other_;
    } else {
      ++counts_[line];
    }
  }
}

std::vector<DifferenceLine> CallDifferences::Read() const {
  std::vector<DifferenceLine> lines;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [line, calls] : counts_) lines.push_back({line.first, line.second, calls});
  }
  std::ranges::sort(lines, [](const DifferenceLine& a, const DifferenceLine& b) {
    return std::tie(b.calls, a.tool, a.field) < std::tie(a.calls, b.tool, b.field);
  });
  return lines;
}

std::uint64_t CallDifferences::other() const {
  const std::lock_guard lock(mutex_);
  return other_;
}

}  // namespace recourse
