package lease

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
)

var _ Table = (*fault.Table)(nil)

// table is a Table that only remembers.
type table struct {
	mu     sync.Mutex
	leases []fault.Lease
	halted bool
}

func (t *table) Replace(now time.Time, leases []fault.Lease) (armed, refused []fault.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leases = nil
	for _, l := range leases {
		s := fault.State{Run: l.Fault.Run, Fault: l.Fault.ID, Hash: l.Hash, PPM: l.Fault.PPM}
		if t.halted || l.Fault.PPM > 500_000 {
			s.Reason = "no"
			refused = append(refused, s)
			continue
		}
		armed = append(armed, s)
		t.leases = append(t.leases, l)
	}
	return armed, refused
}

func (t *table) Halt()   { t.mu.Lock(); t.halted, t.leases = true, nil; t.mu.Unlock() }
func (t *table) Resume() { t.mu.Lock(); t.halted = false; t.mu.Unlock() }

func (t *table) Armed(now time.Time) (out []fault.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		if now.Before(l.Until) {
			out = append(out, fault.State{Run: l.Fault.Run, Fault: l.Fault.ID, Hash: l.Hash, PPM: l.Fault.PPM})
		}
	}
	return out
}

func (t *table) Tallies() []fault.Tally {
	return []fault.Tally{{Run: "run-1", Service: "order", Attempts: 40, Injected: 8}, {Run: "run-0", Service: "coupon", Attempts: 3}}
}

func latency(id string, ppm int64) plan.Leased {
	f := fault.Fault{ID: id, Run: "run-1", Seed: "s", PPM: ppm, Target: fault.Target{Service: "order"}, Kind: fault.Latency, LatencyMS: 50}
	return plan.Leased{Fault: f, TTLMS: plan.FaultTTLMS, Hash: plan.HashOf(f)}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, p plan.Plan) (*http.Response, error) {
	text, err := json.Marshal(p)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(string(text)))}, err
}

// poller runs a Poller in a bubble; each poll is answered by say.
func poller(t *testing.T, tab Table, say roundTrip) *Poller {
	p := New(Config{
		URL: "http://control", Token: "secret", Table: tab, Client: &http.Client{Transport: say},
		Log:     slog.New(slog.DiscardHandler),
		Receipt: func() plan.Receipt { return plan.Receipt{Gateway: "gw"} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = p.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

func TestALeaseCountsFromWhenThePollWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := &table{}
		start := time.Now()
		polls := 0
		poller(t, tab, func(r *http.Request) (*http.Response, error) {
			if polls++; polls > 1 { // control dies
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			time.Sleep(4 * time.Second) // a slow answer must not lengthen the lease
			return answer(200, plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{latency("f", 1000)}})
		})
		time.Sleep(4*time.Second + time.Millisecond)
		synctest.Wait()
		if n := len(tab.Armed(time.Now())); n != 1 {
			t.Fatalf("%d faults armed after the answer", n)
		}
		// A second before what is promised, which is 15 s.
		if len(tab.Armed(start.Add(14*time.Second-1))) != 1 || len(tab.Armed(start.Add(14*time.Second))) != 0 {
			t.Error("the fault does not end 14 s after the poll was sent")
		}
	})
}

func TestEachAnsweredPollRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := &table{}
		first := true
		p := poller(t, tab, func(*http.Request) (*http.Response, error) {
			if !first {
				time.Sleep(5 * time.Second)
			}
			first = false
			return answer(200, plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{latency("f", 1000)}})
		})
		time.Sleep(10 * time.Minute)
		if n := len(p.Stats().Armed); n != 1 {
			t.Errorf("%d faults armed after ten minutes of polls", n)
		}
	})
}

