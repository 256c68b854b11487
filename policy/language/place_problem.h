// What to say of a text that stands where a place of a call or an answer should, such as
// body#/cart_id.
#pragma once

#include <string>
#include <string_view>

#include "policy/language/load_rules.h"
#include "proxy/base/error.h"

namespace recourse {

// "body#/pointer, path.name, ...": the places that may be read there.
std::string_view PlacesOf(Reads reads);

// The place that was probably meant; empty: nobody knows.
std::string PlaceMeant(std::string_view text, Reads reads);

// Of a field that no call shows to the policy why it is never there, and what to say instead;
// empty: it may be. "header.Host" is the place, Host the field.
std::string WhyUnseen(std::string_view place, std::string_view field);

// "'body.cart_id' is no place, did you mean 'body#/cart_id'?; accepted: ..."
std::string PlaceProblem(std::string_view text, Reads reads);

// Where a pointer is written as if it could ask for several, or take a value: no body has such a
// place.
void WarnAboutPointer(const LocatedText& text, const Selector& place, Problems& problems);

// Whether it is a place among the variables of a GraphQL document, "variables#/id".
bool NamesVariables(std::string_view place);
// What is said of one where no GraphQL is spoken.
std::string NoVariables(std::string_view place);

// Whether of a list of conditions under that word, such as "tools.t.approval.when", all have to
// hold. Of others one is enough.
bool NeedsAll(std::string_view key);

// The same of a condition whose first word is no place; else what `error` says.
std::string ConditionProblem(const LocatedText& text, Reads reads, const Error& error);

// "'4XX' is no status, did you mean '4xx'?; accepted: ...", where that can be said of `text`; else
// what `error` says.
std::string StatusProblem(std::string_view text, const Error& error);

// The same of a template's first placeholder that names no place; else what `error` says.
std::string TemplateProblem(std::string_view text, const Error& error);

}  // namespace recourse
