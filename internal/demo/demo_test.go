package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// plain is a gateway without any policy that keeps its own count.
type plain struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[Key]int64
	ids   map[string]int // service and request id
	calls map[string]int // by caller
}

// open starts a shop behind a plain gateway, until the test ends.
func open(t *testing.T, cfg ShopConfig) (*Shop, *plain) {
	t.Helper()
	shop, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &plain{seen: make(map[Key]int64), ids: make(map[string]int), calls: make(map[string]int)}
	turn := 0
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service := strings.Split(r.URL.Path, "/")[1]
		ends := shop.Endpoints(service)
		p.mu.Lock()
		turn++
		to := ends[turn%len(ends)]
		p.mu.Unlock()
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to.Address})
		proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		status := 502
		proxy.ModifyResponse = func(r *http.Response) error { status = r.StatusCode; return nil }
		proxy.ServeHTTP(w, r)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen[Key{service, Answer{Status: status}.Class()}]++
		p.ids[service+" "+r.Header.Get(idHeader)]++
		p.calls[r.Header.Get("X-Caller")]++
	}))
	shop.SetGateway(p.URL)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- shop.Run(ctx) }()
	t.Cleanup(func() {
		p.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("the shop stopped with %v", err)
		}
	})
	return shop, p
}

// until runs traffic until cond holds.
func until(t *testing.T, tr *Traffic, cond func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx) }()
	for !cond() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !cond() {
		t.Fatalf("not within a minute; sent %d", tr.Sent())
	}
}

// Whoever counts at the gateway and whoever counts what came back must agree to
// the unit, order's own calls included.
func TestBookAgreesWithGateway(t *testing.T) {
	book := NewLedger(nil)
	_, p := open(t, ShopConfig{Seed: 7, Ledger: book, OneIn: 50})
	tr := NewTraffic(TrafficConfig{Seed: 7, Gateway: p.URL, Rate: 400, Ledger: book})
	until(t, tr, func() bool { return tr.Sent() >= 800 })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, service := range Services() {
		for _, c := range []Class{Good, Bad, Neutral} {
			if got, want := book.Count(service, c), p.seen[Key{service, c}]; got != want {
				t.Errorf("%s %s: the book has %d, the gateway saw %d", service, c, got, want)
			}
		}
		if book.Count(service, Good) == 0 || book.Count(service, Bad) == 0 {
			t.Errorf("%s: %d good, %d bad: both must occur", service, book.Count(service, Good), book.Count(service, Bad))
		}
		if n := book.Count(service, Unanswered); n != 0 {
			t.Errorf("%s: %d without an answer", service, n)
		}
	}
	for id, n := range p.ids {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	for _, caller := range []string{"web", "app", "partner", "order"} {
		if p.calls[caller] == 0 {
			t.Errorf("caller %s never called: %v", caller, p.calls)
		}
	}
	if tr.Held() != 0 {
		t.Errorf("%d were held back", tr.Held())
	}
}

func post(t *testing.T, base, path, body, id string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(idHeader, id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Whatever happens to points, orders are taken.
func TestOrderSurvivesPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: part of make test, not of make check")
	}
	shop, p := open(t, ShopConfig{Seed: 1, OneIn: -1})
	for _, m := range []Mode{Fine, Failing, Overloaded, HangingUp} {
		if err := shop.Break(Points, m); err != nil {
			t.Fatal(err)
		}
		if got := shop.Mode(Points); got != m {
			t.Fatalf("mode is %s, want %s", got, m)
		}
		later := 0
		for i := range 30 {
			status, body := post(t, p.URL, "/order/orders", `{"sku":"sku-1","user":"u-1","coupon":"code-1"}`, fmt.Sprint(m, i))
			if status != 201 {
				t.Fatalf("points %s: order answers %d %s", m, status, body)
			}
			if strings.Contains(body, "deducted later") {
				later++
			}
		}
		if (later > 0) != (m != Fine) {
			t.Errorf("points %s: %d of 30 orders say that points come later", m, later)
		}
		want := map[Mode]int{Fine: 200, Failing: 500, Overloaded: 503, HangingUp: 502}[m]
		if status, _ := post(t, p.URL, "/points/deduct", `{"user":"u-1"}`, "x"); status != want {
			t.Errorf("points %s answers %d, want %d", m, status, want)
		}
	}
	if err := shop.Break("nobody", Failing); err == nil {
		t.Error("a stranger was broken")
	}
	if err := shop.Break(Points, "sideways"); err == nil {
		t.Error("an unknown mode was taken")
	}
}

func TestShopRefusesNonsense(t *testing.T) {
	_, p := open(t, ShopConfig{OneIn: -1})
	for _, path := range []string{"/order/orders", "/points/deduct", "/inventory/reserve", "/coupon/redeem"} {
		for _, body := range []string{"", "{", "[]", `{"user":7}`, strings.Repeat("x", 2*maxBody)} {
			if status, _ := post(t, p.URL, path, body, "x"); status != 400 {
				t.Errorf("%s with %.20q: got %d, want 400", path, body, status)
			}
		}
	}
}

// Two generators of one seed send the same requests in the same order.
func TestTrafficIsDeterministic(t *testing.T) {
	record := func(seed uint64) []string {
		var mu sync.Mutex
		var got []string
		synctest.Test(t, func(t *testing.T) {
			tr := NewTraffic(TrafficConfig{Seed: seed, Gateway: "http://gateway", Rate: 100})
			tr.client = &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r.Header.Get("X-Request-Id")+" "+r.Header.Get("X-Caller")+" "+r.Method+" "+r.URL.Path)
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			})}
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			if err := tr.Run(ctx); err != nil {
				t.Error(err)
			}
			if n := tr.Sent(); n < 1980 || n > 2020 {
				t.Errorf("sent %d in 20 s at 100 a second", n)
			}
		})
		return got
	}
	a, b, c := record(1), record(1), record(2)
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("one seed sent different requests")
	}
	if strings.Join(a, "\n") == strings.Join(c, "\n") {
		t.Error("two seeds sent the same requests")
	}
}

