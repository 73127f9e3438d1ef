//! How long an immediate retry is held back, so that it cannot spin (spec C12).

use std::time::Duration;

/// The pause before the second attempt's retry.
const FIRST: Duration = Duration::from_millis(10);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(5);

/// How long the settlement or the copy of attempt `attempt` is held back: nothing after the first,
/// then 10 ms, doubling to 5 s.
#[must_use]
pub fn pause(attempt: u32) -> Duration {
    if attempt < 2 {
        return Duration::ZERO;
    }
    let doublings = (attempt - 2).min(16);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C12
    #[test]
    fn the_pause_doubles_from_ten_milliseconds_to_five_seconds() {
        let milliseconds: Vec<u128> = (0..=13).map(|attempt| pause(attempt).as_millis()).collect();
        assert_eq!(
            milliseconds,
            [
                0, 0, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000, 5000
            ]
        );
        assert_eq!(pause(u32::MAX), LONGEST);
    }
}
