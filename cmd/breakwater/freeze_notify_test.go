package main

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo/alert"
	"breakwater/slo/freeze"
)

func TestWhoBreaksTheGlassIsTold(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	at := now.Add(-time.Minute)
	ask := func(id string, change func(*freeze.Override)) freeze.Override {
		o := freeze.Override{ID: id, Service: "order", Env: "prod", Ref: "sha-a", Reason: "customers cannot pay", Ticket: "INC-7", AskedBy: "ben", AskedAt: at, ExpiresAt: now.Add(time.Hour), MaxUses: 1}
		if change != nil {
			change(&o)
		}
		return o
	}
	granted := func(o *freeze.Override) { o.GrantedBy, o.GrantedAt = "anna", &at }
	got := brokenGlass([]freeze.Override{
		ask("o-1", nil), ask("o-2", func(o *freeze.Override) { o.Env = ""; granted(o) }),
		ask("o-3", func(o *freeze.Override) { granted(o); o.Used = 1 }), ask("o-4", func(o *freeze.Override) { o.RevokedBy, o.RevokedAt = "eve", &at }),
		ask("o-5", func(o *freeze.Override) { o.ExpiresAt = now }),
	}, now)
	if len(got) != 2 {
		t.Fatalf("told of %+v", got)
	}
	if s := got[0]; s.Severity != alert.Ticket || s.Env != "prod" || s.Key != "override:o-1" || !strings.Contains(s.Text, "ben asks to pass the freeze with sha-a until 10 Mar 13:00 UTC, INC-7: customers cannot pay") {
		t.Errorf("asked: %+v", s)
	}
	if s := got[1]; s.Severity != alert.Freeze || s.Env != "all" || s.Class != alert.Override || !strings.HasPrefix(s.Text, "anna let ben pass the freeze") {
		t.Errorf("granted: %+v", s)
	}
}
