package quota

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/quota/redistest"
)

var long = flag.Bool("long", false, "run for as long as the specification says")

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// patient is a store that is never away: for what is not about time.
func patient(t testing.TB, r *redistest.Server) *Store {
	return open(t, Config{URL: r.URL(), Budget: 5 * time.Second, Late: 5 * time.Second})
}

func take(t testing.TB, q limiter.Quota, key string, need, want int64) limiter.Grant {
	t.Helper()
	g, err := q.Take(limiter.Ask{Key: key, Need: need, Want: want, Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTokensComeFromOneBucket(t *testing.T) {
	r := redistest.Start(t)
	// Two gateways, and so slow a rate that nothing comes in meanwhile.
	rate := limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 10}
	a, b := patient(t, r).Quota(rate), patient(t, r).Quota(rate)
	if g := take(t, a, "k", 3, 8); g.Got != 8 {
		t.Errorf("got %+v, want 8: they are there", g)
	}
	if g := take(t, b, "k", 3, 8); g.Got != 0 || g.Retry < 59*time.Minute || g.Retry > time.Hour {
		t.Errorf("got %+v, want none: 2 are left, and the third comes in an hour", g)
	}
	if g := take(t, b, "k", 1, 8); g.Got != 2 {
		t.Errorf("got %+v, want the 2 that are left", g)
	}
	if g := take(t, b, "other", 1, 1); g.Got != 1 {
		t.Errorf("another key: %+v", g)
	}
	// What was given out without the store goes first.
	owed := limiter.Ask{Key: "third", Need: 1, Want: 10, Owed: 7, Wait: 5 * time.Second}
	if g, err := a.Take(owed); err != nil || g.Got != 3 {
		t.Errorf("got %+v, %v, want 3 of 10 where 7 are owed", g, err)
	}
}

// A bucket in the store lives until it is full, and no longer.
func TestTheStoreForgetsFullBuckets(t *testing.T) {
	r := redistest.Start(t)
	q := patient(t, r).Quota(limiter.Rate{Tokens: 1, Per: time.Minute, Burst: 10})
	take(t, q, "k", 4, 4)
	var ttl int
	if _, err := fmt.Sscanf(r.Do("PTTL", prefix+"k"), ":%d", &ttl); err != nil || ttl < 4*60_000 || ttl > 4*60_000+2000 {
		t.Errorf("lives for %d ms (%v), want four minutes and a little", ttl, err)
	}
	take(t, q, "full", 1, 1)
	q2 := patient(t, r).Quota(limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 20})
	if g := take(t, q2, "k", 1, 20); g.Got != 6 {
		t.Errorf("at another rate: got %d tokens, want the 6 there were", g.Got)
	}
}

// The script is gone (restart, SCRIPT FLUSH): it is sent again, and nobody notices.
func TestReliability_FlushedScripts(t *testing.T) {
	r := redistest.Start(t)
	s := patient(t, r)
	q := s.Quota(limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 1000})
	for i := range 5 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if g, err := q.Take(limiter.Ask{Key: "k", Need: 1, Want: 1, Wait: 5 * time.Second}); err != nil || g.Got != 1 {
					t.Errorf("got %+v, %v", g, err)
				}
			})
		}
		all.Wait()
		if st := s.Stats(time.Now()); st.Reloaded != int64(i+1) || st.Failed != 0 {
			t.Errorf("round %d: %+v", i, st)
		}
		r.Do("SCRIPT", "FLUSH")
	}
	if g := take(t, q, "k", 1, 1000); g.Got != 900 {
		t.Errorf("%d tokens are left, want 900", g.Got)
	}
}

// The script against exact arithmetic, with a clock of the test's own: steps, jumps
// back within and beyond what counts as another server, changes of rate.
func TestScriptModel(t *testing.T) {
	r := redistest.Start(t)
	timed := strings.Replace(script, "redis.call('TIME')", "{tonumber(ARGV[8]), tonumber(ARGV[9])}", 1)
	// Keys live by the server's own clock, of which this test knows nothing.
	lasting := strings.Replace(timed, ", 'PX', string.format('%.0f', ttl)", "", 1)
	if timed == script || lasting == timed {
		t.Fatal("the script reads another clock, or sets another life")
	}
	s := patient(t, r)
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 12 {
		rate := limiter.Rate{Tokens: rng.Int64N(3000) + 1, Per: []time.Duration{time.Second, time.Minute, 10 * time.Second, 24 * time.Hour}[rng.IntN(4)], Burst: rng.Int64N(50) + 1}
		if round == 0 {
			rate = limiter.Rate{Tokens: 999_983, Per: 24 * time.Hour, Burst: 999_979}
		}
		u := unitsOf(rate)
		var m exact
		now := int64(1_780_000_000_000_000) + rng.Int64N(1_000_000_000)
		for step := range 250 {
			switch rng.IntN(20) {
			case 0:
				now -= rng.Int64N(900_000) // the same server's clock was set back a little
			case 1:
				now -= 3_600_000_000 // a failover to a server that is an hour late
			default:
				now += rng.Int64N(2*int64(rate.Per/time.Microsecond)/rate.Tokens + 2)
			}
			need := rng.Int64N(3) + 1
			want, owed := need+rng.Int64N(4), max(rng.Int64N(20)-17, 0)
			got := m.take(u, now, need, want, owed)
			reply, err := s.client.Eval(t.Context(), lasting, []string{fmt.Sprint("model-", round)}, u.rate, u.price, u.full, u.unit,
				need, want, owed, now/1_000_000, now%1_000_000).Int64Slice()
			if err != nil {
				t.Fatal(err)
			}
			if reply[0] != got[0] || reply[1] != got[1] {
				t.Fatalf("round %d %+v, step %d: got %v, want %v", round, rate, step, reply, got)
			}
		}
	}
}

