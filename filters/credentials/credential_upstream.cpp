#include "filters/credentials/credential_upstream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proxy/base/http/content_coding.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::string_view kUnreadable = "a credential of the policy cannot be read";

// Empty: it is as it is.
std::string CodingOf(const HttpResponse& head) {
  std::string codings;
  for (const auto& [name, value] : head.headers) {
    if (!EqualsIgnoreCase(name, "Content-Encoding") || EqualsIgnoreCase(value, "identity"))
      continue;
    codings += (codings.empty() ? "" : ", ") + value;
  }
  return codings;
}

// What is encoded though nobody asked for it is decoded, so that it can be looked through.
void Decode(Answer& answer) {
  const std::string coding = CodingOf(answer.response);
  if (coding.empty() || (answer.response.body.empty() && answer.body_complete)) return;
  const bool is_whole = answer.body_complete && !answer.over_cap;
  auto decoded = is_whole ? DecodeContent(coding, answer.response.body)
                          : Result<std::string>(std::unexpected(Error()));
  RemoveHeader(answer.response.headers, "Content-Encoding");
  answer.response.body = decoded ? std::move(*decoded) : std::string();
  if (decoded) return;
  answer.over_cap = true;
  answer.until_close = false;
  answer.withheld = kEncodedAnswer;
}

HttpResponse Cleaned(const EchoScrubber& scrubber, const HttpResponse& head) {
  HttpResponse cleaned = head;
  scrubber.Clean(cleaned);
  return cleaned;
}

class CleanSink final : public BodySink {
 public:
  CleanSink(BodySink& sink, const EchoScrubber& scrubber) : sink_(sink), scrubber_(scrubber) {}

  Task<bool> Take(const HttpResponse& head, std::string_view piece) override {
    if (!CodingOf(head).empty()) co_return TakeEncoded(head, piece);
    if (!head_) head_ = Cleaned(scrubber_, head);
    is_wanted_ = co_await sink_.Take(*head_, scrubber_.Take(piece, /*ends=*/false));
    co_return is_wanted_;
  }
  std::size_t kept() const override { return sink_.kept() + encoded_.response.body.size(); }
  void NoRoom() override {
    is_wanted_ = false;
    sink_.NoRoom();
  }

  // What was held back, once nothing more comes.
  Task<void> End() {
    if (was_encoded()) co_return co_await EndEncoded();
    const std::string_view rest = scrubber_.Take({}, /*ends=*/true);
    if (is_wanted_ && !rest.empty()) (void)co_await sink_.Take(*head_, rest);
  }

  // What the sink has got is not.
  bool was_encoded() const { return !encoded_.response.headers.empty(); }

 private:
  Task<void> EndEncoded() {
    Decode(encoded_);
    (void)scrubber_.Clean(encoded_.response.body, /*ends=*/true);
    RemoveHeader(head_->headers, "Content-Encoding");
    if (encoded_.withheld.empty()) (void)co_await sink_.Take(*head_, encoded_.response.body);
  }

  bool TakeEncoded(const HttpResponse& head, std::string_view piece) {
    if (!head_) {
      head_ = Cleaned(scrubber_, head);
      encoded_.response.headers = head_->headers;
    }
    std::string& body = encoded_.response.body;
    is_wanted_ = is_wanted_ && body.size() + piece.size() <= limits::kAnswerBytesMax;
    if (is_wanted_) body += piece;
    encoded_.body_complete = is_wanted_;
    return is_wanted_;
  }

  BodySink& sink_;
  EchoScrubber scrubber_;
  std::optional<HttpResponse> head_;
  Answer encoded_;  // where it is
  bool is_wanted_ = true;
};

class CleanRelay final : public AnswerRelay {
 public:
  CleanRelay(AnswerRelay& relay, const EchoScrubber& scrubber)
      : relay_(relay), scrubber_(scrubber) {}

  bool Takes(const HttpResponse& head, std::optional<std::uint64_t> length) override {
    return CodingOf(head).empty() && relay_.Takes(Cleaned(scrubber_, head), length);
  }
  Task<void> Pass(std::string_view piece, std::size_t queued_max) override {
    return relay_.Pass(scrubber_.Take(piece, /*ends=*/false), queued_max);
  }
  void Keep(std::string_view last) override { relay_.Keep(scrubber_.Take(last, /*ends=*/true)); }
  std::size_t held() const override { return relay_.held(); }

 private:
  AnswerRelay& relay_;
  EchoScrubber scrubber_;
};

class CredentialConnection final : public UpstreamConnection {
 public:
  CredentialConnection(CredentialUpstream& upstream, std::unique_ptr<UpstreamConnection> plain,
                       std::shared_ptr<const Backend> backend)
      : upstream_(upstream), plain_(std::move(plain)), backend_(std::move(backend)) {}

