"""TPC-H's tables and queries (tests/tpch), as the benchmark uses them."""
import os
import re
import subprocess

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/tpch")
TABLES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]


def read(name):
    return open(os.path.join(FOLDER, name)).read()


def queries():
    """The queries by number."""
    found = re.findall(r"^-- (\d+)\n(.*?);$", read("queries.sql"), re.S | re.M)
    return {int(n): text for n, text in found}


def load(server, data):
    """Makes the tables and copies the files into them."""
    server.sql(read("schema.sql"))
    for table in TABLES:
        copy = f"\\copy {table} from '{data}/{table}.csv' (format csv, header)"
        command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", copy]
        subprocess.run(command, env=server.env(), check=True)
