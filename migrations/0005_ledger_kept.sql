-- +goose Up

-- Minute rows in one partition a day, made ahead and dropped behind; what they
-- add up to by hour and by day; and counts by single dimensions.
--
-- Days without a partition of their own (a history filled in later, a table
-- nobody has looked after yet) lie in the default partition, so no row is ever
-- refused for its day.

-- A histogram is a list of count * 1024 + bin, in any order, a bin as often as
-- it was added: putting two lists together adds them up. A list that has grown
-- long is packed: each bin once, ascending.
drop aggregate histogram_sum(bigint[]);
drop function histogram_add(bigint[], bigint[]);

-- +goose StatementBegin
create function histogram_pack(h bigint[]) returns bigint[]
language sql immutable strict parallel safe as $$
    select coalesce(array_agg(n * 1024 + bin order by bin), '{}')
    from (select e & 1023 as bin, sum(e >> 10)::bigint as n from unnest(h) as e group by 1) as bins
$$;
-- +goose StatementEnd

-- Adds two histograms; packs them when they have become long.
-- +goose StatementBegin
create function histogram_add(a bigint[], b bigint[]) returns bigint[]
language sql immutable parallel safe as $$
    select case when coalesce(cardinality(a), 0) + coalesce(cardinality(b), 0) <= 192 then a || b else histogram_pack(a || b) end
$$;
-- +goose StatementEnd

-- The counts of all bins from the first: what internal/histogram calls Bins.
-- +goose StatementBegin
create function histogram_bins(h bigint[]) returns bigint[]
language sql immutable parallel safe as $$
    select coalesce(array_agg(coalesce(n, 0)::bigint order by i), '{}')
    from generate_series(0, (select max(e & 1023) from unnest(h) as e)) as i
    left join (select e & 1023 as bin, sum(e >> 10) as n from unnest(h) as e group by 1) as bins on bin = i
$$;
-- +goose StatementEnd

-- Within an aggregate the list may be longer: it is copied less often than packed.
-- +goose StatementBegin
create function histogram_append(a bigint[], b bigint[]) returns bigint[]
language plpgsql immutable parallel safe as $$
begin
    if cardinality(a) > 2048 then
        a := histogram_pack(a);
    end if;
    return a || b;
end
$$;
-- +goose StatementEnd

create aggregate histogram_sum(bigint[]) (
    sfunc = histogram_append, stype = bigint[], initcond = '{}', finalfunc = histogram_bins, combinefunc = histogram_append, parallel = safe
);
create aggregate histogram_merge(bigint[]) (
    sfunc = histogram_append, stype = bigint[], initcond = '{}', finalfunc = histogram_pack, combinefunc = histogram_append, parallel = safe
);

alter table rollup_minute rename to rollup_minute_before;
alter table rollup_minute_before rename constraint rollup_minute_pkey to rollup_minute_before_pkey;
alter index rollup_minute_scope_at rename to rollup_minute_before_scope_at;

create table rollup_minute (
    service           text        not null, -- '' for what was refused before routing
    env               text        not null,
    route             text        not null,
    upstream          text        not null,
    experiment        text        not null, -- '' where no fault touched it
    at                timestamptz not null,
    -- of every objective
    good              bigint      not null default 0,
    bad               bigint      not null default 0,
    neutral           bigint      not null default 0,
    throttled         bigint      not null default 0, -- also in neutral: 429
    aborted           bigint      not null default 0, -- also in neutral: 408, 499, client gone
    synthetic         bigint      not null default 0, -- also in neutral: probes, and who asked for a fault by header
    bad_local         bigint      not null default 0, -- also in bad: the gateway made the answer
    degraded          bigint      not null default 0, -- also in good: a fallback made the answer; bad for quality
    chaos_good        bigint      not null default 0, -- good and bad that carry an experiment
    chaos_bad         bigint      not null default 0,
    -- of valid ones, good and bad
    first_try_bad     bigint      not null default 0,
    dep_timeouts      bigint      not null default 0, -- with at least one timeout of an upstream
    dep_timeout_calls bigint      not null default 0, -- timeouts in all
    over_limit        bigint      not null default 0, -- slower than limit_us, aborted ones past it included
    aborted_over      bigint      not null default 0, -- of those, the aborted: they are valid for latency alone
    limit_us          bigint      not null default 0, -- what over_limit was counted by; 0: no limit, -1: more than one
    -- of all
    exchanges         bigint      not null default 0,
    attempts          bigint      not null default 0,
    retried           bigint      not null default 0,
    recovered         bigint      not null default 0,
    latency_us        bigint      not null default 0, -- sum
    latency_max_us    bigint      not null default 0, -- of valid ones
    hist              bigint[]    not null default '{}', -- of valid ones, see histogram_add
    -- Where lines were sampled, each stands for 1/p: the counts above are estimates. The
    -- variance of a sum of weights w is the sum of w * (w - 1), which adds up as counts do.
    sampled           bigint      not null default 0, -- valid lines that stand for more than themselves
    sample_var_good   bigint      not null default 0,
    sample_var_bad    bigint      not null default 0,
    revision          bigint      not null default 1,  -- rises with every batch that touched the row
    primary key (service, env, route, upstream, experiment, at)
) partition by range (at);

