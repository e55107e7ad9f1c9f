//! The public matchers over every class of spelling: what a rule denies stays denied however it is written, and what it allows
//! stays allowed in every plain spelling.

use holdpoint::layers::egress::{self, Code, Entry, Rule};
use proptest::prelude::*;

fn rule(entries: &[&str]) -> Rule {
    let mut rule = Rule::new();
    for entry in entries {
        rule.allow(Entry::read(entry).unwrap());
    }
    rule
}

fn code(rule: &Rule, url: &str) -> &'static str {
    egress::url(rule, url).map_or_else(|denied| denied.code.as_str(), |_| "ok")
}

fn shop() -> Rule {
    rule(&[
        "pay.shop.example",
        "*.img.shop.example",
        "b\u{fc}cher.example",
        "api.shop.example:8443",
        "git.example/org",
        "git.example/pub",
        "93.184.216.34",
        "10.1.0.0/16",
        "[2606:2800:220::1]:8443",
    ])
}

#[test]
fn plain_spellings_of_what_is_listed_pass() {
    for url in [
        "https://pay.shop.example",
        "https://pay.shop.example/",
        "https://pay.shop.example?q",
        "https://pay.shop.example#f",
        "HTTPS://PAY.Shop.Example/",
        "https://pay.shop.example./",
        "https://pay.shop.example:443/x",
        "https://pay.shop.example.:443/",
        "wss://pay.shop.example/socket",
        "https://pay.shop.example/u/@bob",
        "https://pay.shop.example/a:b@c/%40",
        "https://pay.shop.example/?next=https://evil.example/",
        "https://pay.shop.example/%2e%2e/x",
        "https://pay.shop.example/b\u{fc}cher?q=\u{fc}",
        "https://a.img.shop.example/",
        "https://a.b.c.img.shop.example/",
        "https://b\u{fc}cher.example/",
        "https://xn--bcher-kva.example/",
        "https://XN--BCHER-KVA.example./",
        "https://api.shop.example:8443/",
        "https://git.example/org",
        "https://git.example/org/repo/",
        "https://git.example/./org/x",
        "https://git.example/pub/x?y=/../..",
        "https://93.184.216.34/",
        "https://10.1.2.3/",
        "https://[2606:2800:220:0:0::1]:8443/",
    ] {
        assert_eq!(code(&shop(), url), "ok", "{url}");
    }
}

