package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/store"
)

// weeklyDay is a weekly game day in compressed time: short phases, and its due
// instants put into the ledger. It expects tries that are lost to be hidden.
const weeklyDay = `apiVersion: breakwater/v1
kind: Scenario
id: inventory-loses-reads
title: Inventory loses three reads in twenty
target: {service: inventory, routes: [inventory-get]}
sample: {percent: "15%", key: attempt, seed: auto}
phases: {baseline: 12s, inject: 40s, recover: 8s}
faults:
  - {id: lose, error: {status: 502, body: "{\"error\":\"connection lost\"}"}}
hypothesis:
  steady:
    - {id: s1, sli: inventory.success, op: ">=", value: "95%", min_requests: 30}
  during:
    - {id: d1, sli: inventory.error_rate, op: "<=", value: "3%", min_requests: 100}
  after:
    - {id: a1, sli: inventory.success, op: ">=", value: "95%", window: 6s, within: 2m}
stop:
  - {sli: inventory.error_rate, op: ">", value: "60%", for: 30s}
on_fail: {finding: {severity: high, owner: team-inventory, due: 14d}}
---
apiVersion: breakwater/v1
kind: GameDay
name: weekly
title: Weekly drill of the inventory
scenarios: [inventory-loses-reads]
schedule: {cron: "0 10 * * 2", zone: Europe/Berlin}
roles: {commander: anna, scribe: ben}
approvals: 1
remind: 1h
`

// person is a token of the world.
func (w *world) person(name string, role auth.Role) (token string) {
	w.t.Helper()
	token = "secret-of-" + name + "-that-nobody-knows"
	ok, err := store.New(w.db).AddToken(w.t.Context(), auth.Token{Name: name, Role: role, Hash: auth.HashOf(token), CreatedBy: "test", CreatedAt: time.Now()})
	if err != nil || !ok {
		w.t.Fatalf("token of %s: %v, %v", name, ok, err)
	}
	// Control looks for new tokens now and then.
	w.await(name+" is let in", 20*time.Second, func() bool { return w.verb(token, "gameday", "ls").code == exitOK })
	return token
}

// due puts the next due instant of a schedule into the ledger.
func (w *world) due(schedule string, in time.Duration) {
	w.t.Helper()
	done, err := w.db.Exec(w.t.Context(), `update schedule set next_at = date_trunc('second', clock_timestamp()) + make_interval(secs => $2) where id = $1`, schedule, in.Seconds())
	if err != nil || done.RowsAffected() != 1 {
		w.t.Fatalf("make %s due: %v", schedule, err)
	}
}

// verb types a verb to the world's control.
func (w *world) verb(token string, args ...string) ran {
	w.t.Helper()
	return verb(w.t, "", append(args, "--control", w.url["control"], "--token", token)...)
}

// chat is a receiver that keeps what it is told.
type chat struct {
	mu   sync.Mutex
	said []string
}

func (c *chat) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender has gone: it tells again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, string(text))
}

func (c *chat) heard(word string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(strings.Join(c.said, "\n"), word)
}

// editRoute gives a route of the documents another body, from its name to the next one.
func editRoute(t *testing.T, doc []byte, route, from, to string) []byte {
	t.Helper()
	parts := strings.Split(string(doc), "---\n")
	for i, p := range parts {
		if strings.Contains(p, "kind: Route\nname: "+route+"\n") && strings.Contains(p, from) {
			parts[i] = strings.Replace(p, from, to, 1)
			return []byte(strings.Join(parts, "---\n"))
		}
	}
	t.Fatalf("the documents have no route %s with %q", route, from)
	return nil
}

// heldOnce waits for the end of the newest game day of a name.
func (w *world) heldOnce(name string, after time.Time, within time.Duration) heldDay {
	w.t.Helper()
	var out heldDay
	w.await("game day "+name+" is over", within, func() bool {
		var list struct{ Held []heldDay }
		if status, _ := w.request("GET", "control", "/api/v1/gamedays/held", "", nil); status != http.StatusOK {
			return false
		}
		w.request("GET", "control", "/api/v1/gamedays/held", "", &list)
		for _, h := range list.Held {
			if h.Name == name && h.PlannedAt.After(after) && h.State == "ended" {
				out = h
				return true
			}
		}
		return false
	})
	return out
}

