# Debian packages, fetched and unpacked beside the system. Sourced by `scripts/brokers`.
# shellcheck shell=bash

# tool COMMAND PACKAGES: a small tool of the system's own; root installs it where it is missing.
tool() {
    ! command -v "$1" >/dev/null || return 0
    [ "$(id -u)" = 0 ] || die "$1 is missing: as root, apt-get install $2"
    # shellcheck disable=SC2086
    locked "$BROKERS_HOME/.apt.lock" system_install $2 || die "$1 is missing and '$2' could not be installed"
}

# shellcheck disable=SC2317
system_install() {
    local quiet=(-qq -o "DPkg::Lock::Timeout=300" -o "Acquire::Retries=3")
    DEBIAN_FRONTEND=noninteractive apt-get "${quiet[@]}" update &&
        DEBIAN_FRONTEND=noninteractive apt-get "${quiet[@]}" install -y --no-install-recommends "$@" >/dev/null
}

debian_codename() {
    # shellcheck source=/dev/null
    (. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && printf '%s' "${VERSION_CODENAME:-}")
}

# Where this machine's own apt gets Debian from; the plain archive, not the one of security updates.
debian_archive() {
    # shellcheck disable=SC2016
    env -u APT_CONFIG apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' |
        grep -v security | head -n 1
}

# private_apt FOLDER SUITES: an apt of our own, so that neither packages nor sources of another suite
# reach the system. Sets APT_CONFIG.
private_apt() {
    local folder="$1"
    command -v apt-get >/dev/null || die "only Debian's packages are known, and there is no apt-get here"
    mkdir -p "$folder"/{state/lists/partial,cache/archives/partial,sources.list.d,preferences.d}
    cat >"$folder/sources.list.d/private.sources" <<SOURCES
Types: deb
URIs: ${DEBIAN_MIRROR:-$(debian_archive)}
Suites: $2
Components: main
Architectures: $(dpkg --print-architecture)
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
    : >"$folder/status"
    cat >"$folder/apt.conf" <<CONF
Dir::State "$folder/state";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/sources.list.d";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$folder/preferences.d";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Update::Error-Mode "any";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
    export APT_CONFIG="$folder/apt.conf"
    apt-get -qq update
}

# unpack FOLDER PACKAGE...: fetch with the apt of `private_apt` and unpack there.
unpack() {
    local into="$1" debs deb
    shift
    debs="${APT_CONFIG%/*}/debs"
    mkdir -p "$debs"
    (cd "$debs" && apt-get -qq download "$@") || return 1
    mkdir -p "$into"
    for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$into" || return 1; done
}
