//! The content of a message: a string, or parts of many types.

use super::{Finder, SAID, check, parts, present};
use crate::item::Place;
use crate::protocols::texts::Source;
use crate::protocols::{Malformed, untrusted};
use crate::wire::json::{Kind, Node};

/// Parts that say something, with the key of their text.
const TEXTS: [(&str, &str); 4] = [
    ("text", "text"),
    ("refusal", "refusal"),
    ("input_text", "text"),
    ("output_text", "text"),
];

/// Parts that hold or name a file: mostly binary. They are the word of the role that sends them, and no part of what it says.
const MEDIA: [&str; 8] = [
    "image_url",
    "input_audio",
    "file",
    "video_url",
    "audio_url",
    "input_image",
    "input_file",
    "image",
];

impl<'d> Finder<'d, '_> {
    /// Content of which every string is untrusted. Texts beside each other are judged joined as well, files each for itself.
    pub(super) fn untrusted(
        &mut self,
        message: &'d Node,
        pointer: &str,
        source: &Source,
    ) -> Result<(), Malformed> {
        let mut pointer = format!("{pointer}/content");
        let Some(content) = present(message, "content") else {
            return Ok(());
        };
        if content.as_str().is_some() {
            self.texts.text(content, pointer, source);
            return Ok(());
        }
        let all = parts(content, &pointer)?;
        let from = self.texts.len();
        let length = pointer.len();
        for media in [false, true] {
            for (index, part) in all.iter().enumerate() {
                if kind(part).is_some_and(|kind| MEDIA.contains(&kind)) == media {
                    Place::push_step(&mut pointer, &index.to_string());
                    check(part, &pointer, &["type", "text"])?;
                    self.part(part, &mut pointer, source);
                    pointer.truncate(length);
                }
            }
            if !media {
                self.texts.join(from, &pointer, source);
            }
        }
        Ok(())
    }

    /// Every string of a part, whatever its type, but not the type itself.
    fn part(&mut self, part: &'d Node, pointer: &mut String, source: &Source) {
        let Kind::Object(members) = &part.kind else {
            return self.texts.leaves(part, pointer, source, true);
        };
        let length = pointer.len();
        for member in members.iter().filter(|member| &*member.key != "type") {
            Place::push_step(pointer, &member.key);
            self.texts.leaves(&member.value, pointer, source, true);
            pointer.truncate(length);
        }
    }

    /// Content of a role that the config trusts: its tagged ranges, and parts that nobody knows.
    pub(super) fn trusted(
        &mut self,
        message: &'d Node,
        pointer: &str,
        role: &str,
    ) -> Result<(), Malformed> {
        let mut said = Vec::new();
        let mut unknown = Vec::new();
        let own = format!("{pointer}/content");
        if let Some(content) = present(message, "content") {
            if content.as_str().is_some() {
                said.push((content, own.clone()));
            }
            for (index, part) in parts(content, &own)?.iter().enumerate() {
                let pointer = format!("{own}/{index}");
                check(part, &pointer, &["type", "text"])?;
                let text = TEXTS.iter().find(|(known, _)| kind(part) == Some(known));
                match text.and_then(|(_, key)| Some((*key, part.get(key)?))) {
                    Some((key, node)) if node.as_str().is_some() => {
                        said.push((node, format!("{pointer}/{key}")));
                    }
                    _ if kind(part).is_some_and(|kind| MEDIA.contains(&kind)) => {}
                    _ => unknown.push((part, pointer)),
                }
            }
        }
        for key in SAID {
            if let Some(node) = present(message, key) {
                said.push((node, format!("{pointer}/{key}")));
            }
        }
        untrusted::turn(self.texts, &self.route.untrusted, role, said, &own);
        let from = self.texts.len();
        for (part, mut pointer) in unknown {
            self.part(part, &mut pointer, &Source::default());
        }
        self.texts.join(from, &own, &Source::default());
        Ok(())
    }
}

fn kind(part: &Node) -> Option<&str> {
    part.get("type")?.as_str()
}
