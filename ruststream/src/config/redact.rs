//! Keeps credentials out of everything that is shown (field case L01).

/// The most characters of a foreign value that a message repeats.
const LONGEST: usize = 80;

/// `text` without what may be a credential: the user information and the query of a URL.
///
/// Cuts too much rather than too little: passwords with raw `/`, `?` or `@` go too.
pub(crate) fn redact(text: &str) -> String {
    let safe = match text.split_once("://") {
        Some((scheme, rest)) => {
            // The last `@`: an unescaped password may contain one, a host cannot.
            let place = match rest.rsplit_once('@') {
                Some((_, place)) => format!("***@{}", without_query(place)),
                None => without_query(rest),
            };
            format!("{scheme}://{place}")
        }
        None if text.contains('@') => "***".to_owned(),
        None => text.to_owned(),
    };
    if safe.chars().count() > LONGEST {
        let mut cut: String = safe.chars().take(LONGEST).collect();
        cut.push('…');
        return cut;
    }
    safe
}

fn without_query(place: &str) -> String {
    match place.split_once(['?', '#']) {
        Some((place, _)) => format!("{place}?***"),
        None => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // case: L01
    #[test]
    fn no_part_of_a_password_is_shown() {
        #[rustfmt::skip]
        let rows = [
            ("amqp://host:5672/vhost", "amqp://host:5672/vhost"),
            ("amqp://svc:p%40ss-W0rd@host/v", "amqp://***@host/v"),
            ("amqp://svc:p@ss/W0rd?x@host", "amqp://***@host"),
            ("mqtt://host?password=secret", "mqtt://host?***"),
            ("mqtt://host#secret", "mqtt://host?***"),
            ("svc:secret@host", "***"),
            ("orders.dead", "orders.dead"),
        ];
        for (given, shown) in rows {
            assert_eq!(redact(given), shown, "{given}");
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(redact(&"ü".repeat(500)).chars().count(), LONGEST + 1);
    }
}
