use ruststream::Bytes;
use ruststream::Delivery;
use ruststream::subscriber;

fn retry_topic(_: &Bytes) -> String {
    String::new()
}

struct Customer;

fn customer(_: &Delivery) -> Customer {
    Customer
}

#[subscriber(filter = "a/+", retry_topic_with = retry_topic, ordered_by = customer)]
async fn handle(_: Bytes) {}

fn main() {}
