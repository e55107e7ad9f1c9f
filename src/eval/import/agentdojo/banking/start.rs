//! The start state: read from the environment folder, written as SQL.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::env::{Env, EnvError};

const SUITE: &str = "banking";

/// What the environment folder says of the bank.
#[derive(Debug, Deserialize)]
pub(super) struct Start {
    bank_account: Account,
    filesystem: Files,
    user_account: Customer,
}

#[derive(Debug, Deserialize)]
struct Account {
    balance: f64,
    iban: String,
    transactions: Vec<Transaction>,
    scheduled_transactions: Vec<Transaction>,
}

#[derive(Debug, Deserialize)]
struct Transaction {
    id: i64,
    sender: String,
    recipient: String,
    amount: f64,
    subject: String,
    date: String,
    recurring: bool,
}

#[derive(Debug, Deserialize)]
struct Files {
    files: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Customer {
    first_name: String,
    last_name: String,
    street: String,
    city: String,
    password: String,
}

/// An injection point and what stands there when nobody attacks.
#[derive(Debug, Deserialize)]
struct Vector {
    #[serde(default)]
    default: String,
}

impl Start {
    /// Reads the start state, with the default text at every injection point.
    pub(super) fn read(env: &Env) -> Result<Self, EnvError> {
        let vectors: BTreeMap<String, Vector> = yaml(env, "injection_vectors.yaml")?;
        let mut start: Self = yaml(env, "environment.yaml")?;
        let account = &mut start.bank_account;
        let payments = account
            .transactions
            .iter_mut()
            .chain(&mut account.scheduled_transactions)
            .map(|payment| &mut payment.subject);
        for text in payments.chain(start.filesystem.files.values_mut()) {
            for (name, vector) in &vectors {
                *text = text.replace(&format!("{{{name}}}"), &vector.default);
            }
        }
        Ok(start)
    }

    /// The highest id of a payment.
    pub(super) fn last_id(&self) -> i64 {
        let account = &self.bank_account;
        account
            .transactions
            .iter()
            .chain(&account.scheduled_transactions)
            .map(|payment| payment.id)
            .max()
            .unwrap_or(0)
    }

    /// Whether a scheduled payment goes to this account.
    pub(super) fn pays(&self, payee: &Value) -> bool {
        let mut payments = self.bank_account.scheduled_transactions.iter();
        payments.any(|payment| payee.as_str() == Some(&payment.recipient))
    }

    /// One INSERT per row.
    pub(super) fn sql(&self, subject: &str) -> String {
        let mut sql = String::new();
        let customer = &self.user_account;
        let values = [
            subject,
            &customer.first_name,
            &customer.last_name,
            &customer.street,
            &customer.city,
            &customer.password,
        ];
        insert(&mut sql, "customers", &values.map(quote).join(", "));
        let account = &self.bank_account;
        let iban = quote(&account.iban);
        let owner = quote(subject);
        let balance = account.balance;
        insert(
            &mut sql,
            "accounts",
            &format!("{iban}, {owner}, {balance:?}"),
        );
        for payment in &account.transactions {
            let direction = quote(payment.direction());
            let values = payment.values(&format!("{iban}, {direction}"));
            insert(&mut sql, "transactions", &values);
        }
        for payment in &account.scheduled_transactions {
            let values = payment.values(&iban);
            insert(&mut sql, "scheduled_transactions", &values);
        }
        for (path, content) in &self.filesystem.files {
            insert(
                &mut sql,
                "files",
                &[path, content].map(|s| quote(s)).join(", "),
            );
        }
        sql
    }
}

/// How the recordings name the customer in a payment.
const CUSTOMER_IN_PAYMENTS: &str = "me";

impl Transaction {
    fn direction(&self) -> &'static str {
        if self.recipient == CUSTOMER_IN_PAYMENTS {
            "in"
        } else {
            "out"
        }
    }

    /// `ledger` are the columns between the id and the sender.
    fn values(&self, ledger: &str) -> String {
        format!(
            "{}, {ledger}, {}, {}, {:?}, {}, {}, {}",
            self.id,
            quote(&self.sender),
            quote(&self.recipient),
            self.amount,
            quote(&self.subject),
            quote(&self.date),
            u8::from(self.recurring),
        )
    }
}

fn insert(sql: &mut String, table: &str, values: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(sql, "INSERT INTO {table} VALUES ({values});");
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn yaml<T: DeserializeOwned>(env: &Env, name: &str) -> Result<T, EnvError> {
    serde_saphyr::from_str(&env.file(SUITE, name)?).map_err(|e| EnvError::Content {
        file: env.dir().join(SUITE).join(name),
        what: e.to_string().lines().next().unwrap_or_default().to_owned(),
    })
}
