// Requests that a backend takes on and finishes later (`settled_by`). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "policy/template/template.h"

namespace recourse {

// What is recorded of a request whose backend works on, whatever it answered.
inline constexpr int kTakenOn = 202;
inline constexpr std::string_view kNoLink = "the answer names no place of its backend to ask at";
// Whether the answer to the question of `rule` says that it is done: what is cached, partial, cut,
// a gateway's page, or an error that `until` does not ask for by its status says nothing. `values`:
// all but the answer.
bool SaysDone(const SettledByRule& rule, const Answer& answer, CallValues values);

// The target of a link to a backend, whose url is `root` and `base_path`, that a request of our own
// may follow; nullopt: it leads elsewhere, or has two readings.
std::optional<std::string> TargetOfLink(const std::string& root, const std::string& base_path,
                                        std::string link);
// Asks at the answer's link, if the rule says so. False: there is none that may be followed.
bool AskAtLink(const SettledByRule& rule, const CallValues& values, RenderedRequest& question);

}  // namespace recourse
