#include "filters/codec.h"

#include <utility>

#include "proxy/base/json/json_object.h"

namespace recourse {

Result<CallBody> Codec::Read(const Backend&, const HttpRequest&) const {
  return Malformed("the backend has no endpoint that takes messages");
}

std::string Codec::ObjectionToEdit(const Policy&, const Backend&, std::string_view,
                                   const HttpRequest&, const std::string&) const {
  return {};
}

std::optional<Verdict> Codec::Judge(const Tool&, const Answer&, const CallValues&) const {
  return std::nullopt;
}

std::optional<Json> Codec::Output(std::string_view) const { return std::nullopt; }

std::string_view Codec::Spelled(const Tool&, std::string_view) const { return {}; }

bool Codec::Redact(std::string&, const std::vector<Selector>&, std::string_view,
                   std::string&) const {
  return false;
}

std::string Codec::FailureText(std::string_view) const { return {}; }

std::string Codec::LostAnswer(std::string_view external_ref, std::string_view settled_by) const {
  return ObjectText([&](JsonObject& json) {
    json.Text("outcome", "executed");
    json.TextIfAny("external_ref", external_ref);
    json.Text("settled_by", settled_by);
  });
}

void Codec::KeepSession(const Headers&, Headers&) const {}

bool Codec::AsksAboutTask(const RenderedRequest& /*asked*/) const { return false; }

std::optional<RenderedRequest> Codec::AskAboutTask(std::string_view, Headers) const {
  return std::nullopt;
}

std::string Codec::NameOfTask(std::string_view, std::string_view, const RenderedRequest&) const {
  return {};
}

TaskPace Codec::PaceOfTask(std::string_view) const { return {}; }

TaskReport Codec::ReadTask(std::string_view, std::string_view) const { return {}; }

std::optional<FinalMessage> Codec::ReadFinal(std::string_view) const { return std::nullopt; }

std::string Codec::WithTask(std::string_view final_message, std::string_view) const {
  return std::string(final_message);
}

std::unique_ptr<UpstreamConnection> Codec::Over(const CodecParts&, const Backend&,
                                                std::shared_ptr<const Backend>,
                                                std::unique_ptr<UpstreamConnection> plain) const {
  return plain;
}

Result<Answer> Codec::ReadRecorded(Answer recorded, const HttpRequest&) const { return recorded; }

}  // namespace recourse
