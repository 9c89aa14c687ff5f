# Sourced by ./test: fetches the drivers that the programs in tests/clients use, once, into a folder of
# the cache. Versions are pinned; what cannot be fetched ends the run.

SKEIN_CLIENTS="${SKEIN_CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/skein/clients}"
export SKEIN_CLIENTS
pg_npm=8.23.1
pgjdbc=42.7.4
pgjdbc_sha256=188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e
sqlalchemy=2.0.58
sqlalchemy_path=74/9a/8d798711d1e56fa5f51152c228c2e0a8f03c95f3d59c969dd720ed492b83
sqlalchemy_sha256=2acdcec9836b7c1514a9ad426e7731669a1186d96481a2e82c50bf2aebb49061

wanted="$(cat tests/clients/requirements.txt) $pg_npm $pgjdbc $sqlalchemy"
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
    # The wheel leaves out what SQLAlchemy's suite may ask of each database.
    sdist="$SKEIN_CLIENTS/sqlalchemy.tar.gz"
    curl -sSfL -o "$sdist" \
        "https://files.pythonhosted.org/packages/$sqlalchemy_path/sqlalchemy-$sqlalchemy.tar.gz"
    echo "$sqlalchemy_sha256  $sdist" | sha256sum -c --quiet -
    tar -xzOf "$sdist" "sqlalchemy-$sqlalchemy/test/requirements.py" \
        >"$SKEIN_CLIENTS/sqlalchemy_own.py"
    rm "$sdist"
    printf '%s' "$wanted" >"$SKEIN_CLIENTS/made-of"
fi

# The program itself, with pgx as go.sum pins it; Go's own cache makes this quick when nothing changed.
(cd tests/clients/go &&
    GOTOOLCHAIN=local GOFLAGS="-mod=readonly -modcacherw" GOMODCACHE="$SKEIN_CLIENTS/gomod" \
        go build -o "$SKEIN_CLIENTS/go_client" .)
