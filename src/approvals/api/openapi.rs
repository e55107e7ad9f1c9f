//! The API's description (`OpenAPI` 3.1), made from the table that the routes are made from.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::{Map, Value, json};

use super::problem::CODES;
use crate::store::tickets::TicketState;
use crate::store::tickets::audit::Event;

/// A route of the API.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// `get` or `post`.
    pub method: &'static str,
    /// Path template.
    pub path: &'static str,
    /// Its name.
    pub operation: &'static str,
    /// What it does.
    summary: &'static str,
    /// Query parameters: name and schema.
    query: &'static [&'static str],
    /// Schema of the request's body.
    body: Option<&'static str>,
    /// Schema of the answer.
    answer: &'static str,
    /// Codes of its refusals, besides those of every route.
    pub codes: &'static [&'static str],
}

/// Codes that every route may answer with.
pub const COMMON: [&str; 3] = ["credential_missing", "not_an_approver", "store_unavailable"];

/// Codes of answers to a request.
const ANSWERED: [&str; 9] = [
    "body_invalid",
    "digest_prefix_required",
    "role_missing",
    "ticket_unknown",
    "already_decided",
    "digest_mismatch",
    "ticket_expired",
    "body_too_large",
    "self_approval",
];

/// Codes of approvals.
const APPROVED: [&str; 11] = [
    "body_invalid",
    "digest_prefix_required",
    "role_missing",
    "ticket_unknown",
    "already_decided",
    "digest_mismatch",
    "ticket_expired",
    "body_too_large",
    "self_approval",
    "not_the_requester",
    "fresh_login_required",
];

/// Every route below `/v1`, but for the document itself.
pub const ROUTES: [Described; 10] = [
    Described {
        method: "get",
        path: "/v1/tickets",
        operation: "listTickets",
        summary: "Tickets of the tenants that the approver sees, newest first",
        query: &[
            "state", "tenant", "issuer", "subject", "tool", "upstream", "before", "limit",
        ],
        body: None,
        answer: "Tickets",
        codes: &["query_invalid"],
    },
    Described {
        method: "get",
        path: "/v1/tickets/{id}",
        operation: "showTicket",
        summary: "One ticket with every argument",
        query: &[],
        body: None,
        answer: "Ticket",
        codes: &["ticket_unknown"],
    },
    Described {
        method: "post",
        path: "/v1/tickets/{id}/approve",
        operation: "approveTicket",
        summary: "Approve: with enough approvals the identical call goes through once",
        query: &[],
        body: Some("Approval"),
        answer: "Ticket",
        codes: &APPROVED,
    },
    Described {
        method: "post",
        path: "/v1/tickets/{id}/deny",
        operation: "denyTicket",
        summary: "Deny; also takes back an approval that is not used yet",
        query: &[],
        body: Some("Answer"),
        answer: "Ticket",
        codes: &ANSWERED,
    },
    Described {
        method: "post",
        path: "/v1/tickets/{id}/revoke",
        operation: "revokeTicket",
        summary: "Take back an approval that is not used yet",
        query: &[],
        body: Some("Answer"),
        answer: "Ticket",
        codes: &ANSWERED,
    },
    Described {
        method: "post",
        path: "/v1/tickets/{id}/resolve",
        operation: "resolveTicket",
        summary: "Say what became of a call whose outcome is unknown",
        query: &[],
        body: Some("Resolution"),
        answer: "Ticket",
        codes: &[
            "body_invalid",
            "role_missing",
            "self_approval",
            "not_the_requester",
            "fresh_login_required",
            "ticket_unknown",
            "not_unknown",
            "body_too_large",
        ],
    },
    Described {
        method: "post",
        path: "/v1/tickets/{id}/mandate",
        operation: "grantMandate",
        summary: "Give the mandate that the request's rule offers, or a smaller one",
        query: &[],
        body: Some("NewMandate"),
        answer: "Mandate",
        codes: &[
            "body_invalid",
            "digest_prefix_required",
            "role_missing",
            "ticket_unknown",
            "already_decided",
            "digest_mismatch",
            "ticket_expired",
            "body_too_large",
            "self_approval",
            "not_the_requester",
            "fresh_login_required",
            "mandate_not_offered",
        ],
    },
    Described {
        method: "get",
        path: "/v1/mandates",
        operation: "listMandates",
        summary: "Mandates of the tenants that the approver sees, newest first",
        query: &["live", "tenant", "subject", "limit"],
        body: None,
        answer: "Mandates",
        codes: &["query_invalid"],
    },
    Described {
        method: "post",
        path: "/v1/mandates/{id}/end",
        operation: "endMandate",
        summary: "End a mandate early",
        query: &[],
        body: None,
        answer: "Mandate",
        codes: &["mandate_unknown"],
    },
    Described {
        method: "get",
        path: "/v1/audit",
        operation: "readAudit",
        summary: "Audit rows in order; for approvers of every tenant",
        query: &["after", "limit"],
        body: None,
        answer: "AuditRows",
        codes: &["query_invalid", "every_tenant_required"],
    },
];

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let at = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = at {
            methods.insert(route.method.to_owned(), operation(&route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdpoint approver API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tickets for calls of agents: listed, shown and answered by people. Approval alone executes nothing.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "security": [{"approver": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "approver": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An approver's key, or an access token of the identity provider for `approvers.oidc.api_audience`",
                },
            },
            "schemas": schemas(),
        },
    })
}

