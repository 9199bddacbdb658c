package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/slo/gate"
)

// telling is a control that notes what it is told and answers as one does.
func telling(t *testing.T, answers map[string]string) (address string, told *[]string) {
	t.Helper()
	told = new([]string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*told = append(*told, r.Method+" "+r.URL.Path+" "+string(body))
		text, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, told
}

func TestAPipelineTellsOfItsDeploy(t *testing.T) {
	for what, tt := range map[string]struct {
		answer, wants, says string
	}{
		"begin":  {`{"id":"dp-1","service":"order","ref":"abc","until":"2026-03-10T12:30:00Z"}`, `"phase":"begin"`, "dp-1"},
		"end":    {`{"ended":1}`, `"outcome":"succeeded"`, "its slot is free"},
		"failed": {`{"ended":0}`, `"outcome":"failed"`, "it held no slot"},
	} {
		control, told := telling(t, map[string]string{"/api/v1/events/deploys": tt.answer})
		r := verb(t, "", "gate", "order", "--env", "prod", "--ref", "abc", "--tell", what, "--control", control)
		r.want(t, exitOK)
		if len(*told) != 1 || !strings.Contains((*told)[0], tt.wants) || !strings.Contains((*told)[0], `"env":"prod"`) || !strings.Contains(r.out, tt.says) {
			t.Errorf("%s: told %q, said %q", what, *told, r.out)
		}
	}
	control, told := telling(t, nil)
	verb(t, "", "gate", "order", "--tell", "end", "--control", control).want(t, exitUsage)
	verb(t, "", "gate", "order", "--ref", "abc", "--tell", "middle", "--control", control).want(t, exitUsage)
	if len(*told) != 0 {
		t.Errorf("told %q", *told)
	}
}

func TestWhoHoldsSlotsAndWhoPassedIsListed(t *testing.T) {
	control, _ := telling(t, map[string]string{
		"/api/v1/freezes":  `{"freezes":[]}`,
		"/api/v1/measures": `{"measures":[]}`,
		"/api/v1/deploys": `{"caps":[{"service":"order","env":"prod","policy":"shop","at_most":1,"taken":1,"text":"at most 1 deploy at the same time"}],` +
			`"deploys":[{"id":"dp-1","service":"order","env":"prod","ref":"abc","by":"ci","begun_at":"2026-03-10T12:00:00Z","until":"9999-03-10T12:30:00Z"},` +
			`{"id":"dp-0","service":"order","ref":"old","by":"ci","begun_at":"2026-03-10T12:00:00Z","until":"2026-03-10T12:30:00Z","ended_at":"2026-03-10T12:10:00Z","outcome":"succeeded"}]}`,
		"/api/v1/freezes/overrides": `{"quarters":[{"quarter":"Q1 2026","asked":3,"granted":2,"used":5,"revoked":1,"people":[{"who":"ann","asked":3,"used":5}]}]}`,
	})
	r := verb(t, "", "freeze", "ls", "--control", control)
	r.want(t, exitOK)
	if !strings.Contains(r.out, "1 of 1 taken") || !strings.Contains(r.out, "dp-1") || strings.Contains(r.out, "dp-0") {
		t.Errorf("said %q", r.out)
	}
	r = verb(t, "", "freeze", "overrides", "--control", control)
	r.want(t, exitOK)
	if !strings.Contains(r.out, "Q1 2026") || !strings.Contains(r.out, "ann") {
		t.Errorf("said %q", r.out)
	}
	r = verb(t, "", "freeze", "overrides", "--control", control, "-o", "json")
	r.want(t, exitOK)
	if !json.Valid([]byte(r.out)) {
		t.Errorf("said %q", r.out)
	}
}

// A pipeline waits for a slot as for a thaw, and is told who holds it.
func TestGateWaitsForASlot(t *testing.T) {
	set, asked := waiting(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		text := `{"decision":"hold","reason_code":"deploy_slots_taken","reasons":["no slot is free: v1 of order (ci)"],"slot":{"at_most":1,"over":"service","policy":"shop","holders":[{"id":"dp-1","ref":"v1"}]}}`
		if n > 2 {
			text = `{"decision":"allow","reason_code":"budget_ok","slot":{"id":"dp-2","at_most":1,"holders":[]}}`
		}
		_, _ = io.WriteString(w, text)
	})
	var said bytes.Buffer
	d, err := new(gateMemory).askGate(t.Context(), streams{err: &said}, set, gate.Request{Service: "order", Ref: "v2"}, time.Minute, time.Millisecond)
	if err != nil || d.Decision != gate.Allow || d.Slot == nil || d.Slot.ID != "dp-2" || asked.Load() != 3 || strings.Count(said.String(), "deploy_slots_taken") != 1 {
		t.Errorf("%+v, %v, asked %d times, said %q", d, err, asked.Load(), said.String())
	}
}
