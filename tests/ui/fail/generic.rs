use std::borrow::Cow;

use ruststream::Bytes;
use ruststream::Json;
use ruststream::subscriber;

#[subscriber(address = "types")]
async fn types<T>(_: Json<T>) {}

#[subscriber(address = "constants")]
async fn constants<const N: usize>(_: Json<[u8; N]>) {}

#[subscriber(address = "lifetimes")]
async fn lifetimes<'a>(_: Json<Cow<'a, str>>) {}

#[subscriber(address = "clause")]
async fn clause(_: Bytes)
where
    Bytes: Clone,
{
}

fn main() {}
