//! Secrets that the proxy puts into requests in place of placeholders, and takes out of answers again: agents never hold them.
//!
//! A placeholder is `{{holdpoint:NAME}}`. What the layers judge, tickets store and logs show is the placeholder. It is replaced
//! on the way out, only towards the secret's own upstreams; anywhere else the request is refused.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::refuse::{self, ErrorCode};
use crate::item::RouteKind;
use crate::names::UpstreamName;
use crate::settings::{PlacedSecret, SecretPlace, Settings};
use crate::source::{Problem, Problems};
use crate::wire::media::{Media, media};

const OPEN: &[u8] = b"{{holdpoint:";
const CLOSE: &[u8] = b"}}";
/// In answers, in place of an upstream's credential, which has no name.
const WITHHELD: &str = "[holdpoint: credential withheld]";
/// Shortest credential that is looked for in answers: a shorter one stands there by chance.
const SHORTEST: usize = 8;

type Found<T> = Result<T, &'static ErrorCode>;

/// The secrets of the settings.
#[derive(Default)]
pub(super) struct Placeholders {
    secrets: Vec<PlacedSecret>,
    masks: HashMap<UpstreamName, Arc<Mask>>,
}

impl Placeholders {
    /// # Errors
    /// Secrets that are too many or too long to be looked for.
    pub(super) fn new(settings: &Settings) -> Result<Self, Problems> {
        let mut masks = HashMap::new();
        for (name, upstream) in &settings.upstreams {
            let mut known = Vec::new();
            for secret in &settings.secrets {
                if secret.upstreams.contains(name) {
                    known.push((secret.value.0.to_string(), placeholder(secret)));
                }
            }
            if let Some((_, value)) = &upstream.credential {
                // Behind its scheme.
                let bare = value.0.rsplit(' ').next().unwrap_or_default();
                if bare.len() >= SHORTEST {
                    known.push((bare.to_owned(), WITHHELD.to_owned()));
                }
            }
            if known.is_empty() {
                continue;
            }
            let mask = Mask::new(known).ok_or_else(|| {
                Problem::new(format!(
                    "the secrets of the upstream `{name}` cannot be looked for in its answers"
                ))
                .help("check that each variable holds one secret of usual length")
            })?;
            masks.insert(name.clone(), Arc::new(mask));
        }
        Ok(Self {
            secrets: settings.secrets.clone(),
            masks,
        })
    }

    /// What takes this upstream's secrets out of its answers.
    pub(super) fn mask(&self, upstream: &UpstreamName) -> Option<Arc<Mask>> {
        self.masks.get(upstream).cloned()
    }

    /// The request with secrets in place of placeholders. A model reads them as text: there a body stays as it is.
    pub(super) fn fill(
        &self,
        mut request: Request<Bytes>,
        to: &UpstreamName,
        kind: RouteKind,
    ) -> Found<Request<Bytes>> {
        if self.secrets.is_empty() {
            return Ok(request);
        }
        let mut filled = Vec::new();
        for (name, value) in request.headers() {
            if let Some(value) = self.replaced(value.as_bytes(), SecretPlace::Header, to, plain)? {
                let value = HeaderValue::from_bytes(&value).map_err(|_| &refuse::INTERNAL)?;
                filled.push((name.clone(), value));
            }
        }
        for (name, mut value) in filled {
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
        if let Some(uri) = self.uri(request.uri(), to)? {
            *request.uri_mut() = uri;
        }
        if kind != RouteKind::Model
            && let Some(body) = self.body(&request, to)?
        {
            *request.body_mut() = body;
        }
        Ok(request)
    }

    fn body(&self, request: &Request<Bytes>, to: &UpstreamName) -> Found<Option<Bytes>> {
        let body = request.body();
        if find(body, OPEN).is_none() {
            return Ok(None);
        }
        // Where it is no JSON nobody knows how a value is to be written.
        if media(request.headers()) != Ok(Media::Json) {
            return refused(None);
        }
        let filled = self.replaced(body, SecretPlace::Body, to, in_json)?;
        Ok(filled.map(Bytes::from))
    }

    fn uri(&self, uri: &Uri, to: &UpstreamName) -> Found<Option<Uri>> {
        let decoded = |text: &str| -> Vec<u8> { percent_decode_str(text).collect() };
        if find(&decoded(uri.path()), OPEN).is_some() {
            return refused(None);
        }
        let Some(query) = uri.query() else {
            return Ok(None);
        };
        let mut changed = false;
        let mut pairs = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if find(&decoded(name), OPEN).is_some() {
                return refused(None);
            }
            let spaced = value.replace('+', " ");
            match self.replaced(&decoded(&spaced), SecretPlace::Query, to, plain)? {
                None => pairs.push(pair.to_owned()),
                Some(value) => {
                    changed = true;
                    let value = percent_encode(&value, NON_ALPHANUMERIC);
                    pairs.push(format!("{name}={value}"));
                }
            }
        }
        if !changed {
            return Ok(None);
        }
        let target = format!("{}?{}", uri.path(), pairs.join("&"));
        let target = target.parse::<PathAndQuery>();
        let target = target.map_err(|_| &refuse::INTERNAL)?;
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(target);
        let uri = Uri::from_parts(parts).map_err(|_| &refuse::INTERNAL)?;
        Ok(Some(uri))
    }

