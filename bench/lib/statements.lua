-- Prepared statements with whole numbers as parameters, of one connection.
local statements = {}

local INT = sysbench.sql.type.INT

function statements.prepare(con, sql, params)
   local s = {stmt = con:prepare(sql), par = {}}
   for i = 1, params do s.par[i] = s.stmt:bind_create(INT) end
   if params > 0 then s.stmt:bind_param(unpack(s.par)) end
   return s
end

function statements.exec(s, ...)
   for i, v in ipairs({...}) do s.par[i]:set(v) end
   s.stmt:execute()
end

return statements
