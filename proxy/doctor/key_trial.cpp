#include "proxy/doctor/key_trial.h"

#include <fmt/format.h>

#include <expected>
#include <memory>
#include <sstream>
#include <utility>

#include "policy/model/route_table.h"
#include "policy/template/request_place.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"
#include "proxy/base/random.h"
#include "proxy/config/files.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr int kTrialPatienceSeconds = 30;

bool IsMade(const KeyFacts::Answer& answer) { return answer.status >= 200 && answer.status < 300; }

std::string SaidBy(const KeyFacts::Answer& answer) {
  return answer.failure.empty() ? std::to_string(answer.status) : answer.failure;
}

// A call to be made, and where its key goes.
struct TriedCall {
  const Backend* backend = nullptr;
  const KeyRule* key = nullptr;
  HttpRequest request;
};

std::expected<TriedCall, std::string> ReadTrial(const Policy& policy, const KeyTrial& trial) {
  TriedCall made;
  std::istringstream words(trial.call);
  std::string backend;
  words >> made.request.method >> backend >> made.request.target;
  for (const Backend& one : policy.backends) {
    if (one.name == backend) made.backend = &one;
  }
  if (made.backend == nullptr || !made.request.target.starts_with('/')) {
    return std::unexpected("--try-key is METHOD BACKEND /path, of a backend of the policy");
  }
  std::string scratch;
  const std::string path = made.request.target.substr(0, made.request.target.find('?'));
  const auto match = policy.routes->Match(*made.backend, made.request.method, path, scratch);
  if (!match) return std::unexpected(std::string(match.error().detail()));
  made.key = match->tool != nullptr ? &KeyRuleOf(*match->tool, *made.backend) : &made.backend->key;
  if (!made.key->at.exists()) {
    return std::unexpected("the policy gives no key to that call: see `key_header`");
  }
  if (made.key->at.where == RequestPlace::Where::kDirective) {
    return std::unexpected("a key within a GraphQL document is not tried");
  }
  made.request.target.insert(0, made.backend->base_path);
  for (const std::string& field : trial.headers) {
    const auto colon = field.find(':');
    if (colon == std::string::npos) return std::unexpected("--try-header is 'Name: value'");
    const auto value = field.find_first_not_of(' ', colon + 1);
    made.request.headers.emplace_back(
        field.substr(0, colon), value == std::string::npos ? std::string() : field.substr(value));
  }
  if (trial.body_file.empty()) return made;
  auto body = ReadInputFile(trial.body_file, limits::kWriteBodyBytesMax);
  if (!body) return std::unexpected(body.error());
  made.request.body = std::move(*body);
  if (FindHeader(made.request.headers, "Content-Type") == nullptr) {
    made.request.headers.emplace_back("Content-Type", "application/json");
  }
  return made;
}

HttpRequest WithKey(HttpRequest request, const KeyRule& rule, const std::string& key) {
  const auto put = [](const Insertion& what, std::string& to) { to.insert(what.at, what.text); };
  const std::string* const type = FindHeader(request.headers, "Content-Type");
  const bool is_form = type != nullptr && type->find("form-urlencoded") != std::string::npos;
  switch (rule.at.where) {
    case RequestPlace::Where::kHeader:
      request.headers.emplace_back(rule.at.name, key);
      break;
    case RequestPlace::Where::kBody:
      put(InsertionInBody(rule.at, request.body, is_form, key), request.body);
      break;
    case RequestPlace::Where::kQuery:
      put(InsertionInTarget(rule.at, request.target, key), request.target);
      break;
    case RequestPlace::Where::kDirective:
    case RequestPlace::Where::kNowhere:
      break;
  }
  return request;
}

std::string NewKey(const KeyForm& form) {
  SystemRandom random;
  Digest digest{};
  random.Fill(digest);
  return KeyText(form, digest);
}

}  // namespace

Check JudgeKey(const KeyFacts& facts) {
  const auto made = [&](Check::Verdict verdict, std::string found, std::string mend = {}) {
    return Check{"key", facts.subject, verdict, std::move(found), std::move(mend)};
  };
  const auto& [first, again, other] = facts.answers;
  if (!facts.problem.empty()) return made(Check::Verdict::kNotLooked, facts.problem);
  if (!IsMade(first)) {
    return made(Check::Verdict::kNotLooked, "the call did not succeed: " + SaidBy(first),
                "give one that does: --try-body, --try-header");
  }
  if (again.status == 409) {
    return made(Check::Verdict::kGood, "it refuses a key that comes again (409)");
  }
  if (!IsMade(again)) {
    return made(Check::Verdict::kDoubt, "the same call and key again: " + SaidBy(again),
                "look there what was made, and once only");
  }
  if (again.body != first.body) {
    return made(Check::Verdict::kBad, "the same key got another answer the second time",
                "if two were made there, take its key out of the policy: it is sent again "
                "because of it");
  }
  if (!IsMade(other) || other.body == first.body) {
    return made(Check::Verdict::kDoubt, "its answers do not tell one write from another",
                "count there what was made: two, not three");
  }
  return made(Check::Verdict::kGood, "the same key got the same answer, another key another one");
}

Check TryKey(const Policy& policy, const KeyTrial& trial) {
  KeyFacts facts;
  facts.subject = trial.call;
  const auto call = ReadTrial(policy, trial);
  HttpPlace place;
  if (!call) {
    facts.problem = call.error();
    return JudgeKey(facts);
  }
  place.host = call->backend->host;
  place.port = std::to_string(call->backend->port);
  if (call->backend->scheme == "https") {
    auto tls = TlsClient::Make(*call->backend);
    if (!tls) {
      facts.problem = tls.error();
      return JudgeKey(facts);
    }
    place.tls = std::move(*tls);
  }
  const std::string key = NewKey(call->key->form);
  for (std::size_t i = 0; i < facts.answers.size(); ++i) {
    const HttpRequest request =
        WithKey(call->request, *call->key, i == 2 ? NewKey(call->key->form) : key);
    auto got = Fetch(place, request, kTrialPatienceSeconds);
    KeyFacts::Answer& answer = facts.answers.at(i);
    if (!got) {
      answer.failure = got.error();
    } else {
      answer.status = got->status;
      answer.body = std::move(got->body);
    }
    if (i == 0 && !IsMade(answer)) break;
  }
  return JudgeKey(facts);
}

}  // namespace recourse
