# Sourced by ./test: fetches the drivers that the programs in tests/clients use, once, into a folder of
# the cache. Versions are pinned; what cannot be fetched ends the run.

SKEIN_CLIENTS="${SKEIN_CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/skein/clients}"
export SKEIN_CLIENTS
pg_npm=8.23.1
pgjdbc=42.7.4
pgjdbc_sha256=188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e

wanted="$(cat tests/clients/requirements.txt) $pg_npm $pgjdbc"
if [ "$(cat "$SKEIN_CLIENTS/made-of" 2>/dev/null)" != "$wanted" ]; then
    echo "fetching drivers into $SKEIN_CLIENTS"
    rm -rf "$SKEIN_CLIENTS"
    mkdir -p "$SKEIN_CLIENTS"
    python3 -m venv "$SKEIN_CLIENTS/venv"
    "$SKEIN_CLIENTS/venv/bin/pip" install -q --disable-pip-version-check -r tests/clients/requirements.txt
    npm install --silent --no-audit --no-fund --prefix "$SKEIN_CLIENTS" "pg@$pg_npm"
    jar="$SKEIN_CLIENTS/postgresql.jar"
    curl -sSfL -o "$jar" \
        "https://repo1.maven.org/maven2/org/postgresql/postgresql/$pgjdbc/postgresql-$pgjdbc.jar"
    echo "$pgjdbc_sha256  $jar" | sha256sum -c --quiet -
    printf '%s' "$wanted" >"$SKEIN_CLIENTS/made-of"
fi
