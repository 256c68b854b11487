#include "filters/mcp/tool_catalog.h"

#include <algorithm>

#include "policy/effects/declared_digest.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

ToolFacts FactsIn(const Json& tool) {
  ToolFacts facts;
  const Json* const hint = AtPointer(tool, "/annotations/readOnlyHint");
  facts.is_read_only = hint != nullptr && hint->kind == Json::Kind::kTrue;
  const Json* const schema = tool.Find("outputSchema");
  facts.has_output_schema = schema != nullptr && schema->kind == Json::Kind::kObject;
  if (const Json* const input = tool.Find("inputSchema")) facts.params = ParamFieldsOf(*input);
  facts.declared = DeclaredDigest(tool);
  return facts;
}

}  // namespace

std::vector<std::string> ToolCatalog::Learn(std::string_view backend, std::string_view caller,
                                            const Json& answer) {
  std::vector<std::string> changed;
  const Json* const tools = AtPointer(answer, "/result/tools");
  if (tools == nullptr || tools->kind != Json::Kind::kArray) return changed;
  const std::lock_guard lock(mutex_);
  const std::pair key{std::string(backend), std::string(caller)};
  if (!pages_.contains(key) && pages_.size() >= limits::kBooksMax) return changed;
  Page& page = pages_[key];
  for (const Json& tool : tools->items) {
    if (tool.kind != Json::Kind::kObject) continue;
    const Json* const name = tool.Find("name");
    if (name == nullptr || name->kind != Json::Kind::kString) continue;
    // Nobody can call it.
    if (name->text.size() > limits::kCalledNameBytesMax) continue;
    const auto found = page.find(name->text);
    if (found == page.end() && page.size() >= limits::kBookToolsMax) continue;
    ToolFacts facts = FactsIn(tool);
    // Of what is said beside the definition, its effects count.
    Entry entry{Sha256(CanonicalJson(tool, {"/_meta"}) + facts.declared), std::move(facts)};
    if (found != page.end()) {
      const bool is_other = found->second.digest != entry.digest;
      entry.facts.has_changed = found->second.facts.has_changed || is_other;
      if (is_other) changed.push_back(name->text);
    }
    page.insert_or_assign(name->text, entry);
  }
  // Clients ask for one page after the other, so that the last one comes when all have come.
  const bool is_last = AtPointer(answer, "/result/nextCursor") == nullptr;
  if (is_last && page.size() < limits::kBookToolsMax) whole_.emplace(backend);
  return changed;
}

std::optional<ToolFacts> ToolCatalog::Find(std::string_view backend, std::string_view caller,
                                           std::string_view tool) const {
  const std::lock_guard lock(mutex_);
  const auto page = pages_.find({std::string(backend), std::string(caller)});
  if (page == pages_.end()) return std::nullopt;
  const auto found = page->second.find(tool);
  if (found == page->second.end()) return std::nullopt;
  return found->second.facts;
}

bool ToolCatalog::DeclaresOther(std::string_view backend, std::string_view tool,
                                std::string_view declared) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(pages_, [&](const auto& page) {
    if (page.first.first != backend) return false;
    const auto found = page.second.find(tool);
    return found != page.second.end() && found->second.facts.declared != declared;
  });
}

bool ToolCatalog::IsMissing(std::string_view backend, std::string_view tool) const {
  const std::lock_guard lock(mutex_);
  if (!whole_.contains(backend)) return false;
  return std::ranges::none_of(pages_, [&](const auto& page) {
    return page.first.first == backend && page.second.contains(tool);
  });
}

bool ToolCatalog::IsNews(News what, std::string_view backend, std::string_view tool) {
  const std::lock_guard lock(mutex_);
  if (told_.size() >= limits::kBookToolsMax) return false;
  return told_.emplace(what, backend, tool).second;
}

}  // namespace recourse
