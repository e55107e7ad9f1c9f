//! From many opinions to one verdict.

use std::borrow::Cow;

use crate::item::Item;
use crate::names::RuleId;
use crate::verdict::{Finding, LayerId, Mode, Opinion, Reason, Rewrite, Verdict};

/// The strongest verdict of the enforcing layers: deny, then hold, then all rewrites together, else allow. Of two equally
/// strong the earlier layer's stands.
pub(super) fn strongest(opinions: &[Opinion]) -> Verdict {
    let enforced = || opinions.iter().filter(|o| o.mode == Mode::Enforce);
    let first = |label| enforced().find(|o| o.verdict.label() == label);
    if let Some(opinion) = first("deny").or_else(|| first("hold")) {
        return opinion.verdict.clone();
    }
    let mut rewrites = enforced().filter_map(|o| match &o.verdict {
        Verdict::Rewrite(rewrite) => Some(rewrite),
        _ => None,
    });
    let Some(first) = rewrites.next() else {
        return Verdict::Allow;
    };
    Verdict::Rewrite(rewrites.fold(first.clone(), merged))
}

/// Edits of both; where two overlap the earlier layer's stands.
fn merged(mut into: Rewrite, other: &Rewrite) -> Rewrite {
    for edit in &other.edits {
        let free = into
            .edits
            .iter()
            .all(|(taken, _)| edit.0.end <= taken.start || edit.0.start >= taken.end);
        if free {
            into.edits.push(edit.clone());
        }
    }
    into.edits.sort_by_key(|(range, _)| range.start);
    into
}

/// A text cannot be held and a call cannot be rewritten: a layer that says so could not decide.
pub(super) fn fitting(layer: LayerId, item: &Item, verdict: Verdict) -> Verdict {
    let call = matches!(
        item,
        Item::ToolCall(_) | Item::Unreadable(_) | Item::Egress(_)
    );
    let fits = match verdict {
        Verdict::Allow | Verdict::Deny(_) => true,
        Verdict::Rewrite(_) => !call && !matches!(item, Item::ProviderTool(_)),
        Verdict::Hold(_) => call,
    };
    if fits {
        return verdict;
    }
    Verdict::Deny(Finding {
        layer,
        rule: RuleId::from("guard.unfitting"),
        reason: Reason::Undecided,
        argument: None,
        detail: Cow::Borrowed("the layer's verdict does not fit the kind of item"),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::verdict::{Hold, Instead, RewriteKind};

    fn finding(layer: LayerId) -> Finding {
        Finding {
            layer,
            rule: RuleId::from("r"),
            reason: Reason::NotOwner,
            argument: None,
            detail: Cow::Borrowed(""),
        }
    }

    fn opinion(layer: LayerId, mode: Mode, verdict: Verdict) -> Opinion {
        Opinion {
            layer,
            mode,
            reached: true,
            verdict,
            undeclared: false,
            elapsed: Duration::ZERO,
        }
    }

    fn hold(layer: LayerId) -> Verdict {
        Verdict::Hold(Hold::new(finding(layer)))
    }

    #[test]
    fn deny_beats_an_earlier_hold_and_shadow_changes_nothing() {
        let deny = || Verdict::Deny(finding(LayerId::Ownership));
        let said = [
            opinion(
                LayerId::Recipients,
                Mode::Enforce,
                hold(LayerId::Recipients),
            ),
            opinion(LayerId::Ownership, Mode::Enforce, deny()),
        ];
        assert_eq!(strongest(&said), deny());
        let shadowed = [opinion(LayerId::Ownership, Mode::Shadow, deny())];
        assert_eq!(strongest(&shadowed), Verdict::Allow);
    }

    #[test]
    fn rewrites_of_two_layers_join_without_overlap() {
        let rewrite = |edits: Vec<(std::ops::Range<usize>, Instead)>| {
            Verdict::Rewrite(Rewrite {
                kind: RewriteKind::Redact,
                edits,
                finding: finding(LayerId::Injection),
            })
        };
        let said = [
            opinion(
                LayerId::Egress,
                Mode::Enforce,
                rewrite(vec![(5..9, "x".into())]),
            ),
            opinion(
                LayerId::Injection,
                Mode::Enforce,
                rewrite(vec![(0..3, "y".into()), (8..12, "z".into())]),
            ),
        ];
        let Verdict::Rewrite(joined) = strongest(&said) else {
            panic!("a rewrite")
        };
        assert_eq!(joined.edits, [(0..3, "y".into()), (5..9, "x".into())]);
    }
}
