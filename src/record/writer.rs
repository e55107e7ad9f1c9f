//! The thread that writes: secrets replaced, names made pseudonyms, one line per exchange, a new file when one is full.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use aws_lc_rs::{hmac, rand};
use data_encoding::HEXLOWER;
use http::HeaderValue;

use super::redact::{Redacted, Redactor};
use super::taken::{Begun, Came, Piece};
use super::{Answered, Asked, Content, Exchange, VERSION, Who, Withheld};
use crate::metrics::{Metrics, Unrecorded};
use crate::settings::RecordSettings;
use crate::wire::sse;

/// An exchange that has ended.
pub(super) struct Raw {
    pub(super) begun: Begun,
    pub(super) came: Came,
}

impl Raw {
    /// Bytes of its bodies.
    pub(super) const fn size(&self) -> usize {
        self.begun.body.len() + self.came.size
    }
}

/// Writes what comes until nobody can send any more, or the disk takes no more.
pub(super) fn write(
    taken: &Receiver<Box<Raw>>,
    mut files: Files,
    redactor: &Redactor,
    metrics: &Metrics,
    waiting: &AtomicUsize,
) {
    while let Ok(raw) = taken.recv() {
        let size = raw.size();
        let written = line(*raw, redactor, &files.key).and_then(|line| files.write(&line));
        waiting.fetch_sub(size, Ordering::Relaxed);
        match written {
            Ok(()) => metrics.recorded(),
            Err(error) => {
                metrics.unrecorded(Unrecorded::Disk);
                metrics.recording(false);
                for _ in taken.try_iter() {
                    metrics.unrecorded(Unrecorded::Stopped);
                }
                tracing::error!(%error, directory = %files.directory.display(), "recording has stopped: it could not be written");
                return;
            }
        }
    }
}

/// The files of one process, one after the other.
pub struct Files {
    directory: PathBuf,
    /// Of the process: no two write to one file.
    run: String,
    number: usize,
    file: File,
    written: usize,
    most: usize,
    /// Makes pseudonyms. Never written, and gone with the process.
    key: hmac::Key,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("directory", &self.directory)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Files {
    /// Makes the folder, readable by its owner alone, and the first file.
    ///
    /// # Errors
    /// Neither can be made, or the system gives no randomness.
    pub fn open(settings: &RecordSettings) -> io::Result<Self> {
        let directory = settings.directory.clone();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        let mut key = [0; 32];
        rand::fill(&mut key).map_err(|_| io::Error::other("the system gives no randomness"))?;
        let run = uuid::Uuid::now_v7().simple().to_string();
        let file = opened(&directory, &run, 1)?;
        Ok(Self {
            directory,
            run,
            number: 1,
            file,
            written: 0,
            most: settings.file_size,
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        })
    }

    /// Writes one line, into a new file where this one is full.
    ///
    /// # Errors
    /// The disk is full, or the file was taken away.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.written > 0 && self.written + line.len() > self.most {
            self.number += 1;
            self.file = opened(&self.directory, &self.run, self.number)?;
            self.written = 0;
        }
        self.file.write_all(line)?;
        self.written += line.len();
        Ok(())
    }
}

fn opened(directory: &std::path::Path, run: &str, number: usize) -> io::Result<File> {
    let path = directory.join(format!("{run}-{number:05}.jsonl"));
    OpenOptions::new()
        .create_new(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

/// The line of an exchange, with its newline.
fn line(raw: Raw, redactor: &Redactor, key: &hmac::Key) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&exchange(raw, redactor, key)).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

fn exchange(raw: Raw, redactor: &Redactor, key: &hmac::Key) -> Exchange {
    let Raw { begun, came } = raw;
    let principal = &begun.session.principal;
    let pseudonym = |text: &str| pseudonym(key, text);
    let media = begun.media.as_ref().and_then(text_of);
    let Redacted { content, replaced } = redactor.body(media, &begun.body);
    let headers = begun.headers.iter().filter_map(|(name, value)| {
        let value = text_of(value)?;
        let value = if name == "mcp-session-id" {
            pseudonym(value)
        } else {
            redactor.line(value)
        };
        Some((name.to_string(), value))
    });
    let (method, path) = &begun.target;
    let mut judged = came.judged;
    for said in &mut judged {
        // Keys of a message may be anything.
        said.at = redactor.line(&said.at);
        if let Some(why) = &mut said.why {
            why.argument = why.argument.as_deref().map(|at| redactor.line(at));
        }
        said.tool = said.tool.as_deref().map(|tool| redactor.line(tool));
        said.call = said.call.as_deref().map(|call| redactor.line(call));
    }
    Exchange {
        holdpoint_recording: VERSION,
        id: uuid::Uuid::now_v7().to_string(),
        policy: begun.policy,
        route: begun.route.0,
        protocol: begun.route.1.to_owned(),
        principal: Who {
            tenant: pseudonym(&principal.tenant),
            subject: pseudonym(&principal.subject),
            agent: redactor.line(&principal.agent),
            scopes: principal.scopes.iter().map(ToString::to_string).collect(),
        },
        session: begun
            .session
            .key
            .as_ref()
            .map(|key| pseudonym(key.as_str())),
        request: Asked {
            method: method.clone(),
            path: redactor.line(path),
            headers: headers.collect(),
            content,
            replaced,
        },
        answer: came.status.map(|(status, media)| {
            let media = media.as_ref().and_then(text_of);
            let Redacted { content, replaced } = if came.too_long {
                Redacted {
                    content: Content::Withheld(Withheld::TooLong),
                    replaced: 0,
                }
            } else {
                redactor.body(media, &joined(came.answer))
            };
            Answered {
                status: status.as_u16(),
                content_type: media.map(str::to_owned),
                content,
                replaced,
            }
        }),
        refused: came.refused.map(str::to_owned),
        judged,
    }
}

fn joined(pieces: Vec<Piece>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Whole(whole) => bytes.extend_from_slice(&whole),
            // Whatever was decoded can be encoded.
            Piece::Event(event) => bytes.extend(sse::encode(event).unwrap_or_default()),
        }
    }
    bytes
}

fn text_of(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// The same for the same text while this process lives, and nothing that anybody could guess it from.
fn pseudonym(key: &hmac::Key, text: &str) -> String {
    let tag = hmac::sign(key, text.as_bytes());
    let short = tag.as_ref().get(..12).unwrap_or_default();
    format!("p-{}", HEXLOWER.encode(short))
}
