package traffic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

func turn(s int, from, to string) retrylog.Transition {
	return retrylog.Transition{At: at(s), Gateway: "gw-1", Env: "prod", Policy: "breaker", Service: "points", From: from, To: to, Reason: fmt.Sprintf("at %d", s)}
}

func drawn(b Band) string {
	var parts []string
	for _, s := range b.Spans {
		state := s.State
		if state == "" {
			state = "?"
		}
		parts = append(parts, fmt.Sprintf("%s %d-%d", state, int(s.From.Sub(noon).Seconds()), int(s.To.Sub(noon).Seconds())))
	}
	return strings.Join(parts, ", ")
}

func TestBands(t *testing.T) {
	one := []Life{{"prod", "gw-1", at(-1000), at(100)}}
	for _, tt := range []struct {
		name  string
		turns []retrylog.Transition
		lives []Life
		want  string
		state string
		out   int
	}{
		{"at rest until it turns", []retrylog.Transition{turn(10, "closed", "open"), turn(15, "open", "half_open"), turn(16, "half_open", "closed")}, one, "closed 0-10, open 10-15, half_open 15-16, closed 16-100", "closed", 6},
		{"what stood before stands", []retrylog.Transition{turn(-50, "closed", "open")}, one, "open 0-100", "open", 100},
		{"a silent gateway is no data, not closed", []retrylog.Transition{turn(10, "closed", "open")}, []Life{{"prod", "gw-1", at(-10), at(40)}}, "closed 0-10, open 10-40, ? 40-100", "", 30},
		{"a new process begins at rest", []retrylog.Transition{turn(10, "closed", "open")}, []Life{{"prod", "gw-1", at(-10), at(40)}, {"prod", "gw-1", at(50), at(100)}}, "closed 0-10, open 10-40, ? 40-50, closed 50-100", "closed", 30},
		{"a report of some seconds ago is no silence", []retrylog.Transition{turn(10, "closed", "open")}, []Life{{"prod", "gw-1", at(-10), at(90)}}, "closed 0-10, open 10-100", "open", 90},
		{"nobody reported at all", []retrylog.Transition{turn(10, "closed", "open")}, nil, "? 0-100", "", 0},
		{"a life of another environment says nothing", []retrylog.Transition{turn(10, "closed", "open")}, []Life{{"test", "gw-1", at(-10), at(100)}}, "? 0-100", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Bands(tt.turns, tt.lives, nil, at(0), at(100))
			if len(got) != 1 || drawn(got[0]) != tt.want || got[0].State != tt.state || got[0].Out != time.Duration(tt.out)*time.Second {
				t.Errorf("got %q, now %q, out %v; want %q, %q, %d s", drawn(got[0]), got[0].State, got[0].Out, tt.want, tt.state, tt.out)
			}
		})
	}
}

func TestBandsPutTheRestlessFirst(t *testing.T) {
	lives := []Life{{"prod", "gw-1", at(-1000), at(100)}}
	other := turn(20, "closed", "open")
	other.Service = "order"
	known := []Key{{Policy: "breaker", Env: "prod", Gateway: "gw-1", Service: "alpha"}, {Policy: "breaker", Env: "prod", Gateway: "gw-1", Service: "points"}}
	got := Bands([]retrylog.Transition{turn(1, "closed", "open"), turn(90, "open", "closed"), other}, lives, known, at(0), at(100))
	var names []string
	for _, b := range got {
		names = append(names, b.Name())
	}
	if s := strings.Join(names, " "); s != "order points alpha" {
		t.Errorf("the order is %s", s)
	}
}

// Spans of a band touch one another and cover the range, whatever came in.
func TestBandsLeaveNoHole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	states := []string{"closed", "open", "half_open"}
	for range 500 {
		var turns []retrylog.Transition
		for range rng.IntN(8) {
			turns = append(turns, turn(rng.IntN(160)-30, states[rng.IntN(3)], states[rng.IntN(3)]))
		}
		var lives []Life
		for range rng.IntN(3) {
			from := rng.IntN(160) - 30
			lives = append(lives, Life{"prod", "gw-1", at(from), at(from + rng.IntN(60))})
		}
		for _, b := range Bands(turns, lives, []Key{{Policy: "breaker", Env: "prod", Gateway: "gw-1", Service: "points"}}, at(0), at(100)) {
			end := at(0)
			for _, s := range b.Spans {
				if !s.From.Equal(end) || !s.To.After(s.From) {
					t.Fatalf("%s of turns %v, lives %v", drawn(b), turns, lives)
				}
				end = s.To
			}
			if !end.Equal(at(100)) {
				t.Fatalf("%s ends early", drawn(b))
			}
		}
	}
}
