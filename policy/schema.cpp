#include "policy/schema.h"

namespace recourse {
namespace {

constexpr std::string_view kSchema = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Recourse policy",
  "description": "Which calls are tools, which change something, how an effect is undone.",
  "$ref": "#/$defs/policy",
  "$defs": {
    "policy": {
      "type": "object",
      "required": [ "version" ],
      "additionalProperties": false,
      "properties": {
        "version": { "const": 1, "description": "The language of this file." },
        "mode": { "enum": [ "enforce", "observe" ] },
        "unlisted": { "$ref": "#/$defs/unlisted" },
        "ledger": { "$ref": "#/$defs/ledger" },
        "quotas": { "$ref": "#/$defs/quotas" },
        "flow_rules": { "$ref": "#/$defs/flow_rules" },
        "tunnels": { "$ref": "#/$defs/texts",
          "description": "host:port that agents may reach by CONNECT without being looked at." },
        "backends": { "$ref": "#/$defs/backends" },
        "tools": { "$ref": "#/$defs/tools" },
        "flows": { "$ref": "#/$defs/flows" },
        "tests": { "type": "array", "items": { "$ref": "#/$defs/test" } }
      }
    },
    "unlisted": {
      "description": "What happens to calls that no tool matches.",
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "reads": { "enum": [ "pass", "deny" ] },
        "writes": { "enum": [ "guard", "pass", "deny" ] }
      }
    },
    "ledger": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "retention": { "$ref": "#/$defs/duration" },
        "tombstones": { "$ref": "#/$defs/duration" },
        "keep_headers": { "$ref": "#/$defs/texts" }
      }
    },
    "quotas": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "default": { "$ref": "#/$defs/quota" },
        "callers": { "type": "object", "additionalProperties": { "$ref": "#/$defs/quota" } }
      }
    },
    "quota": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "writes_in_flight": { "$ref": "#/$defs/count" },
        "operations_per_hour": { "$ref": "#/$defs/count" },
        "stored_bytes": { "$ref": "#/$defs/bytes" },
        "pending_approvals": { "$ref": "#/$defs/count" }
      }
    },
    "backends": {
      "type": "object",
      "propertyNames": { "$ref": "#/$defs/name" },
      "additionalProperties": { "$ref": "#/$defs/backend" }
    },
    "backend": {
      "type": "object",
      "required": [ "url" ],
      "additionalProperties": false,
      "properties": {
        "url": { "type": "string", "pattern": "^https?://[^@?#]+$" },
        "hosts": { "$ref": "#/$defs/texts", "description": "Further names that agents use." },
        "addresses": { "$ref": "#/$defs/texts",
          "description": "Where its name may lead besides public and private addresses." },
        "key_header": { "$ref": "#/$defs/text",
          "description": "The field in which this backend takes an idempotency key." },
        "write_reuse": { "type": "boolean",
          "description": "A write may go on a connection that carried one just before." },
        "protocol": { "enum": [ "http", "mcp" ] },
        "trust_annotations": { "type": "boolean" },
        "intercept": { "type": "boolean",
          "description": "Agents' own TLS to it ends here; takes recourse run --ca." },
        "timeout": { "$ref": "#/$defs/duration" },
        "connect_timeout": { "$ref": "#/$defs/duration" },
        "tls": { "$ref": "#/$defs/tls" }
      }
    },
    "tls": {
      "type": "object",
      "additionalProperties": false,
      "dependentRequired": { "client_cert": [ "client_key" ], "client_key": [ "client_cert" ] },
      "properties": {
        "ca_file": { "$ref": "#/$defs/text" },
        "client_cert": { "$ref": "#/$defs/text" },
        "client_key": { "$ref": "#/$defs/text" },
        "server_name": { "$ref": "#/$defs/text" }
      }
    },
    "tools": {
      "type": "object",
      "propertyNames": { "$ref": "#/$defs/name" },
      "additionalProperties": { "$ref": "#/$defs/tool" }
    },
    "tool": {
      "type": "object",
      "required": [ "match", "effect" ],
      "additionalProperties": false,
      "properties": {
        "match": { "$ref": "#/$defs/texts",
          "description": "METHOD backend /path, or tools/call backend NAME of an MCP server." },
        "effect": { "enum": [ "read", "write" ] },
        "timeout": { "$ref": "#/$defs/duration" },
        "upgrade": { "$ref": "#/$defs/texts" },
        "trace": { "enum": [ "optional", "required" ] },
        "redact": { "$ref": "#/$defs/texts" },
        "keep_headers": { "$ref": "#/$defs/texts" },
        "identity": { "$ref": "#/$defs/texts", "description": "What makes two calls the same." },
        "ignore": { "$ref": "#/$defs/texts" },
        "scope": {
          "type": "string",
          "pattern": "^(trace|session|caller|global|header:.+|baggage:.+|body#/.*)$"
        },
        "dedupe_window": { "$ref": "#/$defs/duration" },
        "across_traces": { "enum": [ "if_unanswered", "never", "always", "ask" ] },
        "on_mismatch": { "enum": [ "reject", "replay", "ask" ] },
        "external_ref": { "$ref": "#/$defs/text" },
        "settle": { "$ref": "#/$defs/settle" },
        "undo": { "oneOf": [ { "const": "none" }, { "$ref": "#/$defs/undo" } ] },
        "reason": { "$ref": "#/$defs/text", "description": "Why nothing has to be undone." },
        "approval": { "$ref": "#/$defs/approval" },
        "breaks_flow": { "enum": [ "never", "on_failure", "on_unknown" ] },
        "pivot": { "type": "boolean" },
        "success_when": { "$ref": "#/$defs/texts" },
        "failed_when": { "$ref": "#/$defs/texts" },
        "not_executed": { "$ref": "#/$defs/statuses" },
        "on_error": { "enum": [ "unknown", "not_executed" ],
          "description": "What isError of an MCP tool proves." },
        "failed_ttl": { "$ref": "#/$defs/duration" },
        "hold": { "$ref": "#/$defs/duration" }
      },
      "if": { "properties": { "effect": { "const": "read" } } },
      "then": { "propertyNames": { "enum": [ "match", "effect", "timeout", "upgrade" ] } },
      "else": {
        "not": { "required": [ "upgrade" ] },
        "anyOf": [
          { "required": [ "approval" ] },
          { "required": [ "undo" ], "properties": { "undo": { "type": "object" } } },
          { "required": [ "reason" ] }
        ]
      }
    },
    "settle": {
      "type": "object",
      "required": [ "happened" ],
      "oneOf": [ { "required": [ "request" ] }, { "required": [ "call" ] } ],
      "dependentRequired": { "arguments": [ "call" ] },
      "additionalProperties": false,
      "properties": {
        "call": { "$ref": "#/$defs/mcp_name" },
        "arguments": { "type": "object" },
        "request": { "type": "string", "pattern": "^(GET|HEAD) /" },
        "headers": { "$ref": "#/$defs/headers" },
        "happened": { "$ref": "#/$defs/text" },
        "absent_after": { "$ref": "#/$defs/duration" }
      }
    },
    "undo": {
      "type": "object",
      "oneOf": [ { "required": [ "request" ] }, { "required": [ "call" ] } ],
      "dependentRequired": { "arguments": [ "call" ] },
      "additionalProperties": false,
      "properties": {
        "call": { "$ref": "#/$defs/mcp_name", "description": "A tool of the same MCP server." },
        "arguments": { "type": "object" },
        "request": { "type": "string", "pattern": "^[A-Z-]+ /" },
        "headers": { "$ref": "#/$defs/headers" },
        "json": {},
        "form": { "$ref": "#/$defs/headers" },
        "done": { "$ref": "#/$defs/statuses" },
        "done_when": { "$ref": "#/$defs/texts" },
        "repeatable": { "enum": [ true, false, "by_key" ] },
        "credentials": { "$ref": "#/$defs/credentials" },
        "attempts": { "type": "integer", "minimum": 1, "maximum": 100 },
        "window": { "$ref": "#/$defs/duration",
          "description": "How long an operator may still have a finished flow's step undone." }
      },
      "not": { "required": [ "json", "form" ] }
    },
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
        "file": { "$ref": "#/$defs/text" },
        "prefix": { "type": "string" }
      }
    },
    "approval": {
      "type": "object",
      "required": [ "by" ],
      "additionalProperties": false,
      "properties": {
        "by": { "$ref": "#/$defs/texts" },
        "expires": { "$ref": "#/$defs/duration" },
        "when": { "$ref": "#/$defs/texts" },
        "needs": { "type": "integer", "minimum": 1, "maximum": 20 },
        "answer": { "enum": [ 202, 409 ] },
        "hold": { "$ref": "#/$defs/duration" },
        "should_retry": { "type": "boolean" },
        "credentials": { "$ref": "#/$defs/secrets",
          "description": "Fields that an approved call is sent with in place of the agent's." }
      }
    },
    "flows": {
      "type": "object",
      "propertyNames": { "$ref": "#/$defs/name" },
      "additionalProperties": { "$ref": "#/$defs/flow" }
    },
    "flow": {
      "type": "object",
      "required": [ "tools" ],
      "additionalProperties": false,
      "dependentRequired": { "on_deadline": [ "deadline" ] },
      "properties": {
        "tools": { "$ref": "#/$defs/texts" },
        "ends_with": { "$ref": "#/$defs/text" },
        "canceled_by": { "$ref": "#/$defs/text" },
        "deadline": { "$ref": "#/$defs/duration" },
        "on_deadline": { "enum": [ "undo", "keep", "ask" ] },
        "undo_before_pivot": { "type": "boolean" },
        "continue_on_stuck": { "type": "boolean" }
      }
    },
    "flow_rules": {
      "description": "What holds for every flow.",
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "parent": { "$ref": "#/$defs/texts",
          "description": "Where a flow's name is, if not the trace." },
        "agents_may": {
          "oneOf": [
            { "$ref": "#/$defs/order" },
            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/order" } }
          ]
        },
        "undos_per_second": { "type": "integer", "minimum": 1, "maximum": 1000 },
        "webhook": { "$ref": "#/$defs/webhook" }
      }
    },
    "order": { "enum": [ "close", "cancel" ] },
    "webhook": {
      "type": "object",
      "required": [ "url" ],
      "if": { "properties": { "format": { "const": "slack" } }, "required": [ "format" ] },
      "then": { "not": { "required": [ "secret_file" ] } },
      "else": { "required": [ "secret_file" ] },
      "additionalProperties": false,
      "properties": {
        "url": { "type": "string", "pattern": "^https?://[^@?#]+$" },
        "secret_file": { "$ref": "#/$defs/text" },
        "ca_file": { "$ref": "#/$defs/text" },
        "format": { "enum": [ "json", "slack" ] }
      }
    },
    "test": {
      "type": "object",
      "required": [ "call", "expect" ],
      "additionalProperties": false,
      "properties": {
        "call": {
          "type": "string",
          "pattern": "^([A-Z-]+ [^ ]+ /|tools/call [^ ]+ [A-Za-z0-9_./-]{1,128}$)"
        },
        "headers": { "$ref": "#/$defs/headers" },
        "body": {},
        "expect": { "$ref": "#/$defs/expect" }
      }
    },
    "expect": {
      "type": "object",
      "minProperties": 1,
      "additionalProperties": false,
      "properties": {
        "tool": { "$ref": "#/$defs/text" },
        "effect": { "enum": [ "read", "write" ] },
        "approval": { "type": "boolean" },
        "refused": { "$ref": "#/$defs/text" },
        "key": { "$ref": "#/$defs/texts" }
      }
    },
    "name": { "pattern": "^[A-Za-z0-9_.-]{1,128}$" },
    "mcp_name": { "type": "string", "pattern": "^[A-Za-z0-9_./-]{1,128}$" },
    "text": { "type": "string", "minLength": 1 },
    "texts": {
      "oneOf": [
        { "$ref": "#/$defs/text" },
        { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/text" } }
      ]
    },
    "headers": { "type": "object", "additionalProperties": { "type": "string" } },
    "duration": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" },
    "count": { "type": "integer", "minimum": 1 },
    "bytes": { "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB|TiB)$" },
    "status": {
      "oneOf": [
        { "type": "integer", "minimum": 100, "maximum": 599 },
        { "type": "string", "pattern": "^([1-5]xx|[1-5][0-9][0-9](-[1-5][0-9][0-9])?)$" }
      ]
    },
    "statuses": {
      "oneOf": [
        { "$ref": "#/$defs/status" },
        { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/status" } }
      ]
    }
  }
}
)json";

}  // namespace

std::string_view PolicySchema() { return kSchema; }

}  // namespace recourse
