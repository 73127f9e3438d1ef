//! The MQTT driver on mosquitto, seen by a client that shares no code with it.
// needs: mosquitto

mod smoke;
