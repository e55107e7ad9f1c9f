//! What of a turn is untrusted by the route's config: whole roles, and what an agent has pasted between tags.
//!
//! Whoever wrote the pasted text may have written tags into it as well, and nobody can tell a forged tag from the agent's. So a
//! range goes from the first opening tag of a name to the last closing one in the same text: whatever tags stand between, the
//! agent's own pair encloses them all. The price is that words between two such ranges of one text are untrusted too; an
//! agent that puts its user's words into a text part of their own pays nothing, since nobody can forge the end of a part.
//!
//! Where the tags of one text do not enclose each other, such as an opening tag without an end, the same holds for the whole
//! turn: from its first opening tag to its last closing one, or to its end where that one is missing.

use std::ops::Range;

use super::texts::{Source, Texts};
use crate::item::Origin;
use crate::provenance::Speaker;
use crate::settings::Untrusted;
use crate::wire::json::Node;

/// The role whose texts may have tagged ranges.
const TAGGED_ROLE: &str = "user";

/// Whether all that this role says is untrusted.
pub fn is_whole(rules: &Untrusted, role: &str) -> bool {
    rules.roles.iter().any(|known| known == role)
}

/// In whose place all that this role says stands: a user speaks to the model by right, also where nobody vouches for him.
pub fn origin(role: &str) -> Origin {
    if role == TAGGED_ROLE {
        Origin::Turn
    } else {
        Origin::Tool
    }
}

/// Adds what is untrusted of one turn. `parts` are its texts in order, each with its JSON Pointer; `pointer` is where they all
/// stand. What the config trusts is noted as said by the user or the operator.
pub fn turn<'d>(
    texts: &mut Texts<'d>,
    rules: &Untrusted,
    role: &str,
    parts: Vec<(&'d Node, String)>,
    pointer: &str,
) {
    let whole = is_whole(rules, role);
    let source = Source {
        origin: if whole { origin(role) } else { Origin::Tool },
        ..Source::default()
    };
    let from = texts.len();
    if whole {
        for (node, pointer) in parts {
            texts.text(node, pointer, &source);
        }
    } else if role == TAGGED_ROLE && !rules.tags.is_empty() {
        let words = parts.iter().map(|(node, _)| node.as_str());
        let words: Vec<&str> = words.map(Option::unwrap_or_default).collect();
        for ((node, pointer), ranges) in parts.into_iter().zip(ranges(&words, &rules.tags)) {
            let text = node.as_str().unwrap_or_default();
            let mut own = 0;
            for range in ranges {
                let before = text.get(own..range.start);
                texts.said(Speaker::User, before.unwrap_or_default());
                own = range.end;
                texts.range(node, range, pointer.clone(), &source);
            }
            texts.said(Speaker::User, text.get(own..).unwrap_or_default());
        }
    } else if let Some(speaker) = speaker(role) {
        for (node, _) in parts {
            texts.said(speaker.clone(), node.as_str().unwrap_or_default());
        }
    }
    texts.join(from, pointer, &source);
}

/// Whose word the texts of a role are; the model's vouch for nothing.
fn speaker(role: &str) -> Option<Speaker> {
    match role {
        "user" => Some(Speaker::User),
        "system" | "developer" => Some(Speaker::Operator),
        _ => None,
    }
}

/// The untrusted ranges of each text of a turn: in order, none touching another.
fn ranges(texts: &[&str], names: &[String]) -> Vec<Vec<Range<usize>>> {
    let mut found = vec![Vec::new(); texts.len()];
    let mut tags: Vec<Vec<Tags>> = texts.iter().map(|text| Tags::of(text, names)).collect();
    for name in 0..names.len() {
        let mut of_name = Vec::new();
        for tags in &mut tags {
            of_name.extend(tags.get_mut(name).map(|tags| std::mem::take(tags).extent()));
        }
        cover(texts, &of_name, &mut found);
    }
    found.into_iter().map(united).collect()
}

/// Adds the ranges of one name, by how its tags stand in each text.
fn cover(texts: &[&str], extents: &[Extent], found: &mut [Vec<Range<usize>>]) {
    if extents.iter().all(Extent::is_closed) {
        for (extent, found) in extents.iter().zip(found) {
            found.extend(extent.open.zip(extent.close).map(|(a, b)| a..b));
        }
        return;
    }
    let Some(first) = extents.iter().position(|extent| extent.open.is_some()) else {
        return;
    };
    let last = extents.iter().rposition(|extent| extent.ends.is_some());
    let last = last.filter(|at| extents.get(*at).is_some_and(|e| e.ends == Some(true)));
    let all = texts.iter().zip(extents).zip(found).enumerate();
    for (at, ((text, extent), found)) in all.skip(first) {
        if last.is_some_and(|last| at > last) {
            break;
        }
        let start = extent.open.filter(|_| at == first);
        let end = extent.close.filter(|_| last == Some(at));
        found.push(start.unwrap_or(0)..end.unwrap_or(text.len()));
    }
}

/// One tag of a text.
#[derive(Clone, Copy, Debug)]
struct Tag {
    at: usize,
    /// Just behind the name; attributes stand inside, for they are pasted as well.
    inside: usize,
    closes: bool,
}