func TestPlansOlderThanTheLastAreRefused(t *testing.T) {
	p := New(Config{Table: &table{}, Log: slog.New(slog.DiscardHandler)})
	for _, tt := range []struct {
		epoch, revision int64
		ok              bool
	}{{3, 7, true}, {3, 7, true}, {3, 6, false}, {2, 9, false}, {3, 8, true}, {4, 1, true}, {3, 99, false}} {
		_, err := p.accept(plan.Plan{Epoch: tt.epoch, Revision: tt.revision}, time.Now())
		if ok := err == nil; ok != tt.ok {
			t.Errorf("plan %d, %d: %v", tt.epoch, tt.revision, err)
		}
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	tab := &table{}
	p := New(Config{Table: tab, Log: slog.New(slog.DiscardHandler)})
	noTTL, otherHash, longTTL := latency("no-ttl", 1), latency("other-hash", 1), latency("long", 1)
	noTTL.TTLMS = 0
	otherHash.Fault.LatencyMS = 9999 // as if a field were lost on the way
	longTTL.TTLMS = 3_600_000
	sent := time.Now()
	_, err := p.accept(plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{
		latency("good", 1), noTTL, otherHash, latency("over-cap", 600_000), longTTL,
	}}, sent)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Stats()
	if len(s.Armed) != 2 || s.Armed[0].Fault != "good" || s.Armed[1].Fault != "long" {
		t.Errorf("armed %+v", s.Armed)
	}
	if len(tab.Armed(sent.Add(14*time.Second))) != 0 {
		t.Error("a lease of an hour was granted")
	}
	if len(s.Refused) != 3 {
		t.Fatalf("refused %+v", s.Refused)
	}
	for i, want := range []string{"ttl", "hash", "no"} {
		if !strings.Contains(s.Refused[i].Reason, want) {
			t.Errorf("refused %+v, want a reason with %q", s.Refused[i], want)
		}
	}
	if r := p.receipt(time.Now()); len(r.Refused) != 3 || len(r.Armed) != 2 || r.Armed[0].Hash != latency("good", 1).Hash {
		t.Errorf("receipt %+v", r)
	}
}

func TestMeasuresOutliveControlByTheirOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		p := poller(t, &table{}, func(r *http.Request) (*http.Response, error) {
			if polls++; polls > 1 {
				return nil, errors.New("control is gone")
			}
			return answer(200, plan.Plan{Epoch: 1, Revision: 1, Measures: []plan.Measure{
				{ID: "m", Kind: "shed", Service: "order", TTLMS: plan.MeasureTTLMS}, {ID: "no-lease", Kind: "shed"},
			}})
		})
		time.Sleep(10*time.Minute - time.Second)
		if m := p.Measures(); len(m) != 1 || m[0].ID != "m" {
			t.Errorf("measures %+v", m)
		}
		if p.Stats().LastError == "" {
			t.Error("/stats does not say that control is gone")
		}
		time.Sleep(2 * time.Second)
		if m := p.Measures(); len(m) != 0 {
			t.Errorf("measures after their lease: %+v", m)
		}
	})
}

