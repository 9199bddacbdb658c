package balance

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

const tau = 10 * time.Second

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s is %.4f, want %.4f", what, got, want)
	}
}

func TestPolicies_V40_V41_V42_V46(t *testing.T) {
	tests := []struct {
		name   string
		stored float64 // ms, at 0
		after  float64 // s
		sample float64 // ms
		want   float64 // ms
	}{
		{"V-40 a better sample lowers it by its age", 30, 1, 5, 27.621},
		{"V-41 a worse sample raises it at once", 27.621, 1, 500, 500},
		{"V-42 a better one is mixed with the decayed value", 500, 5, 10, 307.200},
		{"V-46 and compared with the decayed value", 500, 23.03, 100, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := Average{float64(ms(tt.stored)), epoch}
			a.Observe(tau, at(tt.after), ms(tt.sample))
			near(t, "average", a.value/1e6, tt.want, 0.001)
		})
	}
	a := Average{float64(ms(500)), epoch}
	near(t, "V-42: 500 ms read after 5 s", a.Read(tau, at(5))/1e6, 303.265, 0.001)
	near(t, "and read once more", a.Read(tau, at(5))/1e6, 303.265, 0.001)
}

func TestPolicies_V43(t *testing.T) {
	tests := []struct{ from, to, after float64 }{{500, 50, 23.03}, {5000, 20, 55.2}}
	for _, tt := range tests {
		a := Average{float64(ms(tt.from)), epoch}
		near(t, "average", a.Read(tau, at(tt.after))/1e6, tt.to, tt.to*0.002)
	}
}

// known makes an endpoint with a stored average and some tries in flight.
func known(address string, average float64, pending int64) *Endpoint {
	e := newEndpoint(address, Average{float64(ms(average)), epoch})
	e.inFlight.Store(pending)
	return e
}

// draws returns the values one after the other.
func draws(values ...float64) func() float64 {
	return func() float64 {
		v := values[0]
		values = append(values[1:], v)
		return v
	}
}

func TestPick(t *testing.T) {
	cfg := Config{Tau: tau, Rand: draws(0, 0)} // the first two, in order
	tests := []struct {
		name  string
		from  []*Endpoint
		tries []retrylog.Try
		now   time.Time
		want  string
	}{
		{"V-44 latency and load multiply", []*Endpoint{known("a", 20, 4), known("b", 45, 1)}, nil, epoch, "b"},
		{"V-45 an idle slow one still loses", []*Endpoint{
			newEndpoint("a", Average{float64(ms(100)), at(10)}), known("c", 500, 0)}, nil, at(10), "a"},
		{"a tie goes to the first draw", []*Endpoint{known("a", 20, 0), known("b", 20, 0)}, nil, epoch, "a"},
		{"the only one is taken as it is", []*Endpoint{known("a", 5000, 99)}, nil, epoch, "a"},
		{"one already tried is left out", []*Endpoint{known("a", 1, 0), known("b", 5000, 9)},
			[]retrylog.Try{{Endpoint: "a"}}, epoch, "b"},
		{"unless all were", []*Endpoint{known("a", 1, 0), known("b", 5000, 9)},
			[]retrylog.Try{{Endpoint: "a"}, {Endpoint: "b"}}, epoch, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Pick(&cfg, tt.from, tt.tries, tt.now); got == nil || got.Address != tt.want {
				t.Errorf("picked %+v, want %s", got, tt.want)
			}
		})
	}
	if got := Pick(&cfg, nil, nil, epoch); got != nil {
		t.Errorf("picked %s out of none", got.Address)
	}
	near(t, "V-44: cost of a", known("a", 20, 4).Cost(&cfg, epoch)/1e6, 100, 0.001)
	near(t, "V-44: cost of b", known("b", 45, 1).Cost(&cfg, epoch)/1e6, 90, 0.001)
	near(t, "V-45: c after 10 s", known("c", 500, 0).Cost(&cfg, at(10))/1e6, 183.94, 0.001)
}

func TestPickDrawsDistinctAndEven(t *testing.T) {
	// Every pair of draws of a fine grid: no pair is the same endpoint twice, and
	// each of three equal endpoints is first equally often.
	from := []*Endpoint{known("a", 20, 0), known("b", 20, 0), known("c", 20, 0)}
	counts := map[string]int{}
	for i := range 30 {
		for j := range 30 {
			cfg := Config{Tau: tau, Rand: draws(float64(i)/30, float64(j)/30)}
			counts[Pick(&cfg, from, nil, epoch).Address]++
		}
	}
	for _, e := range from {
		if counts[e.Address] != 300 {
			t.Errorf("%s was picked %d times of 900, want 300", e.Address, counts[e.Address])
		}
	}
}

