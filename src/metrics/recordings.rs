//! What is counted of recordings.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::labels::Unrecorded;
use super::registered;

/// Of the recorder.
pub(super) struct Recordings {
    pub(super) on: IntGauge,
    pub(super) written: IntCounter,
    pub(super) missed: IntCounterVec,
}

impl Recordings {
    pub(super) fn new(registry: &Registry) -> Self {
        let on = IntGauge::new(
            "holdpoint_recording",
            "1 while exchanges are recorded, 0 where they are not or no longer.",
        );
        let written = IntCounter::new(
            "holdpoint_recorded_exchanges_total",
            "Exchanges that were written to a recording.",
        );
        let missed = Opts::new(
            "holdpoint_unrecorded_exchanges_total",
            "Exchanges that should have been recorded and were not.",
        );
        let recordings = Self {
            on: registered(registry, on),
            written: registered(registry, written),
            missed: registered(registry, IntCounterVec::new(missed, &["reason"])),
        };
        for reason in Unrecorded::ALL {
            recordings.missed.with_label_values(&[reason.as_str()]);
        }
        recordings
    }
}
