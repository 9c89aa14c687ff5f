# Sourced by ./demo and ./test: sees to it that a bare Debian 12 with a Rust toolchain has what the
# build and the tests need. As root it installs what is missing; else it prints the line that would.

if ! command -v cargo >/dev/null 2>&1; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    export PATH
fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install Rust 1.95 or newer first (https://rustup.rs)" >&2
    exit 1
fi

# On Debian pgbench is in the server's package. It is installed for pgbench only: no cluster is
# made, so no server runs.
missing=""
if ! echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - 2>/dev/null; then
    missing="$missing gcc libc6-dev"
fi
command -v psql >/dev/null 2>&1 || missing="$missing postgresql-client-15"
if ! pgbench --version >/dev/null 2>&1; then
    missing="$missing postgresql-15"
fi
command -v sysbench >/dev/null 2>&1 || missing="$missing sysbench"
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
command -v npm >/dev/null 2>&1 || missing="$missing nodejs npm"
command -v javac >/dev/null 2>&1 || missing="$missing default-jdk-headless"
command -v go >/dev/null 2>&1 || missing="$missing golang-go"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v curl >/dev/null 2>&1 || missing="$missing curl ca-certificates"

no_cluster='mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" >> /etc/postgresql-common/createcluster.conf'
if [ -n "$missing" ]; then
    install="apt-get update && apt-get install -y --no-install-recommends$missing"
    case "$missing" in
    *postgresql-15*) install="$no_cluster && $install" ;;
    esac
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "missing (by their Debian names):$missing" >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "some packages are missing; as root run this line, then start again:" >&2
        echo "  sudo sh -c '$install'" >&2
        exit 1
    fi
    echo "installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    case "$missing" in
    *postgresql-15*)
        # The package's own file must neither replace ours nor ask.
        if ! grep -qs '^create_main_cluster *= *false' /etc/postgresql-common/createcluster.conf; then
            mkdir -p /etc/postgresql-common
            echo "create_main_cluster = false" >>/etc/postgresql-common/createcluster.conf
        fi
        ;;
    esac
    apt-get update -q
    # shellcheck disable=SC2086 # a list of words
    UCF_FORCE_CONFFOLD=1 apt-get install -y -q --no-install-recommends \
        -o Dpkg::Options::=--force-confold $missing
fi

# One folder for all checkouts; set here too, so that xtask itself is built there.
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/skein/target}"
export CARGO_TARGET_DIR
