// The tokens of a GraphQL document (specification of October 2021, section 2.1). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace recourse {

// Why a document is none, and where. Both count from 1; columns are bytes.
struct GraphqlFault {
  std::string what;
  std::size_t line = 1, column = 1;

  std::string Text() const;  // "... (line 2, column 7)"
};

struct GraphqlToken {
  enum class Kind : std::uint8_t { kEnd, kPunctuator, kName, kInt, kFloat, kString };
  Kind kind = Kind::kEnd;
  std::size_t at = 0, size = 0;  // in the document
  std::string text;              // as written; kString: its value

  bool Is(std::string_view punctuator) const {
    return kind == Kind::kPunctuator && text == punctuator;
  }
  bool IsName(std::string_view name) const { return kind == Kind::kName && text == name; }
};

class GraphqlLexer {
 public:
  // The document outlives it.
  explicit GraphqlLexer(std::string_view document) : document_(document) {}

  std::expected<GraphqlToken, GraphqlFault> Next();
  GraphqlFault FaultAt(std::size_t at, std::string what) const;

 private:
  void SkipIgnored();
  std::unexpected<GraphqlFault> Refuse(std::size_t at, std::string what) const {
    return std::unexpected(FaultAt(at, std::move(what)));
  }
  std::expected<GraphqlToken, GraphqlFault> Number();
  std::expected<GraphqlToken, GraphqlFault> Text();
  std::expected<GraphqlToken, GraphqlFault> BlockText();
  // Reads an escape behind its backslash; false: it is none.
  bool Escape(std::string& out);
  bool Hex4(std::uint32_t& unit);
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < document_.size() ? document_[at_ + ahead] : '\0';
  }
  GraphqlToken Cut(GraphqlToken::Kind kind, std::size_t begin) const;

  const std::string_view document_;
  std::size_t at_ = 0;
};

}  // namespace recourse
