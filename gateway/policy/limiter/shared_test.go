package limiter

import (
	"errors"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// central is a store whose tokens the test counts and whose failures it chooses.
type central struct {
	mu     sync.Mutex
	tokens int64
	err    error
	asks   []Ask
	during func() // while the answer is under way
	waited time.Duration
}

func (c *central) Take(a Ask) (Grant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, a)
	if c.during != nil {
		c.during()
	}
	if c.err != nil {
		return Grant{Waited: c.waited}, c.err
	}
	c.tokens = max(c.tokens-a.Owed, 0)
	if c.tokens < a.Need {
		return Grant{Retry: 3 * time.Second}, nil
	}
	got := min(c.tokens, a.Want)
	c.tokens -= got
	return Grant{Got: got}, nil
}

func quotaOf(rate Rate, c *central) (*Shared, *[]retrylog.Transition) {
	var told []retrylog.Transition
	s := NewShared(QuotaConfig{Name: "q", Rate: rate, Key: Key{By: ByTenant}, Replicas: 2}, c, func(t retrylog.Transition) { told = append(told, t) }, epoch)
	return s, &told
}

func take(s *Shared, cost, ms int64) Verdict {
	v, _ := s.Take(tenant(1), cost, at(ms), MaxWait)
	return v
}

// A busy key asks for tokens in advance; all that is given out was paid for.
func TestLease(t *testing.T) {
	c := &central{tokens: 1000}
	s, _ := quotaOf(perSecond(1000, 1000), c)
	passed := 0
	for i := range int64(1000) {
		if take(s, 1, i/10).OK {
			passed++
		}
	}
	if passed != 1000 || c.tokens < 0 || len(c.asks) > 95 {
		t.Errorf("%d passed by %d calls, %d tokens left", passed, len(c.asks), c.tokens)
	}
	if take(s, 1, 101).OK && c.tokens == 0 {
		t.Error("a token out of nothing")
	}
	if a := c.asks[0]; a.Key != "q:tenant:tenant-1" || a.Need != 1 || a.Want != 11 || a.Wait != MaxWait {
		t.Errorf("asked %+v", a)
	}
}

// The local share knows what was used by tokens taken in advance.
func TestTheShareKnowsLeases(t *testing.T) {
	c := &central{tokens: 1000}
	s, _ := quotaOf(perSecond(1000, 1000), c)
	for range 11 {
		take(s, 1, 0)
	}
	c.err = ErrAway
	passed := 0
	for take(s, 1, 0).OK {
		passed++
	}
	if len(c.asks) != 1+passed+1 || passed != 500-11 {
		t.Errorf("%d passed of a share of 500 of which 11 were used, by %d calls", passed, len(c.asks))
	}
}

// A slow quota is asked for each request: there is nothing to take in advance.
func TestASlowQuotaIsExact(t *testing.T) {
	c := &central{tokens: 10}
	s, _ := quotaOf(Rate{10, time.Minute, 10}, c)
	for range 5 {
		take(s, 2, 0)
	}
	if len(c.asks) != 5 || c.tokens != 0 || c.asks[0].Want != 2 {
		t.Errorf("%d calls, %d left, first %+v", len(c.asks), c.tokens, c.asks[0])
	}
}

// What is not used in time is nobody's.
func TestALeaseEnds(t *testing.T) {
	c := &central{tokens: 11}
	s, _ := quotaOf(perSecond(1000, 1000), c)
	take(s, 1, 0)
	if !take(s, 1, 999).OK || take(s, 1, 1000).OK {
		t.Error("a lease does not last one second")
	}
}

// A refusal is remembered until the slot it names, for requests that cost as much.
func TestARefusalIsRemembered(t *testing.T) {
	c := &central{tokens: 1}
	s, _ := quotaOf(Rate{10, time.Minute, 10}, c)
	if v := take(s, 2, 0); v.OK || v.Retry != 3*time.Second {
		t.Errorf("got %+v", v)
	}
	if v := take(s, 2, 1000); v.OK || v.Retry != 2*time.Second || len(c.asks) != 1 {
		t.Errorf("got %+v after %d calls", v, len(c.asks))
	}
	if v := take(s, 1, 1000); !v.OK || len(c.asks) != 2 {
		t.Errorf("a cheaper one: %+v", v)
	}
	if take(s, 2, 3000); len(c.asks) != 3 {
		t.Error("the slot has come, and nobody asks")
	}
}

// Away, the share of this gateway rules, beginning with what was used before; back,
// what was given out meanwhile goes first.
func TestAwayAndBack(t *testing.T) {
	c := &central{tokens: 40}
	s, told := quotaOf(Rate{40, time.Hour, 40}, c)
	for range 15 {
		take(s, 1, 0)
	}
	c.err = ErrBusy
	if !take(s, 1, 0).OK || len(*told) != 0 {
		t.Error("a store that is slow once is no transition")
	}
	c.err = ErrAway
	passed := 0
	for range 40 {
		if take(s, 1, 0).OK {
			passed++
		}
	}
	if passed != 4 {
		t.Errorf("%d passed of the local share of 20, of which 16 were used", passed)
	}
	if st := s.Stats(at(0)); st.State != "local_share" || st.LocalPassed != 5 || st.LocalRefused != 36 || st.Busy != 1 || st.Skipped != 40 {
		t.Errorf("%+v", st)
	}
	c.err = nil
	if !take(s, 1, 0).OK || c.asks[len(c.asks)-1].Owed != 5 || c.tokens != 40-15-5-1 {
		t.Errorf("back: %+v, %d left", c.asks[len(c.asks)-1], c.tokens)
	}
	take(s, 1, 0)
	if c.asks[len(c.asks)-1].Owed != 0 {
		t.Error("a debt is paid twice")
	}
	want := []retrylog.Transition{
		{Policy: "quota", Upstream: "q", From: "shared", To: "local_share", Reason: ErrAway.Error()},
		{Policy: "quota", Upstream: "q", From: "local_share", To: "shared", Reason: "store answers"},
	}
	if len(*told) != 2 || (*told)[0] != want[0] || (*told)[1] != want[1] {
		t.Errorf("told %+v", *told)
	}
}