  Task<Result<void>> Connected() override { return plain_->Connected(); }
  std::string_view Peer() const override { return plain_->Peer(); }
  bool IsReused() const override { return plain_->IsReused(); }
  void SendOnlyWith(SendPermit* permit) override { plain_->SendOnlyWith(permit); }
  void HoldAnswerFor(CallKeeper* keeper) override { plain_->HoldAnswerFor(keeper); }
  void RelayAnswerTo(AnswerRelay* relay) override { relay_to_ = relay; }
  void GiveBodyTo(BodySink* sink) override { give_to_ = sink; }

  Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                std::size_t answer_bytes_max) override;

 private:
  CredentialUpstream& upstream_;
  const std::unique_ptr<UpstreamConnection> plain_;
  const std::shared_ptr<const Backend> backend_;
  AnswerRelay* relay_to_ = nullptr;
  BodySink* give_to_ = nullptr;
};

Task<Result<Answer>> CredentialConnection::Exchange(const HttpRequest& request, MonoTime deadline,
                                                    std::size_t answer_bytes_max) {
  auto read = co_await upstream_.CredentialsFor(*backend_);
  if (!read) co_return std::unexpected(read.error());
  std::erase_if(read->fields, [&request](const Header& field) {
    return FindHeader(request.headers, field.first) != nullptr;
  });
  plain_->AddFields(std::move(read->fields));
  const EchoScrubber& scrubber = read->scrubber;
  std::optional<CleanSink> sink;
  std::optional<CleanRelay> relay;
  if (give_to_ != nullptr) plain_->GiveBodyTo(&sink.emplace(*give_to_, scrubber));
  if (relay_to_ != nullptr) plain_->RelayAnswerTo(&relay.emplace(*relay_to_, scrubber));
  Result<Answer> answer = co_await plain_->Exchange(request, deadline, answer_bytes_max);
  if (sink) co_await sink->End();
  if (answer && sink && sink->was_encoded()) {
    RemoveHeader(answer->response.headers, "Content-Encoding");
  }
  if (answer && !scrubber.is_idle()) Decode(*answer);
  if (answer) scrubber.Clean(answer->response);
  co_return answer;
}

// As the field has it: what follows a scheme may be secret in another form.
void AddValues(const SecretHeader& secret, const SpentSecrets& spent,
               std::vector<std::string>& values) {
  const bool is_basic = EqualsIgnoreCase(TrimBlanks(secret.prefix), "Basic");
  for (std::string& value : spent.Of(secret.token ? NameOfToken(*secret.token) : secret.file)) {
    if (is_basic) values.push_back(secret.prefix + value);
    values.push_back(std::move(value));
  }
}

}  // namespace

EchoScrubber CredentialUpstream::ScrubberOf(const Backend& backend) {
  std::vector<std::string> values;
  for (const SecretHeader& secret : backend.secrets) AddValues(secret, spent_, values);
  for (const SecretHeader& secret : backend.hidden) {
    // One that cannot be read is not sent, either.
    const bool is_known = std::ranges::find(backend.secrets, secret.file, &SecretHeader::file) !=
                          backend.secrets.end();
    if (!secret.token && !is_known) {
      if (const auto value = read_secret_(secret.file)) spent_.Note(secret.file, *value);
    }
    AddValues(secret, spent_, values);
  }
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
  auto& [known, scrubber] = scrubbers_[backend.name];
  if (known != values) {
    scrubber = EchoScrubber(values);
    known = std::move(values);
  }
  return scrubber;
}

std::unique_ptr<UpstreamConnection> CredentialUpstream::Open(const Backend& backend) {
  auto plain = plain_.Open(backend);
  if (backend.secrets.empty() && backend.hidden.empty()) return plain;
  return std::make_unique<CredentialConnection>(*this, std::move(plain),
                                                std::make_shared<const Backend>(backend));
}

std::unique_ptr<UpstreamConnection> CredentialUpstream::OpenForCall(
    std::shared_ptr<const Backend> backend) {
  auto plain = plain_.OpenForCall(backend);
  if (backend->secrets.empty() && backend->hidden.empty()) return plain;
  return std::make_unique<CredentialConnection>(*this, std::move(plain), std::move(backend));
}

Task<Result<ReadCredentials>> CredentialUpstream::CredentialsFor(const Backend& backend) {
  ReadCredentials read;
  for (const SecretHeader& secret : backend.secrets) {
    auto value = secret.token ? co_await tokens_.Get(secret.token) : read_secret_(secret.file);
    if (!value || !IsFieldValue(*value)) {
      Log(LogLevel::kError, "a request is not sent without its credential",
          {{"backend", backend.name},
           {"credential", secret.name},
           {"reason", value ? "it has control characters" : value.error()}});
      co_return std::unexpected(Error(ErrorCode::kNotSent, kUnreadable, Delivery::kNotSent));
    }
    read.fields.emplace_back(secret.name, secret.prefix + *value);
    if (!secret.token) spent_.Note(secret.file, *value);
  }
  read.scrubber = ScrubberOf(backend);
  // What is encoded cannot be looked into.
  read.fields.emplace_back("Accept-Encoding", "identity");
  co_return read;
}

}  // namespace recourse
