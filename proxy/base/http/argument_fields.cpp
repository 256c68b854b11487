#include "proxy/base/http/argument_fields.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "proxy/base/http/dry_run_names.h"
#include "proxy/base/latest_texts.h"

namespace recourse {
namespace {

// Of WebDAV, AtomPub, SOAP, PostgREST, CloudEvents, Dropbox, AWS, Azure, Swift, Supabase.
constexpr std::string_view kArgumentFields[] = {"content-disposition",
                                                "content-profile",
                                                "content-range",
                                                "ce-source",
                                                "ce-subject",
                                                "ce-type",
                                                "depth",
                                                "destination",
                                                "dropbox-api-arg",
                                                "overwrite",
                                                "slug",
                                                "soapaction",
                                                "x-amz-client-context",
                                                "x-amz-invocation-type",
                                                "x-amz-target",
                                                "x-amz-tagging",
                                                "x-copy-from",
                                                "x-delete-after",
                                                "x-delete-at",
                                                "x-ms-page-write",
                                                "x-ms-range",
                                                "x-update-range",
                                                "x-upsert"};
// tus, Google, Azure, Swift.
constexpr std::string_view kBeginnings[] = {"upload-",     "x-goog-upload-",   "x-upload-content-",
                                            "x-ms-blob-",  "x-ms-documentdb-", "x-object-",
                                            "x-container-"};
// Stores of objects; Tencent and Alibaba Cloud, Next.js; Backblaze.
constexpr std::string_view kEndings[] = {
    "-copy-source", "-copy-source-range", "-rename-source", "-source-range",
    "-acl",         "-access-tier",       "-storage-class", "-action",
    "-file-name",   "-filename",          "-part-number"};
// What a store keeps beside an object, and for whom.
constexpr std::string_view kMiddles[] = {"-meta-", "-bz-info-", "-grant-"};
// Preferences that are about more than the answer.
constexpr std::string_view kPreferences[] = {"tx=", "resolution=", "missing=", kDryRunPreference};

// Without parameters.
std::string_view MediaOf(std::string_view content_type) {
  return TrimBlanks(content_type.substr(0, content_type.find(';')));
}

// One text is another change as a JSON, merge or strategic merge patch.
bool IsPatchType(std::string_view media) {
  static constexpr std::string_view kPatch = "-patch+json";
  return media.size() >= kPatch.size() &&
         EqualsIgnoreCase(media.substr(media.size() - kPatch.size()), kPatch);
}

void AddPreferences(std::string_view value, Headers& found) {
  while (!value.empty()) {
    const auto end = std::min(value.find_first_of(",;"), value.size());
    std::string preference = ToLower(TrimBlanks(value.substr(0, end)));
    const auto begins = [&](std::string_view part) { return preference.starts_with(part); };
    if (std::ranges::any_of(kPreferences, begins)) {
      found.emplace_back("prefer", std::move(preference));
    }
    value.remove_prefix(std::min(end + 1, value.size()));
  }
}

bool IsArgumentName(std::string_view name) {
  const std::string lower = ToLower(name);
  const auto begins = [&](std::string_view part) { return lower.starts_with(part); };
  const auto ends = [&](std::string_view part) { return lower.ends_with(part); };
  const auto has = [&](std::string_view part) { return lower.contains(part); };
  return std::ranges::find(kArgumentFields, lower) != std::end(kArgumentFields) ||
         std::ranges::any_of(kBeginnings, begins) || std::ranges::any_of(kEndings, ends) ||
         std::ranges::any_of(kMiddles, has) || NamesDryRun(lower);
}

// If-Match, If, X-Goog-If-Generation-Match.
bool IsPreconditionName(std::string_view name) {
  const std::string lower = ToLower(name);
  return lower == "if" || lower.starts_with("if-") || lower.contains("-if-");
}

bool IsPreconditionField(std::string_view name) {
  constexpr std::size_t kNameBytes = 61, kKept = 128;
  return LatestOf<IsPreconditionName, kNameBytes, kKept>(name);
}

// A process meets few names.
bool IsArgumentField(std::string_view name) {
  constexpr std::size_t kNameBytes = 61, kKept = 128;
  return LatestOf<IsArgumentName, kNameBytes, kKept>(name);
}

}  // namespace

Headers ArgumentFieldsOf(const Headers& headers) {
  Headers found;
  for (const auto& [name, value] : headers) {
    if (IsArgumentField(name)) {
      found.emplace_back(ToLower(name), value);
    } else if (EqualsIgnoreCase(name, "Prefer")) {
      AddPreferences(value, found);
    } else if (EqualsIgnoreCase(name, "Content-Type")) {
      const std::string_view media = MediaOf(value);
      if (IsPatchType(media)) found.emplace_back("content-type", ToLower(media));
    }
  }
  std::ranges::sort(found);
  return found;
}

Headers PreconditionsOf(const Headers& headers) {
  Headers found;
  for (const auto& [name, value] : headers) {
    if (IsPreconditionField(name)) found.emplace_back(ToLower(name), value);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace recourse