// A debt of long ago is settled by what has come in since.
func TestAnOldDebtIsForgiven(t *testing.T) {
	c := &central{tokens: 40, err: ErrAway}
	s, _ := quotaOf(perSecond(10, 10), c)
	for range 5 {
		take(s, 1, 0)
	}
	c.err = nil
	take(s, 1, 1000)
	if owed := c.asks[len(c.asks)-1].Owed; owed != 0 {
		t.Errorf("%d owed after a second, in which the share is full again", owed)
	}
}

// A request dearer than the share may take the whole of it, and one dearer than the
// quota nothing, store or not.
func TestDearRequestsWhileAway(t *testing.T) {
	s, _ := quotaOf(Rate{40, time.Hour, 40}, &central{err: ErrAway})
	if v := take(s, 41, 0); v.OK || v.Retry != 0 {
		t.Errorf("got %+v", v)
	}
	if !take(s, 30, 0).OK || take(s, 1, 0).OK {
		t.Error("30 of a share of 20 must pass once, and leave nothing")
	}
}

// What the quota refuses goes back into the local bucket, and the other way round
// the quota is not asked.
func TestTheTokenGoesBack(t *testing.T) {
	c := &central{tokens: 0}
	s, _ := quotaOf(Rate{40, time.Hour, 40}, c)
	cfg := Config{Rate: Rate{1, time.Hour, 5}, Quota: "q", Cost: Cost{Tokens: 2}}
	l := New(cfg, epoch)
	svc := Layer(cfg, l, Deps{Shared: s})(fine)
	send := func() *exchange.Refusal {
		x := request("a")
		x.Event.Tenant, x.Event.Start = "tenant-1", at(0)
		return serve(t, svc, x)
	}
	for range 5 {
		if r := send(); r == nil || r.Reason != "quota" || r.RetryAfter != 3*time.Second {
			t.Fatalf("got %+v", r)
		}
	}
	c.tokens = 100
	s.Reconfigure(QuotaConfig{Name: "q", Rate: Rate{40, time.Hour, 41}, Key: Key{By: ByTenant}}, c, at(0)) // forgets the refusal
	for i := range 3 {
		if r := send(); (r == nil) != (i < 2) || r != nil && r.Reason != "rate" {
			t.Errorf("request %d of cost 2 and a bucket of 5: %+v", i, r)
		}
	}
	if n := len(c.asks); n != 3 {
		t.Errorf("%d calls, want one refused and two granted", n)
	}
}

func TestClosedAndMissingKey(t *testing.T) {
	c := &central{err: errors.New("down")}
	cfg := QuotaConfig{Name: "q", Rate: perSecond(10, 10), Key: Key{By: ByTenant}, Missing: Deny, OnError: Closed}
	s := NewShared(cfg, c, nil, epoch)
	svc := layer(Config{Quota: "q"}, Deps{Shared: s})
	x := request("192.0.2.1")
	if r := serve(t, svc, x); r == nil || r.Reason != "missing_key" {
		t.Errorf("got %+v", r)
	}
	x.Event.Tenant = "t"
	if r := serve(t, svc, x); r == nil || r.Reason != "quota_away" || r.RetryAfter != time.Second {
		t.Errorf("got %+v", r)
	}
}

// Keys that somebody invents cost the gateway bounded memory here too.
func TestLeasesAreBounded(t *testing.T) {
	c := &central{tokens: 1 << 40}
	s := NewShared(QuotaConfig{Name: "q", Rate: perSecond(1000, 1000), Key: Key{By: ByTenant}, MaxKeys: 640}, c, nil, epoch)
	for i := range 20_000 {
		if v, _ := s.Take(tenant(i), 1, at(int64(i/100)), MaxWait); !v.OK {
			t.Fatal("a stranger is refused for want of memory")
		}
		c.asks = c.asks[:0]
	}
	if n := s.Stats(at(200)).Keys; n > 640 {
		t.Errorf("%d leases, want at most 640", n)
	}
	s.Tick(at(5000))
	if n := s.Stats(at(5000)).Keys; n != 0 {
		t.Errorf("%d leases that are over", n)
	}
}

// Two requests of one key at the same time do not both take in advance.
func TestOneTakesInAdvance(t *testing.T) {
	c := &central{tokens: 1000}
	s, _ := quotaOf(perSecond(1000, 1000), c)
	other := Ask{}
	c.during = func() {
		c.during = nil
		c.mu.Unlock()
		take(s, 1, 0)
		c.mu.Lock()
		other = c.asks[1]
	}
	take(s, 1, 0)
	if c.asks[0].Want != 11 || other.Want != 1 {
		t.Errorf("asked for %d and %d", c.asks[0].Want, other.Want)
	}
}

// Whoever waited in vain is judged by the time it is then.
func TestTheWaitCounts(t *testing.T) {
	c := &central{err: ErrBusy}
	s, _ := quotaOf(perSecond(40, 2), c) // a share of 20 a second, one at once
	if !take(s, 1, 0).OK || take(s, 1, 10).OK {
		t.Fatal("the share is not what it should be")
	}
	c.waited = 40 * time.Millisecond
	if !take(s, 1, 10).OK {
		t.Error("refused for a token that came while it waited")
	}
}