const DENIED: &[(&str, &str)] = &[
    // Another host.
    ("https://evil.example/", "host_not_allowed"),
    ("https://pay.shop.example.evil.example/", "host_not_allowed"),
    ("https://evil.example/pay.shop.example", "host_not_allowed"),
    ("https://evil.example?pay.shop.example", "host_not_allowed"),
    ("https://evil.example#@pay.shop.example", "host_not_allowed"),
    ("https://xpay.shop.example/", "host_not_allowed"),
    ("https://pay-shop.example/", "host_not_allowed"),
    ("https://shop.example/", "host_not_allowed"),
    ("https://img.shop.example/", "host_not_allowed"),
    ("https://ximg.shop.example/", "host_not_allowed"),
    ("https://x.pay.shop.example/", "host_not_allowed"),
    ("https://p\u{430}y.shop.example/", "host_not_allowed"),
    ("https://xn--py-7kc.shop.example/", "host_not_allowed"),
    // Another place for some reader.
    ("https://pay.shop.example@evil.example/", "userinfo"),
    ("https://pay.shop.example:443@evil.example/", "userinfo"),
    ("https://@pay.shop.example/", "userinfo"),
    ("https://u:p@pay.shop.example/", "userinfo"),
    (
        "https://evil.example\\@pay.shop.example/",
        "ambiguous_authority",
    ),
    (
        "https://pay.shop.example\\.evil.example/",
        "ambiguous_authority",
    ),
    ("https:\\\\pay.shop.example/", "ambiguous_authority"),
    ("https:/\\pay.shop.example/", "ambiguous_authority"),
    ("https://pay.shop.example%2eevil.example/", "encoded_host"),
    ("https://pay.shop.example%00.evil.example/", "encoded_host"),
    ("https://%70ay.shop.example/", "encoded_host"),
    ("https://pay.shop.example\t/", "control_char"),
    ("https://pay.shop.example\r\n/", "control_char"),
    ("https://pay.shop.example\u{0}/", "control_char"),
    ("https://pay.shop.example/\u{7f}", "control_char"),
    ("ht\ntps://pay.shop.example/", "control_char"),
    // Characters that readers map or drop.
    ("https://pay\u{ff0e}shop.example/", "ambiguous_host"),
    ("https://pay\u{3002}shop.example/", "ambiguous_host"),
    ("https://pay\u{ff61}shop.example/", "ambiguous_host"),
    ("https://\u{ff50}ay.shop.example/", "ambiguous_host"),
    ("https://pa\u{ad}y.shop.example/", "ambiguous_host"),
    ("https://pay\u{200b}.shop.example/", "ambiguous_host"),
    ("https://pay\u{200d}.shop.example/", "ambiguous_host"),
    ("https://pay\u{2060}.shop.example/", "ambiguous_host"),
    ("https://\u{feff}pay.shop.example/", "ambiguous_host"),
    ("https://pay.shop.example\u{202e}/", "ambiguous_host"),
    ("https://p\u{1d44e}y.shop.example/", "ambiguous_host"),
    ("https://pay.\u{17f}hop.example/", "ambiguous_host"),
    ("https://B\u{dc}CHER.example/", "ambiguous_host"),
    ("https://bu\u{308}cher.example/", "ambiguous_host"),
    ("https://xn--pay-.shop.example/", "ambiguous_host"),
    // No URL.
    ("", "malformed_url"),
    ("pay.shop.example/x", "malformed_url"),
    ("//pay.shop.example/", "malformed_url"),
    ("/x", "malformed_url"),
    ("https:pay.shop.example", "malformed_url"),
    ("https:/pay.shop.example", "malformed_url"),
    ("https:///pay.shop.example", "malformed_url"),
    ("https://", "malformed_url"),
    ("https:///", "malformed_url"),
    (" https://pay.shop.example/", "malformed_url"),
    ("https://pay.shop.example/ x", "malformed_url"),
    ("https://pay.shop.example?\\@evil.example", "malformed_url"),
    ("https://pay.shop.example\u{a0}/", "malformed_url"),
    ("https://pay..shop.example/", "malformed_url"),
    ("https://.pay.shop.example/", "malformed_url"),
    ("https://pay.shop.example../", "malformed_url"),
    ("https://pay.shop.example,evil.example/", "malformed_url"),
    ("https://pay.shop.example;evil.example/", "malformed_url"),
    ("https://*.img.shop.example/", "malformed_url"),
    ("https://pay.shop.example:/", "malformed_url"),
    ("https://pay.shop.example:0/", "malformed_url"),
    ("https://pay.shop.example:0443/", "malformed_url"),
    ("https://pay.shop.example:65979/", "malformed_url"),
    ("https://pay.shop.example:+443/", "malformed_url"),
    ("https://pay.shop.example:443:443/", "malformed_url"),
    ("https://pay.shop.example:\u{ff14}43/", "malformed_url"),
    // Another scheme, port or path.
    ("http://pay.shop.example/", "scheme_not_allowed"),
    ("ws://pay.shop.example/", "scheme_not_allowed"),
    ("ftp://pay.shop.example/", "scheme_not_allowed"),
    ("gopher://pay.shop.example/", "scheme_not_allowed"),
    ("file:///etc/passwd", "scheme_not_allowed"),
    (
        "javascript:alert(1)//pay.shop.example",
        "scheme_not_allowed",
    ),
    ("data:text/html,x", "scheme_not_allowed"),
    (
        "view-source:https://pay.shop.example/",
        "scheme_not_allowed",
    ),
    ("https://pay.shop.example:8443/", "port_not_allowed"),
    ("https://pay.shop.example:80/", "port_not_allowed"),
    ("https://api.shop.example/", "port_not_allowed"),
    ("https://git.example/", "path_not_allowed"),
    ("https://git.example/organ", "path_not_allowed"),
    ("https://git.example/Org", "path_not_allowed"),
    ("https://git.example/org/../other", "path_not_allowed"),
    ("https://git.example/org/./../../x", "path_not_allowed"),
    ("https://git.example//org", "path_not_allowed"),
    ("https://git.example/org//../other", "path_not_allowed"),
    ("https://git.example/org/%2e%2e/other", "ambiguous_path"),
    ("https://git.example/org/.%2E/other", "ambiguous_path"),
    ("https://git.example/org%2f..%2fother", "ambiguous_path"),
    ("https://git.example/org/..%5Cother", "ambiguous_path"),
    ("https://git.example/org/..\\other", "ambiguous_path"),
    ("https://git.example/org/%252e%252e/other", "ambiguous_path"),
    ("https://git.example/org/..;/other", "ambiguous_path"),
    // Addresses.
    ("https://93.184.216.35/", "ip_literal"),
    ("https://93.184.216.34:8443/", "port_not_allowed"),
    ("https://[2606:2800:220::2]:8443/", "ip_literal"),
    ("https://[::ffff:93.184.216.34]/", "ip_literal"),
    ("https://[64:ff9b::93.184.216.34]/", "ip_literal"),
    ("https://[::ffff:10.1.2.3]/", "private_address"),
    ("https://10.2.0.1/", "private_address"),
    ("https://127.0.0.1/", "private_address"),
    ("https://[::1]/", "private_address"),
    ("https://[::]/", "private_address"),
    ("https://[fd00:ec2::254]/", "private_address"),
    ("https://[fe80::1]/", "private_address"),
    ("https://[2002:7f00:1::]/", "private_address"),
    (
        "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
        "private_address",
    ),
    (
        "https://169.254.169.254/latest/meta-data/",
        "private_address",
    ),
    ("https://100.100.100.200/", "private_address"),
    ("https://168.63.129.16/", "private_address"),
    ("https://localhost/", "private_address"),
    ("https://LOCALHOST./", "private_address"),
    ("https://db.localhost/", "private_address"),
    ("https://metadata.google.internal/", "private_address"),
    ("https://93.184.216.34./", "ambiguous_ip"),
    ("https://93.184.55330/", "ambiguous_ip"),
    ("https://0x5d.184.216.34/", "ambiguous_ip"),
    ("https://0135.184.216.34/", "ambiguous_ip"),
    ("https://093.184.216.34/", "ambiguous_ip"),
    ("https://1572395042/", "ambiguous_ip"),
    ("https://0x5db8d822/", "ambiguous_ip"),
    ("https://127.1/", "ambiguous_ip"),
    ("https://0/", "ambiguous_ip"),
    ("https://1.2.3.4.5/", "ambiguous_ip"),
    ("https://256.1.1.1/", "ambiguous_ip"),
    ("https://[fe80::1%25eth0]/", "encoded_host"),
    ("https://[2606:2800:220::1/", "ambiguous_ip"),
    ("https://[pay.shop.example]/", "ambiguous_ip"),
    ("https://[v1.x]/", "ambiguous_ip"),
];

