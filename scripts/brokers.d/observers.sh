# Clients of other makes, for tests that want a second opinion. Sourced by `scripts/brokers`.
# shellcheck shell=bash

observers_home="$BROKERS_HOME/observers"

observers_install() {
    [ -f "$observers_home/.done" ] || locked "$BROKERS_HOME/.observers.lock" observers_fetch
    observers_env
}

observers_fetch() {
    [ ! -f "$observers_home/.done" ] || return 0
    tool python3 'python3 python3-venv'
    rm -rf "$observers_home"
    if ! python3 -m venv "$observers_home" >/dev/null 2>&1; then
        # Debian has the module without what it needs.
        [ "$(id -u)" = 0 ] || die 'venv is missing: as root, apt-get install python3-venv'
        locked "$BROKERS_HOME/.apt.lock" system_install python3-venv && python3 -m venv "$observers_home"
    fi
    "$observers_home/bin/pip" install --quiet --disable-pip-version-check 'paho-mqtt==2.*' 'pika==1.*' >&2 ||
        die 'paho-mqtt and pika could not be installed'
    touch "$observers_home/.done"
}

observers_env() {
    [ ! -f "$observers_home/.done" ] || echo "OBSERVERS_PYTHON=$observers_home/bin/python"
}