    /// The text with its placeholders replaced; `None` where it has none.
    fn replaced(
        &self,
        text: &[u8],
        place: SecretPlace,
        to: &UpstreamName,
        write: fn(&str) -> Option<String>,
    ) -> Found<Option<Vec<u8>>> {
        let mut rest = text;
        let mut out = Vec::new();
        while let Some(at) = find(rest, OPEN) {
            let (before, marked) = rest.split_at_checked(at).unwrap_or((rest, &[]));
            let named = marked.get(OPEN.len()..).unwrap_or_default();
            let Some(end) = find(named, CLOSE) else {
                return refused(None);
            };
            let name = named.get(..end).unwrap_or_default();
            let mut secrets = self.secrets.iter();
            let Some(secret) = secrets.find(|it| it.name.as_str().as_bytes() == name) else {
                return refused(None);
            };
            if !secret.upstreams.contains(to) || !secret.places.contains(&place) {
                return refused(Some((secret, to, place)));
            }
            out.extend_from_slice(before);
            out.extend(write(&secret.value.0).ok_or(&refuse::INTERNAL)?.bytes());
            rest = named.get(end + CLOSE.len()..).unwrap_or_default();
        }
        if rest.len() == text.len() {
            return Ok(None);
        }
        out.extend_from_slice(rest);
        Ok(Some(out))
    }
}

/// Names the secret where the config knows it: what an agent made up is in no log.
fn refused<T>(secret: Option<(&PlacedSecret, &UpstreamName, SecretPlace)>) -> Found<T> {
    if let Some((secret, to, place)) = secret {
        tracing::warn!(
            secret = secret.name.as_str(),
            upstream = to.as_str(),
            place = place.as_str(),
            "a placeholder would have taken a secret to where it must not go"
        );
    } else {
        tracing::warn!("a placeholder is malformed, unknown or in a place of none");
    }
    Err(&refuse::SECRET_REFUSED)
}

fn placeholder(secret: &PlacedSecret) -> String {
    format!("{{{{holdpoint:{}}}}}", secret.name)
}

#[expect(clippy::unnecessary_wraps, reason = "one of two ways to write a value")]
fn plain(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Within a JSON string. A placeholder in strict JSON stands nowhere else.
fn in_json(value: &str) -> Option<String> {
    let quoted = serde_json::to_string(value).ok()?;
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.to_owned())
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Takes an upstream's secrets out of its answers, where their exact bytes stand there.
pub(super) struct Mask {
    finder: AhoCorasick,
    patterns: Vec<Vec<u8>>,
    replacements: Vec<String>,
}

impl Mask {
    fn new(known: Vec<(String, String)>) -> Option<Self> {
        let mut patterns = Vec::new();
        let mut replacements = Vec::new();
        for (value, replacement) in known {
            let escaped = in_json(&value).filter(|escaped| *escaped != value);
            for text in escaped.into_iter().chain([value]) {
                patterns.push(text.into_bytes());
                replacements.push(replacement.clone());
            }
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&patterns)
            .ok()?;
        Some(Self {
            finder,
            patterns,
            replacements,
        })
    }

    /// The text without them; the very same bytes where there are none.
    pub(super) fn whole(&self, text: Bytes) -> Bytes {
        if self.finder.is_match(&text[..]) {
            self.finder
                .replace_all_bytes(&text, &self.replacements)
                .into()
        } else {
            text
        }
    }

    /// The headers without them.
    pub(super) fn headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            if self.finder.is_match(value.as_bytes()) {
                let masked = self
                    .finder
                    .replace_all_bytes(value.as_bytes(), &self.replacements);
                *value =
                    HeaderValue::from_bytes(&masked).unwrap_or(HeaderValue::from_static(WITHHELD));
            }
        }
    }

    /// How many bytes at the end of the text may be the beginning of a secret.
    fn begun(&self, text: &[u8]) -> usize {
        let longest = self.patterns.iter().map(Vec::len).max().unwrap_or(0);
        let most = text.len().min(longest.saturating_sub(1));
        let is_begun = |length: &usize| {
            let tail = text.get(text.len() - length..).unwrap_or_default();
            self.patterns
                .iter()
                .any(|pattern| pattern.len() > *length && pattern.starts_with(tail))
        };
        (1..=most).rev().find(is_begun).unwrap_or(0)
    }
}