func TestObserve(t *testing.T) {
	cfg := Config{Tau: tau}
	tests := []struct {
		name string
		r    Result
		want float64 // ms
	}{
		{"a fast error repels", Result{Outcome: retrylog.UpstreamFailure, Status: 503, Took: ms(1)}, 5000},
		{"so does a 429", Result{Outcome: retrylog.OK, Status: 429, Took: ms(1)}, 5000},
		{"a timeout counts what it took", Result{Outcome: retrylog.Timeout, Took: ms(8000)}, 8000},
		{"Retry-After counts", Result{Outcome: retrylog.UpstreamFailure, RetryAfter: 20 * time.Second}, 20000},
		{"up to a point", Result{Outcome: retrylog.UpstreamFailure, RetryAfter: time.Hour}, 300000},
		{"a client that left never lowers", Result{Outcome: retrylog.ClientAbort, Took: ms(1)}, 100},
		{"but raises", Result{Outcome: retrylog.ClientAbort, Took: ms(900)}, 900},
		{"a refusal of ours says nothing", Result{Outcome: retrylog.LocalRefusal, Took: ms(900)}, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := known("a", 100, 0)
			e.Observe(&cfg, epoch, tt.r)
			near(t, "average", e.average.read(tau, epoch)/1e6, tt.want, max(0.001, tt.want*1e-6)) // of 24 bits
		})
	}
}

func TestSlowStart(t *testing.T) {
	cfg := Config{Endpoints: []string{"a"}, Tau: tau, SlowStart: 10 * time.Second}
	p := NewPool()
	first := p.Endpoints(cfg, epoch)[0]
	p.Keep(cfg.Endpoints)
	cfg.Endpoints = []string{"a", "b"}
	both := p.Endpoints(cfg, epoch)
	if both[0].node != first.node {
		t.Error("a reload forgot an endpoint")
	}
	if a, b := both[0].Cost(&cfg, epoch), both[1].Cost(&cfg, epoch); b < 9.9*a {
		t.Errorf("a new endpoint costs %.0f beside %.0f, want ten times as much", b, a)
	}
	if a, b := both[0].Cost(&cfg, at(10)), both[1].Cost(&cfg, at(10)); a != b {
		t.Errorf("after the slow start it costs %.0f beside %.0f", b, a)
	}
	p.Keep([]string{"b"})
	if s := p.Stats(epoch); len(s) != 1 || s[0].Address != "b" {
		t.Errorf("kept %v, want only b", s)
	}
}

func TestLayer(t *testing.T) {
	broken := &exchange.UpstreamError{Kind: exchange.Dial}
	synctest.Test(t, func(t *testing.T) {
		p := NewPool()
		cfg := Config{Endpoints: []string{"a:1", "b:1"}, Rand: draws(0, 0)}
		calls := 0
		inner := exchange.Func(func(x *exchange.Exchange) error {
			calls++
			time.Sleep(20 * time.Millisecond)
			if calls == 1 {
				return broken
			}
			x.Response.Status = 200
			return nil
		})
		svc := Layer(cfg, p)(inner)
		x := new(exchange.Exchange)
		if err := svc.Serve(x); !errors.Is(err, error(broken)) {
			t.Fatalf("got %v, want %v", err, broken)
		}
		if err := svc.Serve(x); err != nil {
			t.Fatal(err)
		}
		tries := x.Event.Tries
		if len(tries) != 2 || tries[0].Kind != "dial" || tries[1].Status != 200 ||
			tries[0].Endpoint == tries[1].Endpoint || tries[1].LatencyUS != 20000 {
			t.Errorf("tries are %+v", tries)
		}
		states := p.Endpoints(cfg, time.Now())
		if n := states[0].InFlight() + states[1].InFlight(); n != 1 {
			t.Errorf("%d in flight while one body is open, want 1", n)
		}
		x.End(retrylog.OK)
		if n := states[0].InFlight() + states[1].InFlight(); n != 0 {
			t.Errorf("%d in flight after the end, want 0", n)
		}
	})
}
