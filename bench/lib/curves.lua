-- Transactions of ten reads and two changes by key; of a hundred statements, `shared` go to the
-- table of all instances, the others to this instance's own.
sysbench.cmdline.options = {
   shared = {"Of a hundred statements, so many on the shared table", 100},
   own = {"Number of this instance's own table", 1},
   rows = {"Rows of each table", 20000},
   instances = {"Tables to prepare beside the shared one", 1},
}

local function load()
   local con = sysbench.sql.driver():connect()
   for t = 0, sysbench.opt.instances do
      con:query("DROP TABLE IF EXISTS curve" .. t)
      con:query("CREATE TABLE curve" .. t .. " (id INT PRIMARY KEY, k INT, c CHAR(100))")
      con:bulk_insert_init("INSERT INTO curve" .. t .. " (id, k, c) VALUES")
      for i = 1, sysbench.opt.rows do
         con:bulk_insert_next(string.format("(%d,%d,'%d')", i, i, i))
      end
      con:bulk_insert_done()
   end
end

sysbench.cmdline.commands = { prepare = {load} }

package.path = debug.getinfo(1, "S").source:match("^@(.*/)") .. "?.lua;" .. package.path
local statements = require("statements")
local exec = statements.exec
local con, stmts

local function prepare(sql, params) return statements.prepare(con, sql, params) end

function thread_init()
   con = sysbench.sql.driver():connect()
   stmts = { begin = prepare("BEGIN", 0), commit = prepare("COMMIT", 0) }
   for name, t in pairs({ shared = 0, own = sysbench.opt.own }) do
      stmts[name] = {
         get = prepare("SELECT c FROM curve" .. t .. " WHERE id = ?", 1),
         set = prepare("UPDATE curve" .. t .. " SET k = k + 1 WHERE id = ?", 1),
      }
   end
end

local function table_of()
   if sysbench.rand.uniform(1, 100) <= sysbench.opt.shared then return stmts.shared end
   return stmts.own
end

function event()
   exec(stmts.begin)
   for _ = 1, 10 do exec(table_of().get, sysbench.rand.uniform(1, sysbench.opt.rows)) end
   -- In ascending order: two changes never wait for each other in a circle.
   local a, b = sysbench.rand.uniform(1, sysbench.opt.rows), sysbench.rand.uniform(1, sysbench.opt.rows)
   local s, o = table_of(), table_of()
   if s == o and a > b then a, b = b, a end
   if s ~= o and s == stmts.own then s, o = o, s end
   exec(s.set, a)
   exec(o.set, b)
   exec(stmts.commit)
end

function thread_done()
   con:disconnect()
end
