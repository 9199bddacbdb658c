-- +goose Up
-- Who asked the gate. Decisions are read newest first over all services too.
alter table gate_decision add column asked_by text not null default ''; -- empty: written before it was kept

create index gate_decision_when on gate_decision (at desc, id);
