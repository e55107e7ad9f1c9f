//! Names that many customers share: a list with one of them lets data leave to anybody's account there.
//!
//! Curated, and for warnings only. The whole list of public suffixes is some megabytes of generated code under a licence with
//! duties of its own, for one hint of `policy check`.

use crate::layers::egress::{Entry, Pattern};

/// What to tell the author.
pub(super) struct Warning {
    pub(super) message: String,
    pub(super) help: String,
}

/// Services where the path names the customer.
const BY_PATH: [&str; 33] = [
    "api.github.com",
    "api.telegram.org",
    "bitbucket.org",
    "codeberg.org",
    "dev.azure.com",
    "discord.com",
    "discordapp.com",
    "docs.google.com",
    "dpaste.com",
    "drive.google.com",
    "forms.gle",
    "gist.github.com",
    "gist.githubusercontent.com",
    "github.com",
    "gitlab.com",
    "hastebin.com",
    "hooks.slack.com",
    "hooks.zapier.com",
    "huggingface.co",
    "objects.githubusercontent.com",
    "pastebin.com",
    "paste.rs",
    "ptb.discord.com",
    "raw.githubusercontent.com",
    "requestbin.com",
    "s3.amazonaws.com",
    "script.google.com",
    "sites.google.com",
    "slack.com",
    "storage.googleapis.com",
    "transfer.sh",
    "webhook.site",
    "www.googleapis.com",
];

/// Services where the credential names the customer: whoever brings another key reaches another account.
const BY_CREDENTIAL: [&str; 20] = [
    "api.airtable.com",
    "api.anthropic.com",
    "api.cohere.com",
    "api.dropboxapi.com",
    "api.mistral.ai",
    "api.notion.com",
    "api.openai.com",
    "api.sendgrid.com",
    "api.stripe.com",
    "api.twilio.com",
    "api.x.ai",
    "content.dropboxapi.com",
    "generativelanguage.googleapis.com",
    "gmail.googleapis.com",
    "graph.microsoft.com",
    "management.azure.com",
    "oauth2.googleapis.com",
    "openrouter.ai",
    "sheets.googleapis.com",
    "api.mailgun.net",
];

/// Domains below which anybody may get a name.
const REGISTRABLE: [&str; 53] = [
    "amazonaws.com",
    "amplifyapp.com",
    "appspot.com",
    "azure-api.net",
    "azureedge.net",
    "azurefd.net",
    "azurewebsites.net",
    "bitbucket.io",
    "blob.core.windows.net",
    "blogspot.com",
    "burpcollaborator.net",
    "cloudapp.azure.com",
    "cloudapp.net",
    "cloudflare-ipfs.com",
    "cloudflarestorage.com",
    "cloudfront.net",
    "cloudfunctions.net",
    "codesandbox.io",
    "core.windows.net",
    "deno.dev",
    "digitaloceanspaces.com",
    "dweb.link",
    "fastly.net",
    "firebaseapp.com",
    "firebaseio.com",
    "fly.dev",
    "github.io",
    "githubusercontent.com",
    "gitlab.io",
    "glitch.me",
    "googleapis.com",
    "herokuapp.com",
    "interact.sh",
    "myshopify.com",
    "netlify.app",
    "ngrok-free.app",
    "ngrok.app",
    "ngrok.io",
    "nip.io",
    "oast.fun",
    "onrender.com",
    "pages.dev",
    "pipedream.net",
    "r2.dev",
    "railway.app",
    "repl.co",
    "slack.com",
    "sslip.io",
    "supabase.co",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "workers.dev",
];

/// Second-level labels under which a country's registry sells names.
const SECOND_LEVEL: [&str; 12] = [
    "ac", "co", "com", "edu", "go", "gov", "ltd", "ne", "net", "or", "org", "plc",
];

/// What an entry lets pass besides what its author may mean.
pub(super) fn warning(entry: &Entry) -> Option<Warning> {
    match &entry.pattern {
        Pattern::Exact(name) if BY_CREDENTIAL.contains(&name.as_str()) => Some(Warning {
            message: format!(
                "`{name}` is shared: who brings another key reaches another account there"
            ),
            help: "let the agent have no key for it, and let a route of the proxy bring yours"
                .to_owned(),
        }),
        Pattern::Exact(name) if entry.path.is_none() => {
            let shared = BY_PATH.contains(&name.as_str()) || is_object_store(name);
            shared.then(|| Warning {
                message: format!("`{name}` is shared: URLs there lead to anybody's account"),
                help: format!("name your own path, such as `{name}/YOUR-ORG`"),
            })
        }
        Pattern::Below(domain) if is_registrable(domain) => Some(Warning {
            message: format!("`*.{domain}` lets names pass that anybody may register"),
            help: format!("name your own hosts below `{domain}`"),
        }),
        _ => None,
    }
}

fn is_registrable(domain: &str) -> bool {
    let country = || match domain.split_once('.') {
        Some((second, top)) => {
            top.len() == 2 && !top.contains('.') && SECOND_LEVEL.contains(&second)
        }
        None => true,
    };
    REGISTRABLE.contains(&domain) || country() || is_object_store(domain)
}

/// A store without the bucket in its name: `s3.eu-west-1.amazonaws.com`.
fn is_object_store(name: &str) -> bool {
    name.strip_suffix(".amazonaws.com").is_some_and(|service| {
        service == "s3" || service.starts_with("s3.") || service.starts_with("s3-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_names_are_known_and_a_path_settles_most() {
        for text in [
            "github.com",
            "s3.eu-west-1.amazonaws.com",
            "api.anthropic.com",
            "api.anthropic.com/v1",
            "*.github.io",
            "*.amazonaws.com",
            "*.s3.amazonaws.com",
            "*.co.uk",
        ] {
            assert!(warning(&Entry::read(text).unwrap()).is_some(), "{text}");
        }
        for text in [
            "github.com/your-org",
            "your-org.github.io",
            "bucket.s3.amazonaws.com",
            "*.shop.example",
            "*.shop.co.uk",
            "*",
            "10.0.0.0/8",
        ] {
            assert!(warning(&Entry::read(text).unwrap()).is_none(), "{text}");
        }
    }
}
