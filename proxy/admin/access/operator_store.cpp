#include "proxy/admin/access/operator_store.h"

#include <utility>

#include "policy/files/sources.h"
#include "proxy/admin/access/jwks_fetch.h"
#include "proxy/admin/access/key_source.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

bool NameSameKeys(const std::optional<JwtRule>& a, const std::optional<JwtRule>& b) {
  return a && b && a->jwks_backend && b->jwks_backend && a->jwks_url == b->jwks_url &&
         a->jwks_ca_file == b->jwks_ca_file;
}

}  // namespace

OperatorFiles ReadOperatorFiles(const std::string& path) {
  OperatorFiles files;
  const PolicySources sources = ReadPolicyTwice(path, "name an operators file");
  std::string all;
  for (const PolicyProblem& problem : sources.problems) AppendPart(all, problem.ToString());
  for (const PolicySource& source : sources.files) AppendPart(all, source.text);
  if (!sources.problems.empty() || sources.files.size() != 1) {
    files.loaded.problems = sources.problems;
    if (sources.problems.empty()) {
      files.loaded.problems.push_back(
          {.file = path, .key = {}, .message = "is a directory; name one operators file"});
    }
    files.bytes = Sha256(all);
    return files;
  }
  const auto read = [&all](const std::string& named) -> std::expected<std::string, std::string> {
    PolicySources keys = ReadPolicyTwice(named, "name a JSON file");
    if (!keys.problems.empty()) return std::unexpected(keys.problems.front().message);
    if (keys.files.size() != 1) return std::unexpected("is a directory; name a JSON file");
    AppendPart(all, keys.files.front().text);
    return std::move(keys.files.front().text);
  };
  files.loaded = LoadOperatorsText(path, sources.files.front().text, read);
  for (const PolicyProblem& problem : files.loaded.problems) AppendPart(all, problem.ToString());
  files.bytes = Sha256(all);
  return files;
}

OperatorStore::OperatorStore(std::string path, const Clock& clock)
    : path_(std::move(path)), clock_(clock), book_(std::make_shared<OperatorDirectory>()) {}

std::vector<PolicyProblem> OperatorStore::Start() {
  if (path_.empty()) return {};
  OperatorFiles files = ReadOperatorFiles(path_);
  tried_ = files.bytes;
  if (!files.loaded.ok()) return files.loaded.problems;
  Use(std::move(files.loaded.book));
  return {};
}

Millis OperatorStore::Look() {
  if (path_.empty()) return limits::kPolicyPoll;
  OperatorFiles files = ReadOperatorFiles(path_);
  if (files.bytes == tried_) {
    seen_.reset();
    return limits::kPolicyPoll;
  }
  if (seen_ != files.bytes) {
    seen_ = files.bytes;  // may be half-written
    return limits::kPolicySettle;
  }
  Take(std::move(files));
  return limits::kPolicyPoll;
}

void OperatorStore::Reload() {
  if (!path_.empty()) Take(ReadOperatorFiles(path_));
}

void OperatorStore::Take(OperatorFiles files) {
  seen_.reset();
  tried_ = files.bytes;
  if (files.loaded.ok()) {
    const std::string tokens = std::to_string(files.loaded.book->tokens.size());
    Use(std::move(files.loaded.book));
    Log(LogLevel::kInfo, "the operators were read again", {{"file", path_}, {"tokens", tokens}});
    return;
  }
  for (const PolicyProblem& problem : files.loaded.problems) {
    Log(LogLevel::kError, "the operators stay as they are", {{"problem", problem.ToString()}});
  }
}

void OperatorStore::Use(std::shared_ptr<OperatorDirectory> book) {
  if (book->jwt && book->jwt->jwks_backend) {
    const auto before = Current();
    book->jwt_keys = NameSameKeys(before->jwt, book->jwt)
                         ? before->jwt_keys
                         : std::make_shared<UrlKeys>(book->jwt->jwks_url,
                                                     JwksFetch(*book->jwt->jwks_backend), clock_);
  }
  std::shared_ptr<const OperatorDirectory> old = std::move(book);
  const std::lock_guard lock(mutex_);
  book_.swap(old);  // the old one, whose thread may have to end, goes after the lock
}

std::shared_ptr<const OperatorDirectory> OperatorStore::Current() const {
  const std::lock_guard lock(mutex_);
  return book_;
}

}  // namespace recourse
