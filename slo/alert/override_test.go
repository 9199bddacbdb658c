package alert

import (
	"strings"
	"testing"
	"time"
)

// J3: whoever breaks the glass is told of, each time, although people know of the
// freeze; and it ends by itself.
func TestUX_J3_BrokenGlassIsTold(t *testing.T) {
	w := newTown(t, promise(999_500_000), time.Minute)
	for range 60 {
		w.count(1000, 0)
	}
	for range 20 {
		w.count(0, 1000)
		w.look()
	}
	before := len(w.sent) // of the outage
	ask := func(id string, sev Severity) Symptom {
		return Symptom{Service: "order", Env: "prod", Class: Override, Tier: L2, Key: "override:" + id, Severity: sev, Text: id + " asks"}
	}
	steps := []struct {
		name string
		now  []Symptom
		want string // of what is sent anew
	}{
		{"asked for", []Symptom{ask("o-1", Ticket)}, "opened ticket override"},
		{"still asked for", []Symptom{ask("o-1", Ticket)}, ""},
		{"granted", []Symptom{ask("o-1", Freeze)}, "escalated freeze override"},
		{"another one", []Symptom{ask("o-1", Freeze), ask("o-2", Ticket)}, "opened freeze override"},
		{"one is over", []Symptom{ask("o-2", Ticket)}, ""},
		{"both are", nil, "resolved freeze override"},
		{"a third, soon after", []Symptom{ask("o-3", Ticket)}, "opened ticket override"},
	}
	for _, s := range steps {
		w.facts = s.now
		w.count(0, 1000)
		w.look()
		var sent []string
		for _, text := range w.sent[before:] {
			if !strings.HasPrefix(text, "update") && strings.HasSuffix(text, string(Override)) {
				sent = append(sent, text)
			}
		}
		before = len(w.sent)
		if got := strings.Join(sent, ", "); got != s.want {
			t.Errorf("%s: told %q, want %q", s.name, got, s.want)
		}
	}
	// It keeps nobody from being told of anything else.
	w = newTown(t, promise(999_500_000), time.Minute)
	for range 60 {
		w.count(1000, 0)
	}
	w.facts = []Symptom{ask("o-1", Freeze)}
	for range 5 {
		w.count(300, 700)
		w.look()
	}
	if got := strings.Join(w.sent, ", "); !strings.Contains(got, "opened page errors") || !strings.Contains(got, "opened freeze override") {
		t.Errorf("told %q", got)
	}
}
