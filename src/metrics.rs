//! Prometheus metrics. Names, labels and units are a promise: see `docs/reference/metrics.md`.