create index rollup_minute_scope_at on rollup_minute (service, env, at);

-- The running minute is updated every second: leave room for it in place.
create table rollup_minute_default partition of rollup_minute default with (fillfactor = 70);

insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, neutral, throttled, aborted, chaos_bad,
    first_try_bad, exchanges, attempts, retried, recovered, over_limit, dep_timeouts, degraded, latency_us, hist, revision)
select service, env, route, upstream, experiment, at, good, bad, neutral, throttled, aborted, chaos_bad,
    first_try_bad, exchanges, attempts, retried, recovered, over_limit, dep_timeouts, degraded, latency_us,
    (select coalesce(array_agg(n * 1024 + i - 1 order by i), '{}') from unnest(hist) with ordinality as bins (n, i) where n > 0), revision
from rollup_minute_before;

drop table rollup_minute_before;

create trigger rollup_minute_inserted after insert on rollup_minute
    referencing new table as touched for each statement execute function slo_mark_dirty();
create trigger rollup_minute_updated after update on rollup_minute
    referencing new table as touched for each statement execute function slo_mark_dirty();

-- Sums of a service's minutes over all routes: what a budget reads at the edges
-- of its window, one row a minute whatever the number of routes. Kept by
-- triggers, so that it cannot differ from the minutes.
create table service_minute (like rollup_minute including defaults) partition by range (at);
alter table service_minute drop column route, drop column upstream, drop column experiment, drop column limit_us,
    drop column latency_max_us, drop column hist, drop column revision, add primary key (service, env, at);

create table service_minute_default partition of service_minute default with (fillfactor = 70);

-- +goose StatementBegin
create function service_minute_inserted() returns trigger language plpgsql as $$
begin
    insert into service_minute as m (service, env, at,
        good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
        dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered,
        latency_us, sampled, sample_var_good, sample_var_bad)
    select service, env, at,
        sum(good), sum(bad), sum(neutral), sum(throttled), sum(aborted), sum(synthetic), sum(bad_local),
        sum(degraded), sum(chaos_good), sum(chaos_bad), sum(first_try_bad), sum(dep_timeouts),
        sum(dep_timeout_calls), sum(over_limit), sum(aborted_over), sum(exchanges), sum(attempts), sum(retried),
        sum(recovered), sum(latency_us), sum(sampled), sum(sample_var_good), sum(sample_var_bad)
    from touched group by service, env, at order by service, env, at
    on conflict (service, env, at) do update set
        good = m.good + excluded.good, bad = m.bad + excluded.bad, neutral = m.neutral + excluded.neutral,
        throttled = m.throttled + excluded.throttled, aborted = m.aborted + excluded.aborted,
        synthetic = m.synthetic + excluded.synthetic, bad_local = m.bad_local + excluded.bad_local,
        degraded = m.degraded + excluded.degraded, chaos_good = m.chaos_good + excluded.chaos_good,
        chaos_bad = m.chaos_bad + excluded.chaos_bad, first_try_bad = m.first_try_bad + excluded.first_try_bad,
        dep_timeouts = m.dep_timeouts + excluded.dep_timeouts,
        dep_timeout_calls = m.dep_timeout_calls + excluded.dep_timeout_calls,
        over_limit = m.over_limit + excluded.over_limit, aborted_over = m.aborted_over + excluded.aborted_over,
        exchanges = m.exchanges + excluded.exchanges, attempts = m.attempts + excluded.attempts,
        retried = m.retried + excluded.retried, recovered = m.recovered + excluded.recovered,
        latency_us = m.latency_us + excluded.latency_us, sampled = m.sampled + excluded.sampled,
        sample_var_good = m.sample_var_good + excluded.sample_var_good,
        sample_var_bad = m.sample_var_bad + excluded.sample_var_bad;
    return null;
end
$$;
-- +goose StatementEnd

