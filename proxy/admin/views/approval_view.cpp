#include "proxy/admin/views/approval_view.h"

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "policy/template/template.h"
#include "proxy/admin/views/body_diff.h"
#include "proxy/admin/views/member_kinds.h"
#include "proxy/admin/views/message_view.h"
#include "proxy/exchange/poll_answer.h"

namespace recourse {
namespace {

namespace approval_members {

using member::Body, member::CodedBody, member::Hash, member::Id, member::Named, member::Number,
    member::Objects, member::Raw, member::Text, member::Texts, member::Time;

constexpr std::string_view kNotShown = "(hidden)";

// What is told of an operation that waits, or was decided.
struct Shown {
  const Event& event;
  std::string_view summary;
};
template <auto kGet>
constexpr auto kOf = [](const Shown& of) -> decltype(auto) { return std::invoke(kGet, of.event); };
// Without the key of its row nobody knows.
template <auto kGet>
constexpr auto kAsked = [](const Shown& of) {
  using Value = std::remove_cvref_t<std::invoke_result_t<decltype(kGet), const ApprovalFacts&>>;
  return of.event.approval ? std::optional<Value>(std::invoke(kGet, *of.event.approval))
                           : std::nullopt;
};

// These are there even then.
constexpr JsonMember<Shown> kFacts[] = {
    Id<kOf<&Event::operation>>("operation"),
    Id<kOf<&Event::id>>("event", "Its newest row"),
    Text<[](const Shown& of) { return ApprovalStatus(of.event.phase); }>(
        "status", "",
        R"({"type": "string", "enum": ["waiting", "approved", "running", "unknown", "finished", )"
        R"("not_executed", "rejected", "expired", "compensated"]})"),
    Named<kOf<&Event::phase>>("phase", "Phase"),
    Named<kOf<&Event::cause>>("cause", "Cause"),
    Text<kOf<&Event::detail>>("detail"),
    Text<kOf<&Event::tool>>("tool"),
    Text<kOf<&Event::backend>>("backend"),
    Text<kOf<&Event::method>>("method"),
    Text<kOf<&Event::path>>("path"),
    Text<kOf<&Event::caller>>("caller"),
    Text<kOf<&Event::trace_id>>("trace_id"),
    Text<kOf<&Event::flow>>("flow"),
    Text<kOf<&Event::policy_version>>("policy_version"),
    Text<[](const Shown& of) { return of.summary; }>("summary",
                                                     "What tells it apart; empty once decided"),
    Time<[](const Shown& of) {
      return of.event.approval ? of.event.approval->asked_ms : of.event.wall_ms;
    }>("asked", "Of one that is `sealed`: when its newest row was written"),
};
constexpr JsonMember<Shown> kSealedFacts[] = {
    Text<kAsked<&ApprovalFacts::why>>("why").MayLack(),
    Number<kAsked<&ApprovalFacts::needed>>("needs", "How many approvals it takes").MayLack(),
    Number<kAsked<CountApprovals>>("approvals", "How many it has").MayLack(),
    Texts<kAsked<&ApprovalFacts::by>>("by", "Names and groups that may decide").MayLack(),
    Time<kAsked<[](const ApprovalFacts& of) { return of.asked_ms + of.expires_ms; }>>("expires")
        .MayLack(),
    Hash<kAsked<&ApprovalFacts::digest>>("digest",
                                         "Of the request as it would be sent; an approval names it")
        .MayLack(),
};
constexpr JsonMember<Shown> kLine[] = {
    Raw<[](const Shown& of) {
      return of.event.approval ? std::nullopt : std::optional<std::string_view>("true");
    }>("sealed", R"({"const": true})",
       "This process lacks the key that `detail` names: `path` and `summary` are empty, and what "
       "else only a key opens is left out")
        .MayLack(),
    Number<[](const Shown& of) {
      return of.event.request ? std::optional(of.event.request->body.size()) : std::nullopt;
    }>("body_bytes")
        .MayLack(),
};

constexpr auto kSelf = [](const std::string& body) -> std::string_view { return body; };
constexpr JsonMember<std::string> kWholeBody[] = {
    Number<&std::string::size>("body_bytes"),
    Hash<[](const std::string& body) { return Sha256(body); }>("body_sha256"),
    Body<kSelf>(),
    CodedBody<kSelf>(),
};
constexpr JsonMember<RenderedRequest> kRequest[] = {
    Text<&RenderedRequest::method>("method"),
    Text<[](const RenderedRequest& of) { return ShownTarget(of.target, kNotShown); }>("target"),
    member::Fields<&RenderedRequest::headers, [](const RenderedRequest&) { return kNotShown; }>(),
};
constexpr JsonMember<std::string> kEdited[] = {
    Raw<[](const std::string&) { return "true"; }>("edited", R"({"const": true})"),
};
constexpr JsonMember<BodyChange> kChange[] = {
    Text<&BodyChange::at>("at"),
    Text<&BodyChange::before>("before"),
    Text<&BodyChange::after>("after"),
};
constexpr JsonMember<Event> kEarlier[] = {
    Id<&Event::operation>("operation"),     Time<&Event::wall_ms>("time"),
    Named<&Event::phase>("phase", "Phase"), Text<&Event::tool>("tool"),
    Text<&Event::method>("method"),         Text<&Event::path>("path"),
};

// What else is told of one operation.
struct Whole {
  const Event& event;
  const RenderedRequest* request;
  const std::string* original_body;
  const std::vector<std::string>& credentials;
  const std::vector<Event>& earlier;

