//! The payload as it arrived: bytes, or text.

use bytes::Bytes;

use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::registration::Requirements;

/// The payload as it arrived: a share of it, whatever its size; an empty one is fine.
impl Extract for Bytes {
    fn extract(from: &mut Incoming<'_>) -> Result<Self, Rejection> {
        Ok(from.delivery().payload().clone())
    }

    fn requires(needs: &mut Requirements) {
        needs.per_message("Bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Fixture;

    // case: E02
    #[test]
    fn raw_bytes_may_be_empty() {
        let bytes: Bytes = Fixture::new("").take().unwrap();
        assert!(bytes.is_empty());
    }

    #[test]
    fn raw_bytes_are_a_share_of_the_payload() {
        let mut fixture = Fixture::new("payload");
        let bytes: Bytes = fixture.take().unwrap();
        assert_eq!(bytes.as_ptr(), fixture.delivery.payload().as_ptr());
    }
}
