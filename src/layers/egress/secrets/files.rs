//! Paths of files that hold credentials, in a user's home, in the system or in a container.
//!
//! Told by where they lie: below a home, at a fixed place of the system, or by a name that stands for keys everywhere. The same
//! name inside a project is a fixture more often than not, and is left alone.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Below `~`, `$HOME`, `/root`, `/home/NAME`, `/Users/NAME` or `C:\Users\NAME`.
const IN_HOME: &str = r"\.ssh/(?:id_[a-z0-9_]+|identity|[\w.-]+\.(?:pem|key))|\.aws/(?:credentials|config|sso/[\w./-]*)|\.kube/config|\.docker/config\.json|\.npmrc|\.pypirc|\.netrc|\.pgpass|\.my\.cnf|\.git-credentials|\.gnupg/[\w./-]*|\.config/(?:gh/hosts\.yml|gcloud/[\w./-]*|rclone/rclone\.conf|op/[\w./-]*)|\.azure/[\w./-]*|\.vault-token|\.terraform\.d/credentials|\.cargo/credentials|\.env(?:\.[a-z]+)?|\.password-store/[\w./-]*|\.local/share/keyrings|(?:\.config|Library/Application Support|AppData/Local)/[\w /-]*(?:chrome|chromium|edge|brave)[\w /-]*/(?:Login Data|Cookies)|\.mozilla/[\w./-]*(?:logins\.json|key4\.db|cookies\.sqlite)";

/// At a fixed place. Logs of logins are among them: people type passwords where a name is asked for.
const IN_SYSTEM: &str = r"(?:/private)?/etc/(?:shadow-?|gshadow-?|master\.passwd|security/opasswd|ipsec\.secrets|ppp/(?:chap|pap)-secrets|NetworkManager/system-connections/[\w .-]*|krb5\.keytab|rancher/k3s/k3s\.yaml|kubernetes/admin\.conf|ssl/private/[\w./-]*|ssh/ssh_host_\w+_key)|/var/log/(?:auth\.log|secure|btmp|wtmp|lastlog|faillog|audit/audit\.log)(?:[.-]\d+)?|[A-Za-z]:/Windows/System32/config/(?:SAM|SECURITY)|/proc/(?:self|\d+)/environ|/(?:var/)?run/secrets/[\w./-]*(?:token|password|key)\b";

static FILES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let home = r"(?:~[\w-]*|\$HOME|\$\{HOME\}|/root|/home/[\w.-]+|/Users/[\w.-]+|[A-Za-z]:/Users/[\w.-]+)/";
    Regex::new(&format!(
        r"(?:^|[^\w./])(?:{home}(?:{IN_HOME})|{IN_SYSTEM})(?:$|[^\w-])"
    ))
    .ok()
});

/// A whole text that is the file of a project's secrets, and no sample of it: what a tool for files is given. Amidst other words
/// the same name is talked about more often than read.
static OWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:\./)?\.env(?:\.(?:local|dev|development|prod|production|staging))*$").ok()
});

/// Tells of every such path in a text.
pub(super) fn files(text: &str, tell: &mut dyn FnMut(Range<usize>)) {
    if OWN.as_ref().is_some_and(|own| own.is_match(text.trim())) {
        return tell(0..text.len());
    }
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