// report writes the report of a game day in both forms, where it can be looked at.
func (w *world) report(token, id string) string {
	w.t.Helper()
	dir := os.Getenv("BREAKWATER_REPORTS")
	if dir == "" {
		dir = w.t.TempDir()
	}
	var page []byte
	for _, format := range []string{"md", "html"} {
		file := filepath.Join(dir, id+"."+format)
		w.verb(token, "gameday", "report", id, "--format", format, "--file", file).want(w.t, exitOK)
		text, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		page = text
	}
	return string(page)
}

// TestWeeklyGameDay holds a weekly game day by real processes: reminded of, agreed to
// by a second person, run, a planted weakness found and filed, mended by a change of
// the gateway's documents, looked at again by the next one, closed.
func TestWeeklyGameDay(t *testing.T) {
	if slow(t) {
		return
	}
	people := &chat{}
	receiver := httptest.NewServer(people)
	t.Cleanup(receiver.Close)
	var sound []byte
	w := newWorld(t, worldConfig{oneIn: -1, docs: func(docs map[string][]byte) {
		for name := range docs {
			// Promises would freeze a shop without history at the first failure.
			if name != "gateway.yaml" {
				delete(docs, name)
			}
		}
		sound = docs["gateway.yaml"]
		docs["gateway.yaml"] = editRoute(t, sound, "inventory-get", "enabled: true", "enabled: false")
		docs["drills.yaml"] = []byte(weeklyDay)
		docs["alerts.yaml"] = []byte("apiVersion: breakwater/v1\nkind: AlertRoute\nname: people\nto: [{type: slack, url: \"" + receiver.URL + "\", allow_private: true}]\n")
	}})
	defer w.traffic("weekly", 60)()
	anna, ben := w.person("anna", auth.Approver), w.person("ben", auth.Approver)
	began := time.Now().Add(-time.Minute)

	w.due("weekly", 25*time.Second)
	w.await("people are reminded", 20*time.Second, func() bool {
		return people.heard("Weekly drill of the inventory") && people.heard("approvals missing: 1")
	})
	w.verb(anna, "gameday", "approve", "weekly").want(t, exitUnknown, "does not let this token do that") // she commands it
	w.verb(ben, "gameday", "approve", "weekly").want(t, exitOK)
	first := w.heldOnce("weekly", began, 4*time.Minute)
	page := w.report(ben, first.ID)
	if !strings.Contains(page, `verdict failed`) || !strings.Contains(page, "team-inventory") {
		t.Errorf("the first report does not tell of a failure and its owner:\n%s", clipped(page))
	}
	r := w.verb(ben, "finding", "ls")
	r.want(t, exitOK)
	if !strings.Contains(r.out, "inventory-loses-reads/d1") || !strings.Contains(r.out, "open") {
		t.Fatalf("finding ls says\n%s\nand the report\n%s", r.out, clipped(page))
	}
	id := strings.Fields(strings.Split(r.out, "\n")[1])[0]
	w.await("people are told of the finding", 20*time.Second, func() bool { return people.heard(id) })

	// The fix, then somebody says so; the drill has the last word.
	if err := os.WriteFile(filepath.Join(w.dir, "config", "gateway.yaml"), sound, 0o644); err != nil {
		t.Fatal(err)
	}
	w.verb(w.person("dora", auth.Operator), "finding", "close", id, "--note", "retries of reads are switched on").want(t, exitOK)
	w.due("weekly", 20*time.Second)
	w.verb(ben, "gameday", "approve", "weekly").want(t, exitOK)
	second := w.heldOnce("weekly", first.PlannedAt, 4*time.Minute)
	w.await("the finding is closed", 20*time.Second, func() bool {
		r := w.verb(ben, "finding", "ls", "--state", "verified")
		return strings.Contains(r.out, id)
	})
	if page := w.report(ben, second.ID); !strings.Contains(page, `verdict passed`) || !strings.Contains(page, "verified") {
		t.Errorf("the second report does not tell of a pass and a closed finding:\n%s", clipped(page))
	}
	var rows int
	err := w.db.QueryRow(context.Background(), `select count(*) from audit where action in ('gameday.approve', 'gameday.approve.refused', 'finding.claim')`).Scan(&rows)
	if err != nil || rows != 4 {
		t.Errorf("%d rows in the audit, %v, want 4", rows, err)
	}
}

func clipped(page string) string { return page[:min(len(page), 4000)] }
