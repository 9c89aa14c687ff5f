import java.sql.*;
import java.util.*;

/** DatabaseMetaData as pgjdbc asks for it. */
public class JdbcMetaData {
    static String rows(ResultSet rows, String... columns) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rows.next()) {
            List<String> one = new ArrayList<>();
            for (String column : columns) one.add(rows.getString(column));
            all.add(String.join(",", one.stream().map(x -> x == null ? "-" : x).toList()));
        }
        rows.close();
        return String.join(";", all);
    }

    static int wrong = 0;

    static void same(String what, String wanted, String found) {
        if (!wanted.equals(found)) {
            System.err.println(what + ": wanted " + wanted + " found " + found);
            wrong++;
        }
    }

    interface Query { String get() throws SQLException; }

    static void check(String what, String wanted, Query query) {
        try {
            same(what, wanted, query.get());
        } catch (SQLException e) {
            System.err.println(what + ": " + e.getMessage());
            wrong++;
        }
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
            + System.getenv("PGDATABASE");
        Connection c = DriverManager.getConnection(url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
        try (Statement s = c.createStatement()) {
            s.execute("create schema jd");
            s.execute("create table jd.parent (id int primary key, code varchar(10) not null unique)");
            s.execute("create table jd.child (a int, b bigint generated always as identity, "
                + "p int references jd.parent on delete cascade, n numeric(8,2) default 1.5, "
                + "t text, d timestamp, primary key (b, a))");
            s.execute("create index child_n on jd.child (n desc, t)");
            s.execute("create view jd.seen as select a, t from jd.child");
            s.execute("comment on table jd.child is 'children'");
            s.execute("comment on column jd.child.t is 'a text'");
        }
        DatabaseMetaData m = c.getMetaData();
        check("product", "PostgreSQL", m::getDatabaseProductName);
        check("tables", "child,TABLE,children;parent,TABLE,-;seen,VIEW,-",
            () -> rows(m.getTables(null, "jd", "%", new String[] {"TABLE", "VIEW"}),
                "TABLE_NAME", "TABLE_TYPE", "REMARKS"));
        check("columns",
            "a,4,int4,10,0,-,1,NO;b,-5,int8,19,0,-,2,YES;p,4,int4,10,0,-,3,NO;"
            + "n,2,numeric,8,2,1.5,4,NO;t,12,text,2147483647,0,-,5,NO;d,93,timestamp,29,6,-,6,NO",
            () -> rows(m.getColumns(null, "jd", "child", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME",
                "COLUMN_SIZE", "DECIMAL_DIGITS", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
        check("remarks", "a text", () -> rows(m.getColumns(null, "jd", "child", "t"), "REMARKS"));
        check("primary key", "b,1,child_pkey;a,2,child_pkey",
            () -> rows(m.getPrimaryKeys(null, "jd", "child"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        check("indexes", "f,child_pkey,1,b,A;f,child_pkey,2,a,A;t,child_n,1,n,D;t,child_n,2,t,A",
            () -> rows(m.getIndexInfo(null, "jd", "child", false, false), "NON_UNIQUE", "INDEX_NAME",
                "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC").replace("\"", ""));
        String keys = "parent,id,child,p,1,3,0,child_p_fkey,parent_pkey,7";
        String[] keyColumns = {"PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ",
            "UPDATE_RULE", "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY"};
        check("imported", keys, () -> rows(m.getImportedKeys(null, "jd", "child"), keyColumns));
        check("exported", keys, () -> rows(m.getExportedKeys(null, "jd", "parent"), keyColumns));
        check("cross", keys,
            () -> rows(m.getCrossReference(null, "jd", "parent", null, "jd", "child"), keyColumns));
        check("best row", "b;a", () -> rows(m.getBestRowIdentifier(null, "jd", "child",
            DatabaseMetaData.bestRowSession, false), "COLUMN_NAME").replace("a;b", "b;a"));
        check("schemas", "information_schema;jd;pg_catalog;public", () -> {
            String all = rows(m.getSchemas(), "TABLE_SCHEM");
            List<String> kept = new ArrayList<>();
            for (String one : all.split(";"))
                if (one.matches("information_schema|jd|pg_catalog|public")) kept.add(one);
            return String.join(";", kept);
        });
        check("catalogs", "true", () -> "" + rows(m.getCatalogs(), "TABLE_CAT").contains(c.getCatalog()));
        check("table types", "true", () -> "" + rows(m.getTableTypes(), "TABLE_TYPE").contains("VIEW"));
        check("types", "true", () -> {
            String all = ";" + rows(m.getTypeInfo(), "TYPE_NAME", "DATA_TYPE") + ";";
            boolean found = true;
            for (String one : new String[] {"int4,4", "int8,-5", "text,12", "numeric,2", "bool,-7",
                "timestamptz,93", "bytea,-2", "uuid,1111", "_int4,2003"}) {
                if (!all.contains(";" + one + ";")) { System.err.println(one); found = false; }
            }
            return "" + found;
        });
        check("functions", "true", () -> "" + (rows(m.getFunctions(null, "pg_catalog", "lower"),
            "FUNCTION_NAME").startsWith("lower")));
        check("function columns", "true", () -> "" + (rows(m.getFunctionColumns(null, "pg_catalog", "lower",
            "%"), "COLUMN_TYPE", "TYPE_NAME").contains("4,text;1,text")));
        check("procedures", "", () -> rows(m.getProcedures(null, "jd", "%"), "PROCEDURE_NAME"));
        check("procedure columns", "", () -> rows(m.getProcedureColumns(null, "jd", "%", "%"), "COLUMN_NAME"));
        check("table rights", "true", () -> "" + (rows(m.getTablePrivileges(null, "jd", "child"),
            "PRIVILEGE") != null));
        check("column rights", "true", () -> "" + (rows(m.getColumnPrivileges(null, "jd", "child", "%"),
            "PRIVILEGE") != null));
        check("client info", "true", () -> "" + rows(m.getClientInfoProperties(), "NAME").contains(
            "ApplicationName"));
        check("keywords", "true", () -> "" + (m.getSQLKeywords().length() > 10));
        check("names", "63", () -> "" + m.getMaxColumnNameLength());
        check("version columns", "true", () -> "" + (rows(m.getVersionColumns(null, "jd", "child"),
            "COLUMN_NAME") != null));
        check("supertypes", "true", () -> "" + (m.supportsTransactions()));
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("select b, t from jd.child")) {
            ResultSetMetaData rm = r.getMetaData();
            check("result", "child,b,true,0;child,t,false,1", () -> rm.getTableName(1) + ","
                + rm.getColumnName(1) + "," + rm.isAutoIncrement(1) + "," + rm.isNullable(1) + ";"
                + rm.getTableName(2) + "," + rm.getColumnName(2) + "," + rm.isAutoIncrement(2) + ","
                + rm.isNullable(2));
        }
        try (Statement s = c.createStatement()) { s.execute("drop schema jd cascade"); }
        if (wrong > 0) System.exit(1);
        System.out.println("metadata of " + m.getDriverName() + " " + m.getDriverVersion());
    }
}