#[test]
fn everything_else_is_denied_with_its_code() {
    for (url, expected) in DENIED {
        assert_eq!(code(&shop(), url), *expected, "{url}");
    }
    let known = Code::ALL.map(Code::as_str);
    assert!(DENIED.iter().all(|(_, code)| known.contains(code)));
}

#[test]
fn any_public_name_is_neither_local_nor_an_address() {
    let mut any = rule(&["*"]);
    any.schemes.push("http".to_owned());
    for url in [
        "https://shop.example/",
        "http://a.b.c.example/",
        "https://localhost.example/",
    ] {
        assert_eq!(code(&any, url), "ok", "{url}");
    }
    for url in [
        "https://localhost/",
        "https://intranet/",
        "https://printer.local/",
        "https://vault.internal/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://shop.example:8080/",
    ] {
        assert_ne!(code(&any, url), "ok", "{url}");
    }
    any.deny_private = false;
    assert_eq!(code(&any, "https://127.0.0.1/"), "ip_literal");
}

#[test]
fn the_most_precise_entry_decides_about_paths() {
    let rule = rule(&["*", "*.git.example/pub", "git.example/org"]);
    for (url, expected) in [
        ("https://other.example/x", "ok"),
        ("https://git.example/org/x", "ok"),
        ("https://git.example/x", "path_not_allowed"),
        ("https://a.git.example/pub", "ok"),
        ("https://a.git.example/x", "path_not_allowed"),
    ] {
        assert_eq!(code(&rule, url), expected, "{url}");
    }
}

