-- +goose Up

-- Pages ask what all services did in the last hour or six. Rows come in the order of
-- time, so a few bytes for each block say which blocks can have them; the keys begin
-- with the service and would be read whole. Autovacuum sums new blocks up: what it has
-- not got to is read, and that is little.
create index rollup_minute_lately on rollup_minute using brin (at) with (pages_per_range = 16, autosummarize = on);
create index service_minute_lately on service_minute using brin (at) with (pages_per_range = 16, autosummarize = on);
create index retry_minute_lately on retry_minute using brin (at) with (pages_per_range = 16, autosummarize = on);
create index facet_minute_lately on facet_minute using brin (at) with (pages_per_range = 16, autosummarize = on);

-- Whom a service called: it stands as the caller in the facets of others.
create index facet_minute_caller on facet_minute (value, at) where dimension = 'caller';

-- What experiments touched, which is little of all there is.
create index rollup_minute_touched on rollup_minute (service, env, at) where experiment <> '';

-- Why requests failed here, and were not tried again, of all services.
create index facet_minute_why on facet_minute (dimension, at) where dimension in ('kind', 'skip');

-- How ready services were is shown for a quarter of all of them: the counts alone.
alter table readiness_day add column yes int, add column no int, add column items int;
update readiness_day d set (yes, no, items) = (
    select count(*) filter (where value = 'yes'), count(*) filter (where value = 'no'), count(*) from jsonb_each_text(d.states));
alter table readiness_day alter column yes set not null, alter column no set not null, alter column items set not null;

-- Gives a day of service_minute that is over for good an index that holds what forecasts
-- read; reports whether it did. Rows that come all the same wait while it is made.
-- +goose StatementBegin
create function ledger_settle(child text) returns boolean
language plpgsql as $$
begin
    if to_regclass(child) is null or to_regclass(child || '_whole') is not null then
        return false;
    end if;
    execute format('create index %I on %I (service, env, at) include (good, bad, chaos_bad)', child || '_whole', child);
    return true;
end
$$;
-- +goose StatementEnd
