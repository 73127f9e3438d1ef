//! AMQP 1.0's rules.

use super::*;

// spec: A2
#[test]
fn an_accepted_message_is_gone() {
    let broker = Memory::amqp();
    let mut first = Reader::connect(&broker, subscription(Form::Queue, "orders", 8));
    publish(&broker, "orders", "1");
    assert_eq!(first.settle_all(Disposition::Accept), ["1"]);
    first.close();
    let mut second = Reader::connect(&broker, subscription(Form::Queue, "orders", 8));
    assert_eq!(second.payload(), None);
}

// spec: A5 A9 A33
#[test]
fn a_returned_message_comes_back_counted_once_more() {
    let broker = Memory::amqp();
    let mut reader = Reader::connect(&broker, subscription(Form::Address, "orders", 8));
    publish(&broker, "orders", "1");
    for counted in [None, Some(1), Some(2), Some(3)] {
        let mut delivery = reader.next().expect("it is there");
        assert_eq!(delivery.counted, counted);
        reader
            .settle(&mut delivery, Disposition::Return)
            .expect("returned");
    }
}