/// The tags of one name in a text.
#[derive(Clone, Debug, Default)]
struct Tags(Vec<Tag>);

/// From where to where they reach.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    open: Option<usize>,
    close: Option<usize>,
    /// Whether the first tag opens.
    starts: Option<bool>,
    /// Whether the last tag closes.
    ends: Option<bool>,
}

impl Extent {
    fn is_closed(&self) -> bool {
        self.starts != Some(false) && self.ends != Some(false)
    }
}

impl Tags {
    /// The tags of each name. One without its counterpart that stands between the tags of another name does not count: it was
    /// pasted there, and must not make the user's own words untrusted.
    fn of(text: &str, names: &[String]) -> Vec<Self> {
        let mut all = vec![Self::default(); names.len()];
        for (at, _) in text.match_indices('<') {
            for (name, tags) in names.iter().zip(&mut all) {
                tags.0.extend(tag(text, at, name));
            }
        }
        let closed: Vec<_> = all.iter().map(|tags| tags.clone().closed()).collect();
        for (own, tags) in all.iter_mut().enumerate() {
            let pasted = |tag: &Tag| {
                let mut others = closed.iter().enumerate().filter(|(other, _)| *other != own);
                others.any(|(_, range)| range.as_ref().is_some_and(|r| r.contains(&tag.at)))
            };
            let first = tags.0.iter().position(|tag| !tag.closes);
            let last = tags.0.iter().rposition(|tag| tag.closes);
            let mut places = 0..;
            tags.0.retain(|tag| {
                let at = places.next().unwrap_or(usize::MAX);
                let alone = if tag.closes {
                    first.is_none_or(|first| at < first)
                } else {
                    last.is_none_or(|last| at > last)
                };
                !(alone && pasted(tag))
            });
        }
        all
    }

    /// From the first opening tag to the last closing one.
    fn closed(self) -> Option<Range<usize>> {
        let extent = self.extent();
        let range = extent.open?..extent.close?;
        (!range.is_empty()).then_some(range)
    }

    fn extent(self) -> Extent {
        let tags = self.0;
        Extent {
            open: tags.iter().find(|tag| !tag.closes).map(|tag| tag.inside),
            close: tags.iter().rfind(|tag| tag.closes).map(|tag| tag.at),
            starts: tags.first().map(|tag| !tag.closes),
            ends: tags.last().map(|tag| tag.closes),
        }
    }
}

/// The tag of this name that begins at `at`. A lenient reader: what a model could take for a tag is one. One that closes itself
/// opens, for its end may be forged by what stands in its attributes.
fn tag(text: &str, at: usize, name: &str) -> Option<Tag> {
    let after = text.get(at..)?.strip_prefix('<')?.trim_start();
    let (closes, after) = match after.strip_prefix('/') {
        Some(after) => (true, after.trim_start()),
        None => (false, after),
    };
    let (found, after) = after.split_at_checked(name.len())?;
    let whole = after
        .chars()
        .next()
        .is_none_or(|next| next.is_whitespace() || matches!(next, '>' | '/'));
    if !whole || !found.eq_ignore_ascii_case(name) {
        return None;
    }
    let after = after.trim_start();
    let after = after.strip_prefix('>').unwrap_or(after);
    let inside = text.len() - after.len();
    Some(Tag { at, inside, closes })
}

