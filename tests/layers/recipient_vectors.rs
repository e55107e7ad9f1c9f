//! Vectors for recipients through the public matchers: no wrong allow at all, no wrong deny among the benign.

use bytes::Bytes;
use data_encoding::BASE64URL;
use holdpoint::item::Arguments;
use holdpoint::layers::recipients::{Code, Objection, judge};
use holdpoint::policy::{List, Permit, Plus, RecipientKind, RecipientRule, Region, Selector};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{at, data};

fn set(texts: &[&str]) -> std::collections::HashSet<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn list() -> List {
    List {
        emails: set(&["orders@shop.example", "j\u{f6}rg@shop.example"]),
        email_domains: set(&["staff.shop.example", "xn--bcher-kva.example"]),
        email_subdomains_of: set(&["regions.example"]),
        share_domains: set(&["staff.shop.example"]),
        phones: set(&["+447700900123"]),
        chats: set(&[
            "C0SHOP123",
            "-100777",
            "9007199254740993",
            "123456789012345678901",
            "#known",
        ]),
        accounts: set(&["NL91ABNA0417164300"]),
        ..List::default()
    }
}

fn said(kind: RecipientKind, places: &[&str], args: &str) -> Result<(), Objection> {
    let mut rule = RecipientRule::new("r", at(places), kind);
    rule.region = Region::named("GB");
    let args = Arguments::read(Bytes::copy_from_slice(args.as_bytes())).unwrap();
    judge(&rule, &list(), &args)
}

fn code(said: Result<(), Objection>) -> &'static str {
    said.map_or_else(|objection| objection.code.as_str(), |()| "ok")
}

/// Each value in a field of its own.
fn each(kind: RecipientKind, cases: &[(Value, &str)]) {
    for (value, expected) in cases {
        let args = json!({"to": value}).to_string();
        assert_eq!(code(said(kind, &["/to"], &args)), *expected, "{args}");
    }
}

#[test]
fn mailboxes() {
    each(
        RecipientKind::Email,
        &[
            (json!("Orders <ORDERS@Shop.example>"), "ok"),
            (
                json!("\"Doe, Ann\" <ann@staff.shop.example>, orders@shop.example"),
                "ok",
            ),
            (
                json!(["ann@staff.shop.example", "Bob B. <bob@staff.shop.example>"]),
                "ok",
            ),
            (json!("ann@b\u{fc}cher.example"), "ok"),
            (json!("ann@a.regions.example"), "ok"),
            (json!("ann@b.a.regions.example"), "ok"),
            (json!("ann@regions.example"), "recipient_not_allowed"),
            (json!("ann@evilregions.example"), "recipient_not_allowed"),
            (json!("j\u{f6}rg@shop.example"), "ok"),
            (json!("jo\u{308}rg@shop.example"), "recipient_not_allowed"),
            (json!("J\u{d6}RG@shop.example"), "recipient_not_allowed"),
            (
                json!("j\u{f6}rg@staff.shop.example"),
                "recipient_not_allowed",
            ),
            (json!("orders+x@shop.example"), "recipient_not_allowed"),
            (
                json!("ann@staff.shop.example.evil.example"),
                "recipient_not_allowed",
            ),
            (
                json!("ann@st\u{430}ff.shop.example"),
                "recipient_not_allowed",
            ),
            (
                json!("ann@STAFF\u{ff0e}shop.example"),
                "malformed_recipient",
            ),
            (
                json!("ann\u{ff20}staff.shop.example"),
                "malformed_recipient",
            ),
            (json!("ann@staff.shop.example,"), "malformed_recipient"),
            (
                json!("ann@staff.shop.example;eve@evil.example"),
                "unsupported_syntax",
            ),
            (
                json!("ann@staff.shop.example (eve@evil.example)"),
                "unsupported_syntax",
            ),
            (
                json!("\"eve@evil.example\"@staff.shop.example"),
                "unsupported_syntax",
            ),
            (
                json!("<@evil.example:ann@staff.shop.example>"),
                "unsupported_syntax",
            ),
            (
                json!("=?utf-8?q?Ann?= <ann@staff.shop.example>"),
                "unsupported_syntax",
            ),
            (
                json!("=?utf-8?q?eve=40evil.example=3e=00?=@staff.shop.example"),
                "unsupported_syntax",
            ),
            (json!("ann@[192.0.2.1]"), "unsupported_syntax"),
            (
                json!("evil.example!eve@staff.shop.example"),
                "unsupported_syntax",
            ),
            (
                json!("eve%evil.example@staff.shop.example"),
                "unsupported_syntax",
            ),
            (
                json!("ann@staff.shop.example\u{2028}Bcc: eve@evil.example"),
                "header_injection",
            ),
            (
                json!("ann@staff.shop.example\rBcc: eve@evil.example"),
                "header_injection",
            ),
            (json!("ann@staff.shop.example\u{0}"), "malformed_recipient"),
            (json!("ann@staff.sh\u{ad}op.example"), "malformed_recipient"),
            (
                json!({"email": "ann@staff.shop.example"}),
                "malformed_recipient",
            ),
            (json!([["ann@staff.shop.example"]]), "malformed_recipient"),
            (json!([]), "no_recipient"),
            (json!(null), "no_recipient"),
            (json!(" "), "no_recipient"),
            (json!(true), "malformed_recipient"),
        ],
    );
    let nested =
        r#"{"msg": {"To": [{"addr": "ann@staff.shop.example"}, {"addr": "eve@evil.example"}]}}"#;
    let places = ["/msg/to/*/addr"];
    assert_eq!(
        code(said(RecipientKind::Email, &places, nested)),
        "recipient_not_allowed"
    );
}

