//! One rule against one call: whom it reaches, and what of that no list allows.

use super::account::{read_account, read_iban};
use super::chat::{read_chat, read_integer};
use super::code::{Code, Fault, Objection};
use super::email::{Address, read_list};
use super::message::read_message;
use super::phone::read_phone;
use super::{calendar, headers, share};
use crate::item::Arguments;
use crate::layers::vouch::{Unlisted, ValueKind};
use crate::policy::{List, Permit, RecipientKind, RecipientRule};
use crate::wire::json::{BODY_DEPTH, Document, JsonError, Kind, Node};

/// Judges a call's recipients by one rule. `list` holds what the rule's lists allow, joined, in the form of
/// [`crate::policy::List`]; look-ups are not asked.
///
/// # Errors
/// The first reason why the call does not pass: what cannot be read before what is not allowed.
pub fn judge(rule: &RecipientRule, list: &List, args: &Arguments) -> Result<(), Objection> {
    let Ok(found) = find(rule, list, args) else {
        return Err(Objection {
            code: Code::MalformedRecipient,
            at: String::new(),
            why: "arguments that are not strict JSON",
        });
    };
    let unlisted = found.unlisted.into_iter().map(|value| Objection {
        code: Code::RecipientNotAllowed,
        at: value.at,
        why: NOT_LISTED,
    });
    let mut objections: Vec<_> = found.objections.into_iter().chain(unlisted).collect();
    // Stable: of each kind the first in the call.
    objections.sort_by_key(|objection| objection.code.is_understood());
    objections.into_iter().next().map_or(Ok(()), Err)
}

const NOT_LISTED: &str = "a recipient that is on none of the rule's lists";

/// What a rule finds in a call.
pub(super) struct Found<'r> {
    pub(super) rule: &'r RecipientRule,
    pub(super) list: &'r List,
    /// How many recipients there are, listed or not.
    pub(super) count: usize,
    /// Recipients that no list allows, in canonical form.
    pub(super) unlisted: Vec<Unlisted>,
    /// What else does not pass.
    pub(super) objections: Vec<Objection>,
}

/// Finds every recipient of the rule in the call.
///
/// # Errors
/// Arguments whose bytes are not strict JSON.
pub(super) fn find<'r>(
    rule: &'r RecipientRule,
    list: &'r List,
    args: &Arguments,
) -> Result<Found<'r>, JsonError> {
    let document = Document::read(args.raw.clone(), BODY_DEPTH)?;
    let mut found = Found {
        rule,
        list,
        count: 0,
        unlisted: Vec::new(),
        objections: Vec::new(),
    };
    let root = document.root();
    match rule.kind {
        RecipientKind::Share => share::find(&mut found, &document),
        RecipientKind::Calendar => {
            found.declared(&document);
            calendar::find(&mut found, &document);
        }
        RecipientKind::Email => {
            found.declared(&document);
            headers::find(&mut found, root);
        }
        _ => found.declared(&document),
    }
    let empty = found.count == 0 && found.objections.is_empty();
    if empty && !rule.permits(Permit::Nobody) {
        let at = rule.at.first().map(ToString::to_string);
        let nobody = Fault::new(
            Code::NoRecipient,
            "no recipient where the rule looks for one",
        );
        found.fault(at.unwrap_or_default(), nobody);
    }
    Ok(found)
}

