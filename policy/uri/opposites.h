// Names in words, and the verbs that take each other back: close and reopen, lock and unlock. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// A name in lower-case words: createOrder, create-order and create_order are one.
std::vector<std::string> WordsOf(std::string_view name);

struct Opposite {
  std::string_view verb, opposite;
};
// All pairs, each once, those that name the usual undo of a verb first.
std::span<const Opposite> Opposites();

// The verbs that take `verb` back, or that it takes back; empty: it is none that has one.
std::span<const std::string_view> OppositesOf(std::string_view verb);

}  // namespace recourse