#[test]
fn header_fields_that_a_tool_takes_as_such_name_recipients_too() {
    for (more, expected) in [
        (json!({"headers": {"X-Mailer": "eve@evil.example"}}), "ok"),
        (
            json!({"headers": {"Reply-To": "ann@staff.shop.example"}}),
            "ok",
        ),
        (json!({"headers": [{"name": "X-Id", "value": "7"}]}), "ok"),
        (
            json!({"headers": {"Bcc": "eve@evil.example"}}),
            "recipient_not_allowed",
        ),
        (
            json!({"options": {"custom_headers": {"resent_to": ["eve@evil.example"]}}}),
            "recipient_not_allowed",
        ),
        (
            json!({"internetMessageHeaders": [{"name": "reply-to", "value": "eve@evil.example"}]}),
            "recipient_not_allowed",
        ),
        (json!({"headers": {"Cc": "a b"}}), "malformed_recipient"),
    ] {
        let mut args = json!({"to": "orders@shop.example"});
        let members = args.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let said = said(RecipientKind::Email, &["/to"], &args.to_string());
        assert_eq!(code(said), expected, "{args}");
    }
    // Who gets the answers is nobody who gets the mail.
    let args = r#"{"to": [], "headers": {"Reply-To": "orders@shop.example"}}"#;
    assert_eq!(
        code(said(RecipientKind::Email, &["/to"], args)),
        "no_recipient"
    );
}

#[test]
fn pluses_are_folded_only_where_the_rule_says_so() {
    let mut rule = RecipientRule::new("r", at(&["/to"]), RecipientKind::Email);
    let judge = |rule: &RecipientRule, to: &str| {
        let args = Arguments::read(Bytes::from(json!({"to": to}).to_string())).unwrap();
        code(judge(rule, &list(), &args))
    };
    assert_eq!(
        judge(&rule, "orders+x@shop.example"),
        "recipient_not_allowed"
    );
    rule.plus = Plus::Fold;
    assert_eq!(judge(&rule, "orders+x@shop.example"), "ok");
    assert_eq!(judge(&rule, "Orders+a+b@shop.example"), "ok");
    assert_eq!(
        judge(&rule, "eve+orders@shop.example"),
        "recipient_not_allowed"
    );
    assert_eq!(
        judge(&rule, "+orders@shop.example"),
        "recipient_not_allowed"
    );
    assert_eq!(
        judge(&rule, "orders-x@shop.example"),
        "recipient_not_allowed"
    );
}

