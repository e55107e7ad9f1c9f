//! The same service in process, without sockets, with an upstream of the test's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use holdpoint::guard::{Cleared, Guard, Parts};
use holdpoint::metrics::Metrics;
use holdpoint::names::UpstreamName;
use holdpoint::proxy::{
    Body, BoxError, ProxyService, Setup, Upstream, UpstreamError, full, service,
};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tower::ServiceExt;

use crate::streams::{ASK, CHAT, text};
use crate::support::rig::{OFF, config, load};

type Respond = dyn Fn(Request<Bytes>) -> Result<Response<Body>, UpstreamError> + Send + Sync;

#[derive(Clone)]
struct World(Arc<Respond>);

impl Upstream for World {
    fn send(
        &self,
        _: &UpstreamName,
        request: Cleared<Request<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, UpstreamError>> {
        let respond = Arc::clone(&self.0);
        Box::pin(async move { respond(request.into_message()) })
    }
}

fn stack(
    respond: impl Fn(Request<Bytes>) -> Result<Response<Body>, UpstreamError> + Send + Sync + 'static,
) -> (ProxyService<World>, Arc<Metrics>) {
    let folder = tempfile::tempdir().unwrap();
    let (settings, policy) = load(folder.path(), &config("http://world", ""), OFF);
    let metrics = Metrics::new();
    let modes = policy.modes.clone();
    let parts = Parts {
        venues: settings.venues(),
        observers: vec![Arc::clone(&metrics) as _],
        ..Parts::default()
    };
    let guard = Guard::new(Arc::new(policy), &modes, parts).unwrap();
    let setup = Setup {
        guard: Arc::new(ArcSwap::from_pointee(guard)),
        settings: Arc::new(settings),
        metrics: Arc::clone(&metrics),
    };
    (service(setup, World(Arc::new(respond))).unwrap(), metrics)
}

fn get(target: &str) -> Request<Body> {
    Request::builder()
        .uri(target)
        .header("host", "localhost")
        .body(full(""))
        .unwrap()
}

fn chat() -> Request<Body> {
    Request::builder()
        .method("POST")
        .uri(CHAT)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(full(ASK))
        .unwrap()
}

#[tokio::test]
async fn what_eval_drives_is_what_serve_runs() {
    let (stack, _) = stack(|request| {
        assert_eq!(request.uri(), "/orders/7?x=1");
        assert_eq!(request.headers()["host"], "world");
        let body = full("{\"order\":7}");
        Ok(Response::builder()
            .header("content-type", "application/json")
            .body(body)
            .unwrap())
    });
    let answer = stack.oneshot(get("/shop/orders/7?x=1")).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"{\"order\":7}");
}

#[tokio::test]
async fn a_panic_is_an_error_in_the_routes_shape_and_the_next_request_is_served() {
    let calls = AtomicUsize::new(0);
    let (stack, metrics) = stack(move |_| {
        assert_ne!(
            calls.fetch_add(1, Ordering::SeqCst),
            0,
            "the first call panics"
        );
        Ok(Response::new(full("")))
    });
    let answer = stack
        .clone()
        .oneshot(get("/openai/v1/models"))
        .await
        .unwrap();
    assert_eq!(answer.status(), 500);
    assert_eq!(answer.headers()["x-should-retry"], "false");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(json["error"]["code"], "internal");
    let again = stack.oneshot(get("/shop/orders/1")).await.unwrap();
    assert_eq!(again.status(), 200);
    drop(again);
    assert!(metrics.render().contains("holdpoint_in_flight 0"));
}

#[tokio::test]
async fn only_the_first_piece_is_read_ahead_of_the_client() {
    let polled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&polled);
    let (stack, _) = stack(move |_| {
        let counter = Arc::clone(&counter);
        let pieces = stream::repeat_with(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok::<_, BoxError>(Frame::data(Bytes::from(text("more"))))
        });
        Ok(Response::builder()
            .header("content-type", "text/event-stream")
            .body(StreamBody::new(pieces).boxed_unsync())
            .unwrap())
    });
    let mut body = stack.oneshot(chat()).await.unwrap().into_body();
    // Whether the stream begins with a fault is known before its head leaves.
    assert_eq!(polled.load(Ordering::SeqCst), 1);
    for taken in 1..=20 {
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(piece.starts_with(b"data: "));
        assert!(polled.load(Ordering::SeqCst) <= taken + 1);
    }
}

#[tokio::test]
async fn every_upstream_failure_has_its_own_answer() {
    for (error, status, code) in [
        (
            UpstreamError::NotSent("x".into()),
            502,
            "upstream_unreachable",
        ),
        (UpstreamError::TimedOut, 504, "upstream_timeout"),
        (UpstreamError::Broken("x".into()), 502, "upstream_broken"),
    ] {
        let error = std::sync::Mutex::new(Some(error));
        let (stack, _) = stack(move |_| Err(error.lock().unwrap().take().unwrap()));
        let answer = stack.oneshot(get("/shop/orders/1")).await.unwrap();
        assert_eq!(answer.status(), status);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["error"], code);
    }
}

#[tokio::test]
async fn an_answer_names_the_policy_that_judged_it_even_after_a_swap() {
    let folder = tempfile::tempdir().unwrap();
    let guard = |policy: &str| {
        let (settings, policy) = load(folder.path(), &config("http://world", ""), policy);
        let modes = policy.modes.clone();
        let guard = Guard::new(Arc::new(policy), &modes, Parts::default()).unwrap();
        (Arc::new(guard), settings)
    };
    let (before, settings) = guard(OFF);
    let (after, _) = guard(&OFF.replace("name: off", "name: later"));
    let name = |guard: &Guard| guard.policy().hash.0.chars().take(12).collect::<String>();
    let names = [name(&before), name(&after)];
    assert_ne!(names[0], names[1]);
    let current = Arc::new(ArcSwap::new(before));
    let setup = Setup {
        guard: Arc::clone(&current),
        settings: Arc::new(settings),
        metrics: Metrics::new(),
    };
    let swap = move |_| {
        current.store(Arc::clone(&after));
        Ok(Response::new(full("{}")))
    };
    let service = service(setup, World(Arc::new(swap))).unwrap();
    for name in names {
        let answer = service
            .clone()
            .oneshot(get("/shop/orders/1"))
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["holdpoint-policy"], name);
    }
}
