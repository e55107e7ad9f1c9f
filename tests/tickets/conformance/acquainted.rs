//! What a memory of whom users have reached promises, whether one process has it or several share it.

use std::sync::Arc;

use futures_util::future::join_all;
use holdpoint::acquainted::{Acquainted, Digest, Target, TargetKind, Who};
use jiff::{SignedDuration, Timestamp};

fn who(subject: &str) -> Who {
    Who {
        tenant: "acme".into(),
        issuer: "config".into(),
        subject: subject.into(),
    }
}

fn mail(name: &str) -> Digest {
    Target::new(TargetKind::Email, format!("{name}@shop.example")).digest()
}

/// Two doors to one memory.
pub async fn knows(doors: [Arc<dyn Acquainted>; 2]) {
    let [one, other] = &doors;
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let (ann, bob) = (who("ann"), who("bob"));
    let both = [mail("x"), mail("y"), mail("x")];
    assert_eq!(other.known(&ann, &both).await.unwrap(), [false; 3]);
    assert!(one.known(&ann, &[]).await.unwrap().is_empty());
    one.record(&ann, &[], now).await.unwrap();
    one.record(&ann, &[mail("x"), mail("x")], now)
        .await
        .unwrap();
    // In their order, of this user and of this kind alone.
    assert_eq!(other.known(&ann, &both).await.unwrap(), [true, false, true]);
    assert_eq!(other.known(&bob, &both).await.unwrap(), [false; 3]);
    let account = Target::new(TargetKind::Account, "x@shop.example".to_owned());
    assert_eq!(
        other.known(&ann, &[account.digest()]).await.unwrap(),
        [false]
    );
    // Many at once, of which some are the same.
    let sets: Vec<Vec<Digest>> = (0..40)
        .map(|n| {
            let set = (n..n + 5).map(|m| mail(&format!("m{m}")));
            if n % 2 == 0 {
                set.collect()
            } else {
                set.rev().collect()
            }
        })
        .collect();
    let recorded = sets
        .iter()
        .enumerate()
        .map(|(n, set)| doors[n % 2].record(&bob, set, now));
    for done in join_all(recorded).await {
        done.unwrap();
    }
    for set in &sets {
        assert_eq!(one.known(&bob, set).await.unwrap(), [true; 5]);
    }
    // Of too many the longest unused goes: what is reached again stays.
    let later = |seconds| now + SignedDuration::from_secs(seconds);
    one.record(&ann, &[mail("y")], later(1)).await.unwrap();
    one.record(&ann, &[mail("x")], later(2)).await.unwrap();
    let many: Vec<_> = (0..511).map(|n| mail(&format!("n{n}"))).collect();
    for (at, few) in (3..).zip(many.chunks(100)) {
        other.record(&ann, few, later(at)).await.unwrap();
    }
    assert_eq!(
        one.known(&ann, &both).await.unwrap(),
        [true, false, true],
        "512 are kept"
    );
    assert_eq!(one.known(&ann, &many).await.unwrap(), [true; 511]);
    assert_eq!(one.known(&bob, &sets[0]).await.unwrap(), [true; 5]);
}
