#include "policy/language/schema.h"

#include <string>

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
        "mode": { "enum": [ "enforce", "observe" ], "default": "enforce",
          "description": "observe: change nothing, record what enforcing would have done." },
        "unlisted": { "$ref": "#/$defs/unlisted" },
        "ledger": { "$ref": "#/$defs/ledger",
          "description": "Which ledger, and how long answers are kept." },
        "quotas": { "$ref": "#/$defs/quotas", "description": "Limits of each caller." },
        "flow_rules": { "$ref": "#/$defs/flow_rules" },
        "principal": { "$ref": "#/$defs/texts",
          "description": "More header fields that say who calls; -Name: one that does not." },
        "callers": { "$ref": "#/$defs/callers" },
        "tunnels": { "$ref": "#/$defs/texts",
          "description": "host:port that agents may reach by CONNECT without being looked at." },
        "backends": { "$ref": "#/$defs/backends" },
        "tools": { "$ref": "#/$defs/tools" },
        "flows": { "$ref": "#/$defs/flows" },
        "tests": { "type": "array", "items": { "$ref": "#/$defs/test" },
          "description": "Calls, and what recourse policy test expects of each." }
      }
    },
    "callers": {
      "description": "What tells callers apart, besides their certificates.",
      "type": "object",
      "additionalProperties": false,
      "minProperties": 1,
      "properties": {
        "field": { "$ref": "#/$defs/text",
          "description": "A header field whose value names the caller; it is believed." },
        "jwt": {
          "description": "A token that is verified, one claim of which names the caller.",
          "type": "object",
          "required": [ "issuer", "audience", "jwks_file" ],
          "additionalProperties": false,
          "properties": {
            "field": { "$ref": "#/$defs/text", "default": "Authorization",
              "description": "Where the token comes; in Authorization with the scheme Bearer." },
            "issuer": { "$ref": "#/$defs/text", "description": "Must equal the token's iss." },
            "audience": { "$ref": "#/$defs/text", "description": "Must be in the token's aud." },
            "claim": { "$ref": "#/$defs/text", "default": "sub",
              "description": "The claim, or a JSON pointer to it." },
            "jwks_file": { "$ref": "#/$defs/text",
              "description": "The issuer's keys; read again when it changes." }
          }
        }
      }
    },
    "unlisted": {
      "description": "What happens to calls that no tool matches.",
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "reads": { "enum": [ "pass", "deny" ], "default": "pass", "description": "deny: 403." },
        "writes": { "enum": [ "guard", "pass", "deny" ], "default": "guard",
          "description": "guard: keyed and logged; pass: logged only; deny: 403." }
      }
    },
    "ledger": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "retention": { "$ref": "#/$defs/duration", "default": "7d",
          "description": "How long an answer is replayed, from its operation's last event." },
        "tombstones": { "$ref": "#/$defs/duration", "default": "90d",
          "description": "How long after that a repeat gets 410; then it is a new call." },
        "keep_headers": { "$ref": "#/$defs/texts",
          "description": "Fields of every tool's answers that a repeat gets too." },
        "url": { "type": "string",
          "description": "postgres://USER@HOST/DATABASE, lmdb:DIRECTORY or memory:." },
        "password_file": { "type": "string",
          "description": "File with the database's password; read at every connect." },
        "group": { "type": "string", "pattern": "^[A-Za-z0-9._/-]{1,128}$",
          "description": "The pods that do each other's work in a shared ledger." },
        "wait": { "$ref": "#/$defs/duration", "default": "2s",
          "description": "How long a write waits for a shared ledger that does not answer." }
      }
    },
    "quotas": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "default": { "$ref": "#/$defs/quota", "description": "Holds for every caller." },
        "callers": { "type": "object", "additionalProperties": { "$ref": "#/$defs/quota" },
          "description": "Other limits of some callers, by identity." }
      }
    },
    "quota": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "writes_in_flight": { "$ref": "#/$defs/count",
          "description": "Operations being sent at one moment." },
        "operations_per_hour": { "$ref": "#/$defs/count",
          "description": "New operations in any hour." },
        "stored_bytes": { "$ref": "#/$defs/bytes",
          "description": "The caller's rows in the ledger." },
        "pending_approvals": { "$ref": "#/$defs/count", "default": 20,
          "description": "Calls that wait for a human." }
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
        "url": { "type": "string", "pattern": "^https?://[^@?#]+$",
          "description": "Its path is put before every path sent." },
        "hosts": { "$ref": "#/$defs/texts",
          "description": "Further names that agents use; without a port: any port." },
        "addresses": { "$ref": "#/$defs/texts", "default": [ "public", "private" ],
          "description": "Where its name may lead: also loopback, link_local, a range." },
        "key_header": { "$ref": "#/$defs/text",
          "description": "Short for key_at: header:Name." },
        "key_at": { "$ref": "#/$defs/key_at" },
        "key_form": { "$ref": "#/$defs/key_form" },
        "key_hit": { "$ref": "#/$defs/key_hit" },
        "key_answer": { "$ref": "#/$defs/key_answer" },
        "key_after_failure": { "$ref": "#/$defs/key_after_failure" },
        "repeat_if": { "$ref": "#/$defs/texts",
          "description": "Conditions on a failure: one that holds lets its repeat be sent." },
        "escaped_slash": { "enum": [ "doubtful", "kept" ], "default": "doubtful",
          "description": "kept: it takes %2F for a part of its segment." },
        "key_lives": { "$ref": "#/$defs/key_lives" },
        "key_scope": { "$ref": "#/$defs/key_scope" },
        "write_reuse": { "type": "boolean",
          "description": "A write may follow another on a connection that may close just then." },
        "protocol": { "enum": [ "http", "mcp", "graphql" ], "default": "http",
          "description": "mcp, graphql: the url is the endpoint of such a server." },
        "persisted": { "type": "object", "additionalProperties": { "$ref": "#/$defs/text" },
          "description": "GraphQL: documents by the hash or id that agents send instead." },
        "trust_annotations": { "type": "boolean", "default": false,
          "description": "MCP: unlisted tools that the server calls read-only are reads." },
        "trust_effects": { "type": "boolean", "default": false,
          "description": "MCP: policy import mcp puts in force what its tools declare." },
        "intercept": { "type": "boolean", "default": false,
          "description": "Agents' own TLS to it ends here; takes recourse run --ca." },
        "timeout": { "$ref": "#/$defs/duration",
          "description": "Until the answer has come; 60s for writes." },
        "connect_timeout": { "$ref": "#/$defs/duration", "default": "1s",
          "description": "To reach the backend." },
        "tls": { "$ref": "#/$defs/tls" },
        "credentials": { "type": "object", "minProperties": 1,
          "additionalProperties": { "$ref": "#/$defs/backend_secret" },
          "description": "Fields that every request to it gets, in place of the agent's." }
      }
    },
    "tls": {
      "type": "object",
      "additionalProperties": false,
      "dependentRequired": { "client_cert": [ "client_key" ], "client_key": [ "client_cert" ] },
      "properties": {
        "ca_file": { "$ref": "#/$defs/text", "description": "PEM, in place of the system's CAs." },
        "client_cert": { "$ref": "#/$defs/text", "description": "PEM, with its chain." },
        "client_key": { "$ref": "#/$defs/text", "description": "PEM, without a passphrase." },
        "server_name": { "$ref": "#/$defs/text",
          "description": "In the certificate, in place of the url's host." }
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
          "description": "METHOD backend /path, tools/call backend NAME, mutation backend FIELD." },
        "effect": { "enum": [ "read", "write" ], "description": "Whether it changes something." },
        "timeout": { "$ref": "#/$defs/duration", "description": "In place of the backend's." },
        "credentials": { "type": "object", "minProperties": 1,
          "additionalProperties": { "$ref": "#/$defs/backend_secret" },
          "description": "Fields of its requests, before the agent's and the backend's." },
        "upgrade": { "$ref": "#/$defs/texts",
          "description": "[ websocket ], of a GET: a tunnel once the backend has agreed." },
        "declared": { "type": "string", "pattern": "^sha256:[0-9a-f]{64}$",
          "description": "MCP: what the server declared when it was taken over; news are told." },
        "trace": { "enum": [ "optional", "required" ], "default": "optional",
          "description": "required: refuse (428) a call with neither a trace nor a key." },
        "redact": { "$ref": "#/$defs/texts",
          "description": "Places that are never stored, not even sealed." },
        "keep_headers": { "$ref": "#/$defs/texts",
          "description": "Fields of its answers that a repeat gets too." },
        "identity": { "$ref": "#/$defs/texts",
          "description": "Places of what makes two calls the same; or all, as without it." },
        "ignore": { "$ref": "#/$defs/texts",
          "description": "JSON pointers to what does not count among the arguments." },
        "scope": {
          "type": "string",
          "pattern": "^(trace|session|caller|global|header:.+|baggage:.+|body#/.*)$",
          "default": "trace",
          "description": "How far a key reaches."
        },
        "dedupe_window": { "$ref": "#/$defs/duration", "default": "10m",
          "description": "How long repeats count without a trace." },
        "across_window": { "$ref": "#/$defs/duration", "default": "30m",
          "description": "How long a call without an answer is known to retries elsewhere." },
        "key_at": { "$ref": "#/$defs/key_at" },
        "key_form": { "$ref": "#/$defs/key_form" },
        "key_lives": { "$ref": "#/$defs/key_lives" },
        "key_scope": { "$ref": "#/$defs/key_scope" },
        "key_hit": { "$ref": "#/$defs/key_hit" },
        "key_answer": { "$ref": "#/$defs/key_answer" },
        "key_after_failure": { "$ref": "#/$defs/key_after_failure" },
        "same_as": {
          "oneOf": [
            { "$ref": "#/$defs/same_as" },
            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/same_as" } }
          ],
          "description": "Another tool that it is a door to: their calls are repeats of each other."
        },
        "agent_key": { "enum": [ "yields", "wins" ], "default": "yields",
          "description": "Whether the agent's Idempotency-Key says more than `identity`." },
        "across_traces": { "enum": [ "if_unanswered", "never", "always", "ask" ],
          "default": "if_unanswered",
          "description": "Whether the same intent under another trace is a repeat." },
        "on_mismatch": { "enum": [ "reject", "replay", "ask" ], "default": "reject",
          "description": "Other arguments under one key; replay: where all of identity is." },
        "superseded_by": { "$ref": "#/$defs/texts",
          "description": "Tools whose writes end its answer; others: all on its path or name." },
        "external_ref": { "$ref": "#/$defs/text", "default": "answer.body#/id",
          "description": "The place of the backend's name for what was made." },
        "settle": { "oneOf": [ { "const": "none" }, { "$ref": "#/$defs/settle" } ],
          "description": "How its outcome is found out; none: nothing can ask." },
        "settled_by": { "$ref": "#/$defs/settled_by" },
        "before": { "$ref": "#/$defs/before" },
        "undo": {
          "oneOf": [
            { "enum": [ "none", "undecided" ] },
            { "$ref": "#/$defs/undo" },
            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/undo" } }
          ]
        },
        "reason": { "$ref": "#/$defs/text", "description": "Why nothing has to be undone." },
        "deny": { "$ref": "#/$defs/texts",
          "description": "Conditions on the call: one that holds has it refused (403)." },
        "allow": { "$ref": "#/$defs/texts",
          "description": "Conditions on the call: unless all hold it is refused (403)." },
        "approval": { "$ref": "#/$defs/approval" },
        "breaks_flow": { "enum": [ "never", "on_failure", "on_unknown" ], "default": "never",
          "description": "Whether its proven failure undoes its flow; not_executed is none." },
        "pivot": { "type": "boolean", "default": false,
          "description": "It and what came before it are undone by a human's word only." },
        "happened_if": { "$ref": "#/$defs/happened_if",
          "description": "Conditions on a refusal: its effect may be there; settle tells." },
        "success_when": { "$ref": "#/$defs/texts",
          "description": "Conditions on a 2xx: unless all hold, the outcome is unknown." },
        "failed_when": { "$ref": "#/$defs/texts",
          "description": "Conditions on the answer: one proves that nothing happened." },
        "not_executed": { "$ref": "#/$defs/statuses",
          "description": "Statuses that prove that nothing happened: a repeat is sent." },
        "repeat_if": { "$ref": "#/$defs/texts",
          "description": "As the backend's, beside it." },
        "on_error": { "enum": [ "unknown", "not_executed" ], "default": "unknown",
          "description": "What isError of an MCP tool, or errors without data of GraphQL, prove." },
        "answer": { "enum": [ "stream", "whole" ],
          "description": "How the client gets it; else as it comes if it is text/event-stream." },
        "failed_ttl": { "$ref": "#/$defs/duration", "default": "0s",
          "description": "How long a proven rejection is replayed; 0s: its repeat is sent." },
        "hold": { "$ref": "#/$defs/duration", "default": "3s",
          "description": "How long a repeat waits for the running call." }
      },
      "if": { "properties": { "effect": { "const": "read" } } },
      "then": { "propertyNames": {
        "enum": [ "match", "effect", "timeout", "upgrade", "credentials", "declared" ] } },
      "else": {
        "not": { "required": [ "upgrade" ] },
        "anyOf": [
          { "required": [ "approval" ] },
          { "required": [ "undo" ],
            "properties": { "undo": { "not": { "const": "none" } } } },
          { "required": [ "reason" ] }
        ]
      }
    },
)json";