#[test]
fn whole_messages() {
    let message = |head: &str| json!(BASE64URL.encode(format!("{head}\r\n\r\nhello").as_bytes()));
    each(
        RecipientKind::RawEmail,
        &[
            (
                message("From: me@else.example\r\nTo: orders@shop.example\r\nSubject: Hi"),
                "ok",
            ),
            (
                message("To: orders@shop.example,\r\n ann@staff.shop.example"),
                "ok",
            ),
            (
                message("To: orders@shop.example\r\nBcc: eve@evil.example"),
                "recipient_not_allowed",
            ),
            (
                message("To: orders@shop.example\r\nResent-Bcc: eve@evil.example"),
                "recipient_not_allowed",
            ),
            (
                message("To: orders@shop.example\r\nReply-To: eve@evil.example"),
                "recipient_not_allowed",
            ),
            (
                message("To: orders@shop.example\r\nTo: eve@evil.example"),
                "malformed_recipient",
            ),
            (
                message("To: orders@shop.example\nBcc: eve@evil.example"),
                "header_injection",
            ),
            (message("Reply-To: orders@shop.example"), "no_recipient"),
            (message("Subject: Hi"), "no_recipient"),
            (json!("To: orders@shop.example\n\nhello"), "ok"),
            (json!("%%%"), "malformed_recipient"),
            (json!(""), "no_recipient"),
            (json!(7), "malformed_recipient"),
        ],
    );
}