  bool is_edited() const { return original_body != nullptr && request != nullptr; }
};
constexpr JsonMember<Whole> kWhole[] = {
    member::Own({"request",
                 R"({"anyOf": [{"$ref": "#/components/schemas/ApprovalRequest"}, )"
                 R"({"type": "null"}]})",
                 "null: it is no longer kept"},
                [](JsonObject& json, std::string_view name, const Whole& of) {
                  if (of.request == nullptr) return json.Raw(name, "null");
                  JsonObject message = json.Object(name);
                  WriteMembers(message, kRequest, *of.request);
                  WriteMembers(message, kWholeBody, of.request->body);
                }),
    member::Own({.name = "original",
                 .schema = "",
                 .text = "The body before an edit",
                 .may_lack = true,
                 .made = [] { return SchemaOf({{}, {}, DocsOf(kEdited, kWholeBody)}); }},
                [](JsonObject& json, std::string_view name, const Whole& of) {
                  if (!of.is_edited()) return;
                  JsonObject original = json.Object(name);
                  WriteMembers(original, kEdited, *of.original_body);
                  WriteMembers(original, kWholeBody, *of.original_body);
                }),
    Objects<[](const Whole& of) {
      return of.is_edited() ? std::optional(ChangesBetween(*of.original_body, of.request->body))
                            : std::nullopt;
    },
            kChange>("changes")
        .MayLack(),
    Texts<[](const Whole& of) -> const auto& { return of.credentials; }>(
        "credentials",
        "Fields that the policy's own values, from mounted files, replace when it is sent"),
    member::Own({"decisions", "ApprovalDecision", "", false, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const Whole& of) {
                  json.Each(name, of.event.approval->decisions, AppendDecision);
                }),
    Objects<[](const Whole& of) -> const auto& { return of.earlier; }, kEarlier>(
        "earlier", "", "What else its caller did lately, without the undos that Recourse sent"),
};

}  // namespace approval_members
}  // namespace

void AppendApprovalLine(std::string& out, const Event& event, std::string_view summary,
                        PodNames& pods) {
  JsonObject json(out);
  const approval_members::Shown shown{event, summary};
  WriteMembers(json, approval_members::kFacts, shown);
  pods.Write(json, event.id);
  WriteMembers(json, approval_members::kSealedFacts, shown);
  WriteMembers(json, approval_members::kLine, shown);
}

std::string ApprovalJson(const Event& event, std::string_view summary,
                         const RenderedRequest* request, const std::string* original_body,
                         const std::vector<std::string>& credentials,
                         const std::vector<Event>& earlier, PodNames& pods) {
  return ObjectText([&](JsonObject& json) {
    const approval_members::Shown shown{event, summary};
    WriteMembers(json, approval_members::kFacts, shown);
    pods.Write(json, event.id);
    WriteMembers(json, approval_members::kSealedFacts, shown);
    WriteMembers(json, approval_members::kWhole,
                 {event, request, original_body, credentials, earlier});
  });
}

std::vector<JsonShape> ApprovalShapes() {
  // What is shown whole was opened.
  std::vector<MemberDoc> whole = DocsOf(approval_members::kSealedFacts);
  for (MemberDoc& member : whole) member.may_lack = false;
  for (const MemberDoc& member : DocsOf(approval_members::kWhole)) whole.push_back(member);
  return {
      {"ApprovalFacts", "", DocsOf(approval_members::kFacts, kPodMembers), "", /*is_base=*/true},
      {"ApprovalLine", "", DocsOf(approval_members::kSealedFacts, approval_members::kLine),
       "ApprovalFacts"},
      {"Approval", "", std::move(whole), "ApprovalFacts"},
      {"ApprovalRequest", "", DocsOf(approval_members::kRequest, approval_members::kWholeBody)},
  };
}

}  // namespace recourse