func TestReceiptsTellWhatTheGatewayHas(t *testing.T) {
	got := make(chan plan.Receipt, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var receipt plan.Receipt
		if err := json.Unmarshal([]byte(r.Header.Get(plan.ReceiptHeader)), &receipt); err != nil || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("receipt %q: %v", r.Header.Get(plan.ReceiptHeader), err)
		}
		q := r.URL.Query()
		if q.Get("revision") == "0" {
			got <- receipt
			_ = json.NewEncoder(w).Encode(plan.Plan{Epoch: 2, Revision: 5, Faults: []plan.Leased{latency("f", 1000)}})
			return
		}
		if q.Get("epoch") != "2" || q.Get("revision") != "5" || q.Get("wait") != "5s" {
			t.Errorf("query %v", q)
		}
		select {
		case got <- receipt:
		default:
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	p := New(Config{URL: server.URL + "/", Token: "secret", Table: &table{}, Log: slog.New(slog.DiscardHandler), Receipt: func() plan.Receipt {
		return plan.Receipt{Gateway: "gät\x7f\n", Boot: "b", ConfigRevision: "c1", Tallies: []plan.Tally{{Service: "order", Good: 9}, {Run: "run-1", Service: "order", Good: 3, Bad: 1}}}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = p.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()

	<-got
	r := <-got
	if r.Gateway != "gät\x7f\n" || r.Boot != "b" || r.ConfigRevision != "c1" || r.Epoch != 2 || r.Revision != 5 || r.NowMS == 0 {
		t.Errorf("receipt %+v", r)
	}
	if len(r.Armed) != 1 || r.Armed[0].Hash != latency("f", 1000).Hash {
		t.Errorf("armed %+v", r.Armed)
	}
	want := []plan.Tally{{Service: "order", Good: 9}, {Run: "run-1", Service: "order", Good: 3, Bad: 1, Attempts: 40, Injected: 8}, {Run: "run-0", Service: "coupon", Attempts: 3}}
	if len(r.Tallies) != len(want) {
		t.Fatalf("tallies %+v", r.Tallies)
	}
	for i := range want {
		if r.Tallies[i] != want[i] {
			t.Errorf("tally %+v, want %+v", r.Tallies[i], want[i])
		}
	}
}

// An abort answers the poll that hangs; nobody waits for the next one.
func TestAnAbortReachesTheTableWithinASecond(t *testing.T) {
	abort, hanging := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("revision") {
		case "0":
			_ = json.NewEncoder(w).Encode(plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{latency("f", 1000)}})
		case "1":
			close(hanging)
			<-abort
			_ = json.NewEncoder(w).Encode(plan.Plan{Epoch: 1, Revision: 2})
		default:
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	tab := &table{}
	p := New(Config{URL: server.URL, Table: tab, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = p.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()

	<-hanging
	if len(tab.Armed(time.Now())) != 1 {
		t.Fatal("the fault was not armed")
	}
	start := time.Now()
	close(abort)
	for len(tab.Armed(time.Now())) > 0 {
		if time.Since(start) > time.Second {
			t.Fatal("still armed after a second")
		}
	}
}

func TestHaltByHandHoldsUntilResume(t *testing.T) {
	tab := &table{}
	p := New(Config{Table: tab, Log: slog.New(slog.DiscardHandler)})
	f := latency("f", 1000)
	if _, err := p.accept(plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{f}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	p.Halt("SIGUSR1")
	if s := p.Stats(); len(s.Armed) != 0 || !s.Halted || s.HaltReason != "SIGUSR1" {
		t.Errorf("%+v", s)
	}
	if _, err := p.accept(plan.Plan{Epoch: 1, Revision: 2, Faults: []plan.Leased{f}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if r := p.receipt(time.Now()); len(r.Armed) != 0 || !r.Halted || len(r.Refused) != 1 {
		t.Errorf("a new fault under halt: %+v", r)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); len(s.Armed) != 1 || s.Halted || len(s.Refused) != 0 {
		t.Errorf("what is still leased was not armed again: %+v", s)
	}
}

func TestTheHaltFileHoldsAsLongAsItExists(t *testing.T) {
	tab := &table{}
	path := filepath.Join(t.TempDir(), "halt")
	p := New(Config{Table: tab, HaltFile: path, Log: slog.New(slog.DiscardHandler)})
	if _, err := p.accept(plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{latency("f", 1000)}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = p.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	until := func(halted bool) {
		t.Helper()
		start := time.Now()
		for p.Stats().Halted != halted {
			if time.Since(start) > 2*time.Second {
				t.Fatalf("halted is not %v within 2 s", halted)
			}
		}
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(true)
	if n := len(p.Stats().Armed); n != 0 {
		t.Errorf("%d faults armed under the file", n)
	}
	if err := p.Resume(); err == nil {
		t.Error("resumed although the file exists")
	}
	p.Halt("admin")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.lookForFile()
	if !p.Stats().Halted {
		t.Error("removing the file took back a halt by hand")
	}
	if err := p.Resume(); err != nil {
		t.Error(err)
	}
	until(false)
	if n := len(p.Stats().Armed); n != 1 {
		t.Errorf("%d faults armed after the file is gone", n)
	}
}

func TestBadAnswersChangeNothingAndAreNotHammered(t *testing.T) {
	for name, say := range map[string]roundTrip{
		"an error":     func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") },
		"unauthorised": func(*http.Request) (*http.Response, error) { return answer(401, plan.Plan{}) },
		"no JSON": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("<html>"))}, nil
		},
		"never waiting": func(*http.Request) (*http.Response, error) { return answer(200, plan.Plan{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				polls := 0
				poller(t, &table{}, func(r *http.Request) (*http.Response, error) { polls++; return say(r) })
				time.Sleep(time.Minute)
				synctest.Wait()
				if polls < 25 || polls > 250 {
					t.Errorf("%d polls in a minute", polls)
				}
			})
		})
	}
}
