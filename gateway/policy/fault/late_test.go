package fault

import (
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
)

// A latency counts from when what it is for came, not from when a busy gateway took
// it up; a tenth of it is made up for at most, and what is left is for the next one.
func TestLatencyMakesUpForTheGatewaysLateness(t *testing.T) {
	for name, tt := range map[string]struct {
		side                   Side
		request, answer, after time.Duration // late, and how long it then has to take
		left                   time.Duration
	}{
		"in time":              {RequestSide, 0, 0, 100 * ms, 0},
		"a late request":       {RequestSide, 3 * ms, 0, 97 * ms, 0},
		"a very late request":  {RequestSide, 64 * ms, 0, 90 * ms, 54 * ms},
		"a late answer":        {ResponseSide, 0, 2 * ms, 98 * ms, 0},
		"both":                 {ResponseSide, 3 * ms, 2 * ms, 95 * ms, 0},
		"the answer comes too": {RequestSide, 3 * ms, 2 * ms, 97 * ms, 2 * ms},
		"on both sides":        {BothSides, 13 * ms, 2 * ms, 185 * ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab, x := NewTable(Caps{}), try("r")
				arm(t, tab, latencyFault(100*ms, func(f *Fault) { f.Side = tt.side }))
				x.Late = tt.request
				up := exchange.Func(func(x *exchange.Exchange) error { x.Late += tt.answer; return good(x) })
				began := time.Now()
				if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(began); got != tt.after || x.Late != tt.left {
					t.Errorf("took %v and left %v, want %v and %v", got, x.Late, tt.after, tt.left)
				}
				if try := x.Try(); try.ActualUS != try.PlannedUS || try.CutShort {
					t.Errorf("planned %d us, were %d; what was made up for belongs to it", try.PlannedUS, try.ActualUS)
				}
			})
		})
	}
}

// Nobody measures how late a gateway is that delays nothing.
func TestDelays(t *testing.T) {
	tab := NewTable(Caps{})
	tell := func(want bool, when string) {
		if got := tab.Delays(); got != want {
			t.Errorf("%s: %v", when, got)
		}
	}
	tell(false, "nothing armed")
	arm(t, tab, errorFault(1))
	tell(false, "an error armed")
	arm(t, tab, errorFault(1), latencyFault(ms))
	tell(true, "a latency too")
	arm(t, tab, errorFault(1))
	tell(false, "taken back")
	arm(t, tab, latencyFault(ms, func(f *Fault) { f.Position, f.Key = AtEdge, "request" }))
	tell(true, "at the edge")
	tab.Halt()
	tell(false, "halted")
}
