package mirror_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/mirror"
	"breakwater/gateway/policy/retry"
	"breakwater/internal/retrylog"
)

// results counts what became of copies.
type results struct {
	mu   sync.Mutex
	seen map[mirror.Result]int
}

func (r *results) count(what mirror.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[mirror.Result]int{}
	}
	r.seen[what]++
}

func (r *results) of(what mirror.Result) int { r.mu.Lock(); defer r.mu.Unlock(); return r.seen[what] }

// shadow remembers what it was asked.
type shadow struct {
	mu     sync.Mutex
	asked  []string // method, target and body
	marked []string
	then   func(x *exchange.Exchange) error
}

func (s *shadow) Serve(x *exchange.Exchange) error {
	body, err := io.ReadAll(&x.Request.Body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.asked = append(s.asked, x.Request.Method+" "+x.Request.Path+" "+string(body))
	s.marked = append(s.marked, x.Request.Head.Get(mirror.Header)+" "+x.Request.Head.Get("X-Tenant"))
	s.mu.Unlock()
	x.Response.Status = 200
	if s.then != nil {
		return s.then(x)
	}
	return nil
}

func (s *shadow) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func request(body io.Reader, length int64) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Request.Path = "POST", "/orders"
	x.Request.Head.Add("X-Tenant", "vip")
	x.Request.Body.Set(body, length)
	x.Event.RequestID, x.Event.Route = "id-1", "order-create"
	return x
}

// primary reads the body in pieces, as a wire does, and answers.
func primary(got *bytes.Buffer) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		got.Reset()
		if _, err := io.CopyBuffer(struct{ io.Writer }{got}, struct{ io.Reader }{&x.Request.Body}, make([]byte, 1000)); err != nil {
			return err
		}
		x.Response.Status = 200
		return nil
	})
}

func always(max int64) mirror.Config {
	return mirror.Config{PPM: 1_000_000, MaxBody: max, Rand: func() float64 { return .999999 }}
}

func TestMirror(t *testing.T) {
	text := strings.Repeat("0123456789", 500)
	tests := []struct {
		name   string
		body   io.Reader
		length int64
		keep   bool // read beforehand, as small bodies are
		max    int64
		copied bool
		result mirror.Result
	}{
		{"no body", nil, 0, false, 10, true, mirror.Answered},
		{"a body in memory", strings.NewReader(text), 5000, true, 5000, true, mirror.Answered},
		{"one in memory that is too big", strings.NewReader(text), -1, true, 4999, false, mirror.TooBig},
		{"a body on its way", strings.NewReader(text), 5000, false, 5000, true, mirror.Answered},
		{"a body of unknown length", strings.NewReader(text), -1, false, 5000, true, mirror.Answered},
		{"a length that is too big", strings.NewReader(text), 5000, false, 4999, false, mirror.TooBig},
		{"a body that turns out too big", strings.NewReader(text), -1, false, 4999, false, mirror.TooBig},
		{"a body that breaks off", io.MultiReader(strings.NewReader(text), broken{}), -1, false, 10_000, false, mirror.Incomplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen results
				var got bytes.Buffer
				q, s := mirror.NewQueue(mirror.Limits{}, seen.count), new(shadow)
				x := request(tt.body, tt.length)
				if tt.keep {
					x.Request.Body.Keep(1 << 20)
					if _, err := io.Copy(io.Discard, &x.Request.Body); err != nil || x.Request.Body.Rewind() != nil {
						t.Fatal(err)
					}
				}
				err := mirror.Layer(always(tt.max), q, s)(primary(&got)).Serve(x)
				x.End(exchange.Classify(err, x.Response.Status))
				synctest.Wait()
				want := ""
				if tt.body != nil {
					want = text
				}
				if got.String() != want && tt.result != mirror.Incomplete {
					t.Errorf("the upstream got %d bytes, want %d", got.Len(), len(want))
				}
				if asked := s.all(); tt.copied != (len(asked) == 1) || tt.copied && asked[0] != "POST /orders "+want {
					t.Errorf("the shadow was asked %d times, %.40q", len(asked), asked)
				}
				if tt.copied && s.marked[0] != "order-create vip" {
					t.Errorf("the copy is marked %q", s.marked[0])
				}
				if len(seen.seen) != 1 || seen.of(tt.result) != 1 {
					t.Errorf("results %v, want one %s", seen.seen, tt.result)
				}
				q.Close()
				if st := q.Stats(); st != (mirror.Stats{}) {
					t.Errorf("left over: %+v", st)
				}
			})
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut") }

// A request is mirrored once, however many tries it takes.
func TestMirrorOverRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen results
		q, s, calls := mirror.NewQueue(mirror.Limits{}, seen.count), new(shadow), 0
		fails := exchange.Func(func(x *exchange.Exchange) error {
			calls++
			x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: "a:1"})
			if _, err := io.Copy(io.Discard, &x.Request.Body); err != nil {
				return err
			}
			x.Response.Status = 502
			return nil
		})
		policy := retry.Config{Enabled: true, MaxRetries: 2, PerTry: time.Second, OnStatus: []int{502}, BackoffBase: time.Millisecond, Idempotent: true}
		svc := exchange.Chain(fails, mirror.Layer(always(1000), q, s), retry.Layer(policy, retry.Deps{Endpoints: 1}))
		x := request(strings.NewReader("hello"), 5)
		if err := svc.Serve(x); err != nil {
			t.Fatal(err)
		}
		x.End(retrylog.UpstreamFailure)
		synctest.Wait()
		if got := s.all(); calls != 3 || len(got) != 1 || got[0] != "POST /orders hello" {
			t.Errorf("%d tries and copies %q, want 3 and one", calls, got)
		}
		q.Close()
	})
}

func TestMirrorShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen results
		var got bytes.Buffer
		q, s, n := mirror.NewQueue(mirror.Limits{Length: 1000}, seen.count), new(shadow), 0
		cfg := mirror.Config{PPM: 125_000, Rand: func() float64 { n++; return float64(n%1000) / 1000 }}
		svc := mirror.Layer(cfg, q, s)(primary(&got))
		for range 1000 {
			x := request(nil, 0)
			if err := svc.Serve(x); err != nil {
				t.Fatal(err)
			}
			x.End(retrylog.OK)
		}
		synctest.Wait()
		if len(s.all()) != 125 {
			t.Errorf("%d of 1000 were mirrored, want 125", len(s.all()))
		}
		q.Close()
	})
}

// A shadow that hangs costs traffic nothing: copies beyond the queue are dropped
// and counted, and the gateway can stop.
func TestMirrorBounded(t *testing.T) {
	hang := func(x *exchange.Exchange) error { return x.Wait(time.Hour, nil) }
	tests := []struct {
		name   string
		limits mirror.Limits
		full   int
		closed int
	}{
		{"by their number", mirror.Limits{Length: 3, Workers: 2}, 15, 3},
		{"by their bytes", mirror.Limits{Length: 100, Workers: 2, Bytes: 7 * 100}, 13, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen results
				var got bytes.Buffer
				q, s := mirror.NewQueue(tt.limits, seen.count), &shadow{then: hang}
				svc := mirror.Layer(always(1000), q, s)(primary(&got))
				start := time.Now()
				for range 20 {
					x := request(strings.NewReader(strings.Repeat("x", 100)), 100)
					if err := svc.Serve(x); err != nil {
						t.Fatal(err)
					}
					x.End(retrylog.OK)
					synctest.Wait() // workers take what they can
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("traffic waited %v for the mirror", took)
				}
				if st := q.Stats(); st.Sending != 2 || st.Waiting != tt.closed {
					t.Errorf("queue is %+v", st)
				}
				q.Close()
				if seen.of(mirror.Full) != tt.full || seen.of(mirror.Failed) != 2 || seen.of(mirror.Closed) != tt.closed {
					t.Errorf("results %v, want %d full, 2 failed, %d closed", seen.seen, tt.full, tt.closed)
				}
				x := request(nil, 0)
				if err := svc.Serve(x); err != nil || seen.of(mirror.Closed) != tt.closed+1 {
					t.Errorf("after the close: %v, %v", err, seen.seen)
				}
				x.End(retrylog.OK)
				if st := q.Stats(); st != (mirror.Stats{}) {
					t.Errorf("left over: %+v", st)
				}
			})
		})
	}
}

// A panic on the way of a copy costs that copy, and the next one is sent.
func TestMirrorPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen results
		var got bytes.Buffer
		q := mirror.NewQueue(mirror.Limits{Workers: 1}, seen.count)
		s := &shadow{then: func(x *exchange.Exchange) error {
			if x.Event.RequestID == "bad" {
				panic("a bug")
			}
			return nil
		}}
		svc := mirror.Layer(always(1000), q, s)(primary(&got))
		for _, id := range []string{"bad", "good"} {
			x := request(nil, 0)
			x.Event.RequestID = id
			if err := svc.Serve(x); err != nil {
				t.Fatal(err)
			}
			x.End(retrylog.OK)
		}
		synctest.Wait()
		if seen.of(mirror.Failed) != 1 || seen.of(mirror.Answered) != 1 {
			t.Errorf("results %v, want one failed and one answered", seen.seen)
		}
		q.Close()
	})
}

// R62: a body over the cap goes to the upstream whole, its copy is skipped and
// counted; an upgrade is not mirrored at all.
func TestPolicies_R62(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 10 << 20
		var seen results
		var got bytes.Buffer
		q, s := mirror.NewQueue(mirror.Limits{}, seen.count), new(shadow)
		svc := mirror.Layer(always(1<<20), q, s)(primary(&got))
		for _, length := range []int64{size, -1} {
			x := request(bytes.NewReader(make([]byte, size)), length)
			if err := svc.Serve(x); err != nil || got.Len() != size {
				t.Errorf("the upstream got %d bytes, %v, want %d", got.Len(), err, size)
			}
			x.End(retrylog.OK)
		}
		x := request(nil, 0)
		x.Request.Method, x.Request.Upgrade = "GET", "websocket"
		if err := svc.Serve(x); err != nil {
			t.Error(err)
		}
		x.End(retrylog.OK)
		synctest.Wait()
		if len(s.all()) != 0 || seen.of(mirror.TooBig) != 2 || seen.of(mirror.Upgrade) != 1 {
			t.Errorf("%d copies, results %v, want none, two too big, one upgrade", len(s.all()), seen.seen)
		}
		q.Close()
	})
}
