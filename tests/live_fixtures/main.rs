//! The fixtures that are real servers do what they say.
// needs: mosquitto rabbitmq4 rabbitmq3 observers

mod mosquitto;
mod python;
mod rabbit;
