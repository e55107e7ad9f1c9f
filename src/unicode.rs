//! Characters that a person does not see, in sets that the Unicode Standard names (UAX 44, Unicode Character Database).
//!
//! A room that drops, refuses or shows such characters says here which set it means, so that all mean the same by it.

/// `Default_Ignorable_Code_Point` (UAX 44, `DerivedCoreProperties.txt`): drawn as nothing where a font does not know them. Soft
/// hyphen, joiners, controls of direction, fillers, variation selectors, tags.
pub const fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Controls of interlinear annotation (The Unicode Standard, section 23.8): seen by nobody, and what stands between them may
/// be hidden or moved.
pub const fn is_annotation(c: char) -> bool {
    matches!(c, '\u{fff9}'..='\u{fffb}')
}

/// What ends a line besides the controls of ASCII and Latin-1: `Line_Separator` and `Paragraph_Separator` (general categories Zl
/// and Zp, UAX 44 section 5.7.1).
pub const fn is_separator(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// Drawn as an empty place: `Space_Separator` but the space itself (general category Zs, UAX 44 section 5.7.1), and the Braille
/// pattern without a dot.
pub const fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
    )
}

/// What no two fonts draw alike, or at all: `Private_Use` (general category Co), the block Specials with its noncharacters,
/// and planes 14 to 16.
pub const fn is_unshown(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    const NONE: [char; 0] = [];

    /// Every character of which a set and a property of the Unicode Character Database say different things.
    fn differ(is: fn(char) -> bool, property: &str) -> Vec<char> {
        let property = Regex::new(&format!("^{property}$")).unwrap();
        let mut buffer = [0; 4];
        ('\0'..=char::MAX)
            .filter(|c| is(*c) != property.is_match(c.encode_utf8(&mut buffer)))
            .collect()
    }

    #[test]
    fn the_sets_are_those_of_the_standard() {
        assert_eq!(
            differ(is_ignorable, r"\p{Default_Ignorable_Code_Point}"),
            NONE
        );
        assert_eq!(differ(is_separator, r"[\p{Zl}\p{Zp}]"), NONE);
        assert_eq!(differ(is_blank, r"[\p{Zs}\u{2800}--[ ]]"), NONE);
        assert_eq!(
            differ(is_unshown, r"[\p{Co}\u{FFF0}-\u{FFFF}\u{E0000}-\u{10FFFF}]"),
            NONE
        );
        // Of the format characters, those that are in no set here are drawn: signs before numbers, and hieroglyphs' controls.
        let seen = |c| !is_ignorable(c) && !is_annotation(c);
        let format = Regex::new(r"^\p{Cf}$").unwrap();
        let left: Vec<_> = ('\0'..=char::MAX)
            .filter(|c| seen(*c) && format.is_match(c.encode_utf8(&mut [0; 4])))
            .collect();
        let drawn = |c: &char| {
            matches!(c, '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
                | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}')
        };
        assert!(left.iter().all(drawn), "{left:?}");
    }

    /// What each room took for unseen before it was said here: none takes less now, and what it takes more is listed.
    #[test]
    fn no_room_takes_less_for_unseen_than_before() {
        type Is = fn(char) -> bool;
        let rooms: [(&str, Is, Is, &str); 5] = [
            (
                "URLs in texts",
                |c| {
                    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
                        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
                        | '\u{e0000}'..='\u{e0fff}')
                },
                is_ignorable,
                "115f 1160 17b4 17b5 3164 ffa0 fff0 fff1 fff2 fff3 fff4 fff5 fff6 fff7 fff8 1bca0 1bca1 1bca2 1bca3 \
                 1d173 1d174 1d175 1d176 1d177 1d178 1d179 1d17a",
            ),
            (
                "keys of JSON",
                |c| {
                    c.is_control()
                        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
                },
                |c| c.is_control() || is_ignorable(c),
                "",
            ),
            (
                "recipients",
                |c| {
                    c.is_control()
                        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
                            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
                            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
                },
                |c| c.is_control() || is_ignorable(c) || is_annotation(c) || is_separator(c),
                "115f 1160 17b4 17b5 3164 ffa0 fff0 fff1 fff2 fff3 fff4 fff5 fff6 fff7 fff8 1bca0 1bca1 1bca2 1bca3 \
                 1d173 1d174 1d175 1d176 1d177 1d178 1d179 1d17a",
            ),
            (
                "tool outputs",
                |c| {
                    matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
                        | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
                },
                |c| is_ignorable(c) || is_annotation(c),
                // The first is an accent to this room, which drops those too.
                "34f 1bca0 1bca1 1bca2 1bca3",
            ),
            (
                "what approvers see",
                |c| {
                    c.is_control()
                        || matches!(c, '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
                            | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
                            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
                            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
                            | '\u{fff0}'..='\u{ffff}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                            | '\u{e0000}'..='\u{10ffff}')
                },
                |c| {
                    c.is_control()
                        || is_ignorable(c)
                        || is_blank(c)
                        || is_separator(c)
                        || is_unshown(c)
                },
                "",
            ),
        ];
        for (room, before, now, expected) in rooms {
            let lost: Vec<_> = ('\0'..=char::MAX)
                .filter(|c| before(*c) && !now(*c))
                .collect();
            assert_eq!(lost, NONE, "{room}");
            let gained: Vec<_> = ('\0'..=char::MAX)
                .filter(|c| now(*c) && !before(*c))
                .map(|c| format!("{:x}", u32::from(c)))
                .collect();
            if !expected.is_empty() || room == "what approvers see" {
                assert_eq!(gained.join(" "), expected, "{room}");
            }
        }
    }
}
