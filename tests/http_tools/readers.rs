//! What was judged is what other readers of the same bytes see.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use holdpoint::item::Item;
use holdpoint::names::ToolName;
use holdpoint::protocols::Protocol;
use holdpoint::protocols::Request;
use holdpoint::protocols::http_tools::HttpTools;
use holdpoint::settings::HttpTool;
use http::Method;
use proptest::prelude::*;
use serde_json::Value;

/// The arguments of a request, or nothing where it is refused.
fn judged(uri: &str, content_type: &str, body: &[u8]) -> Option<Value> {
    let tool = HttpTool::new(Some(ToolName::from("send")), Method::POST, "/send");
    let tools = HttpTools::new(&vec![tool].into()).unwrap();
    let parts = http::Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header("content-type", content_type)
        .body(())
        .ok()?
        .into_parts()
        .0;
    let request = Request {
        parts,
        body: Bytes::copy_from_slice(body),
        json: None,
    };
    let items = tools.read(&request).ok()?;
    match &items[..] {
        [located] => match &located.item {
            Item::ToolCall(call) => Some(call.args.value.clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Every value of each name, in order.
type Seen = BTreeMap<String, Vec<String>>;

/// Judged arguments as a reader of fields sees them.
fn as_seen(value: &Value) -> Seen {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Object(file) => format!(
            "{} {} {}",
            file["filename"].as_str().unwrap(),
            file["size"],
            file["sha256"].as_str().unwrap()
        ),
        other => other.to_string(),
    };
    let members = value.as_object().unwrap().iter();
    members
        .map(|(name, value)| {
            let values = match value {
                Value::Array(values) => values.iter().map(text).collect(),
                one => vec![text(one)],
            };
            (name.clone(), values)
        })
        .collect()
}

fn sha256(bytes: &[u8]) -> String {
    holdpoint::store::tickets::digest::sha256_hex(bytes)
}

/// As `multer` reads a body.
fn multer(content_type: &str, body: &[u8]) -> Option<Seen> {
    let boundary = multer::parse_boundary(content_type).ok()?;
    let body = Bytes::copy_from_slice(body);
    let stream = futures_util::stream::once(async move { Ok::<_, Infallible>(body) });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut parts = multer::Multipart::new(stream, boundary);
        let mut seen = Seen::new();
        while let Some(field) = parts.next_field().await.ok()? {
            let name = field.name()?.to_owned();
            let filename = field.file_name().map(str::to_owned);
            let bytes = field.bytes().await.ok()?;
            let text = match filename {
                Some(filename) => format!("{filename} {} {}", bytes.len(), sha256(&bytes)),
                None => String::from_utf8(bytes.to_vec()).ok()?,
            };
            seen.entry(name).or_default().push(text);
        }
        Some(seen)
    })
}

/// As the URL standard reads a form.
fn form(text: &[u8]) -> Seen {
    let mut seen = Seen::new();
    for (name, value) in url::form_urlencoded::parse(text) {
        seen.entry(name.into_owned())
            .or_default()
            .push(value.into_owned());
    }
    seen
}

/// Fragments of forms: plain ones, and what readers differ in.
fn pair() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,3}",
        Just("%41".to_owned()),
        Just("%c3%A9".to_owned()),
        Just("%00".to_owned()),
        Just("%".to_owned()),
        Just("%ff".to_owned()),
        Just("+".to_owned()),
        Just("[]".to_owned()),
        Just(";".to_owned()),
        Just("=".to_owned()),
        Just("é".to_owned()),
        Just("_".to_owned()),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn head() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-d]{1,2}".prop_map(|name| format!("Content-Disposition: form-data; name=\"{name}\"")),
        2 => ("[a-d]{1,2}", "[a-z .%;/]{0,4}").prop_map(|(name, file)| format!(
            "Content-Disposition: form-data; name=\"{name}\"; filename=\"{file}\""
        )),
        1 => "[a-d\"\\\\; =*']{1,8}".prop_map(|rest| format!(
            "Content-Disposition: form-data; name=\"a\"; filename=\"{rest}\""
        )),
        1 => "[a-d\"\\\\; =*']{1,12}".prop_map(|rest| format!("Content-Disposition: form-data;{rest}")),
    ]
}

fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{0,5}",
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("--".to_owned()),
        Just("--xXx".to_owned()),
        Just("--xXx--".to_owned()),
        Just("\0".to_owned()),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn body() -> impl Strategy<Value = String> {
    let line = prop_oneof![9 => Just("\r\n"), 1 => Just("\n")];
    let part = (head(), content(), line);
    (
        prop::collection::vec(part, 0..4),
        prop_oneof![8 => Just("--xXx--\r\n"), 1 => Just("--xXx--"), 1 => Just("--xXx")],
    )
        .prop_map(|(parts, end)| {
            let parts: Vec<_> = parts
                .iter()
                .map(|(head, content, line)| {
                    format!("--xXx{line}{head}{line}{line}{content}{line}")
                })
                .collect();
            parts.concat() + end
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn another_reader_sees_the_judged_parts(body in body()) {
        let content_type = "multipart/form-data; boundary=xXx";
        if let Some(value) = judged("/send", content_type, body.as_bytes()) {
            prop_assert_eq!(Some(as_seen(&value)), multer(content_type, body.as_bytes()), "{:?}", body);
        }
    }

    #[test]
    fn another_reader_sees_the_judged_fields(pairs in prop::collection::vec((pair(), pair()), 0..4)) {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let text = pairs.join("&");
        let content_type = "application/x-www-form-urlencoded";
        if let Some(value) = judged("/send", content_type, text.as_bytes()) {
            prop_assert_eq!(as_seen(&value), form(text.as_bytes()));
        }
        let uri = format!("/send?{text}");
        if let Some(value) = judged(&uri, content_type, b"") {
            prop_assert_eq!(as_seen(&value), form(text.as_bytes()));
        }
    }
}

#[test]
fn plain_bodies_are_not_refused() {
    let body = "--xXx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--xXx--\r\n";
    let content_type = "multipart/form-data; boundary=xXx";
    let value = judged("/send", content_type, body.as_bytes()).unwrap();
    assert_eq!(value, serde_json::json!({"a": "1"}));
    assert_eq!(multer(content_type, body.as_bytes()).unwrap()["a"], ["1"]);
}
