use ruststream::subscriber;

#[subscriber(address = "orders")]
struct Struct;

#[subscriber(address = "orders")]
impl Struct {}

#[subscriber(address = "orders")]
mod module {}

#[subscriber(address = "orders")]
const CONSTANT: u32 = 0;

#[subscriber(address = "orders")]
pub use std::fmt as renamed;

#[subscriber(address = "orders")]
enum Enum {}

#[subscriber(address = "orders")]
static STATIC: u32 = 0;

#[subscriber(address = "orders")]
trait Trait {}

#[subscriber(address = "orders")]
type Alias = u32;

fn main() {}
