// What the writers of starting policies share (openapi.h, mcp_import.h). Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/language/yaml_reader.h"

namespace recourse {

// One line without anything that could end a comment.
std::string CommentText(std::string_view text);

// A text of YAML in double quotes.
std::string QuotedText(std::string_view text);

// `text` as a name of the policy, of at most so many characters; may be empty.
std::string LegalName(std::string_view text, std::size_t most);

// `name`, or it with a number when it is taken already.
std::string UniqueName(std::string name, std::set<std::string>& taken);

// Whether the name of an argument, a member or a parameter looks like that of an id.
bool LooksLikeIdName(std::string_view name);

// The errors, a line each.
std::string ErrorLines(Problems& problems);

// A path without the names of what varies in it.
std::string ShapeOfPath(std::string_view path);

struct MadeTool {
  std::string name, text;    // text: empty when it was left out
  bool is_declared = false;  // by its owner: never left out
};

// Loads `policy`, which holds the texts of `tools`, and empties those guessed ones that the loader
// refuses; adds them to `left_out` with the reasons. False: nothing was left out.
bool LeaveOutRefused(const std::string& policy, std::vector<MadeTool>& tools,
                     std::vector<std::string>& left_out);

}  // namespace recourse
