//! Names of a policy that lead nowhere: a name whose registration lapsed can be registered by anybody, and is still allowed.

use super::Checked;
use crate::layers::egress::Pattern;
use crate::source::{Problem, Problems};

/// Warnings about the exact host names of lists for which `resolves` says no. Wildcards are not asked for: a domain without an
/// address of its own may have names below it.
pub fn unresolved(checked: &Checked, resolves: &dyn Fn(&str) -> bool) -> Problems {
    let mut problems = Problems::default();
    for (name, list) in &checked.policy.lists {
        for (index, entry) in list.hosts.iter().enumerate() {
            let Pattern::Exact(host) = &entry.pattern else {
                continue;
            };
            if resolves(host) {
                continue;
            }
            let problem = Problem::new(format!("`{host}` does not resolve"))
                .help("remove it, unless only another network knows it: whoever registers it later is allowed too")
                .warning();
            let at = checked.tree.at(&format!("lists.{name}.hosts[{index}]"));
            problems.0.push(match at {
                Some(node) => problem.at(node.spot.clone()),
                None => problem,
            });
        }
    }
    problems.sorted()
}
