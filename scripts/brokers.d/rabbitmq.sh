# RabbitMQ 4 and 3, each with an Erlang of its own. Sourced by `scripts/brokers`.
# shellcheck shell=bash disable=SC2154
#
# 4.0 is that of Debian 13, 3.10 that of Debian 12. Both are unpacked together with the C library that
# they were built for, so that either runs on either, without root and beside whatever is installed.

# rabbitmq_home GENERATION
rabbitmq_home() {
    echo "$BROKERS_HOME/rabbitmq$1"
}

rabbitmq_install() {
    local home
    home="$(rabbitmq_home "$1")"
    [ -f "$home/.done" ] || locked "$BROKERS_HOME/.rabbitmq$1.lock" rabbitmq_fetch "$1"
    rabbitmq_env "$1"
}

rabbitmq_fetch() {
    local home apt suite ssl lib loader file
    home="$(rabbitmq_home "$1")"
    apt="$BROKERS_HOME/.rabbitmq$1.apt"
    [ ! -f "$home/.done" ] || return 0
    case "$1" in
        4) suite=trixie ssl='libssl3t64 openssl-provider-legacy' ;;
        3) suite=bookworm ssl=libssl3 ;;
    esac
    rm -rf "$home" "$apt"
    private_apt "$apt" "$suite" || die "Debian's $suite cannot be read"
    # shellcheck disable=SC2086
    unpack "$home" rabbitmq-server erlang-{base,asn1,crypto,eldap,inets,mnesia,os-mon,parsetools} \
        erlang-{public-key,runtime-tools,ssl,syntax-tools,tools,xmerl} \
        libc6 libgcc-s1 libstdc++6 libsystemd0 libcap2 libtinfo6 zlib1g libzstd1 liblz4-1 liblzma5 \
        libgcrypt20 libgpg-error0 $ssl patchelf || die "RabbitMQ $1 could not be fetched from Debian's $suite"
    # Debian 12 has some of them outside /usr.
    for file in lib lib64; do
        [ -d "$home/$file" ] || continue
        mkdir -p "$home/usr/$file"
        cp -a "$home/$file/." "$home/usr/$file/"
        rm -rf "${home:?}/$file"
    done
    lib="$(dirname "$(find "$home/usr/lib" -name libc.so.6 | head -n 1)")"
    loader="$(find "$lib" -name 'ld-linux-*.so.*' | head -n 1)"
    # Its own loader by name, as it may be for a newer C library than this machine's.
    patch() { "$loader" --library-path "$lib" "$home/usr/bin/patchelf" "$@"; }
    find "$home/usr/lib/erlang" -type f \( -perm -u+x -o -name '*.so' \) | while read -r file; do
        [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
        if patch --print-interpreter "$file" >/dev/null 2>&1; then
            patch --set-interpreter "$loader" --force-rpath --set-rpath "$lib" "$file"
        else
            patch --force-rpath --set-rpath "$lib" "$file"
        fi
    done
    sed -i "s#ROOTDIR=/usr/lib/erlang#ROOTDIR=$home/usr/lib/erlang#" \
        "$home"/usr/lib/erlang/bin/{erl,start} "$home"/usr/lib/erlang/erts-*/bin/{erl,start}
    "$home/usr/lib/erlang/bin/erl" -noshell -eval '{ok, _} = application:ensure_all_started(crypto), halt(0).' ||
        die "the unpacked Erlang for RabbitMQ $1 does not run here"
    rm -rf "$apt"
    touch "$home/.done"
}

# rabbitmq_folder GENERATION: where its node keeps its things.
rabbitmq_folder() {
    echo "$BROKERS_RUN/rabbitmq$1"
}

rabbitmq_runs() {
    alive "$BROKERS_RUN/rabbitmq$1.pid" && [ -f "$(rabbitmq_folder "$1")/ready" ]
}

rabbitmq_env() {
    local home port
    home="$(rabbitmq_home "$1")"
    [ -f "$home/.done" ] || return 0
    echo "RABBITMQ$1_HOME=$home"
    echo "RABBITMQ$1_VERSION=$(basename "$home"/usr/lib/rabbitmq/lib/rabbitmq_server-* | sed 's/.*-//')"
    rabbitmq_runs "$1" || return 0
    port="$(cat "$BROKERS_RUN/rabbitmq$1.port")"
    echo "RABBITMQ$1_URL=amqp://guest:guest@127.0.0.1:$port"
    echo "RABBITMQ$1_MQTT_URL=mqtt://guest:guest@127.0.0.1:$((port + 1))"
    echo "RABBITMQ$1_MANAGEMENT_URL=http://guest:guest@127.0.0.1:$((port + 2))"
    echo "RABBITMQ$1_RUN=$BROKERS_RUN"
}

