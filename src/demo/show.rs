//! What the demo prints.

use std::net::SocketAddr;
use std::path::Path;

use super::agent::{Answer, Happening};
use super::scenes::Scene;
use crate::policy::Policy;
use crate::serve::Addresses;
use crate::store::sql::{ReadOnlySql, SqlError, SqlValue};
use crate::verdict::LayerId;

/// What the guard leaves in place of text it took out begins so.
const NOTICE: &str = "[holdpoint: ";
/// More of a text than this is cut for the eye.
const WIDTH: usize = 150;

pub(super) type Print<'a> = &'a mut dyn FnMut(&str);

pub(super) fn opening(print: Print<'_>, policy: &Policy, file: Option<&Path>) {
    let modes: Vec<String> = LayerId::ALL
        .into_iter()
        .map(|layer| format!("{layer} {}", policy.modes.of(layer).as_str()))
        .collect();
    let file = file.map_or("policies/demo.yaml (embedded)".to_owned(), |f| {
        f.display().to_string()
    });
    print(
        "Holdpoint demo: an agent, a gullible model, a shop with a real database, and the proxy between them.",
    );
    print(&format!("Policy {file}: {}", modes.join(", ")));
    print("");
}

pub(super) fn scene(
    print: Print<'_>,
    number: usize,
    scene: &Scene,
    happenings: &[Happening],
    verdicts: &[String],
) {
    print(&format!("{number}. {}", scene.title));
    if let Some(planted) = scene.planted {
        print(&format!("   shop      {planted}"));
    }
    print(&format!("   user      {}", scene.user));
    for happening in happenings {
        match happening {
            Happening::Said(text) => print(&format!("   model     says: {}", short(text))),
            Happening::Called { tool, args } => {
                print(&format!(
                    "   model     calls {tool} {}",
                    short(&args.to_string())
                ));
            }
            Happening::Answered { status, body, .. } => {
                print(&format!("   tool      {status}: {}", short(body)));
                if let Some(notice) = body.find(NOTICE).and_then(|at| body.get(at..)) {
                    print(&format!("             ... {}", short(notice)));
                }
            }
        }
    }
    self::verdicts(print, verdicts);
}

/// One line per decision; equal ones that follow each other are told once, with their number.
pub(super) fn verdicts(print: Print<'_>, lines: &[String]) {
    for equal in lines.chunk_by(|a, b| a == b) {
        if let Some(line) = equal.first() {
            let times = match equal.len() {
                1 => String::new(),
                many => format!(" ({many} parts of the answer)"),
            };
            print(&format!("   guard     {line}{times}"));
        }
    }
}

pub(super) fn repeated(print: Print<'_>, tool: &str, answer: &Answer) {
    let how = if answer.replayed {
        " (stored receipt, nothing sent)"
    } else {
        ""
    };
    print(&format!(
        "   agent     repeats {tool}: {}{how}: {}",
        answer.status,
        short(&answer.body)
    ));
}

/// Counts what matters, over a connection that cannot write.
pub(super) async fn database(print: Print<'_>, judge: &dyn ReadOnlySql) -> Result<(), SqlError> {
    const STATE: &str = "SELECT (SELECT count(*) FROM refunds), (SELECT group_concat(order_id || ' ' || amount, '; ') FROM refunds), \
         (SELECT count(*) FROM emails), (SELECT group_concat(recipient, '; ') FROM emails)";
    let rows = judge.query(STATE, Vec::new()).await?;
    let cells: Vec<String> = rows.rows.into_iter().flatten().map(cell).collect();
    if let [refunds, refunded, emails, recipients] = cells.as_slice() {
        print(&format!(
            "   database  refunds: {refunds}{}, emails: {emails}{}",
            within(refunded),
            within(recipients)
        ));
    }
    print("");
    Ok(())
}

fn cell(value: SqlValue) -> String {
    match value {
        SqlValue::Integer(n) => n.to_string(),
        SqlValue::Text(text) => text,
        _ => String::new(),
    }
}

fn within(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}

/// Where the request waits, and how to answer it.
pub(super) fn your_turn(
    print: Print<'_>,
    number: usize,
    approvers: SocketAddr,
    ticket: &str,
    password: &str,
) {
    print(&format!("{number}. Your turn: a request waits for you"));
    print(
        "   agent     asks to refund 4.90 EUR on order A-1001, and repeats the call until you have answered",
    );
    print(&format!("   open      http://{approvers}/tickets/{ticket}"));
    print(&format!(
        "   log in    as sam, with the password {password}"
    ));
    print("");
}

pub(super) fn by_hand(print: Print<'_>, at: Addresses, key: &str, database: &Path) {
    let agents = at.agents;
    let tickets = database.with_file_name("tickets.db");
    let tickets = tickets.display();
    print("Try it by hand, in another terminal. You are alice, and A-1001 is your order.");
    print("   # An order of yours: 200. Somebody else's: 403, not_owner.");
    print(&format!("   curl -i http://{agents}/shop/orders/A-1001"));
    print(&format!("   curl -i http://{agents}/shop/orders/B-2002"));
    print("   # A refund: 403, approval_required.");
    print(&format!(
        "   curl -i http://{agents}/shop/orders/A-1001/refunds -H 'content-type: application/json' -d '{{\"amount\":\"5.00\"}}'"
    ));
    print(
        "   # Approve it, then send it twice more: once it goes through, then its receipt comes back.",
    );
    print(&format!(
        "   holdpoint ticket list --state requested --store {tickets}"
    ));
    print(&format!(
        "   holdpoint ticket approve TICKET --digest DIGEST --store {tickets}"
    ));
    print("   # The model's answer as a stream: in place of the blocked call stands a note.");
    print(&format!(
        "   curl -N http://{agents}/openai/v1/chat/completions -H 'content-type: application/json' -d '{{\"model\":\"demo\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Refund order B-2002\"}}]}}'"
    ));
    if let Some(approvers) = at.approvers {
        print(&format!(
            "   # The page on which people answer: http://{approvers}/"
        ));
        print("   # The tickets as an approver sees them over the API, and the metrics.");
        print(&format!(
            "   curl http://{approvers}/v1/tickets -H 'authorization: Bearer {key}'"
        ));
    }
    print(&format!("   curl http://{}/metrics", at.operations));
    print(&format!("The shop's database: {}", database.display()));
    print("Stop with ctrl-c.");
}

fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= WIDTH {
        return line;
    }
    let head: String = line.chars().take(WIDTH).collect();
    format!("{head}...")
}
