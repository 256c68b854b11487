// The description of the admin API and the code that it describes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "proxy/admin/access/endpoints.h"
#include "proxy/admin/ui/ui_files.h"
#include "proxy/base/json/json.h"

namespace recourse::openapi_test {
namespace {

Json Document() {
  for (const UiFile& file : EmbeddedUiFiles()) {
    if (file.name != "openapi.json") continue;
    const auto json = ParseJson(file.bytes);
    return json ? *json : Json();
  }
  return {};
}

const Json& At(const Json& root, const std::string& pointer) {
  static const Json kNone;
  const Json* const found = AtPointer(root, pointer);
  EXPECT_NE(found, nullptr) << pointer;
  return found == nullptr ? kNone : *found;
}

// "/flows/{id}/undo" as the table writes it: "/flows/*/undo".
std::string Pattern(std::string path) {
  for (auto begin = path.find('{'); begin != std::string::npos; begin = path.find('{')) {
    path.replace(begin, path.find('}') - begin + 1, "*");
  }
  return path;
}

// What the document says of one operation: the roles that each way of proving oneself needs.
std::string RoleOf(const Json& operation) {
  const Json& ways = At(operation, "/security");
  if (ways.items.empty()) return "nobody";
  std::set<std::string> roles;
  for (const Json& way : ways.items) {
    for (const auto& [name, needed] : way.members) {
      roles.insert(needed.items.empty() ? "any operator" : ScalarText(needed.items.front()));
    }
  }
  return roles.size() == 1 ? *roles.begin() : "several";
}

std::vector<std::string> Enum(const Json& document, const std::string& schema) {
  std::vector<std::string> names;
  for (const Json& name : At(document, "/components/schemas/" + schema + "/enum").items) {
    names.push_back(name.text);
  }
  return names;
}

// The names of the values from `first` to `last`.
template <class Value>
std::vector<std::string> Names(Value first, Value last) {
  std::vector<std::string> names;
  for (int value = static_cast<int>(first); value <= static_cast<int>(last); ++value) {
    names.emplace_back(NameOf(static_cast<Value>(value)));
  }
  return names;
}

TEST(OpenApiTest, DescribesEveryEndpointWithItsRoleAndNoOther) {
  std::set<std::string> described, known;
  const Json document = Document();
  for (const auto& [path, methods] : At(document, "/paths").members) {
    for (const auto& [method, operation] : methods.members) {
      if (method == "parameters") continue;
      std::string name = method + " " + Pattern(path) + " " + RoleOf(operation);
      std::transform(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(method.size()),
                     name.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
      described.insert(name);
    }
  }
  for (const Endpoint& endpoint : Endpoints()) {
    known.insert(std::string(endpoint.method) + " " + std::string(endpoint.path) + " " +
                 std::string(NameOf(endpoint.need)));
  }
  EXPECT_EQ(described, known);
}

TEST(OpenApiTest, SaysTheVersionThatTheBinarySays) {
  EXPECT_EQ(At(Document(), "/info/version").text, RECOURSE_VERSION);
}

TEST(OpenApiTest, ListsTheWordsThatTheCodeUses) {
  const Json document = Document();
  EXPECT_EQ(Enum(document, "Phase"), Names(Phase::kClaimed, Phase::kTombstone));
  EXPECT_EQ(Enum(document, "Status"), Names(Status::kPending, Status::kCompensated));
  EXPECT_EQ(Enum(document, "Cause"), Names(Cause::kNone, kLastCause));
  EXPECT_EQ(Enum(document, "Verdict"),
            Names(ObserveVerdict::kNone, static_cast<ObserveVerdict>(kObserveVerdictCount - 1)));
  EXPECT_EQ(Enum(document, "FlowPhase"), Names(FlowPhase::kOpen, FlowPhase::kNeedsHuman));
  EXPECT_EQ(Enum(document, "FlowCause"),
            Names(FlowCause::kNone, static_cast<FlowCause>(kFlowCauseCount - 1)));
  EXPECT_EQ(Enum(document, "Role"), Names(Role::kRead, Role::kSettle));
}

}  // namespace
}  // namespace recourse::openapi_test
