// What MCP servers have said about their tools, learned from answers to tools/list as they pass.
// A definition that has changed is believed no more.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "filters/mcp/param_fields.h"
#include "filters/message.h"
#include "policy/model/policy.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json.h"

namespace recourse {

struct ToolFacts {
  bool is_read_only = false;  // `readOnlyHint`; to be believed of trusted servers alone
  bool has_output_schema = false;
  bool has_changed = false;          // it was defined otherwise before
  std::vector<ParamField> params{};  // what a call repeats in fields
  std::string declared{};            // the digest of what it declares of its effects, or empty
};

// One per process, in memory. Bounded; what does not fit is not known, which is the strict reading.
// Thread-safe.
class ToolCatalog {
 public:
  // `answer`: a response to tools/list, one page of it, that `caller` gets of `backend`, by
  // whatever tells its server from others. Gives the names of the tools whose definition is another
  // one than before.
  std::vector<std::string> Learn(std::string_view backend, std::string_view caller,
                                 const Json& answer);
  // nullopt: it was never listed to that caller.
  std::optional<ToolFacts> Find(std::string_view backend, std::string_view caller,
                                std::string_view tool) const;
  // Whether that server listed the tool to anybody with other effects than those of this digest.
  bool DeclaresOther(std::string_view backend, std::string_view tool,
                     std::string_view declared) const;
  // Somebody has seen the end of that backend's list, and the tool was listed to nobody.
  bool IsMissing(std::string_view backend, std::string_view tool) const;
  // True once for each tool and what is told of it.
  enum class News : std::uint8_t { kMissing, kRedeclared };
  bool IsNews(News what, std::string_view backend, std::string_view tool);

 private:
  struct Entry {
    Digest digest{};
    ToolFacts facts;
  };
  using Page = std::map<std::string, Entry, std::less<>>;

  mutable std::mutex mutex_;
  // Guarded by mutex_. Of `whole_` the backends.
  std::map<std::pair<std::string, std::string>, Page> pages_;
  std::set<std::string, std::less<>> whole_;
  std::set<std::tuple<News, std::string, std::string>> told_;
};

}  // namespace recourse
