//! Paths of files that hold credentials, in a user's home, in the system or in a container.
//!
//! Told by where they lie: below a home, at a fixed place of the system, or by a name that stands for keys everywhere. The same
//! name inside a project is a fixture more often than not, and is left alone.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Below `~`, `$HOME`, `/root`, `/home/NAME`, `/Users/NAME` or `C:\Users\NAME`.
const IN_HOME: &str = r"\.ssh/(?:id_[a-z0-9_]+|identity|[\w.-]+\.(?:pem|key))|\.aws/(?:credentials|config|sso/)|\.kube/config|\.docker/config\.json|\.npmrc|\.pypirc|\.netrc|\.pgpass|\.my\.cnf|\.git-credentials|\.gnupg/|\.config/(?:gh/hosts\.yml|gcloud/|rclone/rclone\.conf|op/)|\.azure/|\.vault-token|\.terraform\.d/credentials|\.cargo/credentials|\.env(?:\.[a-z]+)?|\.password-store/|\.local/share/keyrings|(?:\.config|Library/Application Support|AppData/Local)/[\w /-]*(?:chrome|chromium|edge|brave)[\w /-]*/(?:Login Data|Cookies)|\.mozilla/[\w./-]*(?:logins\.json|key4\.db|cookies\.sqlite)";

/// At a fixed place.
const IN_SYSTEM: &str = r"/etc/(?:shadow|gshadow|sudoers|passwd-?|krb5\.keytab|kubernetes/admin\.conf|ssl/private/|ssh/ssh_host_\w+_key)|/proc/(?:self|\d+)/environ|/(?:var/)?run/secrets/[\w./-]*(?:token|password|key)\b";

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
        files
            .find_iter(&slashes)
            .for_each(|found| tell(found.range()));
    }
}
