//! Real servers, each in a folder of its own, on a port of its own, as a user who is not root.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use holdpoint::store::sql::{Limits, ReadOnlySql, ServerTls, SqlError, SqlValue};
use mysql_async::prelude::Queryable;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Password of both accounts.
const PASSWORD: &str = "p%40ss:word";
const PASSWORD_PLAIN: &str = "p@ss:word";

/// User that servers run as where the tests run as root, which they refuse.
const NOBODY: u32 = 65_534;

/// A store, or why it is none.
pub type Opened = Result<Arc<dyn ReadOnlySql>, SqlError>;

/// Opens a server's store as this user, without TLS.
pub fn opened(
    open: fn(&str, &ServerTls, &str, Limits) -> Opened,
    server: &Server,
    user: &str,
) -> Opened {
    let limits = Limits::default();
    open(&server.url(user), &ServerTls::Off, "shop", limits)
}

/// What a query with the parameter `:id` gives.
pub async fn rows(database: &dyn ReadOnlySql, sql: &str, id: &str) -> Vec<Vec<SqlValue>> {
    let params = vec![("id".to_owned(), SqlValue::Text(id.to_owned()))];
    database.query(sql, params).await.unwrap().rows
}

/// Whether to start servers; says so where not.
pub fn wanted() -> bool {
    let wanted = std::env::var_os("HOLDPOINT_TEST_DATABASES").is_some();
    if !wanted {
        eprintln!("skipped: HOLDPOINT_TEST_DATABASES is not set; scripts/test databases sets it");
    }
    wanted
}

/// A program of the path, or of the folders where distributions hide servers.
fn program(names: &[&str]) -> PathBuf {
    let mut folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    folders.push("/usr/sbin".into());
    let mut hidden: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path().join("bin"))
        .collect();
    hidden.sort();
    folders.extend(hidden.into_iter().rev());
    let mut candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("there is no {}: install the server", names.join(" or ")))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Certificates of an authority and of a server called `localhost`.
pub fn certificates(folder: &Path) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    fs::write(folder.join("ca.pem"), root.pem()).unwrap();
    fs::write(folder.join("server.pem"), server.pem()).unwrap();
    fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
}

/// A running server. Ends with the value.
pub struct Server {
    child: Option<Child>,
    start: Box<dyn Fn() -> Child + Send + Sync>,
    scheme: &'static str,
    database: &'static str,
    pub port: u16,
    pub folder: TempDir,
}

impl Server {
    /// `shop` with a table of orders, an `admin` who may do everything, and a `reader` who may read it.
    pub async fn postgres() -> Self {
        let folder = home();
        let data = folder.path().join("data");
        let secret = folder.path().join("secret");
        fs::write(&secret, PASSWORD_PLAIN).unwrap();
        own(folder.path());
        let made = unprivileged(&program(&["initdb"]))
            .args([
                "-U",
                "admin",
                "-A",
                "scram-sha-256",
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C",
                "--pwfile",
            ])
            .arg(&secret)
            .arg("-D")
            .arg(&data)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = free_port();
        let binary = program(&["postgres"]);
        let (home, certificates) = (data.clone(), folder.path().to_owned());
        let start = move || {
            let mut command = unprivileged(&binary);
            command.arg("-D").arg(&home).args(["-p", &port.to_string()]);
            for setting in [
                "listen_addresses=127.0.0.1".to_owned(),
                format!("unix_socket_directories={}", home.display()),
                "fsync=off".to_owned(),
                "ssl=on".to_owned(),
                format!(
                    "ssl_cert_file={}",
                    certificates.join("server.pem").display()
                ),
                format!("ssl_key_file={}", certificates.join("server.key").display()),
            ] {
                command.args(["-c", &setting]);
            }
            command.spawn().unwrap()
        };
        let server = Self {
            child: Some(start()),
            start: Box::new(start),
            scheme: "postgresql",
            database: "postgres",
            port,
            folder,
        };
        server.ready().await;
        server
            .admin(&format!(
                "CREATE TABLE orders (id text PRIMARY KEY, number bigint NOT NULL UNIQUE, owner text, tenant text NOT NULL);
                 INSERT INTO orders VALUES ('o-1', 1, 'ann', 'acme'), ('o-2', 2, 'bob', 'acme'), ('o-3', 3, NULL, 'acme'), ('O''Brien', 4, 'cy', 'other');
                 CREATE ROLE reader LOGIN PASSWORD '{PASSWORD_PLAIN}';
                 GRANT SELECT ON orders TO reader;"
            ))
            .await;
        server
    }

