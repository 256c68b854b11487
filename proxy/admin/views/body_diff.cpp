#include "proxy/admin/views/body_diff.h"

#include <algorithm>

#include "proxy/base/json/json.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Numbers as people write them.
std::string Shown(const Json* value) {
  if (value == nullptr) return {};
  return value->kind == Json::Kind::kNumber ? ScalarText(*value) : CanonicalJson(*value);
}

void Compare(const Json* before, const Json* after, const std::string& at,
             std::vector<BodyChange>& changes) {
  if (changes.size() >= limits::kBodyChangesMax) return;
  const bool are_objects = before != nullptr && after != nullptr &&
                           before->kind == Json::Kind::kObject &&
                           after->kind == Json::Kind::kObject;
  const bool are_arrays = before != nullptr && after != nullptr &&
                          before->kind == Json::Kind::kArray && after->kind == Json::Kind::kArray;
  if (are_objects) {
    for (const auto& [name, value] : before->members) {
      Compare(&value, after->Find(name), at + "/" + PointerToken(name), changes);
    }
    for (const auto& [name, value] : after->members) {
      if (before->Find(name) == nullptr) {
        Compare(nullptr, &value, at + "/" + PointerToken(name), changes);
      }
    }
    return;
  }
  if (are_arrays) {
    const std::size_t size = std::max(before->items.size(), after->items.size());
    for (std::size_t i = 0; i < size; ++i) {
      Compare(i < before->items.size() ? &before->items[i] : nullptr,
              i < after->items.size() ? &after->items[i] : nullptr, at + "/" + std::to_string(i),
              changes);
    }
    return;
  }
  std::string was = Shown(before);
  std::string is = Shown(after);
  if (was != is) changes.push_back({at, std::move(was), std::move(is)});
}

}  // namespace

std::vector<BodyChange> ChangesBetween(std::string_view before, std::string_view after) {
  std::vector<BodyChange> changes;
  const auto was = ParseJson(before);
  const auto is = ParseJson(after);
  if (was && is) Compare(&*was, &*is, "", changes);
  return changes;
}

}  // namespace recourse
