package limiter

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
)

func request(peer string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Request.Peer = "GET", peer
	return x
}

func trustsLocal(a netip.Addr) bool { return a.IsLoopback() }

var fine = exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil })

// serve sends x through and returns the refusal, or nil.
func serve(t *testing.T, svc exchange.Service, x *exchange.Exchange) *exchange.Refusal {
	t.Helper()
	err := svc.Serve(x)
	if err == nil {
		return nil
	}
	r, ok := errors.AsType[*exchange.Refusal](err)
	if !ok || r.Policy != "limiter" || r.Status != 429 {
		t.Fatalf("got %v", err)
	}
	return r
}

func layer(cfg Config, d Deps) exchange.Service {
	return Layer(cfg, New(cfg, time.Now()), d)(fine)
}

// R55: requests without a key are denied or go by address; never do they share.
func TestPolicies_R55(t *testing.T) {
	for _, by := range []Key{{By: ByHeader, Header: "X-Tenant"}, {By: ByTenant}, {By: ByCaller}} {
		svc := layer(Config{Rate: Rate{1, time.Hour, 1}, Key: by, Missing: PeerIP}, Deps{})
		for _, peer := range []string{"192.0.2.1", "192.0.2.2"} {
			if r := serve(t, svc, request(peer)); r != nil {
				t.Errorf("%v: %s is refused for what another has used", by, peer)
			}
			if r := serve(t, svc, request(peer)); r == nil || r.Reason != "rate" {
				t.Errorf("%v: %s has no bucket of its own", by, peer)
			}
		}
		// A key that reads like an address is another key.
		named := request("192.0.2.3")
		named.Event.Tenant, named.Event.Caller = "192.0.2.1", "192.0.2.1"
		named.Request.Head.Add("X-Tenant", "192.0.2.1")
		if r := serve(t, svc, named); r != nil {
			t.Errorf("%v: a tenant shares with an address", by)
		}
		deny := layer(Config{Rate: perSecond(1, 10), Key: by, Missing: Deny}, Deps{})
		if r := serve(t, deny, request("192.0.2.1")); r == nil || r.Reason != "missing_key" || r.RetryAfter != 0 {
			t.Errorf("%v: got %+v", by, r)
		}
	}
}

// A caller that is no name is no key either: all such callers are strangers.
func TestAnUnusableNameIsNoKey(t *testing.T) {
	svc := layer(Config{Rate: Rate{1, time.Hour, 1}, Key: Key{By: ByCaller}}, Deps{})
	for _, peer := range []string{"192.0.2.1", "192.0.2.2"} {
		x := request(peer)
		x.Event.Caller = "invalid"
		if r := serve(t, svc, x); r != nil {
			t.Errorf("%s: %+v", peer, r)
		}
	}
}

// R56: Retry-After is the real next slot in whole seconds, and not the period.
func TestPolicies_R56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := layer(Config{Rate: Rate{10, time.Minute, 10}}, Deps{})
		for range 10 {
			if r := serve(t, svc, request("a")); r != nil {
				t.Fatal(r)
			}
		}
		time.Sleep(2 * time.Second)
		if r := serve(t, svc, request("a")); r == nil || r.RetryAfter != 4*time.Second {
			t.Errorf("got %+v, want Retry-After 4", r)
		}
		time.Sleep(3999 * time.Millisecond)
		if r := serve(t, svc, request("a")); r == nil || r.RetryAfter != time.Second {
			t.Errorf("got %+v, want Retry-After 1: a millisecond is a second", r)
		}
		time.Sleep(time.Millisecond)
		if r := serve(t, svc, request("a")); r != nil {
			t.Errorf("the slot that was told is refused: %+v", r)
		}
	})
}

func TestAddresses(t *testing.T) {
	tests := []struct{ name, peer, forwarded, want string }{
		{"a peer", "192.0.2.1", "", "192.0.2.1"},
		{"a stranger's word about others", "192.0.2.1", "198.51.100.1", "192.0.2.1"},
		{"a trusted peer's", "127.0.0.1", "198.51.100.1, 127.0.0.1", "198.51.100.1"},
		{"what the client wrote before it", "127.0.0.1", "6.6.6.6, 198.51.100.1, 127.0.0.1", "198.51.100.1"},
		{"two trusted peers", "127.0.0.1", "198.51.100.1, 127.0.0.2, 127.0.0.1", "198.51.100.1"},
		{"nonsense", "127.0.0.1", "198.51.100.1, x, 127.0.0.1", "127.0.0.1"},
		{"with a port", "127.0.0.1", "198.51.100.1:4711, 127.0.0.1", "198.51.100.1"},
		{"all of one IPv6 network", "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::"},
		{"IPv4 in disguise", "::ffff:192.0.2.1", "", "192.0.2.1"},
	}
	for _, tt := range tests {
		x := request(tt.peer)
		if tt.forwarded != "" {
			x.Request.Head.Add("X-Forwarded-For", tt.forwarded)
		}
		r := Key{By: ByAddress}.reader(PeerIP, Deps{Trusted: trustsLocal})
		v, ok := r.of(x)
		if !ok || v.addr.String() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.name, v.addr, tt.want)
		}
	}
}

