package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is one source of traffic.
type Caller struct {
	Name  string
	Share int // of a hundred
}

// Callers lists those that come from outside; order is the fourth, from within.
func Callers() []Caller { return []Caller{{"web", 55}, {"app", 35}, {"partner", 10}} }

// DefaultRate is how many requests a second the three callers send together.
const DefaultRate = 60

// TrafficConfig shapes Traffic.
type TrafficConfig struct {
	Seed    uint64
	Gateway string  // base URL of the data plane
	Rate    float64 // requests a second of all callers; 0: DefaultRate
	// Prefix begins every request id; two generators that share a ledger need two.
	Prefix string
	Ledger *Ledger // nil: a new one
	// InFlight bounds the requests under way; 0: 2000. What would be more is not
	// sent, and counted in Held.
	InFlight int
}

// Traffic sends requests at their due instants, whether or not earlier ones were
// answered: a slow gateway is not asked less often.
type Traffic struct {
	cfg    TrafficConfig
	client *http.Client
	sent   atomic.Int64
	held   atomic.Int64
}

// NewTraffic returns a Traffic.
func NewTraffic(cfg TrafficConfig) *Traffic {
	if cfg.Rate == 0 {
		cfg.Rate = DefaultRate
	}
	if cfg.InFlight == 0 {
		cfg.InFlight = 2000
	}
	if cfg.Ledger == nil {
		cfg.Ledger = NewLedger(nil)
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "demo"
	}
	return &Traffic{cfg: cfg, client: newClient()}
}

// Sent tells how many requests have been sent, Held how many were due but not
// sent because too many were under way.
func (t *Traffic) Sent() int64 { return t.sent.Load() }

// Held is described at Sent.
func (t *Traffic) Held() int64 { return t.held.Load() }

// Run sends until ctx ends, and returns when the last answer is in the ledger.
func (t *Traffic) Run(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(t.cfg.Seed, 1))
	var wg sync.WaitGroup
	defer t.client.CloseIdleConnections()
	defer wg.Wait()
	permits := make(chan struct{}, t.cfg.InFlight)
	start := time.Now()
	due := time.Duration(0)
	for n := 0; ; n++ {
		// Even gaps with a little play: bursts would hide what the gateway does.
		due += time.Duration((0.5 + rnd.Float64()) / t.cfg.Rate * float64(time.Second))
		req := t.compose(rnd, n)
		if wait := due - time.Since(start); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			}
		} else if ctx.Err() != nil {
			return nil
		}
		select {
		case permits <- struct{}{}:
		default:
			t.held.Add(1)
			continue
		}
		t.sent.Add(1)
		wg.Go(func() {
			defer func() { <-permits }()
			// The end of the demo must not cut a request off: what was sent is
			// either answered or times out.
			t.cfg.Ledger.Add(send(context.WithoutCancel(ctx), t.client, t.cfg.Gateway, req))
		})
	}
}

// compose makes the n-th request.
func (t *Traffic) compose(rnd *rand.Rand, n int) request {
	op := weighted(rnd, Operations(), func(o Operation) int { return o.Weight })
	caller := weighted(rnd, Callers(), func(c Caller) int { return c.Share })
	user := fmt.Sprintf("u-%03d", rnd.IntN(800))
	sku := fmt.Sprintf("sku-%03d", rnd.IntN(500))
	code := fmt.Sprintf("code-%02d", rnd.IntN(40))
	if rnd.IntN(100) < 2 {
		code = "gone-" + code
	}
	r := request{route: op.Route, method: op.Method, path: op.Pattern, caller: caller.Name, id: fmt.Sprintf("%s-%08d", t.cfg.Prefix, n)}
	switch op.Route {
	case "order-create":
		r.body = map[string]any{"sku": sku, "user": user}
		if rnd.IntN(4) == 0 {
			r.body["coupon"] = code
		}
	case "points-deduct":
		r.body = map[string]any{"user": user}
	case "inventory-reserve":
		r.body = map[string]any{"sku": sku}
	case "coupon-redeem":
		r.body = map[string]any{"code": code}
	}
	r.path = strings.NewReplacer("{id}", fmt.Sprintf("order-%06d", rnd.IntN(1_000_000)), "{user}", user, "{sku}", sku, "{code}", code).Replace(r.path)
	return r
}

func weighted[T any](rnd *rand.Rand, from []T, weight func(T) int) T {
	total := 0
	for _, x := range from {
		total += weight(x)
	}
	at := rnd.IntN(total)
	for _, x := range from {
		if at -= weight(x); at < 0 {
			return x
		}
	}
	return from[len(from)-1]
}

// request is one request to the gateway.
type request struct {
	route, method, path, caller string
	id                          string
	trace                       string // X-Request-Id; "": id
	body                        map[string]any
}

// idHeader carries the sender's own id as far as the shop. A gateway makes a new
// X-Request-Id where it does not believe the client's, and what fails by nature
// must not depend on that.
const idHeader = "X-Demo-Id"

func newClient() *http.Client {
	return &http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     30 * time.Second,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send makes one request and tells what came of it.
func send(ctx context.Context, client *http.Client, base string, r request) Answer {
	a := Answer{ID: r.id, Caller: r.caller, Service: strings.Split(r.path, "/")[1], Route: r.route}
	start := time.Now()
	err := r.send(ctx, client, base, &a)
	a.At = time.Now().UTC()
	a.TookUS = a.At.Sub(start).Microseconds()
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

func (r request) send(ctx context.Context, client *http.Client, base string, a *Answer) error {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, body)
	if err != nil {
		return err
	}
	req.Header.Set(idHeader, r.id)
	if r.route == "order-create" {
		req.Header.Set(keyHeader, r.id)
	}
	req.Header.Set("X-Request-Id", cmp.Or(r.trace, r.id))
	req.Header.Set("X-Caller", r.caller)
	req.Header.Set("User-Agent", "breakwater-demo/"+r.caller)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	} else {
		// The transport sends a GET a second time by itself where its connection
		// turns out dead, and our book would not know. It leaves requests alone
		// whose body it cannot have again, be it empty; none goes over the wire.
		req.Body, req.GetBody = io.NopCloser(strings.NewReader("")), nil
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	a.Status, a.GatewayID = resp.StatusCode, resp.Header.Get("X-Request-Id")
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close() // its end, or its error, is known
	return err
}