constexpr std::string_view kSchemaOfRest = R"json(    "flows": {
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
        "tools": { "$ref": "#/$defs/texts", "description": "Writes, each in one flow at most." },
        "ends_with": { "$ref": "#/$defs/text", "description": "Its success completes the flow." },
        "canceled_by": { "$ref": "#/$defs/text",
          "description": "Its success has the flow undone." },
        "deadline": { "$ref": "#/$defs/duration", "description": "From the first write." },
        "on_deadline": { "enum": [ "undo", "keep", "ask" ], "default": "ask",
          "description": "What becomes of a flow that is not in order then." },
        "undo_before_pivot": { "type": "boolean", "default": false,
          "description": "Undo a step with pivot, and those before it, too." },
        "continue_on_stuck": { "type": "boolean", "default": false,
          "description": "Undo the other steps although one cannot be undone." },
        "irreversible_first_asks": { "type": "boolean", "default": false,
          "description": "Every tool of it that nothing undoes must ask a human." }
      }
    },
    "flow_rules": {
      "description": "What holds for every flow.",
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "parent": { "$ref": "#/$defs/texts",
          "description": "Where a flow's name is, if not the trace." },
        "without_trace": { "type": "string", "pattern": "^(none|session|pod|header:.+)$",
          "default": "none",
          "description": "What makes flows of writes that no trace joins; none: nothing does." },
        "agents_may": {
          "oneOf": [
            { "$ref": "#/$defs/order" },
            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/order" } }
          ],
          "description": "What agents may order by Recourse-Flow."
        },
        "undos_per_second": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 5,
          "description": "To one backend." },
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
        "url": { "type": "string", "pattern": "^https?://[^@?#]+$",
          "description": "Told when a call waits, a flow is parked, an outcome stays unknown." },
        "secret_file": { "$ref": "#/$defs/text",
          "description": "Its first line signs what is sent." },
        "ca_file": { "$ref": "#/$defs/text", "description": "PEM, in place of the system's CAs." },
        "format": { "enum": [ "json", "cloudevents", "slack" ], "default": "json",
          "description": "slack: one block of plain text, unsigned." }
      }
    },
    "test": {
      "type": "object",
      "required": [ "call", "expect" ],
      "additionalProperties": false,
      "properties": {
        "call": {
          "type": "string",
          "pattern": "^([A-Z-]+ [^ ]+ /|(tools/call|mutation) [^ ]+ [A-Za-z0-9_./-]{1,128}$)"
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
    "done": {
      "oneOf": [
        { "$ref": "#/$defs/statusOrCondition" },
        { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/statusOrCondition" } }
      ]
    },
    "statusOrCondition": {
      "oneOf": [ { "$ref": "#/$defs/status" }, { "type": "string", "pattern": "^answer[.]" } ]
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

std::string_view PolicySchema() {
  static const std::string schema =
      std::string(kSchema) + std::string(SchemaOfToolWords()) + std::string(kSchemaOfRest);
  return schema;
}

}  // namespace recourse
