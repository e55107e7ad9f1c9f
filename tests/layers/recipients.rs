//! People and accounts in arguments.

use holdpoint::policy::{
    Allowed, Effect, List, Otherwise, Permit, Policy, RecipientKind, RecipientRule, ToolMatcher,
    Undeclared,
};
use holdpoint::store::Stores;
use holdpoint::verdict::LayerId;

use crate::support::{
    argument, at, call_verdict, guard, lookup, outcome, policy, problem, shop, tool,
};

fn rule(kind: RecipientKind, selectors: &[&str], allow: &[Allowed]) -> RecipientRule {
    RecipientRule {
        allow: allow.to_vec(),
        ..RecipientRule::new("tools[0].recipients[0]", at(selectors), kind)
    }
}

fn with(rule: RecipientRule) -> Policy {
    let mut policy = policy();
    policy.lists.insert(
        "staff".into(),
        List {
            emails: ["orders@shop.example".to_owned()].into(),
            email_domains: ["staff.shop.example".to_owned()].into(),
            accounts: [
                "NL91ABNA0417164300".to_owned(),
                "ROOM-7".to_owned(),
                "9007199254740993".to_owned(),
            ]
            .into(),
            ..List::default()
        },
    );
    policy.lookups.insert(
        "own_email".into(),
        lookup("SELECT email FROM users WHERE subject = :principal"),
    );
    policy.lookups.insert(
        "own_account".into(),
        lookup("SELECT account FROM users WHERE subject = :principal"),
    );
    let mut send = tool("tools[0]", ToolMatcher::Exact("send".into()));
    send.recipients = vec![rule];
    policy.tools.push(send);
    policy
}

fn staff() -> Allowed {
    Allowed::List("staff".into())
}