// A gateway that hangs is asked as often as before; what would be too many at
// once is held and counted.
func TestTrafficIsOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := NewTraffic(TrafficConfig{Gateway: "http://gateway", Rate: 100, InFlight: 500})
		tr.client = &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return nil, fmt.Errorf("hung up")
		})}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if err := tr.Run(ctx); err != nil {
			t.Error(err)
		}
		if tr.Sent() != 500 || tr.Held() < 450 || tr.Held() > 550 {
			t.Errorf("sent %d, held %d, want 500 and about 500", tr.Sent(), tr.Held())
		}
		if n := tr.cfg.Ledger.Total(); n != 0 {
			t.Errorf("%d answers out of nothing", n)
		}
	})
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The standard client sends a GET again on a connection that turned out dead.
// Ours must not: the gateway may have counted the first one.
func TestClientNeverSendsTwice(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("X-Request-Id")]++
		mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/order/dies") {
			panic(http.ErrAbortHandler)
		}
	}))
	defer s.Close()
	client := newClient()
	defer client.CloseIdleConnections()
	for i := range 20 {
		path := "/order/ok"
		if i%2 == 1 { // on the connection that the last one left idle
			path = "/order/dies"
		}
		a := send(t.Context(), client, s.URL, request{method: "GET", path: path, id: fmt.Sprint(i)})
		if (a.Class() == Unanswered) != (i%2 == 1) {
			t.Errorf("%s: %+v", path, a)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("request %s was sent %d times", id, n)
		}
	}
}

func TestOutage(t *testing.T) {
	shop, err := Open(ShopConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer shop.Close()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- Script().Run(t.Context(), shop, slog.New(slog.DiscardHandler)) }()
		for _, step := range []struct {
			at   time.Duration
			want Mode
		}{{89 * time.Second, Fine}, {91 * time.Second, Failing}, {169 * time.Second, Failing}, {171 * time.Second, Fine}} {
			time.Sleep(step.at - time.Since(began))
			synctest.Wait()
			if got := shop.Mode(Points); got != step.want {
				t.Errorf("after %v points is %s, want %s", step.at, got, step.want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // stopped in the middle: healed
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Second)
		defer stop()
		if err := Script().Run(ctx, shop, slog.New(slog.DiscardHandler)); err != nil || shop.Mode(Points) != Fine {
			t.Errorf("left %s, %v", shop.Mode(Points), err)
		}
	})
}
