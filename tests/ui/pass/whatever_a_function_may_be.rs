//! What a plain async function may have, a handler may have.
// case: K08 K11
#![deny(warnings)]

use ruststream::Bytes;
use ruststream::Json;
use ruststream::Outcome;
use ruststream::State;
use ruststream::extract::Attempt;
use ruststream::subscriber;

type Handled = Result<Outcome, std::num::ParseIntError>;

#[derive(serde::Deserialize)]
struct Order {
    id: u32,
    lines: (u8, u8),
}

#[subscriber(address = "patterns")]
async fn patterns(
    mut payload: Bytes,
    _: Attempt,
    _unused: State<u8>,
    Json(Order { id, lines: (first, _) }): Json<Order>,
    Json(ref name): Json<String>,
) {
    let _ = payload.split_to(0);
    assert!(id > 0 && first > 0 && name.is_empty());
}

#[subscriber(address = "raw")]
async fn r#fn(r#type: Bytes) {
    drop(r#type);
}

#[subscriber(address = "alias", on_error = drop)]
async fn alias(payload: Bytes) -> Handled {
    let _: u32 = String::from_utf8_lossy(&payload).parse()?;
    Ok(Outcome::Ack)
}

#[subscriber(address = "nothing")]
async fn no_arguments() {}

#[subscriber(address = "payloads")]
async fn several_payloads(one: Bytes, other: Bytes, json: Json<u32>) {
    drop((one, other, json));
}

#[subscriber(address = "many")]
#[allow(clippy::too_many_arguments)]
pub async fn many_arguments(
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
    _: Bytes,
) -> std::result::Result<(), Box<Handled2>> {
    Ok(())
}

#[derive(Debug, ruststream::Failure)]
#[failure(retry)]
pub struct Handled2;

impl std::fmt::Display for Handled2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no")
    }
}

fn main() {
    // A handler stays a function.
    let future = several_payloads(Bytes::new(), Bytes::new(), Json(7));
    drop(future);
    let registrations = ruststream::__private::inventory::iter::<ruststream::registration::Registration>();
    let names: Vec<_> = registrations.map(|it| it.name).collect();
    assert!(names.contains(&"fn"), "{names:?}");
}
