use ruststream::Json;
use ruststream::subscriber;

struct Order;

#[subscriber(address = "orders")]
async fn handle(_: Json<Order>) {}

fn main() {}