// What a request costs is believed only where a trusted peer says it.
func TestCost(t *testing.T) {
	cfg := Config{Rate: Rate{1, time.Hour, 10}, Key: Key{By: ByAddress}, Cost: Cost{Tokens: 2, Header: "X-Cost", Max: 6}}
	for _, tt := range []struct {
		peer, told string
		passes     int // of a fresh bucket of 10
	}{
		{"127.0.0.1", "", 5}, {"127.0.0.1", "5", 2}, {"127.0.0.1", "1", 10}, {"127.0.0.1", "1000", 1},
		{"127.0.0.1", "0", 5}, {"127.0.0.1", "-3", 5}, {"127.0.0.1", "99999999999999999999", 5}, {"127.0.0.1", "x", 5},
		{"192.0.2.1", "1", 5},
	} {
		svc := layer(cfg, Deps{Trusted: trustsLocal})
		passed := 0
		for range 20 {
			x := request(tt.peer)
			if tt.told != "" {
				x.Request.Head.Add("X-Cost", tt.told)
			}
			if serve(t, svc, x) == nil {
				passed++
			}
		}
		if passed != tt.passes {
			t.Errorf("cost %q of %s: %d passed, want %d", tt.told, tt.peer, passed, tt.passes)
		}
	}
}

// Who costs more than a bucket holds is told not to come again.
func TestTooDearForEver(t *testing.T) {
	svc := layer(Config{Rate: perSecond(10, 5), Cost: Cost{Tokens: 6}}, Deps{})
	if r := serve(t, svc, request("a")); r == nil || r.RetryAfter != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestObserveRefusesNothing(t *testing.T) {
	cfg := Config{Rate: Rate{1, time.Hour, 1}, Observe: true}
	l := New(cfg, time.Now())
	svc := Layer(cfg, l, Deps{})(fine)
	for i := range 3 {
		x := request("a")
		x.Observe("breaker:open")
		if err := svc.Serve(x); err != nil || x.Response.Status != 200 {
			t.Fatalf("got %v, %d", err, x.Response.Status)
		}
		if saw := strings.HasSuffix(x.Event.Observed, "breaker:open,limiter:rate"); saw != (i > 0) {
			t.Errorf("request %d observed %q", i, x.Event.Observed)
		}
	}
	if n := l.Stats().Refused["rate"]; n != 2 {
		t.Errorf("%d counted, want 2", n)
	}
}

func TestNoLimitIsNoLayer(t *testing.T) {
	if _, same := Layer(Config{}, New(Config{}, time.Now()), Deps{})(fine).(exchange.Func); !same {
		t.Error("a request pays for a limit that is none")
	}
}

func TestPolicies_V70(t *testing.T) {
	tests := []struct {
		pool int64
		hold time.Duration
		use  int64
		want int64
	}{
		{200, 50 * ms, 1_000_000, 4000}, {200, 50 * ms, 750_000, 3000}, {200, 80 * ms, 750_000, 1875}, {200, 43_700 * time.Microsecond, 750_000, 3432},
	}
	for _, tt := range tests {
		if got, err := Size(tt.pool, tt.hold, tt.use); err != nil || got != tt.want {
			t.Errorf("%+v: got %d, %v", tt, got, err)
		}
	}
	for _, bad := range []struct {
		pool, use int64
		hold      time.Duration
		err       error
	}{{200, 750_000, 0, ErrHold}, {200, 750_000, -ms, ErrHold}, {200, 0, ms, ErrKeep}, {200, 1_000_001, ms, ErrKeep}, {200, -1, ms, ErrKeep}, {0, 1, ms, ErrPool}, {-200, 1, ms, ErrPool}, {1 << 62, 1_000_000, 1, ErrHold}} {
		if n, err := Size(bad.pool, bad.hold, bad.use); !errors.Is(err, bad.err) || n != 0 {
			t.Errorf("%+v: got %d, %v", bad, n, err)
		}
	}
}
