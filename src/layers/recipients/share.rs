//! Grants on files and other objects: who gets access, whether everybody does, and whether the object is given away.
//!
//! Known are the words of Google Drive (v2, v3), Google Cloud IAM and Calendar ACLs, Microsoft Graph, Dropbox, Box, S3 and
//! GitHub. A grant may stand at any depth at or below the rule's places.

use super::code::{Code, Fault};
use super::email::read_list;
use super::judge::Found;
use super::words::{flag, squashed};
use crate::item::Place;
use crate::layers::egress::read_domain;
use crate::layers::vouch::ValueKind;
use crate::policy::Permit;
use crate::wire::json::{Document, Kind, Node};

/// Keys of who gets access.
const GRANTEES: [&str; 44] = [
    "address",
    "alias",
    "collaborator",
    "collaborators",
    "domain",
    "domains",
    "email",
    "emailaddress",
    "emailaddresses",
    "emails",
    "grantee",
    "granteeemail",
    "grantees",
    "grantfullcontrol",
    "grantread",
    "grantreadacp",
    "grantwrite",
    "grantwriteacp",
    "group",
    "groupemail",
    "groups",
    "invitee",
    "invitees",
    "login",
    "member",
    "members",
    "newowner",
    "newowneremail",
    "objectid",
    "principal",
    "principals",
    "recipient",
    "recipients",
    "sharedwith",
    "sharewith",
    "to",
    "uri",
    "user",
    "useremail",
    "useremails",
    "userid",
    "username",
    "users",
    "value",
];

/// Keys of what somebody may do.
const ROLES: [&str; 6] = [
    "role",
    "roles",
    "permission",
    "permissions",
    "accesslevel",
    "accessrole",
];

/// Keys that say how widely an object is seen.
const REACH: [&str; 15] = [
    "access",
    "audience",
    "acl",
    "cannedacl",
    "effectiveaudience",
    "generalaccess",
    "linkaudience",
    "linkscope",
    "linkvisibility",
    "permissionid",
    "predefinedacl",
    "requestedvisibility",
    "sharedlinkaccess",
    "tag",
    "visibility",
];

/// Flags that open an object to everybody, or to whoever has a link.
const OPEN: [&str; 15] = [
    "allowfilediscovery",
    "anyone",
    "anyonecanedit",
    "anyonecanview",
    "anyonewithlink",
    "anyonewiththelink",
    "ispublic",
    "linksharing",
    "linksharingenabled",
    "public",
    "publiclink",
    "published",
    "publishtoweb",
    "withlink",
    "worldreadable",
];

/// Flags that give an object away.
const AWAY: [&str; 5] = [
    "makeowner",
    "movetonewownersroot",
    "pendingowner",
    "transferownership",
    "transferownershipto",
];

/// What `type` or `scope` of a grant says of who gets it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// One user, or the members of one group.
    Named,
    /// A whole domain.
    Domain,
    /// Everybody.
    Anyone,
    /// Everybody in the organisation, whose domain is not told.
    Organization,
    /// Not about who, but what: `type: view` of a link.
    Role,
}

fn class(word: &str) -> Option<Class> {
    Some(match squashed(word).as_str() {
        "user"
        | "users"
        | "group"
        | "groups"
        | "serviceaccount"
        | "existingaccess"
        | "specificpeople"
        | "invited"
        | "email"
        | "member"
        | "collaborators"
        | "canonicaluser"
        | "amazoncustomerbyemail" => Class::Named,
        "domain" => Class::Domain,
        "organization" | "organisation" | "org" | "company" | "tenant" | "team" | "internal" => {
            Class::Organization
        }
        "view" | "edit" | "embed" | "review" | "blocksdownload" => Class::Role,
        word if is_public(word) => Class::Anyone,
        _ => return None,
    })
}

