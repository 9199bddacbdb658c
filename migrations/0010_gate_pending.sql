-- +goose Up
-- Runs and commits that wait at GitHub for a decision of the gate.
create table gate_pending (
    key        text        primary key, -- names the effect: what is told twice waits once
    body       jsonb       not null,    -- dialect.Pending
    created_at timestamptz not null,
    due_at     timestamptz not null,
    lease      timestamptz, -- somebody is at it until then
    done_at    timestamptz,
    outcome    text        not null default '' check (outcome in ('', 'approved', 'rejected', 'expired', 'gave_up')),
    check ((outcome = '') = (done_at is null))
);

create index gate_pending_due on gate_pending (due_at) where done_at is null;
create index gate_pending_done on gate_pending (done_at) where done_at is not null;
