// What operators ask of the process as a whole: how it is, that it drains, how much it logs.
#pragma once

#include <functional>
#include <string>

#include "filters/call/flow_counts.h"
#include "filters/ledger/ledger.h"
#include "proxy/admin/access/access_control.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/clock.h"
#include "proxy/base/http/http_message.h"
#include "proxy/reload/policy_reload.h"

namespace recourse {

class ToolCatalog;  // filters/mcp/tool_catalog.h

// GET /status, POST /drain, GET and PUT /log-level. On the admin thread; blocks no longer than
// Parts::note.
class ProcessApi {
 public:
  // What the threads work on.
  struct Work {
    bool is_ready = false;        // started, and not draining
    bool is_draining = false;     // takes no new connections, until it ends
    std::size_t connections = 0;  // of agents
    std::size_t writes = 0;       // being worked on, or written down in observe mode
    std::size_t approved = 0;     // calls that are being sent after a human's yes
    FlowCounts flow_counts{};
    UnknownCallers unknown_callers{};
    std::size_t settling = 0;  // unknown outcomes; read last, as the others end by adding to it
    const ToolCatalog* mcp_tools = nullptr;  // what MCP servers have listed
    std::uint16_t agents_port = 0;
  };
  struct Parts {
    Ledger& ledger;
    const Clock& clock;
    const PolicyReloader& reloader;
    std::function<Work()> work;
    std::function<void()> drain;  // again: does nothing. Only of a process that is_ready
    // Remembers who ordered what; called before it is done.
    std::function<void(const Operator& who, std::string what)> note;
  };
  explicit ProcessApi(Parts parts)
      : parts_(std::move(parts)), started_(parts_.clock.WallNow()), began_(parts_.clock.Now()) {}

  // Whether Handle is for the endpoint of that path.
  static bool Has(std::string_view path) {
    return path == admin_paths::kStatus || path == admin_paths::kDrain ||
           path == admin_paths::kLogLevel;
  }
  HttpResponse Handle(const AccessControl::Visit& visit, const HttpRequest& request);

 private:
  HttpResponse Status() const;
  HttpResponse Drain(const Operator& who);
  HttpResponse ChangeLevel(const std::string& body, const Operator& who);

  const Parts parts_;
  const WallTime started_;
  const MonoTime began_;
};

}  // namespace recourse
