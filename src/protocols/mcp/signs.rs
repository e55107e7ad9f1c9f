//! Signs of life for a client whose call waits: progress where it asked for that, which its own time limits go by, and
//! comments where it did not.

use bytes::Bytes;
use serde_json::json;

use crate::protocols::{Event, Signs};
use crate::wire::sse::encode;

/// Progress must grow with each notification, and the server's own begins at nothing: so small are these steps.
const STEP: f64 = 0.000_001;

/// What the client shows its user meanwhile.
const WORDS: &str = "This waits for an approval.";

/// Of one request.
pub(super) struct Waits {
    /// `_meta.progressToken`, as JSON text.
    token: Option<Bytes>,
    said: f64,
}

impl Waits {
    pub(super) const fn new(token: Option<Bytes>) -> Self {
        Self { token, said: 0.0 }
    }
}

impl Signs for Waits {
    fn next(&mut self) -> Bytes {
        let comment = Bytes::from_static(b": keep-alive\n\n");
        let Some(token) = &self.token else {
            return comment;
        };
        self.said += STEP;
        let token = String::from_utf8_lossy(token);
        let (said, words) = (self.said, json!(WORDS));
        let data = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{said:.6},"message":{words}}}}}"#
        );
        let event = Event {
            data: Some(data),
            ..Event::default()
        };
        encode(event).unwrap_or(comment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_grows_and_names_the_clients_token() {
        let mut signs = Waits::new(Some(Bytes::from_static(b"\"t\"")));
        let mut last = 0.0;
        for _ in 0..3 {
            let sign = signs.next();
            let text = std::str::from_utf8(&sign).unwrap();
            let data = text.strip_prefix("data: ").unwrap().trim_end();
            let message: serde_json::Value = serde_json::from_str(data).unwrap();
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], "t");
            let progress = message["params"]["progress"].as_f64().unwrap();
            assert!(progress > last && progress < 0.001);
            last = progress;
        }
        assert!(Waits::new(None).next().starts_with(b":"));
    }
}