#[test]
fn limits_count_what_is_sent() {
    let mut rule = rule(&["a.example", "*.b.example"]);
    rule.max_query = Some(6);
    rule.max_path = Some(8);
    rule.max_label = Some(5);
    rule.deny_random_labels = true;
    for (url, expected) in [
        ("https://a.example/?123456#more", "ok"),
        ("https://a.example/?1234567", "query_too_long"),
        ("https://a.example/?\u{fc}", "ok"),
        ("https://a.example/?\u{fc}\u{fc}", "query_too_long"),
        ("https://a.example/1234567", "ok"),
        ("https://a.example/12345678", "path_not_allowed"),
        ("https://12345.b.example/", "ok"),
        ("https://123456.b.example/", "host_not_allowed"),
        ("https://1.123456.b.example/", "host_not_allowed"),
    ] {
        assert_eq!(code(&rule, url), expected, "{url}");
    }
    rule.max_label = None;
    let data = "https://9f86d081884c7d659a2feaa0c55ad015.b.example/";
    assert_eq!(code(&rule, data), "host_not_allowed");
}

/// Ways to write a name that readers may take for it.
fn respelled() -> impl Strategy<Value = String> {
    let name = "evil.example";
    (0..14_usize, 0..name.len()).prop_map(move |(way, at)| {
        let (head, tail) = name.split_at(at);
        let first = u32::from(tail.chars().next().unwrap_or('e'));
        let rest: String = tail.chars().skip(1).collect();
        match way {
            0 => name.to_uppercase(),
            1 => format!("{name}."),
            2 => format!("{head}%{first:02x}{rest}"),
            3 => format!("{head}\u{ad}{tail}"),
            4 => format!("{head}\u{200b}{tail}"),
            5 => name.replace('.', "\u{3002}"),
            6 => name.replace('.', "\u{ff0e}"),
            7 => format!("{head}\t{tail}"),
            8 => format!("{head}\n{tail}"),
            9 => format!("pay.shop.example@{name}"),
            10 => format!("{name}\\@pay.shop.example"),
            11 => format!("{name}#@pay.shop.example"),
            12 => name
                .chars()
                .map(|c| char::from_u32(u32::from(c) - 0x21 + 0xff01).unwrap())
                .collect(),
            _ => format!("{name}:443"),
        }
    })
}

/// Spellings of an IPv4 address, numbers in three bases, in four to one parts.
fn spelled(address: u32, parts: usize, bases: [u8; 4]) -> String {
    let bytes = address.to_be_bytes();
    let mut numbers: Vec<u32> = bytes
        .iter()
        .take(parts - 1)
        .map(|b| u32::from(*b))
        .collect();
    let rest = bytes
        .iter()
        .skip(parts - 1)
        .fold(0_u32, |sum, b| (sum << 8) | u32::from(*b));
    numbers.push(rest);
    let number = |(number, base): (&u32, u8)| match base {
        0 => format!("{number}"),
        1 => format!("0x{number:x}"),
        _ => format!("0{number:o}"),
    };
    let numbers: Vec<_> = numbers.iter().zip(bases).map(number).collect();
    numbers.join(".")
}

fn embeddings(address: u32) -> Vec<String> {
    let [a, b, c, d] = address.to_be_bytes();
    let (high, low) = (address >> 16, address & 0xffff);
    vec![
        format!("[::ffff:{a}.{b}.{c}.{d}]"),
        format!("[::{a}.{b}.{c}.{d}]"),
        format!("[::ffff:0:{a}.{b}.{c}.{d}]"),
        format!("[64:ff9b::{high:x}:{low:x}]"),
        format!("[64:ff9b:1::{high:x}:{low:x}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:1:2:3:4:{:x}:{:x}]", !high & 0xffff, !low & 0xffff),
        format!("[fe80::5efe:{high:x}:{low:x}]"),
        format!("[2606:4700::200:5efe:{high:x}:{low:x}]"),
    ]
}