-- An update adds the new rows and takes the old ones off.
-- +goose StatementBegin
create function service_minute_updated() returns trigger language plpgsql as $$
begin
    insert into service_minute as m (service, env, at,
        good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
        dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered,
        latency_us, sampled, sample_var_good, sample_var_bad)
    select service, env, at,
        sum(good), sum(bad), sum(neutral), sum(throttled), sum(aborted), sum(synthetic), sum(bad_local),
        sum(degraded), sum(chaos_good), sum(chaos_bad), sum(first_try_bad), sum(dep_timeouts),
        sum(dep_timeout_calls), sum(over_limit), sum(aborted_over), sum(exchanges), sum(attempts), sum(retried),
        sum(recovered), sum(latency_us), sum(sampled), sum(sample_var_good), sum(sample_var_bad)
    from (
        select service, env, at,
        good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
        dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered,
        latency_us, sampled, sample_var_good, sample_var_bad
        from touched
        union all
        select service, env, at,
        -good, -bad, -neutral, -throttled, -aborted, -synthetic, -bad_local, -degraded, -chaos_good, -chaos_bad,
        -first_try_bad, -dep_timeouts, -dep_timeout_calls, -over_limit, -aborted_over, -exchanges, -attempts,
        -retried, -recovered, -latency_us, -sampled, -sample_var_good, -sample_var_bad
        from untouched
    ) as delta group by service, env, at order by service, env, at
    on conflict (service, env, at) do update set
        good = m.good + excluded.good, bad = m.bad + excluded.bad, neutral = m.neutral + excluded.neutral,
        throttled = m.throttled + excluded.throttled, aborted = m.aborted + excluded.aborted,
        synthetic = m.synthetic + excluded.synthetic, bad_local = m.bad_local + excluded.bad_local,
        degraded = m.degraded + excluded.degraded, chaos_good = m.chaos_good + excluded.chaos_good,
        chaos_bad = m.chaos_bad + excluded.chaos_bad, first_try_bad = m.first_try_bad + excluded.first_try_bad,
        dep_timeouts = m.dep_timeouts + excluded.dep_timeouts,
        dep_timeout_calls = m.dep_timeout_calls + excluded.dep_timeout_calls,
        over_limit = m.over_limit + excluded.over_limit, aborted_over = m.aborted_over + excluded.aborted_over,
        exchanges = m.exchanges + excluded.exchanges, attempts = m.attempts + excluded.attempts,
        retried = m.retried + excluded.retried, recovered = m.recovered + excluded.recovered,
        latency_us = m.latency_us + excluded.latency_us, sampled = m.sampled + excluded.sampled,
        sample_var_good = m.sample_var_good + excluded.sample_var_good,
        sample_var_bad = m.sample_var_bad + excluded.sample_var_bad;
    return null;
end
$$;
-- +goose StatementEnd

create trigger service_minute_inserted after insert on rollup_minute
    referencing new table as touched for each statement execute function service_minute_inserted();
create trigger service_minute_updated after update on rollup_minute
    referencing old table as untouched new table as touched for each statement execute function service_minute_updated();

insert into service_minute (service, env, at,
    good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, latency_us,
    sampled, sample_var_good, sample_var_bad)
select service, env, at,
    sum(good), sum(bad), sum(neutral), sum(throttled), sum(aborted), sum(synthetic), sum(bad_local), sum(degraded),
    sum(chaos_good), sum(chaos_bad), sum(first_try_bad), sum(dep_timeouts), sum(dep_timeout_calls), sum(over_limit),
    sum(aborted_over), sum(exchanges), sum(attempts), sum(retried), sum(recovered), sum(latency_us), sum(sampled),
    sum(sample_var_good), sum(sample_var_bad)
from rollup_minute group by service, env, at;

-- What was retried, by what the first retry was decided on: an exchange belongs to
-- one row, so rows add up to the upstream's. Its requests are rollup_minute.exchanges
-- less synthetic.
create table retry_minute (
    service    text        not null,
    env        text        not null,
    upstream   text        not null,
    status     bigint      not null, -- of the first try; 504 and 502 stand for timeout and dial failure
    reason     text        not null, -- decision_reason
    experiment text        not null,
    at         timestamptz not null,
    retried    bigint      not null default 0, -- exchanges with at least one retry sent
    retries    bigint      not null default 0, -- retries sent
    succeeded  bigint      not null default 0,
    failed     bigint      not null default 0, -- the rest was neither: a 4xx, or the client went away
    primary key (service, env, upstream, status, reason, experiment, at)
) partition by range (at);

create index retry_minute_at on retry_minute (service, env, at);
create table retry_minute_default partition of retry_minute default;

create table retry_day (like retry_minute including defaults including indexes);

-- Counts of a service's minute by one dimension at a time: status, code, upstream
-- endpoint, caller, tenant, gateway, revision. About fifty values a minute and
-- dimension; the rest is under 'other'.
create table facet_minute (
    service   text        not null,
    env       text        not null,
    dimension text        not null,
    value     text        not null,
    at        timestamptz not null,
    good      bigint      not null default 0,
    bad       bigint      not null default 0,
    chaos_bad bigint      not null default 0, -- also in bad
    total     bigint      not null default 0, -- neutral ones too
    primary key (service, env, dimension, value, at)
) partition by range (at);

