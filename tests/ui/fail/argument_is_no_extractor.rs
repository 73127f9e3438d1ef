use ruststream::subscriber;

#[derive(serde::Deserialize)]
struct Order;

#[subscriber(address = "orders")]
async fn handle(_: Order) {}

fn main() {}
