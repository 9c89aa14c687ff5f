// pgjdbc: what it reads from the catalog, batches, rows in portions, server-side statements, COPY.
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.PGConnection;

public class Jdbc {
    static void check(Object got, Object wanted) {
        if (!String.valueOf(got).equals(String.valueOf(wanted))) {
            throw new AssertionError("got " + got + ", not " + wanted);
        }
    }

    /** Columns of all rows, `name=value` parted by blanks. */
    static String rows(ResultSet rs, String... columns) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rs.next()) {
            StringBuilder row = new StringBuilder();
            for (String column : columns) {
                row.append(row.length() > 0 ? " " : "").append(rs.getString(column));
            }
            all.add(row.toString());
        }
        return String.join(", ", all);
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT")
            + "/" + System.getenv("PGDATABASE");
        Connection c =
            DriverManager.getConnection(url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
        Statement s = c.createStatement();
        s.execute("create table j_t (a int, id int not null, v varchar(20) default 'x', "
            + "d numeric(10,2), primary key (id, a))");
        s.execute("comment on table j_t is 'rows'");
        s.execute("create table j_s (id serial primary key, v text)");
        catalog(c.getMetaData());
        statements(c, s);
        c.close();
    }

    static void catalog(DatabaseMetaData m) throws SQLException {
        check(rows(m.getTables(null, "public", "j_%", new String[] {"TABLE"}), "TABLE_NAME",
            "REMARKS"), "j_s null, j_t rows");
        check(rows(m.getColumns(null, "public", "j_t", "%"), "COLUMN_NAME", "TYPE_NAME",
            "COLUMN_SIZE", "IS_NULLABLE"),
            "a int4 10 NO, id int4 10 NO, v varchar 20 YES, d numeric 10 YES");
        check(rows(m.getPrimaryKeys(null, "public", "j_t"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            "id 1 j_t_pkey, a 2 j_t_pkey");
        check(rows(m.getBestRowIdentifier(null, "public", "j_s",
            DatabaseMetaData.bestRowSession, true), "COLUMN_NAME"), "id");
        check(rows(m.getCatalogs(), "TABLE_CAT"), "skein");
    }

    static void statements(Connection c, Statement s) throws Exception {
        PreparedStatement insert = c.prepareStatement("insert into j_t (id, a, v, d) values (?,?,?,?)");
        for (int i = 0; i < 1000; i++) {
            insert.setInt(1, i);
            insert.setInt(2, 0);
            insert.setString(3, "v" + i);
            insert.setBigDecimal(4, new BigDecimal("1.50"));
            insert.addBatch();
        }
        check(insert.executeBatch().length, 1000);
        c.setAutoCommit(false);
        PreparedStatement all = c.prepareStatement("select * from j_t order by id");
        all.setFetchSize(50);
        int count = 0;
        for (ResultSet rs = all.executeQuery(); rs.next(); count++) {
            check(rs.getInt("id"), count);
        }
        check(count, 1000);
        Savepoint point = c.setSavepoint();
        s.execute("delete from j_t");
        c.rollback(point);
        c.commit();
        c.setAutoCommit(true);
        PreparedStatement get = c.prepareStatement("select v, d from j_t where id = ?");
        // From the fifth on it is a statement of the server, with results in binary.
        for (int i = 0; i < 12; i++) {
            get.setInt(1, i);
            check(rows(get.executeQuery(), "v", "d"), "v" + i + " 1.50");
        }
        var copy = c.unwrap(PGConnection.class).getCopyAPI();
        check(copy.copyIn("copy j_t (id, a) from stdin", new StringReader("5000\t1\n5001\t1\n")), 2);
        StringWriter out = new StringWriter();
        check(copy.copyOut("copy (select id from j_t where a = 1 order by id) to stdout", out), 2);
        check(out, "5000\n5001\n");
        PreparedStatement keyed =
            c.prepareStatement("insert into j_s (v) values ('x')", Statement.RETURN_GENERATED_KEYS);
        keyed.executeUpdate();
        check(rows(keyed.getGeneratedKeys(), "id"), "1");
        Statement scroll =
            c.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE);
        ResultSet rs = scroll.executeQuery("select id, v from j_s");
        rs.next();
        rs.updateString("v", "new");
        rs.updateRow();
        check(rows(s.executeQuery("select v from j_s"), "v"), "new");
        try {
            s.execute("insert into j_s values (1)");
            throw new AssertionError("a duplicate key was taken");
        } catch (SQLException e) {
            check(e.getSQLState(), "23505");
        }
    }
}
