package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"breakwater/internal/reply"
	"breakwater/slo/alert"
)

func (h *house) Incident(_ context.Context, id string) (alert.Incident, []alert.Why, error) {
	if h.broken != nil {
		return alert.Incident{}, nil, h.broken
	}
	for _, i := range h.incidents() {
		if i.ID == id {
			at := i.OpenedAt
			return i, []alert.Why{
				{Incident: id, At: at, Kind: alert.Opened, Receiver: "pagerduty-checkout", Outcome: "sent", Text: "It is sent."},
				{Incident: id, At: at, Kind: alert.Opened, Receiver: "slack-points", Outcome: "no_route", Text: "No AlertRoute names a receiver for it."},
				{Incident: id, At: at.Add(time.Minute), Kind: alert.Escalated, Outcome: "inhibited", Text: "Incident i-201 of the same service tells of worse already."},
			}, nil
		}
	}
	return alert.Incident{}, nil, alert.ErrUnknown
}

func (h *house) Notes(context.Context, alert.Question) ([]alert.Jotting, error) {
	if len(h.statuses) == 0 {
		return nil, h.broken
	}
	return []alert.Jotting{{Service: "payment", Env: "production", Key: "few", Text: "too few requests (3): 1 failed over 1 h, which says too little to call anybody", First: h.now.Add(-time.Hour), Last: h.now.Add(-time.Minute), Count: 14}}, h.broken
}

func (h *house) Silences(context.Context, time.Time, bool) ([]alert.Silence, error) {
	if len(h.statuses) == 0 {
		return nil, h.broken
	}
	ended := h.now.Add(-time.Hour)
	return []alert.Silence{{ID: "s-1", Service: "points", Severity: alert.Ticket, From: h.now.Add(-time.Hour), Until: h.now.Add(3 * time.Hour), By: "anna", Reason: "moving to the new vault, CHG-77"},
		{ID: "s-0", From: h.now.Add(-9 * time.Hour), Until: h.now.Add(time.Hour), By: "ben", Reason: "network work", EndedBy: "ben", EndedAt: &ended}}, h.broken
}

func (h *house) incidents() []alert.Incident {
	if len(h.statuses) == 0 || h.broken != nil {
		return nil
	}
	at, over := h.now.Add(-7*time.Minute), h.now.Add(-26*time.Hour)
	lasting := func(text string) []alert.Lasting {
		return []alert.Lasting{{Symptom: alert.Symptom{Service: "coupon", Env: "production", Class: alert.Errors, Tier: alert.L1, Text: text}, Since: at, Last: h.now.Add(-time.Second)}}
	}
	return []alert.Incident{
		{ID: "i-207", Service: "coupon", Env: "production", Class: alert.Errors, Tier: alert.L1, Severity: alert.Page, Title: "error budget of coupon-availability burns at 38.5× over 1\u202fh and 280× over 5\u202fmin: 2 % of the budget within an hour: somebody must look now",
			OpenedAt: at, LastSeen: h.now.Add(-time.Second), Told: alert.Page, Notified: 1, Symptoms: lasting("error budget of coupon-availability burns at 38.5× over 1\u202fh and 280× over 5\u202fmin: 2 % of the budget within an hour: somebody must look now"), Facts: lasting("breaker of vault is open since 10 Mar 14:20 UTC: 13 of 20 calls failed in 10s (limit 50%)"),
			Context: alert.Context{At: at, Burn: "burns at 38.5× over 1\u202fh and 280× over 5\u202fmin", Left: "−5.6\u202f% of the error budget is left (−1 742 of 31 200)", Bad: 1_790, Total: 13_000, TopCode: "50003: 70\u202f%", LastDeploy: "deploy v1.42.0, 4\u202fmin ago", Protecting: []string{"breaker of vault is open since 10 Mar 14:20 UTC: 13 of 20 calls failed in 10s (limit 50%)"}}},
		{ID: "i-206", Service: "search", Env: "production", Class: alert.Budget, Tier: alert.L1, Severity: alert.Ticket, Title: "error budget of search-availability is nearly spent: 82.4\u202f% of the error budget is spent; emergency begins at 80\u202f%.", OpenedAt: h.now.Add(-5 * time.Hour), LastSeen: h.now, AckedBy: "ben", AckedAt: &at, Told: alert.Ticket, Notified: 2},
		{ID: "i-198", Service: "payment", Env: "production", Class: alert.Causes, Tier: alert.L2, Severity: alert.Note, Title: "payment timeouts at the bank", OpenedAt: over.Add(-25 * time.Minute), LastSeen: over, ClosedAt: &over, Muted: "silence s-0"},
	}
}

// Ack, Silence and Unsilence note what they were asked, as the desk of the API would.
func (h *house) Ack(w http.ResponseWriter, r *http.Request) { h.bell(w, r, "ack "+r.PathValue("id")) }
func (h *house) Silence(w http.ResponseWriter, r *http.Request) {
	h.bell(w, r, "silence")
}
func (h *house) Unsilence(w http.ResponseWriter, r *http.Request) {
	h.bell(w, r, "unsilence "+r.PathValue("id"))
}

func (h *house) bell(w http.ResponseWriter, r *http.Request, what string) {
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(text, &body)
	for _, field := range []string{"note", "reason"} {
		if text, _ := body[field].(string); strings.Contains(text, "refuse") {
			reply.Problem(w, http.StatusConflict, "alert_over", "the incident is over")
			return
		}
	}
	h.stopped = append(h.stopped, r.Method+" "+what+" "+string(text))
	w.WriteHeader(http.StatusCreated)
}