// exact is the bucket in numbers without end. A refusal leaves it as it was.
type exact struct {
	level, last *big.Int
}

func (m *exact) take(u units, micros, need, want, owed int64) [2]int64 {
	num := big.NewInt
	now, price := num(micros/u.unit), num(u.price)
	level, last, kept := num(u.full), now, owed > 0
	if m.level != nil {
		level, last = new(big.Int).Set(m.level), m.last
	}
	if new(big.Int).Sub(last, now).Cmp(num(1_000_000/u.unit)) > 0 {
		last, kept = now, true
	}
	if now.Cmp(last) > 0 {
		gain := new(big.Int).Sub(now, last)
		level.Add(level, gain.Mul(gain, num(u.rate)))
		last = now
	}
	if level.Cmp(num(u.full)) > 0 {
		level = num(u.full)
	}
	level.Sub(level, new(big.Int).Mul(num(owed), price))
	if level.Sign() < 0 {
		level = num(0)
	}
	cost := new(big.Int).Mul(num(need), price)
	out := [2]int64{}
	if level.Cmp(cost) < 0 {
		short := cost.Sub(cost, level)
		short.Add(short, num(u.rate-1)).Div(short, num(u.rate))
		out[1] = short.Int64() * u.unit
	} else {
		n := new(big.Int).Div(level, price)
		if n.Cmp(num(want)) > 0 {
			n = num(want)
		}
		level.Sub(level, new(big.Int).Mul(n, price))
		out[0], kept = n.Int64(), true
	}
	if kept {
		m.level, m.last = level, last
	}
	return out
}

// Whatever the rate, the script's numbers are exact, and mean that rate.
func FuzzUnits(f *testing.F) {
	f.Add(int64(1000), int64(1), int64(1000))
	f.Add(int64(999_983), int64(86400), int64(1_000_000))
	f.Fuzz(func(t *testing.T, tokens, seconds, burst int64) {
		r := limiter.Rate{Tokens: tokens, Per: time.Duration(seconds) * time.Second, Burst: burst}
		if tokens < 1 || tokens > limiter.MaxTokens || seconds < 1 || seconds > 86400 || burst < 1 || burst > limiter.MaxBurst {
			return
		}
		u := unitsOf(r)
		if u.full >= 1<<52 || u.full != u.price*burst {
			t.Fatalf("%+v: %+v", r, u)
		}
		// tokens a time: rate parts a tick, price parts a token.
		ticks := seconds * 1_000_000 / u.unit
		if u.rate*ticks != tokens*u.price {
			t.Fatalf("%+v: %+v is another rate", r, u)
		}
	})
}

func TestOpenRefusesNonsense(t *testing.T) {
	for _, url := range []string{"", "http://x", "redis://x:port"} {
		if s, err := Open(Config{URL: url}); err == nil {
			_ = s.Close()
			t.Errorf("%q is opened", url)
		}
	}
}

func TestPasswordAndDial(t *testing.T) {
	r := redistest.Start(t)
	r.Do("CONFIG", "SET", "requirepass", "secret")
	rate := limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 10}
	dials := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	right := open(t, Config{URL: r.URL(), Password: "secret", Budget: 5 * time.Second, Late: 5 * time.Second, Dial: dial})
	if g := take(t, right.Quota(rate), "k", 1, 1); g.Got != 1 || dials != 1 {
		t.Errorf("got %+v after %d dials", g, dials)
	}
	wrong := open(t, Config{URL: r.URL(), Budget: 5 * time.Second, Late: 5 * time.Second})
	if _, err := wrong.Quota(rate).Take(limiter.Ask{Key: "k", Need: 1, Want: 1, Wait: 5 * time.Second}); err == nil || errors.Is(err, limiter.ErrBusy) {
		t.Errorf("without a password: %v", err)
	}
}

func TestCloseIsTheEnd(t *testing.T) {
	r := redistest.Start(t)
	s := patient(t, r)
	q := s.Quota(limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 10})
	take(t, q, "k", 1, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Take(limiter.Ask{Key: "k", Need: 1, Want: 1, Wait: time.Second}); !errors.Is(err, limiter.ErrAway) {
		t.Errorf("got %v", err)
	}
}
