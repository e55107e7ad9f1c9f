//! The word that was probably meant.

/// The candidate most like `word`, if one is like it at all.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let other = candidate.to_lowercase();
            let like = strsim::normalized_damerau_levenshtein(&lower, &other);
            let begins = lower.len().min(other.len()) >= 3
                && (other.starts_with(&lower) || lower.starts_with(&other));
            (if begins { like.max(0.7) } else { like }, candidate)
        })
        .filter(|(like, _)| *like >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Most candidates that are listed.
const LISTED: usize = 30;

/// Help for an unknown word: the nearest candidate, else what `what` there are.
pub fn did_you_mean<'c>(
    what: &str,
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(candidate) = nearest(word, candidates.iter().copied()) {
        return format!("did you mean `{candidate}`?");
    }
    if candidates.is_empty() {
        return format!("there are no {what}");
    }
    let all: Vec<String> = candidates
        .iter()
        .take(LISTED)
        .map(|c| format!("`{c}`"))
        .collect();
    let more = match candidates.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("the {what} are {}{more}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_a_stranger_is_not() {
        let keys = ["egress", "recipients", "ownership"];
        assert_eq!(nearest("recipient", keys), Some("recipients"));
        assert_eq!(nearest("Egres", keys), Some("egress"));
        assert_eq!(nearest("timeout", keys), None);
        assert_eq!(nearest("key", ["subject", "key_env"]), Some("key_env"));
        assert_eq!(
            did_you_mean("keys", "zzz", keys),
            "the keys are `egress`, `recipients`, `ownership`"
        );
        assert_eq!(did_you_mean("lists", "zzz", []), "there are no lists");
    }
}