/// Words for everybody, squashed.
fn is_public(word: &str) -> bool {
    word.starts_with("public")
        || word.starts_with("anyone")
        || matches!(
            word,
            "allusers"
                | "allauthenticatedusers"
                | "authenticatedread"
                | "authenticatedusers"
                | "anonymous"
                | "everyone"
                | "everybody"
                | "default"
                | "link"
                | "open"
                | "web"
                | "world"
        )
        || word.ends_with("globalallusers")
        || word.ends_with("globalauthenticatedusers")
}

/// Words for nobody but those who have access already.
fn is_closed(word: &str) -> bool {
    word.starts_with("bucketowner")
        || matches!(
            word,
            "" | "private" | "projectprivate" | "restricted" | "none" | "off" | "onlyme" | "noone"
        )
}

/// Finds every grant at the rule's places.
pub(super) fn find(found: &mut Found<'_>, document: &Document) {
    let rule = found.rule;
    let mut reader = Reader { found, document };
    let places: Vec<_> = rule
        .at
        .iter()
        .flat_map(|selector| selector.select(document.root()))
        .collect();
    for (mut at, node) in places {
        match &node.kind {
            Kind::String(text) => reader.subject(&at, text, None),
            Kind::Null => {}
            Kind::Bool(_) | Kind::Number => {
                reader.found.fault(at, Fault::malformed("not a grant"));
            }
            Kind::Array(_) | Kind::Object(_) => reader.grants(&mut at, node, "", None),
        }
    }
}

struct Reader<'f, 'r, 'd> {
    found: &'f mut Found<'r>,
    document: &'d Document,
}

