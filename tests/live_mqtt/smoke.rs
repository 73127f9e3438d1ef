use ruststream::Outcome;
use ruststream::broker::mqtt::Mqtt;
use ruststream::registration::Form;
use ruststream::testing::Script;
use support::mosquitto::Mosquitto;
use support::mqtt::Client;
use support::mqtt::packet::Connect;
use support::mqtt::packet::Publish;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smoke() {
    let server = Mosquitto::start().await;
    let script = Script::of(Form::Topic, "orders")
        .named("fulfil")
        .with(|o| {
            o.max_attempts = Some(3);
            o.dead_letter = Some("orders.dead");
        })
        .runs(|_: bytes::Bytes| async { Outcome::Retry });
    let mut observer = Client::connect(&server.url(), Connect::new("observer")).await;
    observer.subscribe("orders.dead", 1).await;
    let app = Script::app("shop", [script]).broker(Mqtt::new(&server.url()).unwrap());
    let running = app.start().await.unwrap();
    observer
        .publish(Publish::new("orders", "hello").at(1, 7))
        .await;
    let dead = observer.take().await;
    println!("{dead:?}");
    println!("{:?} {:?}", running.health(), running.stats());
    running.stop().await.unwrap();
    println!("{}", server.log().text());
}