#[tokio::test]
async fn every_address_in_every_field_must_be_allowed() {
    let rule = rule(
        RecipientKind::Email,
        &["/to", "/cc", "/people/*/email"],
        &[staff()],
    );
    let guard = guard(with(rule), LayerId::Recipients, Stores::default()).unwrap();
    for (args, expected, place) in [
        (r#"{"to": "Orders <ORDERS@shop.example>"}"#, "allow", ""),
        (
            r#"{"to": ["ann@staff.shop.example", "bob@staff.shop.example"], "cc": null}"#,
            "allow",
            "",
        ),
        (
            r#"{"to": "a@staff.shop.example, b@staff.shop.example", "cc": ""}"#,
            "allow",
            "",
        ),
        // The rule looks for recipients elsewhere and finds nobody.
        (r#"{"cc": []}"#, "deny recipient_unreadable", "/to"),
        (
            r#"{"bcc": "eve@evil.example"}"#,
            "deny recipient_unreadable",
            "/to",
        ),
        (
            r#"{"to": "", "cc": null}"#,
            "deny recipient_unreadable",
            "/to",
        ),
        (
            r#"{"to": ["orders@shop.example", ""]}"#,
            "deny recipient_unreadable",
            "/to/1",
        ),
        (
            r#"{"to": ["orders@shop.example", null]}"#,
            "deny recipient_unreadable",
            "/to/1",
        ),
        (
            r#"{"to": "orders@shop.example", "people": ["ann@staff.shop.example"]}"#,
            "deny recipient_unreadable",
            "/people/0",
        ),
        (
            r#"{"to": "orders@shop.example", "subject": "Hi\nBcc: eve@evil.example"}"#,
            "deny recipient_unreadable",
            "/subject",
        ),
        (
            r#"{"to": "orders@shop.example", "subject": "Hi", "body": "two\nlines"}"#,
            "allow",
            "",
        ),
        (
            r#"{"To": "eve@evil.example"}"#,
            "deny recipient_not_allowed",
            "/To",
        ),
        (
            r#"{"people": [{"eMail": "eve@evil.example"}]}"#,
            "deny recipient_not_allowed",
            "/people/0/eMail",
        ),
        (
            r#"{"to": "orders@shop.example", "cc": ["eve@evil.example"]}"#,
            "deny recipient_not_allowed",
            "/cc/0",
        ),
        (
            r#"{"to": "ann@x.staff.shop.example"}"#,
            "deny recipient_not_allowed",
            "/to",
        ),
        (
            r#"{"to": "orders+x@shop.example"}"#,
            "deny recipient_not_allowed",
            "/to",
        ),
        (
            r#"{"to": "\"orders@shop.example\" <eve@evil.example>"}"#,
            "deny recipient_not_allowed",
            "/to",
        ),
        (
            r#"{"people": [{"email": "eve@evil.example"}]}"#,
            "deny recipient_not_allowed",
            "/people/0/email",
        ),
        (
            r#"{"to": "orders@shop.example\r\nBcc: eve@evil.example"}"#,
            "deny recipient_unreadable",
            "/to",
        ),
        (
            r#"{"to": {"email": "orders@shop.example"}}"#,
            "deny recipient_unreadable",
            "/to",
        ),
        (
            r#"{"to": [["orders@shop.example"]]}"#,
            "deny recipient_unreadable",
            "/to/0",
        ),
        (r#"{"to": true}"#, "deny recipient_unreadable", "/to"),
        (r#"{"to": 7}"#, "deny recipient_unreadable", "/to"),
    ] {
        let (verdict, reached) = call_verdict(&guard, "send", args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{args}");
        assert_eq!(argument(&verdict), place, "{args}");
        assert!(reached);
    }
    let (_, reached) = call_verdict(&guard, "read", r#"{"to": "x"}"#, "ann").await;
    assert!(!reached);
}

#[tokio::test]
async fn a_look_up_allows_what_it_returns_for_the_principal() {
    let own = Allowed::Lookup("own_email".into());
    let (_folder, stores) = shop();
    let rule = rule(RecipientKind::Email, &["/to"], &[staff(), own]);
    let guard = guard(with(rule), LayerId::Recipients, stores).unwrap();
    let to_ann = r#"{"to": "ann@home.example"}"#;
    let (ann, _) = call_verdict(&guard, "send", to_ann, "ann").await;
    assert_eq!(outcome(&ann), "allow");
    for subject in ["bob", "nobody"] {
        let (verdict, _) = call_verdict(&guard, "send", to_ann, subject).await;
        assert_eq!(outcome(&verdict), "deny recipient_not_allowed", "{subject}");
    }
}

#[tokio::test]
async fn accounts_compare_by_their_characters_and_ibans_are_checked() {
    let (_folder, stores) = shop();
    let own = Allowed::Lookup("own_account".into());
    for (kind, account, expected) in [
        (RecipientKind::Iban, r#""nl91 abna 0417 1643 00""#, "allow"),
        (RecipientKind::Iban, r#""GB82WEST12345698765432""#, "allow"),
        (
            RecipientKind::Iban,
            r#""DE89370400440532013000""#,
            "deny recipient_not_allowed",
        ),
        (
            RecipientKind::Iban,
            r#""NL91ABNA0417164301""#,
            "deny recipient_unreadable",
        ),
        (RecipientKind::Account, r#""room-7""#, "allow"),
        (
            RecipientKind::Account,
            r#""room-77""#,
            "deny recipient_not_allowed",
        ),
        (RecipientKind::Account, "9007199254740993", "allow"),
        (
            RecipientKind::Account,
            "9007199254740992",
            "deny recipient_not_allowed",
        ),
        (
            RecipientKind::Account,
            "90071992547409930000000",
            "deny recipient_not_allowed",
        ),
        (RecipientKind::Account, "7.0", "deny recipient_unreadable"),
        (
            RecipientKind::Account,
            "\"room\u{2011}7\"",
            "deny recipient_unreadable",
        ),
        (RecipientKind::Account, "null", "deny recipient_unreadable"),
    ] {
        let rule = rule(kind, &["/account"], &[staff(), own.clone()]);
        let guard = guard(with(rule), LayerId::Recipients, stores.clone()).unwrap();
        let args = format!("{{\"account\": {account}}}");
        let (verdict, _) = call_verdict(&guard, "send", &args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{kind:?} {account}");
    }
}

#[tokio::test]
async fn a_rule_may_hold_an_unlisted_recipient_but_never_an_unreadable_one() {
    let hold = RecipientRule {
        otherwise: Otherwise::Hold.into(),
        ..rule(RecipientKind::Email, &["/to"], &[staff()])
    };
    let guard = guard(with(hold), LayerId::Recipients, Stores::default()).unwrap();
    for (to, expected) in [
        ("eve@evil.example", "hold recipient_not_allowed"),
        ("eve@evil.example;x", "deny recipient_unreadable"),
    ] {
        let args = serde_json::json!({"to": to}).to_string();
        let (verdict, _) = call_verdict(&guard, "send", &args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{to}");
    }
}

#[tokio::test]
async fn a_look_up_that_fails_is_a_refusal() {
    let (folder, stores) = shop();
    let own = Allowed::Lookup("own_email".into());
    let rule = rule(RecipientKind::Email, &["/to"], &[own]);
    let guard = guard(with(rule), LayerId::Recipients, stores).unwrap();
    rusqlite::Connection::open(folder.path().join("shop.db"))
        .unwrap()
        .execute_batch("DROP TABLE users")
        .unwrap();
    let (verdict, _) = call_verdict(&guard, "send", r#"{"to": "ann@home.example"}"#, "ann").await;
    assert_eq!(outcome(&verdict), "deny undecided");
}

#[test]
fn what_can_never_allow_anybody_is_a_problem_at_start() {
    let start = |change: fn(&mut Policy), allow: Allowed, stores: Stores| {
        let mut policy = with(rule(RecipientKind::Email, &["/to"], &[allow]));
        change(&mut policy);
        problem(guard(policy, LayerId::Recipients, stores))
    };
    let own = || Allowed::Lookup("own_email".into());
    let (message, help) = start(|policy| policy.lists.clear(), staff(), Stores::default());
    assert!(
        message.contains("no list `staff`") && help.contains("lists"),
        "{message}"
    );

    let hosts_only = |policy: &mut Policy| {
        policy
            .lists
            .insert("staff".into(), crate::support::hosts(&["a.example"], &[]));
    };
    let (message, help) = start(hosts_only, staff(), Stores::default());
    assert!(
        message.contains("allows nobody") && help.contains("`emails`"),
        "{message}"
    );

    let (message, help) = start(|_| {}, own(), Stores::default());
    assert!(
        message.contains("store `shop`") && help.contains("stores.shop"),
        "{message}"
    );

    let (_folder, stores) = shop();
    let (message, _) = start(|policy| policy.lookups.clear(), own(), stores.clone());
    assert!(message.contains("no look-up `own_email`"), "{message}");

    let writes = |policy: &mut Policy| {
        policy.lookups.insert(
            "own_email".into(),
            lookup("DELETE FROM users RETURNING email"),
        );
    };
    let (message, help) = start(writes, own(), stores.clone());
    assert!(
        message.contains("own_email") && help.contains("SELECT"),
        "{message}"
    );

    let unbound = |policy: &mut Policy| {
        policy.lookups.insert(
            "own_email".into(),
            lookup("SELECT email FROM users WHERE subject = :owner"),
        );
    };
    let (message, help) = start(unbound, own(), stores);
    assert!(
        message.contains(":owner") && help.contains(":principal"),
        "{message}"
    );
}

#[tokio::test]
async fn a_rule_says_whether_a_call_may_name_nobody() {
    let mut nobody = rule(RecipientKind::Email, &["/cc"], &[staff()]);
    nobody.permits.insert(Permit::Nobody);
    let guard = guard(with(nobody), LayerId::Recipients, Stores::default()).unwrap();
    for (args, expected) in [
        ("{}", "allow"),
        (r#"{"cc": ""}"#, "allow"),
        (
            r#"{"cc": "eve@evil.example"}"#,
            "deny recipient_not_allowed",
        ),
    ] {
        let (verdict, _) = call_verdict(&guard, "send", args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{args}");
    }
}

#[tokio::test]
async fn recipients_that_no_rule_is_for_are_refused_where_the_policy_says_so() {
    let start = |all: Option<Undeclared>, one: Option<Undeclared>, effect: Effect| {
        let mut policy = with(rule(RecipientKind::Email, &["/to"], &[staff()]));
        policy.undeclared_recipients = all;
        policy.tools[0].undeclared_recipients = one;
        policy.tools[0].effect = effect;
        guard(policy, LayerId::Recipients, Stores::default()).unwrap()
    };
    let forgotten = r#"{"to": "orders@shop.example", "reply_to": "eve@evil.example"}"#;
    let (deny, warn) = (Some(Undeclared::Deny), Some(Undeclared::Warn));
    let (read, write) = (Effect::Read, Effect::Write);
    for (guard, tool, expected) in [
        (start(None, None, write), "send", "allow"),
        (
            start(deny, None, write),
            "send",
            "deny recipient_not_allowed",
        ),
        (
            start(None, deny, write),
            "send",
            "deny recipient_not_allowed",
        ),
        (start(deny, warn, write), "send", "allow"),
        (start(deny, None, read), "send", "allow"),
        // A tool that nobody described is a write.
        (
            start(deny, None, write),
            "other",
            "deny recipient_not_allowed",
        ),
        (start(None, deny, write), "other", "allow"),
    ] {
        let (verdict, _) = call_verdict(&guard, tool, forgotten, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{tool}");
    }
    let guard = start(deny, None, write);
    let (verdict, _) = call_verdict(&guard, "send", forgotten, "ann").await;
    assert_eq!(argument(&verdict), "/reply_to");
    let declared = r#"{"to": "orders@shop.example", "subject": "hi"}"#;
    let (verdict, _) = call_verdict(&guard, "send", declared, "ann").await;
    assert_eq!(outcome(&verdict), "allow");
}

#[tokio::test]
async fn a_finding_names_the_argument_and_the_fine_code() {
    let rule = rule(RecipientKind::Email, &["/to"], &[staff()]);
    let guard = guard(with(rule), LayerId::Recipients, Stores::default()).unwrap();
    for (to, code) in [
        ("eve@evil.example", "recipient_not_allowed: "),
        ("All: orders@shop.example;", "unsupported_syntax: "),
        ("", "no_recipient: "),
    ] {
        let args = serde_json::json!({"to": to}).to_string();
        let (verdict, _) = call_verdict(&guard, "send", &args, "ann").await;
        let finding = verdict.finding().unwrap();
        assert!(finding.detail.starts_with(code), "{}", finding.detail);
        assert_eq!(finding.argument.as_deref(), Some("/to"));
    }
}
