// What is particular to a backend's protocol: how a call is read, what an answer proves, how what
// Recourse says and asks itself is written. Nobody else asks which protocol a backend speaks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/call_body.h"
#include "filters/message.h"
#include "filters/upstream.h"
#include "filters/verdict.h"
#include "policy/template/template.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/random.h"

namespace recourse {

// What calls go over. All outlive the connections.
struct CodecParts {
  Upstream& plain;
  Timer& timer;
  const Clock& clock;
  Random& random;
};

// Keeps nothing, so that one serves all threads. What is not overridden is plain HTTP's.
class Codec {
 public:
  virtual ~Codec() = default;

  // The call that a request to the backend's endpoint makes, by name and arguments. Fails with
  // kMalformedRequest where it is not one call.
  virtual Result<CallBody> Read(const Backend& backend, const HttpRequest& request) const;
  // The name that a call says, as the policy spells it out, as long as that lives; empty: the tool
  // has a pattern alone, and what an agent says is in no span.
  virtual std::string_view Spelled(const Tool& tool, std::string_view called) const;
  // Texts of ours have their places in the body as it is sent, which is not the arguments.
  virtual bool PlacesAreInBody() const { return false; }
  // Why a human may not have the call made with this body; empty: it may. For people.
  virtual std::string ObjectionToEdit(const Policy& policy, const Backend& backend,
                                      std::string_view tool, const HttpRequest& request,
                                      const std::string& body) const;

  // What the answer proves; nullopt: what its status, and the policy's conditions, prove.
  virtual std::optional<Verdict> Judge(const Tool& tool, const Answer& answer,
                                       const CallValues& values) const;
  // It cannot be judged without the answer's body.
  virtual bool JudgesByBody() const { return false; }
  // What `answer.body#` reads of a kept message; nullopt: nothing.
  virtual std::optional<Json> Output(std::string_view message) const;
  // Puts `instead` in the place of what `places` read from a kept message, and adds their names to
  // `taken`. False: such a value may be left in it.
  virtual bool Redact(std::string& message, const std::vector<Selector>& places,
                      std::string_view instead, std::string& taken) const;
  // The words of a failure; bounded.
  virtual std::string FailureText(std::string_view message) const;
  // The body of an answer to a call that is known to be executed, but not with what answer.
  virtual std::string LostAnswer(std::string_view external_ref, std::string_view settled_by) const;

  // Adds to a request about a call what says in which version and session of the protocol that was
  // made. It is sealed like the rest of it, and shown to nobody.
  virtual void KeepSession(const Headers& of_call, Headers& rendered) const;

  // What asks how the task stands that a kept message is, with `fields`, which have the call's
  // session; nullopt: it cannot be asked about. Its target is left empty: it is the endpoint.
  virtual std::optional<RenderedRequest> AskAboutTask(std::string_view message,
                                                      Headers fields) const;
  // Whether a kept request is such a one.
  virtual bool AsksAboutTask(const RenderedRequest& asked) const;
  // The same for its result, which some servers do not tell with its state.
  virtual RenderedRequest AskForTaskResult(RenderedRequest about_task) const { return about_task; }
  // Tells the task of a kept AskAboutTask from all others of the ledger; empty: there is none.
  virtual std::string NameOfTask(std::string_view backend, std::string_view caller,
                                 const RenderedRequest& about_task) const;
  virtual TaskPace PaceOfTask(std::string_view message) const;
  // What the response to that method, kTaskState or kTaskResult, says.
  virtual TaskReport ReadTask(std::string_view method, std::string_view response) const;
  // A response to a call; nullopt: it is none.
  virtual std::optional<FinalMessage> ReadFinal(std::string_view response) const;
  // A kept message that is both what the call has come to and the task that its client was given.
  virtual std::string WithTask(std::string_view final_message, std::string_view task_message) const;

  // A GET that is answered with events is a stream that lasts as long as its session.
  virtual bool ListensByGet() const { return false; }
  // `plain` as the protocol uses it. `backend` outlives the connection where `shared` is set.
  virtual std::unique_ptr<UpstreamConnection> Over(const CodecParts& parts, const Backend& backend,
                                                   std::shared_ptr<const Backend> shared,
                                                   std::unique_ptr<UpstreamConnection> plain) const;
  // An answer to `call` that was recorded on its way to a client, read as Over() reads it.
  virtual Result<Answer> ReadRecorded(Answer recorded, const HttpRequest& call) const;
};

}  // namespace recourse
