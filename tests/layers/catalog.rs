//! Denied tools, and tools that a model's provider runs.

use std::sync::Arc;

use holdpoint::guard::Guard;
use holdpoint::item::{Item, ProviderTool, ToolDefinition, UnreadableCall};
use holdpoint::names::ToolName;
use holdpoint::policy;
use holdpoint::source;
use holdpoint::store::Stores;
use holdpoint::verdict::{LayerId, Reason, Verdict};

use super::support::{call_verdict, guard, output_verdict, verdict};

fn with(rules: &str) -> Guard {
    let text = format!(
        "version: 1\nname: catalog\nlayers: {{catalog: enforce, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: off}}\n{rules}"
    );
    let tree = source::parse("p.yaml", text).unwrap();
    let checked = policy::check(tree).unwrap_or_else(|problems| panic!("{problems}"));
    guard(checked.policy, LayerId::Catalog, Stores::default()).unwrap()
}

fn reason(verdict: &Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Allow => None,
        Verdict::Deny(finding) => Some(finding.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_denied_tool_is_neither_offered_nor_called() {
    let guard = with(
        "tools:\n  - {tool: shell_safe}\n  - {tool: \"shell*\", deny: true}\n  - {tool: drop_table, deny: true}\n  - {tool: \"*\"}\n",
    );
    for (tool, denied) in [
        ("shell", true),
        ("shell_exec", true),
        ("drop_table", true),
        // The first rule that matches decides alone.
        ("shell_safe", false),
        ("Shell", false),
        ("drop_tables", false),
    ] {
        let expected = denied.then_some(Reason::ToolDenied);
        let (called, reached) = call_verdict(&guard, tool, "{}", "ann").await;
        assert_eq!((reason(&called), reached), (expected, denied), "{tool}");
        let offered = Item::Definition(ToolDefinition::new(tool, "runs"));
        let (offered, reached) = verdict(&guard, offered, "ann").await;
        // What a tool says of itself is looked at whatever the policy says of the tool.
        assert_eq!((reason(&offered), reached), (expected, true), "{tool}");
        // What an earlier call gave back stays in the conversation: its call needs an answer.
        let output = output_verdict(&guard, tool, "done").await;
        assert_eq!(output, Verdict::Allow);
    }
    let Verdict::Deny(finding) = call_verdict(&guard, "shell", "{}", "ann").await.0 else {
        panic!("denied")
    };
    assert_eq!(finding.rule.as_str(), "tools[1]");
}

#[tokio::test]
async fn deny_for_the_rest_makes_the_policy_a_list_of_what_is_allowed() {
    let guard = with("tools:\n  - {tool: get_order}\n  - {tool: \"*\", deny: true}\n");
    for (tool, expected) in [("get_order", None), ("anything", Some(Reason::ToolDenied))] {
        let (called, _) = call_verdict(&guard, tool, "{}", "ann").await;
        assert_eq!(reason(&called), expected, "{tool}");
    }
    // An unreadable call is the guard's own refusal.
    let unreadable = Item::Unreadable(UnreadableCall {
        tool: ToolName::from("anything"),
        call_id: None,
        cause: "bad".to_owned(),
    });
    let (called, _) = verdict(&guard, unreadable, "ann").await;
    assert_eq!(reason(&called), Some(Reason::ArgumentsUnreadable));
}

async fn provider(guard: &Guard, kind: &str, server: Option<&str>) -> Verdict {
    let item = Item::ProviderTool(ProviderTool {
        kind: kind.into(),
        server: server.map(Arc::from),
    });
    let (said, reached) = verdict(guard, item, "ann").await;
    assert!(reached, "{kind}");
    said
}

#[tokio::test]
async fn what_the_provider_runs_is_denied_unless_listed() {
    let none = with("");
    let some = with(
        "provider_tools:\n  - {type: \"web_search*\"}\n  - {type: code_execution}\n  - {type: mcp, servers: [\"https://mcp.example.com/team\", \"https://docs.example/\"]}\n  - {type: mcp, servers: [\"https://third.example:8443\"]}\n",
    );
    for (kind, server, listed) in [
        ("web_search", None, true),
        ("web_search_20250305", None, true),
        ("web_fetch", None, false),
        ("Web_search", None, false),
        ("code_execution", None, true),
        ("code_execution_2", None, false),
        ("mcp", Some("https://mcp.example.com/team"), true),
        ("mcp", Some("https://MCP.example.com:443/team/a?x=1"), true),
        ("mcp", Some("https://docs.example/any/thing"), true),
        ("mcp", Some("https://third.example:8443/"), true),
        // By its own server, and only by that.
        ("mcp", None, false),
        ("mcp", Some("https://mcp.example.com/teams"), false),
        ("mcp", Some("https://mcp.example.com/team/../admin"), false),
        (
            "mcp",
            Some("https://mcp.example.com/team/%2e%2e/admin"),
            false,
        ),
        ("mcp", Some("http://docs.example/"), false),
        ("mcp", Some("https://docs.example@evil.example/"), false),
        ("mcp", Some("https://third.example/"), false),
        ("mcp", Some("docs.example"), false),
        ("mcp", Some(""), false),
        // An entry without servers is for tools that reach none.
        ("web_search", Some("https://docs.example/"), false),
    ] {
        let expected = (!listed).then_some(Reason::ProviderToolUnlisted);
        let said = provider(&some, kind, server).await;
        assert_eq!(reason(&said), expected, "{kind} {server:?}");
        let said = provider(&none, kind, server).await;
        assert_eq!(reason(&said), Some(Reason::ProviderToolUnlisted), "{kind}");
    }
}

#[tokio::test]
async fn the_finding_tells_a_type_from_a_server_and_names_the_entry() {
    let guard = with(
        "provider_tools:\n  - {type: web_search}\n  - {type: mcp, servers: [\"https://a.example/\"]}\n",
    );
    for (kind, server, rule, words) in [
        ("shell", None, "provider_tools", "has this type"),
        (
            "mcp",
            Some("https://b.example/secret"),
            "provider_tools[1]",
            "the server at b.example",
        ),
        (
            "mcp",
            Some("nonsense"),
            "provider_tools[1]",
            "cannot be read",
        ),
        ("mcp", None, "provider_tools[1]", "names none"),
    ] {
        let Verdict::Deny(finding) = provider(&guard, kind, server).await else {
            panic!("denied: {kind}")
        };
        assert_eq!(finding.rule.as_str(), rule);
        assert!(finding.detail.contains(words), "{}", finding.detail);
        assert!(!finding.detail.contains("secret"), "{}", finding.detail);
    }
}