impl Found<'_> {
    /// What cannot be read.
    pub(super) fn fault(&mut self, at: impl Into<String>, fault: Fault) {
        self.objections.push(Objection {
            code: fault.code,
            at: at.into(),
            why: fault.why,
        });
    }

    /// A recipient in canonical form.
    pub(super) fn recipient(&mut self, at: &str, kind: ValueKind, key: String, listed: bool) {
        self.count += 1;
        if !listed {
            self.unlisted.push(Unlisted {
                at: at.to_owned(),
                kind,
                key,
            });
        }
    }

    pub(super) fn address(&mut self, at: &str, address: &Address) {
        let listed = address.is_on(self.list, self.rule.plus);
        self.recipient(at, ValueKind::Email, address.to_key(), listed);
    }

    /// Every mailbox of a list.
    pub(super) fn mailboxes(&mut self, at: &str, text: &str) {
        match read_list(text) {
            Ok(addresses) => addresses.iter().for_each(|a| self.address(at, a)),
            Err(fault) => self.fault(at, fault),
        }
    }

    /// What stands at the rule's places, arrays taken apart.
    fn declared(&mut self, document: &Document) {
        for selector in &self.rule.at {
            for (at, node) in selector.select(document.root()) {
                self.place(&at, node, document);
            }
            for (at, node) in selector.strays(document.root()) {
                // Where an object with the address is expected, a lenient backend takes the bare address. People of an event
                // are looked for in every form.
                let object = matches!(node.kind, Kind::Object(_));
                if !object && self.rule.kind != RecipientKind::Calendar {
                    self.fault(at, self.wrong("not an object with the recipient in it"));
                }
            }
        }
    }

    fn place(&mut self, at: &str, node: &Node, document: &Document) {
        match &node.kind {
            Kind::Null => {}
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    let at = format!("{at}/{index}");
                    let before = (self.count, self.objections.len());
                    self.value(&at, element, document);
                    if before == (self.count, self.objections.len()) {
                        self.fault(at, self.wrong("an empty element"));
                    }
                }
            }
            _ => self.value(at, node, document),
        }
    }

    /// One text or number.
    fn value(&mut self, at: &str, node: &Node, document: &Document) {
        let integer = || std::str::from_utf8(document.bytes().get(node.span.clone())?).ok();
        match (&node.kind, self.rule.kind) {
            (Kind::String(text), _) => self.text(at, text),
            (Kind::Number, RecipientKind::Chat | RecipientKind::Account) => {
                match read_integer(integer().unwrap_or_default()) {
                    Ok(digits) => self.opaque(at, digits),
                    Err(fault) => self.fault(at, fault),
                }
            }
            _ => self.fault(at, self.wrong("not a text")),
        }
    }

    fn wrong(&self, why: &'static str) -> Fault {
        let code = match self.rule.kind {
            RecipientKind::Phone => Code::MalformedPhone,
            RecipientKind::Iban => Code::MalformedIban,
            _ => Code::MalformedRecipient,
        };
        Fault::new(code, why)
    }

    fn opaque(&mut self, at: &str, id: String) {
        if self.rule.kind == RecipientKind::Chat {
            let listed = self.list.chats.contains(&id);
            self.recipient(at, ValueKind::Text, id, listed);
        } else {
            let listed = self.list.accounts.contains(&id);
            self.recipient(at, ValueKind::Account, id, listed);
        }
    }

    fn text(&mut self, at: &str, text: &str) {
        let fault = match self.rule.kind {
            RecipientKind::Email | RecipientKind::Calendar | RecipientKind::Share => {
                return self.mailboxes(at, text);
            }
            RecipientKind::RawEmail => self.message(at, text).err(),
            RecipientKind::Phone => match read_phone(text, self.rule.region) {
                Ok(None) => None,
                Ok(Some(number)) => {
                    let listed = self.list.phones.contains(&number);
                    self.recipient(at, ValueKind::Phone, number, listed);
                    None
                }
                Err(fault) => Some(fault),
            },
            RecipientKind::Account => self.filled(at, read_account(text)),
            RecipientKind::Iban => self.filled(at, read_iban(text)),
            RecipientKind::Chat => self.filled(at, read_chat(text).map(Option::unwrap_or_default)),
        };
        if let Some(fault) = fault {
            self.fault(at, fault);
        }
    }

    fn filled(&mut self, at: &str, read: Result<String, Fault>) -> Option<Fault> {
        match read {
            Ok(id) if id.is_empty() => None,
            Ok(id) => {
                self.opaque(at, id);
                None
            }
            Err(fault) => Some(fault),
        }
    }

    fn message(&mut self, at: &str, text: &str) -> Result<(), Fault> {
        let message = read_message(text)?;
        if !text.trim().is_empty() && message.delivered.is_empty() {
            return Err(Fault::new(Code::NoRecipient, "a message without recipient"));
        }
        for address in message.delivered.iter().chain(&message.answered) {
            self.address(at, address);
        }
        Ok(())
    }
}

/// What an answer of a look-up is in the form in which recipients of this kind are compared; nothing where it cannot be read.
pub(super) fn canonical(rule: &RecipientRule, text: &str) -> Vec<String> {
    let some = |key: Option<String>| key.filter(|key| !key.is_empty()).into_iter().collect();
    match rule.kind {
        RecipientKind::Email
        | RecipientKind::RawEmail
        | RecipientKind::Calendar
        | RecipientKind::Share => {
            let addresses = read_list(text).unwrap_or_default();
            addresses.iter().map(Address::to_key).collect()
        }
        RecipientKind::Phone => some(read_phone(text, rule.region).ok().flatten()),
        RecipientKind::Account => some(read_account(text).ok()),
        RecipientKind::Iban => some(read_iban(text).ok()),
        RecipientKind::Chat => some(read_chat(text).ok().flatten()),
    }
}