    /// The same on MariaDB, or MySQL where only that is installed.
    pub async fn mysql() -> Self {
        let folder = home();
        let data = folder.path().join("data");
        let init = folder.path().join("init.sql");
        fs::write(
            &init,
            format!(
                "CREATE USER IF NOT EXISTS admin@'%' IDENTIFIED BY '{PASSWORD_PLAIN}';\nGRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;\nCREATE DATABASE IF NOT EXISTS shop;\n"
            ),
        )
        .unwrap();
        own(folder.path());
        let made = unprivileged(&program(&["mariadb-install-db", "mysql_install_db"]))
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ])
            .arg(format!("--datadir={}", data.display()))
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stdout)
        );
        let port = free_port();
        let binary = program(&["mariadbd", "mysqld"]);
        let base = folder.path().to_owned();
        let start = move || {
            unprivileged(&binary)
                .arg("--no-defaults")
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--socket={}", base.join("s.sock").display()))
                .arg(format!("--pid-file={}", base.join("pid").display()))
                .arg(format!("--init-file={}", init.display()))
                .arg(format!("--ssl-cert={}", base.join("server.pem").display()))
                .arg(format!("--ssl-key={}", base.join("server.key").display()))
                .args([
                    "--bind-address=127.0.0.1",
                    "--innodb-flush-log-at-trx-commit=0",
                    "--innodb-buffer-pool-size=16M",
                ])
                .arg(format!("--port={port}"))
                .spawn()
                .unwrap()
        };
        let server = Self {
            child: Some(start()),
            start: Box::new(start),
            scheme: "mysql",
            database: "shop",
            port,
            folder,
        };
        server.ready().await;
        server
            .admin(&format!(
                "CREATE TABLE orders (id varchar(40) PRIMARY KEY, number bigint NOT NULL UNIQUE, owner varchar(40), tenant varchar(40) NOT NULL) CHARACTER SET utf8mb4;
                 INSERT INTO orders VALUES ('o-1', 1, 'ann', 'acme'), ('o-2', 2, 'bob', 'acme'), ('o-3', 3, NULL, 'acme'), ('O''Brien', 4, 'cy', 'other');
                 CREATE USER reader@'%' IDENTIFIED BY '{PASSWORD_PLAIN}';
                 GRANT SELECT ON shop.* TO reader@'%'"
            ))
            .await;
        server
    }

    /// The URL of an account.
    pub fn url(&self, user: &str) -> String {
        self.url_at("127.0.0.1", user)
    }

    pub fn url_at(&self, host: &str, user: &str) -> String {
        let (scheme, port, database) = (self.scheme, self.port, self.database);
        format!("{scheme}://{user}:{PASSWORD}@{host}:{port}/{database}")
    }

    /// The URL of an account for another database.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        let (scheme, port) = (self.scheme, self.port);
        format!("{scheme}://{user}:{PASSWORD}@127.0.0.1:{port}/{database}")
    }

    /// Runs statements in another database of PostgreSQL.
    pub async fn run_at(&self, url: &str, sql: &str) -> Result<(), String> {
        let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.map_err(|error| error.to_string())?;
        let task = tokio::spawn(connection);
        let done = client.batch_execute(sql).await;
        drop(client);
        let _ = task.await;
        done.map_err(|error| format!("{error:?}"))
    }

    /// The first text of a query of the administrator.
    pub async fn asked(&self, sql: &str) -> String {
        if self.scheme == "mysql" {
            let opts = mysql_async::Opts::from_url(&self.url("admin")).unwrap();
            let opts = mysql_async::OptsBuilder::from_opts(opts).prefer_socket(false);
            let mut conn = mysql_async::Conn::new(opts).await.unwrap();
            let found: Option<String> = conn.query_first(sql).await.unwrap();
            let _ = conn.disconnect().await;
            return found.unwrap();
        }
        let url = self.url("admin");
        let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        let task = tokio::spawn(connection);
        let found = client.query_one(sql, &[]).await.unwrap().get(0);
        drop(client);
        let _ = task.await;
        found
    }

    /// Runs statements as the administrator.
    pub async fn admin(&self, sql: &str) {
        self.tried(sql)
            .await
            .unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    async fn tried(&self, sql: &str) -> Result<(), String> {
        if self.scheme == "mysql" {
            let opts = mysql_async::Opts::from_url(&self.url("admin")).unwrap();
            let opts = mysql_async::OptsBuilder::from_opts(opts).prefer_socket(false);
            let conn = mysql_async::Conn::new(opts).await;
            let mut conn = conn.map_err(|error| error.to_string())?;
            for statement in sql.split(';').filter(|part| !part.trim().is_empty()) {
                let done = conn.query_drop(statement).await;
                done.map_err(|error| error.to_string())?;
            }
            let _ = conn.disconnect().await;
            return Ok(());
        }
        self.run_at(&self.url("admin"), sql).await
    }

    /// Waits until it takes statements: half a minute at most.
    async fn ready(&self) {
        for _ in 0..300 {
            if self.tried("SELECT 1").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "the server does not start: {:?}",
            self.tried("SELECT 1").await
        );
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // PostgreSQL's fast shutdown, and an end for the other.
            let signal = if self.scheme == "mysql" {
                Signal::TERM
            } else {
                Signal::INT
            };
            kill_process(Pid::from_child(&child), signal).unwrap();
            child.wait().unwrap();
        }
    }

    pub async fn start_again(&mut self) {
        self.child = Some((self.start)());
        self.ready().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A folder that the unprivileged user can reach, with certificates.
fn home() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    folder
}

fn is_root(folder: &Path) -> bool {
    fs::metadata(folder).unwrap().uid() == 0
}

/// Hands the folder and what is in it to the user of the server.
fn own(folder: &Path) {
    let key = folder.join("server.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    if !is_root(folder) {
        return;
    }
    for entry in fs::read_dir(folder).unwrap() {
        chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir("/")
        .env_remove("PGDATA")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
