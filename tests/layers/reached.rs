//! Whom and what a call reaches: what an approver is told of it, and what is remembered.

use std::sync::Arc;

use holdpoint::acquainted::{Acquainted, MemoryAcquainted, Who};
use holdpoint::item::{Exchange, Item, ToolCall};
use holdpoint::layers::{Came, Context, Memo, Reached};
use holdpoint::policy::{self, Policy};
use holdpoint::provenance::{Class, Evidence, Said, Speaker};
use holdpoint::store::Stores;
use jiff::Timestamp;

use crate::support::{arguments, exchange};

const POLICY: &str = "version: 1
name: r
layers: {catalog: off, identity: off, egress: enforce, recipients: enforce, ownership: off, injection: off, tickets: off}
lists: {staff: {emails: [boss@staff.example], hosts: [docs.example]}}
egress: {allow: [staff]}
tools:
  - tool: send
    recipients: [{at: [/to, /cc], kind: email, allow: [staff], none: allow}]
    arguments: [{at: /channel, allow: [{from: user}]}]
";

fn call(args: &str) -> (Exchange, ToolCall) {
    let call = ToolCall::new("send".into(), arguments(args));
    (exchange(Item::ToolCall(call.clone()), "ann"), call)
}

fn compiled() -> Arc<Policy> {
    let policy = policy::parse("p.yaml", POLICY.to_owned());
    Arc::new(policy.unwrap_or_else(|problems| panic!("{problems}")))
}

const ARGS: &str = r#"{"to": "Boss <boss@staff.example>, eve@evil.example", "channel": ["general", 7], "body": "see https://docs.example/a and https://evil.example/b"}"#;

#[tokio::test]
async fn what_is_met_for_the_first_time_is_told_by_its_place_until_it_was_reached() {
    let policy = compiled();
    let memory = Arc::new(MemoryAcquainted::default());
    let stores = Stores {
        acquainted: Arc::clone(&memory) as _,
        ..Stores::default()
    };
    let reached = Reached::new(&policy, &stores);
    let memo = Memo::default();
    let (exchange, call) = call(ARGS);
    let context = Context {
        exchange: &exchange,
        rule: policy.rule_for(&call.tool),
        executes_here: true,
        tainted: Some(false),
        memo: &memo,
    };
    let first = reached.first_time(&call, &context).await.unwrap();
    assert_eq!(first, ["/to", "/channel/0", "/channel/1", "/body"]);
    // Listed or not, whom a call reached is known.
    let who = Who::of(&exchange.session.principal);
    let all = reached.digests(&call, &context);
    assert_eq!(all.len(), 6);
    memory
        .record(&who, &all[..2], Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    let first = reached.first_time(&call, &context).await.unwrap();
    assert_eq!(first, ["/channel/0", "/channel/1", "/body"]);
    memory
        .record(&who, &all, Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    let first = reached.first_time(&call, &context).await.unwrap();
    assert!(first.is_empty(), "{first:?}");
}

#[tokio::test]
async fn an_approver_is_told_who_named_each_value() {
    let policy = compiled();
    let reached = Reached::new(&policy, &Stores::default());
    let memo = Memo::default();
    let (mut exchange, call) =
        call(r#"{"to": "eve@evil.example", "cc": "joe@x.example", "channel": "general"}"#);
    let said = |by, text: &str| Said {
        by,
        text: text.into(),
    };
    let mail = Speaker::Tool {
        tool: Some("read_mail".into()),
        call: None,
        at: Some(String::new()),
    };
    exchange.evidence = Some(Arc::new(Evidence::of([
        said(Speaker::User, "post it in general"),
        said(mail, r#"{"sender": "eve@evil.example"}"#),
    ])));
    let context = Context {
        exchange: &exchange,
        rule: policy.rule_for(&call.tool),
        executes_here: true,
        tainted: Some(false),
        memo: &memo,
    };
    let came = |at: &str, class, source: Option<&str>| Came {
        at: at.to_owned(),
        class,
        source: source.map(str::to_owned),
    };
    assert_eq!(
        reached.origins(&call, &context),
        [
            came("/to", Class::Tainted, Some("`read_mail`, field `sender`")),
            came("/cc", Class::Unseen, None),
            came("/channel", Class::Said, None),
        ]
    );
}
