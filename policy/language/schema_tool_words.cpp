// The part of the schema about the words of a tool that are maps of their own.
#include "policy/language/schema.h"

namespace recourse {
namespace {

constexpr std::string_view kSchemaToolWords = R"json(    "settle": {
      "type": "object",
      "required": [ "happened" ],
      "oneOf": [
        { "required": [ "request" ] }, { "required": [ "call" ] }, { "required": [ "graphql" ] }
      ],
      "dependentRequired": { "arguments": [ "call" ], "variables": [ "graphql" ] },
      "additionalProperties": false,
      "properties": {
        "call": { "$ref": "#/$defs/mcp_name", "description": "A read of the same MCP server." },
        "arguments": { "type": "object" },
        "graphql": { "$ref": "#/$defs/text", "description": "A document of one field." },
        "variables": { "type": "object", "description": "Those of the document." },
        "request": { "type": "string", "pattern": "^(before$|[A-Z-]+ /)",
          "description": "A template; before asks what `before` asks." },
        "headers": { "$ref": "#/$defs/headers" },
        "safe": { "type": "boolean", "default": false,
          "description": "It only asks, though it is no GET: a search by POST." },
        "json": { "description": "Its body." },
        "form": { "$ref": "#/$defs/headers", "description": "Its body, url-encoded." },
        "mark": { "type": "string", "pattern": "^(body#/.+|query[.].+)$",
          "description": "Where the write gets a word of its own, which is {key} here." },
        "happened": {
          "oneOf": [ { "$ref": "#/$defs/texts" }, { "$ref": "#/$defs/search" } ],
          "description": "A place in its answer; of request: before conditions, or as_set." },
        "absent": { "$ref": "#/$defs/texts",
          "description": "Conditions on its answer: one that holds says that it took none." },
        "absent_after": { "$ref": "#/$defs/duration",
          "description": "What is not found so long after counts as never done." }
      }
    },
    "same_as": {
      "type": "object",
      "required": [ "tool", "identity" ],
      "additionalProperties": false,
      "properties": {
        "tool": { "$ref": "#/$defs/text", "description": "The tool." },
        "when": { "$ref": "#/$defs/texts",
          "description": "Conditions on the call: unless all hold it is its own tool's." },
        "identity": { "$ref": "#/$defs/texts",
          "description": "Where it has what that tool's identity names, in the same order." }
      }
    },
    "settled_by": {
      "type": "object",
      "required": [ "until" ],
      "oneOf": [
        { "required": [ "request" ] }, { "required": [ "at" ] }, { "required": [ "call" ] },
        { "required": [ "graphql" ] }
      ],
      "dependentRequired": { "arguments": [ "call" ], "variables": [ "graphql" ] },
      "additionalProperties": false,
      "properties": {
        "at": { "$ref": "#/$defs/text",
          "description": "Where the answer has the link to ask at: answer.header.Location." },
        "call": { "$ref": "#/$defs/mcp_name", "description": "A read of the same MCP server." },
        "arguments": { "type": "object" },
        "graphql": { "$ref": "#/$defs/text", "description": "A document of one field." },
        "variables": { "type": "object", "description": "Those of the document." },
        "request": { "type": "string", "pattern": "^([A-Z-]+ /|GET$)",
          "description": "A read of how it stands; in an undo GET alone asks at its own path." },
        "headers": { "$ref": "#/$defs/headers" },
        "safe": { "type": "boolean", "default": false,
          "description": "It only asks, though it is no GET: a search by POST." },
        "json": { "description": "Its body." },
        "form": { "$ref": "#/$defs/headers", "description": "Its body, url-encoded." },
        "until": { "$ref": "#/$defs/texts",
          "description": "Conditions on its answer: once all hold the write is done." },
        "deadline": { "$ref": "#/$defs/duration", "default": "10m",
          "description": "How long it may take; then its outcome is unknown." }
      }
    },
    "search": {
      "type": "object",
      "required": [ "in", "where" ],
      "dependentRequired": { "pages": [ "next" ], "next": [ "pages" ], "cursor": [ "next" ] },
      "additionalProperties": false,
      "properties": {
        "in": { "$ref": "#/$defs/text", "description": "The list: answer.body#/pointer." },
        "where": { "$ref": "#/$defs/texts",
          "description": "What the element has: metadata/key == {key}; all must hold." },
        "take": { "$ref": "#/$defs/text", "default": "id", "description": "Its name in it." },
        "pages": { "type": "integer", "minimum": 2, "maximum": 20,
          "description": "How many are read at most." },
        "next": { "$ref": "#/$defs/text",
          "description": "Where the answer has the link to the next page, or a cursor." },
        "cursor": { "type": "string", "pattern": "^(body#/.+|query[.].+)$",
          "description": "Where that cursor goes." }
      }
    },
    "before": {
      "type": "object",
      "required": [ "keep" ],
      "oneOf": [
        { "required": [ "request" ] }, { "required": [ "call" ] }, { "required": [ "graphql" ] }
      ],
      "dependentRequired": { "arguments": [ "call" ], "variables": [ "graphql" ] },
      "additionalProperties": false,
      "properties": {
        "call": { "$ref": "#/$defs/mcp_name", "description": "A read of the same MCP server." },
        "arguments": { "type": "object" },
        "graphql": { "$ref": "#/$defs/text", "description": "A document of one field." },
        "variables": { "type": "object", "description": "Those of the document." },
        "request": { "type": "string", "pattern": "^GET /",
          "description": "A template: reads what the write changes, before it is sent." },
        "headers": { "$ref": "#/$defs/headers" },
        "keep": { "$ref": "#/$defs/texts",
          "description": "Places of its answer that are kept for the undo." },
        "version": { "$ref": "#/$defs/text",
          "description": "A place of its answer that every change alters: header.ETag." },
        "missing": { "enum": [ "refuse", "approve", "go_on" ], "default": "refuse",
          "description": "What becomes of the write if that cannot be read." }
      }
    },
    "undo": {
      "type": "object",
      "oneOf": [
        { "required": [ "request" ] }, { "required": [ "call" ] }, { "required": [ "graphql" ] }
      ],
      "dependentRequired": { "arguments": [ "call" ], "variables": [ "graphql" ] },
      "additionalProperties": false,
      "properties": {
        "call": { "$ref": "#/$defs/mcp_name", "description": "A tool of the same MCP server." },
        "arguments": { "type": "object" },
        "graphql": { "$ref": "#/$defs/text", "description": "A document of one field." },
        "variables": { "type": "object", "description": "Those of the document." },
        "when": { "$ref": "#/$defs/texts",
          "description": "In a list: it is the one to send where all of these hold." },
        "request": { "type": "string", "pattern": "^[A-Z-]+ /",
          "description": "A template, filled in when the write succeeds." },
        "headers": { "$ref": "#/$defs/headers" },
        "json": { "description": "Its body." },
        "form": { "$ref": "#/$defs/headers", "description": "Its body, url-encoded." },
        "done": { "$ref": "#/$defs/done", "default": "2xx",
          "description": "Answers after which the effect is gone: statuses, conditions." },
        "done_when": { "$ref": "#/$defs/texts",
          "description": "Conditions of which one must hold too." },
        "then_probe": { "type": "boolean", "default": false,
          "description": "Done once the settle request states that nothing is there." },
        "settled_by": { "$ref": "#/$defs/settled_by" },
        "repeatable": { "enum": [ true, false, "by_key" ], "default": false,
          "description": "Whether it may be sent again when its outcome is unknown." },
        "key_at": { "$ref": "#/$defs/key_at" },
        "key_form": { "$ref": "#/$defs/key_form" },
        "only_if": { "enum": [ "unchanged", "always" ], "default": "always",
          "description": "Sent only if what the write left, by before, is there still." },
        "leaves": { "$ref": "#/$defs/texts",
          "description": "Places of the call's body that need not be put back." },
        "rest": { "const": "stays",
          "description": "This PUT leaves what it does not name, or there is nothing else." },
        "credentials": { "$ref": "#/$defs/credentials" },
        "attempts": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10,
          "description": "Tries before a human is asked." },
        "window": { "$ref": "#/$defs/duration",
          "description": "How long a finished flow's step may be undone; ledger.retention." }
      },
      "not": { "required": [ "json", "form" ] }
    },
    "happened_if": { "oneOf": [
      { "$ref": "#/$defs/twin" },
      { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/twin" } } ] },
    "twin": { "oneOf": [
      { "$ref": "#/$defs/text" },
      { "type": "object", "additionalProperties": false, "required": [ "when", "then" ],
        "properties": { "when": { "$ref": "#/$defs/text" }, "then": { "const": "settle" } } } ] },
    "key_at": { "type": "string",
      "pattern": "^(none|header:.+|(body|variables)#/.+|query[.].+|document@.+[(].+[)])$",
      "description": "Where an idempotency key is written that the backend de-duplicates by." },
    "key_form": { "type": "string", "pattern": "^(hex:64|uuid|(alnum|base32hex):[0-9]+)$",
      "default": "hex:64", "description": "What such a key looks like." },
    "key_lives": { "$ref": "#/$defs/duration", "default": "12h",
      "description": "How long a key is honoured; then an unknown is not sent again. 0s: never." },
    "key_scope": { "enum": [ "credentials", "account" ], "default": "credentials",
      "description": "account: other credentials of it find the key as well." },
    "key_hit": { "$ref": "#/$defs/texts",
      "description": "Conditions on an answer to what came again: the first one happened." },
    "key_answer": { "enum": [ "first", "latest" ], "default": "first",
      "description": "latest: what comes again is answered by the newest state." },
    "key_after_failure": { "enum": [ "same", "new" ], "default": "same",
      "description": "new: what failed for sure can succeed only under another key." },
    "credentials": {
      "oneOf": [
        { "const": "from_call" },
        { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/text" } },
        { "$ref": "#/$defs/secrets" }
      ]
    },
    "secrets": {
      "type": "object",
      "minProperties": 1,
      "additionalProperties": { "$ref": "#/$defs/secret" }
    },
    "secret": {
      "type": "object",
      "required": [ "file" ],
      "additionalProperties": false,
      "properties": {
        "file": { "$ref": "#/$defs/text", "description": "Its first line, read when it is sent." },
        "prefix": { "type": "string", "description": "Put before it." }
      }
    },
    "backend_secret": {
      "type": "object",
      "oneOf": [ { "required": [ "file" ] }, { "required": [ "token" ] } ],
      "additionalProperties": false,
      "properties": {
        "file": { "$ref": "#/$defs/text", "description": "Its first line, read when it is sent." },
        "prefix": { "type": "string", "description": "Put before it." },
        "token": { "$ref": "#/$defs/token" }
      }
    },
    "token": {
      "type": "object",
      "required": [ "url", "client_id", "secret_file" ],
      "additionalProperties": false,
      "description": "Asked for by OAuth client credentials, kept until it ends.",
      "properties": {
        "url": { "type": "string", "pattern": "^https?://[^@?#]+$",
          "description": "The token endpoint." },
        "client_id": { "$ref": "#/$defs/text", "description": "Whose it is." },
        "secret_file": { "$ref": "#/$defs/text",
          "description": "The client's secret in its first line." },
        "scope": { "$ref": "#/$defs/text", "description": "Sent along." },
        "audience": { "$ref": "#/$defs/text", "description": "Sent along." },
        "ca_file": { "$ref": "#/$defs/text", "description": "PEM, in place of the system's CAs." }
      }
    },
    "approval": {
      "type": "object",
      "required": [ "by" ],
      "additionalProperties": false,
      "properties": {
        "by": { "$ref": "#/$defs/texts",
          "description": "Groups or persons who may decide; never the caller." },
        "expires": { "$ref": "#/$defs/duration", "default": "15m",
          "description": "Nobody's answer within this is a no." },
        "when": { "$ref": "#/$defs/texts",
          "description": "Conditions that must all hold, or suspected; without it always." },
        "needs": { "type": "integer", "minimum": 1, "maximum": 20, "default": 1,
          "description": "So many must approve; one no is enough." },
        "answer": { "enum": [ 202, 409 ], "default": 202,
          "description": "What the agent is told after hold." },
        "hold": { "$ref": "#/$defs/duration",
          "description": "How long the agent waits; without it the tool's." },
        "should_retry": { "type": "boolean",
          "description": "Of a 409: tells SDKs to come back (true) or to raise (false)." },
        "credentials": { "$ref": "#/$defs/secrets",
          "description": "Fields that an approved call is sent with in place of the agent's." },
        "summary": { "$ref": "#/$defs/text",
          "description": "What tells calls apart in lists; the body's first values, but secrets." }
      }
    },
)json";

}  // namespace

std::string_view SchemaOfToolWords() { return kSchemaToolWords; }

}  // namespace recourse
