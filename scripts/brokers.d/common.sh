# Processes, ports and locks. Sourced by `scripts/brokers`.
# shellcheck shell=bash disable=SC2154

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "scripts/brokers: $*"
    exit 1
}

# locked FILE COMMAND...: one at a time of those who name the same file; the others wait for it.
locked() {
    local file="$1"
    shift
    (
        flock 9
        # What is started must not hold the lock for as long as it lives.
        "$@" 9>&-
    ) 9>"$file"
}

# port_open PORT: something accepts on it.
port_open() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# ports NAME OFFSET COUNT: the first of COUNT free ports, decided once and remembered in the run's
# folder. Below 32768, or the system may lend one to a client while its server restarts.
ports() {
    local file="$BROKERS_RUN/$1.port" base try at busy
    if [ -s "$file" ]; then
        cat "$file"
        return
    fi
    if [ -n "${BROKERS_PORT:-}" ]; then
        base="$BROKERS_PORT"
    else
        base="$(printf '%s' "$BROKERS_RUN" | cksum | cut -d' ' -f1)"
        base=$((12000 + base % 1000 * 20))
    fi
    for try in $(seq 0 49); do
        busy=false
        for at in $(seq 0 $(($3 - 1))); do
            ! port_open $((base + $2 + at)) || busy=true
        done
        if [ "$busy" = false ]; then
            echo $((base + $2)) | tee "$file"
            return
        fi
        # With the ports given there is nothing to look for elsewhere.
        [ -z "${BROKERS_PORT:-}" ] || break
        base=$((12000 + (base - 12000 + 20 * (try + 1)) % 20000))
    done
    die "no free ports for $1; stop what holds them or set BROKERS_PORT"
}

# started PID: when the kernel started it, so that a recycled id is never taken for ours; nothing for
# a process that has ended and only waits to be reaped.
started() {
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" && $1 != "X" { print $20 }'
}

# record FILE PID
record() {
    printf '%s %s\n' "$2" "$(started "$2")" >"$1"
}

# alive FILE: the process recorded there still runs.
alive() {
    local pid at
    [ -s "$1" ] || return 1
    read -r pid at <"$1"
    [ -n "$at" ] && [ "$(started "$pid")" = "$at" ]
}

# stop FILE SECONDS: TERM, then KILL after so long; with `--kill` at once.
stop() {
    local pid _ signal=TERM
    [ "$crash" = false ] || signal=KILL
    if alive "$1"; then
        read -r pid _ <"$1"
        kill "-$signal" "$pid" 2>/dev/null || true
        for _ in $(seq 1 $(($2 * 20))); do
            alive "$1" || break
            sleep 0.05
        done
        if alive "$1"; then
            say "process $pid did not end within $2 s of TERM: killed"
            kill -KILL "$pid" 2>/dev/null || true
        fi
    fi
    rm -f "$1"
}

# wait_for SECONDS FILE LOG COMMAND...: until COMMAND succeeds; at once when the process ends.
wait_for() {
    local seconds="$1" file="$2" log="$3" _
    shift 3
    for _ in $(seq 1 $((seconds * 20))); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        if ! alive "$file"; then
            say "it ended while starting:"
            tail -n 30 "$log" >&2 || true
            return 1
        fi
        sleep 0.05
    done
    say "it was not ready after $seconds s:"
    tail -n 30 "$log" >&2 || true
    return 1
}
