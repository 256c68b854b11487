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
  // What takes money, approves, sends or makes is nobody's undo, though its answer is over by then.
  enum Use : unsigned char { kEnds, kUndo, kBoth } use;  // kUndo: `opposite` undoes `verb`
};

// The verbs that end what `verb` did, or whose effect it ends; empty: it is none that has one.
std::span<const std::string_view> OppositesOf(std::string_view verb);
// Those of them that are the undo of `verb`, the usual one first.
std::span<const std::string_view> UndosOf(std::string_view verb);

}  // namespace recourse