fn operation(route: &Described) -> Value {
    let mut parameters: Vec<_> = route.query.iter().map(|name| parameter(name)).collect();
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1},
        }));
    }
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "responses": responses(route),
    });
    if let Value::Object(members) = &mut operation {
        if !parameters.is_empty() {
            members.insert("parameters".to_owned(), parameters.into());
        }
        if let Some(schema) = route.body {
            let content = json!({"application/json": {"schema": reference(schema)}});
            let body = json!({"required": schema != "Answer", "content": content});
            members.insert("requestBody".to_owned(), body);
        }
    }
    operation
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn parameter(name: &str) -> Value {
    let states = TicketState::ALL.map(TicketState::as_str);
    let (schema, array) = match name {
        "state" => (
            json!({"type": "array", "items": {"type": "string", "enum": states}, "minItems": 1}),
            true,
        ),
        "limit" => (
            json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
            false,
        ),
        "before" | "after" => (
            json!({"type": "integer", "minimum": 0, "maximum": i64::MAX}),
            false,
        ),
        "live" => (json!({"type": "boolean", "default": false}), false),
        _ => (json!({"type": "string"}), false),
    };
    let mut parameter = json!({"name": name, "in": "query", "required": false, "schema": schema});
    if let (true, Value::Object(members)) = (array, &mut parameter) {
        members.insert("style".to_owned(), "form".into());
        members.insert("explode".to_owned(), false.into());
    }
    parameter
}

/// The answer, and for each status the codes that come with it.
fn responses(route: &Described) -> Value {
    let mut responses = Map::new();
    let content = json!({"application/json": {"schema": reference(route.answer)}});
    let answer = json!({"description": route.summary, "content": content});
    responses.insert("200".to_owned(), answer);
    let own = |code: &str| route.codes.contains(&code) || COMMON.contains(&code);
    for (_, status) in CODES.iter().filter(|(code, _)| own(code)) {
        let codes: Vec<_> = CODES
            .iter()
            .filter(|(code, other)| other == status && own(code))
            .map(|(code, _)| *code)
            .collect();
        let schema = json!({
            "allOf": [reference("Problem"), {"properties": {"error": {"enum": codes}}}],
        });
        let content = json!({"application/problem+json": {"schema": schema}});
        let description = codes.join(", ");
        responses.insert(
            status.to_string(),
            json!({"description": description, "content": content}),
        );
    }
    responses.into()
}

fn text() -> Value {
    json!({"type": "string"})
}

fn optional(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn optional_time() -> Value {
    json!({"type": ["string", "null"], "format": "date-time"})
}

fn schemas() -> Value {
    let mut schemas = Map::new();
    for part in [requests(), tickets(), others()] {
        if let Value::Object(members) = part {
            schemas.extend(members);
        }
    }
    schemas.into()
}

fn requests() -> Value {
    let comment = json!({"type": ["string", "null"], "maxLength": super::body::LONGEST_COMMENT});
    let prefix = json!({
        "type": "string", "pattern": "^[0-9a-fA-F]{8,64}$", "description": "Start of the digest that was shown",
    });
    json!({
        "Approval": {
            "type": "object", "additionalProperties": false, "required": ["digest_prefix"],
            "properties": {"digest_prefix": prefix, "comment": comment},
        },
        "Answer": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "digest_prefix": {"anyOf": [prefix, {"type": "null"}]},
                "comment": comment,
            },
        },
        "Resolution": {
            "type": "object", "additionalProperties": false, "required": ["done", "note"],
            "properties": {
                "done": {"type": "boolean"},
                "note": {"type": "string", "minLength": 1, "maxLength": super::body::LONGEST_COMMENT},
            },
        },
        "NewMandate": {
            "type": "object", "additionalProperties": false, "required": ["digest_prefix"],
            "properties": {
                "digest_prefix": prefix,
                "uses": {"type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX},
                "at_most": {"type": ["string", "null"], "pattern": "^[0-9]{1,20}(\\.[0-9]{1,6})?$"},
                "within": {"type": ["string", "null"], "examples": ["8h", "30m"]},
                "comment": comment,
            },
        },
    })
}

