use ruststream::Json;
use ruststream::subscriber;

#[subscriber(address = "orders")]
async fn handle(_: Json<impl Clone>) {}

fn main() {}