proptest! {
    #[test]
    fn a_denied_host_stays_denied_however_it_is_written(
        scheme in "[hH][tT][tT][pP][sS]?",
        slashes in prop_oneof![Just("//"), Just("/"), Just("///"), Just("\\\\"), Just("/\\"), Just("")],
        name in respelled(),
        tail in "(/[a-z@:.]{0,8})?",
    ) {
        let url = format!("{scheme}:{slashes}{name}{tail}");
        let rule = rule(&["pay.shop.example", "*.shop.example"]);
        prop_assert!(egress::url(&rule, &url).is_err(), "{}", url);
        // Nor does it pass where texts are searched.
        let found = egress::find(&format!("see {url} now"));
        let passes = found.iter().all(|found| found.url.as_ref().is_ok_and(|url| rule.judge(url).is_ok()));
        prop_assert!(found.is_empty() || !passes, "{}", url);
    }

    #[test]
    fn an_allowed_host_stays_allowed_in_every_plain_spelling(
        upper in proptest::collection::vec(any::<bool>(), 40),
        dot in any::<bool>(),
        port in any::<bool>(),
        host in prop_oneof![Just("pay.shop.example"), Just("a.img.shop.example"), Just("xn--bcher-kva.example")],
        tail in "(/[a-zA-Z0-9@:._~%20-]{0,12})?([?][a-z=&/:@]{0,12})?(#[a-z]{0,4})?",
    ) {
        prop_assume!(!tail.contains('%') || tail.contains("%20"));
        let host: String = host
            .chars()
            .zip(upper)
            .map(|(c, upper)| if upper { c.to_ascii_uppercase() } else { c })
            .collect();
        let (dot, port) = (if dot { "." } else { "" }, if port { ":443" } else { "" });
        let url = format!("https://{host}{dot}{port}{tail}");
        prop_assert_eq!(code(&shop(), &url), "ok", "{}", url);
    }

    #[test]
    fn an_unlisted_address_stays_denied_in_every_spelling(
        address in any::<u32>(),
        parts in 1..=4_usize,
        bases in [0..3_u8, 0..3_u8, 0..3_u8, 0..3_u8],
    ) {
        let rule = rule(&["*", "93.184.216.34"]);
        prop_assume!(address != 0x5db8_d822);
        let plain = format!("https://{}/", spelled(address, parts, bases));
        prop_assert!(egress::url(&rule, &plain).is_err(), "{}", plain);
        for embedded in embeddings(address) {
            let url = format!("https://{embedded}/");
            prop_assert!(egress::url(&rule, &url).is_err(), "{}", url);
        }
    }

    #[test]
    fn a_listed_address_passes_plainly_and_only_so(
        parts in 1..=4_usize,
        bases in [0..3_u8, 0..3_u8, 0..3_u8, 0..3_u8],
    ) {
        let rule = rule(&["93.184.216.34", "0.0.0.0/0", "::/0"]);
        let url = format!("https://{}/", spelled(0x5db8_d822, parts, bases));
        let plain = parts == 4 && bases == [0; 4];
        prop_assert_eq!(egress::url(&rule, &url).is_ok(), plain, "{}", url);
        for embedded in embeddings(0x5db8_d822) {
            let url = format!("https://{embedded}/");
            prop_assert!(egress::url(&rule, &url).is_err(), "{}", url);
        }
    }

    #[test]
    fn what_passes_is_read_alike_by_another_reader(url in "https?:[/\\\\]{0,3}[a-zA-Z0-9.@:%\\\\/?#\\[\\]\u{e0}-\u{ff}\u{3000}-\u{3010}\u{ff00}-\u{ff5f}-]{0,40}") {
        let mut any = rule(&["*", "0.0.0.0/0"]);
        any.deny_private = false;
        any.schemes.push("http".to_owned());
        if let Ok(ours) = egress::url(&any, &url) {
            let theirs = url::Url::parse(&url).unwrap();
            let host = theirs.host_str().unwrap().trim_end_matches('.').to_owned();
            prop_assert_eq!(host, ours.target.host.to_string());
            prop_assert_eq!(theirs.port_or_known_default(), Some(ours.target.port_number()));
            prop_assert!(theirs.username().is_empty());
            // The one serialisation is read as the same again.
            prop_assert_eq!(egress::Url::read(&ours.to_string()), Ok(ours));
        }
    }
}
