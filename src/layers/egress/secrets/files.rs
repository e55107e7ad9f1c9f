//! Paths of files that hold credentials, in a user's home, in the system or in a container.
//!
//! Told by where they lie: below a home, at a fixed place of the system, or by a name that stands for keys everywhere. The same
//! name inside a project is a fixture more often than not, and is left alone.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Below `~`, `$HOME`, `/root`, `/home/NAME`, `/Users/NAME` or `C:\Users\NAME`.
const IN_HOME: &str = r"\.ssh/(?:id_[a-z0-9_]+|identity|[\w.-]+\.(?:pem|key))|\.aws/(?:credentials|config|sso/[\w./-]*)|\.kube/config|\.docker/config\.json|\.npmrc|\.pypirc|\.netrc|\.pgpass|\.my\.cnf|\.git-credentials|\.gnupg/[\w./-]*|\.config/(?:gh/hosts\.yml|gcloud/[\w./-]*|rclone/rclone\.conf|op/[\w./-]*)|\.azure/[\w./-]*|\.vault-token|\.terraform\.d/credentials|\.cargo/credentials|\.env(?:\.[a-z]+)?|\.password-store/[\w./-]*|\.local/share/keyrings|(?:\.config|Library/Application Support|AppData/Local)/[\w /-]*(?:chrome|chromium|edge|brave)[\w /-]*/(?:Login Data|Cookies)|\.mozilla/[\w./-]*(?:logins\.json|key4\.db|cookies\.sqlite)";

/// At a fixed place.
const IN_SYSTEM: &str = r"/etc/(?:shadow-?|gshadow-?|krb5\.keytab|kubernetes/admin\.conf|ssl/private/[\w./-]*|ssh/ssh_host_\w+_key)|/proc/(?:self|\d+)/environ|/(?:var/)?run/secrets/[\w./-]*(?:token|password|key)\b";

static FILES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let home = r"(?:~[\w-]*|\$HOME|\$\{HOME\}|/root|/home/[\w.-]+|/Users/[\w.-]+|[A-Za-z]:/Users/[\w.-]+)/";
    Regex::new(&format!(
        r"(?:^|[^\w./])(?:{home}(?:{IN_HOME})|{IN_SYSTEM})(?:$|[^\w-])"
    ))
    .ok()
});

/// Tells of every such path in a text.
pub(super) fn files(text: &str, tell: &mut dyn FnMut(Range<usize>)) {
    let slashes = text.replace('\\', "/");
    // The replacement keeps every offset.
    if let Some(files) = FILES.as_ref() {
        for found in files.find_iter(&slashes) {
            let inside = slashes.get(found.start()..).unwrap_or_default();
            let path = inside.trim_start_matches(|c: char| !is_path(c));
            let path = path.split(|c: char| !is_path(c)).next().unwrap_or_default();
            // The public half of a key is no secret.
            let name = path.trim_end_matches('.').to_ascii_lowercase();
            let public = name.rsplit('.').next().is_some_and(|end| end == "pub");
            if !public {
                tell(found.range());
            }
        }
    }
}

fn is_path(c: char) -> bool {
    c.is_alphanumeric() || "./_-~$:".contains(c)
}
