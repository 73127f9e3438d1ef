# mosquitto. Sourced by `scripts/brokers`.
# shellcheck shell=bash disable=SC2154
#
# Debian 12 has 2.0.11, which counts the receive maximum wrongly after acknowledgements out of order;
# 2.0.21 comes from its backports. Where that cannot be had, the system's serves, and `install` says so.

mosquitto_home="$BROKERS_HOME/mosquitto-2.0.21"

# mosquitto_find NAME: the path of a program, ours before the system's.
mosquitto_find() {
    if [ -f "$mosquitto_home/.done" ]; then
        echo "$mosquitto_home/bin/$1"
    else
        PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1"
    fi
}

# mosquitto_version PROGRAM: such as 2.0.21.
mosquitto_version() {
    ("$1" -h 2>&1 || true) | sed -n 's/.*mosquitto version \([0-9.]*\).*/\1/p' | head -n 1
}

# mosquitto_counts: the one that is found is newer than the miscounting ones.
mosquitto_counts() {
    local program version
    program="$(mosquitto_find mosquitto)" && mosquitto_find mosquitto_passwd >/dev/null || return 1
    version="$(mosquitto_version "$program")"
    [ -n "$version" ] && [ "$(printf '2.0.15\n%s\n' "$version" | sort -V | head -n 1)" = 2.0.15 ]
}

mosquitto_install() {
    tool openssl openssl
    mosquitto_counts || locked "$BROKERS_HOME/.mosquitto.lock" mosquitto_fetch
    mosquitto_env
}

mosquitto_fetch() {
    ! mosquitto_counts || return 0
    if [ "$(debian_codename)" = bookworm ] && (mosquitto_unpack); then return 0; fi
    rm -rf "$mosquitto_home"
    if ! mosquitto_find mosquitto >/dev/null; then
        [ "$(id -u)" = 0 ] || die 'mosquitto is missing: as root, apt-get install mosquitto'
        mosquitto_system || die 'mosquitto could not be installed'
    fi
    mosquitto_counts ||
        say "mosquitto $(mosquitto_version "$(mosquitto_find mosquitto)") instead of 2.0.21: it may exceed the receive maximum"
}

# The package starts a server of its own where init allows; refuse that for this install only.
mosquitto_system() {
    local policy=/usr/sbin/policy-rc.d ours=false rc=0
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && ours=true
    fi
    locked "$BROKERS_HOME/.apt.lock" system_install mosquitto || rc=$?
    [ "$ours" = false ] || rm -f "$policy"
    return "$rc"
}

mosquitto_unpack() {
    local apt="$BROKERS_HOME/.mosquitto.apt" all="$mosquitto_home/root" lib program
    rm -rf "$mosquitto_home" "$apt"
    mkdir -p "$mosquitto_home/bin"
    private_apt "$apt" 'bookworm bookworm-backports' || return 1
    unpack "$all" {mosquitto,libmosquitto1,mosquitto-clients}/bookworm-backports \
        libwebsockets17 libcjson1 libdlt2 libwrap0 libcap2 libsystemd0 || return 1
    lib="$(dirname "$(find "$all/usr/lib" -name libmosquitto.so.1 | head -n 1)")"
    for program in "$all"/usr/sbin/mosquitto "$all"/usr/bin/mosquitto_*; do
        # shellcheck disable=SC2016
        printf '#!/bin/sh\nLD_LIBRARY_PATH="%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "%s" "$@"\n' \
            "$lib" "$program" >"$mosquitto_home/bin/${program##*/}"
        chmod +x "$mosquitto_home/bin/${program##*/}"
    done
    [ -n "$(mosquitto_version "$mosquitto_home/bin/mosquitto")" ] || return 1
    rm -rf "$apt"
    touch "$mosquitto_home/.done"
}

mosquitto_env() {
    local program
    program="$(mosquitto_find mosquitto)" || return 0
    echo "MOSQUITTO_BIN=$program"
    echo "MOSQUITTO_PASSWD_BIN=$(mosquitto_find mosquitto_passwd)"
    echo "MOSQUITTO_VERSION=$(mosquitto_version "$program")"
    ! mosquitto_runs || echo "MOSQUITTO_URL=mqtt://127.0.0.1:$(cat "$BROKERS_RUN/mosquitto.port")"
}

mosquitto_runs() {
    alive "$BROKERS_RUN/mosquitto.pid" && port_open "$(cat "$BROKERS_RUN/mosquitto.port")"
}

mosquitto_up() {
    mosquitto_runs || locked "$BROKERS_RUN/.mosquitto.lock" mosquitto_start
    mosquitto_env
}

mosquitto_start() {
    local folder="$BROKERS_RUN/mosquitto" program port
    ! mosquitto_runs || return 0
    program="$(mosquitto_find mosquitto)" || die 'mosquitto is missing: scripts/brokers install mosquitto'
    [ "$keep" = true ] || rm -rf "$folder" "$BROKERS_RUN/mosquitto.port"
    mkdir -p "$folder"
    port="$(ports mosquitto 0 1)"
    # `user root`: or a start by root drops to a user who cannot write here. The two zeros: or it drops
    # what waits for an absent session, and looks at more than the client's receive maximum. Never
    # `per_listener_settings`: with it 2.0.21 drops what is published for a session that is offline.
    cat >"$folder/mosquitto.conf" <<CONF
listener $port 127.0.0.1
allow_anonymous true
user root
persistence true
persistence_location $folder/
autosave_on_changes true
autosave_interval 1
max_queued_messages 0
max_inflight_messages 0
log_dest stderr
log_type all
CONF
    setsid "$program" -c "$folder/mosquitto.conf" >"$folder/log" 2>&1 </dev/null &
    record "$BROKERS_RUN/mosquitto.pid" $!
    wait_for 15 "$BROKERS_RUN/mosquitto.pid" "$folder/log" port_open "$port" || exit 1
}

mosquitto_down() {
    stop "$BROKERS_RUN/mosquitto.pid" 10
}

mosquitto_status() {
    if mosquitto_runs; then
        echo "mosquitto runs, process $(cut -d' ' -f1 "$BROKERS_RUN/mosquitto.pid"), port $(cat "$BROKERS_RUN/mosquitto.port")"
    else
        echo 'mosquitto does not run'
    fi
}
