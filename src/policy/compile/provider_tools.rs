//! Tools that a model's provider runs by itself.

use super::matcher::matcher;
use crate::layers::egress::Location;
use crate::names::RuleId;
use crate::policy::ProviderToolRule;
use crate::source::Field;

/// The entries; nothing if one of them is broken.
pub(super) fn provider_tools(field: &Field<'_>) -> Option<Vec<ProviderToolRule>> {
    let read: Vec<_> = field.list()?.iter().map(entry).collect();
    read.into_iter().collect()
}

fn entry(field: &Field<'_>) -> Option<ProviderToolRule> {
    let mut fields = field.map()?;
    let kind = fields.required("type").and_then(|f| matcher(&f));
    let servers = match fields.optional("servers") {
        Some(field) => servers(&field).map(Some),
        None => Some(None),
    };
    Some(ProviderToolRule {
        id: RuleId::from(field.path()),
        kind: kind?,
        servers: servers?,
    })
}

fn servers(field: &Field<'_>) -> Option<Vec<Location>> {
    let read: Vec<_> = field.filled_list()?.iter().map(server).collect();
    read.into_iter().collect()
}

fn server(field: &Field<'_>) -> Option<Location> {
    let text = field.text()?;
    let help =
        "write an absolute URL such as `https://mcp.example.com/`: all paths below it are allowed";
    if text.contains(['?', '#', '*']) {
        field.error(
            format!("`{text}`: a server has no query, no fragment and no wildcard"),
            help,
        );
        return None;
    }
    let read = Location::read(text);
    if let Err(why) = &read {
        field.error(format!("`{text}` is not the URL of a server: {why}"), help);
    }
    read.ok()
}
