-- +goose Up
-- How often deploys and incidents changed. Decisions rest on all of some weeks, and are
-- made each second: who kept them knows by this number whether to read them again. It
-- moves within the transaction of the change, so a snapshot has both or neither.
create table slo_cause_moved (
    one boolean primary key default true check (one),
    n   bigint not null
);
insert into slo_cause_moved (n) values (0);

-- +goose StatementBegin
create function slo_cause_moves() returns trigger language plpgsql as $$
begin
    if exists (select from moved) then -- most statements find nothing new
        update slo_cause_moved set n = n + 1;
    end if;
    return null;
end
$$;
-- +goose StatementEnd

create trigger slo_cause_new after insert on slo_cause
    referencing new table as moved for each statement execute function slo_cause_moves();
create trigger slo_cause_changed after update on slo_cause
    referencing new table as moved for each statement execute function slo_cause_moves();
create trigger slo_cause_gone after delete on slo_cause
    referencing old table as moved for each statement execute function slo_cause_moves();
