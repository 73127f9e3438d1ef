use ruststream::Bytes;
use ruststream::subscriber;

#[subscriber(topic = "orders", reply_to = "answers/+", mqtt(qos = 1))]
async fn handle(payload: Bytes) -> Bytes {
    payload
}

fn main() {}