/// Ranges that overlap or touch become one.
fn united(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::item::Item;
    use crate::wire::json::Document;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The untrusted texts of a turn, those of one part joined by `|`.
    fn found(parts: &[&str], tags: &[&str]) -> Vec<String> {
        ranges(parts, &names(tags))
            .iter()
            .zip(parts)
            .map(|(ranges, text)| {
                let texts: Vec<_> = ranges
                    .iter()
                    .map(|r| text.get(r.clone()).unwrap())
                    .collect();
                texts.join("|")
            })
            .collect()
    }

    #[test]
    fn a_range_reaches_from_the_first_opening_tag_to_the_last_closing_one() {
        for (text, inside) in [
            ("no tags", ""),
            ("see <r>x</r> ok", "x"),
            ("see <R>x</R > ok", "x"),
            ("see < r>x< / r> ok", "x"),
            ("<r>x</r> and <r>y</r> ok", "x</r> and <r>y"),
            ("<r>a<r>b</r>c</r>d", "a<r>b</r>c"),
            ("<r>a</r>forged</r>d", "a</r>forged"),
            ("<r>a</r>forged<r>b</r>d", "a</r>forged<r>b"),
            ("<r a=\"x>y\">z</r>", "a=\"x>y\">z"),
            ("<r\n a='1'>z</r>", "a='1'>z"),
            ("<r>to the end", "to the end"),
            ("<r>a</r>b<r>c", "a</r>b<r>c"),
            ("<r/>x", "/>x"),
            ("</r>x<r>y</r>z", "y"),
            ("</r> alone", ""),
            ("<rs>x</rs> <r-2>y</r-2>", ""),
            ("<r", ""),
            ("<r></r>", ""),
            ("é<r>é</r>é", "é"),
        ] {
            assert_eq!(found(&[text], &["r"]), [inside], "{text}");
        }
    }

    #[test]
    fn ranges_of_several_names_are_united() {
        let tags = ["r", "env"];
        assert_eq!(found(&["<r>a</r>u<env>b</env>"], &tags), ["a|b"]);
        assert_eq!(found(&["<r>a<env>b</r>c</env>d"], &tags), ["a<env>b</r>c"]);
        assert_eq!(found(&["<env>a<r>b</r>c</env>"], &tags), ["a<r>b</r>c"]);
        // A tag of another name that was pasted without its counterpart reaches no further.
        assert_eq!(found(&["<r>a<env>b</r>c", "u"], &tags), ["a<env>b", ""]);
        assert_eq!(found(&["<r>a</env>b</r>c<env>d"], &tags), ["a</env>b|d"]);
        let parts = ["<env>a</env>", "u", "<r></env></r>", "u", "<env>b</env>"];
        assert_eq!(found(&parts, &tags), ["a", "", "</env>", "", "b"]);
    }

    #[test]
    fn a_part_of_its_own_is_the_users_unless_a_tag_is_closed_elsewhere() {
        let tags = ["r"];
        assert_eq!(found(&["<r>a</r>", "u", "<r>b</r>"], &tags), ["a", "", "b"]);
        assert_eq!(
            found(&["u", "<r>a", "b", "c</r>d", "u"], &tags),
            ["", "a", "b", "c", ""]
        );
        assert_eq!(found(&["u", "<r>a", "b"], &tags), ["", "a", "b"]);
        assert_eq!(
            found(&["u<r>a</r>f", "f</r>u", "u"], &tags),
            ["a</r>f", "f", ""]
        );
        assert_eq!(found(&["</r>", "u"], &tags), ["", ""]);
    }

    #[test]
    fn a_turn_adds_its_items_by_role() {
        let body = json!({ "parts": ["x<r>one</r>", "<r>two</r>"] }).to_string();
        let document = Document::read(Bytes::from(body), 4).unwrap();
        let items = |roles: &[&str], tags: &[&str], role: &str| {
            let parts = document.root().get("parts").unwrap().elements().iter();
            let parts = parts
                .enumerate()
                .map(|(at, node)| (node, format!("/parts/{at}")))
                .collect();
            let rules = Untrusted {
                roles: names(roles),
                tags: names(tags),
            };
            let mut texts = Texts::default();
            turn(&mut texts, &rules, role, parts, "/parts");
            let found = texts.finish("too_many").unwrap().into_iter();
            found
                .map(|found| match found.located.item {
                    Item::ToolOutput(output) => output.text.to_string(),
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(items(&[], &[], "user"), [""; 0]);
        assert_eq!(items(&[], &["r"], "system"), [""; 0]);
        assert_eq!(items(&["user"], &["r"], "assistant"), [""; 0]);
        let tagged = ["one", "two", "onetwo", "one\ntwo"];
        assert_eq!(items(&["system"], &["r"], "user"), tagged);
        let whole = items(&["user"], &["r"], "user");
        assert_eq!(&whole[..2], ["x<r>one</r>", "<r>two</r>"]);
        assert_eq!(whole.len(), 4);
    }

    /// Text of an attacker who knows the tags.
    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("<r>"),
            Just("</r>"),
            Just("</R >"),
            Just("<r a='"),
            Just("/>"),
            Just("<env>"),
            Just("</env>"),
            Just("<"),
            Just("</"),
            Just("r>"),
            Just("!"),
            Just("é"),
            Just("\n"),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_pasted_text_gets_out_of_its_tags(
            pasted in prop::collection::vec((any::<bool>(), hostile(), hostile()), 1..4),
            before in "[a-z é]{0,5}",
            after in "[a-z é]{0,5}",
        ) {
            let mut text = before.clone();
            let mut places = Vec::new();
            for (env, attribute, inside) in &pasted {
                let name = if *env { "env" } else { "r" };
                text.extend(["<", name, " p=\""]);
                let start = text.len();
                text.push_str(attribute);
                text.push_str("\">");
                text.push_str(inside);
                places.push(start..text.len());
                text.extend(["</", name, ">"]);
            }
            text.push_str(&after);
            let tags = names(&["R", "env"]);
            let found = ranges(&[&text, "own words"], &tags).remove(0);
            for place in places {
                prop_assert!(found.iter().any(|r| r.start <= place.start && place.end <= r.end));
            }
            for pair in found.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
            let outer = found.first().unwrap().start..found.last().unwrap().end;
            prop_assert!(outer.start > before.len() && outer.end < text.len() - after.len());
            prop_assert!(found.iter().all(|r| text.get(r.clone()).is_some()));
        }

        #[test]
        fn the_users_own_parts_stay_trusted(own in "[a-z <>/]{0,9}", pasted in hostile()) {
            let own = own.replace('r', "_");
            let text = format!("<r>{pasted}</r>");
            let tags = names(&["r"]);
            let found = ranges(&[&own, &text, &own], &tags);
            prop_assert!(found[0].is_empty() && found[2].is_empty());
        }
    }
}
