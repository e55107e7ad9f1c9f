//! What a `Content-Type` says about how to read a body.

use http::{HeaderMap, header};

/// How a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json` or `+json`.
    Json,
    /// `text/event-stream`.
    Events,
    /// Any other `text/`.
    Text,
    /// Anything else.
    Other,
    /// No header.
    Unnamed,
}

/// A charset other than UTF-8: the bytes cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the charset is not UTF-8")]
pub struct ForeignCharset;

/// Reads `Content-Type`.
///
/// # Errors
/// [`ForeignCharset`] where a charset other than UTF-8 is named, whatever the type: a reader goes by it.
pub fn media(headers: &HeaderMap) -> Result<Media, ForeignCharset> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Ok(Media::Unnamed);
    };
    let Ok(value) = value.to_str() else {
        return Ok(Media::Other);
    };
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let media = match essence.as_str() {
        "" => Media::Unnamed,
        "application/json" => Media::Json,
        "text/event-stream" => Media::Events,
        text if text.starts_with("text/") => Media::Text,
        json if json.ends_with("+json") => Media::Json,
        _ => Media::Other,
    };
    let foreign = parts
        .filter_map(|parameter| parameter.split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
        .any(|(_, charset)| {
            let charset = charset.trim().trim_matches('"').to_ascii_lowercase();
            // Stores of files write `binary` for what has no charset.
            !matches!(charset.as_str(), "utf-8" | "utf8" | "us-ascii" | "binary")
        });
    if foreign {
        return Err(ForeignCharset);
    }
    Ok(media)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn types_are_read_whatever_their_case_and_parameters() {
        let read = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            media(&headers)
        };
        assert_eq!(read("Application/JSON; charset=\"UTF-8\""), Ok(Media::Json));
        assert_eq!(read("application/problem+json"), Ok(Media::Json));
        assert_eq!(read("text/event-stream;charset=utf-8"), Ok(Media::Events));
        assert_eq!(read("text/html"), Ok(Media::Text));
        assert_eq!(read("image/png"), Ok(Media::Other));
        assert_eq!(media(&HeaderMap::new()), Ok(Media::Unnamed));
        assert_eq!(
            read("application/json; charset=utf-16"),
            Err(ForeignCharset)
        );
        assert_eq!(read("text/plain; Charset = utf-7"), Err(ForeignCharset));
    }
}