/// The same over pieces: what may be the beginning of a secret waits for the next one.
pub(super) struct Masking {
    mask: Arc<Mask>,
    kept: Vec<u8>,
}

impl Masking {
    pub(super) const fn new(mask: Arc<Mask>) -> Self {
        Self {
            mask,
            kept: Vec::new(),
        }
    }

    /// What of the text so far may leave.
    pub(super) fn push(&mut self, piece: Bytes) -> Bytes {
        let text = if self.kept.is_empty() {
            piece
        } else {
            self.kept.extend_from_slice(&piece);
            Bytes::from(std::mem::take(&mut self.kept))
        };
        let mut free = text.len() - self.mask.begun(&text);
        // A secret that is whole leaves, even where its end is the beginning of another.
        let across = self.mask.finder.find_iter(&text[..]);
        let across = across
            .filter(|found| found.start() < free && found.end() > free)
            .last();
        if let Some(found) = across {
            let rest = text.get(found.end()..).unwrap_or_default();
            free = text.len() - self.mask.begun(rest);
        }
        self.kept = text.get(free..).unwrap_or_default().to_vec();
        self.mask.whole(text.slice(..free))
    }

    /// The rest.
    pub(super) fn finish(&mut self) -> Bytes {
        let rest = Bytes::from(std::mem::take(&mut self.kept));
        self.mask.whole(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::HeaderName;
    use proptest::prelude::*;

    use super::*;
    use crate::names::SecretName;
    use crate::settings::Secret;

    const TOKEN: &str = "ghp_\"quoted\"\\0123";

    fn placeholders() -> Placeholders {
        let secret =
            |name: &str, upstream: &str, value: &str, places: &[SecretPlace]| PlacedSecret {
                name: SecretName::from(name),
                value: Secret(value.into()),
                upstreams: BTreeSet::from([UpstreamName::from(upstream)]),
                places: places.iter().copied().collect(),
            };
        Placeholders {
            secrets: vec![
                secret("git", "git", TOKEN, &SecretPlace::ALL),
                secret("head", "git", "only-in-headers", &[SecretPlace::Header]),
                secret("mail", "mail", "another's secret", &SecretPlace::ALL),
            ],
            masks: HashMap::new(),
        }
    }

    fn request(target: &str, header: &str, body: &str) -> Request<Bytes> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        Request::post(target)
            .header("content-type", "application/json")
            .header("x-key", header)
            .body(body)
            .unwrap()
    }

    fn fill(request: Request<Bytes>, to: &str, kind: RouteKind) -> Found<Request<Bytes>> {
        placeholders().fill(request, &UpstreamName::from(to), kind)
    }

    #[test]
    fn a_secret_goes_to_its_own_upstream_in_every_place() {
        let asked = request(
            "/a%20b?x=1&q=%7B%7Bholdpoint:git%7D%7D&y={{holdpoint:git}}+z",
            "token {{holdpoint:git}};{{holdpoint:head}}",
            r#"{"a":"<{{holdpoint:git}}>","b":"{{x}}"}"#,
        );
        let filled = fill(asked, "git", RouteKind::Http).unwrap();
        let name = HeaderName::from_static("x-key");
        let value = &filled.headers()[&name];
        assert_eq!(
            value.as_bytes(),
            format!("token {TOKEN};only-in-headers").as_bytes()
        );
        assert!(value.is_sensitive());
        let query: Vec<_> = url::form_urlencoded::parse(filled.uri().query().unwrap().as_bytes())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            query,
            ["x=1", &format!("q={TOKEN}"), &format!("y={TOKEN} z")]
        );
        assert_eq!(filled.uri().path(), "/a%20b");
        let body: serde_json::Value = serde_json::from_slice(filled.body()).unwrap();
        assert_eq!(body["a"], format!("<{TOKEN}>"));
        assert_eq!(body["b"], "{{x}}");
    }