impl Reader<'_, '_, '_> {
    /// Reads what stands below `key`; `outer` is the class of the grant around it.
    fn grants(&mut self, at: &mut String, node: &Node, key: &str, outer: Option<Class>) {
        let length = at.len();
        for (index, element) in node.elements().iter().enumerate() {
            Place::push_step(at, &index.to_string());
            self.member(at, element, key, outer);
            at.truncate(length);
        }
        if !matches!(node.kind, Kind::Object(_)) {
            return;
        }
        let own = self.own_class(at, node);
        let before = (self.found.count, self.found.objections.len());
        for member in node.members() {
            Place::push_step(at, &member.key);
            let key = squashed(&member.key);
            if !matches!(key.as_str(), "type" | "scope" | "granteetype" | "scopetype")
                || member.value.as_str().is_none()
            {
                self.member(at, &member.value, &key, own.or(outer));
            }
            at.truncate(length);
        }
        let named = matches!(own, Some(Class::Named | Class::Domain));
        if named && before == (self.found.count, self.found.objections.len()) {
            let nobody = Fault::new(Code::NoRecipient, "a grant that names nobody");
            self.found.fault(at.clone(), nobody);
        }
    }

    /// The class that an object's `type` or `scope` says, the widest of them.
    fn own_class(&mut self, at: &str, node: &Node) -> Option<Class> {
        let mut own = None;
        for member in node.members() {
            let key = squashed(&member.key);
            if !matches!(key.as_str(), "type" | "scope" | "granteetype" | "scopetype") {
                continue;
            }
            let mut place = at.to_owned();
            Place::push_step(&mut place, &member.key);
            let text = match &member.value.kind {
                Kind::Null | Kind::Object(_) => continue,
                Kind::String(text) => text,
                _ => {
                    self.found.fault(place, UNKNOWN);
                    continue;
                }
            };
            match class(text) {
                Some(Class::Anyone) => self.open(&place),
                Some(Class::Organization) => self.organization(&place),
                Some(Class::Role) => {}
                Some(named) => own = Some(named),
                None => self.found.fault(place, UNKNOWN),
            }
        }
        own
    }

    fn member(&mut self, at: &mut String, node: &Node, key: &str, class: Option<Class>) {
        match &node.kind {
            Kind::Array(_) | Kind::Object(_) => return self.grants(at, node, key, class),
            Kind::String(text) if ROLES.contains(&key) && squashed(text).contains("owner") => {
                self.away(at);
            }
            Kind::String(text) if key.starts_with("newowner") && !text.is_empty() => self.away(at),
            _ => {}
        }
        let raw = self.document.bytes().get(node.span.clone());
        let raw = raw.unwrap_or_default();
        let on = || flag(node, raw) != Some(false);
        match &node.kind {
            _ if AWAY.contains(&key) && on() => self.away(at),
            _ if OPEN.contains(&key) && on() => self.open(at),
            Kind::Bool(false) if key == "private" => self.open(at),
            Kind::String(text) if REACH.contains(&key) => self.reach(at, text, key),
            Kind::String(text) if GRANTEES.contains(&key) => self.subject(at, text, class),
            Kind::Number if GRANTEES.contains(&key) && key != "value" => {
                let id = std::str::from_utf8(raw).unwrap_or_default().to_owned();
                self.id(at, id);
            }
            _ => {}
        }
    }

    /// How widely an object is to be seen.
    fn reach(&mut self, at: &str, text: &str, key: &str) {
        let word = squashed(text);
        if is_public(&word) && word != "default" {
            self.open(at);
        } else if matches!(class(text), Some(Class::Organization)) {
            self.organization(at);
        } else if is_closed(&word) {
            // Said: nobody else.
            self.found.count += 1;
        } else if key.ends_with("acl") {
            self.found.fault(at, UNKNOWN);
        }
    }

    /// Who gets access: an address, `user:ann@example.com`, a domain, or an opaque id.
    fn subject(&mut self, at: &str, text: &str, class: Option<Class>) {
        let bare = text.trim_matches(' ');
        if bare.is_empty() {
            return;
        }
        let (class, bare) = match bare.split_once(':') {
            Some(("user" | "serviceAccount" | "group" | "member", rest)) => {
                (Some(Class::Named), rest)
            }
            Some(("domain", rest)) => (Some(Class::Domain), rest),
            _ => (class, bare),
        };
        if is_public(&squashed(bare)) && !bare.contains('@') {
            self.open(at);
        } else if bare.contains('@') {
            match read_list(bare) {
                Ok(addresses) => addresses.iter().for_each(|a| self.found.address(at, a)),
                Err(fault) => self.found.fault(at, fault),
            }
        } else if class == Some(Class::Domain) || at.ends_with("/domain") {
            match read_domain(bare) {
                Ok(domain) => {
                    let listed = self.found.list.share_domains.contains(&domain);
                    self.found.recipient(at, ValueKind::Text, domain, listed);
                }
                Err(_) => self
                    .found
                    .fault(at, Fault::malformed("a domain that is not plain")),
            }
        } else {
            match super::chat::read_chat(text) {
                Ok(Some(id)) => self.id(at, id),
                Ok(None) => {}
                Err(fault) => self.found.fault(at, fault),
            }
        }
    }

    fn id(&mut self, at: &str, id: String) {
        let listed = self.found.list.chats.contains(&id);
        self.found.recipient(at, ValueKind::Text, id, listed);
    }

    fn open(&mut self, at: &str) {
        self.found.count += 1;
        if !self.found.rule.permits(Permit::Anyone) {
            let why = "everybody, or whoever has the link, would get access";
            self.found.fault(at, Fault::new(Code::PublicShare, why));
        }
    }

    fn organization(&mut self, at: &str) {
        self.found.count += 1;
        if !self.found.rule.permits(Permit::Anyone) {
            let why = "the whole organisation would get access, and its domain is not told";
            self.found.fault(at, Fault::new(Code::PublicShare, why));
        }
    }

    fn away(&mut self, at: &str) {
        if !self.found.rule.permits(Permit::OwnershipTransfer) {
            let why = "the object would be given away";
            self.found
                .fault(at, Fault::new(Code::OwnershipTransfer, why));
        }
    }
}

const UNKNOWN: Fault = Fault::malformed("a kind of grant that is not known");
