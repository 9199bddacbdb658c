-- +goose Up
-- Who asked the gate. Decisions are read newest first over all services too.
alter table gate_decision add column asked_by text not null default ''; -- empty: written before it was kept

create index gate_decision_when on gate_decision (at desc, id);

-- Whoever asks to pass a freeze is told of, like an incident.
alter table alert_incident drop constraint alert_incident_class_check;
alter table alert_incident add constraint alert_incident_class_check check (class in ('errors', 'budget', 'silence', 'cause', 'override'));