create index facet_minute_at on facet_minute (service, env, at, dimension);
create table facet_minute_default partition of facet_minute default with (fillfactor = 70);

-- Sums by hour and by day of UTC, the same keys and counts. Always recomputed
-- from minutes, never added to.
create table rollup_hour (like rollup_minute including defaults) partition by range (at); -- by month
alter table rollup_hour drop column revision, add primary key (service, env, route, upstream, experiment, at);
create index rollup_hour_scope_at on rollup_hour (service, env, at);
create table rollup_hour_default partition of rollup_hour default;

create table rollup_day (like rollup_hour including defaults including indexes);

-- Hours whose minutes have changed since they were summed, and days whose hours
-- have. Logs without a unique key, as slo_dirty is, so that marking never waits.
-- An hour is summed once it is over: that the running one is here is no arrear.
create table rollup_dirty (
    seq     bigint generated always as identity primary key,
    service text        not null,
    env     text        not null,
    span    text        not null check (span in ('hour', 'day')),
    at      timestamptz not null
);

create index rollup_dirty_at on rollup_dirty (span, at);

-- +goose StatementBegin
create function rollup_mark_dirty() returns trigger language plpgsql as $$
begin
    insert into rollup_dirty (service, env, span, at)
    select distinct service, env, 'hour', date_trunc('hour', at, 'UTC') from touched;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function retry_mark_dirty() returns trigger language plpgsql as $$
begin
    insert into rollup_dirty (service, env, span, at)
    select distinct service, env, 'day', date_trunc('day', at, 'UTC') from touched;
    return null;
end
$$;
-- +goose StatementEnd

create trigger rollup_minute_inserted_mark after insert on rollup_minute
    referencing new table as touched for each statement execute function rollup_mark_dirty();
create trigger rollup_minute_updated_mark after update on rollup_minute
    referencing new table as touched for each statement execute function rollup_mark_dirty();
create trigger retry_minute_inserted_mark after insert on retry_minute
    referencing new table as touched for each statement execute function retry_mark_dirty();
create trigger retry_minute_updated_mark after update on retry_minute
    referencing new table as touched for each statement execute function retry_mark_dirty();

insert into rollup_dirty (service, env, span, at)
select distinct service, env, 'hour', date_trunc('hour', at, 'UTC') from rollup_minute;

-- Events lie in a partition a day, too: seven days are dropped, not deleted.
alter table event rename to event_before;
alter index event_at rename to event_before_at;
alter index event_experiment rename to event_before_experiment;
alter index event_kind rename to event_before_kind;

create table event (like event_before including constraints) partition by range (at);
create index event_at on event (service, at);
create index event_experiment on event (experiment, at) where experiment <> '';
create index event_kind on event (kind, at) where kind <> 'exchange';
create table event_default partition of event default;

insert into event (service, env, at, kind, gateway, experiment, request_id, body)
select service, env, at, kind, gateway, experiment, request_id, body from event_before;

drop table event_before;

-- Of lines that were read in from a file: what the file held up to their end, by
-- hash. Such keys are kept for years: a file can be read again on any later day.
alter table batch add column content text;

drop function ledger_prune(timestamptz);

-- Makes the partition of parent for [lo, hi), unless it is there, and moves what
-- already lies in the default one; reports whether it made one.
-- +goose StatementBegin
create function ledger_partition(parent text, suffix text, lo timestamptz, hi timestamptz, fill int) returns boolean
language plpgsql as $$
declare
    child text := parent || '_' || suffix;
begin
    if to_regclass(child) is not null then
        return false;
    end if;
    execute format('create table %I (like %I including defaults including constraints including indexes) with (fillfactor = %s)', child, parent, fill);
    -- Nobody may put a row of these days into the default partition from here on.
    execute format('lock table %I in access exclusive mode', parent || '_default');
    execute format('with moved as (delete from %I where at >= $1 and at < $2 returning *) insert into %I select * from moved',
        parent || '_default', child) using lo, hi;
    execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, child, lo, hi);
    return true;
end
$$;
-- +goose StatementEnd

-- Drops partitions of parent that end at or before an instant, and deletes what
-- lies before another in the default one; returns how many partitions went.
-- +goose StatementBegin
create function ledger_drop(parent text, before timestamptz, before_default timestamptz) returns int
language plpgsql as $$
declare
    child text;
    gone int := 0;
begin
    for child in
        select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = parent::regclass
          and (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz <= before
        order by 1
    loop
        execute format('drop table %I', child);
        gone := gone + 1;
    end loop;
    execute format('delete from %I where at < $1', parent || '_default') using before_default;
    return gone;
end
$$;
-- +goose StatementEnd
