//! `holdpoint secret hash`: a line for the config that finds the secret and does not tell it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use holdpoint::layers::egress::{Register, Registered};
use holdpoint::settings::{self, Environment, Overrides};

const SECRET: &str = "Tr0ub4dor&3-and-more/than=that";

/// Exit code, output, errors.
fn hash(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["secret", "hash"])
        .args(arguments)
        .env("A_SECRET", SECRET)
        .env_remove("NO_SECRET")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have ended before it has read all.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn finds(line: &str, text: &str) -> bool {
    let register = Register::new([Registered::read(line).unwrap()]).unwrap();
    register.is_in(text.as_bytes())
}

#[test]
fn its_line_finds_the_secret_and_nothing_else() {
    let from_stdin = hash(&[], format!("{SECRET}\n").as_bytes());
    let from_variable = hash(&["--env", "A_SECRET"], b"");
    for (status, out, error) in [&from_stdin, &from_variable] {
        assert_eq!((*status, error.as_str()), (Some(0), ""));
        let line = out.trim_end();
        assert_eq!(out.lines().count(), 1);
        assert!(!line.contains("Tr0ub4dor"));
        assert!(finds(line, &format!("a {SECRET} b")));
        assert!(!finds(line, &SECRET.replace('3', "4")));
    }
    // Each has a salt of its own.
    assert_ne!(from_stdin.1, from_variable.1);
    // Line ends within a secret are a part of it.
    let key = "first line of a key\nsecond line of it";
    let (_, out, _) = hash(&[], key.as_bytes());
    assert!(finds(out.trim_end(), key));
}

#[test]
fn the_config_takes_its_line() {
    let (_, out, _) = hash(&[], SECRET.as_bytes());
    let config = format!(
        "policy: p.yaml\nlisten: {{forward: \"127.0.0.1:0\"}}\nprincipal: {{fixed: {{subject: ann}}}}\nregistered_secrets:\n  - {out}"
    );
    let read = settings::parse("c", &config, &Overrides::default(), &Environment::new());
    let settings = read
        .unwrap_or_else(|problems| panic!("{problems}"))
        .settings;
    let register = settings.register().unwrap();
    assert!(register.is_in(format!("x{SECRET}y").as_bytes()));
    assert!(!register.is_in(b"Tr0ub4dor&3-and-more/than=than"));
}

#[test]
fn what_could_be_guessed_or_cannot_be_read_gets_no_line() {
    let long = vec![b'x'; 9000];
    let varied = b"abcdefghijklmnopqrstuvwxyz".repeat(400);
    for (arguments, input, said) in [
        (&[][..], &b""[..], "shorter than 12"),
        (&[], b"hunter2\n", "shorter than 12"),
        (&[], b"           short           \n", "shorter than 12"),
        (&[], b"aaaaaaaabbbbbbbb\n", "fewer than 6 different"),
        (&[], &long, "longer than 8192"),
        (&[], &varied, "longer than 8192"),
        (&[], b"\xff\xfe binary and no text\n", "cannot be read"),
        (&["--env", "NO_SECRET"], b"", "`NO_SECRET` is not set"),
    ] {
        let (status, out, error) = hash(arguments, input);
        assert_eq!(status, Some(2), "{error}");
        assert!(out.is_empty());
        assert!(error.contains(said), "{error}");
        assert!(!error.contains("hunter2"));
    }
    // Never on the command line, where others see it.
    let (status, _, error) = hash(&[SECRET], b"");
    assert_eq!(status, Some(2));
    assert!(error.contains("unexpected argument"), "{error}");
}
