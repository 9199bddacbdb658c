-- Takes tokens of the bucket KEYS[1] by this server's clock, all of it in whole
-- numbers below 2^53, which is as far as a number of Lua is exact.
--
-- The level is counted in parts of a token: each tick of `unit` microseconds adds
-- `rate` parts, a token costs `price` of them, a full bucket has `full`.
local rate, price, full, unit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local need, want, owed = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local clock = redis.call('TIME')
local now = math.floor((clock[1] * 1000000 + clock[2]) / unit)

local level, last, changed = full, now, owed > 0
local saved = redis.call('GET', KEYS[1])
if saved then
  local parts, at, per = string.match(saved, '^(%d+) (%d+) (%d+)$')
  level, last, per = tonumber(parts), math.floor(tonumber(at) / unit), tonumber(per)
  if per ~= price then -- written at another rate: the tokens are what counts
    level = math.floor(level / per * price)
  end
  level = math.min(level, full)
  if last - now > 1000000 / unit then
    -- Another server's clock, after a failover: the bucket must not stand still
    -- until this one is as late.
    last, changed = now, true
  end
  local gone = now - last
  if gone > 0 then
    if gone >= math.ceil((full - level) / rate) then
      level = full
    else
      level = level + gone * rate
    end
    last = now
  end
end

level = math.max(level - owed * price, 0)
local got, retry = 0, 0
if level >= need * price then
  got = math.min(want, math.floor(level / price))
  level = level - got * price
else
  retry = math.ceil((need * price - level) / rate) * unit
end
if got > 0 or changed then
  -- Forgotten only when it is full again.
  local ttl = math.ceil((full - level) / rate * unit / 1000) + 1000
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', level, last * unit, price), 'PX', string.format('%.0f', ttl))
end
return {got, retry}
