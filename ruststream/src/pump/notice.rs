//! Warnings that come once per mount point (or connection) and minute, however often their cause does.

use std::time::Duration;

use super::core::Elapsed;

const INTERVAL: Duration = Duration::from_mins(1);

/// One kind of warning.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    last: Option<Elapsed>,
    unsaid: u64,
}

impl Notice {
    /// It happened: returns how many times since it was last said, when it is time to say it.
    pub(crate) fn due(&mut self, now: Elapsed) -> Option<u64> {
        self.unsaid += 1;
        if self
            .last
            .is_some_and(|last| now.saturating_sub(last) < INTERVAL)
        {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// Every kind that a pump has.
#[derive(Debug, Default)]
pub(super) struct Notices {
    pub(super) malformed_count: Notice,
    pub(super) refused: Notice,
    pub(super) given_up: Notice,
    pub(super) unanswered: Notice,
    pub(super) dead_lettered: Notice,
    pub(super) no_dead_letter: Notice,
    pub(super) failed_publish: Notice,
    pub(super) unread: Notice,
    pub(super) stuck: Notice,
    pub(super) failed_settlement: Notice,
    pub(super) no_reply_address: Notice,
    pub(super) undecodable: Notice,
    pub(super) overflow: Notice,
    pub(super) unmatched: Notice,
}

#[cfg(test)]
mod tests {
    use super::*;

    // case: C20
    #[test]
    fn a_warning_comes_at_once_then_once_a_minute_with_a_count() {
        let mut notice = Notice::default();
        let said: Vec<_> = (0..121)
            .map(|second| notice.due(Duration::from_secs(second)))
            .collect();
        assert_eq!(said[0], Some(1));
        assert_eq!(said[60], Some(60));
        assert_eq!(said[120], Some(60));
        assert_eq!(said.iter().flatten().count(), 3);
    }
}
