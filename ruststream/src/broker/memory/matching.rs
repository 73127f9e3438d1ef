//! Which of RabbitMQ's patterns match which routing keys. MQTT's filters are in `address.rs`.

/// Whether RabbitMQ's topic `pattern` matches `key`: `*` is one word, `#` any number of them.
pub(super) fn pattern_matches(pattern: &str, key: &str) -> bool {
    let words: Vec<&str> = if key.is_empty() {
        Vec::new()
    } else {
        key.split('.').collect()
    };
    let wanted: Vec<&str> = pattern.split('.').collect();
    // Where to go on after the last `#` when what follows it does not fit: no recursion, so a
    // pattern of many `#` costs no more than length times length.
    let (mut word, mut want, mut again) = (0, 0, None);
    while word < words.len() {
        match wanted.get(want) {
            Some(&"#") => {
                again = Some((want, word));
                want += 1;
            }
            Some(&pattern) if pattern == "*" || pattern == words[word] => {
                want += 1;
                word += 1;
            }
            _ => match again {
                Some((hash, from)) => {
                    again = Some((hash, from + 1));
                    want = hash + 1;
                    word = from + 1;
                }
                None => return false,
            },
        }
    }
    wanted[want..].iter().all(|rest| *rest == "#") || (pattern.is_empty() && key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_by_words() {
        #[rustfmt::skip]
        let rows = [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("#", "", true),
            ("#", "a.b", true),
            ("#.c", "a.b.c", true),
            ("#.b.#", "a.b.c", true),
            ("#.b.#", "a.c", false),
            ("*.#.z", "z", false),
            ("*.#.z", "a.z", true),
            ("", "", true),
            ("", "a", false),
        ];
        for (pattern, key, expected) in rows {
            assert_eq!(pattern_matches(pattern, key), expected, "{pattern} {key}");
        }
    }
}
