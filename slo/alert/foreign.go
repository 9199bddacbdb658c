package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
)

// Foreign is an alert that another system fires.
type Foreign struct {
	Source      string    `json:"source"`
	Fingerprint string    `json:"fingerprint"` // of its labels: with From its identity there
	Service     string    `json:"service"`
	Env         string    `json:"env"`
	Name        string    `json:"name"`
	Tier        Tier      `json:"tier"` // L1 or L2
	Text        string    `json:"text"`
	URL         string    `json:"url,omitempty"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"` // zero: it fires
}

// amNotice is what Alertmanager's webhook receiver sends, version 4: see "webhook_config"
// in its configuration reference.
type amNotice struct {
	Version string `json:"version"`
	Alerts  []struct {
		Status       string            `json:"status"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
		StartsAt     time.Time         `json:"startsAt"`
		EndsAt       time.Time         `json:"endsAt"`
		GeneratorURL string            `json:"generatorURL"`
		Fingerprint  string            `json:"fingerprint"`
	} `json:"alerts"`
	Truncated int64 `json:"truncatedAlerts"`
}

// Skipped is an alert that was not taken, and why.
type Skipped struct {
	Alert string `json:"alert"`
	Why   string `json:"why"`
}

// mostForeign bounds the alerts of one message.
const mostForeign = 1000

// FromAlertmanager reads a message of Alertmanager's webhook. Those that name no
// service are nobody's; those that we sent ourselves would come round and round.
func FromAlertmanager(body []byte, now time.Time) ([]Foreign, []Skipped, error) {
	var n amNotice
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, nil, fmt.Errorf("must be a message of Alertmanager's webhook: %w", err)
	}
	if n.Version != "4" {
		return nil, nil, fmt.Errorf("version: must be 4, got %q", n.Version)
	}
	if len(n.Alerts) > mostForeign {
		return nil, nil, fmt.Errorf("alerts: must be at most %d, got %d: set max_alerts", mostForeign, len(n.Alerts))
	}
	out, skipped := []Foreign{}, []Skipped{}
	for _, a := range n.Alerts {
		f := Foreign{Source: "alertmanager", Fingerprint: a.Fingerprint, Service: a.Labels["service"], Env: first(a.Labels["env"], a.Labels["environment"]),
			Name: a.Labels["alertname"], Tier: tierOf(a.Labels), URL: a.GeneratorURL, From: a.StartsAt.UTC(),
			Text: first(a.Annotations["summary"], a.Annotations["description"], a.Labels["alertname"])}
		if a.Status == "resolved" {
			f.To = a.EndsAt.UTC()
		}
		if why := f.faulty(a.Status, a.Labels, now); why != "" {
			skipped = append(skipped, Skipped{clip(first(f.Name, f.Fingerprint), 200), why})
			continue
		}
		f.Name, f.Text, f.URL = clip(f.Name, 200), clip(f.Text, 500), clip(f.URL, 1000)
		out = append(out, f)
	}
	if n.Truncated > 0 {
		skipped = append(skipped, Skipped{"", fmt.Sprintf("Alertmanager left out %d by max_alerts", n.Truncated)})
	}
	return out, skipped, nil
}

func (f Foreign) faulty(status string, labels map[string]string, now time.Time) string {
	switch {
	case labels["incident"] != "" && strings.HasPrefix(f.Name, "Breakwater"):
		return "it is an incident of ours, sent back"
	case f.Service == "" || len(f.Service) > 200 || len(f.Env) > 63:
		return "it has no label service, or one that is too long"
	case f.Tier == L3:
		return "its label tier is L3: such are only written down, where they come from"
	case f.Tier == L2 && f.Env == "":
		return "it has no label env, so it can join no incident"
	case f.Fingerprint == "" || len(f.Fingerprint) > 200 || f.Name == "":
		return "it has no fingerprint or alertname"
	case status != "firing" && status != "resolved":
		return "its status is neither firing nor resolved"
	case f.From.IsZero() || f.From.After(now.Add(2*time.Minute)) || !f.To.IsZero() && f.To.Before(f.From):
		return "it starts in the future, or ends before it starts"
	}
	return ""
}

// tierOf is what an alert says it is, else by its severity: what pages is what users feel.
func tierOf(labels map[string]string) Tier {
	switch t := Tier(labels["tier"]); t {
	case L1, L2, L3:
		return t
	}
	if s := labels["severity"]; s == "page" || s == "critical" {
		return L1
	}
	return L2
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Lapse is how long a foreign alert is believed to fire without being said again.
// Alertmanager repeats itself each four hours unless told otherwise; one that died
// must not hold a service for ever.
const Lapse = 24 * time.Hour

// ForeignLedger keeps what others fire.
type ForeignLedger interface {
	// HearAlerts keeps alerts: an L1 as an incident that charts and attribution show,
	// an L2 as a fact. Saying one again changes nothing but when it was heard.
	HearAlerts(ctx context.Context, all []Foreign, by string, now time.Time) error
}

// Hear serves POST /api/v1/webhooks/alertmanager.
func (d *Desk) Hear(ledger ForeignLedger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var raw json.RawMessage
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20))
		if err := dec.Decode(&raw); err != nil {
			status := http.StatusBadRequest
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				status = http.StatusRequestEntityTooLarge
			}
			reply.Problem(w, status, "bad_body", err.Error())
			return
		}
		who, now := auth.From(r.Context()), d.now().UTC().Truncate(time.Microsecond)
		all, skipped, err := FromAlertmanager(raw, now)
		if err != nil {
			reply.Problem(w, http.StatusUnprocessableEntity, "bad_message", err.Error())
			return
		}
		mine := []Foreign{}
		for _, f := range all {
			if who.Covers(f.Service) {
				mine = append(mine, f)
			} else {
				skipped = append(skipped, Skipped{f.Name, "the token does not cover " + f.Service})
			}
		}
		if err := ledger.HearAlerts(r.Context(), mine, who.Name, now); err != nil {
			reply.Away(w) // Alertmanager tries again on a 5xx
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"taken": len(mine), "skipped": skipped})
	}
}