#[test]
fn numbers_accounts_and_ids() {
    each(
        RecipientKind::Phone,
        &[
            (json!("07700 900123"), "ok"),
            (json!(["+447700900123"]), "ok"),
            (
                json!(["+447700900123", "+19005550199"]),
                "recipient_not_allowed",
            ),
            (json!("+447700900123, +19005550199"), "malformed_phone"),
            (json!(447_700_900_123_u64), "malformed_phone"),
            (json!(""), "no_recipient"),
        ],
    );
    each(
        RecipientKind::Iban,
        &[
            (json!("nl91 abna 0417 1643 00"), "ok"),
            (json!("NL91ABNA0417164301"), "malformed_iban"),
            (json!("NL91-ABNA-0417-1643-00"), "malformed_iban"),
            (json!("NL91ABNA\u{200b}0417164300"), "malformed_iban"),
            (json!("NL91ABNA0417164300\n"), "malformed_iban"),
            (json!("IBAN NL91ABNA0417164300"), "malformed_iban"),
            (json!("DE89370400440532013000"), "recipient_not_allowed"),
        ],
    );
    for (value, expected) in [
        (r#""C0SHOP123""#, "ok"),
        (r#""c0shop123""#, "recipient_not_allowed"),
        (r#"" C0SHOP123""#, "malformed_recipient"),
        (r#""C0SHOP123\n""#, "malformed_recipient"),
        (r##""#general""##, "recipient_not_allowed"),
        (r##""#known""##, "ok"),
        ("-100777", "ok"),
        (r#""-100777""#, "ok"),
        (r#""-0100777""#, "recipient_not_allowed"),
        ("-100777.0", "malformed_recipient"),
        ("-1.00777e5", "malformed_recipient"),
        ("-0", "malformed_recipient"),
        ("9007199254740993", "ok"),
        ("9007199254740992", "recipient_not_allowed"),
        ("123456789012345678901", "ok"),
        ("123456789012345678900", "recipient_not_allowed"),
        (r#"["C0SHOP123", -100777]"#, "ok"),
        (r#"["C0SHOP123", "C0EVIL"]"#, "recipient_not_allowed"),
        ("true", "malformed_recipient"),
        (r#""""#, "no_recipient"),
    ] {
        let args = format!("{{\"to\": {value}}}");
        assert_eq!(
            code(said(RecipientKind::Chat, &["/to"], &args)),
            expected,
            "{value}"
        );
    }
}

#[test]
fn calendar_events() {
    let judge = |event: Value| {
        said(
            RecipientKind::Calendar,
            &["/attendees/*/email"],
            &event.to_string(),
        )
    };
    let ann = json!([{"email": "ann@staff.shop.example", "displayName": "eve@evil.example"}]);
    for (rest, expected) in [
        (json!({}), "ok"),
        (
            json!({"guestsCanInviteOthers": false, "visibility": "private", "anyoneCanAddSelf": false}),
            "ok",
        ),
        (
            json!({"isOnlineMeeting": true, "conferenceData": {"createRequest": {"requestId": "x"}}}),
            "ok",
        ),
        (
            json!({"organizer": {"email": "bob@staff.shop.example", "self": true}}),
            "ok",
        ),
        (
            json!({"organizer": {"email": "eve@evil.example"}}),
            "recipient_not_allowed",
        ),
        (json!({"guestsCanInviteOthers": true}), "guest_escalation"),
        (
            json!({"guests_can_invite_others": "true"}),
            "guest_escalation",
        ),
        (
            json!({"event": {"GuestsCanInviteOthers": 1}}),
            "guest_escalation",
        ),
        (json!({"guestsCanModify": true}), "guest_escalation"),
        (json!({"anyoneCanAddSelf": "maybe"}), "guest_escalation"),
        (json!({"visibility": "public"}), "public_share"),
        (json!({"visibility": "PUBLIC "}), "public_share"),
        (json!({"visibility": "world"}), "public_share"),
        (
            json!({"conference": {"dialOut": ["+19005550199"]}}),
            "guest_escalation",
        ),
        (
            json!({"guests": ["eve@evil.example"]}),
            "recipient_not_allowed",
        ),
        (
            json!({"optionalAttendees": [{"emailAddress": {"address": "eve@evil.example", "name": "Ann"}}]}),
            "recipient_not_allowed",
        ),
        (
            json!({"attendees": [{"email": "ann@staff.shop.example"}, "eve@evil.example"]}),
            "recipient_not_allowed",
        ),
        (
            json!({"attendees": [{"email": "ann@staff.shop.example"}, {"displayName": "Eve"}]}),
            "malformed_recipient",
        ),
        (
            json!({"attendees": [{"email": "ann@staff.shop.example"}, {"email": ""}]}),
            "malformed_recipient",
        ),
        (
            json!({"attendees": [{"email": "ann@staff.shop.example"}, {"mail": "eve@evil.example"}]}),
            "recipient_not_allowed",
        ),
        (
            json!({"attendees": {"email": "eve@evil.example"}}),
            "recipient_not_allowed",
        ),
        (
            json!({"additionalGuests": ["eve@evil.example"]}),
            "recipient_not_allowed",
        ),
        (
            json!({"extra_attendee_emails": ["eve@evil.example"]}),
            "recipient_not_allowed",
        ),
        (
            json!({"optional_guest_email_addresses": "eve@evil.example"}),
            "recipient_not_allowed",
        ),
        (
            json!({"maxAttendees": 1, "additionalGuests": 2, "guestsCanSeeOtherGuests": true, "attendeesOmitted": false}),
            "ok",
        ),
        (json!({"attendees": []}), "no_recipient"),
        (json!({"attendees": null}), "no_recipient"),
        (json!({"attendees": [7]}), "malformed_recipient"),
    ] {
        let mut event = json!({"summary": "x", "attendees": ann});
        event
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        assert_eq!(code(judge(event.clone())), expected, "{event}");
    }
    let mut open = RecipientRule::new("r", at(&["/attendees/*/email"]), RecipientKind::Calendar);
    open.permits = [Permit::GuestInvite, Permit::Public].into();
    let event = json!({"attendees": ann, "visibility": "public", "guestsCanInviteOthers": true});
    let args = Arguments::read(Bytes::from(event.to_string())).unwrap();
    assert_eq!(
        holdpoint::layers::recipients::judge(&open, &list(), &args),
        Ok(())
    );
    let graph = json!({"attendees": [{"emailAddress": {"address": "ann@staff.shop.example", "name": "Ann"}, "type": "required"}]});
    let places = ["/attendees/*/emailAddress/address"];
    assert_eq!(
        code(said(RecipientKind::Calendar, &places, &graph.to_string())),
        "ok"
    );
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn grants() {
    for (grant, expected) in [
        (
            json!({"type": "user", "role": "reader", "emailAddress": "ann@staff.shop.example"}),
            "ok",
        ),
        (
            json!({"type": "user", "role": "writer", "emailAddress": "eve@evil.example"}),
            "recipient_not_allowed",
        ),
        (
            json!({"type": "group", "role": "reader", "emailAddress": "all@evil.example"}),
            "recipient_not_allowed",
        ),
        (
            json!({"type": "domain", "role": "reader", "domain": "staff.shop.example"}),
            "ok",
        ),
        (
            json!({"type": "domain", "role": "reader", "domain": "evil.example"}),
            "recipient_not_allowed",
        ),
        (
            json!({"type": "domain", "role": "reader", "domain": "x.staff.shop.example"}),
            "recipient_not_allowed",
        ),
        (json!({"type": "domain", "role": "reader"}), "no_recipient"),
        (json!({"type": "user", "role": "reader"}), "no_recipient"),
        (
            json!({"type": "user", "role": "reader", "emailAddress": ""}),
            "no_recipient",
        ),
        (json!({"role": "reader"}), "no_recipient"),
        (json!({"type": "anyone", "role": "reader"}), "public_share"),
        (json!({"type": "Anyone", "role": "reader"}), "public_share"),
        (
            json!({"type": "anyone", "emailAddress": "ann@staff.shop.example"}),
            "public_share",
        ),
        (
            json!({"type": "anyoneWithLink", "role": "reader"}),
            "public_share",
        ),
        (
            json!({"type": "martian", "emailAddress": "ann@staff.shop.example"}),
            "malformed_recipient",
        ),
        (
            json!({"type": ["user"], "emailAddress": "ann@staff.shop.example"}),
            "malformed_recipient",
        ),
        (
            json!({"type": "user", "role": "owner", "emailAddress": "ann@staff.shop.example"}),
            "ownership_transfer",
        ),
        (
            json!({"type": "user", "role": "writer", "emailAddress": "ann@staff.shop.example", "transferOwnership": true}),
            "ownership_transfer",
        ),
        (
            json!({"type": "user", "role": "writer", "emailAddress": "ann@staff.shop.example", "pendingOwner": "true"}),
            "ownership_transfer",
        ),
        (
            json!({"type": "user", "role": "writer", "emailAddress": "ann@staff.shop.example", "transferOwnership": false}),
            "ok",
        ),
        (
            json!({"file": "f", "permissions": [{"type": "user", "emailAddress": "ann@staff.shop.example"}, {"type": "anyone"}]}),
            "public_share",
        ),
        (
            json!({"permissionId": "anyoneWithLink", "role": "writer"}),
            "public_share",
        ),
        (
            json!({"scope": {"type": "default"}, "role": "reader"}),
            "public_share",
        ),
        (
            json!({"scope": {"type": "user", "value": "ann@staff.shop.example"}, "role": "reader"}),
            "ok",
        ),
        (
            json!({"type": "domain", "value": "staff.shop.example", "role": "reader", "withLink": true}),
            "public_share",
        ),
        (
            json!({"type": "view", "scope": "anonymous"}),
            "public_share",
        ),
        (
            json!({"type": "view", "scope": "organization"}),
            "public_share",
        ),
        (json!({"type": "view"}), "no_recipient"),
        (
            json!({"recipients": [{"email": "ann@staff.shop.example"}], "roles": ["read"]}),
            "ok",
        ),
        (
            json!({"recipients": [{"email": "ann@staff.shop.example"}], "roles": ["owner"]}),
            "ownership_transfer",
        ),
        (json!({"bucket": "b", "acl": "public-read"}), "public_share"),
        (
            json!({"bucket": "b", "ACL": "authenticated-read"}),
            "public_share",
        ),
        (json!({"bucket": "b", "acl": "private"}), "ok"),
        (json!({"bucket": "b", "acl": "odd"}), "malformed_recipient"),
        (
            json!({"grantee": {"uri": "http://acs.amazonaws.com/groups/global/AllUsers", "type": "Group"}}),
            "public_share",
        ),
        (
            json!({"bindings": [{"role": "roles/viewer", "members": ["user:ann@staff.shop.example", "allUsers"]}]}),
            "public_share",
        ),
        (
            json!({"bindings": [{"role": "roles/viewer", "members": ["user:ann@staff.shop.example", "domain:staff.shop.example"]}]}),
            "ok",
        ),
        (json!({"repo": "r", "private": false}), "public_share"),
        (json!({"repo": "r", "visibility": "public"}), "public_share"),
        (json!({"shared_link": {"access": "open"}}), "public_share"),
        (
            json!({"member": {".tag": "email", "email": "ann@staff.shop.example"}}),
            "ok",
        ),
        (
            json!({"settings": {"audience": {".tag": "public"}}}),
            "public_share",
        ),
        (
            json!({"file_id": "1", "user": "C0SHOP123", "permission": "r"}),
            "ok",
        ),
        (
            json!({"file_id": "1", "user": "U0EVIL", "permission": "r"}),
            "recipient_not_allowed",
        ),
        (
            json!({"file_id": "1", "email": "ann@staff.shop.example, eve@evil.example", "permission": "r"}),
            "recipient_not_allowed",
        ),
    ] {
        assert_eq!(
            code(said(RecipientKind::Share, &[""], &grant.to_string())),
            expected,
            "{grant}"
        );
    }
    let mut open = RecipientRule::new("r", at(&[""]), RecipientKind::Share);
    open.permits = [Permit::Anyone, Permit::OwnershipTransfer].into();
    for grant in [
        r#"{"type": "anyone", "role": "writer"}"#,
        r#"{"type": "user", "role": "owner", "emailAddress": "ann@staff.shop.example"}"#,
    ] {
        let args = Arguments::read(Bytes::copy_from_slice(grant.as_bytes())).unwrap();
        assert_eq!(judge(&open, &list(), &args), Ok(()), "{grant}");
    }
}

proptest! {
    #[test]
    fn a_foreign_address_stays_denied_however_it_is_dressed(
        before in proptest::collection::vec(prop_oneof![
            Just("orders@shop.example"), Just(", "), Just("\""), Just("<"), Just(">"), Just("("), Just(")"), Just(";"), Just(":"),
            Just("\\"), Just(" "), Just("Ann"), Just("\u{200b}"), Just("\n"), Just("=?")
        ], 0..6),
        after in proptest::collection::vec(prop_oneof![
            Just("orders@shop.example"), Just(", "), Just("\""), Just(">"), Just(")"), Just(" "), Just("<orders@shop.example>")
        ], 0..5),
    ) {
        let to = format!("{}eve@evil.example{}", before.concat(), after.concat());
        let args = json!({"to": to}).to_string();
        let outside_quotes = !before.contains(&"\"");
        if outside_quotes {
            prop_assert!(said(RecipientKind::Email, &["/to"], &args).is_err(), "{}", to);
        }
    }

    #[test]
    fn an_allowed_address_stays_allowed_however_it_is_spelled(
        upper in proptest::collection::vec(any::<bool>(), 19),
        name in prop_oneof![Just(""), Just("Ann"), Just("\"Doe, Ann\""), Just("Dr. J\u{f6}rg O'Neill"), Just("\"eve@evil.example\"")],
        gap in " {0,2}",
        copies in 1_usize..4,
    ) {
        let address: String = "orders@shop.example".chars().zip(&upper)
            .map(|(c, up)| if *up { c.to_ascii_uppercase() } else { c }).collect();
        let one = if name.is_empty() { format!("{gap}{address}{gap}") } else { format!("{name} {gap}<{address}>{gap}") };
        let args = json!({"to": vec![one; copies].join(",")}).to_string();
        prop_assert_eq!(said(RecipientKind::Email, &["/to"], &args), Ok(()));
    }

    #[test]
    fn judging_never_panics(args in "\\{\"to\": (\\PC{0,20})\\}") {
        if let Ok(args) = Arguments::read(Bytes::from(args)) {
            for kind in RecipientKind::ALL {
                let rule = RecipientRule::new("r", at(&["/to", "/**"]), kind);
                let _ = judge(&rule, &list(), &args);
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct File<'f> {
    #[serde(borrow)]
    vectors: Vec<Vector<'f>>,
    policies: Value,
    reason_codes: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Vector<'f> {
    id: String,
    kind: String,
    policy: String,
    #[serde(borrow)]
    input: &'f RawValue,
    expected: Value,
}

fn texts(list: &Value) -> Vec<String> {
    let entries = list.as_array().into_iter().flatten();
    entries
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn rule_of(kind: RecipientKind, given: &Value) -> RecipientRule {
    let places = match kind {
        RecipientKind::Share => vec![String::new()],
        RecipientKind::RawEmail => vec!["/raw".to_owned()],
        _ => texts(&given["fields"])
            .iter()
            .map(|field| format!("/{}", field.replace("[*]", ".*").replace('.', "/")))
            .collect(),
    };
    let at = places
        .iter()
        .map(|place| Selector::parse(place).unwrap())
        .collect();
    let mut rule = RecipientRule::new("r", at, kind);
    if given["plus"] == "fold" {
        rule.plus = Plus::Fold;
    }
    rule.region = given["default_region"].as_str().and_then(Region::named);
    for (permit, key, _) in Permit::SWITCHES {
        if given[key] == true {
            rule.permits.insert(permit);
        }
    }
    rule
}

fn list_of(given: &Value) -> List {
    let set = |key: &str| texts(&given[key]).into_iter().collect();
    List {
        emails: set("addresses"),
        email_domains: set("domains"),
        email_subdomains_of: set("subdomains_of"),
        share_domains: set("domains"),
        phones: set("numbers"),
        accounts: set("ibans"),
        chats: set("ids"),
        ..List::default()
    }
}

#[test]
fn the_vectors_for_developers() {
    let Some(path) = data("egress/vectors_dev.json") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let file: File<'_> = serde_json::from_str(&text).unwrap();
    for code in Code::ALL {
        assert!(
            file.reason_codes.iter().any(|known| known == code.as_str()),
            "{code}"
        );
    }
    let mut judged = 0;
    for vector in &file.vectors {
        let kind = match vector.kind.as_str() {
            "email" => RecipientKind::Email,
            "email_raw" => RecipientKind::RawEmail,
            "phone" => RecipientKind::Phone,
            "iban" => RecipientKind::Iban,
            "chat" => RecipientKind::Chat,
            "calendar" => RecipientKind::Calendar,
            "share" => RecipientKind::Share,
            _ => continue,
        };
        judged += 1;
        let given = &file.policies[&vector.policy];
        let args = Bytes::copy_from_slice(vector.input.get().as_bytes());
        let args = Arguments::read(args).unwrap();
        let said = code(judge(&rule_of(kind, given), &list_of(given), &args));
        let expected = &vector.expected;
        let others = texts(&expected["reason_any"]);
        let fits = expected["reason"] == said || others.iter().any(|other| other == said);
        assert!(
            fits,
            "{} {}: {said}, not {expected}",
            vector.id, vector.input
        );
    }
    assert!(judged >= 20, "only {judged} judged");
}
