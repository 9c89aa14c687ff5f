-- pgbench's TPC-B-like transaction for any driver of sysbench: its tables, its statements.
sysbench.cmdline.options = {
   scale = {"Branches, each with 10 tellers and 100,000 accounts", 10},
}

local function load()
   local con = sysbench.sql.driver():connect()
   local scale = sysbench.opt.scale
   for _, t in ipairs({"accounts", "branches", "tellers", "history"}) do
      con:query("DROP TABLE IF EXISTS pgbench_" .. t)
   end
   con:query("CREATE TABLE pgbench_branches (" ..
             "bid INT NOT NULL PRIMARY KEY, bbalance INT, filler CHAR(88))")
   con:query("CREATE TABLE pgbench_tellers (" ..
             "tid INT NOT NULL PRIMARY KEY, bid INT, tbalance INT, filler CHAR(84))")
   con:query("CREATE TABLE pgbench_accounts (" ..
             "aid INT NOT NULL PRIMARY KEY, bid INT, abalance INT, filler CHAR(84))")
   con:query("CREATE TABLE pgbench_history (" ..
             "tid INT, bid INT, aid INT, delta INT, mtime TIMESTAMP, filler CHAR(22))")
   local function fill(head, n, row)
      con:bulk_insert_init(head)
      for i = 1, n do con:bulk_insert_next(row(i)) end
      con:bulk_insert_done()
   end
   fill("INSERT INTO pgbench_branches (bid, bbalance) VALUES", scale,
        function (i) return "(" .. i .. ",0)" end)
   fill("INSERT INTO pgbench_tellers (tid, bid, tbalance) VALUES", 10 * scale,
        function (i) return string.format("(%d,%d,0)", i, math.floor((i - 1) / 10) + 1) end)
   fill("INSERT INTO pgbench_accounts (aid, bid, abalance, filler) VALUES", 100000 * scale,
        function (i) return string.format("(%d,%d,0,'')", i, math.floor((i - 1) / 100000) + 1) end)
end

sysbench.cmdline.commands = { prepare = {load} }

package.path = debug.getinfo(1, "S").source:match("^@(.*/)") .. "?.lua;" .. package.path
local statements = require("statements")
local exec = statements.exec
local con, stmts

local function prepare(sql, params) return statements.prepare(con, sql, params) end

function thread_init()
   con = sysbench.sql.driver():connect()
   stmts = {
      begin = prepare("BEGIN", 0),
      commit = prepare("COMMIT", 0),
      get = prepare("SELECT abalance FROM pgbench_accounts WHERE aid = ?", 1),
      account = prepare("UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?", 2),
      teller = prepare("UPDATE pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?", 2),
      branch = prepare("UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?", 2),
      history = prepare("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) " ..
                        "VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)", 4),
   }
end

function thread_done() con:disconnect() end

-- A statement that failed for a conflict may have left its transaction open.
function sysbench.hooks.before_restart_event() con:query("ROLLBACK") end

function event()
   local scale = sysbench.opt.scale
   local aid = sysbench.rand.uniform(1, 100000 * scale)
   local bid, tid = sysbench.rand.uniform(1, scale), sysbench.rand.uniform(1, 10 * scale)
   local delta = sysbench.rand.uniform(1, 10000) - 5000
   exec(stmts.begin)
   exec(stmts.account, delta, aid)
   exec(stmts.get, aid)
   exec(stmts.teller, delta, tid)
   exec(stmts.branch, delta, bid)
   exec(stmts.history, tid, bid, aid, delta)
   exec(stmts.commit)
end