    #[test]
    fn anywhere_else_the_request_is_refused() {
        for (target, header, body, to) in [
            ("/", "{{holdpoint:mail}}", "{}", "git"),
            ("/", "{{holdpoint:git}}", "{}", "mail"),
            ("/", "{{holdpoint:GIT}}", "{}", "git"),
            ("/", "{{holdpoint:git", "{}", "git"),
            ("/?q={{holdpoint:head}}", "-", "{}", "git"),
            ("/?q=%7b%7Bholdpoint%3Amail%7D%7D", "-", "{}", "git"),
            ("/?{{holdpoint:git}}=1", "-", "{}", "git"),
            ("/%7B%7Bholdpoint:git%7D%7D", "-", "{}", "git"),
            ("/", "-", r#"{"a":"{{holdpoint:head}}"}"#, "git"),
            ("/", "-", r#"{"a":"{{holdpoint:git}}"}"#, "mail"),
        ] {
            let refused = fill(request(target, header, body), to, RouteKind::Http);
            let code = refused.map(|_| ()).map_err(|code| code.code);
            assert_eq!(code, Err("secret_refused"), "{target} {header} {body}");
        }
        let mut form = request("/", "-", "a={{holdpoint:git}}");
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        form.headers_mut().insert("content-type", kind);
        assert!(fill(form, "git", RouteKind::Http).is_err());
    }

    #[test]
    fn a_model_reads_placeholders_as_text() {
        let body = r#"{"messages":"use {{holdpoint:mail}}"}"#;
        let filled = fill(request("/", "-", body), "git", RouteKind::Model).unwrap();
        assert_eq!(filled.body(), body);
        assert!(
            fill(
                request("/", "{{holdpoint:mail}}", body),
                "git",
                RouteKind::Model
            )
            .is_err()
        );
    }

    fn mask() -> Arc<Mask> {
        let known = [
            ("secret1", "A"),
            ("secret12", "B"),
            ("1sec", "C"),
            ("a\"b-c-d", "D"),
        ];
        let known = known.map(|(value, name)| (value.to_owned(), name.to_owned()));
        Arc::new(Mask::new(known.into()).unwrap())
    }

    #[test]
    fn what_holds_no_secret_stays_the_very_same() {
        let text = Bytes::from_static(b"nothing sec");
        assert_eq!(mask().whole(text.clone()).as_ptr(), text.as_ptr());
        let whole = mask().whole(Bytes::from_static(b"[secret12] [a\\\"b-c-d] [a\"b-c-d]"));
        assert_eq!(whole, "[B] [D] [D]");
        let mut headers = HeaderMap::new();
        headers.insert("x", HeaderValue::from_static("got secret1!"));
        mask().headers(&mut headers);
        assert_eq!(headers["x"], "got A!");
    }

    proptest! {
        #[test]
        fn any_chunking_takes_the_same_out(
            words in prop::collection::vec(
                prop::sample::select(vec!["secret1", "secret12", "1sec", "sec", "ret1", "x", "s"]), 0..12),
            cuts in prop::collection::vec(1_usize..5, 0..40),
        ) {
            let text = Bytes::from(words.concat());
            let mask = mask();
            let whole = mask.whole(text.clone());
            let mut masking = Masking::new(mask);
            let mut out = Vec::new();
            let mut rest = text;
            for cut in cuts {
                let piece = rest.split_to(cut.min(rest.len()));
                out.extend_from_slice(&masking.push(piece));
            }
            out.extend_from_slice(&masking.push(rest));
            out.extend_from_slice(&masking.finish());
            prop_assert_eq!(Bytes::from(out), whole);
        }
    }
}
