//! Times as people read them: always UTC and exact, with how far off beside it.

use jiff::Timestamp;
use maud::{Markup, html};

/// `2026-11-30 12:15:00 UTC`.
pub(super) fn exact(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// When it happened, and how long ago.
pub(super) fn past(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(exact(at)) { (ago(at, now)) } }
}

/// As [`past`], with the exact time written out.
pub(super) fn past_exact(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) { (exact(at)) } " (" (ago(at, now)) ")" }
}

/// When it will run out: counted down where scripts run.
pub(super) fn until(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(exact(at)) data-until { (left(at, now)) } }
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    match now.duration_since(at).as_secs() {
        ..60 => "just now".to_owned(),
        seconds => format!("{} ago", span(seconds)),
    }
}

fn left(at: Timestamp, now: Timestamp) -> String {
    match at.duration_since(now).as_secs() {
        ..=0 => "expired".to_owned(),
        1..60 => "in less than a minute".to_owned(),
        seconds => format!("in {}", span(seconds)),
    }
}

/// The two largest units, none below a minute.
fn span(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_two_units() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let told = |text: &str| {
            let at = text.parse().unwrap();
            (ago(at, now), left(at, now))
        };
        assert_eq!(told("2026-11-30T11:59:30Z").0, "just now");
        assert_eq!(told("2026-11-30T10:55:00Z").0, "1 h 5 min ago");
        assert_eq!(told("2026-11-28T09:00:00Z").0, "2 d 3 h ago");
        assert_eq!(told("2026-11-30T12:14:59Z").1, "in 14 min");
        assert_eq!(told("2026-11-30T12:00:00Z").1, "expired");
    }
}
