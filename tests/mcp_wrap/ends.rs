//! Who ends first, and how the other one learns of it.

use serde_json::json;

use crate::wrapped::Wrapped;

#[test]
fn the_servers_exit_code_is_the_wrappers() {
    let wrapped = Wrapped::plain("next 3");
    assert_eq!(wrapped.end().0, 3, "nothing was ever said");
    let mut wrapped = Wrapped::plain("hello; exit 7");
    wrapped.shake_hands();
    assert_eq!(wrapped.wait().0, 7);
    let mut wrapped = Wrapped::plain("kill -s KILL $$");
    assert_eq!(wrapped.wait().0, 128 + 9);
}

#[test]
fn a_call_that_the_server_dies_of_is_answered_with_an_error() {
    let mut wrapped = Wrapped::plain("hello; next; next; exit 4");
    wrapped.shake_hands();
    wrapped.call(1, "a", &json!({}));
    wrapped.call(2, "b", &json!({}));
    let (code, mut rest) = wrapped.wait();
    rest.sort_by_key(|message| message["id"].as_i64());
    assert_eq!(code, 4);
    assert_eq!(rest.len(), 2);
    for (message, id) in rest.iter().zip([1, 2]) {
        assert_eq!(message["id"], id);
        assert!(message["error"]["message"].is_string(), "{message}");
    }
}

#[test]
fn the_end_of_the_clients_lines_is_passed_on() {
    let mut wrapped = Wrapped::plain("hello; while next 5; do :; done");
    wrapped.shake_hands();
    assert_eq!(wrapped.end(), (5, vec![]));
}

#[test]
fn a_server_that_does_not_end_is_asked_and_then_killed() {
    let asked = "trap 'exit 6' TERM; hello; while :; do sleep 0.05; done";
    let stubborn = "trap '' TERM; hello; while :; do sleep 0.05; done";
    for (script, expected) in [(asked, 6), (stubborn, 128 + 9)] {
        let mut wrapped = Wrapped::with(script, "", |command| {
            command.args(["--set", "timeouts.drain=50ms"]);
        });
        wrapped.shake_hands();
        assert_eq!(wrapped.end().0, expected, "{script}");
    }
}

#[test]
fn signals_are_passed_on() {
    for name in ["TERM", "INT", "HUP"] {
        let script =
            format!("trap 'exit 8' {name}; hello; say x >&2; while :; do sleep 0.05; done");
        let mut wrapped = Wrapped::plain(&script);
        wrapped.shake_hands();
        wrapped.hears("x");
        wrapped.signal(name);
        assert_eq!(wrapped.wait().0, 8, "{name}");
    }
}

#[test]
fn what_a_launcher_has_started_ends_with_it() {
    let script = r#"
        sh -c 'trap "echo inner >&2; exit" TERM; echo started >&2; while :; do sleep 0.05; done' &
        trap 'wait; exit 2' TERM
        hello
        while :; do sleep 0.05; done
    "#;
    let mut wrapped = Wrapped::plain(script);
    wrapped.shake_hands();
    wrapped.hears("started");
    wrapped.signal("TERM");
    wrapped.hears("inner");
    assert_eq!(wrapped.wait().0, 2);
}

#[test]
fn a_command_that_cannot_be_started_says_so_as_shells_do() {
    for (command, code) in [("/no/such/server", 127), ("/", 126)] {
        let output = std::process::Command::new(crate::wrapped::BINARY)
            .args(["mcp-wrap", "--", command])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("the server cannot be started"), "{said}");
    }
}
