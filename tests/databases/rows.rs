//! The failure table once more, on a real PostgreSQL: each module's rows one after the other on one server, each desk with a
//! database of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::servers::{Server, wanted};
use crate::table::desk::{Broken, Environment, Shelf};

/// The variable that names the database.
const URL: &str = "TICKETS_URL";

/// One server with room for many desks.
struct Shelves(Arc<Server>, Arc<AtomicUsize>);

impl Shelves {
    fn fresh(&self) -> Shelf {
        let (server, made) = (Arc::clone(&self.0), Arc::clone(&self.1));
        Shelf {
            tickets: format!("postgres: {{url_env: {URL}}}"),
            fresh: Some(Arc::new(move || {
                let name = format!("desk{}", made.fetch_add(1, Ordering::Relaxed));
                let server = Arc::clone(&server);
                Box::pin(async move {
                    server.admin(&format!("CREATE DATABASE {name}")).await;
                    vec![(URL.to_owned(), server.url_of("admin", &name))]
                })
            })),
            newest: Mutex::default(),
            own: Vec::new(),
            breaks: |_, environment| Box::pin(broken(environment)),
        }
    }
}

/// As a server that answers and takes nothing more.
async fn broken(environment: Environment) -> Broken {
    let (_, url) = &environment[0];
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("BEGIN; LOCK TABLE holdpoint.ticket IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    Box::new(client)
}

async fn shelves() -> Option<Shelves> {
    if !wanted() {
        return None;
    }
    Some(Shelves(Arc::new(Server::postgres().await), Arc::default()))
}

/// One test for each module: a server costs much and has room for many desks.
macro_rules! rows_in_turn {
    ($shelves:path; $($module:ident { $($row:ident)* })*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $module() {
            if let Some(shelves) = $shelves().await {
                $(
                    eprintln!("{}", stringify!($row));
                    $crate::table::$module::$row(&shelves.fresh()).await;
                )*
            }
        }
    )* };
}

crate::table::every_row!(rows_in_turn, crate::rows::shelves);
