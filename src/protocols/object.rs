//! Messages of our own making, member by member: raw values stay as they came.

use bytes::Bytes;

use crate::wire::splice::quote;

/// Writes a JSON object member by member, with raw values where they must stay as they came.
#[derive(Debug, Default)]
pub struct Object(Vec<u8>);

impl Object {
    /// Adds a string.
    pub fn text(&mut self, key: &str, text: &str) {
        self.raw(key, &quote(text));
    }

    /// Adds a value that is JSON text already.
    pub fn raw(&mut self, key: &str, json: &[u8]) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.extend_from_slice(&quote(key));
        self.0.push(b':');
        self.0.extend_from_slice(json);
    }

    /// Adds members with raw values.
    pub fn raws(&mut self, members: &[(Box<str>, Bytes)]) {
        for (key, json) in members {
            self.raw(key, json);
        }
    }

    /// Ends with the start of a last member's value, for the caller to go on.
    pub fn open(mut self, key: &str, start: &str) -> Vec<u8> {
        self.raw(key, start.as_bytes());
        self.0
    }

    /// The object.
    pub fn finish(mut self) -> Vec<u8> {
        if self.0.is_empty() {
            self.0.push(b'{');
        }
        self.0.push(b'}');
        self.0
    }
}
