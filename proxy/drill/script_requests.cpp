// What the proxy asks of a backend about a scripted call, as it will be seen there.
#include <fmt/format.h>

#include "filters/call/call_values.h"
#include "proxy/drill/script.h"

namespace recourse {

std::string LaterPath(std::size_t number) { return fmt::format("/drill-{}-later", number); }

CallValues ValuesOf(const ScriptedCall& call, const std::string& key) {
  CallValues values;
  values.path = &call.path;
  values.query = &call.query;
  values.headers = &call.request.headers;
  values.body = call.body.kind == Json::Kind::kNull ? nullptr : &call.body;
  values.key = key;
  values.external_ref = call.reference;
  values.answer_status = call.answer.status;
  values.answer_headers = &call.answer.headers;
  values.answer_body = &call.answer_body;
  if (call.states) values.before = &call.states->before;
  return values;
}

std::optional<RenderedRequest> UndoOf(const ScriptedCall& call, const std::string& key) {
  if (call.undo == nullptr) return std::nullopt;
  auto rendered = Render(call.undo->request, ValuesOf(call, key));
  return rendered ? std::optional(std::move(*rendered)) : std::nullopt;
}

std::optional<RenderedRequest> LaterQuestionOf(const ScriptedCall& call, const std::string& key) {
  if (!call.tool->settled_by) return std::nullopt;
  auto rendered = Render(call.tool->settled_by->request, ValuesOf(call, key));
  if (!rendered) return std::nullopt;
  if (call.tool->settled_by->at) rendered->target = LaterPath(call.number);
  return std::move(*rendered);
}

std::optional<RenderedRequest> LaterQuestionOfUndo(const ScriptedCall& call,
                                                   const std::string& key) {
  const auto undo = UndoOf(call, key);
  if (!undo || !call.undo->settled_by) return std::nullopt;
  auto rendered = Render(call.undo->settled_by->request, ValuesOf(call, key));
  if (!rendered) return std::nullopt;
  if (call.undo->settled_by->at_its_path) {
    rendered->target = undo->target.substr(0, undo->target.find('?'));
  }
  return std::move(*rendered);
}

std::optional<RenderedRequest> ProbeOf(const ScriptedCall& call, const std::string& key) {
  if (!call.tool->settle) return std::nullopt;
  auto rendered = Render(call.tool->settle->request, ValuesOf(call, key));
  return rendered ? std::optional(std::move(*rendered)) : std::nullopt;
}

}  // namespace recourse
