//! The demo's tool backend: a shop with a real database, that trusts whoever calls it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{self, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use serde_json::{Value, json};

type Database = Arc<Mutex<Connection>>;

/// Makes the database at `path`, with its customers, orders and reviews.
///
/// # Errors
/// The file cannot be written.
pub fn create(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(include_str!("shop.sql"))?;
    Ok(connection)
}

/// The shop's HTTP interface over its database.
pub fn router(connection: Connection) -> Router {
    Router::new()
        .route("/orders/{order_id}", get(order))
        .route("/orders/{order_id}/refunds", post(refund))
        .route("/products/{product}/reviews", get(reviews))
        .route("/emails", post(email))
        .with_state(Arc::new(Mutex::new(connection)))
}

/// A database error as a 500 that says so.
struct Broken(rusqlite::Error);

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let body = Json(json!({"error": self.0.to_string()}));
        (StatusCode::INTERNAL_SERVER_ERROR, body).into_response()
    }
}

fn with<T>(
    database: &Database,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, Broken> {
    let connection = database.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(run(&connection)?)
}

async fn order(
    State(database): State<Database>,
    extract::Path(id): extract::Path<String>,
) -> Result<Response, Broken> {
    let found = with(&database, |connection| {
        connection
            .query_row(
                "SELECT id, item, total, status FROM orders WHERE id = ?",
                [id],
                |row| {
                    Ok(json!({
                        "order_id": row.get::<_, String>(0)?,
                        "item": row.get::<_, String>(1)?,
                        "total": row.get::<_, String>(2)?,
                        "status": row.get::<_, String>(3)?,
                    }))
                },
            )
            .optional()
    })?;
    Ok(match found {
        Some(order) => Json(order).into_response(),
        None => (
            StatusCode::NOT_FOUND,
            Json(json!({"error": "no such order"})),
        )
            .into_response(),
    })
}

async fn reviews(
    State(database): State<Database>,
    extract::Path(product): extract::Path<String>,
) -> Result<Json<Value>, Broken> {
    let reviews = with(&database, |connection| {
        connection
            .prepare("SELECT author, body FROM reviews WHERE product = ? ORDER BY id")?
            .query_map([product], |row| {
                Ok(json!({"author": row.get::<_, String>(0)?, "text": row.get::<_, String>(1)?}))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()
    })?;
    Ok(Json(json!({ "reviews": reviews })))
}

#[derive(Deserialize)]
struct Refund {
    amount: String,
}

async fn refund(
    State(database): State<Database>,
    extract::Path(order_id): extract::Path<String>,
    Json(refund): Json<Refund>,
) -> Result<Json<Value>, Broken> {
    let id = with(&database, |connection| {
        connection.execute(
            "INSERT INTO refunds (order_id, amount) VALUES (?, ?)",
            params![order_id, refund.amount],
        )?;
        Ok(connection.last_insert_rowid())
    })?;
    Ok(Json(json!({
        "refund_id": id,
        "order_id": order_id,
        "amount": refund.amount,
        "status": "refunded",
    })))
}

#[derive(Deserialize)]
struct Email {
    to: String,
    subject: String,
    body: String,
}

async fn email(
    State(database): State<Database>,
    Json(email): Json<Email>,
) -> Result<Json<Value>, Broken> {
    with(&database, |connection| {
        connection.execute(
            "INSERT INTO emails (recipient, subject, body) VALUES (?, ?, ?)",
            params![email.to, email.subject, email.body],
        )
    })?;
    Ok(Json(json!({"status": "sent"})))
}
