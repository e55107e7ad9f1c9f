//! Read-only databases.

use std::collections::BTreeMap;

use super::{Reading, key_name};
use crate::names::StoreName;
use crate::settings::{SqlServer, SqlStore, TicketPlace};
use crate::source::{Field, Fields};
use crate::store::sql::{ServerTls, mysql, postgres};

/// A kind of server: its key, the form of its URL, and whether a URL leads to this machine.
struct Kind {
    key: &'static str,
    url: &'static str,
    is_local: fn(&str) -> Option<bool>,
    store: fn(SqlServer) -> SqlStore,
}

const KINDS: [Kind; 2] = [
    Kind {
        key: "postgres",
        url: "postgresql://USER:PASSWORD@HOST/DATABASE",
        is_local: postgres::is_local,
        store: SqlStore::Postgres,
    },
    Kind {
        key: "mysql",
        url: "mysql://USER:PASSWORD@HOST/DATABASE",
        is_local: mysql::is_local,
        store: SqlStore::MySql,
    },
];

impl Reading<'_> {
    /// Where tickets live: one of `store` and `postgres`.
    pub(super) fn ticket_place(&self, fields: &mut Fields<'_>) -> Option<TicketPlace> {
        match fields.exactly_one(&["store", "postgres"])? {
            ("store", field) => self.path(&field).map(TicketPlace::File),
            (_, field) => {
                let [kind, _] = &KINDS;
                self.server(kind, &field).map(TicketPlace::Postgres)
            }
        }
    }

    pub(super) fn stores(&self, field: &Field<'_>) -> Option<BTreeMap<StoreName, SqlStore>> {
        let mut stores = BTreeMap::new();
        let mut whole = true;
        for (key, value) in field.entries()? {
            let name = key_name(&key);
            let store = value
                .map()
                .and_then(|mut fields| self.store(&value, &mut fields));
            match (name, store) {
                (Some(name), Some(store)) => drop(stores.insert(name.into(), store)),
                _ => whole = false,
            }
        }
        whole.then_some(stores)
    }

    fn store(&self, field: &Field<'_>, fields: &mut Fields<'_>) -> Option<SqlStore> {
        let file = fields.optional("sqlite");
        let servers: Vec<_> = KINDS
            .iter()
            .filter_map(|kind| Some((kind, fields.optional(kind.key)?)))
            .collect();
        match (file, servers.as_slice()) {
            (Some(file), []) => self.path(&file).map(SqlStore::Sqlite),
            (None, [(kind, server)]) => self.server(kind, server).map(kind.store),
            _ => {
                field.error(
                    "a store is one database",
                    "write one of `sqlite: FILE`, `postgres: {url_env: NAME}` and `mysql: {url_env: NAME}`",
                );
                None
            }
        }
    }

    fn server(&self, kind: &Kind, field: &Field<'_>) -> Option<SqlServer> {
        let mut fields = field.map()?;
        let source = fields.required("url_env");
        let url = source.as_ref().and_then(|field| self.secrets.get(field));
        let tls = fields.optional("tls");
        let (source, url) = (source?, url?);
        let Some(local) = (kind.is_local)(&url.0) else {
            // Not the URL itself: it holds a password.
            source.error(
                "the variable's value is not a URL of such a server",
                format!("write it as `{}`", kind.url),
            );
            return None;
        };
        let tls = match &tls {
            Some(field) => self.server_tls(field, local)?,
            None if local => ServerTls::Off,
            None => ServerTls::On(None),
        };
        Some(SqlServer { url, tls })
    }

    fn server_tls(&self, field: &Field<'_>, local: bool) -> Option<ServerTls> {
        if field.is_map() {
            let mut fields = field.map()?;
            let authorities = fields.required("ca").and_then(|field| self.path(&field));
            return authorities.map(|file| ServerTls::On(Some(file)));
        }
        let on = field.choice(&[("on", true), ("off", false)])?;
        if !on && !local {
            field.warn(
                "the database's answers, and perhaps its password, pass unencrypted",
                "write `tls: on`, or `tls: {ca: FILE}` for an authority of your own",
            );
        }
        Some(if on {
            ServerTls::On(None)
        } else {
            ServerTls::Off
        })
    }
}
