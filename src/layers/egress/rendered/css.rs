//! URLs in style sheets and style attributes.

/// What `url(..)`, `src(..)` and strings with a URL in them lead to, whatever the property: escapes and comments undone.
pub(super) fn urls(css: &str) -> Vec<String> {
    let plain = unescaped(&uncommented(css));
    let mut found = Vec::new();
    let lower = plain.to_ascii_lowercase();
    for function in ["url(", "src("] {
        for (at, _) in lower.match_indices(function) {
            let rest = plain.get(at + function.len()..).unwrap_or_default();
            let inside = rest.split(')').next().unwrap_or_default().trim();
            found.push(inside.trim_matches(['"', '\'', ' ']).to_owned());
        }
    }
    for quote in ['"', '\''] {
        let strings = plain.split(quote).skip(1).step_by(2);
        found.extend(
            strings
                .filter(|text| text.contains("//"))
                .map(str::to_owned),
        );
    }
    found
}

fn uncommented(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    out
}

/// CSS Syntax section 4.3.7: a backslash and up to six hexadecimal digits with one blank behind, or any other character.
fn unescaped(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut chars = css.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let mut code: u32 = 0;
        let mut digits = 0;
        while digits < 6
            && let Some(digit) = chars.peek().and_then(|c| c.to_digit(16))
        {
            code = code * 16 + digit;
            digits += 1;
            chars.next();
        }
        if digits > 0 {
            if chars.peek().is_some_and(char::is_ascii_whitespace) {
                chars.next();
            }
            out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
        } else if let Some(c) = chars.next() {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_behind_escapes_comments_and_quotes() {
        for css in [
            "background:url(https://a.example/x)",
            "background: URL( 'https://a.example/x' )",
            "background:\\75rl(https://a.example/x)",
            "background:u\\72 l(\"https://a.example/x\")",
            "background:/* x */url(https://a.example/x)",
            "@import \"https://a.example/x\"",
            "background:image-set('https://a.example/x' 1x)",
        ] {
            assert!(
                urls(css).iter().any(|url| url == "https://a.example/x"),
                "{css}"
            );
        }
        assert_eq!(urls("color: red; content: 'a'"), [] as [&str; 0]);
    }
}
