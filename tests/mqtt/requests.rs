//! Questions and their answers, on the embedded broker.

use std::time::Duration;

use ruststream::App;
use ruststream::Json;
use ruststream::broker::memory::Memory;
use ruststream::subscriber;

#[subscriber(topic = "prices", replies, on_decode = drop, mqtt(qos = 1))]
async fn quote(item: Json<String>) -> Json<usize> {
    Json(item.len())
}

// spec: C28
#[tokio::test(start_paused = true)]
async fn a_request_gets_the_answer_of_the_handler_and_no_other() {
    for broker in [Memory::mqtt(), Memory::amqp(), Memory::rabbitmq()] {
        let app = App::new("shop").broker(broker).mount(quote);
        let running = app.start().await.unwrap();
        let ask = |item: &str| {
            let publisher = running.publisher().clone();
            let item = Json(item.to_owned());
            async move {
                let answer = publisher.request("prices", item, Duration::from_secs(5));
                answer.await.unwrap().payload().clone()
            }
        };
        let (lamp, chair) = tokio::join!(ask("lamp"), ask("chair"));
        assert_eq!((&lamp[..], &chair[..]), (&b"4"[..], &b"5"[..]));
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_answers_ends_in_time_and_says_so() {
    let broker = Memory::amqp();
    broker.declare("prices");
    let app = App::new("shop").broker(broker).mount(quote);
    let running = app.start().await.unwrap();
    let asked = running
        .publisher()
        .request("unread", Json(1), Duration::from_secs(3));
    let error = asked.await.unwrap_err();
    assert!(error.is_transient());
    assert!(error.reason().contains("`unread`"), "{error}");
    running.stop().await.unwrap();
}