# rabbitmq_settings GENERATION PORT: all that RabbitMQ and Erlang would else take from /etc, /var or
# the home folder, where two nodes would meet.
rabbitmq_settings() {
    local home folder loopback='-kernel inet_dist_use_interface {127,0,0,1}'
    home="$(rabbitmq_home "$1")"
    folder="$(rabbitmq_folder "$1")"
    sbin="$(echo "$home"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin)"
    unset RABBITMQ_PID_FILE RABBITMQ_NODE_PORT RABBITMQ_NODE_IP_ADDRESS RABBITMQ_MNESIA_DIR \
        RABBITMQ_USE_LONGNAME ERL_LIBS
    export PATH="$home/usr/lib/erlang/bin:$PATH" LC_ALL=C.UTF-8 HOME="$folder/home"
    export RABBITMQ_NODENAME="rabbit$2@localhost" RABBITMQ_CONF_ENV_FILE=/dev/null
    export RABBITMQ_CONFIG_FILE="$folder/rabbitmq" RABBITMQ_ADVANCED_CONFIG_FILE="$folder/advanced.config"
    export RABBITMQ_MNESIA_BASE="$folder/mnesia" RABBITMQ_LOG_BASE="$folder/log"
    export RABBITMQ_ENABLED_PLUGINS_FILE="$folder/plugins" RABBITMQ_SCHEMA_DIR="$folder/schema"
    export RABBITMQ_GENERATED_CONFIG_DIR="$folder/config"
    export RABBITMQ_DIST_PORT="$(($2 + 3))" ERL_EPMD_PORT="$(($2 + 4))" ERL_EPMD_ADDRESS=127.0.0.1
    export RABBITMQ_CTL_DIST_PORT_MIN="$(($2 + 5))" RABBITMQ_CTL_DIST_PORT_MAX="$(($2 + 8))"
    export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="$loopback" RABBITMQ_CTL_ERL_ARGS="$loopback"
}

rabbitmq_up() {
    rabbitmq_runs "$1" ||
        locked "$BROKERS_RUN/.rabbitmq$1.lock" rabbitmq_start "$1"
    rabbitmq_env "$1"
}

rabbitmq_start() {
    local folder port offset sbin pid="$BROKERS_RUN/rabbitmq$1.pid"
    ! rabbitmq_runs "$1" || return 0
    [ -f "$(rabbitmq_home "$1")/.done" ] || die "RabbitMQ $1 is missing: scripts/brokers install rabbitmq$1"
    folder="$(rabbitmq_folder "$1")"
    rabbitmq_down "$1"
    if [ "$keep" = false ]; then rm -rf "$folder" "$BROKERS_RUN/rabbitmq$1.port"; fi
    mkdir -p "$folder"/{home,mnesia,log,config,schema}
    offset=1
    [ "$1" = 4 ] || offset=10
    port="$(ports "rabbitmq$1" "$offset" 9)"
    rabbitmq_settings "$1" "$port"
    if [ ! -s "$HOME/.erlang.cookie" ]; then
        head -c 24 /dev/urandom | base64 | tr -dc A-Za-z0-9 >"$HOME/.erlang.cookie"
        chmod 400 "$HOME/.erlang.cookie"
    fi
    echo '[rabbitmq_mqtt,rabbitmq_management].' >"$RABBITMQ_ENABLED_PLUGINS_FILE"
    echo '[].' >"$RABBITMQ_ADVANCED_CONFIG_FILE"
    cat >"$folder/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$port
mqtt.listeners.tcp.1 = 127.0.0.1:$((port + 1))
management.tcp.ip = 127.0.0.1
management.tcp.port = $((port + 2))
default_user = guest
default_pass = guest
disk_free_limit.absolute = 50MB
collect_statistics_interval = 1000
log.console = true
log.console.level = info
log.file = false
CONF
    cat "${RABBITMQ_EXTRA_CONF:-/dev/null}" >>"$folder/rabbitmq.conf"
    # The node would start one as a daemon that outlives it; this one can be stopped by its id.
    setsid epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 >"$folder/log/epmd" 2>&1 </dev/null &
    record "$BROKERS_RUN/rabbitmq$1.epmd.pid" $!
    wait_for 10 "$BROKERS_RUN/rabbitmq$1.epmd.pid" "$folder/log/epmd" port_open "$ERL_EPMD_PORT" || exit 1
    # ALLOW_INPUT makes the script become the node, so that the id is the node's; noinput keeps it quiet.
    RABBITMQ_ALLOW_INPUT=1 setsid "$sbin/rabbitmq-server" -noinput >"$folder/log/node" 2>&1 </dev/null &
    record "$pid" $!
    wait_for 120 "$pid" "$folder/log/node" grep -q 'startup complete' "$folder/log/node" || exit 1
    touch "$folder/ready"
}

rabbitmq_down() {
    rm -f "$(rabbitmq_folder "$1")/ready"
    stop "$BROKERS_RUN/rabbitmq$1.pid" 30
    stop "$BROKERS_RUN/rabbitmq$1.epmd.pid" 5
}

rabbitmq_status() {
    if rabbitmq_runs "$1"; then
        echo "rabbitmq$1 runs, process $(cut -d' ' -f1 "$BROKERS_RUN/rabbitmq$1.pid"), port $(cat "$BROKERS_RUN/rabbitmq$1.port")"
    else
        echo "rabbitmq$1 does not run"
    fi
}

# rabbitmq_ctl GENERATION ARGUMENT...
rabbitmq_ctl() {
    local sbin generation="$1"
    shift
    rabbitmq_runs "$generation" || die "rabbitmq$generation does not run: scripts/brokers up rabbitmq$generation"
    rabbitmq_settings "$generation" "$(cat "$BROKERS_RUN/rabbitmq$generation.port")"
    exec "$sbin/rabbitmqctl" "$@"
}
