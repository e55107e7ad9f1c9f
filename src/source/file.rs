//! Reading a whole text file, with an upper bound.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::{Problem, Problems};

/// Reads a UTF-8 file of at most `limit` bytes.
///
/// # Errors
/// One problem that names the file and what to do.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Problems> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let problem = match error.kind() {
            ErrorKind::NotFound => Problem::new(format!("`{shown}` does not exist"))
                .help("check the path; a relative one starts at the working directory, in a config at the config's folder"),
            ErrorKind::IsADirectory => Problem::new(format!("`{shown}` is a folder, not a file"))
                .help("name one file in it"),
            ErrorKind::PermissionDenied => Problem::new(format!("`{shown}` may not be read"))
                .help("give the user that runs holdpoint the right to read it"),
            _ => Problem::new(format!("`{shown}` cannot be read: {error}")),
        };
        return Err(problem.into());
    }
    if bytes.len() as u64 > limit {
        return Err(
            Problem::new(format!("`{shown}` is larger than {} MiB", limit >> 20))
                .help("is it the right file?")
                .into(),
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..valid).unwrap_or_default();
        let line = before.split(|b| *b == b'\n').count();
        Problem::new(format!("`{shown}` is not UTF-8 text: line {line}"))
            .help("save the file as UTF-8")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.yaml");
        let said = |path: &Path, limit| read_text(path, limit).unwrap_err().to_string();
        assert!(said(&file, 9).contains("does not exist"));
        assert!(said(folder.path(), 9).contains("is a folder, not a file"));
        std::fs::write(&file, b"a\nb\xff").unwrap();
        assert!(said(&file, 9).contains("is not UTF-8 text: line 2"));
        assert!(said(&file, 3).contains("is larger than"));
        std::fs::write(&file, "ok").unwrap();
        assert_eq!(read_text(&file, 2).unwrap(), "ok");
    }
}