fn tickets() -> Value {
    json!({
        "Tickets": {
            "type": "object", "required": ["now", "tickets", "next"],
            "properties": {
                "now": time(),
                "tickets": {"type": "array", "items": reference("Ticket")},
                "next": {"type": ["integer", "null"], "description": "`before` of the next page"},
            },
        },
        "Ticket": {
            "type": "object",
            "required": ["id", "seq", "state", "digest", "summary", "tool", "upstream", "route", "arguments", "principal",
                "gate", "roles", "approvals", "created_at", "expires_at", "votes", "attempts"],
            "properties": {
                "id": text(), "seq": {"type": "integer"},
                "state": {"type": "string", "enum": TicketState::ALL.map(TicketState::as_str)},
                "cause": optional("string"),
                "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "summary": text(), "tool": text(), "upstream": text(), "route": text(),
                "arguments": {"type": "object"},
                "principal": {
                    "type": "object", "required": ["tenant", "issuer", "subject", "agent"],
                    "properties": {"tenant": text(), "issuer": text(), "subject": text(), "agent": text()},
                },
                "session": optional("string"),
                "gate": {"type": "string", "enum": ["approve", "confirm"]},
                "roles": {"type": "array", "items": text()},
                "approvals": {"type": "integer", "minimum": 1},
                "fresh": {"type": "boolean"},
                "policy": text(), "layer": text(), "rule": text(), "reason": text(),
                "bound": {"type": "object"},
                "said": optional("string"),
                "created_at": time(), "expires_at": time(),
                "votes": {"type": "array", "items": reference("Vote")},
                "attempts": {"type": "integer"},
                "claimed_at": optional_time(),
                "completed": optional("object"),
                "reconcile": optional("string"),
                "resolved": optional("object"),
                "mandate": optional("string"),
                "offer": optional("object"),
                "earlier": optional("object"),
            },
        },
        "Vote": {
            "type": "object", "required": ["by", "verdict", "at", "channel"],
            "properties": {
                "by": {
                    "type": "object", "required": ["issuer", "subject"],
                    "properties": {"issuer": text(), "subject": text()},
                },
                "verdict": {"type": "string", "enum": ["approve", "deny", "revoke"]},
                "at": time(), "comment": optional("string"), "channel": text(),
                "roles": {"type": "array", "items": text()},
                "strong": {"type": "boolean"},
            },
        },
    })
}

fn others() -> Value {
    json!({
        "Mandates": {
            "type": "object", "required": ["now", "mandates"],
            "properties": {"now": time(), "mandates": {"type": "array", "items": reference("Mandate")}},
        },
        "Mandate": {
            "type": "object",
            "required": ["id", "tenant", "issuer", "subject", "agent", "upstream", "tool", "uses", "used", "spent", "granted_by",
                "granted_at", "expires_at"],
            "properties": {
                "id": text(), "tenant": text(), "issuer": text(), "subject": text(), "agent": text(),
                "session": optional("string"), "upstream": text(), "tool": text(),
                "same": {"type": "object"},
                "at_most": optional("string"), "currency": optional("string"),
                "uses": {"type": "integer"}, "spent": text(), "used": {"type": "integer"},
                "rule": text(), "ticket": optional("string"),
                "granted_by": {"type": "object"}, "granted_at": time(), "comment": optional("string"),
                "expires_at": time(), "ended_by": optional("string"), "ended_at": optional_time(),
            },
        },
        "AuditRows": {
            "type": "object", "required": ["rows", "next"],
            "properties": {
                "rows": {"type": "array", "items": reference("AuditRow")},
                "next": {"type": ["integer", "null"], "description": "`after` of the next page"},
            },
        },
        "AuditRow": {
            "type": "object", "required": ["seq", "at", "event", "actor", "details", "prev", "hash"],
            "properties": {
                "seq": {"type": "integer"}, "at": time(),
                "event": {"type": "string", "enum": Event::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>()},
                "ticket": optional("string"), "mandate": optional("string"), "actor": text(),
                "details": {"type": "object"}, "prev": text(), "hash": text(),
            },
        },
        "Problem": {
            "type": "object", "required": ["type", "title", "status", "detail", "error"],
            "properties": {
                "type": text(), "title": text(), "status": {"type": "integer"}, "detail": text(),
                "error": text(), "state": text(),
            },
        },
    })
}

pub(super) async fn serve() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], document().to_string()).into_response()
}
