-- +goose Up

-- The ledger of what gateways saw. Every batch of retry-log lines is counted
-- once: its key is the first row of the transaction that adds its counts.
--
-- Names, not numbers, are the keys, and service stands in every key of a fact
-- table, so that the same statements run on range partitions (by at) and on
-- shards (by service).

create table batch (
    gateway     text        not null,
    boot        text        not null,
    seq         bigint      not null,
    env         text        not null,
    from_at     timestamptz not null,
    until_at    timestamptz not null,
    exchanges   bigint      not null, -- counted into minute rows
    lost        bigint      not null, -- what the gateway itself says is missing
    bad_lines   bigint      not null, -- failed their checksum or made no sense
    future      bigint      not null, -- ended more than 2 min ahead of us: set aside
    too_late    bigint      not null, -- ended more than 48 h ago: not counted
    unkept      bigint      not null, -- interesting events beyond what a batch may keep
    received_at timestamptz not null,
    primary key (gateway, boot, seq)
);

-- For ledger_prune alone. A key may go once every event of its batch would be
-- refused as too late: from then on a second sending counts nothing anyway.
create index batch_until_at on batch (until_at);

-- One row a gateway: how far its reports reach. The watermark of an environment is the
-- least until_at over the gateways with not stopped and last_ack within 2 min.
create table gateway (
    env      text        not null,
    gateway  text        not null,
    boot     text        not null, -- of the newest report
    seq      bigint      not null,
    until_at timestamptz not null,
    stopped  boolean     not null, -- in good order: nothing more is expected of it
    last_ack timestamptz not null, -- our clock
    primary key (env, gateway)
);

-- One row a process life of a gateway, for what had to be reported.
create table gateway_boot (
    env      text        not null,
    gateway  text        not null,
    boot     text        not null,
    from_at  timestamptz not null,
    until_at timestamptz not null,
    seq      bigint      not null, -- highest seen
    batches  bigint      not null, -- how many were counted; seq - batches are missing
    stopped  boolean     not null,
    primary key (env, gateway, boot)
);

-- How much of a minute a gateway has reported on, and what it knows to be missing from it.
create table gateway_minute (
    env        text        not null,
    gateway    text        not null,
    at         timestamptz not null,
    covered_us bigint      not null, -- 0 to 60 000 000
    lost       bigint      not null,
    primary key (env, gateway, at)
) with (fillfactor = 80);

create index gateway_minute_at on gateway_minute (env, at);

-- Counts of one minute, bucketed by when exchanges ended. The counters are
-- those of slo.Tally; what a gateway lost has no service, and stands in gateway_minute.
create table rollup_minute (
    service       text        not null, -- '' for what was refused before routing
    env           text        not null,
    route         text        not null,
    upstream      text        not null,
    experiment    text        not null, -- '' where no fault touched it
    at            timestamptz not null,
    good          bigint      not null default 0,
    bad           bigint      not null default 0,
    neutral       bigint      not null default 0,
    throttled     bigint      not null default 0,
    aborted       bigint      not null default 0,
    chaos_bad     bigint      not null default 0,
    first_try_bad bigint      not null default 0,
    exchanges     bigint      not null default 0,
    attempts      bigint      not null default 0,
    retried       bigint      not null default 0,
    recovered     bigint      not null default 0,
    over_limit    bigint      not null default 0,
    dep_timeouts  bigint      not null default 0, -- exchanges with at least one
    degraded      bigint      not null default 0, -- answered by a fallback
    latency_us    bigint      not null default 0, -- sum
    hist          bigint[]    not null default '{}', -- internal/histogram, of valid exchanges
    revision      bigint      not null default 1,  -- rises with every batch that touched the row
    primary key (service, env, route, upstream, experiment, at)
) with (fillfactor = 70); -- the running minute is updated every second: leave room for it in place

-- Exchanges worth looking at one by one (not ok, retried, or touched by an
-- experiment), and every transition, configuration change and notice. A sample
-- with a bound, never the source of a count.
create table event (
    service    text        not null,
    env        text        not null,
    at         timestamptz not null,
    kind       text        not null check (kind in ('exchange', 'transition', 'config', 'notice', 'quarantine')),
    gateway    text        not null,
    experiment text        not null,
    request_id text        not null,
    body       jsonb       not null -- the record as the gateway wrote it
);

create index event_at on event (service, at);
create index event_experiment on event (experiment, at) where experiment <> '';
create index event_kind on event (kind, at) where kind <> 'exchange';

-- Adds two histograms bin by bin; the shorter one is taken as ending in zeros.
-- +goose StatementBegin
create function histogram_add(a bigint[], b bigint[]) returns bigint[]
language sql immutable parallel safe as $$
    select array(
        select coalesce(x, 0) + coalesce(y, 0)
        from unnest(a, b) with ordinality as bins (x, y, i)
        order by i
    )
$$;
-- +goose StatementEnd

create aggregate histogram_sum(bigint[]) (
    sfunc = histogram_add, stype = bigint[], initcond = '{}', parallel = safe, combinefunc = histogram_add
);

-- Coverage of an environment over [since, until): gateway-time reported, gateway-time that
-- should have been reported, and events known to be missing.
--
-- A boot is expected to report from its first batch to its last; where it did not
-- stop in good order, on to the next boot of the same gateway, or else to the end,
-- but for at most a day: then it is taken to be gone for good.
-- coverage = measured_us / expected_us; no gateway at all gives 0 of 0, which is no data.
-- +goose StatementBegin
create function gateway_coverage(in_env text, since timestamptz, until timestamptz,
    out measured_us bigint, out expected_us bigint, out lost bigint)
language sql stable parallel safe as $$
    with life as (
        select b.from_at,
               case when b.stopped then b.until_at
                    else greatest(b.until_at, least(
                        coalesce(lead(b.from_at) over (partition by b.gateway order by b.from_at, b.boot), until),
                        b.until_at + interval '1 day'))
               end as to_at
        from gateway_boot b
        where b.env = in_env
    ), due as (
        select coalesce(sum(extract(epoch from least(to_at, until) - greatest(from_at, since)) * 1000000), 0)::bigint as us
        from life
        where from_at < until and to_at > since
    ), seen as (
        -- the edges are whole minutes or the running one, whose covered_us ends at the watermark
        select coalesce(sum(m.covered_us), 0)::bigint as us, coalesce(sum(m.lost), 0)::bigint as lost
        from gateway_minute m
        where m.env = in_env and m.at >= date_trunc('minute', since) and m.at < until
    )
    select least(seen.us, due.us), due.us, seen.lost from due, seen
$$;
-- +goose StatementEnd

-- Removes what no decision reads any more. To be called now and then with the
-- instant; returns how many rows went. Batch keys outlive the 48 h in which
-- their events would still be counted.
-- +goose StatementBegin
create function ledger_prune(at_instant timestamptz) returns bigint
language sql as $$
    with keys as (
        delete from batch where until_at < at_instant - interval '4 days' returning 1
    ), events as (
        delete from event where at < at_instant - interval '7 days' returning 1
    ), reports as (
        delete from gateway_minute where at < at_instant - interval '35 days' returning 1
    ), boots as (
        delete from gateway_boot where until_at < at_instant - interval '36 days' returning 1
    ), gateways as (
        delete from gateway where until_at < at_instant - interval '36 days' returning 1
    ), minutes as (
        delete from rollup_minute where at < at_instant - interval '35 days' returning 1
    )
    select (select count(*) from keys) + (select count(*) from events) + (select count(*) from reports)
         + (select count(*) from boots) + (select count(*) from gateways) + (select count(*) from minutes)
$$;
-- +goose StatementEnd
